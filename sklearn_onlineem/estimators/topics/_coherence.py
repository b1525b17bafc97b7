"""How well the top words of a topic go together: counts of documents that have them."""

from __future__ import annotations

import numpy as np

__all__ = ["COHERENCES", "coherence"]

COHERENCES = ["npmi", "umass"]


def coherence(X, words, measure):
    """Return the mean over pairs of words of a measure.

    Parameters
    ----------
    X : CSR array of shape (n_documents, n_words)
    words : ndarray of int of shape (n,)
        The most probable first.
    measure : {"npmi", "umass"}

    Returns
    -------
    coherence : float
        0.0 of a single word.
    """
    occurs = (X[:, words] > 0).astype(np.float64)
    both = (occurs.T @ occurs).toarray()
    first, second = np.triu_indices(len(words), 1)
    if not len(first):
        return 0.0
    alone = np.diagonal(both)
    values = _MEASURES[measure](both[first, second], alone[first], alone[second], X.shape[0])
    return float(values.mean())


def _umass(both, first, second, n):
    ratios = np.divide(both + 1.0, first, out=np.ones_like(both), where=first > 0.0)
    return np.log(ratios)


def _npmi(both, first, second, n):
    """Normalised pointwise mutual information; -1 of words that never meet, 1 in the limit."""
    values = np.full_like(both, -1.0)
    values[both == n] = 1.0
    meet = (both > 0.0) & (both < n)
    p = both[meet] / n
    values[meet] = np.log(p * n * n / (first[meet] * second[meet])) / -np.log(p)
    return values


_MEASURES = {"npmi": _npmi, "umass": _umass}
