"""Documents as rows of events, "word j occurs c times" and "the document has L words"."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _compound_dirichlet, _counts
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.rows import task
from sklearn_onlineem.data.sparse import csr_parts

# Counts of a word, and lengths of documents, that have a place in tables.
_MOST_TABLED, _LONGEST_TABLED = 64, 1 << 12
# Moments of few documents cannot determine large precisions, from which EM would be slow.
_RANGE = (1e-2, 1e4)


class Events(NamedTuple):
    """Documents as indicators of their events, each of which is computed once."""

    # A CSR matrix of documents by events: data, which are all 1, indices and indptr; or None.
    indicators: tuple | None
    # The word of each event; the number of words if it is about the length.
    words: Floats
    # How often the word occurs, or the length.
    counts: Floats

    def totals(self, responsibilities, n_threads=1):
        """Return weights of each component, and of its documents with each event (n_events, K)."""
        shares = np.ascontiguousarray(responsibilities, dtype=self.indicators[0].dtype)
        counts, totals = np.empty(shares.shape[1]), np.empty((len(self.words), shares.shape[1]))
        if len(self.words):
            given = task(responsibilities=shares)
            _counts.mixture_pass(*self.indicators, None, None, given, counts, totals, n_threads)
        else:
            counts[:] = shares.sum(axis=0, dtype=np.float64)
        return counts, totals


def events_of(X):
    rows, n_words = as_csr(X), X.shape[1]
    first = np.zeros(n_words + 2, dtype=np.int64)
    _compound_dirichlet.largest_counts(*rows, first[1:])
    np.cumsum(first, out=first)
    most = np.count_nonzero(rows[0]) + X.shape[0]
    events, words = np.empty(most, np.int32), np.empty(most, np.int64)
    pointers = np.empty(X.shape[0] + 1, np.int64)
    counts, number = np.empty(most), np.zeros(first[-1], dtype=np.int64)
    n_events = _compound_dirichlet.encode(*rows, first, number, events, pointers, words, counts)
    events = events[: pointers[-1]]
    indicators = np.ones(len(events), dtype=rows[0].dtype), events, pointers
    return Events(indicators, words[:n_events].copy(), counts[:n_events].copy())


def counted_events(X, weights):
    """Return events without documents, the weight of all documents, and of those with each event.

    All that a single component needs, in one pass; `weights` are of documents, or None for 1.
    """
    rows, (n_rows, n_words) = as_csr(X), X.shape
    # A table is not much larger than the data.
    most = min(_MOST_TABLED, max(1, 4 * len(rows[0]) // n_words))
    table, lengths = np.zeros((1 + most, n_words)), np.zeros(_LONGEST_TABLED)
    room = len(rows[0]) + n_rows
    words, counts, totals = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room)
    given = np.empty(0) if weights is None else weights
    n = _compound_dirichlet.count_events(*rows, given, table, lengths, words, counts, totals)
    table = table[1:].ravel()
    tabled = np.flatnonzero(table)
    known = np.flatnonzero(lengths)
    events = Events(
        None,
        np.concatenate([tabled % n_words, np.full(len(known), n_words), words[:n]]),
        np.concatenate([tabled // n_words + 1.0, known + 1.0, counts[:n]]),
    )
    totals = np.concatenate([table[tabled], lengths[known], totals[:n]])
    weight = n_rows if weights is None else weights.sum()
    return events, np.array([float(weight)]), totals[:, None]


def word_counts(events, totals, n_words):
    """Return how many documents have more than 0, 1, ... of each word, and all other events.

    The derivatives of a likelihood need one logarithm and one division for each such number, which
    is less than for each event, and vectorises over the words. Documents have weights `totals`.
    Return words by their largest counts, those with the largest first; weights of documents, of all
    words with more than 0, of those with more than 1, ..., and their ends; words, in that order,
    counts and weights of the other events, of lengths and of large counts.
    """
    is_small = (events.words < n_words) & (events.counts <= _MOST_TABLED)
    is_small &= events.counts == np.rint(events.counts)
    largest = int(events.counts[is_small].max(initial=1.0))
    # A table is not much larger than the events.
    most = min(largest, max(1, 4 * len(events.words) // n_words))
    tabled = is_small & (events.counts <= most)
    cells = (events.counts[tabled].astype(np.int64) - 1) * n_words + events.words[tabled]
    table = np.bincount(cells, totals[tabled], most * n_words).reshape(most, n_words)
    table = np.cumsum(table[::-1], axis=0, dtype=np.float64)[::-1]
    order = np.argsort(-np.count_nonzero(table, axis=0), kind="stable")
    table = table[:, order]
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(table, axis=1))])
    places = np.argsort(np.append(order, n_words))
    others = places[events.words[~tabled]], events.counts[~tabled], totals[~tabled]
    return order, table[table > 0.0], ends, *others


def as_csr(X):
    """Return entries, words and pointers, and whether rows are dense, with the same words."""
    # Dense rows keep their zeros: a copy without these would cost more than the events do.
    if sparse.issparse(X):
        return *csr_parts(X), False
    n_rows, n_words = X.shape
    pointers = np.arange(n_rows + 1) * n_words
    return np.ascontiguousarray(X).ravel(), np.arange(n_words, dtype=np.int32), pointers, True


def moments(events, totals, weight, n_words):
    """Return the alpha (K, n_words) and mean lengths (K,) with the moments of the documents."""
    # Two words of a document are equal with probability m = (alpha_0 p + 1) / (alpha_0 + 1), where
    # p is that of two words of different documents, sum_j (alpha_j / alpha_0)^2.
    unit = 1.0 / max(1.0, events.counts.max(initial=1.0))  # lest squares overflow
    counts, is_length = unit * events.counts, events.words == n_words
    values, squares = (counts**power * totals.T for power in (1, 2))
    sums = np.array([np.bincount(events.words, column, n_words + 1)[:-1] for column in values])
    length, of_lengths = (part[:, is_length].sum(axis=1) for part in (values, squares))
    equal, pairs = squares[:, ~is_length].sum(axis=1), of_lengths - unit * length
    within = _ratio(equal - unit * length, pairs, 0.0)
    across = _ratio((sums**2).sum(axis=1) - equal, length**2 - of_lengths, 0.0)
    precision = np.clip(_ratio(1.0 - within, within - across, np.inf), *_RANGE)
    precision[pairs <= 0.0] = n_words
    return precision[:, None] * _smoothed(sums, unit), _ratio(length / unit, weight, 0.0)


def _ratio(numerator, denominator, otherwise):
    out = np.full(len(denominator), otherwise)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def _smoothed(counts, unit):
    """Return proportions with half an occurrence of each word added, as EM would hardly leave 0."""
    n_words = counts.shape[1]
    length = np.maximum(counts.sum(axis=1, keepdims=True), unit)
    counts = counts + np.minimum(0.5 * unit, length / n_words)
    return counts / counts.sum(axis=1, keepdims=True)
