"""The base of solvers, their arguments, and the online step."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.outliers import learn_usual_rows
from sklearn_onlineem.em.schedules import RateSchedule, rate_of
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import Exact, Inertia, batch_step, online_step
from sklearn_onlineem.em.stopping import StoppingRule
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.capabilities import Levels, Reinitialises
from sklearn_onlineem.statistics import Statistics

# A stream may make one split or merge step in so many rows, by the last rows of them.
PERIOD, _RECENT = 3200, 500
# More observations are shuffled by so many runs of so many neighbours: 16 kB a run of 16 columns is
# read about as fast as a whole file, and of sorted data 4096 places are a fair sample.
_IN_ONE_PART, _RUNS, _RUN = 2**20, 4096, 128


@dataclass(frozen=True)
class Plan:
    """Arguments of one fit that are the same for all solvers.

    Parameters
    ----------
    schedule : callable
        Learning rates of online steps.
    batch_size : int
        Observations in a mini-batch.
    stopping : callable (is_exact=True) -> rule
        Returns a new stopping rule, see `em.stopping`; `is_exact` says whether one model sees all
        data in a pass.
    seed : tuple of int, or numpy.random.Generator
        Of `rng`, the generator of the orders in which observations are taken.
    rate_is_chosen : bool, default=False
        Whether the user has chosen the first learning rate.
    start_is_given : bool, default=False
        Whether the user has chosen the start, so that components have their places.
    max_iter : int, default=None
        Largest number of passes, if it is known.
    bound_before : float, default=-inf
        Mean log-likelihood of the last pass of the fit that this one continues.
    """

    schedule: RateSchedule
    batch_size: int
    stopping: Callable[..., StoppingRule]
    seed: tuple[int, ...] | np.random.Generator
    rate_is_chosen: bool = False
    start_is_given: bool = False
    max_iter: int | None = None
    bound_before: float = -math.inf

    @cached_property
    def rng(self) -> np.random.Generator:
        # To make one takes as long as a pass over few rows, and batch EM needs none.
        return np.random.default_rng(self.seed)


class Solver(Settings, ABC):
    """Base of the solvers: `start` and `step` learn from a stream, `passes` from data in memory.

    A solver is a frozen value of settings. Each step replaces a `State`, in which `kept` is for
    data that only one solver needs.

    Attributes
    ----------
    requires : type or None
        Capability that a fit needs of its model, see `models.capabilities`.
    inertia : Inertia
        Regularisation of online steps towards the old model.
    samples : bool
        Whether hidden variables are drawn from their posterior instead of averaged over.
    is_stochastic : bool
        Whether iterates never converge, so that no rule ends a fit.
    has_own_rates : bool
        Whether learning rates are those of the solver, not of the estimator's schedule.
    reinitialises : bool
        Whether empty components may be reinitialised in a stream.
    start_rows : int
        First rows of a stream that are kept for its start, for each component; see `Online`.
    sample : int or None
        Size of the sample of a stream, see `Online`.
    skips_outliers : bool
        Whether streams leave out rows that are far too surprising; see `Online`.
    follows_levels : bool
        Whether streams of Kalman filters follow new levels, and keep the transitions bounded.
    """

    requires: type | None = None
    inertia: Inertia = Exact()
    samples = False
    is_stochastic = False
    has_own_rates = False
    reinitialises = True
    start_rows = 100
    skips_outliers = True
    follows_levels = True
    sample: int | None = None

    def prior_of(self, model: Model, prior: Statistics | None) -> Statistics | None:
        """Return the pseudo-statistics of a prior for the solver's estimate.

        Parameters
        ----------
        model : Model
            Of the step.
        prior : Statistics or None
            Pseudo-statistics that lead to the mode of the posterior.
        """
        return prior

    def check(self, state: State) -> None:
        """Raise ValueError if the solver cannot learn a stream of a state's model.

        Parameters
        ----------
        state : State
            With the model, and with the prior if there is one.
        """

    def start(
        self, state: State, data: Batch, pseudo_statistics: Statistics | None, n_passes: int
    ) -> State:
        """Learn the first batch of a stream: passes of batch EM that count as one step.

        Parameters
        ----------
        state : State
            With the initial model.
        data : Batch
            The first batch.
        pseudo_statistics : Statistics or None
            Sums over observations that keep components apart where the batch has little evidence.
        n_passes : int
            Passes of batch EM, at least 1.
        """
        self.check(state)
        share = 1.0 / data.total_weight
        terms = [(share, term) for term in (pseudo_statistics, state.prior) if term is not None]
        model, rng = state.model, state.rng() if state.model.draws else None
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, terms, rng)
        before = model
        model, log_likelihood = batch_step(before, data, terms, rng)
        return state.after(
            model, math.inf, log_likelihood, data, state.size_of(data), before=before
        )

    def step(self, state: State, batch: Batch, schedule: RateSchedule) -> State:
        """Return the state after the next batch of a stream.

        While a component is empty, the last 500 of each 3,200 rows are kept, from batch to batch;
        after them it may become half of another one. A few rows that may be at a new level are
        kept until there are enough to tell.

        Parameters
        ----------
        state : State
            The present one.
        batch : Batch
            In the form that the model takes.
        schedule : callable t -> eta
            Learning rates, or a `Schedule`.
        """
        self.check(state)
        if not self.skips_outliers:
            return self._learn(state, batch, schedule)
        draws = self.samples or state.model.draws
        rng = state.rng() if draws or self.inertia.draws else None
        usual, found, gate = learn_usual_rows(
            state.model, batch, state.gate, state.n_steps, state.n_rows, rng if draws else None
        )
        if usual is None:
            return state.after_none(found[1], batch.n_rows, gate)
        after = self._learn(state, usual, schedule, rng, found)
        if gate is state.gate:
            return after
        return after.with_gate(gate, batch.n_rows - usual.n_rows)

    def _learn(self, state, batch, schedule, rng=None, found=None):
        """Return the state after a batch; `rng` and `found` are those of its E-step, if known."""
        size = state.size_of(batch)
        eta = rate_of(schedule, state.size_seen, size)
        model, log_likelihood = self._learnt(state.model, state, batch, eta, size, rng, found)
        after = state.after(model, eta, log_likelihood, batch, size)
        return self._with_recent(after, state, batch)

    def _learnt(self, model, state, batch, eta, size, rng=None, found=None):
        """Return a model of a stream after a batch, and the log-likelihood of the batch before."""
        total_size = max(state.size_seen + size, state.expected_size)
        if self.follows_levels and isinstance(model, Levels):
            return self._followed(model, state, batch, eta, size, total_size, rng, found)
        return self._stepped(model, state, batch, eta, size, total_size, rng, found)

    def _with_recent(self, after, before, batch):
        """Return the state after a step; it may keep the batch, or make a split or merge step."""
        if after.model is before.model and isinstance(after.model, Levels):
            # A step waits for more rows, see `_followed`.
            return after._replace(recent=(*before.recent, copy.deepcopy(batch)))
        n_rows = before.n_rows % PERIOD + batch.n_rows
        model = after.model
        may_move = self.reinitialises and isinstance(model, Reinitialises)
        if n_rows <= PERIOD - _RECENT or not may_move or not model.has_empty(batch):
            return after
        if n_rows < PERIOD:
            # Users may overwrite their batch.
            return after._replace(recent=(*before.recent, copy.deepcopy(batch)))
        data = before.recent[0].followed_by((*before.recent[1:], batch)) if before.recent else batch
        move = model.reinitialised(data)
        return after if move is None else after.moved(move, before, batch)

    def _followed(self, before, state, batch, eta, size, total_size, rng, found):
        """Take a step of a model whose source may have left its level.

        A few rows that are far from it wait for those after them, which tell whether it has: the
        model is then the one before.
        """
        rows = state.recent[0].followed_by((*state.recent[1:], batch)) if state.recent else batch
        if rows.n_rows < before.fewest_rows and before.is_far(batch):
            return before, (found or before.e_step(batch))[1]
        start, learnt = before.relocated(rows) or (before, rows)
        is_usual = start is before and learnt is batch
        model, log_likelihood = self._stepped(
            start, state, learnt, eta, size, total_size, rng, found if is_usual else None
        )
        if not is_usual:
            log_likelihood = (found or before.e_step(batch))[1]
        return model.bounded(before), log_likelihood

    def _stepped(self, model, state, data, eta, size, total_size, rng=None, found=None):
        draws, n_seen = self.samples or model.draws, data.total_weight
        if rng is None and (draws or self.inertia.draws):
            rng = state.rng()
        return online_step(
            model,
            data,
            eta,
            state.prior_terms(total_size, size / n_seen),
            rng if draws else None,
            self.inertia if rng is None else partial(self.inertia, rng=rng),
            found,
        )

    def _updated(self, state, data, eta, size, total_size):
        """Return the state after a step of a fit; the prior is spread over `total_size`."""
        model, log_likelihood = self._stepped(state.model, state, data, eta, size, total_size)
        return state.after(model, eta, log_likelihood, data, size)

    def _take_pass(self, progress, model, log_likelihood, data):
        """Let a progress take a model, after a pass with a log-likelihood before it."""
        state = progress.state
        size = state.size_of(data)
        progress.take(state.after(model, math.inf, log_likelihood, data, size))

    def _required(self, model):
        """Return the model, or raise ValueError if it has not what the solver requires."""
        if not isinstance(model, self.requires):
            raise ValueError(f"{type(model).__name__} {self.requires.lacking}.")
        return model

    def _shuffled_pass(self, progress, data, plan, learn):
        """Return the log-likelihood of a pass in shuffled mini-batches, each before `learn`."""
        log_likelihood = weight = 0.0
        for order in shuffled(len(data), plan.batch_size, plan.rng):
            for batch in mini_batches(data, plan.batch_size, order, end=len(order)):
                n_batch, state = batch.total_weight, learn(progress.state, batch)
                log_likelihood += n_batch * state.step.log_likelihood
                weight += n_batch
                progress.take(state)
                if progress.stopped:
                    return log_likelihood / weight
        return log_likelihood / weight

    def finished(self, state: State) -> State:
        """Return the final state of a fit.

        Parameters
        ----------
        state : State
            After the last pass.
        """
        return state

    def score(self, progress: Progress, data: Batch) -> float:
        """Return the score by which fits from several starts are compared: higher is better.

        It is a mean log-likelihood in nats per observation: of the last pass if the fit returns its
        model, or nearly so; else of the data under the model that the fit returns.

        Parameters
        ----------
        progress : Progress
            Of a fit that has ended.
        data : Batch
            Of the fit.
        """
        is_another = self.is_stochastic or getattr(self, "average_from", None) is not None
        if is_another or not progress.lower_bounds:
            return self.finished(progress.state).model.e_step(data)[1]
        return progress.lower_bounds[-1]

    def trial_passes(self, state: State, data: Batch, plan: Plan) -> int | None:
        """Return after how many passes the better of two starts goes on; None: one is enough.

        Parameters
        ----------
        state : State
            With the model of the first start.
        data : Batch
            Of the fit.
        plan : Plan
            Of the fit.
        """
        return None

    @abstractmethod
    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        """Take passes over the data, without end.

        Parameters
        ----------
        progress : Progress
            Its `take` is called with each new state.
        data : Batch
            All observations, in the form that the model takes.
        plan : Plan
            Of the fit.

        Yields
        ------
        log_likelihood : float
            Mean over the pass, each batch before it was learnt, in nats per observation.
        is_last : bool
            Whether the stopping rule is satisfied.
        """


def has_settled(rule, step):
    """Ask a stopping rule; False while the number of components changes."""
    return rule(step.log_likelihood, step.kl_divergence) and step.n_components is None


def shuffled(n, batch_size, rng):
    """Yield a random order of n observations in parts, of whole batches but for the last.

    Of many, a part has runs of neighbours from all over the data: memory does not grow with these.
    """
    if n <= _IN_ONE_PART:
        yield rng.permutation(n)
        return
    starts, left = rng.permutation(np.arange(0, n, _RUN)), np.empty(0, dtype=np.intp)
    for first in range(0, len(starts), _RUNS):
        part = (starts[first : first + _RUNS, None] + np.arange(_RUN)).ravel()
        order = np.concatenate([left, rng.permutation(part[part < n])])
        end = len(order) - len(order) % batch_size
        yield order[:end]
        left = order[end:]
    yield left


def mini_batches(data, size, order=None, begin=0, end=None):
    """Yield batches of observations number `begin` to `end` of an order, or of the data."""
    end = len(data) if end is None else end
    for start in range(begin, end, size):
        chosen = slice(start, min(start + size, end))
        yield data[chosen if order is None else order[chosen]]
