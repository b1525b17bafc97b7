"""The state of a fit or stream, and the records of its updates."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from types import UnionType
from typing import ClassVar, NamedTuple, Self, TypeAlias, get_origin, get_type_hints

import numpy as np

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.schedules import step_size
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.capabilities import SplitMergeStep
from sklearn_onlineem.statistics import Statistics


def _certificate(step: Step | ComponentStep) -> float:
    square = step_size(step.eta) ** 2
    return step.kl_divergence / square if square > 0.0 else math.nan


class Step(NamedTuple):
    r"""Record of one update.

    Attributes
    ----------
    eta : float
        Learning rate; infinity for a step of batch EM. With running statistics: the size of the
        batch over theirs.
    log_likelihood : float
        Mean of the batch *before* the update, in nats per observation.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation. NaN after a new start of a
        stream, whose components are others.
    n_rows : int
        Rows, or pairs of strings, read so far, this update and all passes included.
    certificate : float
        :math:`\mathrm{KL} / \gamma^2`, in nats per observation: half the squared distance of the
        batch's statistics from the model's, to first order. NaN if the step size is too small.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    # Fields that only a `ComponentStep` sets.
    component_rates = n_components = model_weights = None
    reinitialised = half_of = -1
    certificate = property(_certificate)


class ComponentStep(NamedTuple):
    """Record of an update with more than a `Step` has: of components, or of several models.

    Attributes
    ----------
    eta, log_likelihood, kl_divergence, n_rows, certificate
        See `Step`.
    component_rates : ndarray of shape (n_components,) or None
        With running statistics, the learning rates of the components: the share of the batch in the
        statistics of each.
    n_components : int or None
        Active components, if their number has changed or one was reinitialised.
    reinitialised, half_of : int
        An empty component that became half of another, and that other; -1 if none.
    model_weights : ndarray of shape (n_models,) or None
        With ``solver="adaptive"``, the weights of the models after the update.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    component_rates: Floats | None = None
    n_components: int | None = None
    reinitialised: int = -1
    half_of: int = -1
    model_weights: Floats | None = None
    certificate = property(_certificate)


AnyStep: TypeAlias = Step | ComponentStep


class History(NamedTuple):
    """The latest 10,000 steps; adding a step shares the older ones.

    Attributes
    ----------
    blocks, latest : tuple of tuples, tuple of Step or ComponentStep
        A hundred in each block, and the steps of the incomplete one.
    """

    blocks: tuple[tuple[AnyStep, ...], ...] = ()
    latest: tuple[AnyStep, ...] = ()

    def with_step(self, step: AnyStep) -> History:
        """Return the history with one more step.

        Parameters
        ----------
        step : Step or ComponentStep
            The latest step.
        """
        latest = (*self.latest, step)
        if len(latest) < _BLOCK:
            return History(self.blocks, latest)
        return History((*self.blocks, latest)[-_BLOCKS:], ())

    def steps(self) -> list[AnyStep]:
        """Return the steps, oldest first."""
        return [step for block in (*self.blocks, self.latest) for step in block][-_HISTORY_STEPS:]


# An update that leaves nothing of the model before adds it to `Counters.decay`: exp(-800) is 0.
FORGOTTEN = 800.0
# Bounds the memory of long streams.
_HISTORY_STEPS, _BLOCK = 10_000, 100
_BLOCKS = _HISTORY_STEPS // _BLOCK


@dataclass(frozen=True)
class Restart:
    """Returned by a callback to let learning rates start again, because the source has changed.

    The model and running statistics stay, but count for the last `n_rows` rows only. Constant rates
    do not change, and the model of a fit that has ended counts for all of its data. While the first
    rows of a stream are kept, its start is made anew from the last of them, and later ones.

    Parameters
    ----------
    n_rows : int, default=0
        Rows that the model counts for; 0 as at the start of a stream.

    Examples
    --------
    One of two rates doubles. Without a restart the model follows too slowly:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Restart
    >>> rng = np.random.default_rng(0)
    >>> surprised = lambda step: step.log_likelihood < -5.0 and Restart(10)
    >>> for callbacks in [None, [surprised]]:
    ...     mixture = PoissonMixture(2, callbacks=callbacks, random_state=0)
    ...     for means in 50 * [[2.0, 20.0]] + 5 * [[2.0, 40.0]]:
    ...         mixture = mixture.partial_fit(rng.poisson(rng.choice(means, size=(100, 1))))
    ...     print(mixture.means_.ravel().round())
    [ 2. 27.]
    [ 2. 40.]
    """

    n_rows: int = 0

    def __post_init__(self):
        check_count("n_rows", self.n_rows, least=0)


class Counters(NamedTuple):
    """What has been learnt so far, in numbers that each update changes.

    `n_seen` are observations, by their weights, and `n_rows` rows read, in each pass;
    `n_rows_forgotten` no longer count after a `Restart`. `size` is that of `State.size_of`. `decay`
    is the sum of log(1 + eta) over the updates: of an earlier model's statistics the share
    ``exp(earlier.decay - decay)`` is left.
    """

    n_steps: int = 0
    n_seen: float = 0.0
    n_rows: int = 0
    size: float = 0.0
    decay: float = 0.0
    n_rows_forgotten: int = 0


class Constants(NamedTuple):
    """What the first data and the parameters say, for learning rates and the prior.

    `observations_needed` determine the model, for schedules that use it. `size_unit` is the size of
    an observation: rows of a sequence, in the mean of the first data; 0 before these. The prior is
    spread over `expected_size`, or the size seen, if that is larger. If `is_known`, the user gave
    the start, instead of data.
    """

    observations_needed: float = 1.0
    size_unit: float = 1.0
    expected_size: float = 0.0
    is_known: bool = False


@dataclass(frozen=True)
class Carry:
    """Base of what a stage, or a solver, remembers from one update to the next: a frozen value.

    Notes
    -----
    Methods take these:

    state, model : State, Model
        The present state, and another model of the same shape.
    n_rows, share : int, float
        The last rows that count, and their share of all that counted before.
    """

    # Rows of data that it holds.
    n_kept: ClassVar[int] = 0

    def restarted(self, state: State, n_rows: int, share: float) -> Self | None:
        """Return what is left of it after a `Restart`, or None.

        The last `n_rows` rows count, and `share` is theirs of all that counted before.
        """
        return self

    def with_model(self, model: Model, state: State) -> Self | None:
        """Return it for another model that counts for the same observations, or None."""
        return None


@dataclass(slots=True)
class Update:
    """What a step has found. The next state is made of it, and stages of a stream change it.

    Attributes
    ----------
    model, before : Model
        The new model, and the old one of the divergence; None: that of the state.
    eta, log_likelihood, component_rates, model_weights
        See `ComponentStep`.
    data, size : Batch or None, float
        What was learnt, and `State.size_of` it; None: nothing.
    move : SplitMergeStep or None
        The split or merge step that has led to the model.
    is_new : bool
        Whether the model does not come from the one before.
    carry : dict of str to Carry
        What stages of a stream, and the solver, remember, by their names.
    """

    model: Model
    eta: float
    log_likelihood: float
    data: Batch | None
    size: float
    before: Model | None = None
    component_rates: Floats | None = None
    model_weights: Floats | None = None
    move: SplitMergeStep | None = None
    is_new: bool = False
    carry: dict[str, Carry] = field(default_factory=dict)


class State(NamedTuple):
    """All that the next update needs: a frozen value, from which a solver makes the next.

    Attributes
    ----------
    model : Model
        The present model.
    prior : Statistics or None
        Pseudo-statistics of the whole stream; a step takes its share of them.
    step : Step, ComponentStep or None
        The last update.
    seed : tuple of int
        With the number of the update it seeds the next one, so that a stream that is pickled, or an
        update that fails, continues with the same draws.
    counters : Counters
        Numbers that each update changes.
    constants : Constants
        Numbers that stay.
    lengths : LengthDistribution or None
        Of the data seen, if the model needs it; each pass counts.
    merged : Statistics or None
        Statistics of the models that this one was merged from.
    origin : State or None
        The merged state that this one continues.
    carry : dict of str to Carry
        What stages of a stream, and one solver, remember, by their names. Of those that took no
        part in the last update there is nothing.

    Notes
    -----
    Methods take these:

    model : Model
        Another model, of the same shape.
    data, update, step : Batch, Update, Step or ComponentStep
        What was read, what was found, and its record.
    log_likelihood : float
        Mean of the data before the update, in nats per observation.
    n_rows : int or None
        Rows that were read; None: those of the data; of `restarted`, the last rows that count.
    name, carry : str, Carry
        Key, and what it remembers.
    size, mean_size : float
        By `size_of`: of all data that the prior is spread over, and of one observation of the step.
    """

    model: Model
    prior: Statistics | None = None
    step: AnyStep | None = None
    seed: tuple[int, ...] = ()
    counters: Counters = Counters()
    constants: Constants = Constants()
    lengths: LengthDistribution | None = None
    merged: Statistics | None = None
    origin: State | None = None
    carry: dict[str, Carry] = {}

    @property
    def awaits_data(self) -> bool:
        """Whether the model is known, and nothing has been learnt yet."""
        return self.constants.size_unit == 0.0

    @property
    def own_statistics(self) -> Statistics:
        """Statistics with which the model enters a merge."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    def rng(self) -> Generator:
        """Return the generator of the next update."""
        return step_rng(self.seed, self.counters.n_steps)

    def size_of(self, data: Batch) -> float:
        """Return the size of a batch, in observations of the mean size of the first data.

        It counts rows if the model does not explain the lengths of sequences, so that short ones
        move it less than long ones; else observations.
        """
        return self.model.size_of(data) / self.constants.size_unit

    def prior_terms(
        self, size: float, mean_size: float = 1.0
    ) -> tuple[tuple[float, Statistics], ...]:
        """Return the prior as terms of a step's sum, one or none: the share of one observation.

        Sizes, by `size_of`, are those of all data that the prior is spread over, and of a mean
        observation of the step.
        """
        return () if self.prior is None else ((mean_size / size, self.prior),)

    def lengths_with(self, data: Batch) -> LengthDistribution | None:
        """Return the distribution of lengths after a batch, or None if the model needs none."""
        lengths = data.length_distribution
        if lengths is None or self.lengths is None or self.lengths is lengths:
            return lengths
        share = data.total_weight / (self.counters.n_seen + data.total_weight)
        return self.lengths.merge(1.0 - share, lengths, share)

    def after(self, update: Update, n_rows: int | None = None) -> State:
        """Return the state after an update that read `n_rows` rows, or those of its data."""
        data, model, eta, counters = update.data, update.model, update.eta, self.counters
        n_read = counters.n_rows + (data.n_rows if n_rows is None else n_rows)
        if data is None:
            step, carry = Step(eta, update.log_likelihood, 0.0, n_read), self.carry | update.carry
            counted = self.counting(n_steps=counters.n_steps + 1, n_rows=n_read)
            return counted._replace(step=step, carry=carry)
        before, move = update.before or self.model, update.move
        divergence = math.nan if update.is_new else model.kl_divergence(before, like=data)
        step = Step(eta, update.log_likelihood, divergence, n_read)
        rates, weights, n_active = update.component_rates, update.model_weights, model.n_active
        is_other = n_active != before.n_active
        if is_other or move or rates is not None or weights is not None:
            n_active = n_active if move or (is_other and rates is None) else None
            halves = (move.reinitialised, move.half_of) if move else (-1, -1)
            step = ComponentStep(*step, rates, n_active, *halves, weights)
        decay = counters.decay + (math.log1p(eta) if eta < math.inf else FORGOTTEN)
        if move or update.is_new:
            decay += FORGOTTEN
        counted = Counters(
            counters.n_steps + 1, counters.n_seen + data.total_weight, n_read,
            counters.size + update.size, decay, counters.n_rows_forgotten,
        )  # fmt: skip
        origin, merged = self.origin if self.merged is None else self.as_origin(), None
        # By name it would take four times as long, in each update.
        return State(
            model, self.prior, step, self.seed, counted, self.constants, self.lengths_with(data),
            merged, origin, update.carry,
        )  # fmt: skip

    def after_pass(
        self, model: Model, log_likelihood: float, data: Batch, n_rows: int | None = None
    ) -> State:
        """Return the state after a step of batch EM.

        The mean log-likelihood of all data is that before the step, in nats per observation. If
        `n_rows` is None, their rows were read once.
        """
        update = Update(model, math.inf, log_likelihood, data, self.size_of(data))
        return self.after(update, n_rows)

    def counting(self, **changes: float) -> State:
        """Return this state with other fields of `Counters`."""
        return self._replace(counters=self.counters._replace(**changes))

    def carrying(self, name: str, carry: Carry) -> State:
        """Return this state with what a stage, or a solver, of a name remembers."""
        # `_replace` would take twice as long.
        return State(*self[:-1], {**self.carry, name: carry})

    def as_origin(self) -> State:
        """Return what a state keeps of an earlier one that it continues."""
        return self._replace(step=None, merged=None, carry={}, origin=None)

    def restarted(self, n_rows: int) -> State:
        """Return a state in which only the last `n_rows` rows count, as after a `Restart`."""
        counters, origin = self.counters, self.origin
        n_counted = counters.n_rows - counters.n_rows_forgotten
        share = n_rows / n_counted if n_rows < n_counted else 1.0
        if origin is not None:
            origin = origin.counting(size=share * origin.counters.size)
        left = ((name, one.restarted(self, n_rows, share)) for name, one in self.carry.items())
        carry = {name: one for name, one in left if one is not None}
        n_forgotten = counters.n_rows - min(n_rows, n_counted)
        counted = self.counting(size=share * counters.size, n_rows_forgotten=n_forgotten)
        return counted._replace(origin=origin, carry=carry)

    def with_model(self, model: Model) -> State:
        """Return this state with another model of the same shape, for the same observations.

        Stages keep what does not contradict it: running statistics become those of the model, a
        sample begins anew, and first and latest rows and records of surprise are dropped.
        """
        counted, carry = self.counting(decay=self.counters.decay + FORGOTTEN), self.carry_of(model)
        return counted._replace(model=model, merged=None, origin=None, carry=carry)

    def carry_of(self, model: Model) -> dict[str, Carry]:
        """Return what stages remember once another model takes the place of the present one."""
        left = ((name, one.with_model(model, self)) for name, one in self.carry.items())
        return {name: one for name, one in left if one is not None}

    def check(self) -> None:
        """Raise ValueError if a field has a wrong type, as in states of other versions."""
        kinds = get_type_hints(State)
        found = [(name, getattr(self, name), kinds[name]) for name in self._fields]
        if isinstance(self.counters, Counters) and isinstance(self.constants, Constants):
            numbers = self.counters._asdict() | self.constants._asdict()
            found += [(name, value, Real) for name, value in numbers.items()]
        if isinstance(self.carry, dict):
            found += [(name, value, Carry) for name, value in self.carry.items()]
        for name, value, kind in found:
            plain = kind if isinstance(kind, UnionType) else get_origin(kind) or kind
            if not isinstance(value, plain):
                raise ValueError(f"{name} of its state is {value!r:.60}.")


def step_rng(seed, n_steps):
    """Return the generator of the update number `n_steps`, counted from 0."""
    return np.random.default_rng((*seed, n_steps))
