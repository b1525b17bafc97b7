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


@pytest.mark.parametrize("is_level", [True, False], ids=["level", "autoregression"])
def test_a_state_in_noise(is_level, statespace, rng):
    state, rate, spread = np.zeros(600), 1.0 if is_level else 0.8, 0.5 if is_level else 1.0
    for t in range(1, 600):
        state[t] = rate * state[t - 1] + spread * rng.standard_normal()
    y = state + rng.standard_normal(600)
    y[rng.random(600) < 0.05] = np.nan
    names = ["transition_matrices", "observation_covariance", "transition_covariance"][is_level:]
    known = {"transition_matrices": [[1.0]]} if is_level else {}
    start = {"initial_state_mean": [0.0], "initial_state_covariance": [[3.0]]}
    kalman = KalmanFilter(
        1, observation_matrices=[[1.0]], random_state=0, em_vars=names, **start, **known, **EXACT
    ).fit(y[:, None])
    theirs = (
        statespace.UnobservedComponents(y, "llevel")
        if is_level
        else statespace.SARIMAX(y, order=(1, 0, 0), measurement_error=True)
    )
    theirs.ssm.initialize_known(np.zeros(1), np.array([[3.0]]))
    theirs.loglikelihood_burn = 0
    found = standard_errors(kalman, y[:, None])
    x, ours = (
        np.concatenate([part[f"{name}_"].ravel() for name in names])
        for part in (found.estimates, found.errors)
    )
    assert_allclose(theirs.loglike(x), kalman.score(y[:, None]), rtol=1e-9)
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
