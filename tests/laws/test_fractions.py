"""Counts need not be whole: log-likelihoods continue by the gamma function, or rows are refused."""

import numpy as np
import pytest
from cases.estimator_cases import ESTIMATORS
from cases.sequence_cases import SEQUENCE_ESTIMATORS
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp, xlogy

from sklearn_onlineem import (
    BernoulliMixture,
    CategoricalHMM,
    CategoricalMixture,
    CompoundDirichlet,
    CompoundDirichletMixture,
    MarkovChainMixture,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    PoissonHMM,
    PoissonMixture,
    RegressionHMM,
)
from sklearn_onlineem.families import Categorical


def coefficient(X):
    """The logarithm of the number of orders of the words, continued."""
    return gammaln(X.sum(axis=1) + 1.0) - gammaln(X + 1.0).sum(axis=1)


def poisson(X, rates):
    return (xlogy(X[:, None], rates) - rates - gammaln(X[:, None] + 1.0)).sum(axis=2)


def multinomial(X, probabilities):
    return coefficient(X)[:, None] + X @ np.log(probabilities).T


def markov_chain(X, transmat):
    """Of transitions, which have but one order."""
    return X @ np.log(transmat).reshape(len(transmat), -1).T


def bernoulli(X, probabilities):
    """Expected bits: the expectation of the logarithm of the probability of bits."""
    return X @ np.log(probabilities).T + (1.0 - X) @ np.log1p(-probabilities).T


def compound_dirichlet(X, alpha):
    alpha = np.atleast_2d(alpha)
    words = (gammaln(alpha + X[:, None]) - gammaln(alpha)).sum(axis=2)
    precision = alpha.sum(axis=1)
    lengths = gammaln(precision) - gammaln(precision + X.sum(axis=1)[:, None])
    return coefficient(X)[:, None] + words + lengths


# Estimator, log-densities of the components, and the attribute with their parameters.
MIXTURES = {
    "PoissonMixture": (PoissonMixture, poisson, "rates_"),
    "MultinomialMixture": (MultinomialMixture, multinomial, "probabilities_"),
    "MarkovChainMixture": (MarkovChainMixture, markov_chain, "transmat_"),
    "BernoulliMixture": (
        lambda k, **more: BernoulliMixture(k, binarize=None, **more),
        bernoulli,
        "probabilities_",
    ),
    "CompoundDirichletMixture": (CompoundDirichletMixture, compound_dirichlet, "alpha_"),
}
SINGLE = {
    "CompoundDirichlet": (lambda k, **more: CompoundDirichlet(**more), compound_dirichlet, "alpha_")
}
HMMS = {
    "PoissonHMM": (PoissonHMM, poisson, "lambdas_"),
    "MultinomialHMM": (MultinomialHMM, multinomial, "emissionprob_"),
}
ALL = {**MIXTURES, **SINGLE, **HMMS}
REFUSING = {
    "CategoricalHMM": CategoricalHMM(2, n_features=4),
    "CategoricalMixture": CategoricalMixture(2, n_categories=4),
    "Mixture(Categorical)": Mixture(2, family=Categorical(n_categories=4)),
    "RegressionHMM(bits)": RegressionHMM(2, lags=1, response="bernoulli"),
    "RegressionHMM(counts)": RegressionHMM(2, lags=1, response="poisson"),
}
COUNTED = ("is_count", "is_binary", "is_nominal")


def fractions(rng, n=200):
    """Two kinds of rows as of tf-idf, between 0 and 1, of which many are 0."""
    first = (np.arange(n) % 2).astype(bool)
    scales = np.where(first[:, None], [0.9, 0.6, 0.1, 0.1], [0.1, 0.1, 0.6, 0.9])
    X = rng.random((n, 4)) * scales
    return np.where(rng.random(X.shape) < 0.2, 0.0, X)


