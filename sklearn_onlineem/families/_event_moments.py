"""Start values of compound Dirichlets: mean proportions, and how often words come in pairs."""

from __future__ import annotations

import numpy as np

__all__ = ["moments"]

# Moments of few documents cannot determine large precisions, from which EM would be slow.
_RANGE = (1e-2, 1e4)


def moments(events, totals, weight, n_words):
    """Return the alpha (K, n_words) and mean lengths (K,) with the moments of the documents."""
    # Two words of a document are equal with probability m = (alpha_0 p + 1) / (alpha_0 + 1), where
    # p is that of two words of different documents, sum_j (alpha_j / alpha_0)^2.
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
    out = np.full(len(denominator), otherwise)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _smoothed(counts, unit):
    """Return proportions with half an occurrence of each word added, as EM would hardly leave 0."""
    n_words = counts.shape[1]
    length = np.maximum(counts.sum(axis=1, keepdims=True), unit)
    counts = counts + np.minimum(0.5 * unit, length / n_words)
    return counts / counts.sum(axis=1, keepdims=True)
