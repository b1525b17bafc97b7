"""The base of solvers, their arguments, and the online step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sklearn_onlineem._typing import Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.schedules import RateSchedule, rate_of
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.stages.base import Inner, Stage
from sklearn_onlineem.em.stages.levels import FollowLevels
from sklearn_onlineem.em.stages.memories import Remember
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import SkipOutliers
from sklearn_onlineem.em.stages.reinitialise import Reinitialise
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Carry, State, Update
from sklearn_onlineem.em.step import Exact, Inertia, batch_step, online_step
from sklearn_onlineem.em.stopping import StoppingRule
from sklearn_onlineem.statistics import Statistics, combine, pooled

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
    rng : numpy.random.Generator
        Of the orders in which observations are taken.
    rate_is_chosen, start_is_given : bool, default=False
        Whether the user has chosen the first learning rate; and the start, so that components have
        their places.
    max_iter : int, default=None
        Largest number of passes, if it is known.
    bound_before : float, default=-inf
        Mean log-likelihood of the last pass of the fit that this one continues.
    """

    schedule: RateSchedule
    batch_size: int
    stopping: Callable[..., StoppingRule]
    rng: Generator
    rate_is_chosen: bool = False
    start_is_given: bool = False
    max_iter: int | None = None
    bound_before: float = -math.inf


@dataclass(frozen=True)
class Average(Carry):
    """Mean of the statistics of n iterates (Polyak-Ruppert)."""

    n: int
    statistics: Statistics


