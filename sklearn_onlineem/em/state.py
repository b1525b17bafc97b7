"""The state of a fit or stream, and the records of its updates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.outliers import Gate
from sklearn_onlineem.em.sample import Sample
from sklearn_onlineem.em.schedules import step_size
from sklearn_onlineem.em.settings import check_count
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
        Mean log-likelihood of the batch *before* the update, in nats per observation.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation. NaN if the start of a stream was
        made anew, whose components are others.
    n_rows : int
        Rows, or pairs of strings, read so far, this update and all passes included.
    certificate : float
        :math:`\mathrm{KL} / \gamma^2`, in nats per observation: half the squared distance of the
        batch's statistics from the model's, to first order. NaN if the step size is too small, or
        the divergence NaN.
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
        Like those of `Step`.
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
    blocks : tuple of tuples of Step or ComponentStep
        A hundred in each.
    latest : tuple of Step or ComponentStep
        The steps of the incomplete block.
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


# What an update adds to `decay` that leaves nothing of the model before it: exp(-800) is 0.
FORGOTTEN = 800.0
# Bounds the memory of long streams.
_HISTORY_STEPS, _BLOCK = 10_000, 100
_BLOCKS = _HISTORY_STEPS // _BLOCK


@dataclass(frozen=True)
class Restart:
    """Returned by a callback to let learning rates start again, because the source has changed.

    The model stays, but counts for the last `n_rows` rows only; so do running statistics. Constant
    schedules do not change, and the model of a fit that has ended counts for all of its data. While
    the first rows of a stream are kept, its start is made anew from the last of them, and later
    ones.

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


class Opening(NamedTuple):
    """The first rows of a stream, from which its start is made anew as more come.

    Attributes
    ----------
    batches : tuple of Batch
        All observations so far.
    n_rows : int
        Rows so far.
    size : float
        Size of the model in components: `size` times `start_rows` of the solver are kept, until
        the start is final. 0: it is final at once.
    n_started : int
        Rows of the latest start.
    kept : object or None
        Data of the solver.
    """

    batches: tuple[Batch, ...]
    n_rows: int
    size: float
    n_started: int
    kept: object = None

    def with_last(self, n_rows: int) -> Opening:
        """Return an opening that begins with the last observations, of at most `n_rows` rows.

        Parameters
        ----------
        n_rows : int
            From 0 up.
        """
        data = self.batches[0].followed_by(self.batches[1:])
        last = data[data.observations_of(max(0, data.n_rows - n_rows)) :]
        return self._replace(batches=(last,), n_rows=last.n_rows, n_started=0)


