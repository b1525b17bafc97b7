"""Reads documents as topic models take them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sklearn_onlineem.data._sparse import canonical_csr
from sklearn_onlineem.data.documents import MOST_TOKENS, MOST_WORDS, Documents, are_counts
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators._rows import RowsInput
from sklearn_onlineem.estimators._validation import check_complete, checked_labels

__all__ = ["DocumentsInput"]

_ELSEWHERE = (
    "fractions, and more, are taken by e_step='map' with solver='online', and by solver='batch'."
)


class DocumentsInput(RowsInput):
    """Reads documents as `fit`, `partial_fit` and `transform` take them.

    If topics are read, `y` is of shape (n_documents,), one topic each, -1 where any may be; or of
    shape (n_documents, n_components), nonzero for the topics that may be.

    Parameters
    ----------
    estimator : BaseEstimator
    fresh : bool
        Whether the documents are the first that a new model meets.
    n_components : int
    reads_topics : bool
        Whether `y` says which topics documents may have; else it is ignored.
    takes_fractions : bool
        Whether counts need not be whole.
    """

    def __init__(self, estimator, fresh, n_components, reads_topics, takes_fractions):
        super().__init__(estimator, self, fresh, n_components, takes_labels=reads_topics)
        self._takes_fractions = takes_fractions

    def check(self, X):
        """Raise ValueError unless values are counts of words; as families check rows."""
        if X.data.min(initial=0.0) < 0.0:
            name = type(self._estimator).__name__
            raise ValueError(f"Negative values in data passed to {name}: X must hold counts.")
        if not (self._takes_fractions or are_counts(X.data)):
            raise ValueError(
                f"X must hold counts, whole numbers, where topics of words are drawn; {_ELSEWHERE}"
            )
        self._check_lengths(X)

    def _check_lengths(self, X):
        length = np.asarray(X.sum(axis=1, dtype=np.float64)).max(initial=0.0)
        if length > MOST_WORDS:
            raise ValueError(f"X has counts of {length:.3g} in a row, beyond {MOST_WORDS}.")
        if length > MOST_TOKENS and not self._takes_fractions:
            raise ValueError(
                f"X has {length:.3g} tokens in a row, beyond the {MOST_TOKENS} that are drawn;"
                f" {_ELSEWHERE}"
            )

    def _batch(self, X, weight, y, n_threads):
        X = X if sparse.issparse(X) else sparse.csr_array(X)
        allowed = None if y is None else self._allowed(y, X.shape[0])
        rows = Rows.unchecked(X, weight, None, n_threads)
        return Documents.unchecked(rows, np.arange(X.shape[0]), allowed)

    def _allowed(self, y, n):
        """Topics that documents may have, uint8; None if these are all."""
        if np.ndim(y) == 2 and np.shape(y)[1] != 1:
            return _indicators(y, (n, self._n_components))
        topics = checked_labels(y, n, self._n_components)
        if topics is None:
            return None
        allowed = np.zeros((n, self._n_components), dtype=np.uint8)
        allowed[topics < 0] = 1
        known = np.flatnonzero(topics >= 0)
        allowed[known, topics[known]] = 1
        return allowed


def _indicators(y, shape):
    check_complete("y", y)
    y = canonical_csr(y).toarray() if sparse.issparse(y) else np.asarray(y)
    if y.shape != shape:
        raise ValueError(f"y must be of shape {shape} or ({shape[0]},), got {y.shape}.")
    if y.dtype.kind not in "biuf" or np.isnan(y).any():
        raise ValueError("y must be of numbers, or truth values: nonzero for topics that may be.")
    allowed = (y != 0).astype(np.uint8)
    empty = np.flatnonzero(~allowed.any(axis=1))
    if len(empty):
        raise ValueError(f"y allows no topic in row {empty[0]}; let it allow all if none is known.")
    return np.ascontiguousarray(allowed)
