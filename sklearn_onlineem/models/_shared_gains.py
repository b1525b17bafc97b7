"""The E-step of sequences without gaps, whose covariances and gains do not depend on the data."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.families._covariances import joined
from sklearn_onlineem.models._dynamical_statistics import room_for_sums, statistics_of
from sklearn_onlineem.models._prepared_sequences import row_moments

__all__ = ["SharedGains"]

_LOG_2_PI = math.log(2.0 * math.pi)
_TABLE_BYTES = 1 << 26
# Rows of a part, which one thread walks; a sequence at least.
_PART_ROWS = 1 << 11
# Parts of short sequences are made of so many.
_BATCH = _kalman_shared.SEQUENCES_PER_BATCH
# What the kernel has room for, padded.
_WIDEST = _kalman_shared.WIDEST


class SharedGains:
    """Gains of the filter and smoother, for each step up to where they no longer change.

    Parameters
    ----------
    padded : Padded
    first : tuple
        Mean and covariance of the first state.
    longest : int
        Rows of the longest sequence.
    """

    def __init__(self, padded, first, longest):
        self._padded, self._k, self._width = padded, padded.k, padded.width
        self._moves = padded.moves
        self._first = padded.moments(*first)
        self._longest = longest

    @property
    def suffice(self):
        """Whether tables are small enough."""
        return self._width <= _WIDEST and (self._tables[1] or self._n_most >= self._longest)

    @property
    def _n_most(self):
        return max(1, min(self._longest, _TABLE_BYTES // (32 * self._width**2)))

    @cached_property
    def _tables(self):
        W, n = self._width, self._n_most
        arrays = (*(np.empty((n, W, W)) for _ in range(4)), np.empty(n))
        covariance = self._first[W:].copy()
        n_steps, at_rest = _kalman_shared.fill_tables(
            self._observation_maps[-1], self._moves, self._k, covariance, arrays
        )
        return tuple(array[:n_steps] for array in arrays), at_rest

    @cached_property
    def _observation_maps(self):
        """Maps between rows and states, as the kernel takes them."""
        C, offset, R = self._padded.system[4:]
        whitening = lapack.dtrtri(lapack.dpotrf(R, lower=1)[0], lower=1)[0]
        H = whitening @ C
        return offset, np.ascontiguousarray(whitening.T), H, np.ascontiguousarray(H.T), H.T @ H

    def expected(self, data):
        """Sums over sequences without gaps: statistics, and log-likelihood."""
        k, d, n_rows = self._k, self._padded.d, len(data.X)
        order, bounds, distinct, counts = data.rows.remember(
            ("walks", data.offsets.tobytes()), lambda: _walks(data.lengths)
        )
        row_centre, row_scatter = row_moments(data.rows)
        sums, covariances = room_for_sums(k, d), np.zeros((5, self._width, self._width))
        squares = _kalman_shared.expected(
            data.X, data.offsets[:-1], data.lengths, order, bounds, row_centre, self._moves, k,
            self._tables[0], self._observation_maps, self._first[: self._width], *sums,
            data.n_threads,
        )  # fmt: skip
        log_det = _kalman_shared.covariances(distinct, counts, self._tables[0], k, covariances)
        first, departing, arriving, emitting, lagged = covariances[:, :k, :k]
        statistics = statistics_of(sums)
        statistics.initial.scatter[:] += first
        statistics.transitions.scatter[:] += joined(departing, lagged, arriving)
        statistics.emissions.scatter[:, :k, :k] += emitting
        statistics.emissions.scatter[:, k:, k:] = row_scatter
        whitening = np.diag(self._observation_maps[1])
        log_det += n_rows * (d * _LOG_2_PI - 2.0 * np.log(whitening).sum())
        return statistics, -0.5 * (log_det + squares)


def _walks(lengths):
    """Sequences in the order in which they are walked, where parts begin in it; and lengths."""
    begins = np.cumsum(lengths) - lengths
    if lengths.max() * _BATCH <= _PART_ROWS:
        begins = np.repeat(begins[::_BATCH], _BATCH)[: len(lengths)]
    part = begins // _PART_ROWS
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(part)) + 1, [len(lengths)]))
    return np.lexsort((-lengths, part)), bounds, *np.unique(lengths, return_counts=True)
