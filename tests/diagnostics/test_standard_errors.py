"""Standard errors against numerical Hessians, which know nothing of Louis' identity."""

import warnings

import numpy as np
import pytest
from cases.fitted_cases import STILL, checked_errors, still
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    MarkovChainMixture,
    MultinomialMixture,
    PoissonMixture,
)
from sklearn_onlineem.diagnostics import convergence_certificate, standard_errors
from sklearn_onlineem.diagnostics.standard_errors import StandardErrors
from sklearn_onlineem.families import Gamma, Wishart
from sklearn_onlineem.families.tangents import tangents_of


@pytest.mark.parametrize("case", STILL, ids=repr)
def test_errors_are_those_of_the_numerical_hessian(case):
    checked_errors(still(case))


@pytest.mark.parametrize("case", STILL, ids=repr)
def test_estimates_are_the_fitted_attributes(case):
    found = still(case)
    estimates = standard_errors(found.estimator, found.X).estimates
    read = [name for name in estimates if hasattr(type(found.estimator), name)]
    assert read
    for name, errors in standard_errors(found.estimator, found.X).errors.items():
        assert errors.shape == np.shape(estimates[name])
    for name in read:
        value = getattr(found.estimator, name)
        value = list(value.values()) if isinstance(value, dict) else value
        np.testing.assert_allclose(estimates[name], value, rtol=1e-14)


def eruptions(rng, n=272):
    """Rows like those of Old Faithful: short and long eruptions, and minutes until the next."""
    is_long = rng.random((n, 1)) < 0.64
    noise = rng.standard_normal((n, 2)) @ np.array([[0.35, 3.0], [0.0, 5.0]])
    return np.where(is_long, [4.3, 80.0], [2.0, 54.5]) + noise


def fitted(X, n_components=2, tol=1e-14, **settings):
    return GaussianMixture(
        n_components, reg_covar=0.0, solver="batch", tol=tol, max_iter=5000, random_state=0,
        **settings,
    ).fit(X)  # fmt: skip


@pytest.mark.parametrize("case", [case for case in STILL if case.is_mixture], ids=repr)
def test_weights_are_repetitions(case, rng):
    """Each row is there twice, with a sum of weights that leaves the maximum where it is."""
    found, weight = still(case), rng.integers(0, 4, len(still(case).X))
    X, weight = np.concatenate([found.X, found.X]), np.concatenate([weight, 3 - weight])
    for robust in (False, True):
        once = standard_errors(found.estimator, X, robust, sample_weight=weight).errors
        twice = standard_errors(found.estimator, np.repeat(X, weight, axis=0), robust).errors
        for name, errors in once.items():
            np.testing.assert_allclose(errors, twice[name], rtol=1e-7, atol=1e-12)


def test_the_sandwich_sees_that_the_model_is_wrong(rng):
    """Squares of heavy tails vary more than a Gaussian's."""
    X = rng.standard_t(6.0, (4000, 1))
    mixture = fitted(X, 1)
    plain, robust = (standard_errors(mixture, X, robust=r).errors for r in (False, True))
    deviation = np.sqrt((((X - X.mean()) ** 2 - X.var()) ** 2).mean() / len(X))
    np.testing.assert_allclose(robust["covariances_"].item(), deviation, rtol=1e-7)
    assert robust["covariances_"] > 1.2 * plain["covariances_"]


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_prior_narrows(rng):
    X = eruptions(rng, 60)
    prior = {
        "mean": X.mean(axis=0), "mean_precision": 200.0, "covariance": 0.0,
        "degrees_of_freedom": 300.0,
    }  # fmt: skip
    mixture = fitted(X, 1, prior=prior)
    errors = standard_errors(mixture, X).errors
    variances = mixture.covariances_[0].diagonal()
    np.testing.assert_allclose(errors["means_"][0], np.sqrt(variances / 260), rtol=1e-9)
    # With |S| to the power -(degrees + 2 + 2) / 2, where one is the mean's.
    found = errors["covariances_"][0].diagonal()
    np.testing.assert_allclose(found, variances * np.sqrt(2 / (60 + 300 + 4)), rtol=1e-9)


def test_missing_rows_of_a_chain_widen(rng):
    states = np.repeat(rng.integers(2, size=300), 6)
    X = 5.0 * states[:, None] + rng.standard_normal((1800, 1))
    start = {"means_init": [[0.0], [5.0]]}
    settings = {"tol": 1e-9, "max_iter": 500, "random_state": 0, **start}
    whole = GaussianHMM(2, **settings).fit(X)
    gaps = X.copy()
    gaps[rng.random(1800) < 0.5] = np.nan
    errors = standard_errors(whole, X).errors["means_"]
    ratio = standard_errors(GaussianHMM(2, **settings).fit(gaps), gaps).errors["means_"] / errors
    np.testing.assert_allclose(ratio, np.sqrt(2.0), rtol=0.15)


