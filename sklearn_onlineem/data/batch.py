"""The contract of a batch, and checks of its arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem._values import Loaded, n_bytes
from sklearn_onlineem.statistics import Statistics


def room(name, shape):
    """Return an empty array of floats, or raise ValueError if the parameter `name` is too large."""
    try:
        return np.empty(shape)
    except (MemoryError, OverflowError, ValueError):
        size = " x ".join(map(str, shape))
        raise ValueError(f"{name} is too large: there is no memory for {size} numbers.") from None


Index: TypeAlias = slice | Integers | Sequence[int]


class Batch(Loaded, ABC):
    """Observations with their weights and labels: a frozen value.

    Slices and index arrays choose observations; `concatenate` joins batches. The algorithm needs
    nothing else, so that models can define batches for their kind of data.

    Attributes
    ----------
    n_threads : int
        Number of threads that share the observations. Results do not depend on it.
    """

    n_threads: int

    # Weights of the observations; None means 1 for each.
    sample_weight: Floats | None = None
    # Known components or states of rows, -1 where unknown; None means that none is known.
    labels: Integers | None = None
    # Distribution of the lengths of sequences; None for other data.
    length_distribution: Statistics | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of observations."""

    @abstractmethod
    def __getitem__(self, index: Index) -> Self:
        """Return the observations of a slice (views where possible) or index array (copies)."""

    @classmethod
    @abstractmethod
    def concatenate(cls, batches: Sequence[Self]) -> Self:
        """Return the observations of several batches, in order.

        Parameters
        ----------
        batches : list of Batch
            At least one, all of this class.
        """

    @property
    def unlabelled(self) -> Self:
        """The observations without known components or states."""
        return self

    def followed_by(self, batches: Sequence[Self]) -> Self:
        """Return these observations and later ones; a batch may continue the last one before.

        Parameters
        ----------
        batches : sequence of Batch
            Of this class.
        """
        return type(self).concatenate([self, *batches])

    def observations_of(self, n_rows: int) -> int:
        """Return how many first observations have `n_rows` rows, or all.

        Parameters
        ----------
        n_rows : int
            From 0 up.
        """
        return min(n_rows, len(self))

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.generic]:
        """Data type of the values, and of the parameters of estimators fitted to them."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns; 0 if there are none."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows, or of pairs of strings."""

    @property
    def total_weight(self) -> float:
        """Total weight of the observations; their number, if they have no weights."""
        return float(len(self))

    @property
    def row_weight(self) -> float:
        """Total weight of the rows."""
        return self.total_weight

    def numbered_from(self, first: int) -> Self:
        """Return the observations, numbered from `first` up, as a part of larger data.

        An E-step that samples draws for each observation by its number. Data without numbers return
        themselves.

        Parameters
        ----------
        first : int
            Number of the first observation, from 0 up.
        """
        return self

    def __sizeof__(self):
        # Schedulers use it to place tasks.
        return n_bytes(self)


def of_equal_weight(weight):
    """Yield each weight, and the numbers of the observations that have it."""
    order = np.argsort(weight, kind="stable")
    for numbers in np.split(order, np.flatnonzero(np.diff(weight[order])) + 1):
        yield float(weight[numbers[0]]), numbers
