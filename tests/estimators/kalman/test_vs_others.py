"""Kalman filters against pykalman and statsmodels."""

import numpy as np
import pykalman
from cases.kalman_filters import D, K, drawn, known, with_gaps
from numpy.testing import assert_allclose
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS

NOT_OFFSETS = [name for name in FIELDS if "offsets" not in name]


def test_filter_update_is_pykalmans(system, rng):
    X, ours, theirs = drawn(system), known(system), pykalman.KalmanFilter(**system)
    moments = rng.standard_normal(K), np.diag([0.4, 2.0])
    assert_allclose(
        np.column_stack(ours.filter_update(*moments, X[0])),
        np.column_stack(theirs.filter_update(*moments, X[0])),
        atol=1e-10,
    )
    for found, expected in zip(
        ours.filter_update(*moments), theirs.filter_update(*moments), strict=True
    ):
        assert_allclose(found, expected, atol=1e-10)


def test_batch_em_is_pykalmans(system, rng):
    X = drawn(system, 60)
    start = {**system, "transition_matrices": 0.5 * np.eye(K)}
    for n_iter in (1, 4):
        theirs = pykalman.KalmanFilter(**start).em(X, n_iter=n_iter, em_vars=NOT_OFFSETS)
        ours = KalmanFilter(
            **start, em_vars=NOT_OFFSETS, solver="batch", max_iter=n_iter, tol=0.0, reg_covar=0.0
        ).fit(X)
        for name in FIELDS:
            expected = np.asarray(getattr(theirs, name))
            assert_allclose(getattr(ours, f"{name}_"), expected, rtol=1e-6, atol=1e-6)


def test_moments_with_gaps_are_those_of_statsmodels(system, rng):
    X, ours = with_gaps(rng, drawn(system)), known(system)
    theirs = KalmanSmoother(k_endog=D, k_states=K)
    theirs.bind(np.asfortranarray(X.T))
    theirs["design"], theirs["selection"] = system["observation_matrices"], np.eye(K)
    theirs["obs_intercept"] = system["observation_offsets"][:, None]
    theirs["obs_cov"] = system["observation_covariance"]
    theirs["transition"] = system["transition_matrices"]
    theirs["state_intercept"] = system["transition_offsets"][:, None]
    theirs["state_cov"] = system["transition_covariance"]
    theirs.initialize_known(system["initial_state_mean"], system["initial_state_covariance"])
    expected = theirs.smooth()
    assert_allclose(ours.score(X), expected.llf_obs.sum(), rtol=1e-9)
    assert_allclose(ours.score_rows(X), expected.llf_obs, atol=1e-9)
    assert_allclose(ours.transform(X), expected.smoothed_state.T, atol=1e-8)
    _, covariances = ours.smooth(X)
    assert_allclose(covariances, expected.smoothed_state_cov.transpose(2, 0, 1), atol=1e-8)
    means, covariances = ours.predict(X, return_cov=True)
    seen = ~np.isnan(X).any(axis=1)
    assert_allclose(means[seen], expected.forecasts.T[seen], atol=1e-8)
    assert_allclose(
        covariances[seen], expected.forecasts_error_cov.transpose(2, 0, 1)[seen], atol=1e-8
    )