def test_intervals_stay_where_values_may_be(rng):
    X = eruptions(rng, 40)
    mixture = fitted(X)
    result = standard_errors(mixture, X)
    intervals, wide = result.intervals(), result.intervals(0.9999)
    for name, (low, high) in wide.items():
        assert (low <= intervals[name][0]).all() and (intervals[name][1] <= high).all()
        assert (low < result.estimates[name]).all() and (result.estimates[name] < high).all()
    assert (wide["weights_"] > 0.0).all() and (wide["weights_"] < 1.0).all()
    assert (wide["covariances_"][0].diagonal(axis1=1, axis2=2) > 0.0).all()
    low, high = intervals["means_"]
    np.testing.assert_allclose(high - low, 2.0 * norm.ppf(0.975) * result.errors["means_"])


def test_intervals_are_symmetric_about_logarithms_and_log_odds():
    errors = {"rates_": np.array([0.5]), "weights_": np.array([0.1, 0.0])}
    result = StandardErrors(
        {"rates_": np.array([2.0]), "weights_": np.array([0.2, 1.0])}, errors,
        {"rates_": "positive", "weights_": "probability"},
    )  # fmt: skip
    intervals, z = result.intervals(0.9), norm.ppf(0.95)
    np.testing.assert_allclose(intervals["rates_"][:, 0], 2.0 * np.exp([-z / 4.0, z / 4.0]))
    odds = 0.25 * np.exp(np.array([-z, z]) * 0.1 / 0.16)
    np.testing.assert_allclose(intervals["weights_"][:, 0], odds / (1.0 + odds))
    np.testing.assert_array_equal(intervals["weights_"][:, 1], 1.0)


def test_errors_count_the_default_prior_of_counts(rng):
    """Those of a multinomial with half a count more of each word, also of one never seen."""
    X = rng.poisson(np.append(np.full(5, 2.0), 0.0), (200, 6)).astype(float)
    mixture = MultinomialMixture(1, solver="batch").fit(X)
    p = (X.sum(axis=0) + 0.5) / (X.sum() + 3.0)
    found = standard_errors(mixture, X).errors["probabilities_"][0]
    np.testing.assert_allclose(found, np.sqrt(p * (1.0 - p) / (X.sum() + 3.0)), rtol=1e-9)
    assert convergence_certificate(mixture, X).gain < 1e-12


def test_transitions_that_were_never_seen_stay(rng):
    """As those from a symbol that was never left do."""
    X = [np.append(rng.integers(2, size=19), 2)[:, None] for _ in range(40)]
    chains = MarkovChainMixture(1, solver="batch", prior=None).fit(X)
    errors = standard_errors(chains, X).errors
    np.testing.assert_array_equal(errors["transmat_"][0, 2], 0.0)
    # At the floor of probabilities, 1e-12.
    assert errors["startprob_"][0, 2] < 1e-12 and (errors["transmat_"][0, :2] > 0.01).all()


@pytest.mark.parametrize("degrees", [2.01, 30.0, 1e5])
@pytest.mark.parametrize("family", [Wishart(), Gamma()], ids=repr)
def test_tangents_have_unit_information(family, degrees):
    """Moves of means along a coordinate score 1 there, from few degrees of freedom to many."""
    scale = np.array([[2.0, 0.5], [0.5, 1.0]])
    natural = np.array([[degrees / 2.0, *(-0.5 * np.linalg.inv(scale)).ravel()]])
    if isinstance(family, Gamma):
        natural = np.array([[degrees - 2.0, -3.0]])
    tangents, step = tangents_of(family)(family, family.from_natural(natural)), 1e-3
    units = np.eye(tangents.n_own)[:, None]
    ahead, behind = ([tangents.moved(s * unit) for unit in units] for s in (step, -step))
    pairs = zip(ahead, behind, strict=True)
    information = [tangents.whitened((a - b) / (2.0 * step))[0] for a, b in pairs]
    np.testing.assert_allclose(information, units[:, 0], rtol=0, atol=1e-5)


def test_a_fit_that_is_not_at_the_maximum_warns(rng):
    X = rng.standard_normal((2000, 1)) + 2.5 * rng.integers(2, size=(2000, 1))
    near, far = fitted(X, means_init=[[0.0], [2.5]]), fitted(X, tol=1e-3, means_init=[[0.0], [2.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        standard_errors(near, X)
    with pytest.warns(ConvergenceWarning, match="from the maximum"):
        standard_errors(far, X)


def test_parameters_that_are_not_determined_are_refused():
    """Two equal components: what one has the other may have."""
    X = np.array([[0.0], [1.0], [3.0], [5.0]] * 20)
    rates = [[X.mean()], [X.mean()]]
    mixture = PoissonMixture(2, means_init=rates, solver="batch", tol=1e-12).fit(X)
    with pytest.raises(ValueError, match="not positive definite"):
        standard_errors(mixture, X)
