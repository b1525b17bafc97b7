"""Mixtures of what rows lack, against joint and marginal densities of scipy."""

import numpy as np
import pytest
from cases.random_rows import positive_definite
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Gaussians, Poisson, Spherical, Tied
from sklearn_onlineem.models.mixtures.conditional import conditional
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

D, K = 4, 3
SHAPES = [Full(), Tied(), Diagonal(), Spherical()]
by_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: type(shape).__name__)


def drawn_model(shape, rng):
    covariance = shape.from_matrices(positive_definite(rng, K, D))
    if isinstance(shape, Spherical):
        covariance = covariance / D
    parameters = Gaussians(2.0 * rng.standard_normal((K, D)), np.ascontiguousarray(covariance))
    return MixtureModel(Gaussian(shape), rng.dirichlet(np.full(K, 5.0)), parameters)


def rows_with_gaps(rng, n=60):
    """Complete rows, and the same ones with gaps: some have all values, and one has none."""
    complete = 2.0 * rng.standard_normal((n, D))
    gaps = rng.random((n, D)) < 0.4
    gaps[0], gaps[1] = True, False
    return complete, np.where(gaps, np.nan, complete)


def log_marginal(model, x, features):
    """log p(x) of some features, by the definition."""
    if not len(features):
        return 0.0
    parts = [
        np.log(weight)
        + stats.multivariate_normal(mean[features], S[np.ix_(features, features)]).logpdf(
            x[features]
        )
        for weight, mean, S in zip(
            model.weights, model.parameters.mean, model.parameters.covariance_matrices, strict=True
        )
    ]
    return logsumexp(parts)


@by_shape
def test_densities_are_quotients_of_joint_and_marginal_ones(shape, rng):
    model = drawn_model(shape, rng)
    complete, X = rows_with_gaps(rng)
    given = conditional(model, X)
    observed = [np.flatnonzero(~np.isnan(row)) for row in X]
    marginal = [log_marginal(model, row, o) for row, o in zip(complete, observed, strict=True)]
    joint = [log_marginal(model, row, np.arange(D)) for row in complete]
    assert_allclose(given.log_likelihoods, marginal, rtol=1e-9, atol=1e-9)
    assert_allclose(given.log_density(complete), np.subtract(joint, marginal), rtol=1e-9, atol=1e-9)
    assert_allclose(given.log_density(complete)[1], 0.0, atol=1e-15)
    assert_allclose(joint, model.log_likelihood(Rows(complete)), rtol=1e-9)


@by_shape
def test_parts_are_those_of_each_component_alone(shape, rng):
    """Weights by Bayes' rule; means and covariances by the inverse of the joint covariance."""
    model = drawn_model(shape, rng)
    _, X = rows_with_gaps(rng)
    given = conditional(model, X)
    for i, row in enumerate(X):
        m, o = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
        alone = []
        for k in range(K):
            mean, S = model.parameters.mean[k], model.parameters.covariance_matrices[k]
            precision = np.linalg.inv(S)[np.ix_(m, m)]
            across = np.linalg.inv(S)[np.ix_(m, o)]
            covariance = np.zeros((D, D))
            covariance[np.ix_(m, m)] = np.linalg.inv(precision)
            expected = row.copy()
            expected[m] = mean[m] - np.linalg.inv(precision) @ across @ (row[o] - mean[o])
            assert_allclose(given.means[i, k], expected, rtol=1e-9, atol=1e-9)
            assert_allclose(given.covariances[i, k], covariance, rtol=1e-9, atol=1e-12)
            one = MixtureModel(model.family, np.ones(1), Gaussians(mean[None], S[None]))
            alone.append(np.log(model.weights[k]) + log_marginal(one, row, o))
        assert_allclose(given.weights[i], np.exp(alone - logsumexp(alone)), rtol=1e-9, atol=1e-12)


def test_blocks_of_rows_are_as_one(rng, monkeypatch):
    model = drawn_model(Full(), rng)
    _, X = rows_with_gaps(rng)
    whole = conditional(model, X)
    monkeypatch.setattr("sklearn_onlineem.models.mixtures.conditional._BLOCK_VALUES", 5 * K * D)
    parts = conditional(model, X)
    assert_allclose(parts.means, whole.means, rtol=1e-12)
    assert_array_equal(parts.covariances, whole.covariances)


def test_draws_have_the_moments_and_quantiles(rng):
    model, n_draws = drawn_model(Full(), rng), 5_000
    _, X = rows_with_gaps(rng, 6)
    given = conditional(model, X)
    draws = np.array([given.sample(rng) for _ in range(n_draws)])
    is_observed = ~np.isnan(X)
    assert_array_equal(
        draws[:, is_observed], np.broadcast_to(X[is_observed], (n_draws, is_observed.sum()))
    )
    covariance = given.covariance()
    error = np.sqrt(np.einsum("nii->ni", covariance) / n_draws)
    assert (np.abs(draws.mean(axis=0) - given.mean()) <= 5.0 * error + 1e-11).all()
    deviation = draws - given.mean()
    products = np.einsum("sni,snj->snij", deviation, deviation)
    error = products.std(axis=0) / np.sqrt(n_draws)
    assert (np.abs(products.mean(axis=0) - covariance) <= 5.0 * error + 1e-12).all()
    for q in (0.1, 0.5, 0.9):
        share = (draws <= given.quantile(q)).mean(axis=0)[~is_observed]
        assert (np.abs(share - q) <= 5.0 * np.sqrt(q * (1.0 - q) / n_draws)).all()
    assert_array_equal(given.sample(7), given.sample(7))
    assert (given.sample()[~is_observed] != given.sample()[~is_observed]).all()


