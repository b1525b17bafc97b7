"""The protocol of a batch: what the algorithm asks of data, whatever they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Integers
from sklearn_onlineem._values import n_bytes

__all__ = ["Batch", "array_of", "check_offsets", "check_threads", "room", "without_step"]

_MOST_THREADS = np.iinfo(np.intc).max


def array_of(name, array, dtypes, ndim=1):
    """Raise ValueError unless this is a C-ordered, aligned array of one of the types."""
    if not isinstance(array, np.ndarray) or array.ndim != ndim or array.dtype not in dtypes:
        kinds = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(f"{name} must be an array of {kinds} with {ndim} dimension(s).")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} must be C-contiguous and aligned: np.require(..., 'AC').")


def check_offsets(offsets, n, what, least):
    """Raise ValueError unless offsets go from 0 to n by `least` at least."""
    array_of("offsets", offsets, (np.dtype(np.int64),))
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(f"offsets must begin with 0 and end with {n}, the number of {what}.")
    if (np.diff(offsets) < least).any():
        raise ValueError(
            f"offsets must rise by {least} or more: the lengths of sequences in {what}."
        )


def check_threads(n_threads):
    """Raise ValueError unless a number of threads is 1 or more, and a C int."""
    if not isinstance(n_threads, int | np.integer) or not 1 <= n_threads <= _MOST_THREADS:
        raise ValueError(f"n_threads must be from 1 to {_MOST_THREADS}, got {n_threads!r}.")


def room(name, shape):
    """An empty array of floats; ValueError, in the name of what asked for it, if it is too large.

    Parameters
    ----------
    name : str
        The parameter, or "the parameter of whom".
    shape : tuple of int
    """
    try:
        return np.empty(shape)
    except (MemoryError, OverflowError, ValueError):
        size = " x ".join(map(str, shape))
        raise ValueError(f"{name} is too large: there is no memory for {size} numbers.") from None


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
