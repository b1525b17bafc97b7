"""Modes: solvers whose passes are rounds of tasks on shards, and of merging the results."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from sklearn_onlineem._values import n_bytes
from sklearn_onlineem.distributed._tasks import LearningTask, evidence, learn
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.solvers import Solver
from sklearn_onlineem.em.solvers.base import has_settled
from sklearn_onlineem.statistics import combine

__all__ = ["MODES", "Round", "Shards"]


class Round(NamedTuple):
    """Record of one round.

    Attributes
    ----------
    seconds : float
        From sending the model until the next one is there.
    bytes_sent : int
        Sizes of the model sent to each shard, and of its result: an upper bound, reached if each
        shard has another worker.
    n_seen : float
        Rows, or sequences, of the round.
    log_likelihood : float
        Mean per observation of the data of the round, before their updates, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    validation : float
        Score of the new model on the validation data; NaN without.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.distributed import DistributedEM
    >>> X = np.random.default_rng(0).poisson(5.0, size=(60, 1))
    >>> learner = DistributedEM(PoissonMixture(2, random_state=0), n_shards=3).fit(X)
    >>> learner.history_[-1].n_seen
    60.0
    """

    seconds: float
    bytes_sent: int
    n_seen: float
    log_likelihood: float
    kl_divergence: float
    validation: float


@dataclass(frozen=True)
class Shards:
    """Data in shards: the executor that holds them, their sizes, and the callback of a round."""

    executor: object
    sizes: list
    total_weight: float
    n_rows: int
    record: Callable

    def __len__(self):
        return sum(self.sizes)

    def reduce(self, task, chosen, *arguments):
        return self.executor.reduce(task, chosen, *arguments)


class Mode(Solver):
    """A solver over shards."""

    @abstractmethod
    def passes(self, progress, data, plan):
        """Take passes over `Shards`, each of one round or more."""

    @staticmethod
    def take(progress, shards, state, result, start, n_shards):
        """Make a state the present one, and record the round."""
        sent = n_shards * (n_bytes(progress.state.model) + n_bytes(result.content))
        progress.take(state)
        seconds, step = time.perf_counter() - start, state.step
        shards.record(
            Round(
                seconds,
                sent,
                result.total_weight,
                step.log_likelihood,
                step.kl_divergence,
                math.nan,
            )
        )


@dataclass(frozen=True)
class BatchMode(Mode):
    """Batch EM: an E-step on all shards, then one M-step."""

    def passes(self, progress, data, plan):
        settled, everyone = plan.stopping(), range(len(data.sizes))
        while True:
            start = time.perf_counter()
            state = progress.state
            result = data.reduce(evidence, everyone, state.model, state.seed, state.n_steps)
            size = state.size_of(result)
            prior = state.prior_terms(size, size / result.total_weight)
            model = state.model.m_step(combine([(1.0, result.content), *prior]))
            state = state.after(model, math.inf, result.log_likelihood, result, size)
            self.take(progress, data, state, result, start, len(everyone))
            yield state.step.log_likelihood, has_settled(settled, state.step)


@dataclass(frozen=True)
class LearnerMode(Mode):
    """Online EM by one learner for each shard, whose models are merged.

    With ``sync_every=inf`` they are merged once, at the end of a pass. An empty `seed` keeps the
    order of the rows.
    """

    sync_every: float
    combine: str
    seed: tuple

    def passes(self, progress, data, plan):
        for number in count():
            log_likelihoods = [
                (step.log_likelihood, weight)
                for step, weight in self._rounds(progress, data, plan, number)
            ]
            total = sum(weight for _, weight in log_likelihoods)
            yield sum(mean * weight for mean, weight in log_likelihoods) / total, False

    def _rounds(self, progress, shards, plan, number):
        n_batches = [-(-size // plan.batch_size) for size in shards.sizes]
        n_each = int(min(self.sync_every, max(n_batches)))
        for first in range(0, max(n_batches), n_each):
            active = [i for i, n in enumerate(n_batches) if n > first]
            yield self._round(progress, shards, plan, number, active, first, n_each)
            if progress.stopped:
                return

    def _round(self, progress, shards, plan, number, active, first, n_batches):
        """Let learners take steps from the present model, and merge their results."""
        start, state = time.perf_counter(), progress.state
        # Learners that are merged within a pass take the rates of their pooled batches.
        n_learners = 1 if self.sync_every == math.inf else len(active)
        task = LearningTask(
            plan.schedule,
            plan.batch_size,
            first,
            n_batches,
            state.size_seen / len(active) if self.sync_every == math.inf else state.size_seen,
            state.size_unit,
            n_learners,
            state.prior_terms(state.size_of(shards)),
            (*self.seed, number) if self.seed else (),
            state.seed,
            state.n_steps,
            self.combine == "averaging",
        )
        result = shards.reduce(learn, active, state.model, task)
        merged = result.content if task.returns_model else state.model.m_step(result.content)
        eta = rate_of(plan.schedule, task.size_seen, n_learners * plan.batch_size)
        size = state.size_of(result)
        after = state.after(merged, eta, result.log_likelihood, result, size)
        after = after._replace(n_steps=state.n_steps + n_batches)
        self.take(progress, shards, after, result, start, len(active))
        return after.step, result.total_weight


def _asynchronous(sync_every, combine, seed):
    return LearnerMode(math.inf, combine, seed)


MODES = {
    "batch": lambda sync_every, combine, seed: BatchMode(),
    "synchronous": LearnerMode,
    "asynchronous": _asynchronous,
}
