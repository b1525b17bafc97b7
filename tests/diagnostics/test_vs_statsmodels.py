"""Standard errors against statsmodels', at our maximum; `make test-rivals` installs it."""

from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem import GaussianHMM, KalmanFilter
from sklearn_onlineem.diagnostics import standard_errors

pytestmark = pytest.mark.rivals
EXACT = {"solver": "batch", "tol": 1e-14, "max_iter": 20_000, "reg_covar": 0.0}


def errors_of(log_likelihood, x):
    """Errors by the Hessian of a log-likelihood, as statsmodels takes it."""
    numdiff = import_module("statsmodels.tools.numdiff")
    return np.sqrt(np.diag(np.linalg.inv(-numdiff.approx_hess3(x, log_likelihood))))


@pytest.fixture
def statespace():
    return import_module("statsmodels.tsa.api")


def test_local_level(statespace, rng):
    y = np.cumsum(0.5 * rng.standard_normal(400)) + rng.standard_normal(400)
    kalman = KalmanFilter(
        1, transition_matrices=[[1.0]], observation_matrices=[[1.0]],
        initial_state_mean=[0.0], initial_state_covariance=[[1e6]],
        em_vars=["transition_covariance", "observation_covariance"], **EXACT,
    ).fit(y[:, None])  # fmt: skip
    theirs = statespace.UnobservedComponents(y, "llevel")
    theirs.ssm.initialize_known(np.zeros(1), np.array([[1e6]]))
    theirs.loglikelihood_burn = 0
    found = standard_errors(kalman, y[:, None])
    names = "observation_covariance_", "transition_covariance_"
    x = np.concatenate([found.estimates[name].ravel() for name in names])
    assert_allclose(theirs.loglike(x), kalman.score(y[:, None]), rtol=1e-9)
    assert_allclose(theirs.fit(x, disp=0).params, x, rtol=1e-3)
    ours = np.concatenate([found.errors[name].ravel() for name in names])
    assert_allclose(ours, errors_of(theirs.loglike, x), rtol=1e-4)


def test_autoregression_in_noise(statespace, rng):
    state = np.zeros(600)
    for t in range(1, 600):
        state[t] = 0.8 * state[t - 1] + rng.standard_normal()
    y = state + 0.7 * rng.standard_normal(600)
    y[rng.random(600) < 0.05] = np.nan
    kalman = KalmanFilter(
        1, observation_matrices=[[1.0]], initial_state_mean=[0.0],
        initial_state_covariance=[[3.0]], random_state=0,
        em_vars=["transition_matrices", "transition_covariance", "observation_covariance"],
        **EXACT,
    ).fit(y[:, None])  # fmt: skip
    theirs = statespace.SARIMAX(y, order=(1, 0, 0), measurement_error=True)
    theirs.ssm.initialize_known(np.zeros(1), np.array([[3.0]]))
    found = standard_errors(kalman, y[:, None])
    names = "transition_matrices_", "observation_covariance_", "transition_covariance_"
    x = np.concatenate([found.estimates[name].ravel() for name in names])
    assert_allclose(theirs.loglike(x), kalman.score(y[:, None]), rtol=1e-9)
    ours = np.concatenate([found.errors[name].ravel() for name in names])
    assert_allclose(ours, errors_of(theirs.loglike, x), rtol=1e-4)


def test_markov_switching(statespace, rng):
    """Their chain starts, from a known law, two steps before the first row."""
    states = np.zeros(1500, dtype=int)
    for t in range(1, 1500):
        states[t] = states[t - 1] if rng.random() < 0.95 else 1 - states[t - 1]
    y = np.where(states, 3.0, 0.0) + np.where(states, 1.5, 0.8) * rng.standard_normal(1500)
    X = np.append([np.nan, np.nan], y)[:, None]
    chain = GaussianHMM(
        2, means_init=[[0.0], [3.0]], startprob_init=[0.5, 0.5], params="tmc", random_state=0,
        **EXACT,
    ).fit(X)  # fmt: skip
    theirs = statespace.MarkovRegression(y, 2, switching_variance=True)
    theirs.initialize_known(np.array([0.5, 0.5]))
    found = standard_errors(chain, X)
    moves = found.estimates["transmat_"][:, 0]
    means, variances = (found.estimates[name].ravel() for name in ("means_", "covars_"))
    x = np.concatenate([moves, means, variances])
    expected = errors_of(theirs.loglike, x)
    assert_allclose(theirs.loglike(x), chain.score(X), rtol=1e-9)
    assert_allclose(found.errors["transmat_"][:, 0], expected[:2], rtol=1e-4)
    assert_allclose(found.errors["means_"].ravel(), expected[2:4], rtol=1e-4)
    assert_allclose(found.errors["covars_"].ravel(), expected[4:], rtol=1e-4)
