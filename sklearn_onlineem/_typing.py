"""Types in public signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray


class SparseArray(Protocol):
    """The part of SciPy's sparse arrays and matrices that is used; SciPy has no types."""

    def tocsr(self) -> object:
        """Return it in compressed rows."""


# float32 if the data are float32, else float64.
Floats: TypeAlias = NDArray[np.floating]
Integers: TypeAlias = NDArray[np.integer]
Bools: TypeAlias = NDArray[np.bool]
# From rows to coordinates.
Maps: TypeAlias = tuple[Callable[[Floats], Floats], ...]
# A list for a list of sequences, an array for one array.
FloatsOrList: TypeAlias = Floats | list[Floats]
IntegersOrList: TypeAlias = Integers | list[Integers]
RowData: TypeAlias = ArrayLike | SparseArray
SequenceData: TypeAlias = RowData | Sequence[RowData]
# The first argument of `Where`, by position.
Cut: TypeAlias = ArrayLike | None


class Where(TypedDict, total=False):
    """Arguments beside X that say which samples it has; estimators take some of them."""

    lengths: ArrayLike | None
    groups: ArrayLike | None
    classes: ArrayLike | None
    inputs: SequenceData | None
    future_inputs: SequenceData | None


Generator: TypeAlias = np.random.Generator
RandomState: TypeAlias = int | np.random.RandomState | None

# A decorator that returns a function of the same type.
Method = TypeVar("Method")

# Counts, and other rows that are mostly 0, may be sparse.
FloatsOrSparse: TypeAlias = Floats | SparseArray