class State(NamedTuple):
    """All that the next update needs: a frozen value, from which a solver makes the next.

    Attributes
    ----------
    model : Model
        The present model.
    n_steps : int
        Updates so far.
    n_seen : float
        Observations so far, by their weights.
    step : Step, ComponentStep or None
        The last update.
    lengths : LengthDistribution or None
        Of the data seen, if the model needs it; each pass counts.
    seed : tuple of int
        With `n_steps` it seeds the next update, so that a stream that is pickled, or an update that
        fails, continues with the same draws.
    size_seen : float
        Size of the data so far, see `size_of`.
    n_rows : int
        Rows read so far; each pass counts.
    kept : object or None
        Data of one solver, such as running statistics; first an `Opening`, in many streams.
    merged : Statistics or None
        Statistics of the models that this one was merged from.
    prior : Statistics or None
        Pseudo-statistics of the whole stream; a step takes its share of them.
    expected_size : float
        Expected size of the stream, over which the prior is spread; the size seen, if that is
        larger.
    observations_needed : float
        Number of observations that determine the model, for schedules that use it.
    size_unit : float
        Size of an observation: rows of a sequence, in the mean of the first data.
    recent : tuple of Batch
        Latest observations of a stream, kept while a component is empty or a level may be new, see
        `Solver.step`.
    n_rows_forgotten : int
        Rows that no longer count, after a `Restart`.
    gate : Gate or None
        What tells outliers of a stream.
    sample : Sample or None
        Of all observations of a stream, for challengers.
    is_known : bool
        Whether the user gave the start, instead of data. Before first data `size_unit` is then 0.
    origin : State or None
        The merged state that this one continues.
    decay : float
        Sum of log(1 + eta) over the updates: the share of an earlier model's statistics that is
        left is ``exp(earlier.decay - decay)``.
    """

    model: Model
    n_steps: int = 0
    n_seen: float = 0.0
    step: AnyStep | None = None
    lengths: LengthDistribution | None = None
    seed: tuple[int, ...] = ()
    size_seen: float = 0.0
    n_rows: int = 0
    kept: object = None
    merged: Statistics | None = None
    prior: Statistics | None = None
    expected_size: float = 0.0
    observations_needed: float = 1.0
    size_unit: float = 1.0
    recent: tuple[Batch, ...] = ()
    n_rows_forgotten: int = 0
    gate: Gate | None = None
    sample: Sample | None = None
    is_known: bool = False
    origin: State | None = None
    decay: float = 0.0

    @property
    def awaits_data(self) -> bool:
        """Whether the model is known, and nothing has been learnt yet."""
        return self.size_unit == 0.0

    @property
    def own_statistics(self) -> Statistics:
        """Statistics with which the model enters a merge."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    @property
    def scorer(self) -> object:
        """What has the `log_likelihood` that users see: the model, or several that are mixed."""
        kept = self.kept.kept if isinstance(self.kept, Opening) else self.kept
        return kept if hasattr(kept, "log_likelihood") else self.model

    def rng(self) -> np.random.Generator:
        """Return the generator of the next update."""
        return step_rng(self.seed, self.n_steps)

    def size_of(self, data: Batch) -> float:
        """Return the size of a batch, in observations of the mean size of the first data.

        It counts rows if the model does not explain the lengths of sequences, so that short
        sequences move it less than long ones; else it is the number of observations.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        """
        return self.model.size_of(data) / self.size_unit

    def prior_terms(
        self, size: float, mean_size: float = 1.0
    ) -> tuple[tuple[float, Statistics], ...]:
        """Return the prior as terms of a step's sum, one or none: the share of one observation.

        Parameters
        ----------
        size : float
            Of all the data that the prior is spread over, as `size_of` counts it.
        mean_size : float, default=1.0
            Mean size of an observation of the step.
        """
        return () if self.prior is None else ((mean_size / size, self.prior),)

    def lengths_with(self, data: Batch) -> LengthDistribution | None:
        """Return the distribution of lengths after a batch, or None if the model needs none.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        """
        lengths = data.length_distribution
        if lengths is None or self.lengths is None or self.lengths is lengths:
            return lengths
        share = data.total_weight / (self.n_seen + data.total_weight)
        return self.lengths.merge(1.0 - share, lengths, share)

    def after(
        self,
        model: Model,
        eta: float,
        log_likelihood: float,
        data: Batch,
        size: float,
        kept: object = None,
        component_rates: Floats | None = None,
        before: Model | None = None,
        model_weights: Floats | None = None,
    ) -> State:
        """Return the state after an update.

        Parameters
        ----------
        model : Model
            The new model.
        eta : float
            Learning rate of the update; infinity for a step of batch EM.
        log_likelihood : float
            Mean of the data before the update, in nats per observation.
        data : Batch
            The data of the update.
        size : float
            `size_of` the data.
        kept : object, default=None
            Data that the solver needs for its next update.
        component_rates : ndarray of shape (n_components,), default=None
            Learning rates of the components, with running statistics.
        before : Model, default=None
            Old model of the divergence; None: the present model.
        model_weights : ndarray of shape (n_models,), default=None
            Weights of several models after the update.
        """
        n_rows = self.n_rows + data.n_rows
        divergence = model.kl_divergence(self.model if before is None else before, like=data)
        record = eta, log_likelihood, divergence, n_rows
        n_active = None if model.n_active == self.model.n_active else model.n_active
        if component_rates is not None:
            step = ComponentStep(*record, component_rates)
        elif n_active is not None or model_weights is not None:
            step = ComponentStep(*record, None, n_active, -1, -1, model_weights)
        else:
            step = Step(*record)
        origin = self.origin if self.merged is None else self.as_origin()
        decay = self.decay + (math.log1p(eta) if eta < math.inf else FORGOTTEN)
        # By position: keyword arguments would cost as much as adding statistics.
        return State(
            model, self.n_steps + 1, self.n_seen + data.total_weight, step,
            self.lengths_with(data), self.seed, self.size_seen + size, n_rows, kept,
            None, self.prior, self.expected_size, self.observations_needed, self.size_unit,
            (), self.n_rows_forgotten, self.gate, self.sample,
            self.is_known, origin, decay,
        )  # fmt: skip

    def as_origin(self) -> State:
        """Return what a state keeps of an earlier one that it continues."""
        return self._replace(
            step=None, kept=None, merged=None, recent=(), gate=None, sample=None, origin=None
        )

    def after_none(self, log_likelihood: float, n_rows: int, gate: Gate) -> State:
        """Return the state after a batch that was left out as a whole.

        Parameters
        ----------
        log_likelihood : float
            Mean of the batch, in nats per observation.
        n_rows : int
            Of the batch.
        gate : Gate
            After the batch.
        """
        n_rows += self.n_rows
        step = Step(0.0, log_likelihood, 0.0, n_rows)
        return self._replace(n_steps=self.n_steps + 1, step=step, n_rows=n_rows, gate=gate)

    def with_gate(self, gate: Gate | None, n_left_out: int) -> State:
        """Return this state after an update of which some rows were left out.

        Parameters
        ----------
        gate : Gate or None
            After the update.
        n_left_out : int
            Rows of the batch that are not among those of the update.
        """
        if n_left_out:
            n_rows = self.n_rows + n_left_out
            return self._replace(gate=gate, n_rows=n_rows, step=self.step._replace(n_rows=n_rows))
        return self._replace(gate=gate)

    def moved(self, move: SplitMergeStep, before: State, data: Batch) -> State:
        """Return this state after an update with a split or merge step made as well.

        Parameters
        ----------
        move : SplitMergeStep
            Of the new model.
        before : State
            The state before the update.
        data : Batch
            The data of the update.
        """
        model, step = move.model, self.step
        step = ComponentStep(
            step.eta, step.log_likelihood, model.kl_divergence(before.model, like=data),
            step.n_rows, step.component_rates, model.n_active, move.reinitialised, move.half_of,
            step.model_weights,
        )  # fmt: skip
        return self._replace(model=model, step=step, decay=self.decay + FORGOTTEN)

    def restarted(self, n_rows: int) -> State:
        """Return a state in which only the last `n_rows` rows count, as after a `Restart`.

        Parameters
        ----------
        n_rows : int
            From 0 up.
        """
        if isinstance(self.kept, Opening):
            # Whose next start counts the rows that are left.
            return self._replace(kept=self.kept.with_last(n_rows))
        n_counted = self.n_rows - self.n_rows_forgotten
        share = n_rows / n_counted if n_rows < n_counted else 1.0
        kept, origin = self.kept, self.origin
        return self._replace(
            size_seen=share * self.size_seen,
            kept=kept.keeping(share) if hasattr(kept, "keeping") else kept,
            origin=origin and origin._replace(size_seen=share * origin.size_seen),
            sample=self.sample and Sample(self.sample.size, (*self.seed, self.n_rows)),
            n_rows_forgotten=self.n_rows - min(n_rows, n_counted),
        )

    def with_model(self, model: Model) -> State:
        """Return this state with another model, which counts for the same observations.

        Running statistics become those of the model. What contradicts it is dropped: first rows of
        a stream, whose start is then final, latest rows, records of surprise, several models. A
        sample of the stream begins anew.

        Parameters
        ----------
        model : Model
            Of the same shape.
        """
        kept = (
            self.kept.of_another(model, self.lengths) if hasattr(self.kept, "of_another") else None
        )
        sample = self.sample and Sample(self.sample.size, (*self.seed, self.n_rows))
        return self._replace(
            model=model, kept=kept, merged=None, recent=(), gate=None, sample=sample,
            origin=None, decay=self.decay + FORGOTTEN,
        )  # fmt: skip

    def check(self) -> None:
        """Raise ValueError if a field has a wrong type, as in states of other versions."""
        for name, kind in _STATE_TYPES.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} of its state is {getattr(self, name)!r:.60}.")


def step_rng(seed, n_steps):
    """Return the generator of the update number `n_steps`, counted from 0."""
    return np.random.default_rng((*seed, n_steps))


_STATE_TYPES = {
    "model": Model,
    "n_steps": Integral,
    "n_seen": Real,
    "step": AnyStep | None,
    "lengths": LengthDistribution | None,
    "seed": tuple,
    "size_seen": Real,
    "n_rows": Integral,
    "merged": Statistics | None,
    "prior": Statistics | None,
    "expected_size": Real,
    "observations_needed": Real,
    "size_unit": Real,
    "recent": tuple,
    "n_rows_forgotten": Integral,
    "gate": Gate | None,
    "sample": Sample | None,
    "is_known": bool,
    "origin": State | None,
    "decay": Real,
}
