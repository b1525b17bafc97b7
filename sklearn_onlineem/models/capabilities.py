"""What some models can do besides the contract; solvers say which of it they require."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, NamedTuple, Self, TypeVar

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch
from sklearn_onlineem.models.component_steps import ComponentSteps
from sklearn_onlineem.statistics import Statistics

__all__ = [
    "Chain",
    "ComponentUpdates",
    "Move",
    "NewtonSteps",
    "RowUpdates",
    "SampledChains",
    "SplitsAndMerges",
]

# The model that is drawn.
Kind = TypeVar("Kind")


class NewtonSteps(ABC):
    """Models whose likelihood has Newton steps.

    Attributes
    ----------
    lacking : str
        What an error says of a model that has not got them; each capability has one.
    """

    lacking = "has no Newton step; use another solver"

    @abstractmethod
    def newton_step(self, data: Batch) -> tuple[Self, float, bool]:
        """Take a step of Newton's method on the likelihood.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.

        Returns
        -------
        new_model : Model
        log_likelihood : float
            Mean per observation under the old model, in nats.
        is_last : bool
            Whether no step can change the likelihood any more.

        Raises
        ------
        ValueError
            If the model has no such step.
        """


class RowUpdates(ABC):
    """Models of sequences that can be learnt after each row, by `row_by_row.learn_rows`."""

    lacking = (
        "cannot be learnt row by row: solver='recursive' learns hidden Markov models of symbols"
    )

    @abstractmethod
    def check_row_updates(self) -> None:
        """Raise ValueError if the model cannot be learnt row by row."""


class SplitsAndMerges(ABC):
    """Models with components that can be split and merged."""

    lacking = "has no components that are merged or split"

    @abstractmethod
    def split_merge_steps(
        self, data: Batch, n_merges: int, prior: Statistics | None = None
    ) -> Iterator[Self]:
        """Return an iterator of models one move away: with components merged, or split.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        n_merges : int
            How many pairs of components are tried for a merge, the most similar first.
        prior : Statistics or None, default=None
            Pseudo-statistics of a conjugate prior; None: there is none.

        Raises
        ------
        ValueError
            If the model has no such moves.
        """

    @abstractmethod
    def reinitialised(self, data: Batch) -> Move | None:
        """Return the `Move` that reinitialises an empty component, or None if none should.

        Parameters
        ----------
        data : Batch
            The rows that came last.
        """

    @abstractmethod
    def restructured(self, data: Batch, n_remembered: float, n_merges: int) -> Move | None:
        """Return the `Move` that merges or splits components of a stream, or None.

        Parameters
        ----------
        data : Batch
            The rows that came last.
        n_remembered : float
            Observations that the model stands for.
        n_merges : int
            How many pairs of components are tried for a merge.
        """

    @abstractmethod
    def check_split_merge(self, prior: Statistics | None) -> None:
        """Raise ValueError if the model has no structural moves, or a prior does not let it.

        Parameters
        ----------
        prior : Statistics or None
            Pseudo-statistics of a conjugate prior; None: there is none.
        """


class Move(NamedTuple):
    """What a structural move has led to.

    Attributes
    ----------
    model : MixtureModel
    reinitialised, half_of : int
        The component that was empty, and the one that was split; -1 where there is none.
    """

    model: object
    reinitialised: int
    half_of: int


class SampledChains(ABC):
    """Models with Markov chains of draws of all hidden variables."""

    lacking = "has no collapsed Gibbs sampler"

    @abstractmethod
    def chain(
        self,
        data: Batch,
        prior: Statistics | None,
        rng: np.random.Generator,
        collapsed: bool = True,
        dispersed: bool = False,
    ) -> Chain | None:
        """Return a chain of draws of all hidden variables, which goes on from pass to pass.

        Parameters
        ----------
        data : Batch
            All observations.
        prior : Statistics or None
            Pseudo-statistics of a conjugate prior; None: there is none.
        rng : numpy.random.Generator
            Of its start.
        collapsed : bool, default=True
            Whether each hidden variable is drawn given all the others, with parameters integrated
            out (collapsed Gibbs sampling). If not: given the parameters (stochastic EM).
        dispersed : bool, default=False
            Whether it begins away from the model, as do all chains of several but the first: that
            they agree says something only if they have not begun alike.

        Returns
        -------
        chain : Chain or None
            None: what is drawn in a pass of stochastic EM does not depend on what was drawn before.

        Raises
        ------
        ValueError
            If the model has no such chain.
        """


class Chain(ABC, Generic[Kind]):
    """Hidden variables of all data, which each sweep draws anew; it changes in place.

    Attributes
    ----------
    has_draws : bool
        Whether it can be aligned to a model, and parameters drawn by it.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics
    >>> model = MixtureModel(Poisson(), np.array([0.5, 0.5]), np.array([[1.0], [9.0]]))
    >>> data = Rows(np.array([[0.0], [2.0], [9.0], [13.0]]))
    >>> rates = Poisson().prior_statistics(2, n_features=1, shape=1.0, rate=0.1)
    >>> prior, rng = MixtureStatistics(np.zeros(2), rates), np.random.default_rng(0)
    >>> chain = model.chain(data, prior, rng)
    >>> _ = chain.sweep(rng)
    >>> chain.average_in()
    >>> chain.shares(), chain.model().n_components
    (array([0.5, 0.5]), 2)
    """

    has_draws = False

    @abstractmethod
    def sweep(self, rng: np.random.Generator) -> float:
        """Draw all hidden variables; return a mean log-likelihood per observation, in nats.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where random numbers come from.
        """

    @abstractmethod
    def average_in(self) -> None:
        """Let what was drawn last be part of an average over sweeps."""

    @abstractmethod
    def model(self) -> Kind:
        """Return the model of what was drawn last, or of the average if there is one."""

    @abstractmethod
    def shares(self) -> Floats:
        """Return the shares of the components as they were drawn last, adding up to 1."""


class ComponentUpdates(ABC):
    """Models whose components can be refreshed one at a time."""

    lacking = "has no components that can be refreshed one at a time"

    @abstractmethod
    def component_steps(
        self, data: Batch, prior: Statistics | None = None, order: str = "gain"
    ) -> ComponentSteps:
        """Return `ComponentSteps` from this model, which refresh one component at a time.

        Parameters
        ----------
        data : Batch
            Observations, in the form that this class of models takes.
        prior : Statistics or None, default=None
            Pseudo-statistics of a conjugate prior; None: there is none.
        order : {"gain", "cyclic"}, default="gain"
            Whether the component with the largest gain is next, or the next one.

        Raises
        ------
        ValueError
            If the model is no mixture, or `order` none of these.
        """
