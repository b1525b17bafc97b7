"""Types in public signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Floats",
    "FloatsOrList",
    "FloatsOrSparse",
    "Integers",
    "IntegersOrList",
    "Method",
    "RandomState",
    "RowData",
    "SequenceData",
    "SparseArray",
]


class SparseArray(Protocol):
    """The part of SciPy's sparse arrays and matrices that is used; SciPy has no types."""

    def tocsr(self) -> object:
        """Return it in compressed rows."""


# In float32 where the data are, so no more can be said of them.
Floats: TypeAlias = NDArray[np.floating]
Integers: TypeAlias = NDArray[np.integer]
# What is said of a list of sequences is a list, of one array an array.
FloatsOrList: TypeAlias = Floats | list[Floats]
IntegersOrList: TypeAlias = Integers | list[Integers]
RowData: TypeAlias = ArrayLike | SparseArray
SequenceData: TypeAlias = RowData | Sequence[RowData]
RandomState: TypeAlias = int | np.random.RandomState | None

# A decorator that returns what it was given, as far as callers see.
Method = TypeVar("Method")

# What counts, and other rows that are mostly 0, may be.
FloatsOrSparse: TypeAlias = Floats | SparseArray