@pytest.mark.parametrize("q", [1e-12, 0.05, 0.5, 0.95, 1.0 - 1e-12])
def test_quantiles_have_their_probability(q, rng):
    model = drawn_model(Full(), rng)
    _, X = rows_with_gaps(rng)
    given = conditional(model, X)
    found, sides = given.quantile(q), "cdf" if q <= 0.5 else "sf"
    for i, f in np.argwhere(np.isnan(X)):
        parts = stats.norm(given.means[i, :, f], np.sqrt(given.covariances[i, :, f, f]))
        probability = given.weights[i] @ getattr(parts, sides)(found[i, f])
        assert_allclose(probability, min(q, 1.0 - q), rtol=1e-8)
    assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])


def test_quantiles_between_modes_that_are_far_apart():
    """The density is 0 where Newton's method begins."""
    parameters = Gaussians(np.array([[-1e6], [1e6], [0.0]]), np.array([[1e-6], [1.0], [1.0]]))
    weights = np.array([0.3, 0.7, 0.0])
    given = conditional(MixtureModel(Gaussian(Diagonal()), weights, parameters), [[np.nan]])
    for q in (0.1, 0.29, 0.31, 0.9):
        k, own = (0, q / 0.3) if q < 0.3 else (1, (q - 0.3) / 0.7)
        expected = stats.norm(parameters.mean[k, 0], np.sqrt(parameters.covariance[k, 0])).ppf(own)
        assert_allclose(given.quantile(q), [[expected]], rtol=1e-12)


def test_some_features_are_those_of_all(rng):
    model, chosen = drawn_model(Full(), rng), [3, 0]
    _, X = rows_with_gaps(rng)
    some, given = conditional(model, X, chosen), conditional(model, X)
    assert_array_equal(some.weights, given.weights)
    assert_allclose(some.means, given.means[:, :, chosen], rtol=1e-13)
    assert_allclose(some.mean(), given.mean()[:, chosen], rtol=1e-13)
    assert_allclose(
        some.covariance(), given.covariance()[:, chosen][:, :, chosen], rtol=1e-11, atol=1e-13
    )
    assert_allclose(some.quantile(0.3), given.quantile(0.3)[:, chosen], rtol=1e-9)
    last = np.column_stack([X[:, :3], np.full(len(X), np.nan)])
    rest = conditional(model, last, [3])
    value = rng.standard_normal((len(X), 1))
    both = conditional(model, np.column_stack([X[:, :3], value])).log_likelihoods
    assert_allclose(rest.log_density(value), both - rest.log_likelihoods, rtol=1e-9, atol=1e-9)


def test_components_without_weight_do_not_count(rng):
    model = drawn_model(Full(), rng)
    weights = np.array([0.0, 0.4, 0.6])
    _, X = rows_with_gaps(rng)
    given = conditional(MixtureModel(model.family, weights, model.parameters), X)
    rest = Gaussians(model.parameters.mean[1:], model.parameters.covariance[1:])
    expected = conditional(MixtureModel(model.family, weights[1:], rest), X)
    assert_array_equal(given.weights[:, 0], 0.0)
    assert_allclose(given.mean(), expected.mean(), rtol=1e-12, atol=1e-12)
    assert_allclose(given.quantile(0.2), expected.quantile(0.2), rtol=1e-9, atol=1e-9)
    complete = given.sample(0)
    assert_allclose(given.log_density(complete), expected.log_density(complete), rtol=1e-9)


def test_large_offsets_and_other_units_lose_no_digits(rng):
    model = drawn_model(Full(), rng)
    complete, X = rows_with_gaps(rng)
    offset, unit = np.array([1e6, -1e6, 0.0, 1e3]), np.array([1e-3, 1e3, 1.0, 1e-6])
    covariance = model.parameters.covariance * unit[:, None] * unit
    moved = Gaussians(model.parameters.mean * unit + offset, covariance)
    there = conditional(MixtureModel(model.family, model.weights, moved), X * unit + offset)
    here = conditional(model, X)
    assert_allclose((there.mean() - offset) / unit, here.mean(), rtol=1e-6, atol=1e-3)
    assert_allclose(there.weights, here.weights, atol=1e-3)
    variances = np.einsum("pkff->pkf", there.covariances_of_patterns) / unit**2
    assert_allclose(variances, np.einsum("pkff->pkf", here.covariances_of_patterns), rtol=1e-9)


def test_what_is_wrong_is_named(rng):
    model = drawn_model(Full(), rng)
    complete, X = rows_with_gaps(rng)
    given = conditional(model, X)
    with pytest.raises(ValueError, match=r"X must be of shape \(60, 4\), got \(59, 4\)"):
        given.log_density(complete[1:])
    with pytest.raises(ValueError, match="X has NaN"):
        given.log_density(X)
    with pytest.raises(ValueError, match="other values than those that are given"):
        given.log_density(complete + 1.0)
    for q in (0.0, 1.0, -1, 2.0, np.nan, "half", None):
        with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
            given.quantile(q)
        with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
            given.interval(q)
    rates = MixtureModel(Poisson(), np.ones(1), np.ones((1, D)))
    with pytest.raises(ValueError, match="only mixtures of Gaussians"):
        conditional(rates, np.abs(complete))
