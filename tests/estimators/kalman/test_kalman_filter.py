"""`KalmanFilter` as an estimator: what it refuses, and its place in pipelines."""

import numpy as np
import pytest
from cases.kalman_filters import K, drawn, known
from numpy.testing import assert_allclose

from sklearn_onlineem import KalmanFilter


def test_a_feature_that_was_never_observed(system, rng):
    X = drawn(system)
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match="KalmanFilter.*Feature 1"):
        KalmanFilter(K).fit(X)
    assert np.isfinite(known(system).fit(X).impute(X)).all()


def test_noise_may_be_singular_where_it_is_known(system):
    """A level that never changes, and a first state that is certain."""
    X = np.random.default_rng(0).standard_normal((50, 1)) + 3.0
    kalman = KalmanFilter(
        transition_covariance=0.0, initial_state_covariance=1e6, transition_matrices=1.0,
        observation_matrices=1.0, em_vars=["observation_covariance"], observation_offsets=0.0,
    ).fit(X)  # fmt: skip
    assert_allclose(kalman.transform(X)[-1], X.mean(), atol=1e-4)
    assert_allclose(kalman.observation_covariance_, X.var(ddof=1), rtol=1e-4)
