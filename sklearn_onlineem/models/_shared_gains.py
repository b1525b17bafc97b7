"""The E-step of sequences without gaps, whose covariances and gains do not depend on the data."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy import linalg

from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.models._kalman import Covariances
from sklearn_onlineem.models._sequence_parts import LinearDynamicalStatistics, joined, moments

__all__ = ["SharedGains"]

_LOG_2_PI = math.log(2.0 * math.pi)
_TABLE_BYTES = 1 << 26
# What the kernel has room for, both padded.
_WIDEST = 504


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
        return max(self._width, self._padded.d) <= _WIDEST and (
            self._tables[1] or self._n_most >= self._longest
        )

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
        d, width = C.shape
        # One more than d, as kernels take two at a time.
        D = 4 * (d // 4 + 1)
        whitening, weights, emission = np.zeros((D, D)), np.zeros((D, width)), np.zeros((width, D))
        whitening[:d, :d] = linalg.solve_triangular(self._factor, np.eye(d), lower=True).T
        H = whitening[:d, :d].T @ C
        weights[:d], emission[:, :d] = whitening[:d, :d] @ H, C.T
        return offset, weights, emission, whitening, H.T @ H

    def expected(self, part):
        """Sums over the sequences of a part without gaps: statistics, and log-likelihood."""
        lengths = np.diff(part.offsets)
        order = np.argsort(-lengths, kind="stable")
        means = np.empty((len(part.X), self._width))
        squares = _kalman_shared.means(
            self._k, self._moves, self._tables[0], self._sight, self._first[: self._width], part.X,
            part.offsets[:-1][order], lengths[order], np.empty_like(means), means,
        )  # fmt: skip
        log_likelihood = -0.5 * (
            len(part.X) * part.X.shape[1] * _LOG_2_PI
            + len(part.X) * 2.0 * np.log(np.diag(self._factor)).sum()
            + self._log_dets(lengths)
            + squares
        )
        return self._statistics(part, means, self._covariances(lengths)), log_likelihood

    def _statistics(self, part, means, covariances):
        n, begins, k = len(part.X), part.offsets[:-1], self._k
        row_centre, row_scatter = part.row_moments
        centre = np.full(n, 1.0 / n) @ means
        first = means[begins, :k]
        means -= centre
        from_first, from_last = means[begins], means[part.offsets[1:] - 1]
        states, across = means.T @ means, ((part.X - row_centre).T @ means)[:, :k]
        lags = means[1:].T @ means[:-1] - from_first[1:].T @ from_last[:-1]
        states, lags, centre = states[:k, :k], lags[:k, :k], centre[:k]
        from_first, from_last = from_first[:, :k], from_last[:, :k]
        return LinearDynamicalStatistics(
            moments(first, covariances.first),
            _about(
                centre, centre, float(n - len(begins)),
                -from_last.sum(axis=0), -from_first.sum(axis=0),
                joined(
                    states - from_last.T @ from_last + covariances.departing,
                    lags + covariances.lagged,
                    states - from_first.T @ from_first + covariances.arriving,
                ),
            ),
            _about(
                centre, row_centre, float(n), np.zeros(k), np.zeros(len(row_centre)),
                joined(states + covariances.emitting, across, row_scatter),
            ),
        )  # fmt: skip

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


def _about(centre_x, centre_y, weight, first_x, first_y, second):
    """Moments of (x, y), from sums of deviations from a centre and of their products."""
    if weight == 0.0:
        return moments(np.empty((0, len(second))), np.zeros_like(second))
    first = np.concatenate([first_x, first_y])
    mean, weights = np.concatenate([centre_x, centre_y]) + first / weight, np.array([weight])
    scatter = second - np.outer(first, first / weight)
    return MatrixMoments(weights, weights, mean[None], scatter[None])
