"""Hidden Markov models of bits and counts given inputs and lags: enumeration, peers, streams."""

from itertools import product

import numpy as np
import pytest
import statsmodels.api as sm
from cases.enumeration import Enumeration
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import bernoulli, norm, poisson

from sklearn_onlineem import RegressionHMM, combine_estimators
from sklearn_onlineem.diagnostics import standard_errors
from sklearn_onlineem.em import Batch
from sklearn_onlineem.models.hidden_markov import regression_forecasts

K = 2
# The distribution of a row given predictors, what lags count for, values of some probability,
# the link, slopes of the two states below, and the model of statsmodels.
BITS = (lambda psi: bernoulli(expit(psi)), lambda lags: lags, 2, 3.0, sm.families.Binomial())
COUNTS = (lambda psi: poisson(np.exp(psi)), np.log1p, 22, 0.8, sm.families.Poisson())
RESPONSES = {"bernoulli": BITS, "poisson": COUNTS}
of_both = pytest.mark.parametrize("response", RESPONSES)


def known(rng, response, lags, n_inputs, n_columns):
    """A model of two states whose parameters are drawn; counts are small."""
    scale = 1.0 if response == "bernoulli" else 0.3
    return RegressionHMM.from_parameters(
        response=response, lags=lags, startprob=[0.3, 0.7], transmat=[[0.8, 0.2], [0.3, 0.7]],
        coef=scale * rng.normal(size=(K, n_columns, lags * n_columns + n_inputs)),
        intercept=scale * rng.normal(size=(K, n_columns)),
    )  # fmt: skip


def switching(rng, response, n=1200):
    """A column that follows its input, or its opposite, in turn."""
    slope = RESPONSES[response][3]
    inputs, states = rng.normal(size=n), np.arange(n) // 60 % 2
    psi = 1.0 + slope * (1.0 - 2.0 * states) * inputs
    X = rng.random(n) < expit(psi) if response == "bernoulli" else rng.poisson(np.exp(psi))
    return X[:, None].astype(float), inputs, states


def assert_switching(hmm, response):
    slope, atol = (3.0, 0.8) if response == "bernoulli" else (0.8, 0.15)
    assert_allclose(np.sort(hmm.coef_.ravel()), [-slope, slope], atol=atol)
    assert_allclose(hmm.intercept_.ravel(), 1.0, atol=0.6 * atol / 0.8)


@of_both
@pytest.mark.parametrize(("lags", "n_inputs"), [(0, 2), (1, 0), (2, 1)])
def test_likelihoods_posteriors_and_forecasts_are_those_of_enumeration(
    response, lags, n_inputs, rng
):
    given, taken, n_values, _, _ = RESPONSES[response]
    n, ahead, P = 4, 2, 2 if response == "bernoulli" else 1
    hmm = known(rng, response, lags, n_inputs, P)
    X = rng.integers(0, 2, (n, P)).astype(float)
    u = rng.normal(size=(n + ahead, n_inputs))
    inputs = {"inputs": u[:n]} if n_inputs else {}
    missing = n - 1 if lags == 0 else 0
    X[missing] = np.nan

    later = np.array([*product(np.arange(float(n_values)), repeat=ahead * P)])
    rows = np.concatenate([np.tile(X, (len(later), 1, 1)), later.reshape(-1, ahead, P)], axis=1)

    def log_density(k, t):
        """Of row t in state k, for all rows to come at once."""
        if t < lags or np.isnan(rows[0, t - lags : t + 1]).any():
            return np.zeros(len(rows))
        past = [taken(rows[:, t - i]) for i in range(1, lags + 1)]
        z = np.concatenate([*past, np.tile(u[t], (len(rows), 1))], axis=1)
        return given(z @ hmm.coef_[k].T + hmm.intercept_[k]).logpmf(rows[:, t]).sum(axis=1)

    log_densities = np.array([[log_density(k, t) for k in range(K)] for t in range(n + ahead)])
    seen, *whole = (
        Enumeration(hmm.model_, one)
        for one in (log_densities[:n, :, 0], *np.moveaxis(log_densities, 2, 0))
    )
    assert hmm.score(X, **inputs) == pytest.approx(seen.log_likelihood, abs=1e-9)
    assert_allclose(hmm.predict_proba(X, **inputs), seen.posterior(), rtol=1e-9, atol=1e-12)
    of_rows = np.exp([one.log_likelihood - seen.log_likelihood for one in whole])
    new = rows[:, n:]
    mean = np.einsum("v,vtp->tp", of_rows, new)
    covariance = np.einsum("v,vtp,vtr->tpr", of_rows, new - mean, new - mean)
    future = {"future_inputs": u[n:]} if n_inputs else {}
    levels = np.array([0.05, 0.5, 0.95])
    found = hmm.forecast(X, ahead, return_cov=True, quantiles=levels, **inputs, **future)
    assert_allclose(found[0], mean, rtol=1e-9)
    assert_allclose(found[1], covariance, rtol=1e-9, atol=1e-11)
    below = np.array(
        [
            [np.bincount(new[:, t, p].astype(int), of_rows).cumsum() for p in range(P)]
            for t in range(ahead)
        ]
    )
    quantiles = (below < levels[:, None, None, None]).sum(axis=-1)
    assert_array_equal(found[2], quantiles)
    live = hmm.live_filter()
    for row, value in zip(X, u, strict=False):
        live.update(row, **({"inputs": value} if n_inputs else {}))
    if lags or n_inputs:
        known_inputs = {"inputs": u[n:]} if n_inputs else {}
        assert_allclose(live.forecast(ahead, **known_inputs), mean, rtol=1e-9)


