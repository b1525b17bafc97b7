"""Independent rows with weights and labels: the data of mixtures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeVar

import numpy as np
from scipy import sparse

from sklearn_onlineem._checks import REALS, array_of, check_threads, check_weights
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.batch import Batch, Index
from sklearn_onlineem.data.sparse import checked_csr

Result = TypeVar("Result")


@dataclass(frozen=True)
class Rows(Batch):
    """Independent observations, one a row.

    A ValueError is raised for arrays that are not as described.

    Parameters
    ----------
    X : ndarray or CSR array of shape (n_rows, n_features)
        float32 or float64, C-contiguous or canonical CSR.
    sample_weight : ndarray of shape (n_rows,), default=None
        float64, non-negative, not all 0; None means 1 for each row.
    labels : ndarray of shape (n_rows,), default=None
        int32; the component of each row, or -1 if it is hidden. None: all are hidden.
    n_threads : int, default=1
        Number of threads. Results do not depend on it.
    has_gaps : bool, default=False
        Whether NaN among dense rows is a missing value; False says that there is none.
    """

    X: Floats | sparse.csr_array
    sample_weight: Floats | None = None
    labels: Integers | None = None
    n_threads: int = 1
    has_gaps: bool = False

    def __post_init__(self):
        X, weights, labels = self.X, self.sample_weight, self.labels
        if not sparse.issparse(X):
            array_of("X of Rows", X, REALS, ndim=2)
        elif X.format != "csr" or X.data.dtype not in REALS:
            raise ValueError("A sparse X of Rows must be CSR of float32 or float64.")
        else:
            object.__setattr__(self, "X", checked_csr(X))
        n = X.shape[0]
        if weights is not None:
            check_weights("Rows", weights, n)
        if labels is not None:
            array_of("labels of Rows", labels, (np.dtype(np.intc),))
            if len(labels) != n or labels.min(initial=0) < -1:
                raise ValueError(
                    f"labels of Rows must be {n} components from 0 up, or -1 for unknown."
                )
        check_threads(self.n_threads)

    @classmethod
    def unchecked(
        cls,
        X: Floats | sparse.csr_array,
        sample_weight: Floats | None = None,
        labels: Integers | None = None,
        n_threads: int = 1,
        has_gaps: bool = False,
    ) -> Self:
        """Return rows without checks of their parts.

        Parameters
        ----------
        X, sample_weight, labels, n_threads, has_gaps
            Like those of the class, in its types.
        """
        rows = object.__new__(cls)
        values = rows.__dict__
        values["X"], values["sample_weight"] = X, sample_weight
        values["labels"], values["n_threads"] = labels, n_threads
        values["has_gaps"] = has_gaps
        values["total_weight"] = float(X.shape[0] if sample_weight is None else sample_weight.sum())
        return rows

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.X.dtype

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @cached_property
    def total_weight(self) -> float:
        weight = self.sample_weight
        return float(self.X.shape[0] if weight is None else weight.sum())

    def __getitem__(self, index: Index) -> Rows:
        index = without_step(index, len(self))
        if sparse.issparse(self.X):
            X = _slice_csr(self.X, index)
        elif isinstance(index, np.ndarray) and index.dtype.kind == "i":
            X = self.X.take(index, axis=0)  # Ten times as fast where rows are short.
        else:
            X = self.X[index]
        return Rows.unchecked(
            X,
            None if self.sample_weight is None else self.sample_weight[index],
            None if self.labels is None else self.labels[index],
            self.n_threads,
            self.has_gaps,
        )

    @property
    def unlabelled(self) -> Rows:
        return replace(self, labels=None)

    def filled(self) -> Rows:
        """Return rows with observed values in all gaps, those of the column over and over.

        They are in the support of a distribution if the observed values are. A column without any
        gets those of all columns; rows without any value stay as they are.
        """
        X, missing = self.X.copy(), np.isnan(self.X)
        for j in np.flatnonzero(missing.any(axis=0)):
            observed = self.X[:, j][~missing[:, j]] if not missing[:, j].all() else self.X[~missing]
            if len(observed):
                X[missing[:, j], j] = np.resize(observed, np.count_nonzero(missing[:, j]))
        return Rows.unchecked(X, self.sample_weight, self.labels, self.n_threads)

    def by_completeness(self) -> tuple[tuple[Integers, Rows], ...]:
        """Return the complete rows, and those with missing values, with their numbers.

        Rows that lack the same values follow each other, as they share factors of covariances. The
        same objects at every call; none that is empty.
        """

        def parted():
            missing = np.isnan(self.X)
            has_gaps = missing.any(axis=1)
            complete, lacking = np.flatnonzero(~has_gaps), np.flatnonzero(has_gaps)
            if len(lacking):
                patterns = np.packbits(missing[lacking], axis=1)
                keys = patterns.view(f"V{patterns.shape[1]}").ravel()
                lacking = lacking[np.argsort(keys, kind="stable")]
            parts = [(numbers, self[numbers]) for numbers in (complete, lacking) if len(numbers)]
            for numbers, part in parts:
                part.__dict__["has_gaps"] = numbers is lacking
            return tuple(parts)

        return self.remember("by_completeness", parted)

    def without(self, rows: Integers) -> Rows | None:
        """Return the other rows; None if there are none that count.

        Parameters
        ----------
        rows : ndarray of int
            Numbers of rows.
        """
        others = self[np.delete(np.arange(len(self)), rows)]
        return others if len(others) and others.total_weight > 0.0 else None

    @classmethod
    def concatenate(cls, batches: Sequence[Rows]) -> Self:
        matrices = [batch.X for batch in batches]
        is_sparse = any(map(sparse.issparse, matrices))
        return cls.unchecked(
            sparse.vstack(matrices, format="csr") if is_sparse else np.concatenate(matrices),
            concatenated([batch.sample_weight for batch in batches], batches, 1.0),
            concatenated([batch.labels for batch in batches], batches, np.int32(-1)),
            batches[0].n_threads,
            any(batch.has_gaps for batch in batches),
        )

    def chunks(self, n_rows: int) -> tuple[Rows, ...]:
        """Return chunks in order; the same objects at every call.

        Parameters
        ----------
        n_rows : int
            Largest number of rows of a chunk, at least 1.
        """
        if self.X.shape[0] <= n_rows:
            return (self,)
        starts = range(0, len(self), n_rows)
        return self.remember(n_rows, lambda: tuple(self[i : i + n_rows] for i in starts))

    def remember(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the result of `compute`, which is called only the first time.

        Parameters
        ----------
        key : hashable
            Name of the result.
        compute : callable () -> object
            Depends on these rows only.
        """
        memory = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = compute()
        return memory[key]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_memory"}


