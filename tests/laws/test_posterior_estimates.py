"""What holds for every conjugate mixture: posterior means, and posterior predictive scores."""

from dataclasses import replace

import numpy as np
import pytest
from cases.collapsed_cases import COLLAPSED
from cases.estimator_cases import ESTIMATORS
from cases.family_cases import name_of
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
)
from sklearn_onlineem.em import BayesianOnline
from sklearn_onlineem.families.capabilities import PosteriorPredictives
from sklearn_onlineem.statistics import combine

PRIORS = {
    **COLLAPSED,
    "MarkovChain": {"concentration": 3.0, "start_concentration": 2.0},
    "Exponential": {"shape": 3.0, "rate": 0.5},
    "FixedShapeGamma": {"shape": 3.0, "rate": 0.5},
}
N_DRAWS = 800


def family_name(case):
    return name_of(case()._family())


CASES = [
    replace(case, arguments={**case.arguments, "prior": PRIORS[family_name(case)]})
    for case in ESTIMATORS
    if family_name(case) in PRIORS
]
all_cases = pytest.mark.parametrize("case", CASES, ids=repr)


def learnt(case, rng, n_components=1, estimate="mode", n=40):
    """A mixture whose labels are all known, and rows."""
    X, y = case.data(rng, n)
    if n_components < 3:
        y = np.arange(n)
    mixture = case(
        n_components,
        solver=BayesianOnline(estimate),
        semi_supervised=n_components > 1,
        weight_concentration_prior=2.0,
    )
    return mixture.partial_fit(X, y % n_components), X


def drawn(mixture, rng, n=N_DRAWS):
    """Parameters drawn from the posterior, one after the other."""
    statistics = mixture._posterior_statistics().emissions
    family = mixture.model_.family
    return family, [family.draw_from_posterior(statistics, rng) for _ in range(n)]


def test_every_family_with_a_predictive_is_in_the_list():
    for case in ESTIMATORS:
        family = case()._family()
        assert isinstance(family, PosteriorPredictives) == (name_of(family) in PRIORS)


@all_cases
def test_the_posterior_mean_is_that_of_draws(case, rng):
    mixture, _ = learnt(case, rng, estimate="mean")
    family, draws = drawn(mixture, rng)
    values = np.array([family.means(parameters) for parameters in draws])
    error = values.std(axis=0) / np.sqrt(len(draws))
    assert (
        np.abs(mixture.means_ - values.mean(axis=0)) <= 5.0 * error + 1e-3 * values.mean()
    ).all()
    if hasattr(draws[0], "covariance"):
        values = np.array([parameters.covariance for parameters in draws])
        error = values.std(axis=0) / np.sqrt(len(draws))
        # The M-step adds its floor.
        found = mixture.model_.parameters.covariance
        assert (np.abs(found - values.mean(axis=0)) <= 5.0 * error + 1e-4).all()


@all_cases
def test_predictive_scores_are_averages_over_the_posterior(case, rng):
    mixture, X = learnt(case, rng)
    family, draws = drawn(mixture, rng)
    log_densities = np.array([family.log_density(parameters, X[:5])[:, 0] for parameters in draws])
    expected = logsumexp(log_densities, axis=0) - np.log(len(draws))
    spread = np.exp(log_densities - expected).std(axis=0) / np.sqrt(len(draws))
    found = mixture.score_samples(X[:5], predictive=True)
    assert (np.abs(found - expected) <= 6.0 * spread + 1e-6).all()


@all_cases
def test_predictive_scores_add_up_over_components(case, rng):
    mixture, X = learnt(case, rng, n_components=3)
    statistics = mixture._posterior_statistics()
    log_density = mixture.model_.family.predictive_log_density(statistics.emissions, X)
    shares = (statistics.counts + 1.0) / (statistics.counts + 1.0).sum()
    expected = logsumexp(log_density, axis=1, b=shares)
    assert_allclose(mixture.score_samples(X, predictive=True), expected, rtol=1e-10)