@of_both
def test_one_state_is_a_generalised_linear_model(response, rng):
    given, taken, _, _, family = RESPONSES[response]
    u = rng.normal(size=(200, 2))
    X = given(0.5 * u[:, :1]).rvs(random_state=rng).astype(float)
    X[50] = np.nan
    pieces = ([X[:90], X[90:]], [u[:90], u[90:]])
    hmm = RegressionHMM(response=response, lags=1).fit(pieces[0], inputs=pieces[1])
    rows = [t for t in range(200) if t not in (0, 50, 51, 90)]
    design = sm.add_constant(np.array([[*taken(X[t - 1]), *u[t]] for t in rows]))
    theirs = sm.GLM(X[rows, 0], design, family).fit(tol=1e-14)
    assert_allclose([*hmm.intercept_[0], *hmm.coef_[0, 0]], theirs.params, atol=1e-3)
    hmm.set_params(tol=0.0, solver="batch", max_iter=300)
    hmm.fit(pieces[0], inputs=pieces[1])
    tolerance = 1e-6 if response == "bernoulli" else 1e-7
    assert_allclose([*hmm.intercept_[0], *hmm.coef_[0, 0]], theirs.params, rtol=tolerance)
    errors = standard_errors(hmm, pieces[0], inputs=pieces[1]).errors
    found = [*errors["intercept_"][0], *errors["coef_"][0, 0]]
    assert_allclose(found, theirs.bse, rtol=1e-3)


@of_both
def test_regimes_are_found_at_once_in_streams_and_merged(response, rng):
    X, u, states = switching(rng, response, 2400)
    batch = RegressionHMM(2, response=response, random_state=0).fit(X, inputs=u)
    assert_switching(batch, response)
    assert abs(np.mean(batch.predict(X, inputs=u) == states) - 0.5) > 0.4
    stream = RegressionHMM(2, response=response, random_state=0)
    for rows, inputs in zip(np.split(X, 48), np.split(u, 48), strict=True):
        stream.partial_fit(rows, inputs=inputs, continues=True)
    assert_switching(stream, response)
    assert stream.score(X, inputs=u) > batch.score(X, inputs=u) - 15.0
    halves = [(X[:1200], u[:1200]), (X[1200:], u[1200:])]
    members = [
        RegressionHMM(2, response=response, random_state=0).fit(x, inputs=v) for x, v in halves
    ]
    # Sums of statistics from rows know old parameters, and those of bits have none.
    for method in ("entropic", "sampled") if response == "poisson" else ("entropic",):
        merged = combine_estimators(members, method=method, random_state=0)
        assert_switching(merged, response)
        assert batch.score(X, inputs=u) - merged.score(X, inputs=u) < 5.0


