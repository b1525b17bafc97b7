"""Rounds of work on shards: what is sent out, and what is made of what comes back."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from sklearn_onlineem._values import n_bytes
from sklearn_onlineem.distributed._tasks import Errand, evidence, learn
from sklearn_onlineem.em import STOPPING_RULES, rate_of
from sklearn_onlineem.statistics import combine, pooled

__all__ = ["MODES", "Round", "Session"]


class Round(NamedTuple):
    """What one round did.

    Attributes
    ----------
    seconds : float
        From sending the model to having the next.
    bytes_sent : int
        Sizes of the model that goes to each shard, and of what comes back from it: an upper bound,
        met where each shard has a worker of its own.
    n_seen : float
        Rows, or sequences, that the round learnt from.
    log_likelihood : float
        Mean per observation of the data of the round, before their updates, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    validation : float
        Score of the new model on the validation data; NaN if there are none.
    """

    seconds: float
    bytes_sent: int
    n_seen: float
    log_likelihood: float
    kl_divergence: float
    validation: float


@dataclass(frozen=True)
class Session:
    """One `fit`: an estimator on its way, where the shards are, and how to go about it.

    Parameters
    ----------
    estimator : OnlineEM
        It has a start; its training advances.
    executor : JoblibExecutor or DaskExecutor
    sizes : list of int
        Rows, or sequences, of each shard.
    total_weight : float
        What all of them weigh.
    sync_every : int
    combine : str
    shuffle : bool
    """

    estimator: object
    executor: object
    sizes: list
    total_weight: float
    sync_every: int
    combine: str
    shuffle: bool

    @property
    def training(self):
        return self.estimator._training

    @cached_property
    def seed(self):
        """What the orders of the rows come from, or nothing."""
        if not self.shuffle:
            return ()
        random_state = check_random_state(self.estimator.random_state)
        return tuple(random_state.randint(np.iinfo(np.int32).max, size=4).tolist())

    def batch(self):
        """Batch EM: evidence of all shards, then one M-step, until `tol`."""
        estimator, training, part = self.estimator, self.training, None
        settled = STOPPING_RULES[estimator.stopping](estimator.tol)
        while not (training.converged or training.stopped or training.n_iter == estimator.max_iter):
            start = time.perf_counter()
            part = self.executor.reduce(evidence, self._everyone, training.progress.model)
            terms = [(1.0, part.content), *training.prior_terms(part.total_weight)]
            new_model = training.progress.model.m_step(combine(terms))
            yield self._advanced(new_model, math.inf, part, start, len(self.sizes))
            training.n_iter += 1
            training.converged = settled(*training.progress.step[1:])
        estimator._finish(training, part)

    def synchronous(self):
        """Online EM of all learners, merged after every `sync_every` batches."""
        batch_size = self.estimator.batch_size
        n_batches = [-(-size // batch_size) for size in self.sizes]
        n_before = self.training.progress.n_seen
        for number in range(self.estimator.online_passes):
            for first in range(0, max(n_batches), self.sync_every):
                active = [i for i, n in enumerate(n_batches) if n > first]
                yield self._online_round(active, number, first, self.sync_every, len(active))
                if self.training.stopped:
                    return
            self.training.n_iter = number + 1
        self._count(n_before)

    def asynchronous(self):
        """A pass of each learner over its shard, merged at the end."""
        n_batches = -(-max(self.sizes) // self.estimator.batch_size)
        yield self._online_round(list(self._everyone), 0, 0, n_batches, 1)
        self.training.n_iter = 1

    @property
    def _everyone(self):
        return range(len(self.sizes))

    def _count(self, n_before):
        """Set the rows seen: one that was passed over several times counts once."""
        n_seen = n_before + self.total_weight
        self.training.progress = self.training.progress._replace(n_seen=n_seen)

    def _online_round(self, active, number, first, n_batches, n_learners):
        """Let learners take steps from the present model, and merge what becomes of it."""
        start, training, estimator = time.perf_counter(), self.training, self.estimator
        model, _, n_seen = training.progress[:3]
        schedule, n_pooled = estimator._schedule(training), n_learners * estimator.batch_size
        errand = Errand(
            schedule,
            estimator.batch_size,
            first,
            n_batches,
            n_seen if n_learners > 1 else n_seen / len(active),
            n_learners,
            training.prior_terms(self.total_weight),
            (*self.seed, number) if self.shuffle else (),
            self.combine == "averaging",
        )
        part = self.executor.reduce(learn, active, model, errand)
        merged = part.content if errand.averages else model.m_step(part.content)
        eta = rate_of(schedule, errand.n_seen, n_pooled)
        return self._advanced(merged, eta, part, start, len(active), n_batches)

    def _advanced(self, new_model, eta, part, start, n_shards, n_steps=1):
        """Make the new model the present one; return the record of the round."""
        training = self.training
        weight, lengths = part.total_weight, training.progress.lengths
        if part.lengths is not None and lengths is not None:
            lengths = pooled([(training.progress.n_seen, lengths), (weight, part.lengths)])
        else:
            lengths = part.lengths
        sent = n_shards * (n_bytes(training.progress.model) + n_bytes(part.content))
        step = training.advance(
            new_model, eta, part.log_likelihood, part.lengths, weight, lengths, n_steps
        )
        training.lower_bounds.append(step.log_likelihood)
        seconds = time.perf_counter() - start
        return Round(seconds, sent, weight, step.log_likelihood, step.kl_divergence, math.nan)


MODES = {
    "batch": Session.batch,
    "synchronous": Session.synchronous,
    "asynchronous": Session.asynchronous,
}
