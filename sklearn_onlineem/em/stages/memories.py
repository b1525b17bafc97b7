"""Models of one stream that remember differently much, mixed by weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sklearn_onlineem._checks import check_number
from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.schedules import Forgetting, Harmonic
from sklearn_onlineem.em.stages.base import EStep, Inner, Stage, Stream
from sklearn_onlineem.em.state import Carry, State, Update
from sklearn_onlineem.models import Model

# Rows after which the past counts for half in the weights of the models, and the share of the rest
# that is dealt evenly; chosen by benchmarks/real_data/streams.py.
_HALF_LIFE, _SHARE = 250.0, 0.06


@dataclass(frozen=True)
class Memories(Carry):
    """Models of one stream that remember differently much, one for each half-life of the solver.

    Their `weights` (n_models,) in the mixture that predicts the next data add up to 1. `ends` are
    the filtered distributions of their last states, if the last sequence may continue; else empty.
    """

    models: tuple[Model, ...]
    weights: Floats
    ends: tuple = ()

    def with_model(self, model, state):
        # The weights stay as they were learnt.
        return Memories(len(self.models) * (model,), self.weights)

    def log_likelihood(self, data: Batch) -> Floats:
        r"""Return :math:`\log \sum_j w_j p_j(x)` of each observation, of shape (n,), in nats."""
        pairs = zip(self.weights, self.models, strict=True)
        return np.logaddexp.reduce([math.log(w) + m.log_likelihood(data) for w, m in pairs])

    def batches(self, batch: Batch) -> list[Batch]:
        """Return a batch for each model: a sequence that continues does so from its own state."""
        if self.ends and batch.before is not None:
            return [batch.continued(end) for end in self.ends]
        return len(self.models) * [batch]

    def with_ends(self, data: Batch) -> Memories:
        """Return the models with their filtered distributions at the end of data."""
        pairs = zip(self.models, self.batches(data), strict=True)
        return replace(self, ends=tuple(model.filtered_end(part) for model, part in pairs))


@dataclass(frozen=True)
class Remember(Stage):
    """Several models learn, each with another half-life, and those predict that did.

    See :class:`~sklearn_onlineem.em.Adaptive`: `eta0`, `beta` and `schedule` are ignored.

    Parameters
    ----------
    half_lives : tuple of float, default=(inf, 5.0, 1.0)
        For each model, the rows after which the past counts for half, above 0, in multiples of the
        rows that determine a model.
    """

    half_lives: tuple[float, ...] = (math.inf, 5.0, 1.0)
    name = "memories"

    def __post_init__(self):
        if not isinstance(self.half_lives, tuple) or not self.half_lives:
            raise ValueError(f"half_lives must be a tuple of numbers, got {self.half_lives!r}.")
        for half_life in self.half_lives:
            if half_life != math.inf:
                check_number("half_lives", half_life, 0.0, math.inf)

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        rates = _schedules(self.half_lives, state.constants.observations_needed)
        before, n_models = state.carry.get(self.name), len(rates)
        if before is None or len(before.models) != n_models:
            before = Memories(n_models * (state.model,), np.full(n_models, 1.0 / n_models))
        weights, parts = before.weights.tolist(), before.batches(batch)
        # `found` is of the one with the largest weight.
        known, made, errors = n_models * [None], [], []
        known[weights.index(max(weights))] = found
        for model, part, rate, of_model in zip(before.models, parts, rates, known, strict=True):
            one = state if state.model is model else state._replace(model=model)
            try:
                own = Stream(rate, stream.draws, stream.starts)
                made.append(inner(one, part, own, of_model))
            except ours(ValueError) as error:
                # It will be replaced, unless all fail.
                made.append(None)
                errors.append(error)
        if len(errors) == n_models:
            raise errors[0]
        weights, log_likelihood = _shares(
            weights,
            [-math.inf if one is None else one.log_likelihood for one in made],
            state.model.size_of(batch),
        )
        leader, shares = weights.index(max(weights)), np.array(weights)
        update = made[leader]
        models = tuple(update.model if one is None else one.model for one in made)
        # Kept until those after this batch are known.
        ends = before.ends if before.ends and batch.before is not None else ()
        update.before = before.models[leader]
        update.log_likelihood, update.model_weights = log_likelihood, shares
        update.carry[self.name] = Memories(models, shares, ends)
        return update


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
