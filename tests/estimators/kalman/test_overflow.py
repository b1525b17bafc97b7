"""Systems that grow without end say from which step on their moments are no numbers."""

import numpy as np
import pytest

from sklearn_onlineem import KalmanFilter

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
