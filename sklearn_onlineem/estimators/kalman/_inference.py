"""What a fitted Kalman filter says of itself and of sequences."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._kalman_parameters import FIELDS, array_of
from sklearn_onlineem.estimators.live_filter import MomentFilter

__all__ = ["FittedSystem", "SystemInference"]


def _exposed_field(name, axes):
    sizes = {"k": "n_dim_state", "d": "n_features"}
    shape = ", ".join(sizes[axis] for axis in axes) + ("," if len(axes) == 1 else "")

    def value(self):
        return self._exposed(array_of(self.model_, name))

    value.__doc__ = f"Fitted `{name}`, an ndarray of shape ({shape})."
    return property(value)


class FittedSystem:
    """Fitted arrays by pykalman's names, with an underscore."""


for _name, _field in FIELDS.items():
    setattr(FittedSystem, f"{_name}_", _exposed_field(_name, _field.axes))


class SystemInference(FittedSystem):
    """The methods that take sequences and change nothing."""

    @property
    def _n_features_out(self):
        return self.model_.n_components

    def _moments(self, X, lengths, groups, method):
        """What a method of the model returns for each row, as the user arranged the rows."""
        parts, form = self._infer(X, lengths, groups, method)
        return tuple(form.restored(self._exposed(part)) for part in parts)

    def filter(self, X, *, lengths=None, groups=None):
        """Return the moments of the states given the rows so far, p(h_t | v_1..t).

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
        covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
            Lists have an array for each sequence, if X has one entry for each.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self._moments(X, lengths, groups, "filtered")

    def smooth(self, X, *, lags=False, lengths=None, groups=None):
        """Return the moments of the states given whole sequences (Rauch, Tung & Striebel).

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.
        lags : bool, default=False
            Whether to return the covariances with the states before, too.

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
        covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
        lag_covariances : ndarray of shape (n_rows, n_dim_state, n_dim_state), or list
            With ``lags=True``: Cov(h_t, h_t-1), 0 for the first row of a sequence.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        means, covariances, lag_covariances = self._moments(X, lengths, groups, "smoothed")
        return (means, covariances, lag_covariances) if lags else (means, covariances)

    def transform(self, X, *, lengths=None, groups=None):
        """Return the means of the states given whole sequences, as `smooth` does.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.

        Returns
        -------
        means : ndarray of shape (n_rows, n_dim_state), or list
            A list of arrays, one for each sequence, if X has one entry for each.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self.smooth(X, lengths=lengths, groups=groups)[0]

    def predict(self, X, *, return_cov=False, lengths=None, groups=None):
        """Return what each row is expected to be, given those before it.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.
        return_cov : bool, default=False
            Whether to return covariances, too.

        Returns
        -------
        means : ndarray of shape (n_rows, n_features), or list
        covariances : ndarray of shape (n_rows, n_features, n_features), or list

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        means, covariances = self._moments(X, lengths, groups, "predicted")
        return (means, covariances) if return_cov else means

    def forecast(self, X, n_steps=1, *, return_cov=False, lengths=None, groups=None):
        """Return what the rows after the end of each sequence are expected to be.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.
        n_steps : int, default=1
            Rows ahead.
        return_cov : bool, default=False
            Whether to return covariances, too.

        Returns
        -------
        means : ndarray of shape (n_steps, n_features), or (n_sequences, n_steps, n_features)
            The former for one 2-D sequence.
        covariances : ndarray of shape (..., n_features, n_features)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid, or `n_steps` is no integer above 0; the message names the estimator.
        """
        check_is_fitted(self)
        if not isinstance(n_steps, Integral) or n_steps < 1:
            raise ValueError(f"n_steps of {type(self).__name__} must be an integer above 0.")
        parts, form = self._infer(X, lengths, groups, "forecast", int(n_steps))
        is_one = not form.is_nested and lengths is None and groups is None
        parts = tuple(self._exposed(part[0] if is_one else part) for part in parts)
        return parts if return_cov else parts[0]

    def impute(self, X, *, lengths=None, groups=None):
        """Return X with its gaps filled by what they are expected to be, given whole sequences.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features), or list
            What was observed is as it was.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        rows, form = self._infer(X, lengths, groups, "imputed")
        return form.restored(self._exposed(rows))

    def score_rows(self, X, *, lengths=None, groups=None):
        """Return the log-likelihood of each row given those before it, log p(v_t | v_1..t-1).

        Low values are what the filter did not foresee; the sum over a sequence is what
        `score_samples` returns.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`; NaN is what was not observed.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_rows,), or list
            In nats; 0 for a row of which nothing was observed.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        rows, form = self._infer(X, lengths, groups, "row_log_likelihoods")
        return form.restored(rows)

    def filter_update(
        self, filtered_state_mean=None, filtered_state_covariance=None, observation=None
    ):
        """Return the filtered moments after one more row.

        Parameters
        ----------
        filtered_state_mean : array-like of shape (n_dim_state,), default=None
            Mean of the state given the rows so far; None before the first row.
        filtered_state_covariance : array-like of shape (n_dim_state, n_dim_state), default=None
        observation : array-like of shape (n_features,), default=None
            The row, with NaN for what was not observed; None: nothing was.

        Returns
        -------
        filtered_state_mean : ndarray of shape (n_dim_state,)
        filtered_state_covariance : ndarray of shape (n_dim_state, n_dim_state)

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If just one of the two moments is given, or a shape is wrong.
        """
        live = self.live_filter()
        if (filtered_state_mean is None) != (filtered_state_covariance is None):
            raise ValueError(
                f"{type(self).__name__}: pass both filtered_state_mean and"
                " filtered_state_covariance, or neither."
            )
        if filtered_state_mean is not None:
            live.start_from(filtered_state_mean, filtered_state_covariance)
        return live.update(
            np.full(self.n_features_in_, np.nan) if observation is None else observation
        )

    def live_filter(self):
        """Return a filter that takes one row at a time.

        Returns
        -------
        live_filter : MomentFilter
            Of the model as it is now; later updates do not change it.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        return MomentFilter(self.model_)