class BatchOfRows(Batch):
    """Base of data whose observations are, or have, some of its `rows`."""

    rows: Rows

    @classmethod
    def unchecked(cls, *parts: object) -> Self:
        """Return data of these fields, in the order of the class, without checks.

        Parameters
        ----------
        *parts
            Like those of the class, in its types. The last ones have their defaults if left out.
        """
        data = object.__new__(cls)
        # For each row of a stream: `strict` takes as long as the rest.
        data.__dict__.update(zip(cls.__match_args__, parts))  # noqa: B905
        return data

    @property
    def X(self) -> Floats | sparse.csr_array:
        return self.rows.X

    @property
    def n_threads(self) -> int:
        return self.rows.n_threads

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.rows.X.dtype

    @property
    def n_features(self) -> int:
        return self.rows.X.shape[1]

    @property
    def n_rows(self) -> int:
        return self.rows.X.shape[0]


def concatenated(parts, batches, default):
    """Return values of all batches, `default` for those without; None if none has values."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    filled = [
        np.full((len(batch), *known[0].shape[1:]), default) if part is None else part
        for part, batch in zip(parts, batches, strict=True)
    ]
    return np.concatenate(filled)


def _slice_csr(X, index):
    """Return rows of a CSR matrix; a slice shares the entries, which scipy would copy."""
    if not isinstance(index, slice) or index.step not in (None, 1):
        return X[index]
    start, stop, _ = index.indices(X.shape[0])
    indptr = X.indptr[start : stop + 1]
    entries = slice(indptr[0], indptr[-1])
    part = type(X)((stop - start, X.shape[1]), dtype=X.dtype)
    # Its constructor would copy the parts of larger arrays.
    part.data, part.indices, part.indptr = X.data[entries], X.indices[entries], indptr - indptr[0]
    return part


@dataclass(frozen=True)
class RowsWithInputs(Rows):
    """Independent observations (x, y), one a row; x is known.

    The columns of X are `n_inputs` inputs, which `n_features` counts, and then the outputs.
    """

    n_inputs: int = 1

    @classmethod
    def of(cls, rows: Rows, n_inputs: int) -> Self:
        """Return rows of inputs and outputs, side by side, without checks."""
        pairs = cls.unchecked(rows.X, rows.sample_weight, rows.labels, rows.n_threads)
        pairs.__dict__["n_inputs"] = n_inputs
        return pairs

    @property
    def n_features(self) -> int:
        return self.n_inputs

    def __getitem__(self, index: Index) -> RowsWithInputs:
        return RowsWithInputs.of(super().__getitem__(index), self.n_inputs)

    @classmethod
    def concatenate(cls, batches: Sequence[RowsWithInputs]) -> Self:
        return cls.of(super().concatenate(batches), batches[0].n_inputs)


class Wanted(NamedTuple):
    """What an E-step of rows makes beside averages.

    Components are drawn with `uniforms` instead of averaged over, and `log_likelihoods` receives
    that of each row, without its weight: ndarrays of shape (n_rows,), or None.
    """

    uniforms: Floats | None = None
    log_likelihoods: Floats | None = None

    def _of(self, index):
        """Return what is wanted of some rows."""
        return Wanted(*(None if values is None else values[index] for values in self))


PLAIN = Wanted()


def task(
    rows=None, uniforms=None, log_likelihoods=None, base=None, responsibilities=None, out=None
):
    """Return what kernels of mixtures are given besides rows' values, and what they fill."""
    sample_weight, labels = (None, None) if rows is None else (rows.sample_weight, rows.labels)
    if uniforms is not None:
        uniforms = np.asarray(uniforms, dtype=np.float64)
    return sample_weight, labels, uniforms, log_likelihoods, base, responsibilities, out


def without_step(index, n):
    """Return the index array of a slice of n with a step, which kernels cannot read."""
    if isinstance(index, slice) and index.step not in (None, 1):
        return np.arange(n)[index].copy()
    return index
