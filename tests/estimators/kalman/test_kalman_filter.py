"""`KalmanFilter` as an estimator: what it refuses and infers, and systems that grow without end."""

import numpy as np
import pandas as pd
import polars as pl
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


@pytest.mark.parametrize("library", [pd, pl])
def test_what_is_imputed_comes_in_the_container_that_is_asked_for(library, system):
    X = drawn(system, 10, 3)
    X[1][4, 0] = np.nan
    frames = [library.DataFrame(dict(zip("abc", part.T, strict=True))) for part in X]
    kalman = known(system).fit(frames)
    expected = kalman.impute(frames)
    kalman.set_output(transform=library.__name__)
    whole = kalman.impute(library.concat(frames), lengths=[10] * 3)
    for found, parts in ((kalman.impute(frames), expected), ([whole], [np.concatenate(expected)])):
        for out, part in zip(found, parts, strict=True):
            assert isinstance(out, library.DataFrame) and list(out.columns) == list("abc")
            np.testing.assert_array_equal(out.to_numpy(), part)


# 1.05**(2 * 7250) is beyond the largest float.
SYSTEM = {
    "transition_matrices": [[1.05]],
    "observation_matrices": [[1.0]],
    "transition_covariance": [[1.0]],
    "observation_covariance": [[1.0]],
    "transition_offsets": [0.0],
    "observation_offsets": [0.0],
    "initial_state_mean": [0.0],
    "initial_state_covariance": [[1.0]],
}
ROW_METHODS = ["filter", "smooth", "transform", "predict", "impute"]


def unstable():
    return KalmanFilter(**SYSTEM, em_vars=[], random_state=0).fit(np.zeros((2, 1)))


def gap(n):
    X = np.full((n, 1), np.nan)
    X[0] = 1.0
    return X


@pytest.mark.parametrize("method", ROW_METHODS)
def test_inference_says_from_which_step_on(method):
    kalman = unstable()
    infer = getattr(kalman, method)
    with pytest.raises(ValueError, match=r"KalmanFilter: the moments .* from step 72\d\d on"):
        infer(gap(20_000))
    with pytest.raises(ValueError, match=r"from step 72\d\d of sequence 1 on"):
        infer([gap(5), gap(20_000)])
    assert all(np.isfinite(part).all() for part in infer(gap(7000)))


def test_a_forecast_says_so_too():
    kalman = unstable()
    with pytest.raises(ValueError, match=r"KalmanFilter: .* from step 72\d\d of the forecast on"):
        kalman.forecast(gap(3), n_steps=20_000)
    assert np.isfinite(kalman.forecast(gap(3), n_steps=7000)).all()


def test_a_sample_says_so_too():
    with pytest.raises(ValueError, match=r"KalmanFilter: .* from step 14\d\d\d on"):
        unstable().sample(20_000)


def test_learning_leaves_the_estimator_as_it_was():
    kalman = KalmanFilter(**SYSTEM, random_state=0)
    for learn in (kalman.fit, kalman.partial_fit):
        with pytest.raises(ValueError, match=r"KalmanFilter: the moments .* from step 72\d\d on"):
            learn(gap(20_000))
        assert not hasattr(kalman, "model_")
