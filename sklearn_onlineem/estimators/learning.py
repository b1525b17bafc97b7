"""How estimators learn: the parameters that all of them have, and what solvers get of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.em.schedules import SCHEDULES, named_schedule
from sklearn_onlineem.em.solvers import Auto, Online, Plan, Solver, solvers_for
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Constants, State
from sklearn_onlineem.em.stopping import STOPPING_RULES, StandardErrorStopping
from sklearn_onlineem.estimators.fitted import RELEARNT
from sklearn_onlineem.estimators.parameters import (
    AUTO,
    COUNT,
    COUNT_FROM_0,
    NOT_NEGATIVE,
    POSITIVE,
    Parameterised,
    are_same,
    estimator,
    parameter,
)
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import has_coordinates

# Decay of learning rates by default, and after the settled start of a stream; chosen by
# benchmarks/real_data/streams.py.
_DECAY, _SETTLED_DECAY = 0.6, 0.8
# Numbers of jobs are as in joblib, where 0 has no meaning; C integers count them.
LARGEST_INT = np.iinfo(np.int32).max
N_JOBS = [
    None,
    Interval(Integral, 1, LARGEST_INT, closed="both"),
    Interval(Integral, -LARGEST_INT, -1, closed="both"),
]


@estimator
class LearningParameters(Parameterised):
    """Base of all estimators: solvers, learning rates, passes, threads and reports.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        How `fit` learns. "auto": online EM if `eta0` is a number; if it is "auto", a pass in
        mini-batches, and then batch EM until `tol`; mixtures of 5 components or more take split and
        merge steps, and turns of both if rows are few, see :class:`~sklearn_onlineem.em.Auto`.
        "online": only online EM, at most `max_iter` passes over shuffled mini-batches. "batch":
        batch EM. "stochastic": `max_iter` passes of batch EM that draw the hidden variables; they
        use neither `tol` nor `batch_size`. "bayesian": Bayesian online EM, one pass whose learning
        rates come from the prior and the data. "adaptive": as "auto", and streams need no learning
        rate, see :class:`~sklearn_onlineem.em.Adaptive`. Strings are short for values, which have
        further settings: see :ref:`solvers`.
        `partial_fit` takes an online step, which draws the hidden variables if the solver does, and
        keeps running statistics if it is "bayesian".
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" depends on the number b of observations in a batch, and
        on the number m that determines the model (as many numbers as it has parameters). It is
        ``(b/m)**(1-beta)`` with ``schedule="power"``, and 1 with the others. If the lengths of
        sequences are given, not modelled, rates count rows: time t is 1 plus the rows seen before
        over the rows of the batch, and pieces may have any sizes.
    beta : float or "auto", default="auto"
        Decay of the learning rate, in [0, 1]; the forgetting factor with ``schedule="forgetting"``.
        "auto": 0.8 in streams that start from their first rows, and 1 in those with a sample, see
        :class:`~sklearn_onlineem.em.Online`; 0.6 in others, as from given start values, and in
        `fit`; with "forgetting" the past counts for half after 16 times the rows that determine
        the model.
    schedule : str or callable, default="power"
        "power": ``eta0 / t**beta``; "harmonic": ``1 / (t - 1 + 1 / eta0)``; "constant": ``eta0``;
        "forgetting": batches that are k steps old weigh ``beta**k``; or any callable t -> eta, such
        as :class:`~sklearn_onlineem.em.PowerDecay`.
    batch_size : int, default=1000
        Observations in a mini-batch of `fit`, at most. With ``eta0="auto"``, data of no more
        observations are fitted by batch EM, but for mixtures of few rows, see `solver`.
    max_iter : int or "auto", default="auto"
        Maximum number of passes of `fit` over the data. 0: `fit` only sets the start. "auto": 1000
        of batch EM, and 100 in mini-batches or with draws.
    tol : float or "auto", default="auto"
        "auto": `fit` ends when the parameters are within a tenth of a standard error of a local
        maximum, in root mean square, as a certificate tells: by the score, and by the observed
        information, which has no negative curvature. A number: when `stopping` falls below it, in
        nats per observation; 0 is never, and every pass is one of EM. Laplace distributions, and
        priors that empty components, have no certificate, and the latest gains tell the distance.
        Where they cannot, "auto" is 1e-3, or 1e-2 nats per sequence: with ``stopping="kl"``, for
        passes in mini-batches, and for models without standard errors.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What `fit` compares with a number `tol`: the change of the mean log-likelihood, or the KL
        divergence between the models before and after a pass.
    warm_start : bool, default=False
        Whether `fit` starts from the fitted model. Its first pass is then compared with the last
        one of the previous fit, so that fits of one pass notice convergence, too.
    random_state : int, RandomState instance or None, default=None
        Of starts, of the order of observations in `fit`, of drawn variables, and of `sample`.
    n_jobs : int, default=None
        Number of threads; -1 uses all processors, and None one, unless in a context of
        `joblib.parallel_config`. Results do not depend on it.
    verbose : int, default=0
        From 1 on, `fit` prints each start, every `verbose_interval`-th pass with its mean
        log-likelihood, and why it ended; `partial_fit` prints the first and every
        `verbose_interval`-th update, with the rows read so far.
    verbose_interval : int, default=10
        Passes, or updates of a stream, between messages.
    callbacks : list of callables, default=None
        Each is called after every update with a :class:`~sklearn_onlineem.em.state.Step`, a tuple
        (eta, log_likelihood, kl_divergence, n_rows). Learning rates restart if one returns
        :class:`~sklearn_onlineem.em.Restart`; any other true value ends the fit. A callback with a
        second argument also gets a copy of the estimator, fitted as of that update and without
        callbacks, such as :class:`~sklearn_onlineem.diagnostics.EarlyStopping`. A callback must not
        be a coroutine function, nor call `fit` or `partial_fit` of the estimator itself. If it
        raises, the estimator stays unchanged; other threads see the previous model until the fit
        has ended. Parameters that it sets act from the next call on; the fit is refused if one of
        them shapes the model.
    """

    solver: str | Solver = parameter(default="auto", valid=[StrOptions(solvers_for(Model)), Solver])
    eta0: float | str = parameter(default="auto", valid=[POSITIVE, AUTO])
    beta: float | str = parameter(default="auto", valid=[Interval(Real, 0, 1, closed="both"), AUTO])
    schedule: str | Callable[[float], float] = parameter(
        default="power", valid=[StrOptions(set(SCHEDULES)), callable]
    )
    batch_size: int = parameter(default=1000, valid=[COUNT])
    max_iter: int | str = parameter(default="auto", valid=[COUNT_FROM_0, AUTO])
    tol: float | str = parameter(default="auto", valid=[NOT_NEGATIVE, AUTO])
    stopping: str = parameter(default="likelihood", valid=[StrOptions(set(STOPPING_RULES))])
    warm_start: bool = parameter(default=False, valid=["boolean"])
    random_state: object = parameter(default=None, valid=["random_state"])
    n_jobs: int | None = parameter(default=None, valid=N_JOBS)
    verbose: int = parameter(default=0, valid=["verbose"])
    verbose_interval: int = parameter(default=10, valid=[COUNT])
    callbacks: Sequence[Callable[..., object]] | None = parameter(
        default=None, valid=[None, "array-like"]
    )


class OnlineDefaults(NamedTuple):
    """What a class of estimators does by default in mini-batches and streams."""

    # `tol="auto"` where no pass sees all data at once, in nats per observation.
    tol: float = 1e-3
    # `eta0="auto"` where no settled start of a stream comes before.
    eta0: float | str = "auto"
    # Whether starts of streams are made anew as rows come.
    keeps_first_rows: bool = True


class _Unseeded(ISeedSequence):
    """Zeros for a generator that is seeded afterwards; to draw them takes longer than a pass."""

    def generate_state(self, n_words, dtype=np.uint32):
        return np.zeros(n_words, dtype)


def random_state_of(seed):
    """Return what scikit-learn's `check_random_state` does, in a third of the time."""
    if not isinstance(seed, Integral):
        return check_random_state(seed)
    random_state = np.random.RandomState(np.random.MT19937(_Unseeded()))
    random_state.seed(seed)
    return random_state


