"""Online EM without a learning rate: models that remember differently much, mixed by weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._errors import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import (
    Forgetting,
    Harmonic,
    PowerDecayInRows,
    RateSchedule,
    rate_of,
)
from sklearn_onlineem.em.settings import check_bool, check_count, check_number
from sklearn_onlineem.em.solvers.auto import Auto
from sklearn_onlineem.em.solvers.base import PERIOD, Plan, Solver
from sklearn_onlineem.em.state import State
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics

# Rows after which the past counts for half in the weights of the models, and the share of the rest
# that is dealt evenly; chosen by benchmarks/real_data/streams.py.
_HALF_LIFE, _SHARE = 250.0, 0.06


class Memories(NamedTuple):
    """Models of one stream that remember differently much.

    Attributes
    ----------
    models : tuple of Model
        One for each half-life of the solver.
    weights : ndarray of shape (n_models,)
        Weights of the models in the mixture that predicts the next data; they add up to 1.
    ends : tuple
        Filtered distribution of each model's last state, if the last sequence may continue; else
        empty.
    """

    models: tuple[Model, ...]
    weights: Floats
    ends: tuple = ()

    def log_likelihood(self, data: Batch) -> Floats:
        r"""Return :math:`\log \sum_j w_j p_j(x)` of each observation, of shape (n,), in nats.

        Parameters
        ----------
        data : Batch
            Observations.
        """
        pairs = zip(self.weights, self.models, strict=True)
        return np.logaddexp.reduce([math.log(w) + m.log_likelihood(data) for w, m in pairs])

    def batches(self, batch: Batch) -> list[Batch]:
        """Return a batch for each model: a sequence that continues does so from its own state.

        Parameters
        ----------
        batch : Batch
            In the form that the models take.
        """
        if self.ends and batch.before is not None:
            return [batch.continued(end) for end in self.ends]
        return len(self.models) * [batch]

    def with_ends(self, data: Batch) -> Memories:
        """Return the models with their filtered distributions at the end of data.

        Parameters
        ----------
        data : Batch
            The last sequence, or piece of it, which the models have learnt.
        """
        pairs = zip(self.models, self.batches(data), strict=True)
        return self._replace(ends=tuple(model.filtered_end(part) for model, part in pairs))


@dataclass(frozen=True)
class Adaptive(Solver):
    r"""Online EM that needs no learning rate: several models learn, and those predict that did.

    Each model remembers the past for another half-life, and takes the online steps of
    :class:`~sklearn_onlineem.em.Online`. Their weights are learnt by online EM, too, as those of
    the components of a mixture, with a fixed share for all: after a batch of b rows,

    .. math::
        w_j \leftarrow (1 - \gamma) w_j + \gamma \Big((1 - a)
        \frac{w_j \, e^{\ell_j}}{\sum_i w_i \, e^{\ell_i}} + \frac{a}{J}\Big), \qquad
        \gamma = 1 - 2^{-b / 250}, \quad a = 0.06,

    where :math:`\ell_j` is the mean log-likelihood of the batch, per observation, before model j
    learns it: the responsibilities are those of a typical observation. The log-likelihoods come
    from the steps. *Scores are those of the mixture*, :math:`\log \sum_j w_j p_j(x)` of each
    observation: `score_samples`, `score`, and criteria made of them. `model_`, and all that has
    components or states, is the model with the largest weight, which also enters merges. `eta0`,
    `beta` and `schedule` are ignored, but by `fit` of topics.

    Streams start as those of ``Online``; all models begin from each new start. `fit` learns as
    :class:`~sklearn_onlineem.em.Auto`, since data at hand are shuffled, and all models of a stream
    that continues begin from the result.

    Parameters
    ----------
    half_lives : tuple of float, default=(inf, 5.0, 1.0)
        For each model, the rows after which the past counts for half, above 0, in multiples of the
        rows that determine a model (the number of its parameters for each column). Infinity: all
        rows count alike. The time of a step grows with their number.
    reinitialises, start_rows, skips_outliers
        Like those of :class:`~sklearn_onlineem.em.Online`.

    Notes
    -----
    Entries of `history_` are :class:`~sklearn_onlineem.em.state.ComponentStep`, with the new
    `model_weights`. Learning rate and divergence are those of the model with the largest weight;
    the log-likelihood is :math:`\log \sum_j w_j e^{\ell_j}`, which is at most the mean score of the
    batch, and equal for one observation. A model that cannot take a step, as the batch is
    impossible under it, becomes a copy of the one with the largest weight.

    References
    ----------
    Herbster & Warmuth, "Tracking the Best Expert", Machine Learning 1998 (fixed share); Cappe &
    Moulines, JRSS-B 2009 (online EM, here of the weights).

    Examples
    --------
    One of two rates doubles:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> rng = np.random.default_rng(0)
    >>> for solver in ["online", "adaptive"]:
    ...     mixture = PoissonMixture(2, solver=solver, random_state=0)
    ...     for means in 50 * [[2.0, 20.0]] + 5 * [[2.0, 40.0]]:
    ...         mixture = mixture.partial_fit(rng.poisson(rng.choice(means, size=(100, 1))))
    ...     print(mixture.means_.ravel().round())
    [ 2. 27.]
    [ 2. 40.]
    """

    half_lives: tuple[float, ...] = (math.inf, 5.0, 1.0)
    reinitialises: bool = True
    start_rows: int = 100
    skips_outliers: bool = True
    has_own_rates = True

    def __post_init__(self):
        if not isinstance(self.half_lives, tuple) or not self.half_lives:
            raise ValueError(f"half_lives must be a tuple of numbers, got {self.half_lives!r}.")
        for half_life in self.half_lives:
            if half_life != math.inf:
                check_number("half_lives", half_life, 0.0, math.inf)
        check_bool("reinitialises", self.reinitialises)
        check_bool("skips_outliers", self.skips_outliers)
        check_count("start_rows", self.start_rows, least=0)

    def start(
        self, state: State, data: Batch, pseudo_statistics: Statistics | None, n_passes: int
    ) -> State:
        after = super().start(state, data, pseudo_statistics, n_passes)
        if isinstance(state.kept, Memories):
            # What the weights have learnt between two starts stays.
            models = len(state.kept.models) * (after.model,)
            after = after._replace(kept=Memories(models, state.kept.weights))
        return after

    def step(self, state: State, batch: Batch, schedule: RateSchedule | None = None) -> State:
        try:
            return super().step(state, batch, schedule)
        except ours(ValueError):
            # One of the other models may explain the batch.
            return self._learn(state, batch)

    def _learn(self, state, batch, schedule=None, rng=None, found=None):
        rates = _schedules(self.half_lives, state.observations_needed)
        before, n_models = state.kept, len(rates)
        if not isinstance(before, Memories) or len(before.models) != n_models:
            before = Memories(n_models * (state.model,), np.full(n_models, 1.0 / n_models))
        size, parts = state.size_of(batch), before.batches(batch)
        etas = [rate_of(rate, state.size_seen, size) for rate in rates]
        weights, made, errors = before.weights.tolist(), [], []
        # `found` is of the one with the largest weight.
        known = n_models * [None]
        known[weights.index(max(weights))] = found
        for model, part, eta, of_model in zip(before.models, parts, etas, known, strict=True):
            try:
                made.append(self._learnt(model, state, part, eta, size, None, of_model))
            except ours(ValueError) as error:
                # It will be replaced, unless all fail.
                made.append((None, -math.inf))
                errors.append(error)
        if len(errors) == n_models:
            raise errors[0]
        weights, log_likelihood = _shares(
            weights, [one[1] for one in made], state.model.size_of(batch)
        )
        leader, shares = weights.index(max(weights)), np.array(weights)

        def after(number):
            """Return the state after the step of one model, which may be a split or merge step."""
            own, part = before.models[number], parts[number]
            one = state if state.model is own else state._replace(model=own)
            stepped = one.after(
                made[number][0], etas[number], log_likelihood, part, size, model_weights=shares
            )
            return self._with_recent(stepped, one, part)

        led = after(leader)
        models = [led.model if model is None else model for model, _ in made]
        models[leader] = led.model
        if state.n_rows % PERIOD + batch.n_rows >= PERIOD:
            # The others may move, too.
            others = [k for k, (model, _) in enumerate(made) if model is not None and k != leader]
            for number in others:
                models[number] = after(number).model
        # Kept until those after this batch are known.
        ends = before.ends if before.ends and batch.before is not None else ()
        return led._replace(kept=Memories(tuple(models), shares, ends))

    def trial_passes(self, state: State, data: Batch, plan: Plan) -> int | None:
        return Auto().trial_passes(state, data, _plan_of_fit(state, plan))

    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        yield from Auto().passes(progress, data, _plan_of_fit(progress.state, plan))


def _plan_of_fit(state, plan):
    """Return a plan with the default of the parameters for rates, but of topics."""
    if not state.model.is_exact:
        return plan
    schedule = PowerDecayInRows(state.observations_needed, 0.6)
    return replace(plan, schedule=schedule, seed=plan.rng, rate_is_chosen=False)


@lru_cache(maxsize=128)
def _schedules(half_lives, observations_needed):
    return tuple(
        Harmonic() if one == math.inf else Forgetting(half_life=one * observations_needed)
        for one in half_lives
    )


def _shares(weights, log_likelihoods, size):
    """Return the new weights of models, and the log-likelihood of their mixture before.

    A few numbers, for which lists take less time than arrays.
    """
    best = max(log_likelihoods)
    if -math.inf in log_likelihoods:
        # Models that will be replaced have no weight.
        pairs = zip(weights, log_likelihoods, strict=True)
        weights = [weight if math.isfinite(one) else 0.0 for weight, one in pairs]
    joint, total, new_total = [], 0.0, 0.0
    for weight, one in zip(weights, log_likelihoods, strict=True):
        joint.append(weight * math.exp(one - best))
        # Not `sum`, which rounds in other ways from Python 3.12 on.
        total += joint[-1]
    gamma, shares = 1.0 - 2.0 ** (-size / _HALF_LIFE), []
    share, even = (1.0 - _SHARE) / total, _SHARE / len(weights)
    for weight, one in zip(weights, joint, strict=True):
        shares.append(weight + gamma * (share * one + even - weight))
        new_total += shares[-1]
    return [one / new_total for one in shares], float(best) + math.log(total)
