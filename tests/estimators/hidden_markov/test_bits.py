"""Hidden Markov models of bits given inputs and lags: enumeration, peers, streams, refusals."""

from itertools import pairwise, product

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from scipy.stats import bernoulli

from sklearn_onlineem import RegressionHMM, combine_estimators

K, P = 2, 2


def known(rng, lags, n_inputs):
    """A model of two states and two columns of bits, whose parameters are drawn."""
    return RegressionHMM.from_parameters(
        response="bernoulli",
        lags=lags,
        startprob=[0.3, 0.7],
        transmat=[[0.8, 0.2], [0.3, 0.7]],
        coef=rng.normal(size=(K, P, lags * P + n_inputs)),
        intercept=rng.normal(size=(K, P)),
    )


def switching(rng, n=1200):
    """A bit that follows its input, or its opposite, in turn."""
    inputs, states = rng.normal(size=n), np.arange(n) // 60 % 2
    X = rng.random(n) < expit(1.0 + (3.0 - 6.0 * states) * inputs)
    return X[:, None].astype(float), inputs, states


def assert_switching(hmm, atol=0.8):
    assert_allclose(np.sort(hmm.coef_.ravel()), [-3.0, 3.0], atol=atol)
    assert_allclose(hmm.intercept_.ravel(), 1.0, atol=0.6)


@pytest.mark.parametrize(("lags", "n_inputs"), [(0, 2), (1, 0), (2, 1)])
def test_likelihoods_posteriors_and_forecasts_are_those_of_enumeration(lags, n_inputs, rng):
    n, ahead = 4, 2
    hmm, X = known(rng, lags, n_inputs), rng.integers(0, 2, (n, P)).astype(float)
    u = rng.normal(size=(n + ahead, n_inputs))
    given = {"inputs": u[:n]} if n_inputs else {}
    missing = n - 1 if lags == 0 else 0
    X[missing] = np.nan

    def chance(k, rows, t):
        if t < lags or np.isnan(rows[t - lags : t + 1]).any():
            return 1.0
        z = np.concatenate([*(rows[t - i] for i in range(1, lags + 1)), u[t]])
        odds = hmm.coef_[k] @ z + hmm.intercept_[k]
        return bernoulli(expit(odds)).pmf(rows[t]).prod()

    total, posterior = 0.0, np.zeros((n, K))
    mean, second = np.zeros((ahead, P)), np.zeros((ahead, P, P))
    for path in product(range(K), repeat=n + ahead):
        steps = [hmm.startprob_[path[0]], *(hmm.transmat_[i, j] for i, j in pairwise(path))]
        seen = np.prod([chance(k, X, t) for t, k in enumerate(path[:n])])
        share = np.prod(steps) * seen
        total += share
        posterior[np.arange(n), path[:n]] += share
        for later in product((0.0, 1.0), repeat=ahead * P):
            rows = np.vstack([X, np.reshape(later, (ahead, P))])
            weight = share * np.prod([chance(path[t], rows, t) for t in range(n, n + ahead)])
            mean += weight * rows[n:]
            second += weight * rows[n:, :, None] * rows[n:, None]
    assert hmm.score(X, **given) == pytest.approx(np.log(total), abs=1e-9)
    assert_allclose(hmm.predict_proba(X, **given), posterior / total, rtol=1e-9, atol=1e-12)
    future = {"future_inputs": u[n:]} if n_inputs else {}
    levels = [0.05, 0.5, 0.95]
    found = hmm.forecast(X, ahead, return_cov=True, quantiles=levels, **given, **future)
    mean, second = mean / total, second / total
    assert_allclose(found[0], mean, rtol=1e-9)
    expected = second - mean[:, :, None] * mean[:, None]
    assert_allclose(found[1], expected, rtol=1e-9, atol=1e-12)
    assert_array_equal(found[2], [bernoulli(mean).ppf(level) for level in levels])
    live = hmm.live_filter()
    for row, value in zip(X, u, strict=False):
        live.update(row, **({"inputs": value} if n_inputs else {}))
    if lags or n_inputs:
        later = {"inputs": u[n:]} if n_inputs else {}
        assert_allclose(live.forecast(ahead, **later), mean, rtol=1e-9)


def test_one_state_is_a_logistic_regression(rng):
    X, u = rng.integers(0, 2, (200, 1)).astype(float), rng.normal(size=(200, 2))
    X[50] = np.nan
    hmm = RegressionHMM(response="bernoulli", lags=1).fit([X[:90], X[90:]], inputs=[u[:90], u[90:]])
    rows = [t for t in range(200) if t not in (0, 50, 51, 90)]
    design = sm.add_constant(np.array([[*X[t - 1], *u[t]] for t in rows]))
    theirs = sm.Logit(X[rows, 0], design).fit(disp=0, tol=1e-12)
    assert_allclose([*hmm.intercept_[0], *hmm.coef_[0, 0]], theirs.params, atol=1e-3)
    hmm.set_params(tol=0.0, solver="batch", max_iter=300)
    hmm.fit([X[:90], X[90:]], inputs=[u[:90], u[90:]])
    assert_allclose([*hmm.intercept_[0], *hmm.coef_[0, 0]], theirs.params, rtol=1e-6)


def test_regimes_are_found_at_once_in_streams_and_merged(rng):
    X, u, states = switching(rng, 2400)
    batch = RegressionHMM(2, response="bernoulli", random_state=0).fit(X, inputs=u)
    assert_switching(batch)
    assert abs(np.mean(batch.predict(X, inputs=u) == states) - 0.5) > 0.4
    stream = RegressionHMM(2, response="bernoulli", random_state=0)
    for rows, inputs in zip(np.split(X, 48), np.split(u, 48), strict=True):
        stream.partial_fit(rows, inputs=inputs, continues=True)
    assert_switching(stream)
    assert stream.score(X, inputs=u) > batch.score(X, inputs=u) - 15.0
    halves = [(X[:1200], u[:1200]), (X[1200:], u[1200:])]
    members = [
        RegressionHMM(2, response="bernoulli", random_state=0).fit(x, inputs=v) for x, v in halves
    ]
    merged = combine_estimators(members)
    assert_switching(merged)
    assert merged.score(X, inputs=u) > batch.score(X, inputs=u) - 5.0


def test_refusals(rng):
    X, u, _ = switching(rng, 60)
    for arguments, words in (
        ({"covariance_type": "diag"}, "covariance_type requires response='gaussian'"),
        ({"reg_covar": 0.1}, "reg_covar requires response='gaussian'"),
    ):
        name = next(iter(arguments))
        with pytest.raises(ValueError, match=f"{name} of RegressionHMM|RegressionHMM: {words}"):
            RegressionHMM(2, response="bernoulli", **arguments).fit(X, inputs=u)
    with pytest.raises(ValueError, match="'response' parameter of RegressionHMM"):
        RegressionHMM(response="poisson").fit(X, inputs=u)
    hmm = RegressionHMM(response="bernoulli", random_state=0)
    with pytest.raises(ValueError, match="RegressionHMM: Bits must be 0 or 1"):
        hmm.fit(2.0 * X, inputs=u)
    hmm.fit(X, inputs=u)
    with pytest.raises(AttributeError, match="covariances_ requires response='gaussian'"):
        _ = hmm.covariances_
    long = RegressionHMM(response="bernoulli", lags=13).fit(X, inputs=u)
    with pytest.raises(ValueError, match="RegressionHMM: .* more than 4096 values of lags"):
        long.forecast(X, 15, inputs=u, future_inputs=u[:15])