def drawn_seed(random_state):
    """Return a seed for NumPy's generators, drawn by what the parameter `random_state` may be."""
    return tuple(random_state_of(random_state).randint(LARGEST_INT, size=4).tolist())


def generator(estimator):
    """Return a generator of draws that are not part of a fit."""
    return np.random.default_rng(drawn_seed(estimator.random_state))


def most_passes(estimator):
    """Return after how many passes `fit` ends."""
    if estimator.max_iter != "auto":
        return estimator.max_iter
    solver = estimator._solver()
    is_online = isinstance(solver, Auto) and estimator.eta0 != "auto" or isinstance(solver, Online)
    return 100 if is_online or solver.is_stochastic else 1000


def tol_of(estimator):
    """Return the tolerance of a rule that has no certificate."""
    return estimator._online.tol if estimator.tol == "auto" else estimator.tol


def stops_in_standard_errors(estimator, model):
    """Return whether `tol` asks for a distance that can be told for a model."""
    is_open = estimator.tol == "auto" and estimator.stopping == "likelihood"
    return is_open and has_coordinates(model)


def has_start_values(estimator):
    """Return whether a parameter gives values that the model starts from."""
    values = map(partial(getattr, estimator), estimator._start_parameters)
    return any(not isinstance(value, str | None) for value in values)


