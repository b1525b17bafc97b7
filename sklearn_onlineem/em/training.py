"""The loop around one step of EM: state, history, averages of iterates, passes until they stop."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, takewhile
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch, LengthDistribution
from sklearn_onlineem.em.carried import Carried, carried_step
from sklearn_onlineem.em.chains import Chains
from sklearn_onlineem.em.inertia import Exact, Inertia
from sklearn_onlineem.em.schedules import RateSchedule, rate_of
from sklearn_onlineem.em.state import Average, State, check_types
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.em.steps import AnyStep, Restart, record_of
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.row_by_row import SmoothedStatistics
from sklearn_onlineem.models.stream_moves import Move
from sklearn_onlineem.statistics import Statistics, combine

if TYPE_CHECKING:
    from sklearn_onlineem.em.bayesian import BayesianOnline
    from sklearn_onlineem.em.solver import Solver

__all__ = ["Training", "run"]

# Called with a step, and some with the training besides.
Callback: TypeAlias = Callable[..., object]
# After each, the mean log-likelihood of the data, and whether it was the last.
Passes: TypeAlias = Iterator[tuple[float, bool]]

# Long streams of single rows must not fill the memory.
_HISTORY_STEPS = 10_000
# Gains before were faster.
_LATEST_PASSES = 5
_EXACT = Exact()
_TRAINING_TYPES = {
    "state": State,
    "past": deque,
    "prior": Statistics | None,
    "observations_needed": Real,
    "size_unit": Real,
    "expected_size": Real,
    "n_seen_before": Real,
    "size_before": Real,
    "lower_bounds": list,
    "n_iter": Integral,
    "converged": bool | np.bool,
    "stopped": bool,
    "n_rates": Integral,
    "chains": Chains | None,
}


@dataclass
class Training:
    """A model in training: its state, and the history of its updates.

    Parameters
    ----------
    state : State
        All that the next update needs.
    prior : Statistics, default=None
        Pseudo-statistics of the whole stream; a step that stands for n observations takes 1/n.
    callbacks : tuple of callables, default=()
        Each is called with the `Step` after an update, and with the training itself if its
        attribute `takes_training` is true. A `Restart` lets learning rates begin anew; any other
        true value ends the fit.
    observations_needed : float, default=1.0
        How many determine the model, for schedules that count in these.
    size_unit : float, default=1.0
        Size of an observation: the rows of a sequence, in the mean of the first data.
    expected_size : float, default=0.0
        Of a stream, where it is known: the prior is spread over so many observations, and over
        those seen once these are more.
    past : deque of Step, CarriedStep or StructuralStep, default=deque()
        The latest updates, for `history_`.
    n_seen_before : float, default=0.0
        Observations seen before the present fit, by their weights.
    size_before : float, default=0.0
        Size of the data before the present fit, as learning rates count it.
    lower_bounds : list of float, default=[]
        Mean log-likelihood of each pass of the fit, in nats per observation.
    n_iter : int, default=0
        Passes of the fit.
    converged : bool, default=False
        Whether the fit ended by its rule.
    stopped : bool, default=False
        Whether a callback has ended it.
    n_rates : int, default=0
        Updates of the fit whose learning rate was finite.
    chains : Chains, default=None
        Record of the Markov chains of the last fit, if it ran any.

    Examples
    --------
    A model of one rate learns a batch, forgets it, and learns it anew by a smaller step:

    >>> import numpy as np
    >>> from sklearn_onlineem.data import Rows
    >>> from sklearn_onlineem.em import BayesianOnline, Online, State, Training
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> training, batch = Training(State(model)), Rows(np.array([[4.0], [4.0]]))
    >>> training.check()
    >>> size, before = training.size_of(batch), training.mark()
    >>> for eta in (1.0, training.rate(lambda t: 1.0 / 3.0, size)):
    ...     training.back_to(before)
    ...     step = training.update(batch, eta, size, total_size=size)
    ...     print(training.state.model.parameters)
    [[3.]]
    [[2.5]]

    Passes of batch EM end where the data are:

    >>> for _ in range(3):
    ...     step = training.update(batch, np.inf, size, size)
    ...     training.lower_bounds.append(step.log_likelihood)
    ...     training.n_iter += 1
    >>> training.state.model.parameters, len(training.history)
    (array([[4.]]), 4)
    >>> np.round(training.latest_gains(), 3), np.round(training.latest_divergences(), 3)
    (array([0.38, 0.  ]), array([0.38, 0.  , 0.  ]))

    The average of iterates, and a copy that another fit goes on from, with statistics that it
    carries along:

    >>> training.average_in()
    >>> step = training.advance(model, 1.0, -2.0, batch, n_seen=2.0, size=2.0, n_rows=2)
    >>> training.average_in()
    >>> training.take_average()
    >>> training.state.model.parameters
    array([[3.]])
    >>> resumed = training.kept().resumed(prior=None, callbacks=(), seed=(7,))
    >>> resumed.prior_terms(size=2.0), resumed.n_iter
    ((), 0)
    >>> step = resumed.update_carried(batch, BayesianOnline())
    >>> step.component_rates.round(2), resumed.state.model.parameters.round(2)
    (array([0.17]), array([[3.17]]))
    >>> step = resumed.advance_by_pass(model, -2.0, batch)
    >>> step.eta, resumed.state.n_seen
    (inf, 14.0)

    The first batch of a stream:

    >>> stream = Training(State(model))
    >>> stream.start_from(batch, pseudo_statistics=None, n_passes=1, solver=Online())
    >>> stream.state.model.parameters, stream.state.n_steps
    (array([[4.]]), 1)
    """

    state: State
    prior: Statistics | None = None
    callbacks: tuple[Callback, ...] = ()
    observations_needed: float = 1.0
    size_unit: float = 1.0
    expected_size: float = 0.0
    past: deque[AnyStep] = field(default_factory=deque)
    n_seen_before: float = 0.0
    size_before: float = 0.0
    lower_bounds: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False
    n_rates: int = 0
    chains: Chains | None = None

    def __getstate__(self):
        # skops would lose what is in a deque.
        kept = self.kept()
        return {**vars(kept), "past": list(kept.past)}

    def __setstate__(self, state):
        vars(self).update(state, past=deque(state["past"]))

    def kept(self) -> Training:
        """Return what is kept of it: a copy as it is now, which another thread may go on with.

        Callbacks are the estimator's, which passes them on; they need not be picklable.
        """
        past, lower_bounds = self.past.copy(), [*self.lower_bounds]
        return replace(self, callbacks=(), past=past, lower_bounds=lower_bounds)

    def check(self) -> None:
        """Raise ValueError if it is not of the types that it must be of."""
        check_types(self, _TRAINING_TYPES)
        self.state.check()

    @property
    def history(self) -> list[AnyStep]:
        """The latest steps, oldest first."""
        self._file()
        return list(self.past)[-_HISTORY_STEPS:]

    def latest_gains(self) -> list[float]:
        """Return by how much the last passes of a fit changed the log-likelihood, oldest first."""
        latest = map(float, self.lower_bounds[-_LATEST_PASSES:])
        return [abs(after - before) for before, after in pairwise(latest)]

    def latest_divergences(self) -> list[float]:
        """Return KL(new || old) of the last passes, as far as each was one step of batch EM."""
        passes = takewhile(lambda step: step.eta == math.inf, reversed(self.history))
        return [step.kl_divergence for step in islice(passes, self.n_iter)][::-1]

    def mark(self) -> tuple[dict[str, object], int]:
        """Return what `back_to` needs to undo the updates that follow."""
        return vars(self).copy(), len(self.past)

    def back_to(self, mark: tuple[dict[str, object], int]) -> None:
        """Undo updates since a mark, the last of which has failed; callbacks may have read them.

        Parameters
        ----------
        mark : object
            What `mark` returned.
        """
        marked, n_past = mark
        vars(self).update(marked)
        while len(self.past) > n_past:
            self.past.pop()

    def resumed(
        self, prior: Statistics | None, callbacks: tuple[Callback, ...], seed: tuple[int, ...]
    ) -> Training:
        """Return a copy for another fit to start from, with draws of its own.

        Parameters
        ----------
        prior : Statistics or None
            Pseudo-statistics of the fit.
        callbacks : tuple of callables
            As of the class.
        seed : tuple of int
            Of its draws.

        Returns
        -------
        training : Training
            Without passes so far.
        """
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
            chains=None,
        )

    def size_of(self, data: Batch) -> float:
        """Return the size of a batch, in observations of the mean size of the first data.

        Where sequences have given lengths their rows count, so that a few rows after a long
        sequence move the model by as little as they say of it; with sequences of one length, and
        with rows, it is the number of observations.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.

        Returns
        -------
        size : float
        """
        return self.state.model.size_of(data) / self.size_unit

    def rate(self, schedule: RateSchedule, size: float) -> float:
        """Return the learning rate of a batch, by its size and by what was seen before.

        Parameters
        ----------
        schedule : callable t -> eta
            Learning rates, or a `Schedule`.
        size : float
            `size_of` the batch.

        Returns
        -------
        eta : float
        """
        return rate_of(schedule, self.state.size_seen, size)

    def update(
        self,
        data: Batch,
        eta: float,
        size: float,
        total_size: float,
        inertia: Inertia = _EXACT,
        sampled: bool = False,
        move: Callable[[Model, Batch, float], Move | None] | None = None,
    ) -> AnyStep:
        """Update the model with one batch.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        eta : float
            Learning rate; infinity is a step of batch EM.
        size : float
            `size_of` the batch.
        total_size : float
            Size of the data that the prior is spread over, this batch among them. Each step takes
            its share anew, as the inertia has that of what it remembers: right where the model
            remembers few rows of many, while a prior counts for more where it never forgets.
        inertia : Inertia, default=Exact()
            The old model's own statistics, or an estimate of them.
        sampled : bool, default=False
            Whether hidden variables are drawn instead of averaged over.
        move : callable (model, data, n_remembered) -> Move or None, default=None
            Structural move that the new model may make, which stands for so many observations.

        Returns
        -------
        step : Step
        """
        state, n_seen = self.state, data.total_weight
        draws = sampled or state.model.draws
        rng = state.rng() if draws or inertia.draws else None
        new_model, log_likelihood = online_step(
            state.model,
            data,
            eta,
            self.prior_terms(total_size, size / n_seen),
            rng if draws else None,
            inertia.with_rng(rng),
        )
        moved = None if move is None else move(new_model, data, n_seen * (1.0 + 1.0 / eta))
        if moved is not None:
            new_model = moved.model
        lengths = state.lengths_with(data)
        return self.advance(
            new_model, eta, log_likelihood, data, n_seen, size, data.n_rows, lengths,
            moved=moved,
        )  # fmt: skip

    def update_carried(self, data: Batch, solver: BayesianOnline) -> AnyStep:
        """Update the model with one batch, whose statistics join those that are carried along.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        solver : BayesianOnline
            What is forgotten, and what the model is of the posterior.

        Returns
        -------
        step : Step
        """
        state, n_seen = self.state, data.total_weight
        _check_conjugate(state.model)
        before = solver.start(state, data) if state.carried is None else state.carried
        prior = solver.prior_of(state.model, self.prior)
        rng = state.rng() if state.model.draws else None
        kept = solver.forgetting
        terms = () if prior is None else ((1.0, prior),)
        new_model, carried, rates, log_likelihood = carried_step(
            state.model, data, before, terms, kept, rng
        )
        size, lengths = self.size_of(data), state.lengths_with(data)
        return self.advance(
            new_model, n_seen / (kept * before.mass), log_likelihood, data, n_seen, size,
            data.n_rows, lengths, carried=carried, component_rates=rates,
        )  # fmt: skip

    def prior_terms(
        self, size: float, mean_size: float = 1.0
    ) -> tuple[tuple[float, Statistics], ...]:
        """The prior as terms of a step's sum: the share of an observation in data of that size.

        Parameters
        ----------
        size : float
            Of all the data that the prior is spread over, as `size_of` has it.
        mean_size : float, default=1.0
            Of an observation of the step.

        Returns
        -------
        terms : tuple of (float, Statistics)
            Weights and pseudo-statistics; none without a prior.
        """
        return () if self.prior is None else ((mean_size / size, self.prior),)

    def advance(
        self,
        new_model: Model,
        eta: float,
        log_likelihood: float,
        like: Batch,
        n_seen: float,
        size: float,
        n_rows: int,
        lengths: LengthDistribution | None = None,
        n_steps: int = 1,
        carried: Carried | SmoothedStatistics | None = None,
        component_rates: Floats | None = None,
        moved: Move | None = None,
    ) -> AnyStep:
        """Make a new model the present one.

        It has learnt from `n_seen` more observations, of that size, read in `n_rows`.

        Parameters
        ----------
        new_model : Model
            That takes the place of the present one.
        eta : float
            Learning rate of the update; infinity for a step of batch EM.
        log_likelihood : float
            Mean of the data before the update, in nats per observation.
        like : Batch
            Data whose lengths the divergence between the models is taken for.
        n_seen : float
            Observations of the update, by their weights.
        size : float
            Their `size_of`.
        n_rows : int
            Rows of the update.
        lengths : LengthDistribution, default=None
            Of all data so far, where the model asks for it.
        n_steps : int, default=1
            Updates that it stands for.
        carried : Carried or SmoothedStatistics, default=None
            Statistics that are carried along from here.
        component_rates : ndarray of shape (n_components,), default=None
            Learning rates of the components, where statistics are carried along.
        moved : Move, default=None
            The structural move that was made besides.

        Returns
        -------
        step : Step, StructuralStep or CarriedStep
        """
        state = self.state
        n_steps, n_seen = state.n_steps + n_steps, state.n_seen + n_seen
        n_rows += state.n_rows
        divergence = new_model.kl_divergence(state.model, like=like)
        record = eta, log_likelihood, divergence, n_rows
        step = record_of(record, component_rates, state.model, new_model, moved)
        self._file()
        # By position: names take as long as an addition of statistics.
        self.state = State(
            new_model, n_steps, n_seen, step, lengths, None, state.seed, state.average,
            state.size_seen + size, n_rows, carried,
        )  # fmt: skip
        self.n_rates += eta != math.inf
        if self.callbacks:
            self._call_back(step)
        # Only now, when no callback has failed, so that what is undone has lost nothing.
        if len(self.past) > _HISTORY_STEPS:
            self.past.popleft()
        return step

    def advance_by_pass(self, new_model: Model, log_likelihood: float, data: Batch) -> AnyStep:
        """Make a model the present one to which a pass over all data has led.

        Parameters
        ----------
        new_model : Model
            That takes the place of the present one.
        log_likelihood : float
            Mean of the data before the pass, in nats per observation.
        data : Batch
            All of them.

        Returns
        -------
        step : Step or StructuralStep
        """
        size, lengths = self.size_of(data), self.state.lengths_with(data)
        n_seen = data.total_weight
        return self.advance(
            new_model, math.inf, log_likelihood, data, n_seen, size, data.n_rows, lengths
        )

    def _call_back(self, step):
        for callback in self.callbacks:
            takes_training = getattr(callback, "takes_training", False)
            answer = callback(step, self) if takes_training else callback(step)
            if isinstance(answer, Restart):
                self.state = self.state.restarted(answer.n_rows)
            else:
                self.stopped |= bool(answer)

    def _file(self):
        """Move the latest step to the past, unless it is there already."""
        step = self.state.step
        if step is not None and not (self.past and self.past[-1] is step):
            self.past.append(step)

    def start_from(
        self, data: Batch, pseudo_statistics: Statistics | None, n_passes: int, solver: Solver
    ) -> None:
        """Settle on the first batch of a stream: passes of batch EM that count as one step.

        Where the solver carries statistics along, those of the last pass are the first, and with a
        prior on all components the model is their posterior's.

        Parameters
        ----------
        data : Batch
            The first batch.
        pseudo_statistics : Statistics or None
            Sums over observations that keep components apart of which the batch tells little.
        n_passes : int
            Passes of batch EM, at least 1.
        solver : Solver
            Of the stream.

        Raises
        ------
        ValueError
            If the solver cannot learn a stream of the model.
        """
        solver.check_stream(self)
        share, state = 1.0 / data.total_weight, self.state
        prior = solver.prior_of(state.model, self.prior)
        terms = [(share, term) for term in (pseudo_statistics, prior) if term is not None]
        model, rng = state.model, state.rng() if state.model.draws else None
        for _ in range(n_passes - 1):
            model, _ = batch_step(model, data, terms, rng)
        if solver.carries:
            _check_conjugate(model)
        evidence, log_likelihood = model.e_step(data, rng=rng)
        if solver.carries and _is_proper(model, prior):
            terms = [(share, prior)]
        new_model = model.m_step(combine([(1.0, evidence), *terms]))
        divergence, n_rows = new_model.kl_divergence(model, like=data), data.n_rows
        masses = model.masses(evidence) if solver.carries else None
        # All that components stand for is from this batch.
        rates = None if masses is None else (masses > 0.0).astype(float)
        update = math.inf, log_likelihood, divergence, n_rows
        self.state = State(
            new_model,
            1,
            data.total_weight,
            record_of(update, rates, state.model, new_model),
            state.lengths_with(data),
            seed=state.seed,
            size_seen=self.size_of(data),
            n_rows=n_rows,
            carried=Carried(data.total_weight, evidence) if solver.carries else None,
        )
        self._call_back(self.state.step)

    # ------------------------------------------------------------------------------ averaging

    def average_in(self) -> None:
        """Let the present model count in the average of the iterates."""
        state = self.state
        statistics = state.model.own_statistics(state.lengths)
        average = state.average
        if average is None:
            average = Average(1, statistics)
        else:
            average = average.with_one_more(statistics)
        self.state = state._replace(average=average)

    def take_average(self) -> None:
        """Make the model of the averaged statistics the present one, if there are any."""
        state = self.state
        if state.average is not None:
            model = state.model.m_step(state.average.statistics)
            self.state = state._replace(model=model, average=None)


def _is_proper(model, prior):
    """Whether a prior holds something of each component."""
    masses = None if prior is None else model.masses(prior)
    return masses is not None and bool((masses > 0.0).all())


def _check_conjugate(model):
    if not model.is_conjugate:
        raise ValueError(
            "solver='bayesian' needs statistics of a fixed size, which the hyper-parameters of a"
            " conjugate prior are; those of this model grow with the data."
        )


def run(
    training: Training,
    passes: Passes,
    max_iter: int,
    report: Callable[[int, float], object] | None = None,
) -> Training:
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
