"""Checks and conversion of sparse matrices."""

from itertools import chain

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _rows

_MOST_COLUMNS = np.iinfo(np.int32).max
_FAULTS = {
    _rows.POINTERS_START: "indptr must begin with 0",
    _rows.POINTERS_FALL: "indptr must not fall",
    _rows.POINTERS_END: "indptr must end with the number of stored values: call X.prune()",
    _rows.OUT_OF_RANGE: "indices must lie in the shape of X",
}


def canonical_csr(X):
    """Return a sparse matrix as CSR with sorted rows and without duplicates, not changing it.

    Raises ValueError if its structure is corrupt. It is checked first, in O(nnz), as scipy would
    read beyond the arrays if pointers or indices are out of range. Values are shared where
    possible; pointers and indices are copied before they are checked, as another thread may write
    to those of X. Integers become float64 where duplicates are summed.
    """
    if len(X.shape) != 2:
        raise ValueError(f"X must have 2 dimensions, but is sparse of shape {X.shape}.")
    if X.format == "csr":
        parts, form = _checked(X, X.shape)
        csr = _container(X)(parts, shape=X.shape, copy=False)
    else:
        csr = _TO_CSR[X.format](X)
        form = _checked(csr, csr.shape)[1]
    if form == _rows.CANONICAL:
        return csr
    # Sums of integers could overflow.
    csr.data = csr.data.astype(np.float64 if csr.data.dtype.kind in "iu" else csr.data.dtype)
    csr.sum_duplicates()
    return csr


def checked_csr(X):
    """Return a CSR matrix with sorted rows, without duplicates; ValueError if X is no such one."""
    parts, form = _checked(X, X.shape)
    if form != _rows.CANONICAL:
        raise ValueError("CSR rows must be sorted and without duplicates: call X.sum_duplicates().")
    return type(X)(parts, shape=X.shape, copy=False)


def csr_parts(X):
    """Return values, indices and pointers of a CSR matrix, of the types that kernels read."""
    check_indexed(X.shape[1])
    return X.data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int64, copy=False)


def check_indexed(n_columns):
    """Raise ValueError unless 32 bits hold the indices of columns."""
    if n_columns > _MOST_COLUMNS:
        raise ValueError(f"Sparse rows have at most {_MOST_COLUMNS} columns, got {n_columns}.")


def _checked(X, shape):
    """Return values, indices and pointers, the latter copied, and their form; or a ValueError."""
    data, (indices, indptr) = X.data, _alike(X.indices, X.indptr)
    n_values = len(data) if np.ndim(data) else -1
    if indices.shape != (n_values,) or indptr.shape != (shape[0] + 1,):
        _refuse(X, "data and indices must have one length, and indptr that of the rows plus 1")
    form = _rows.csr_form(indices, indptr, shape[1])
    if form in _FAULTS:
        _refuse(X, _FAULTS[form])
    return (data, indices, indptr), form


def _alike(*arrays):
    """Return copies of integer arrays, of one type that kernels read."""
    arrays = [_integers(array) for array in arrays]
    dtypes = {array.dtype for array in arrays}
    is_read = len(dtypes) == 1 and not dtypes.isdisjoint((np.dtype(np.int32), np.dtype(np.int64)))
    return [np.array(array, dtype=None if is_read else np.int64) for array in arrays]


def _integers(array):
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError("A sparse X must have one-dimensional arrays of integers as indices.")
    return array


def _refuse(X, what):
    raise ValueError(f"X is a corrupt {X.format} matrix: {what}.")


def _from_csc(X):
    parts, _ = _checked(X, X.shape[::-1])
    return type(X)(parts, shape=X.shape).tocsr(copy=True)


def _from_bsr(X):
    blocks = np.shape(X.data)[1:]
    if len(blocks) != 2 or 0 in blocks or any(n % b for n, b in zip(X.shape, blocks, strict=True)):
        _refuse(X, "data must be blocks that fit its shape")
    _checked(X, tuple(n // b for n, b in zip(X.shape, blocks, strict=True)))
    return _from_coo(X.tocoo(copy=True))


def _from_coo(X):
    """Return CSR with the duplicates of X, as scipy's sums could overflow."""
    coords = _alike(*X.coords)
    if np.ndim(X.data) != 1 or any(len(index) != len(X.data) for index in coords):
        _refuse(X, "data and coordinates must have one length")
    for index, length in zip(coords, X.shape, strict=True):
        if len(index) and not 0 <= index.min() <= index.max() < length:
            _refuse(X, _FAULTS[_rows.OUT_OF_RANGE])
    order = np.argsort(coords[0], kind="stable")
    indptr = np.concatenate(([0], np.cumsum(np.bincount(coords[0], minlength=X.shape[0]))))
    parts = X.data[order], coords[1][order], indptr.astype(coords[1].dtype)
    return _container(X)(parts, shape=X.shape)


def _from_dia(X):
    offsets = _integers(X.offsets)
    if np.ndim(X.data) != 2 or len(X.data) != len(offsets):
        _refuse(X, "data must have a row for each offset")
    return _from_coo(X.tocoo(copy=True))


def _from_lil(X):
    """Return CSR of lists; scipy does not check their lengths."""
    rows, values = ([[*part] for part in parts] for parts in (X.rows, X.data))
    lengths = [*map(len, rows)]
    if len(rows) != X.shape[0] or lengths != [*map(len, values)]:
        _refuse(X, "lists of rows and data must have the same lengths")
    indices = np.array([*chain.from_iterable(rows)], dtype=np.int64)
    indptr = np.cumsum([0, *lengths])
    data = np.array([*chain.from_iterable(values)], dtype=X.dtype)
    return _container(X)((data, indices, indptr), shape=X.shape)


_TO_CSR = {
    "csc": _from_csc, "bsr": _from_bsr, "coo": _from_coo, "dia": _from_dia, "lil": _from_lil,
    "dok": lambda X: _from_coo(X.tocoo(copy=True)),
}  # fmt: skip


def _container(X):
    return sparse.csr_array if isinstance(X, sparse.sparray) else sparse.csr_matrix


def stored_values(X):
    """Return all values of a dense array, or the stored ones of a CSR array; else a ValueError."""
    if not sparse.issparse(X):
        return X
    if X.format != "csr":
        raise ValueError(f"Sparse data must be CSR, got {X.format}.")
    checked_csr(X)
    return X.data


def check_non_negative(X):
    """Raise ValueError if a value, or stored value, is below 0."""
    values = stored_values(X)
    # The minimum is fast, but NaN where values beside NaN may be negative.
    if not values.min(initial=0.0) >= 0.0 and (values < 0).any():
        raise ValueError(f"Negative values in data: the smallest is {np.nanmin(values):.6g}.")
