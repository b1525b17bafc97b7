"""Modes: solvers whose passes are rounds of tasks on shards, and of merging the results."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
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


class Shards:
    """Data in shards: the executor that holds them, their sizes, and the callback of a round."""

    def __init__(self, executor, sizes, n_rows, total_weight, row_weight, record):
        self.executor, self.sizes, self.record = executor, sizes, record
        self.n_rows, self.total_weight, self.row_weight = n_rows, total_weight, row_weight
        self._begin()

    def __len__(self):
        return sum(self.sizes)

    def _begin(self):
        """Begin a round."""
        self._begun, self._n_tasks = time.perf_counter(), 0

    def reduce(self, task, *arguments, chosen=None):
        """Map a task over the chosen shards, or all, and merge."""
        chosen = range(len(self.sizes)) if chosen is None else chosen
        self._n_tasks += len(chosen)
        self._result = self.executor.reduce(task, chosen, *arguments)
        return self._result

    def take(self, progress, state):
        """Make a state the present one, and record the round."""
        before, result = progress.state.model, self._result
        progress.take(state)
        self.record(
            Round(
                seconds=time.perf_counter() - self._begun,
                bytes_sent=self._n_tasks * (n_bytes(before) + n_bytes(result.content)),
                n_seen=result.total_weight,
                log_likelihood=state.step.log_likelihood,
                kl_divergence=state.step.kl_divergence,
                validation=math.nan,
            )
        )
        self._begin()


@dataclass(frozen=True)
class BatchMode(Solver):
    """Batch EM: an E-step on all shards, then one M-step, or a quasi-Newton step.

    If the `solver` is stochastic, hidden variables are drawn on the shards.
    """

    solver: Solver

    def passes(self, progress, data, plan):
        def e_step(state, model):
            figures = state.seed, state.counters.n_steps, self.solver.draws
            found = data.reduce(evidence, model, *figures)
            return found.content, found.log_likelihood, found

        return batch_passes(self.solver, progress, plan, e_step, partial(data.take, progress))


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
            total = weight = 0.0
            for first in range(0, max(n_batches), n_each):
                active = [i for i, n in enumerate(n_batches) if n > first]
                result = self._round(progress, data, plan, number, active, first, n_each)
                total += result.log_likelihood * result.total_weight
                weight += result.total_weight
                if progress.stopped:
                    break
            yield total / weight, False

    def _round(self, progress, shards, plan, number, active, first, n_batches):
        """Let learners take steps from the present model, and merge and return their results."""
        state = progress.state
        # Learners that are merged within a pass take the rates of their pooled batches.
        n_learners, size_seen = len(active), state.counters.size
        if self.sync_every == math.inf:
            n_learners, size_seen = 1, size_seen / len(active)
        task = LearningTask(
            plan.schedule, plan.batch_size, first, n_batches, size_seen, state.constants.size_unit,
            n_learners, state.prior_terms(state.size_of(shards)),
            (*self.seed, number) if self.seed else (), state.seed, state.counters.n_steps,
            self.combine == "averaging",
        )  # fmt: skip
        result = shards.reduce(learn, state.model, task, chosen=active)
        merged = result.content if task.returns_model else state.model.m_step(result.content)
        eta = rate_of(plan.schedule, task.size_seen, n_learners * plan.batch_size)
        update = Update(merged, eta, result.log_likelihood, result, state.size_of(result))
        n_steps = state.counters.n_steps + n_batches
        shards.take(progress, state.after(update).counting(n_steps=n_steps))
        return result
