"""A linear dynamical system as the kernels of the Kalman filter take it."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels import _kalman
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.models._dynamical_statistics import room_for_sums, statistics_of

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
        transitions = self._model.transitions
        A = self._square(transitions.matrix)
        return (
            A,
            np.ascontiguousarray(A.T),
            self._vector(transitions.offset),
            self._square(transitions.covariance),
        )

    @cached_property
    def system(self):
        emissions = self._model.emissions
        C = np.zeros((self.d, self.width))
        C[:, : self.k] = emissions.matrix
        R = np.array(emissions.covariance, dtype=np.float64)
        if lapack.dpotrf(R, lower=1)[1]:
            raise ValueError("The covariance of the observations is not positive definite.")
        return *self.moves, C, np.array(emissions.offset, dtype=np.float64), R

    def filtered(self, sequences, n_threads, *, predicted=False, filtered=False):
        """Moments before each row and given it, where wanted, and log densities of rows."""
        n_rows = len(sequences.X)
        moments = [*self._room(n_rows, predicted), *self._room(n_rows, filtered)]
        log_densities = np.empty(n_rows)
        unused = np.empty(len(sequences))
        _kalman.filtered(*self._arguments(sequences), *moments, log_densities, unused, n_threads)
        return *moments, log_densities

    def smoothed(self, sequences, n_threads):
        """Means, covariances and lag-one covariances given all rows; the rows without gaps."""
        means, covariances = self._room(len(sequences.X), True)
        lags, filled = np.zeros_like(covariances), np.empty_like(sequences.X)
        _kalman.smoothed(
            *self._arguments(sequences), means, covariances, lags, filled,
            np.empty(len(sequences)), n_threads,
        )  # fmt: skip
        return means, covariances, lags, filled

    def expected(self, sequences, n_threads, rng=None):
        """Sums over sequences: statistics, and log-likelihood."""
        noise = NOTHING if rng is None else rng.standard_normal((len(sequences.X), self.k))
        sums, log_likelihoods = room_for_sums(self.k, self.d), np.empty(len(sequences))
        _kalman.expected(*self._arguments(sequences), noise, *sums, log_likelihoods, n_threads)
        return statistics_of(sums, fresh=not sequences.n_lead), log_likelihoods.sum()

    def _arguments(self, sequences):
        """Arguments of the kernels of the filter, from the model and from sequences."""
        first = self.moments(*sequences.first)
        return sequences.X, sequences.offsets, self.system, self.k, first

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
