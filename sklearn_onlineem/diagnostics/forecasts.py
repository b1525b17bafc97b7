"""Forecasts that include the uncertainty of the parameters."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Floats, SequenceData
from sklearn_onlineem.diagnostics._missing import Missing
from sklearn_onlineem.diagnostics.reading import coordinates_at, model_and_data
from sklearn_onlineem.diagnostics.standard_errors import LEAST_INFORMATION, check_converged
from sklearn_onlineem.estimators.kalman.kalman_filter import KalmanFilter
from sklearn_onlineem.estimators.validation import error_context

# Share of the variance of a forecast below which directions of no information do not matter.
_NEGLIGIBLE = 1e-2


def forecast_moments(
    estimator: KalmanFilter, X: SequenceData, n_steps: int = 1, **where: object
) -> tuple[Floats, Floats]:
    r"""Return forecasts of a Kalman filter whose covariances include errors of its parameters.

    .. math::
        \operatorname{Var}(v_{T+s} \mid v_{1..T}) \approx
        \operatorname{Var}_{\hat\theta}(v_{T+s} \mid v_{1..T}) + J_s H^{-1} J_s', \quad
        J_s = \partial \operatorname{E}_\theta(v_{T+s} \mid v_{1..T}) / \partial \theta

    with the observed information H of `standard_errors`. The first term is the covariance of
    ``KalmanFilter.forecast(..., return_cov=True)``, for which parameters are known; the second is
    that of the mean by the delta method. Without it intervals are too short for short sequences.

    The parameters need not be determined, only the forecasts: changes of the coordinates of the
    states do not matter. Moments of first states are taken as known unless there are more sequences
    than states have dimensions.

    Parameters
    ----------
    estimator : KalmanFilter
        Fitted, at a maximum, so with a small `tol`.
    X : array-like, or list of array-likes
        The sequences that it was fitted to, in any form that its `fit` takes, with NaN for missing
        values. The forecasts continue them.
    n_steps : int, default=1
        Rows ahead.
    **where : dict
        Further data of `fit`: `lengths`, `groups`.

    Returns
    -------
    means : ndarray of shape (n_steps, n_features), or (n_sequences, n_steps, n_features)
        As `forecast` returns them; the former for one 2-D sequence.
    covariances : ndarray of shape (..., n_features, n_features)

    Warns
    -----
    ConvergenceWarning
        If the model is not near the maximum.

    Raises
    ------
    NotFittedError, TypeError
        If the estimator is not fitted, or is no Kalman filter.
    ValueError
        If the data or `n_steps` are invalid; or if the data have no information on a change of the
        parameters that moves the forecasts, or the fit is at no maximum.

    References
    ----------
    Ansley & Kohn, "Prediction mean squared error for state space models with estimated parameters",
    Biometrika 1986; Hamilton, "A standard error for the estimated state vector of a state-space
    model", Journal of Econometrics 1986.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.diagnostics import forecast_moments
    >>> X = np.cumsum(np.random.default_rng(0).normal(size=(30, 1)), axis=0)
    >>> drift = KalmanFilter(
    ...     transition_matrices=1.0, observation_matrices=1.0, observation_covariance=1e-3,
    ...     em_vars=["transition_offsets", "transition_covariance"], solver="batch", tol=1e-10,
    ... ).fit(X)
    >>> variances = drift.forecast(X, 4, return_cov=True)[1].ravel()
    >>> (forecast_moments(drift, X, 4)[1].ravel() / variances).round(2)  # 1 + step / 29
    array([1.03, 1.07, 1.1 , 1.14])
    """
    if not isinstance(estimator, KalmanFilter):
        raise TypeError(f"estimator must be a KalmanFilter, got {type(estimator).__name__}.")
    check_count("n_steps of forecast_moments", n_steps)
    model, data = model_and_data(estimator, X, **where)
    with error_context(estimator):
        means, covariances = estimator.forecast(X, n_steps, return_cov=True, **where)
        added = _added_covariances(estimator, model, data, int(n_steps))
    return means, covariances + added.reshape(covariances.shape).astype(covariances.dtype)


def _added_covariances(estimator, model, data, n_steps):
    """Return J H^-1 J', of shape (n_sequences, n_steps, d, d)."""
    if len(data) <= model.n_components:
        model = replace(model, initial=replace(model.initial, learnt=()))
    variances = model.forecast(data, n_steps)[1].diagonal(axis1=2, axis2=3)
    if not any(part.learnt for part in (model.initial, model.transitions, model.emissions)):
        return np.zeros((*variances.shape, variances.shape[-1]))
    statistics, coordinates = coordinates_at(estimator, model, data)
    missing = Missing(coordinates, data)
    values, vectors = np.linalg.eigh(np.eye(math.prod(coordinates.shape)) - missing.dense())

    def means(model):
        return model.forecast(data, n_steps)[0]

    directions = vectors.T.reshape(-1, *coordinates.shape)
    moves = np.array([missing.slope(v, means) for v in directions])
    known = values > LEAST_INFORMATION
    # The least that directions without information would add.
    unknown = (moves[~known] ** 2).sum(axis=0) / (LEAST_INFORMATION * data.total_weight)
    if (unknown > _NEGLIGIBLE * variances).any():
        raise ValueError(
            "The data have no information on a change of the parameters that moves the forecasts"
            f" (least eigenvalue {values[0]:.2g} of that of complete data): fit with a smaller tol,"
            " a smaller n_dim_state, or with fewer em_vars."
        )
    inverse = (vectors[:, known] / values[known]) @ vectors[:, known].T
    check_converged(coordinates, statistics, inverse, data.total_weight, stacklevel=4)
    scaled = moves[known] / np.sqrt(data.total_weight * values[known])[:, None, None, None]
    return np.einsum("ints,intr->ntsr", scaled, scaled)
