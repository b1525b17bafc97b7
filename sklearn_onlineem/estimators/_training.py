"""The loops around one step of EM: passes over data, learning rates, history."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sklearn_onlineem.em import batch_step, exact_inertia, online_step, rate_of
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, pooled

__all__ = ["Progress", "Step", "Training"]

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


class Progress(NamedTuple):
    """What an update changes; replaced by one assignment, so that Ctrl-C finds it old or new."""

    model: Model
    n_steps: int = 0
    n_seen: float = 0.0
    step: Step | None = None
    # Distribution of the lengths of the data seen, where the model asks for one; each pass counts.
    lengths: object = None
    # Statistics of the models that this one was merged from: all that it stands for.
    merged: Statistics | None = None

    @property
    def own_statistics(self):
        """What the model weighs when it is merged with others."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    def lengths_with(self, data):
        """The distribution of lengths once data have been seen, too."""
        lengths = self.model.lengths(data)
        if lengths is None or self.lengths is None:
            return lengths
        return pooled([(self.n_seen, self.lengths), (data.total_weight, lengths)])


@dataclass
class Training:
    """A model on its way: what an estimator remembers of the updates so far.

    Parameters
    ----------
    progress : Progress
    prior : Statistics, default=None
        Pseudo-statistics of the whole stream; a step that stands for n observations takes 1/n.
    dtype : data-type, default=float
        Of the data, and so of the parameters that users see.
    callbacks : tuple of callables, default=()
        Each is called with the `Step` after an update. A true value ends the fit.
    rows_needed : float, default=1.0
        Rows that determine the model, for schedules that count in these.
    inertia : callable, default=exact_inertia
        What online steps hold on to.
    taken_up : tuple, default=()
        Values of the estimator's parameters that the model has taken up.
    """

    progress: Progress
    prior: object = None
    dtype: object = float
    callbacks: tuple = ()
    rows_needed: float = 1.0
    inertia: Callable = exact_inertia
    taken_up: tuple = ()
    past: deque = field(default_factory=lambda: deque(maxlen=_HISTORY_STEPS))
    n_seen_before: float = 0.0
    lower_bounds: list = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False

    def __getstate__(self):
        # Callbacks are the estimator's, which passes them on; they need not be picklable.
        return {**vars(self), "callbacks": ()}

    @property
    def history(self):
        """The latest steps, oldest first."""
        self._file()
        return list(self.past)

    def resumed(self, prior, callbacks):
        """A copy for another fit to go on with."""
        return replace(
            self,
            prior=prior,
            callbacks=callbacks,
            past=self.past.copy(),
            n_seen_before=self.progress.n_seen,
            lower_bounds=[],
            n_iter=0,
            converged=False,
            stopped=False,
        )

    def step(self, data, eta, n_observations):
        """Update the model with one batch; `n_observations` is what the prior is spread over.

        Each step takes its share anew, as the inertia holds on to what it remembers: right where
        the model remembers few rows of many, while a prior counts for more where it never forgets.
        """
        prior = self.prior_terms(n_observations)
        new_model, log_likelihood = online_step(
            self.progress.model, data, eta, prior, inertia=self.inertia
        )
        lengths = self.progress.lengths_with(data)
        return self.advance(new_model, eta, log_likelihood, data, data.total_weight, lengths)

    def prior_terms(self, n_observations):
        """The prior as terms of a step's sum, spread over `n_observations`."""
        return () if self.prior is None else ((1.0 / n_observations, self.prior),)

    def advance(self, new_model, eta, log_likelihood, like, n_rows, lengths=None, n_steps=1):
        """Make a new model the present one; it has learnt from `n_rows` more."""
        model, n_before, n_seen = self.progress[:3]
        step = Step(eta, log_likelihood, new_model.kl_divergence(model, like=like))
        self._file()
        self.progress = Progress(new_model, n_before + n_steps, n_seen + n_rows, step, lengths)
        self._call_back(step)
        return step

    def _call_back(self, step):
        for callback in self.callbacks:
            self.stopped |= bool(callback(step))

    def _file(self):
        """Move the latest step to the past, unless it is there already."""
        step = self.progress.step
        if step is not None and not (self.past and self.past[-1] is step):
            self.past.append(step)

    def online_step(self, data, schedule):
        """Update with the next batch of a stream, by the rate for the rows seen so far."""
        n_seen, n_rows = self.progress.n_seen, data.total_weight
        return self.step(data, rate_of(schedule, n_seen, n_rows), n_seen + n_rows)

    def start_from(self, data, prior, n_passes):
        """Settle on the first batch of a stream: passes of batch EM that count as one step."""
        share = 1.0 / data.total_weight
        terms = [(share, term) for term in (prior, self.prior) if term is not None]
        model = self.progress.model
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, terms)
        new_model, log_likelihood = batch_step(model, data, terms)
        step = Step(math.inf, log_likelihood, new_model.kl_divergence(model, like=data))
        lengths = self.progress.lengths_with(data)
        self.progress = Progress(new_model, 1, data.total_weight, step, lengths)
        self._call_back(step)

    def batch_pass(self, data):
        """One iteration of batch EM; returns mean log-likelihood and KL divergence."""
        step = self.step(data, math.inf, data.total_weight)
        return step.log_likelihood, step.kl_divergence

    def online_pass(self, data, batch_size, schedule, rng):
        """One shuffled pass in mini-batches; returns the mean log-likelihood on the way."""
        log_likelihood = weight = 0.0
        order = rng.permutation(len(data))
        for start in range(0, len(data), batch_size):
            batch = data[order[start : start + batch_size]]
            eta = rate_of(schedule, self.progress.n_seen, batch.total_weight)
            step = self.step(batch, eta, data.total_weight)
            log_likelihood += batch.total_weight * step.log_likelihood
            weight += batch.total_weight
            if self.stopped:
                break
        return log_likelihood / weight
