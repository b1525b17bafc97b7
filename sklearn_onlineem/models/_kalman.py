"""A linear dynamical system as the kernels of the Kalman filter take it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._kernels import _kalman
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.models._sequence_parts import statistics_of

__all__ = ["Padded"]


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

    def filtered(self, part, n_threads, *, predicted=False, filtered=False):
        """Moments before each row and given it, where wanted, and log densities of rows."""
        n_rows = len(part.X)
        moments = [*self._room(n_rows, predicted), *self._room(n_rows, filtered)]
        log_densities = np.empty(n_rows)
        _kalman.filtered(
            part.X, part.offsets, self.system, self.k, self.moments(*part.start), *moments,
            log_densities, np.empty(len(part)), n_threads,
        )  # fmt: skip
        return *moments, log_densities

    def smoothed(self, part, n_threads):
        """Means, covariances and lag-one covariances given all rows; the rows without gaps."""
        means, covariances = self._room(len(part.X), True)
        lags, filled = np.zeros_like(covariances), np.empty_like(part.X)
        _kalman.smoothed(
            part.X, part.offsets, self.system, self.k, self.moments(*part.start), means,
            covariances, lags, filled, np.empty(len(part)), n_threads,
        )  # fmt: skip
        return means, covariances, lags, filled

    def expected(self, part, n_threads, rng=None):
        """Sums over sequences: statistics, and log-likelihood."""
        noise = NOTHING if rng is None else rng.standard_normal((len(part.X), self.k))
        sums, log_likelihoods = self.room_for_sums(), np.empty(len(part))
        _kalman.expected(
            part.X, part.offsets, self.system, self.k, self.moments(*part.start), noise, *sums,
            log_likelihoods, n_threads,
        )  # fmt: skip
        return statistics_of(sums, fresh=not part.n_lead), log_likelihoods.sum()

    def room_for_sums(self):
        """Weight, mean and scatter, of each part of the statistics."""
        k, d = self.k, self.d
        return [np.empty(1 + n + n * n) for n in (k, 2 * k, k + d)]

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
