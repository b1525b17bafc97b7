"""The loop around one step of EM: state, history, averages of iterates, passes until they stop."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from sklearn_onlineem.data import LengthDistribution
from sklearn_onlineem.em.inertia import Exact
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, pooled

__all__ = ["Average", "State", "Step", "Training", "run"]

# Long streams of single rows must not fill the memory.
_HISTORY_STEPS = 10_000
_EXACT = Exact()


class Step(NamedTuple):
    """Record of one update.

    Attributes
    ----------
    eta : float
        Learning rate; infinity for a step of batch EM.
    log_likelihood : float
        Mean log-likelihood of the batch per observation *before* the update, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    n_rows : int
        Rows, or pairs of strings, that were read up to and including this update since the model
        began, in all passes over them: where it is on a learning curve.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int


class Average(NamedTuple):
    """Mean of the statistics of iterates (Polyak-Ruppert).

    Attributes
    ----------
    n : int
        Iterates so far.
    statistics : Statistics
    """

    n: int
    statistics: Statistics

    def with_one_more(self, statistics):
        return Average(self.n + 1, pooled([(self.n, self.statistics), (1, statistics)]))


class State(NamedTuple):
    """State of a training: all that the next update needs.

    It is replaced by one assignment, so that an interruption finds it whole.

    Attributes
    ----------
    model : Model
    n_steps : int
        Updates so far.
    n_seen : float
        Observations so far, by their weights.
    step : Step or None
        The last update.
    lengths : LengthDistribution or None
        Of the data seen, where the model asks for it; each pass counts.
    merged : Statistics or None
        Those of the models that this one was merged from: all that it stands for.
    seed : tuple of int
        With `n_steps` it makes the generator of the next update, so that a stream that is
        pickled, or an update that fails, continues with the same draws.
    average : Average or None
        Of the iterates, where a solver asks for it.
    size_seen : float
        Size of the data so far, as learning rates count it: see `Training.size_of`.
    n_rows : int
        Rows read so far; each pass counts.
    """

    model: Model
    n_steps: int = 0
    n_seen: float = 0.0
    step: Step | None = None
    lengths: LengthDistribution | None = None
    merged: Statistics | None = None
    seed: tuple = ()
    average: Average | None = None
    size_seen: float = 0.0
    n_rows: int = 0

    @property
    def own_statistics(self):
        """Statistics with which the model enters a merge."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    def rng(self):
        """Return the generator of the next update."""
        return np.random.default_rng((*self.seed, self.n_steps))

    def lengths_with(self, data):
        """Return the distribution of lengths once data have been seen, too."""
        lengths = self.model.lengths(data)
        if lengths is None or self.lengths is None:
            return lengths
        return pooled([(self.n_seen, self.lengths), (data.total_weight, lengths)])


_TYPES = {
    "model": Model,
    "n_steps": Integral,
    "n_seen": Real,
    "step": Step | None,
    "lengths": LengthDistribution | None,
    "merged": Statistics | None,
    "seed": tuple,
    "average": Average | None,
    "n_rows": Integral,
}


@dataclass
class Training:
    """A model in training: its state, and the history of its updates.

    Parameters
    ----------
    state : State
    prior : Statistics, default=None
        Pseudo-statistics of the whole stream; a step that stands for n observations takes 1/n.
    callbacks : tuple of callables, default=()
        Each is called with the `Step` after an update. A true value ends the fit.
    observations_needed : float, default=1.0
        How many determine the model, for schedules that count in these.
    size_unit : float, default=1.0
        Size of an observation: the rows of a sequence, in the mean of the first data.
    """

    state: State
    prior: Statistics | None = None
    callbacks: tuple = ()
    observations_needed: float = 1.0
    size_unit: float = 1.0
    past: deque = field(default_factory=lambda: deque(maxlen=_HISTORY_STEPS))
    n_seen_before: float = 0.0
    size_before: float = 0.0
    lower_bounds: list = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False
    n_rates: int = 0

    def __getstate__(self):
        # skops would lose what is in a deque.
        kept = self.kept()
        return {**vars(kept), "past": list(kept.past)}

    def __setstate__(self, state):
        vars(self).update(state, past=deque(state["past"], maxlen=_HISTORY_STEPS))

    def kept(self):
        """Return what is kept of it: a copy as it is now, which another thread may go on with.

        Callbacks are the estimator's, which passes them on; they need not be picklable.
        """
        past, lower_bounds = self.past.copy(), [*self.lower_bounds]
        return replace(self, callbacks=(), past=past, lower_bounds=lower_bounds)

    def check(self):
        """Raise ValueError if it is not of the types that it must be of."""
        state = self.state
        if not isinstance(state, State) or not isinstance(self.past, deque):
            raise ValueError("its training has no state, or no history.")
        for name, types in _TYPES.items():
            if not isinstance(getattr(state, name), types):
                raise ValueError(f"{name} of its training is {getattr(state, name)!r:.60}.")

    @property
    def history(self):
        """The latest steps, oldest first."""
        self._file()
        return list(self.past)

    def resumed(self, prior, callbacks, seed):
        """Return a copy for another fit to start from, with draws of its own."""
        return replace(
            self,
            state=self.state._replace(seed=seed),
            prior=prior,
            callbacks=callbacks,
            past=self.past.copy(),
            n_seen_before=self.state.n_seen,
            size_before=self.state.size_seen,
            lower_bounds=[],
            n_iter=0,
            converged=False,
            stopped=False,
            n_rates=0,
        )

    def size_of(self, data):
        """Return the size of a batch, in observations of the mean size of the first data.

        Where sequences have given lengths their rows count, so that a few rows after a long
        sequence move the model by as little as they say of it; with sequences of one length, and
        with rows, it is the number of observations.
        """
        return self.state.model.size_of(data) / self.size_unit

    def rate(self, schedule, data):
        """Return the learning rate of a batch, by its size and by what was seen before."""
        return rate_of(schedule, self.state.size_seen, self.size_of(data))

    def update(self, data, eta, size, inertia=_EXACT, sampled=False):
        """Update the model with one batch.

        Parameters
        ----------
        data : Batch
        eta : float
            Learning rate; infinity is a step of batch EM.
        size : float
            Size of the data that the prior is spread over, this batch among them. Each step takes
            its share anew, as the inertia has that of what it remembers: right where the model
            remembers few rows of many, while a prior counts for more where it never forgets.
        inertia : Inertia, default=Exact()
        sampled : bool, default=False
            Whether hidden variables are drawn instead of averaged over.

        Returns
        -------
        step : Step
        """
        state, batch_size = self.state, self.size_of(data)
        rng = state.rng() if sampled or inertia.draws else None
        new_model, log_likelihood = online_step(
            state.model,
            data,
            eta,
            self.prior_terms(size, batch_size / data.total_weight),
            rng if sampled else None,
            inertia.with_rng(rng),
        )
        lengths = state.lengths_with(data)
        n_seen = data.total_weight
        return self.advance(
            new_model, eta, log_likelihood, data, n_seen, batch_size, data.n_rows, lengths
        )

    def prior_terms(self, size, mean_size=1.0):
        """The prior as terms of a step's sum: the share of an observation in data of that size."""
        return () if self.prior is None else ((mean_size / size, self.prior),)

    def advance(
        self, new_model, eta, log_likelihood, like, n_seen, size, n_rows, lengths=None, n_steps=1
    ):
        """Make a new model the present one.

        It has learnt from `n_seen` more observations, of that size, read in `n_rows`.
        """
        state = self.state
        n_steps, n_seen = state.n_steps + n_steps, state.n_seen + n_seen
        n_rows += state.n_rows
        divergence = new_model.kl_divergence(state.model, like=like)
        step = Step(eta, log_likelihood, divergence, n_rows)
        self._file()
        # By position: names take as long as an addition of statistics.
        self.state = State(
            new_model, n_steps, n_seen, step, lengths, None, state.seed, state.average,
            state.size_seen + size, n_rows,
        )  # fmt: skip
        self.n_rates += eta != math.inf
        self._call_back(step)
        return step

    def _call_back(self, step):
        for callback in self.callbacks:
            self.stopped |= bool(callback(step))

    def _file(self):
        """Move the latest step to the past, unless it is there already."""
        step = self.state.step
        if step is not None and not (self.past and self.past[-1] is step):
            self.past.append(step)

    def start_from(self, data, pseudo_statistics, n_passes):
        """Settle on the first batch of a stream: passes of batch EM that count as one step."""
        share = 1.0 / data.total_weight
        terms = [(share, term) for term in (pseudo_statistics, self.prior) if term is not None]
        state = self.state
        model = state.model
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, terms)
        new_model, log_likelihood = batch_step(model, data, terms)
        divergence, n_rows = new_model.kl_divergence(model, like=data), data.n_rows
        self.state = State(
            new_model,
            1,
            data.total_weight,
            Step(math.inf, log_likelihood, divergence, n_rows),
            state.lengths_with(data),
            seed=state.seed,
            size_seen=self.size_of(data),
            n_rows=n_rows,
        )
        self._call_back(self.state.step)

    # ------------------------------------------------------------------------------ averaging

    def average_in(self):
        """Let the present model count in the average of the iterates."""
        state = self.state
        statistics = state.model.own_statistics(state.lengths)
        average = state.average
        if average is None:
            average = Average(1, statistics)
        else:
            average = average.with_one_more(statistics)
        self.state = state._replace(average=average)

    def take_average(self):
        """Make the model of the averaged statistics the present one, if there are any."""
        state = self.state
        if state.average is not None:
            model = state.model.m_step(state.average.statistics)
            self.state = state._replace(model=model, average=None)


def run(training, passes, max_iter, report=None):
    """Take passes until one says that it is the last, a callback stops them, or `max_iter`.

    Parameters
    ----------
    training : Training
        It advances.
    passes : iterator of (float, bool)
        What a solver yields after each pass over the data: its mean log-likelihood, and whether
        it was the last.
    max_iter : int
        Most passes.
    report : callable, default=None
        Called with the number of each pass and its log-likelihood.

    Returns
    -------
    training : Training
        The same.
    """
    for n_iter, (log_likelihood, is_last) in enumerate(passes, start=1):
        training.lower_bounds.append(log_likelihood)
        training.n_iter, training.converged = n_iter, is_last
        if report is not None:
            report(n_iter, log_likelihood)
        if is_last or training.stopped or n_iter == max_iter:
            break
    training.take_average()
    return training
