"""Filtering one observation at a time, while it happens."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.data import Rows, Sequences

__all__ = ["MomentFilter", "StateFilter"]


class StateFilter:
    """The distribution of the hidden state of a running sequence, given all rows so far.

    Made by `live_filter` of a fitted hidden Markov model.

    Parameters
    ----------
    model : HiddenMarkovModel

    Attributes
    ----------
    probabilities : ndarray of shape (n_components,)
        P(h_t | v_1..t); None before the first row.
    n_steps : int
        Rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonHMM
    >>> X = np.repeat([[1], [9], [1], [9]], 50, axis=0)
    >>> live = PoissonHMM(2, random_state=0).fit(X).live_filter()
    >>> live.update([1]).argmax() != live.update([9]).argmax()
    np.True_
    """

    def __init__(self, model):
        self._model = model
        self.probabilities = None
        self.n_steps = 0

    def update(self, row):
        """Take the next row, and return the new distribution.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN if nothing was observed.

        Returns
        -------
        probabilities : ndarray of shape (n_components,)

        Raises
        ------
        ValueError
            If the row has another shape than the model's, or is impossible.
        """
        X = np.array(row, dtype=np.float64).reshape(1, -1)
        data = Sequences(Rows(X), np.array([0, 1]), self.probabilities)
        probabilities = self._model.filtered(data)[0]
        if not probabilities.any():
            raise ValueError("The model cannot make this row after those before.")
        self.probabilities = probabilities
        self.n_steps += 1
        return probabilities


class MomentFilter:
    """The mean and covariance of the state of a running sequence, given all rows so far.

    Made by `live_filter` of a fitted Kalman filter.

    Parameters
    ----------
    model : LinearDynamicalModel

    Attributes
    ----------
    mean : ndarray of shape (n_dim_state,)
        E(h_t | v_1..t); None before the first row.
    covariance : ndarray of shape (n_dim_state, n_dim_state)
    n_steps : int
        Rows so far.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> walk = np.cumsum(np.random.default_rng(0).normal(size=(200, 1)), axis=0)
    >>> live = KalmanFilter(random_state=0).fit(walk).live_filter()
    >>> before = live.update([0.0])[1]
    >>> after_a_gap = live.update([np.nan])[1]
    >>> bool(after_a_gap > before)
    True
    """

    def __init__(self, model):
        self._model = model
        self.mean = None
        self.covariance = None
        self.n_steps = 0

    def start_from(self, mean, covariance):
        """Take these as the moments given the rows so far.

        Parameters
        ----------
        mean : array-like of shape (n_dim_state,)
        covariance : array-like of shape (n_dim_state, n_dim_state)

        Raises
        ------
        ValueError
            If they have other shapes than the model's.
        """
        k = self._model.n_components
        self.mean = np.array(mean, dtype=np.float64).reshape(k)
        self.covariance = np.array(covariance, dtype=np.float64).reshape(k, k)

    def update(self, row):
        """Take the next row, and return the new moments.

        Parameters
        ----------
        row : array-like of shape (n_features,)
            NaN where nothing was observed.

        Returns
        -------
        mean : ndarray of shape (n_dim_state,)
        covariance : ndarray of shape (n_dim_state, n_dim_state)

        Raises
        ------
        ValueError
            If the row has another shape than the model's, or is not finite.
        """
        X = np.array(row, dtype=np.float64).reshape(1, self._model.n_features)
        if np.isinf(X).any():
            raise ValueError("The row must not be infinite.")
        before = None if self.mean is None else (self.mean, self.covariance)
        means, covariances = self._model.filtered(Sequences(Rows(X), np.array([0, 1]), before))
        self.mean, self.covariance = means[0], covariances[0]
        self.n_steps += 1
        return self.mean, self.covariance