def test_every_estimator_of_counts_is_here():
    cases = [*ESTIMATORS, *SEQUENCE_ESTIMATORS]
    counted = {repr(case) for case in cases if any(getattr(case, name) for name in COUNTED)}
    # Durations do not change what states emit.
    assert {name.partition("(durations")[0] for name in counted} <= {*ALL, *REFUSING}


@pytest.mark.parametrize("name", {**MIXTURES, **SINGLE})
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_scores_of_fractions_are_the_formula(name, form, solver, rng):
    make, log_density, attribute = ALL[name]
    X = fractions(rng)
    # Before probabilities come so near to 1 that they lose digits of what is left.
    mixture = make(2, solver=solver, tol=1e-3, random_state=0).fit(form(X))
    mixture.partial_fit(form(X[:50]))
    densities = log_density(X, getattr(mixture, attribute))
    expected = logsumexp(densities + np.log(getattr(mixture, "weights_", [1.0])), axis=1)
    assert np.isfinite(expected).all()
    assert_allclose(mixture.score_samples(form(X)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", HMMS)
def test_scores_of_fractions_of_hidden_markov_models_are_the_formula(name, rng):
    make, log_density, attribute = ALL[name]
    X = fractions(rng)
    hmm = make(1, random_state=0).fit(X).partial_fit(X[:50])
    expected = log_density(X, getattr(hmm, attribute)).sum()
    assert_allclose(hmm.score(X), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["PoissonMixture", "MultinomialMixture", *HMMS])
def test_clusters_of_fractions_are_found(name, rng):
    """Where rows weigh enough: a row of sum 1 tells no more than one word does."""
    # Four columns alone leave open of which kind one row in thirteen is.
    X = 20.0 * np.hstack([fractions(rng) for _ in range(3)])
    means = [X[kind::2].mean(axis=0) for kind in (0, 1)]
    found = ALL[name][0](2, init=means, solver="batch", random_state=0).fit(X).predict(X)
    assert np.mean(found == np.arange(len(X)) % 2) > 0.9


@pytest.mark.parametrize("name", ["PoissonMixture", "MultinomialMixture", "BernoulliMixture"])
def test_one_component_has_the_means_of_fractions(name, rng):
    X = fractions(rng)
    mixture = ALL[name][0](1, solver="batch", prior=None).fit(X)
    assert_allclose(mixture.means_[0], X.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("solver", ["newton", "batch", "online"])
def test_dirichlets_of_fractions_are_the_most_likely(solver, rng):
    """Of the formula itself, maximised by what knows nothing of counts."""
    X = 12.0 * rng.dirichlet([0.5, 1.0, 2.5], 400) + 0.3 * rng.random((400, 3))
    fitted = CompoundDirichlet(solver=solver, max_iter=500, tol=1e-10, random_state=0).fit(X)
    best = minimize(
        lambda logs: -compound_dirichlet(X, np.exp(logs)).mean(), np.zeros(3), method="BFGS"
    )
    assert_allclose(fitted.alpha_, np.exp(best.x), rtol=1e-2 if solver == "online" else 1e-3)
    assert_allclose(fitted.score(X), -best.fun, atol=1e-4 if solver == "online" else 1e-8)


@pytest.mark.parametrize("name", REFUSING)
def test_fractions_of_codes_are_refused_by_name(name, rng):
    codes = rng.integers(0, 2, (30, 1)).astype(float)
    estimator = REFUSING[name]
    with pytest.raises(ValueError, match=type(estimator).__name__):
        estimator.fit(codes + 0.5)
    estimator.fit(codes)
    for method in (estimator.partial_fit, estimator.predict, estimator.score):
        with pytest.raises(ValueError, match=type(estimator).__name__):
            method(codes + 0.5)


def test_bits_are_made_of_fractions_unless_told_otherwise(rng):
    X = fractions(rng)
    made = BernoulliMixture(2, random_state=0).fit(X)
    of_bits = BernoulliMixture(2, random_state=0).fit((X > 0).astype(float))
    assert made.score(X) == of_bits.score((X > 0).astype(float))
