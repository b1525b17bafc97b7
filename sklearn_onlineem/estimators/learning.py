"""How estimators learn: the parameters that all of them have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.em.schedules import SCHEDULES
from sklearn_onlineem.em.solvers import Solver, solvers_for
from sklearn_onlineem.em.stopping import STOPPING_RULES
from sklearn_onlineem.estimators.parameters import Parameterised, estimator, parameter
from sklearn_onlineem.models import Model

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
    eta0: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})]
    )
    beta: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})]
    )
    schedule: str | Callable[[float], float] = parameter(
        default="power", valid=[StrOptions(set(SCHEDULES)), callable]
    )
    batch_size: int = parameter(default=1000, valid=[Interval(Integral, 1, None, closed="left")])
    max_iter: int | str = parameter(
        default="auto", valid=[Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})]
    )
    tol: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, None, closed="left"), StrOptions({"auto"})]
    )
    stopping: str = parameter(default="likelihood", valid=[StrOptions(set(STOPPING_RULES))])
    warm_start: bool = parameter(default=False, valid=["boolean"])
    random_state: object = parameter(default=None, valid=["random_state"])
    n_jobs: int | None = parameter(default=None, valid=N_JOBS)
    verbose: int = parameter(default=0, valid=["verbose"])
    verbose_interval: int = parameter(
        default=10, valid=[Interval(Integral, 1, None, closed="left")]
    )
    callbacks: Sequence[Callable[..., object]] | None = parameter(
        default=None, valid=[None, "array-like"]
    )
