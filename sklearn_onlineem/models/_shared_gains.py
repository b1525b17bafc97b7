"""The E-step of sequences without gaps, whose covariances and gains do not depend on the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg

from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.models._kalman import Covariances
from sklearn_onlineem.models._sequence_parts import (
    LinearDynamicalStatistics,
    joined,
    moments,
    row_moments,
)

__all__ = ["SharedGains"]

_LOG_2_PI = math.log(2.0 * math.pi)
_TABLE_BYTES = 1 << 26
# Rows of a part, which one thread walks; a sequence at least.
_PART_ROWS = 1 << 12
# What the kernel has room for, padded.
_WIDEST = 512


class SharedGains:
    """Gains of the filter and smoother, for each step up to where they no longer change.

    Parameters
    ----------
    padded : Padded
    start : tuple
        Mean and covariance of the first state.
    longest : int
        Rows of the longest sequence.
    """

    def __init__(self, padded, start, longest):
        self._padded, self._k, self._width = padded, padded.k, padded.width
        self._moves = padded.system[:4]
        self._first = padded.moments(*start)
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
            self._k, self._moves, self._sight[-1], covariance, arrays
        )
        return tuple(array[:n_steps] for array in arrays), at_rest

    @cached_property
    def _factor(self):
        return linalg.cholesky(self._padded.system[6], lower=True)

    @cached_property
    def _sight(self):
        """Maps between rows and states, as the kernel takes them."""
        C, offset, _ = self._padded.system[4:]
        H = np.ascontiguousarray(linalg.solve_triangular(self._factor, C, lower=True))
        inverse = linalg.solve_triangular(self._factor, np.eye(len(C)), lower=True)
        return offset, np.ascontiguousarray(inverse.T), H, np.ascontiguousarray(H.T), H.T @ H

    def expected(self, data):
        """Sums over sequences without gaps: statistics, and log-likelihood."""
        row_centre, row_scatter = row_moments(data.rows)
        k, d, lengths = self._k, self._padded.d, data.lengths
        order, bounds = _parts(lengths)
        sums = np.empty((len(bounds) - 1, 1 + 2 * k + d + 2 * k * k + d * k))
        ends = np.empty((len(data), 2, k))
        _kalman_shared.expected(
            k, self._moves, self._tables[0], self._sight, self._first[: self._width], data.X,
            data.offsets[:-1], lengths, order, bounds, row_centre, sums, ends, data.n_threads,
        )  # fmt: skip
        log_likelihood = -0.5 * (
            len(data.X) * (d * _LOG_2_PI + 2.0 * np.log(np.diag(self._factor)).sum())
            + self._log_dets(lengths)
            + sums[:, 0].sum()
        )
        statistics = _statistics(
            _Means.of_parts(sums, lengths[order], bounds, ends[order]), ends, len(data.X),
            self._covariances(lengths), row_centre, row_scatter,
        )  # fmt: skip
        return statistics, log_likelihood

    def _log_dets(self, lengths):
        """Sum over all rows of log-determinants, as far as these are not of R."""
        log_det = self._tables[0][-1]
        steps = np.minimum(lengths, len(log_det))
        return (np.cumsum(log_det)[steps - 1] + (lengths - steps) * log_det[-1]).sum()

    def _covariances(self, lengths):
        k, d = self._k, self._padded.d
        sums = np.zeros((5, self._width, self._width))
        distinct, counts = np.unique(lengths, return_counts=True)
        _kalman_shared.covariances(k, self._tables[0], distinct, counts, sums)
        return Covariances(*sums[:, :k, :k], np.zeros((d, k)), np.zeros((d, d)))


def _parts(lengths):
    """Sequences in the order in which they are walked, and where parts begin in it."""
    part = (np.cumsum(lengths) - lengths) // _PART_ROWS
    order = np.lexsort((-lengths, part))
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(part)) + 1, [len(lengths)]))
    return order, bounds


@dataclass(frozen=True)
class _Means:
    """Sums over rows of smoothed means.

    Parameters
    ----------
    centre : ndarray of shape (k,)
        Their mean.
    states, lags : ndarray of shape (k, k)
        Of products of deviations from it: with themselves, and with those of the rows before.
    across : ndarray of shape (d, k)
        Of products of deviations of rows with these.
    """

    centre: np.ndarray
    states: np.ndarray
    lags: np.ndarray
    across: np.ndarray

    @classmethod
    def of_parts(cls, sums, lengths, bounds, ends):
        """From sums of the kernel, about a centre for each part; lengths and ends by part."""
        k, n_parts = ends.shape[2], len(sums)
        d = (sums.shape[1] - 1 - 2 * k - 2 * k * k) // (k + 1)
        cuts = np.cumsum([1, k, d, k * k, k * k, d * k])
        _, total, rows, states, lags, across, centres = np.split(sums, cuts, axis=1)
        n_rows = np.add.reduceat(lengths, bounds[:-1])[:, None].astype(np.float64)
        n_sequences = np.diff(bounds)[:, None]
        centre = (n_rows * centres + total).sum(axis=0) / n_rows.sum()
        shift = centres - centre
        deviations = ends - np.repeat(centres, n_sequences[:, 0], axis=0)[:, None]
        first, last = np.add.reduceat(deviations, bounds[:-1]).swapaxes(0, 1)
        return cls(
            centre,
            _recentred(states.reshape(n_parts, k, k), total, total, n_rows, shift, shift),
            _recentred(
                lags.reshape(n_parts, k, k), total - first, total - last, n_rows - n_sequences,
                shift, shift,
            ),
            _recentred(
                across.reshape(n_parts, d, k), rows, total, n_rows, np.zeros_like(rows), shift
            ),
        )  # fmt: skip


def _recentred(products, x, y, n, shift_x, shift_y):
    """Sum over parts of sums of products, where (x, y) in each part are shifted by a constant."""
    return products.sum(axis=0) + x.T @ shift_y + shift_x.T @ (y + n * shift_y)


def _statistics(means, ends, n_rows, covariances, row_centre, row_scatter):
    """Of all sequences; ends (S, 2, k): smoothed means of their first and last rows."""
    first, last = (ends[:, i] - means.centre for i in (0, 1))
    centre, states, n_rows = means.centre, means.states, float(n_rows)
    return LinearDynamicalStatistics(
        moments(ends[:, 0], covariances.first),
        _about(
            centre, centre, n_rows - len(ends), -last.sum(axis=0), -first.sum(axis=0),
            joined(
                states - last.T @ last + covariances.departing,
                means.lags + covariances.lagged,
                states - first.T @ first + covariances.arriving,
            ),
        ),
        _about(
            centre, row_centre, n_rows, np.zeros_like(centre), np.zeros_like(row_centre),
            joined(states + covariances.emitting, means.across, row_scatter),
        ),
    )  # fmt: skip


def _about(centre_x, centre_y, weight, first_x, first_y, second):
    """Moments of (x, y), from sums of deviations from a centre and of their products."""
    if weight == 0.0:
        return moments(np.empty((0, len(second))), np.zeros_like(second))
    first = np.concatenate([first_x, first_y])
    mean, weights = np.concatenate([centre_x, centre_y]) + first / weight, np.array([weight])
    scatter = second - np.outer(first, first / weight)
    return MatrixMoments(weights, weights, mean[None], scatter[None])
