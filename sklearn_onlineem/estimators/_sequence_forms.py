"""Forms of sequences: four forms of input, one form inside.

X may be a list of arrays or a 3-D array (one entry, one sequence), or a 2-D array: one sequence, or
several that `lengths` or `groups` tell apart. What comes out row by row has the form that went in.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

__all__ = ["SequenceForm", "sequence_form"]


@dataclass(frozen=True)
class SequenceForm:
    """Form in which the user passed sequences.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        All rows, the sequences one after the other.
    offsets : ndarray of shape (n_sequences + 1,)
    order : ndarray of shape (n_rows,), default=None
        Where the rows lay, if groups had to be gathered.
    is_nested : bool, default=False
        Whether there was one entry for each sequence.
    """

    X: object
    offsets: np.ndarray
    order: np.ndarray | None = None
    is_nested: bool = False

    def flat(self, y):
        """Return what the user has for each row in the order of `X`."""
        if self.is_nested and np.ndim(y[0]) > 0:
            return np.concatenate([np.asarray(part) for part in y])
        y = np.asarray(y)
        return y if self.order is None else y[self.order]

    def restored(self, rows):
        """Return rows as the user arranged them: a list if there was one entry a sequence."""
        if self.is_nested:
            return np.split(rows, self.offsets[1:-1])
        if self.order is None:
            return rows
        out = np.empty_like(rows)
        out[self.order] = rows
        return out


def sequence_form(X, lengths=None, groups=None):
    """Find out where the sequences are.

    Parameters
    ----------
    X : list of array-likes of shape (length, n_features), or array-like of 2 or 3 dimensions
    lengths : array-like of int of shape (n_sequences,), default=None
        Only with a 2-D X: lengths of the sequences, which follow each other.
    groups : array-like of shape (n_rows,), default=None
        Only with a 2-D X: what sequence each row belongs to.

    Returns
    -------
    form : SequenceForm

    Raises
    ------
    ValueError
        If an argument is invalid.
    TypeError
        If lengths are not integers.
    """
    if _is_nested(X):
        if lengths is not None or groups is not None:
            raise ValueError("lengths and groups go with a 2-D X only: here X says itself.")
        return _form_of_list(X)
    if lengths is not None and groups is not None:
        raise ValueError("Pass either lengths or groups, not both.")
    n_rows = _num_samples(X)
    if groups is not None:
        return _form_of_groups(X, np.asarray(groups), n_rows)
    offsets = [0, n_rows] if lengths is None else _offsets_of(lengths, n_rows)
    return SequenceForm(X, np.asarray(offsets, dtype=np.int64))


def _is_nested(X):
    """Whether each entry of X is a sequence."""
    if sparse.issparse(X) or isinstance(X, numbers.Number | str | bytes):
        return False
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    return np.ndim(X[0]) == 2


def _form_of_list(X):
    if any(sparse.issparse(part) for part in X):
        raise TypeError("Sequences must be dense, but X has sparse ones.")
    parts = [np.asarray(part) for part in X]
    for i, part in enumerate(parts):
        if part.ndim != 2 or part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"Sequence {i} of X has shape {part.shape}; expected (length, n_features) with"
                f" {parts[0].shape[1]} features, as the first has."
            )
        if len(part) == 0:
            raise ValueError(f"Sequence {i} of X is empty.")
    rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return SequenceForm(rows, _running_sums([len(part) for part in parts]), is_nested=True)


def _form_of_groups(X, groups, n_rows):
    if groups.shape != (n_rows,):
        raise ValueError(f"groups must be of shape ({n_rows},), got {groups.shape}.")
    # Sequences are numbered as they first appear.
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    codes = rank[codes.reshape(-1)]
    offsets = _running_sums(np.bincount(codes))
    if (np.diff(codes) >= 0).all():
        return SequenceForm(X, offsets)
    order = np.argsort(codes, kind="stable")
    return SequenceForm(_safe_indexing(X, order), offsets, order)


def _offsets_of(lengths, n_rows):
    lengths = np.asarray(lengths)
    if not np.issubdtype(lengths.dtype, np.integer):
        raise TypeError(f"lengths must be integers, got {lengths.dtype}.")
    if lengths.ndim != 1 or len(lengths) == 0 or lengths.min() < 1:
        raise ValueError("lengths must be a list of numbers above 0.")
    if lengths.sum(dtype=object) != n_rows:
        raise ValueError(f"lengths add up to {lengths.sum(dtype=object)}, but X has {n_rows} rows.")
    return _running_sums(lengths)


def _running_sums(lengths):
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
