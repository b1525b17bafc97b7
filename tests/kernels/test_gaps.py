"""Gaussians of rows with missing values against SciPy's marginals and conditionals row by row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from sklearn_onlineem.families import Diagonal, Full, Gaussian, Gaussians, Spherical, Tied

SHAPES = [Full(), Tied(), Diagonal(), Spherical()]
# Rows, features, components: one and two bytes of pattern and more, groups of 8 and of 16.
SIZES = [(1, 1, 1), (40, 2, 3), (60, 5, 17), (50, 9, 10), (30, 16, 8), (12, 35, 4)]

by_shape = pytest.mark.parametrize("shape", SHAPES, ids=repr)
by_share = pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])


def gaussians(rng, shape, d, K):
    noise = rng.normal(size=(K, d, d + 3))
    matrices = noise @ noise.transpose(0, 2, 1) / d + 0.1 * np.eye(d)
    covariance = {
        Full(): matrices,
        Tied(): matrices[:1].copy(),
        Diagonal(): np.einsum("kii->ki", matrices).copy(),
        Spherical(): matrices[:, 0, :1].copy(),
    }[shape]
    return Gaussians(rng.normal(size=(K, d)), covariance)


def with_gaps(rng, X, share):
    return np.where(rng.random(X.shape) < share, np.nan, X)


def marginal_log_density(parameters, X):
    out = np.zeros((len(X), len(parameters.mean)))
    for n, row in enumerate(X):
        o = np.flatnonzero(~np.isnan(row))
        for k, covariance in enumerate(parameters.covariance_matrices if len(o) else ()):
            normal = multivariate_normal(parameters.mean[k, o], covariance[np.ix_(o, o)])
            out[n, k] = normal.logpdf(row[o])
    return out


def expected_moments(family, parameters, X, responsibilities):
    """Weights, means and scatters of what is expected, a row and a component at a time."""
    (K, d), counts = parameters.mean.shape, responsibilities.sum(axis=0)
    expected, spread = np.zeros((K, len(X), d)), np.zeros((K, d, d))
    for k, S in enumerate(parameters.covariance_matrices):
        for n, row in enumerate(X):
            m, o = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
            gain = np.linalg.solve(S[np.ix_(o, o)], S[np.ix_(o, m)]).T
            mean = parameters.mean[k]
            expected[k, n, o] = row[o]
            expected[k, n, m] = mean[m] + gain @ (row[o] - mean[o])
            of_gap = S[np.ix_(m, m)] - gain @ S[np.ix_(o, m)]
            spread[k][np.ix_(m, m)] += responsibilities[n, k] * of_gap
    means = np.einsum("nk,knd->kd", responsibilities, expected) / counts[:, None]
    deviations = expected - means[:, None]
    scatter = np.einsum("nk,kni,knj->kij", responsibilities, deviations, deviations)
    return counts, means, family.covariance.from_matrices(scatter + spread)


def assert_moments(statistics, expected, rtol=1e-9):
    weight, mean, scatter = expected
    assert_allclose(statistics.weight, weight, rtol=rtol)
    assert_allclose(statistics.mean, mean, rtol=rtol, atol=rtol)
    assert_allclose(statistics.scatter, scatter, rtol=rtol, atol=rtol * weight.sum())


@by_shape
@by_share
@pytest.mark.parametrize(("n", "d", "K"), SIZES)
def test_marginals_and_what_is_expected(shape, share, n, d, K):
    rng = np.random.default_rng([n, d, K])
    family, parameters = Gaussian(shape), gaussians(rng, shape, d, K)
    X, shares = with_gaps(rng, rng.normal(size=(n, d)), share), rng.dirichlet(np.ones(K), n)
    expected = marginal_log_density(parameters, X)
    found = family.marginal_log_density(parameters, X)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert_array_equal(found[np.isnan(X).all(axis=1)], 0.0)
    statistics = family.marginal_statistics(parameters, X, shares)
    assert_moments(statistics, expected_moments(family, parameters, X, shares))
    # Averages over components of what is expected are means of single rows.
    completed = family.completed(parameters, X, shares)
    for row, of_row, found in zip(X[:12], shares, completed, strict=False):
        one = expected_moments(family, parameters, row[None], np.ones((1, K)))[1]
        assert_allclose(found, of_row @ one, rtol=1e-9, atol=1e-9)


@by_shape
def test_single_precision_is_read_and_computed_in_double(shape, rng):
    family, parameters = Gaussian(shape), gaussians(rng, shape, 6, 5)
    X = with_gaps(rng, rng.normal(size=(50, 6)), 0.3).astype(np.float32)
    shares = rng.dirichlet(np.ones(5), 50).astype(np.float32)
    double = X.astype(np.float64), shares.astype(np.float64)
    assert_array_equal(
        family.marginal_log_density(parameters, X),
        family.marginal_log_density(parameters, double[0]),
    )
    single = family.marginal_statistics(parameters, X, shares)
    assert_array_equal(single.scatter, family.marginal_statistics(parameters, *double).scatter)


@by_shape
def test_far_from_the_origin(shape, rng):
    family, near = Gaussian(shape), gaussians(rng, shape, 5, 3)
    # Multiples of 2^-20, which stay what they are when they are moved.
    means = np.round(near.mean * 2**20) / 2**20
    X = np.round(with_gaps(rng, rng.normal(size=(200, 5)), 0.3) * 2**20) / 2**20
    shares, offset = rng.dirichlet(np.ones(3), 200), 2.0**27
    near, far = (Gaussians(means + move, near.covariance) for move in (0.0, offset))
    assert_array_equal(
        family.marginal_log_density(far, X + offset), family.marginal_log_density(near, X)
    )
    statistics = family.marginal_statistics(far, X + offset, shares)
    assert_array_equal(statistics.scatter, family.marginal_statistics(near, X, shares).scatter)
    assert_allclose(
        statistics.mean - offset, family.marginal_statistics(near, X, shares).mean, atol=1e-7
    )


@pytest.mark.parametrize("noise", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("shape", [Full(), Tied()], ids=repr)
def test_columns_that_almost_depend_on_each_other(shape, noise, rng):
    """The precision loses the digits of the marginals of the others, which are well conditioned."""
    family, K = Gaussian(shape), 3
    maps = rng.normal(size=(K, 6, 3))
    S = maps @ maps.transpose(0, 2, 1) + noise**2 * np.eye(6)
    parameters = Gaussians(rng.normal(size=(K, 6)), S if shape == Full() else S[:1].copy())
    X = parameters.mean[0] + rng.normal(size=(40, 3)) @ maps[0].T
    X[:, rng.permutation(6)[:3]] = np.nan
    X[::2] = with_gaps(rng, X[::2], 0.4)
    expected = marginal_log_density(parameters, X)
    found = family.marginal_log_density(parameters, X)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    shares = rng.dirichlet(np.ones(K), len(X))
    statistics = family.marginal_statistics(parameters, X, shares)
    assert_moments(statistics, expected_moments(family, parameters, X, shares))


@by_shape
def test_shares_of_zero_keep_out_rows_that_overflow(shape, rng):
    family, parameters = Gaussian(shape), gaussians(rng, shape, 4, 2)
    X = with_gaps(rng, rng.normal(size=(30, 4)), 0.3)
    X[-1] = [1e300, np.nan, -1e300, 1e300]
    shares = np.zeros((30, 2))
    shares[:20, 0] = shares[20:29, 1] = 1.0
    whole = family.marginal_statistics(parameters, X, shares)
    without = family.marginal_statistics(parameters, X[:29].copy(), shares[:29].copy())
    assert_allclose(whole.mean, without.mean, rtol=1e-13)
    assert_allclose(whole.scatter, without.scatter, rtol=1e-13)
    assert_array_equal(family.marginal_log_density(parameters, X)[-1], -np.inf)