def test_a_mean_of_gaussians_needs_degrees(rng):
    X = rng.standard_normal((30, 3))
    prior = {"mean_precision": 1.0, "covariance": 1.0, "degrees_of_freedom": 4.0}
    mixture = GaussianMixture(prior=prior, solver=BayesianOnline("mean"))
    with pytest.raises(ValueError, match="GaussianMixture: .*degrees_of_freedom"):
        mixture.partial_fit(X)
    assert not hasattr(mixture, "model_")
    mixture.set_params(prior={**prior, "degrees_of_freedom": 4.5}).partial_fit(X)


def test_without_a_prior_the_estimates_are_one(rng):
    X = rng.poisson(3.0, (30, 2))
    mode, mean = (
        PoissonMixture(solver=BayesianOnline(estimate), prior=None).partial_fit(X)
        for estimate in ("mode", "mean")
    )
    assert_allclose(mean.means_, mode.means_, rtol=1e-15)


def test_chains_have_the_means_of_their_rows(rng):
    X = rng.poisson(np.repeat([1.0, 20.0], 15)[:, None])
    states = np.repeat([0, 1], 15)
    arguments = {
        "prior": {"shape": 2.0, "rate": 1.0},
        "startprob_prior": 2.0,
        "transmat_prior": 2.0,
        "semi_supervised": True,
        "solver": BayesianOnline("mean"),
    }
    chain = PoissonHMM(2, **arguments).partial_fit(X, states).partial_fit(X, states)
    assert_allclose(chain.startprob_, [4 / 6, 2 / 6], rtol=1e-12)
    assert_allclose(chain.transmat_, [[30 / 34, 4 / 34], [2 / 32, 30 / 32]], rtol=1e-12)
    totals = np.array([X[:15].sum(), X[15:].sum()])
    assert_allclose(chain.lambdas_.ravel(), (2 * totals + 2.0) / 31.0, rtol=1e-12)


def test_a_filter_has_the_mean_of_its_noise(rng):
    """A walk that is seen without noise, but for what is negligible, whose steps are then known."""
    steps = rng.normal(scale=0.5, size=(60, 1))
    walk = steps.cumsum(axis=0)
    prior = {"transition": {"covariance": 3.0, "degrees_of_freedom": 5.0}}
    arguments = {
        "transition_matrices": 1.0, "observation_matrices": 1.0, "observation_covariance": 1e-12,
        "initial_state_mean": 0.0, "initial_state_covariance": 1.0,
        "em_vars": ["transition_covariance"], "prior": prior,
    }  # fmt: skip
    mode, mean = (
        KalmanFilter(solver=BayesianOnline(estimate), **arguments).partial_fit([walk])
        for estimate in ("mode", "mean")
    )
    total = 3.0 + (steps[1:] ** 2).sum()
    # Noise of observations has a floor. The two are 6 % apart.
    assert_allclose(mode.transition_covariance_, total / (59 + 5 + 2), rtol=1e-3)
    assert_allclose(mean.transition_covariance_, total / (59 + 5 - 2), rtol=1e-3)


def test_words_have_a_predictive(rng):
    X = rng.poisson(3.0, size=(40, 2))
    words = MultinomialMixture(solver="bayesian").partial_fit(X)
    assert np.isfinite(words.score_samples(X, predictive=True)).all()
    assert not hasattr(GaussianHMM(), "chains_")


def test_posterior_statistics_are_the_prior_and_all_rows(rng):
    X = rng.poisson(4.0, (50, 2)).astype(float)
    mixture = PoissonMixture(prior={"shape": 3.0, "rate": 2.0}, solver="bayesian")
    for batch in np.split(X, 5):
        mixture.partial_fit(batch)
    statistics = mixture._posterior_statistics()
    family = mixture.model_.family
    evidence = family.expected_statistics(X, np.ones((50, 1)))
    prior = family.prior_statistics(1, n_features=2, shape=3.0, rate=2.0)
    expected = combine([(1.0, evidence), (1.0, prior)])
    assert_allclose(statistics.emissions.total, expected.total, rtol=1e-12)
    assert_allclose(statistics.emissions.weight, expected.weight, rtol=1e-12)
