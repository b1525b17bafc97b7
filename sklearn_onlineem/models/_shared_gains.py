"""The E-step of sequences without gaps, whose covariances and gains do not depend on the data."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy import linalg

from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.models._kalman import Covariances

__all__ = ["SharedGains"]

_LOG_2_PI = math.log(2.0 * math.pi)
_TABLE_BYTES = 1 << 26
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
        self._offset, R = padded.system[5:]
        self._first = padded.moments(*start)
        factor = linalg.cholesky(R, lower=True)
        self._whitening = np.ascontiguousarray(
            linalg.solve_triangular(factor, np.eye(len(R)), lower=True).T
        )
        self._H = self._whitening.T @ padded.system[4]
        self._log_det = 2.0 * np.log(np.diag(factor)).sum()
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
            self._k, *self._moves, self._G, covariance, arrays
        )
        return tuple(array[:n_steps] for array in arrays), at_rest

    @cached_property
    def _G(self):
        return self._H.T @ self._H

    def expected(self, X, offsets):
        """What `Padded.expected` returns."""
        tables, W = self._tables[0], self._width
        lengths = np.diff(offsets)
        order = np.argsort(-lengths, kind="stable")
        where = offsets[:-1][order], lengths[order]
        whitened = (X - self._offset) @ self._whitening
        predicted, means = np.empty((len(X), W)), np.empty((len(X), W))
        squares = _kalman_shared.forward(
            self._k, *self._moves, self._G, tables, self._first[:W], whitened @ self._H, *where,
            predicted, means,
        )  # fmt: skip
        whitened -= means @ self._H.T
        squares += np.einsum("nd,nd->", whitened, whitened)
        _kalman_shared.backward(self._k, tables, *where, predicted, means)
        log_likelihood = -0.5 * (
            len(X) * (len(self._offset) * _LOG_2_PI + self._log_det)
            + self._log_dets(lengths)
            + squares
        )
        return means[:, : self._k], X, self._covariances(lengths), log_likelihood

    def _log_dets(self, lengths):
        """Sum over all rows of log-determinants, as far as these are not of R."""
        log_det = self._tables[0][-1]
        steps = np.minimum(lengths, len(log_det))
        return (np.cumsum(log_det)[steps - 1] + (lengths - steps) * log_det[-1]).sum()

    def _covariances(self, lengths):
        k, d = self._k, len(self._offset)
        sums = np.zeros((5, self._width, self._width))
        distinct, counts = np.unique(lengths, return_counts=True)
        _kalman_shared.covariances(k, self._tables[0], distinct, counts, sums)
        return Covariances(*sums[:, :k, :k], np.zeros((d, k)), np.zeros((d, d)))
