"""All that the next update needs, and what an update leaves on record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.schedules import step_size
from sklearn_onlineem.em.settings import check_count
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, pooled

__all__ = ["AnyStep", "ComponentStep", "History", "Restart", "State", "Step", "step_rng"]


def _certificate(step: Step | ComponentStep) -> float:
    square = step_size(step.eta) ** 2
    return step.kl_divergence / square if square > 0.0 else math.nan


class Step(NamedTuple):
    r"""Record of one update.

    Attributes
    ----------
    eta : float
        Learning rate; infinity for a step of batch EM. Where running statistics are kept, the size
        of the batch over theirs.
    log_likelihood : float
        Mean log-likelihood of the batch per observation *before* the update, in nats.
    kl_divergence : float
        Joint KL(new model || old model), in nats per observation.
    n_rows : int
        Rows, or pairs of strings, that were read up to and including this update since the model
        began, in all passes over them: where it is on a learning curve.
    certificate : float
        Certificate of the batch, :math:`\mathrm{KL} / \gamma^2`: half the squared distance of its
        statistics from the model's, in nats per observation. A step of size gamma moves the model
        by gamma times what a step of batch EM would, to first order, and divergences are squares of
        that. NaN where the rate is too small to tell.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    # What a `ComponentStep` says besides.
    component_rates = n_components = None
    reinitialised = half_of = -1
    certificate = property(_certificate)


class ComponentStep(NamedTuple):
    """Record of an update that says something of the components of a mixture besides.

    Attributes
    ----------
    eta, log_likelihood, kl_divergence, n_rows, certificate
        As of `Step`.
    component_rates : ndarray of shape (n_components,) or None
        Learning rates of the components, where running statistics are kept: the share of the batch
        in the statistics of each.
    n_components : int or None
        Components that have any weight now, where their number has changed or one was
        reinitialised.
    reinitialised, half_of : int
        An empty component that has become half of another, and that other; -1 if none.
    """

    eta: float
    log_likelihood: float
    kl_divergence: float
    n_rows: int
    component_rates: Floats | None = None
    n_components: int | None = None
    reinitialised: int = -1
    half_of: int = -1
    certificate = property(_certificate)


AnyStep: TypeAlias = Step | ComponentStep


class History(NamedTuple):
    """The latest steps; a longer history shares the older part of a shorter one.

    Attributes
    ----------
    blocks : tuple of tuples of Step or ComponentStep
        A hundred in each.
    latest : tuple of Step or ComponentStep
        Those that do not fill a block yet.

    Examples
    --------
    >>> from sklearn_onlineem.em.state import History, Step
    >>> before = History().with_step(Step(1.0, -2.0, 0.1, 10))
    >>> after = before.with_step(Step(0.5, -1.9, 0.1, 20))
    >>> [step.n_rows for step in before.steps()], [step.n_rows for step in after.steps()]
    ([10], [10, 20])
    """

    blocks: tuple[tuple[AnyStep, ...], ...] = ()
    latest: tuple[AnyStep, ...] = ()

    def with_step(self, step: AnyStep) -> History:
        """Return the history with one more step.

        Parameters
        ----------
        step : Step or ComponentStep
            The next.
        """
        latest = (*self.latest, step)
        if len(latest) < _BLOCK:
            return History(self.blocks, latest)
        return History((*self.blocks, latest)[-_BLOCKS:], ())

    def steps(self) -> list[AnyStep]:
        """Return the latest 10,000 steps, oldest first."""
        return [step for block in (*self.blocks, self.latest) for step in block][-_HISTORY_STEPS:]


# Long streams of single rows must not fill the memory.
_HISTORY_STEPS, _BLOCK = 10_000, 100
_BLOCKS = _HISTORY_STEPS // _BLOCK


@dataclass(frozen=True)
class Restart:
    """What a callback returns to let learning rates begin anew, as the source has changed.

    The model stays. It counts from now on for the last `n_rows` rows only, so that it follows what
    comes as it would after so many; running statistics weigh as little. A schedule that is constant
    has nothing to begin, and a fit counts all of its data once it has ended.

    Parameters
    ----------
    n_rows : int, default=0
        Rows that still count; 0: none, as at the start of a stream.

    Raises
    ------
    ValueError
        If `n_rows` is no whole number from 0 up.

    Examples
    --------
    A model of two rates learns a batch in which one has doubled, as after ten rows:

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
    [37.  2.]
    [ 2. 40.]
    """

    n_rows: int = 0

    def __post_init__(self):
        check_count("n_rows", self.n_rows, least=0)