class Solver(Settings, ABC):
    """Base of the solvers: `start` and `stream` learn from a stream, `passes` from data in memory.

    A solver is a frozen value of settings. Each step replaces a `State`, in whose `carry` stages of
    the stream, and the solver, keep what they remember.

    Attributes
    ----------
    requires : type or None
        Capability that a fit needs of its model, see `models.capabilities`.
    inertia : Inertia
        Regularisation of online steps towards the old model.
    draws, is_stochastic, has_own_rates : bool
        Whether hidden variables are drawn from their posterior instead of averaged over; whether
        iterates never converge, so that no rule ends a fit; whether learning rates are those of the
        solver, not of the estimator's schedule.

    Notes
    -----
    Methods take these:

    state : State
        Model, prior and counters of the fit or stream.
    data : Batch
        Observations in the form that the model takes.
    progress : Progress
        Of the fit, which each pass changes.
    plan : Plan
        What the estimator's parameters ask of a fit.
    pseudo_statistics : Statistics or None
        Of the start, which counts for as many observations; None: it counts for none.
    n_passes : int
        Passes over the first batch.
    kind : type
        Class of a stage.
    """

    requires: type | None = None
    inertia: Inertia = Exact()
    draws = is_stochastic = has_own_rates = False
    # Settings that some solvers have, as they are for the others.
    acceleration = "auto"
    stages = sample = half_lives = average_from = None
    skips_outliers = reinitialises = follows_levels = True
    start_rows = 100

    def stream_stages(self) -> tuple[Stage, ...]:
        """Return the stages of streams, the outermost first."""
        if self.stages is not None:
            return self.stages
        stages = [
            Opening(self.start_rows),
            self.sample is not None and Challenge(self.sample),
            self.skips_outliers and SkipOutliers(),
            self.half_lives is not None and Remember(self.half_lives),
            self.reinitialises and Reinitialise(),
            self.follows_levels and FollowLevels(),
        ]
        return tuple(stage for stage in stages if stage)

    def stage(self, kind: type[Stage]) -> Stage | None:
        """Return the stage of a class, or None if streams have none."""
        return next((one for one in self.stream_stages() if isinstance(one, kind)), None)

    def prior_of(self, state: State) -> Statistics | None:
        """Return the prior of a state as pseudo-statistics for the solver's estimate, or None.

        That of the state leads to the mode of the posterior.
        """
        return state.prior

    def check(self, state: State) -> None:
        """Raise ValueError if the solver cannot learn a stream of a state's model and any prior."""

    def start(
        self, state: State, data: Batch, pseudo_statistics: Statistics | None, n_passes: int
    ) -> State:
        """Learn the first batch of a stream: passes of batch EM that count as one step.

        The state has the initial model. Pseudo-statistics, or None, are sums over observations that
        keep components apart where the batch has little evidence. There is one pass at least.
        """
        self.check(state)
        model, rng = state.model, state.rng() if state.model.draws else None
        pseudo, prior = (
            [] if term is None else [(1.0 / data.total_weight, term)]
            for term in (pseudo_statistics, self.prior_of(state))
        )
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, pseudo + prior, rng)
        evidence, log_likelihood = model.e_step(data, rng=rng)
        update = Update(model, math.inf, log_likelihood, data, state.size_of(data), model)
        return state.after(self._begun(update, evidence, pseudo, prior))

    def _begun(self, update, evidence, pseudo, prior):
        """Return the first update of a stream, whose model is still that of the last E-step."""
        update.model = update.model.m_step(combine([(1.0, evidence), *pseudo, *prior]))
        return update

    def stream(self, state: State) -> Inner:
        """Return the step of a stream: the stages that take part, around that of the solver.

        `State.after` makes the next state of the update that it returns. `Opening` is not among
        these stages: it may replace the state.
        """
        self.check(state)
        learn = self._learn
        for stage in reversed(self.stream_stages()):
            if not isinstance(stage, Opening) and isinstance(state.model, stage.requires):
                learn = partial(stage.step, learn)
        return learn

    def _learn(self, state, batch, stream, found=None, total_size=0.0):
        """Return the update by an online step; `found` is the E-step, if it has been made."""
        # The prior is spread over all data, or over those so far if nothing else is known.
        seen, size = state.counters.size, state.size_of(batch)
        eta = rate_of(stream.schedule, seen, size)
        model, rng = state.model, None if found is None else found.rng
        draws = self.draws or model.draws
        if rng is None and (draws or self.inertia.draws):
            rng = state.rng()
        total_size = total_size or max(seen + size, state.constants.expected_size)
        prior = state.prior_terms(total_size, size / batch.total_weight)
        inertia = self.inertia if rng is None else partial(self.inertia, rng=rng)
        model, log_likelihood = online_step(
            model, batch, eta, prior, rng if draws else None, inertia, found and found[:2]
        )
        return Update(model, eta, log_likelihood, batch, size)

    def _required(self, model):
        """Return the model, or raise ValueError if it has not what the solver requires."""
        if not isinstance(model, self.requires):
            raise ValueError(f"{type(model).__name__} {self.requires.lacking}.")
        return model

    def _shuffled_pass(self, progress, data, plan, learn, number=1):
        """Return the log-likelihood of a pass in shuffled mini-batches, each before `learn`."""
        log_likelihood = weight = 0.0
        for order in shuffled(len(data), plan.batch_size, plan.rng):
            for batch in mini_batches(data, plan.batch_size, order, 0, len(order)):
                before, n_batch = progress.state, batch.total_weight
                state = learn(before, batch)
                log_likelihood += n_batch * state.step.log_likelihood
                weight += n_batch
                progress.take(self._averaged(state, before, number))
                if progress.stopped:
                    return log_likelihood / weight
        return log_likelihood / weight

    def _averaged(self, state, before, number):
        """Return the state after an update of a pass, with the `Average` of iterates."""
        if self.average_from is None or number < self.average_from:
            return state
        statistics, mean = state.model.own_statistics(state.lengths), before.carry.get("average")
        n = 0 if mean is None else mean.n
        if n > 0:
            statistics = pooled([(n, mean.statistics), (1, statistics)])
        return state.carrying("average", Average(n + 1, statistics))

    def finished(self, state: State) -> State:
        """Return the final state of a fit, with the model of the `Average` if there is one."""
        mean = state.carry.get("average")
        if mean is None:
            return state
        return state._replace(model=state.model.m_step(mean.statistics), carry={})

    def score(self, progress: Progress, data: Batch) -> float:
        """Return the score by which fits from several starts are compared: higher is better.

        It is a mean log-likelihood in nats per observation: of the last pass if the fit returns its
        model, or nearly so; else of the data under the model that the fit returns, also after a
        single pass that has read the rows more than once.
        """
        is_another = self.is_stochastic or self.average_from is not None
        if len(progress.lower_bounds) == 1:
            is_another |= progress.state.step.n_rows > data.n_rows
        if is_another or not progress.lower_bounds:
            return self.finished(progress.state).model.e_step(data)[1]
        return progress.lower_bounds[-1]

    def trial(self, state: State, data: Batch, plan: Plan) -> tuple[int, int | None]:
        """Return how many starts to try, and for how many passes; None: to their end.

        The state has the model of the first start.
        """
        return 1, None

    @abstractmethod
    def passes(self, progress: Progress, data: Batch, plan: Plan) -> Passes:
        """Take passes over the data, without end.

        Parameters
        ----------
        progress, data, plan : Progress, Batch, Plan
            Of the fit. `Progress.take` is called with each new state.

        Yields
        ------
        log_likelihood : float
            Mean over the pass, each batch before it was learnt, in nats per observation.
        is_last : bool
            Whether the stopping rule is satisfied.
        """


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


def mini_batches(data, size, order, begin, end):
    """Yield batches of observations number `begin` to `end` of an order; None: of the data."""
    for start in range(begin, end, size):
        chosen = slice(start, min(start + size, end))
        yield data[chosen if order is None else order[chosen]]
