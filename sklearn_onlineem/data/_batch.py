"""The protocol of a batch: what the algorithm asks of data, whatever they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Integers
from sklearn_onlineem._values import n_bytes

__all__ = ["Batch", "without_step"]

Index: TypeAlias = slice | Integers | Sequence[int]


class Batch(ABC):
    """Observations, and what belongs to each: a frozen value that flows through models.

    Slices and index arrays choose observations; `concatenate` is the inverse of cutting. The
    algorithm needs nothing else, so that any model can bring data of its own kind.

    Attributes
    ----------
    n_threads : int
        Number of threads that share the observations. Results do not depend on it.
    """

    n_threads: int

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of observations."""

    @abstractmethod
    def __getitem__(self, index: Index) -> Self:
        """Return the observations of a slice (views where possible) or index array (copies)."""

    @classmethod
    @abstractmethod
    def concatenate(cls, batches: Sequence[Self]) -> Self:
        """Return the observations of several batches, one batch after the other.

        Parameters
        ----------
        batches : list of Batch
            At least one, all of this class.
        """

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.generic]:
        """Data type of the values, in which users see parameters that were learnt from them."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns; 0 where there are none."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows, or of pairs of strings."""

    @property
    def total_weight(self) -> float:
        """Total weight of the observations: their number, unless they have weights."""
        return float(len(self))

    def numbered_from(self, first: int) -> Self:
        """Return the observations as a part of a whole that begins with its number `first`.

        Random numbers are drawn by these numbers where an E-step draws for each observation. Data
        that have none return themselves.

        Parameters
        ----------
        first : int
            How many observations the parts before have, from 0 up.

        Returns
        -------
        batch : Batch
        """
        return self

    def __sizeof__(self):
        # Schedulers place tasks by it.
        return n_bytes(self)


def without_step(index, n):
    """Return the index array of a slice that skips some of n: kernels take no strides."""
    if isinstance(index, slice) and index.step not in (None, 1):
        return np.arange(n)[index].copy()
    return index