@of_both
def test_durations_and_lags_of_regimes(response, rng):
    X, u, states = switching(rng, response, 900)
    settings = {"durations": "poisson", "max_duration": 80, "random_state": 0, "max_iter": 20}
    # One start may lead to another maximum.
    hmm = RegressionHMM(2, response=response, lags=1, n_init=4, **settings).fit(X, inputs=u)
    # Five standard deviations of what draws of the data give.
    assert_allclose(hmm.coef_[..., 0], 0.0, atol=1.0 if response == "bernoulli" else 0.15)
    assert abs(np.mean(hmm.predict(X, inputs=u) == states) - 0.5) > 0.45
    mean, covariance = hmm.forecast(X, 3, return_cov=True, inputs=u, future_inputs=u[:3])
    assert (mean >= 0.0).all() and (covariance > 0.0).all()


@of_both
def test_forecasts_with_very_many_values_of_lags_are_drawn(response, rng, monkeypatch):
    hmm, X = known(rng, response, 2, 0, 1), rng.integers(0, 2, (6, 1)).astype(float)
    exact = hmm.forecast(X, 6, return_cov=True, quantiles=[0.2, 0.8])
    monkeypatch.setattr(regression_forecasts, "_MOST_VALUES", 1)
    drawn = hmm.forecast(X, 6, return_cov=True, quantiles=[0.2, 0.8])
    assert_allclose(drawn[0][:1], exact[0][:1], rtol=1e-9)
    deviations = np.sqrt(exact[1][:, 0])
    assert not np.array_equal(drawn[0], exact[0])
    assert (np.abs(drawn[0] - exact[0]) < 0.03 * deviations).all()
    assert_allclose(drawn[1], exact[1], rtol=0.1)
    assert (np.abs(drawn[2] - exact[2]) <= 1.0).all()
    again = hmm.forecast(X, 6, return_cov=True, quantiles=[0.2, 0.8])
    for one, other in zip(drawn, again, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("rate", [3e3, 1e12])
def test_forecasts_of_large_counts_with_lags_are_nearly_normal(rate):
    lag, state = 0.5, np.log(rate)
    hmm = RegressionHMM.from_parameters(
        response="poisson", lags=1, startprob=[1.0], transmat=[[1.0]],
        coef=[[[lag]]], intercept=[[(1.0 - lag) * state]],
    )  # fmt: skip
    levels = [0.05, 0.5, 0.95]
    mean, covariance, found = hmm.forecast(
        np.full((5, 1), rate), 2, return_cov=True, quantiles=levels
    )
    # The second row has the variance of its own rate, and of what that owes to the first.
    deviation = np.sqrt(rate * np.array([1.0, 1.0 + lag**2]))
    assert_allclose(mean[:, 0], rate, rtol=1e-3)
    assert_allclose(covariance[:, 0, 0], deviation**2, rtol=0.05)
    assert_allclose(
        found[..., 0] - rate, np.outer(norm.ppf(levels), deviation), atol=0.1 * deviation[1]
    )


def test_a_far_start_of_counts_comes_back(rng):
    """Where one state begins with rates far too large, and the other with a slope too steep."""
    X, u, _ = switching(rng, "poisson")
    hmm = RegressionHMM.from_parameters(
        response="poisson", startprob=[0.5, 0.5], transmat=[[0.9, 0.1], [0.1, 0.9]],
        coef=[[[1.0]], [[-2.0]]], intercept=[[5.0 - 1e3], [2e3]],
    )  # fmt: skip
    hmm.set_params(solver="batch", warm_start=True, max_iter=200).fit(X, inputs=u + 1e3)
    path = np.array([entry.log_likelihood for entry in hmm.history_])
    assert (np.diff(path) >= -1e-9 * np.abs(path[1:])).all()
    assert_allclose(np.sort(hmm.coef_.ravel()), [-0.8, 0.8], atol=0.15)


@of_both
def test_converged_fits_gain_nothing_more(response, rng):
    """Also where lags separate bits, so that coefficients grow without end."""
    for _ in range(8):
        X, inputs, _ = switching(rng, response, 70)
        hmm = RegressionHMM(K, lags=2, response=response, random_state=0).fit(X, inputs=inputs)
        assert hmm.converged_
        score = hmm.score(X, inputs=inputs)
        hmm.set_params(warm_start=True, solver=Batch(acceleration=None), tol=0.0, max_iter=300)
        assert hmm.fit(X, inputs=inputs).score(X, inputs=inputs) < score + 0.1
