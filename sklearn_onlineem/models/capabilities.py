"""Optional capabilities of models; solvers list those that they require."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Self, TypeVar

from sklearn_onlineem._typing import Floats, Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.statistics import Statistics

# The class of the model.
Kind = TypeVar("Kind")


class NewtonSteps(ABC):
    """Models whose likelihood has Newton steps."""

    # Ends the error about a model without this capability; each has one.
    lacking = "has no Newton step"

    @abstractmethod
    def newton_step(self, data: Batch) -> tuple[Self, float, bool]:
        """Take a step of Newton's method on the likelihood.

        Return the new model, the mean log-likelihood per observation under the old one, in nats,
        and whether no step can change the likelihood any more. ValueError if there is no such step.
        """


class RowLikelihoods(ABC):
    """Models whose E-step also gives the log-likelihood of each row; their data have `without`."""

    # Whether that of a row depends on the rows before it.
    is_chained = False

    @abstractmethod
    def e_step(
        self, data: Batch, rng: Generator | None = None, log_likelihoods: Floats | None = None
    ) -> tuple[Statistics, float]:
        """Return the expected statistics and the log-likelihood, weighted averages per observation.

        `log_likelihoods`, (n_rows,), receives those of all rows, in nats, without their weights;
        NaN for rows that are missing or have no weight.
        """


class Reinitialises(ABC):
    """Models with components that may become empty in a stream, and halves of others again."""

    @abstractmethod
    def has_empty(self, data: Batch) -> bool:
        """Return whether a component is nearly empty, so that `reinitialised` may change it.

        `data` are the last batch of a stream.
        """

    @abstractmethod
    def reinitialised(self, data: Batch) -> SplitMergeStep | None:
        """Return the `SplitMergeStep` that reinitialises an empty component, or None.

        `data` are the last observations of a stream.
        """


class SplitsAndMerges(ABC):
    """Models with components that can be split and merged."""

    lacking = "has no components that are merged or split"

    @abstractmethod
    def split_merge_steps(
        self,
        data: Batch,
        rng: Generator,
        prior: Sequence[tuple[float, Statistics]] = (),
        price: float | None = None,
        n_merges: int = 0,
    ) -> Iterator[Self]:
        """Return an iterator of models after split and merge steps, the most promising first.

        With a fixed number of components there is at most one, with two components merged and
        another one split, or several such triples. Else a pair is merged, or a component split. It
        should be better, which is known only on a sample of the data: take some passes of batch EM,
        and compare the criterion for all data.

        Parameters
        ----------
        data : Batch
            Observations, at least some thousand if there are more.
        rng : numpy.random.Generator
            Draws samples, and starts of splits.
        prior : sequence of (float, Statistics), default=()
            Weights and pseudo-statistics of conjugate priors, as in a step of batch EM.
        price : float, default=None
            What a parameter costs, in nats per observation. None: the number of components stays.
        n_merges : int, default=0
            How many pairs are tried for a merge, those that lose the least first.
        """

    @abstractmethod
    def check_split_merge(
        self, prior: Statistics | None, data: Batch | None = None, fixed: bool = False
    ) -> None:
        """Raise ValueError if the model, or its prior, does not allow split and merge steps.

        Parameters
        ----------
        prior : Statistics or None
            Pseudo-statistics of a conjugate prior; None: there is none.
        data : Batch, default=None
            Observations, whose components must not be known.
        fixed : bool, default=False
            Whether the steps keep the number of components.
        """


class Levels(ABC):
    """Models of sequences about a level that their source may leave; streams keep them stable."""

    lacking = "has no level that a source may leave"
    # Rows that tell a new level.
    fewest_rows = 10

    @abstractmethod
    def is_far(self, data: Batch) -> bool:
        """Return whether a row of a batch is as far from the level as those of another level."""

    @abstractmethod
    def relocated(self, data: Batch) -> tuple[Self, Batch] | None:
        """Return the model at the level of data, and those of the data to learn at that level.

        None: the next batch of a stream may be at the level of the model, or is too short to tell.
        """

    @abstractmethod
    def bounded(self, before: Self) -> Self:
        """Return the model, with transitions that do not grow unless they did before a step.

        Parameters
        ----------
        before : Levels
            The model before the step.
        """


class SplitMergeStep(NamedTuple):
    """A mixture after a merge or a split, or both."""

    model: object
    # The component that was empty, and the one that was split; -1 for none.
    reinitialised: int
    half_of: int


class SampledChains(ABC):
    """Models with Markov chains of all hidden variables."""

    lacking = "has no collapsed Gibbs sampler"

    @abstractmethod
    def chain(
        self,
        data: Batch,
        prior: Statistics | None,
        rng: Generator,
        collapsed: bool = True,
        dispersed: bool = False,
    ) -> Chain | None:
        """Return a chain of draws of all hidden variables, or None if passes are independent.

        Parameters
        ----------
        data : Batch
            All observations. ValueError if the model has no chain for them.
        prior : Statistics or None
            Pseudo-statistics of a conjugate prior; None: there is none.
        rng : numpy.random.Generator
            Source of random numbers of the start.
        collapsed : bool, default=True
            Whether each hidden variable is drawn given all the others, with parameters integrated
            out (collapsed Gibbs sampling). If not: given the parameters (stochastic EM).
        dispersed : bool, default=False
            Whether to start away from the model, as several chains should: chains that start alike
            cannot show whether they have converged.
        """


class Chain(ABC, Generic[Kind]):
    """Hidden variables of all data, drawn by each sweep; it changes in place.

    Notes
    -----
    Methods take these:

    rng : numpy.random.Generator
        Source of random numbers.
    """

    # Whether it can be aligned to a model, and draw parameters.
    has_draws = False

    @abstractmethod
    def sweep(self, rng: Generator) -> float:
        """Draw all hidden variables; return a mean log-likelihood per observation, in nats."""

    @abstractmethod
    def average_in(self) -> None:
        """Add the present state to an average over sweeps."""

    @abstractmethod
    def model(self) -> Kind:
        """Return the model of the average over sweeps, or of the last one if there is none."""

    @abstractmethod
    def shares(self) -> Floats:
        """Return the shares of the components in the last sweep, adding up to 1."""


class ComponentUpdates(ABC):
    """Models whose components can be refreshed one at a time."""

    lacking = "has no components that can be refreshed one at a time"

    @abstractmethod
    def component_steps(
        self, data: Batch, prior: Statistics | None = None, order: str = "gain"
    ) -> Iterable[tuple[Self, float]]:
        """Return the models after sweeps, each with the log-likelihood before its sweep.

        The prior has pseudo-statistics, or is None. With the order "gain" the component with the
        largest expected gain is next, with "cyclic" all take turns; ValueError for others.
        """
