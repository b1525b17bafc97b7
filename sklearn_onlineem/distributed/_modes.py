"""Modes: solvers whose passes are rounds of tasks on shards, and of merging the results."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from sklearn_onlineem._values import n_bytes
from sklearn_onlineem.distributed._tasks import LearningTask, evidence, learn
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.solvers import Solver
from sklearn_onlineem.em.solvers.batch import batch_passes
from sklearn_onlineem.em.state import Update


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
    n_rows: int
    total_weight: float
    row_weight: float
    record: Callable

    def __len__(self):
        return sum(self.sizes)

    def take(self, progress, state, result, start, n_tasks):
        """Make a state the present one, and record the round."""
        sent = n_tasks * (n_bytes(progress.state.model) + n_bytes(result.content))
        progress.take(state)
        seconds, weight = time.perf_counter() - start, result.total_weight
        mean, divergence = state.step.log_likelihood, state.step.kl_divergence
        self.record(Round(seconds, sent, weight, mean, divergence, math.nan))


@dataclass(frozen=True)
class BatchMode(Solver):
    """Batch EM: an E-step on all shards, then one M-step, or a quasi-Newton step.

    If the `solver` is stochastic, hidden variables are drawn on the shards.
    """

    solver: Solver

    def passes(self, progress, data, plan):
        everyone, results, begun = range(len(data.sizes)), [None], time.perf_counter()

        def e_step(state, model):
            arguments = model, state.seed, state.counters.n_steps, self.solver.draws
            found = data.executor.reduce(evidence, everyone, *arguments)
            results.append(found)
            return found.content, found.log_likelihood, found

        def take(state):
            nonlocal begun
            data.take(progress, state, results[-1], begun, (len(results) - 1) * len(everyone))
            # The next pass may begin at the last E-step of this one.
            del results[:-1]
            begun = time.perf_counter()

        return batch_passes(self.solver, progress, plan, e_step, take)


@dataclass(frozen=True)
class LearnerMode(Solver):
    """Online EM by one learner for each shard, whose models are merged.

    With ``sync_every=inf`` they are merged once, at the end of a pass. An empty `seed` keeps the
    order of the rows.
    """

    sync_every: float
    combine: str
    seed: tuple

    def passes(self, progress, data, plan):
        n_batches = [-(-size // plan.batch_size) for size in data.sizes]
        n_each = int(min(self.sync_every, max(n_batches)))
        for number in count():
            rounds = []
            for first in range(0, max(n_batches), n_each):
                active = [i for i, n in enumerate(n_batches) if n > first]
                rounds.append(self._round(progress, data, plan, number, active, first, n_each))
                if progress.stopped:
                    break
            total = sum(weight for _, weight in rounds)
            yield sum(mean * weight for mean, weight in rounds) / total, False

    def _round(self, progress, shards, plan, number, active, first, n_batches):
        """Let learners take steps from the present model, and merge their results.

        Return the mean log-likelihood, and the weight of the observations.
        """
        start, state = time.perf_counter(), progress.state
        # Learners that are merged within a pass take the rates of their pooled batches.
        n_learners = 1 if self.sync_every == math.inf else len(active)
        size_seen = state.counters.size
        if self.sync_every == math.inf:
            size_seen /= len(active)
        task = LearningTask(
            plan.schedule, plan.batch_size, first, n_batches, size_seen, state.constants.size_unit,
            n_learners, state.prior_terms(state.size_of(shards)),
            (*self.seed, number) if self.seed else (), state.seed, state.counters.n_steps,
            self.combine == "averaging",
        )  # fmt: skip
        result = shards.executor.reduce(learn, active, state.model, task)
        merged = result.content if task.returns_model else state.model.m_step(result.content)
        eta = rate_of(plan.schedule, task.size_seen, n_learners * plan.batch_size)
        size = state.size_of(result)
        after = state.after(Update(merged, eta, result.log_likelihood, result, size))
        after = after.counting(n_steps=state.counters.n_steps + n_batches)
        shards.take(progress, after, result, start, len(active))
        return result.log_likelihood, result.total_weight
