"""A linear dynamical system as the kernels of the Kalman filter take it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._kernels import _kalman
from sklearn_onlineem.families._family import NOTHING

__all__ = ["Covariances", "Padded"]


@dataclass(frozen=True)
class Covariances:
    """Sums over rows of covariances given the data.

    Parameters
    ----------
    first, departing, arriving, emitting : ndarray of shape (k, k)
        Of states: of the first of each sequence; of all but the last; of all but the first; of
        those of which something is seen.
    lagged : ndarray of shape (k, k)
        Of states with the ones before them.
    across : ndarray of shape (d, k)
        Of missing values with the state.
    within : ndarray of shape (d, d)
        Of missing values.
    """

    first: np.ndarray
    departing: np.ndarray
    arriving: np.ndarray
    emitting: np.ndarray
    lagged: np.ndarray
    across: np.ndarray
    within: np.ndarray


class Padded:
    """Arrays of a model, its k states padded with zeros to whole vectors.

    Parameters
    ----------
    model : LinearDynamicalModel

    Raises
    ------
    ValueError
        If the covariance of the observations is not positive definite.
    """

    def __init__(self, model):
        self.k, self.d = model.n_components, model.n_features
        self.width = _kalman.width(self.k)
        self._model = model

    @cached_property
    def moves(self):
        model = self._model
        A = self._square(model.transition)
        return (
            A,
            np.ascontiguousarray(A.T),
            self._vector(model.transition_offset),
            self._square(model.transition_covariance),
        )

    @cached_property
    def system(self):
        model = self._model
        C = np.zeros((self.d, self.width))
        C[:, : self.k] = model.observation
        R = np.array(model.observation_covariance, dtype=np.float64)
        if lapack.dpotrf(R, lower=1)[1]:
            raise ValueError("The covariance of the observations is not positive definite.")
        return *self.moves, C, np.array(model.observation_offset, dtype=np.float64), R

    def filtered(self, X, offsets, start, *, predicted=False, filtered=False):
        """Moments before each row and given it, where wanted, and log densities of rows."""
        moments = [*self._room(len(X), predicted), *self._room(len(X), filtered)]
        log_densities = np.empty(len(X))
        _kalman.filtered(
            self.system, self.k, X, offsets, self.moments(*start), *moments, log_densities,
            np.empty(len(offsets) - 1),
        )  # fmt: skip
        return *moments, log_densities

    def smoothed(self, X, offsets, start):
        """Means, covariances and lag-one covariances given all rows; the rows without gaps."""
        means, covariances = self._room(len(X), True)
        lags, filled = np.zeros_like(covariances), np.empty_like(X)
        _kalman.smoothed(
            self.system, self.k, X, offsets, self.moments(*start), means, covariances, lags,
            filled, np.empty(len(offsets) - 1),
        )  # fmt: skip
        return means, covariances, lags, filled

    def expected(self, X, offsets, start, rng=None):
        """Means and filled rows, sums of covariances over rows, and the log-likelihood."""
        noise = NOTHING if rng is None else rng.standard_normal((len(X), self.k))
        means, filled = np.empty((len(X), self.k)), np.empty_like(X)
        sums = np.zeros((5, self.width, self.width))
        across, within = np.zeros((self.d, self.width)), np.zeros((self.d, self.d))
        log_likelihoods = np.empty(len(offsets) - 1)
        _kalman.expected(
            self.system, self.k, X, offsets, self.moments(*start), noise, means, filled, sums,
            across, within, log_likelihoods,
        )  # fmt: skip
        k = self.k
        covariances = Covariances(*sums[:, :k, :k], across[:, :k], within)
        return means, filled, covariances, log_likelihoods.sum()

    def _room(self, n_rows, wanted):
        if not wanted:
            return NOTHING, NOTHING
        return np.empty((n_rows, self.k)), np.empty((n_rows, self.k, self.k))

    def moments(self, mean, covariance):
        """A mean and its covariance, one after the other."""
        return np.concatenate([self._vector(mean), self._square(covariance).ravel()])

    def _square(self, matrix):
        padded = np.zeros((self.width, self.width))
        padded[: self.k, : self.k] = matrix
        return padded

    def _vector(self, vector):
        padded = np.zeros(self.width)
        padded[: self.k] = vector
        return padded
