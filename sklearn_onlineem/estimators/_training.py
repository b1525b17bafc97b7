"""The loops around one step of EM: passes over data, schedules, stopping, history."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sklearn_onlineem.em import online_step, rate_of
from sklearn_onlineem.models import Model

__all__ = ["Step", "Training"]

# Long streams of single rows must not fill the memory.
_HISTORY_STEPS = 10_000


class Step(NamedTuple):
    """What one update did.

    Attributes
    ----------
    eta : float
        Learning rate; infinity for a step of batch EM.
    log_likelihood : float
        Mean log-likelihood of the batch per observation *before* the update, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float


@dataclass
class Training:
    """A model on its way: what an estimator remembers of the updates so far.

    Parameters
    ----------
    model : Model
    prior : Statistics, default=None
        Pseudo-statistics of the whole stream; a step that stands for n observations takes 1/n.
    dtype : data-type, default=float
        Of the data, and so of the parameters that users see.
    callbacks : sequence of callables, default=()
        Each is called with the `Step` after an update. A true value ends the fit.
    """

    model: Model
    prior: object = None
    callbacks: tuple = ()
    dtype: object = float
    n_steps: int = 0
    n_seen: float = 0.0
    history: deque = field(default_factory=lambda: deque(maxlen=_HISTORY_STEPS))
    lower_bounds: list = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False

    def resumed(self):
        """A copy to go on with, whose history starts anew where the old one ends."""
        return replace(
            self, history=self.history.copy(), lower_bounds=[], converged=False, stopped=False
        )

    def start_from(self, data, n_passes=3):
        """Settle on the first batch of a stream; it counts as one step of batch EM."""
        for _ in range(n_passes):
            self.step(data, math.inf, data.total_weight)
        self.n_steps, self.n_seen = 1, data.total_weight

    def step(self, data, eta, n_observations):
        """Update the model with one batch; `n_observations` is what the prior is spread over."""
        prior = () if self.prior is None else ((1.0 / n_observations, self.prior),)
        weight = data.total_weight
        model, log_likelihood = online_step(self.model, data, eta, prior)
        step = Step(eta, log_likelihood, model.kl_divergence(self.model, like=data))
        # One assignment, so that Ctrl-C finds either the old state or the new one.
        self.model, self.n_steps, self.n_seen = model, self.n_steps + 1, self.n_seen + weight
        self.history.append(step)
        for callback in self.callbacks:
            self.stopped |= bool(callback(step))
        return step

    def step_of(self, schedule, data, n_observations=None):
        """Update with the learning rate that the schedule gives to the next step."""
        weight = data.total_weight
        eta = rate_of(schedule, self.n_steps + 1, self.n_seen, weight)
        return self.step(data, eta, n_observations or self.n_seen + weight)

    def batch_pass(self, data):
        """One iteration of batch EM; returns mean log-likelihood and KL divergence."""
        step = self.step(data, math.inf, data.total_weight)
        return step.log_likelihood, step.kl_divergence

    def online_pass(self, data, batch_size, schedule, rng):
        """One shuffled pass in mini-batches; returns mean log-likelihood and KL divergence."""
        before, log_likelihood = self.model, 0.0
        order = rng.permutation(len(data))
        for start in range(0, len(data), batch_size):
            batch = data[order[start : start + batch_size]]
            step = self.step_of(schedule, batch, data.total_weight)
            log_likelihood += batch.total_weight * step.log_likelihood
            if self.stopped:
                break
        kl_divergence = self.model.kl_divergence(before, like=data)
        return log_likelihood / data.total_weight, kl_divergence