def schedule_of(estimator, state, is_stream=True):
    """Return the learning rates of a fit, or of a stream."""
    if not isinstance(estimator.schedule, str):
        return estimator.schedule
    eta0, beta, online = estimator.eta0, estimator.beta, estimator._online
    opening = estimator._solver().stage(Opening) if is_stream and online.keeps_first_rows else None
    is_settled = opening is not None and opening.rows > 0
    is_settled = is_settled and not (state.constants.is_known or has_start_values(estimator))
    # A start that was not settled has to be forgotten soon.
    if eta0 == "auto" and not is_settled:
        eta0 = online.eta0
    if beta == "auto" and estimator.schedule != "forgetting":
        beta = _SETTLED_DECAY if is_settled else _DECAY
        if is_stream and estimator._solver().stage(Challenge) is not None:
            beta = 1.0  # A sample serves models of all rows so far.
    return named_schedule(estimator.schedule, eta0, beta, state.constants.observations_needed)


def plan_of(estimator, state, data, bounds=()):
    """Return the arguments of passes; `bounds` are of the fit before, if it continues."""
    bound_before = bounds[-1] if bounds else -math.inf

    def stopping(is_exact=True):
        """Return a rule that has seen the last pass of the fit before, if there is one."""
        if stops_in_standard_errors(estimator, state.model) and is_exact:
            rule = StandardErrorStopping(data.total_weight, state.model.n_parameters())
        else:
            rule = STOPPING_RULES[estimator.stopping](tol_of(estimator))
        rule(bound_before, math.inf)
        return rule

    has_prior = getattr(estimator, "_learnt_prior", None) is not None
    return Plan(
        schedule_of(estimator, state, is_stream=False), estimator._n_in_batch(data), stopping,
        np.random.default_rng(state.seed), rate_is_chosen=estimator.eta0 != "auto",
        start_is_given=state.constants.is_known or has_prior or has_start_values(estimator),
        max_iter=most_passes(estimator), bound_before=bound_before,
    )  # fmt: skip


def state_of(estimator, model, data, seed, is_known=False):
    """Return the state in which a model starts to learn."""
    constants = Constants(
        observations_needed=model.observations_needed(data),
        size_unit=model.size_of(data) / data.total_weight,
        expected_size=getattr(estimator, "total_samples", None) or 0.0,
        is_known=is_known,
    )
    prior = estimator._pseudo_statistics(model, data.n_features)
    return State(model, prior, seed=seed, constants=constants)


def relearning(estimator, model):
    """Return a fitted model of which is learnt what parameters now say."""
    structure = estimator._fitted.structure
    before = dict(zip(estimator._structural_parameters, structure, strict=True))
    names = RELEARNT & before.keys()
    is_same = names and all(are_same(before[name], getattr(estimator, name)) for name in names)
    return model if is_same else estimator._learning(model)


def resumed(estimator, **changes):
    """Return the fitted state with what parameters now say of it, and with changes."""
    state, n_features = estimator._fitted.state, getattr(estimator, "n_features_in_", 0)
    prior = estimator._pseudo_statistics(state.model, n_features)
    size = getattr(estimator, "total_samples", None) or 0.0
    constants = state.constants._replace(expected_size=size)
    if memories := state.carry.get(Remember.name):
        models = tuple(relearning(estimator, model) for model in memories.models)
        state = state.carrying(Remember.name, replace(memories, models=models))
    model = relearning(estimator, state.model)
    return state._replace(model=model, prior=prior, constants=constants, **changes)
