"""Hidden Markov regressions: by enumeration, least squares and peers; streams, gaps, refusals."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from cases.chains import extended
from cases.enumeration import Enumeration
from cases.inputs import switching
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from statsmodels.tsa.api import MarkovAutoregression, MarkovRegression

from sklearn_onlineem import RegressionHMM
from sklearn_onlineem._values import components
from sklearn_onlineem.models.hidden_markov.regression_forecasts import forecast_of_regressions

K, P = 2, 2


def known(rng, lags, n_inputs):
    """A model of two states and two columns, whose parameters are drawn."""
    root = rng.normal(size=(K, P, P))
    return RegressionHMM.from_parameters(
        lags=lags,
        startprob=[0.3, 0.7],
        transmat=[[0.8, 0.2], [0.3, 0.7]],
        coef=0.4 * rng.normal(size=(K, P, lags * P + n_inputs)),
        intercept=rng.normal(size=(K, P)),
        covariances=0.5 * np.eye(P) + root @ root.mT,
    )


# ------------------------------------------------------------------------------- by definition


def forecast_by_paths(hmm, X, u, ahead, begin):
    """Moments of the rows to come, over all paths from a row on since which states are unknown."""
    n, n_lagged = len(X), hmm.lags * P
    state = hmm.filter(X[:begin], **({"inputs": u[:begin]} if u.size else {}))[-1]
    mean, second = np.zeros((ahead, P)), np.zeros((ahead, P, P))
    for path in product(range(K), repeat=1 + n + ahead - begin):
        share, z = state[path[0]] / K ** (n + ahead - begin), X[:begin][::-1].ravel()[:n_lagged]
        spread = np.zeros((n_lagged + P, n_lagged + P))
        for t, (i, j) in enumerate(pairwise(path), start=begin):
            share *= K * hmm.transmat_[i, j]
            A, B = np.split(hmm.coef_[j], [n_lagged], axis=1)
            row = A @ z + B @ u[t] + hmm.intercept_[j]
            change = np.vstack([np.hstack([A, np.zeros((P, P))]), np.eye(n_lagged, n_lagged + P)])
            spread = change @ spread @ change.T
            spread[:P, :P] += hmm.covariances_[j]
            if t < n and not np.isnan(X[t]).any():
                row, spread[:P], spread[:, :P] = X[t], 0.0, 0.0
            if t >= n:
                mean[t - n] += share * row
                second[t - n] += share * (spread[:P, :P] + np.outer(row, row))
            z = np.append(row, z)[:n_lagged]
    return mean, second - np.einsum("si,sj->sij", mean, mean)


@pytest.mark.parametrize(("lags", "n_inputs"), [(0, 2), (1, 0), (2, 1)])
def test_likelihoods_posteriors_and_forecasts_are_those_of_enumeration(lags, n_inputs, rng):
    n, ahead = 5, 3
    hmm, X = known(rng, lags, n_inputs), rng.normal(size=(n, P))
    u = rng.normal(size=(n + ahead, n_inputs))
    given = {"inputs": u[:n]} if n_inputs else {}
    missing = n - 1 if lags == 0 else 1
    X[missing] = np.nan

    def log_density(k, t):
        if t < lags or np.isnan(X[t - lags : t + 1]).any():
            return 0.0
        z = np.concatenate([*(X[t - i] for i in range(1, lags + 1)), u[t]])
        mean = hmm.coef_[k] @ z + hmm.intercept_[k]
        return multivariate_normal.logpdf(X[t], mean, hmm.covariances_[k])

    log_densities = [[log_density(k, t) for k in range(K)] for t in range(n)]
    expected = Enumeration(hmm.model_, np.array(log_densities))
    assert hmm.score(X, **given) == pytest.approx(expected.log_likelihood, abs=1e-9)
    rows = hmm.score_rows(X, **given)
    assert rows.sum() == pytest.approx(expected.log_likelihood, abs=1e-9)
    posterior = hmm.predict_proba(X, **given)
    assert_allclose(posterior, expected.posterior(), rtol=1e-9, atol=1e-12)

    future = {"future_inputs": u[n:]} if n_inputs else {}
    found = hmm.forecast(X, ahead, return_cov=True, **given, **future)
    for one, moment in zip(found, forecast_by_paths(hmm, X, u, ahead, n), strict=True):
        assert_allclose(one, moment, rtol=1e-9, atol=1e-12)
    proba = hmm.predict_next_proba(X, 2, **given)
    expected = posterior[-1] @ hmm.transmat_ @ hmm.transmat_
    assert_allclose(proba[1], expected, rtol=1e-9)


def test_quantiles_of_the_next_row_are_those_of_its_mixture(rng):
    hmm, X = known(rng, 1, 0), rng.normal(size=(4, P))
    (low, high) = hmm.forecast(X, quantiles=[0.05, 0.9])[1]
    p = hmm.predict_next_proba(X)[0]
    means = np.einsum("kpq,q->kp", hmm.coef_, X[-1]) + hmm.intercept_
    scales = np.sqrt(np.einsum("kpp->kp", hmm.covariances_))
    for quantile, level in ((low, 0.05), (high, 0.9)):
        assert_allclose(p @ norm.cdf(quantile[0], means, scales), level, rtol=1e-9)


def test_one_state_is_least_squares_without_rows_that_lack_lags(rng):
    X, u = rng.normal(size=(60, 2)), rng.normal(size=(60, 1))
    X[20] = np.nan
    hmm = RegressionHMM(lags=2, reg_covar=0.0).fit([X[:40], X[40:]], inputs=[u[:40], u[40:]])
    rows = [t for t in range(60) if t not in (0, 1, 40, 41) and not 20 <= t <= 22]
    z = np.array([[*X[t - 1], *X[t - 2], *u[t], 1.0] for t in rows])
    expected, residues, *_ = np.linalg.lstsq(z, X[rows], rcond=None)
    assert_allclose(np.column_stack([hmm.coef_[0], hmm.intercept_[0]]), expected.T, rtol=1e-9)
    assert_allclose(np.diag(hmm.covariances_[0]), residues / len(rows), rtol=1e-9)


# --------------------------------------------------------------------------------------- peers


def test_likelihoods_are_those_of_statsmodels(rng):
    X, u, _ = switching(rng, 200)
    y, transmat = X[:, 0], np.array([[0.9, 0.1], [0.3, 0.7]])
    stationary = np.array([0.75, 0.25])
    common = {"startprob": stationary, "transmat": transmat}
    # Their columns are probabilities to come from a regime.
    moves = transmat[:, 0]
    hmm = RegressionHMM.from_parameters(
        lags=1, coef=[[[0.4, -1.0]], [[0.2, 1.5]]], intercept=[[0.5], [1.0]],
        covariances=[[[0.5]], [[2.0]]], **common,
    )  # fmt: skip
    theirs = MarkovRegression(
        y[1:], 2, exog=np.column_stack([y[:-1], u[1:]]), switching_variance=True
    )
    values = [*moves, 0.5, 1.0, 0.4, 0.2, -1.0, 1.5, 0.5, 2.0]
    assert hmm.score(X, inputs=u) == pytest.approx(theirs.loglike(values), abs=1e-8)
    X = rng.normal(size=(200, 1))
    # Their variances of order 2 and more would be those of the regime before.
    for lags, variances in ((1, [0.5, 2.0]), (2, [0.7, 0.7])):
        coef = np.array([[0.4, 0.1], [0.2, -0.3]])[:, :lags]
        hmm = RegressionHMM.from_parameters(
            lags=lags, coef=coef[:, None], intercept=np.zeros((2, 1)),
            covariances=np.reshape(variances, (2, 1, 1)), **common,
        )  # fmt: skip
        theirs = MarkovAutoregression(
            X[:, 0], 2, order=lags, trend="n", switching_variance=lags == 1
        )
        values = [*moves, *variances[: 2 if lags == 1 else 1], *coef.T.ravel()]
        assert hmm.score(X) == pytest.approx(theirs.loglike(values), abs=1e-8)


# -------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize("durations", [None, "poisson"])
def test_live_filters_forecast_from_lags_that_are_missing(durations, rng):
    X, u, _ = switching(rng, 60)
    kind = {} if durations is None else {"durations": durations, "max_duration": 30}
    hmm = RegressionHMM(2, lags=2, random_state=0, **kind).fit(X, inputs=u)
    X[[4, 7, 8, 9, 12, 14]] = np.nan
    live = hmm.live_filter()
    for t, (row, value) in enumerate(zip(X[:16], u, strict=False)):
        live.update(row, inputs=[value])
        if t == 0:
            continue
        ours = live.forecast(3, return_cov=True, inputs=u[:3, None])
        seen = {"inputs": u[: t + 1], "future_inputs": u[:3]}
        theirs = hmm.forecast(X[: t + 1], 3, return_cov=True, **seen)
        for own, other in zip(ours, theirs, strict=True):
            assert_allclose(own, other, rtol=1e-8, atol=1e-12)
    live.probabilities = live._end.copy()
    for fresh in (live, hmm.live_filter()):
        with pytest.raises(ValueError, match="knows no 2 observed rows"):
            fresh.forecast(inputs=[[0.0]])


@pytest.mark.parametrize("response", ["gaussian", "poisson"])
def test_live_filters_go_on_from_streams_that_ended_in_a_gap(response, rng):
    X, u, _ = switching(rng, 60)
    X = X if response == "gaussian" else np.abs(X).round()
    hmm = RegressionHMM(2, lags=2, response=response, random_state=0).fit(X, inputs=u)
    X[[5, 17, 19]] = np.nan
    hmm.set_params(solver="online", schedule=lambda t: 1e-12)
    for cut in (slice(0, 6), slice(6, 18), slice(18, 20)):
        hmm.partial_fit(X[cut], inputs=u[cut], continues=True)
    live, whole = hmm.live_filter(continues=True), hmm.live_filter()
    for row, value in zip(X[:20], u, strict=False):
        whole.update(row, inputs=[value])
    with pytest.raises(ValueError, match="knows no 2 observed rows"):
        live.forecast(inputs=[[0.0]])
    for row, value in zip(X[20:22], u[20:], strict=False):
        assert_allclose(live.update(row, [value]), whole.update(row, [value]), atol=1e-6)
    ours, theirs = (one.forecast(3, inputs=u[:3, None]) for one in (live, whole))
    assert_allclose(ours, theirs, rtol=1e-6)


def test_forecasts_where_the_last_lags_are_missing(rng):
    hmm, X, u = known(rng, 2, 1), rng.normal(size=(6, P)), rng.normal(size=(9, 1))
    X[4] = np.nan
    found = hmm.forecast(X, 3, return_cov=True, inputs=u[:6], future_inputs=u[6:])
    # Row 4 is expected, row 5 is known, and the state is that after row 3.
    for one, moment in zip(found, forecast_by_paths(hmm, X, u, 3, 4), strict=True):
        assert_allclose(one, moment, rtol=1e-9, atol=1e-12)
    X[:5] = np.nan
    with pytest.raises(ValueError, match="sequence 0 never has 2 observed rows"):
        hmm.forecast(X, inputs=u[:6], future_inputs=u[6:7])


def test_samples_stay_in_their_states_as_long_as_durations_say(rng):
    hmm = RegressionHMM.from_parameters(
        durations="categorical", max_duration=4, durationprob=[[0.0, 1.0, 0.0, 0.0], [0, 0, 0, 1]],
        startprob=[1.0, 0.0], transmat=[[0.0, 1.0], [1.0, 0.0]], coef=[[[0.0]], [[0.0]]],
        intercept=[[0.0], [9.0]], covariances=[[[0.1]], [[0.1]]],
    )  # fmt: skip
    X, states = hmm.sample(inputs=rng.normal(size=(12, 1)))
    assert_array_equal(states, [0, 0, 1, 1, 1, 1] * 2)
    assert_array_equal(X[:, 0] > 4.5, states)


@pytest.mark.parametrize("left_censored", [False, True])
def test_forecasts_with_lags_and_durations_are_those_of_the_extended_chain(left_censored, rng):
    X, u, _ = switching(rng, 60)
    X[58] = np.nan
    hmm = RegressionHMM(
        3, lags=2, durations="categorical", max_duration=5, left_censored=left_censored,
        termination="end_state", random_state=0,
    ).fit([X[:30], X[30:]], inputs=[u[:30], u[30:]])  # fmt: skip
    states, chain = extended(hmm.model_)
    same = replace(
        chain, family=hmm.model_.family, parameters=components(hmm.model_.parameters, states, 3)
    )  # fmt: skip
    data = hmm._input().read([X[:20], X], inputs=[u[:20], u])
    future = rng.normal(size=(2, 6, 1))
    found, expected = (
        forecast_of_regressions(model, data, future, 2) for model in (hmm.model_, same)
    )
    assert_allclose(found.mean, expected.mean, rtol=1e-9, atol=1e-10)
    assert_allclose(found.covariance, expected.covariance, rtol=1e-9, atol=1e-10)
    shares = expected.probabilities @ np.eye(3)[states]
    assert_allclose(found.probabilities, shares, rtol=1e-9, atol=1e-10)
