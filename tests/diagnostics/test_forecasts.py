"""Forecasts of Kalman filters that include the uncertainty of their parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.diagnostics import forecast_moments

EXACT = {"solver": "batch", "tol": 0.0, "reg_covar": 0.0, "random_state": 0}


def drifting(rng, n_rows):
    return (np.cumsum(0.5 + rng.standard_normal(n_rows)))[:, None]


def drift(X, **arguments):
    """A walk without noise, of unknown drift and steps: forecasts of a linear regression."""
    known = {"transition_matrices": 1.0, "observation_matrices": 1.0}
    known |= {"observation_covariance": 1e-6, "initial_state_covariance": 1e3}
    learnt = ["transition_offsets", "transition_covariance"]
    return KalmanFilter(**known, em_vars=learnt, **EXACT, max_iter=30, **arguments).fit(X)


@pytest.mark.filterwarnings("ignore:KalmanFilter did not converge")
def test_intervals_of_short_series_cover_more_of_what_comes(rng):
    inside = np.zeros((2, 10))
    for _ in range(200):
        rows = drifting(rng, 22)
        kalman = drift(rows[:12])
        for i, (means, covariances) in enumerate(
            (
                kalman.forecast(rows[:12], 10, return_cov=True),
                forecast_moments(kalman, rows[:12], 10),
            )
        ):
            reach = 1.96 * np.sqrt(covariances[:, 0, 0])
            inside[i] += (np.abs(means - rows[12:])[:, 0] < reach) / 200
    without, with_parameters = inside
    assert (without <= with_parameters).all()
    assert without[-1] < 0.85 < 0.88 < with_parameters[-1] < 0.97


def test_coordinates_of_the_states_do_not_matter(rng):
    """All parameters are learnt, of which the data determine only what forecasts need."""
    turn, states = np.array([[0.83, -0.35], [0.35, 0.83]]), [rng.standard_normal((20, 2))]
    for _ in range(59):
        states.append(states[-1] @ turn.T + 0.5 * rng.standard_normal((20, 2)))
    X = np.stack(states, axis=1)[:, :, :1] + 0.3 * rng.standard_normal((20, 60, 1))
    kalman = KalmanFilter(2, max_iter=3000, **EXACT).fit(X)
    T = np.array([[2.0, 1.0], [-0.5, 0.3]])
    back = np.linalg.inv(T)
    other = KalmanFilter(
        transition_matrices=T @ kalman.transition_matrices_ @ back,
        transition_covariance=T @ kalman.transition_covariance_ @ T.T,
        observation_matrices=kalman.observation_matrices_ @ back,
        observation_covariance=kalman.observation_covariance_,
        observation_offsets=kalman.observation_offsets_,
        initial_state_mean=T @ kalman.initial_state_mean_,
        initial_state_covariance=T @ kalman.initial_state_covariance_ @ T.T,
        **EXACT, max_iter=0,
    ).fit(X)  # fmt: skip
    _, known = kalman.forecast(X, 5, return_cov=True)
    here, there = (forecast_moments(filter_, X, 5) for filter_ in (kalman, other))
    assert_allclose(there[0], here[0], rtol=1e-6, atol=1e-8)
    assert_allclose(there[1] - known, here[1] - known, rtol=1e-5)
    assert ((here[1] - known) > 1e-4 * known).all()


def test_a_known_model_has_no_more_uncertainty(rng):
    X = drifting(rng, 20)
    walk = KalmanFilter(em_vars=[]).fit(X)
    for found, known in zip(
        forecast_moments(walk, X, 3), walk.forecast(X, 3, return_cov=True), strict=True
    ):
        assert_array_equal(found, known)


@pytest.mark.filterwarnings("ignore:KalmanFilter did not converge")
def test_forms_and_types_are_those_of_forecasts(rng):
    X = [drifting(rng, n).astype(np.float32) for n in (20, 30)]
    kalman = drift(X)
    rows, lengths = np.concatenate(X), [20, 30]
    for found in (
        forecast_moments(kalman, X, 2),
        forecast_moments(kalman, rows, 2, lengths=lengths),
    ):
        assert [part.shape for part in found] == [(2, 2, 1), (2, 2, 1, 1)]
        assert all(part.dtype == np.float32 for part in found)


def test_a_fit_that_is_not_near_a_maximum_warns(rng):
    X = drifting(rng, 60)
    kalman = drift(X).set_params(max_iter=0, transition_covariance=3.0, transition_offsets=-1.0)
    kalman.fit(X)
    with pytest.warns(ConvergenceWarning, match="standard errors from the maximum"):
        forecast_moments(kalman, X)


@pytest.mark.filterwarnings("ignore:All rows are equal")
def test_forecasts_of_which_the_data_say_nothing_are_refused(rng):
    """Where no row is observed but the first, nothing is known of the noise or of the next."""
    X = np.full((20, 1), np.nan)
    X[0] = 1.0
    kalman = KalmanFilter(
        observation_matrices=1.0, transition_matrices=0.5, em_vars=["transition_offsets"],
        initial_state_mean=0.0, max_iter=0,
    ).fit(X)  # fmt: skip
    with pytest.raises(ValueError, match="no information .* moves the forecasts"):
        forecast_moments(kalman, X, 2)