class State(NamedTuple):
    """All that the next update needs: a frozen value, from which a solver makes the next.

    Attributes
    ----------
    model : Model
        The model as it is now.
    n_steps : int
        Updates so far.
    n_seen : float
        Observations so far, by their weights.
    step : Step, ComponentStep or None
        The last update.
    lengths : LengthDistribution or None
        Of the data seen, where the model asks for it; each pass counts.
    seed : tuple of int
        With `n_steps` it makes the generator of the next update, so that a stream that is
        pickled, or an update that fails, continues with the same draws.
    size_seen : float
        Size of the data so far, as learning rates count it: see `size_of`.
    n_rows : int
        Rows read so far; each pass counts.
    kept : object or None
        What the solver of the last step alone keeps, such as running statistics.
    merged : Statistics or None
        Those of the models that this one was merged from: all that it stands for.
    prior : Statistics or None
        Pseudo-statistics of the whole stream; a step that stands for n observations takes 1/n.
    expected_size : float
        Of a stream, where it is known: the prior is spread over so many observations, and over
        those seen once these are more.
    observations_needed : float
        How many determine the model, for schedules that count in these.
    size_unit : float
        Size of an observation: the rows of a sequence, in the mean of the first data.

    Examples
    --------
    A model that has seen 300 rows, and what is left of them where the last 100 count:

    >>> import numpy as np
    >>> from sklearn_onlineem.em.state import State
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> state = State(model, n_steps=3, n_seen=300.0, size_seen=300.0, n_rows=300, seed=(7,))
    >>> state.restarted(100).size_seen
    100.0
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

    @property
    def own_statistics(self) -> Statistics:
        """Statistics with which the model enters a merge."""
        return self.model.own_statistics(self.lengths) if self.merged is None else self.merged

    def rng(self) -> np.random.Generator:
        """Return the generator of the next update."""
        return step_rng(self.seed, self.n_steps)

    def size_of(self, data: Batch) -> float:
        """Return the size of a batch, in observations of the mean size of the first data.

        Where sequences have given lengths their rows count, so that a few rows after a long
        sequence move the model by as little as they say of it; with sequences of one length, and
        with rows, it is the number of observations.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        """
        return self.model.size_of(data) / self.size_unit

    def prior_terms(
        self, size: float, mean_size: float = 1.0
    ) -> tuple[tuple[float, Statistics], ...]:
        """Return the prior as terms of a step's sum: the share of an observation in data.

        Each step takes its share anew, as the inertia has that of what it remembers: right where
        the model remembers few rows of many, while a prior counts for more where it never forgets.

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

    def lengths_with(self, data: Batch) -> LengthDistribution | None:
        """Return the distribution of lengths once data have been seen, too.

        None where the model does not ask for it.

        Parameters
        ----------
        data : Batch
            In the form that the model takes.
        """
        lengths = self.model.lengths(data)
        if lengths is None or self.lengths is None:
            return lengths
        return pooled([(self.n_seen, self.lengths), (data.total_weight, lengths)])

    def after(
        self,
        model: Model,
        eta: float,
        log_likelihood: float,
        data: Batch,
        size: float,
        kept: object = None,
        component_rates: Floats | None = None,
        move: object = None,
        before: Model | None = None,
    ) -> State:
        """Return the state after an update by data that has led to a model.

        Parameters
        ----------
        model : Model
            That takes the place of the present one.
        eta : float
            Learning rate of the update; infinity for a step of batch EM.
        log_likelihood : float
            Mean of the data before the update, in nats per observation.
        data : Batch
            Whose lengths the divergence between the models is taken for.
        size : float
            `size_of` the data.
        kept : object, default=None
            What the solver keeps from here.
        component_rates : ndarray of shape (n_components,), default=None
            Of running statistics.
        move : Move, default=None
            The split or merge step that was made besides.
        before : Model, default=None
            That the divergence is taken from, where it is not the present one.

        Returns
        -------
        state : State
        """
        n_rows = self.n_rows + data.n_rows
        divergence = model.kl_divergence(self.model if before is None else before, like=data)
        record = eta, log_likelihood, divergence, n_rows
        if component_rates is not None:
            step = ComponentStep(*record, component_rates)
        elif move is not None:
            step = ComponentStep(*record, None, model.n_active, move.reinitialised, move.half_of)
        elif model.n_active != self.model.n_active:
            step = ComponentStep(*record, None, model.n_active)
        else:
            step = Step(*record)
        # By position: names take as long as an addition of statistics.
        return State(
            model, self.n_steps + 1, self.n_seen + data.total_weight, step,
            self.lengths_with(data), self.seed, self.size_seen + size, n_rows, kept,
            None, self.prior, self.expected_size, self.observations_needed, self.size_unit,
        )  # fmt: skip

    def restarted(self, n_rows: int) -> State:
        """Return a state of which the last `n_rows` rows count only, as after a `Restart`.

        Parameters
        ----------
        n_rows : int
            From 0 up.
        """
        share = min(1.0, n_rows / self.n_rows) if self.n_rows else 1.0
        kept = self.kept.keeping(share) if hasattr(self.kept, "keeping") else self.kept
        return self._replace(size_seen=share * self.size_seen, kept=kept)

    def check(self) -> None:
        """Raise ValueError if it is not of the types that it must be of.

        What was saved by another version is checked so: its checksum may be of another layout.
        """
        for name, kind in _STATE_TYPES.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} of its state is {getattr(self, name)!r:.60}.")


def step_rng(seed, n_steps):
    """Return the generator of the update that follows so many others of a training."""
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
}
