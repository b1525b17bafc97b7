"""Start values of compound Dirichlets: mean proportions, and how often words come in pairs."""

from __future__ import annotations

import numpy as np

__all__ = ["moments"]

# The moments of few documents can't tell large precisions, from which EM would come back slowly.
_RANGE = (1e-2, 1e4)


def moments(events, totals, weight, n_words):
    r"""Return the alpha and the mean lengths that have the moments of the documents.

    Two words of a document are equal with probability
    :math:`m = (\alpha_0 p + 1) / (\alpha_0 + 1)`, where p is that of two words of different
    documents, :math:`\sum_j (\alpha_j / \alpha_0)^2`.

    Parameters
    ----------
    events : Events
    totals : ndarray of shape (n_events, K)
        Weight of each component's documents with each event.
    weight : ndarray of shape (K,)
        Weight of all documents of each component.
    n_words : int

    Returns
    -------
    alpha : ndarray of shape (K, n_words)
    length : ndarray of shape (K,)
    """
    unit = 1.0 / max(1.0, events.counts.max(initial=1.0))  # lest squares overflow
    counts = unit * events.counts[:, None]
    sums, squares = np.zeros((2, n_words + 1, len(weight)))
    np.add.at(sums, events.words, counts * totals)
    np.add.at(squares, events.words, counts**2 * totals)
    length, equal = sums[-1], squares[:-1].sum(axis=0)
    pairs = squares[-1] - unit * length
    within = _ratio(equal - unit * length, pairs, 0.0)
    across = _ratio((sums[:-1] ** 2).sum(axis=0) - equal, length**2 - squares[-1], 0.0)
    precision = np.clip(_ratio(1.0 - within, within - across, np.inf), *_RANGE)
    precision[pairs <= 0.0] = n_words
    return precision[:, None] * _smoothed(sums[:-1].T, unit), _ratio(length / unit, weight, 0.0)


def _ratio(numerator, denominator, otherwise):
    """The ratio, where the denominator is positive."""
    out = np.full(len(denominator), otherwise)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _smoothed(counts, unit):
    """Proportions that are 0 for no word, as from there EM would hardly come back.

    Half an occurrence of each word more, but no more than there are words.
    """
    n_words = counts.shape[1]
    length = np.maximum(counts.sum(axis=1, keepdims=True), unit)
    counts = counts + np.minimum(0.5 * unit, length / n_words)
    return counts / counts.sum(axis=1, keepdims=True)
