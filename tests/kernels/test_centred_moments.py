"""Centred moments: the kernels against their definitions, in two passes."""

import numpy as np
import pytest
from cases.kernel_formulas import SIZES, moments, random_covariances
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels import _centred_moments as kernels

pytestmark = pytest.mark.parametrize(("K", "d"), SIZES)


def full(statistics):
    return statistics


def tied(statistics):
    weight, mean, scatter = statistics
    return weight, mean, scatter.sum(axis=0, keepdims=True)


def assert_same(left, right, **tolerance):
    for a, b in zip(left, right, strict=True):
        assert_allclose(a, b, **tolerance)


def test_sums_have_the_bits_of_numpy_whatever_is_added(K, d):
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, K, d))
    in_single, transposed = x.astype(np.float32), np.asfortranarray(y)
    for A, B in [(x, y), (transposed, y), (in_single, y), (x[:, :1], y[:, :1]), (2.5, 3), (x, 2.0)]:
        found, expected = kernels.merge(0.3, A, 0.7, B), 0.3 * A + 0.7 * B
        assert_array_equal(found, expected)
        assert np.shape(found) == np.shape(expected)
        assert_array_equal(kernels.scaled_rows(y[:, 0].copy(), A), y[:, :1] * np.atleast_2d(A))
    with pytest.raises(ValueError, match="broadcast"):
        kernels.merge(1.0, np.ones(2), 1.0, np.ones(3))


def test_means_of_sums(K, d, rng):
    totals, kept, means = rng.normal(size=(3, K, d))
    weights = rng.uniform(size=K) * (np.arange(K) % 3 < 2)
    assert kernels.means_of_sums(totals, weights, kept, means)
    seen = weights > 0.0
    assert_array_equal(means[seen], totals[seen] / weights[seen, None])
    assert_array_equal(means[~seen], kept[~seen])
    assert not kernels.means_of_sums(totals, np.full(K, 5e-324), kept, means)


@pytest.mark.parametrize("shape", [full, tied])
def test_recentre(K, d, shape):
    rng = np.random.default_rng(5)
    X, old = rng.normal(size=(50, d)), rng.normal(size=(K, d))
    responsibilities = rng.dirichlet(np.ones(K), size=50)
    residuals = X[:, None, :] - old
    first = np.einsum("nk,nki->ki", responsibilities, residuals)
    second = np.einsum("nk,nki,nkj->kij", responsibilities, residuals, residuals)
    counts, _, second = shape((responsibilities.sum(axis=0), old, second))
    means, scatters = np.empty_like(old), np.empty_like(second)
    kernels.recentre(first, second, old, 0.02, counts, means, scatters)
    weight, mean, scatter = shape(moments(X, responsibilities))
    expected = 0.02 * weight, mean, 0.02 * scatter
    assert_same((counts, means, scatters), expected, rtol=1e-9, atol=1e-11)


def test_recentre_keeps_empty_components(K, d):
    old, zeros = np.random.default_rng(6).normal(size=(K, d)), np.zeros((K, d, d))
    means, scatters = np.empty_like(old), np.full_like(zeros, np.nan)
    kernels.recentre(np.zeros((K, d)), zeros, old, 0.5, np.zeros(K), means, scatters)
    assert_array_equal(means, old)
    assert_array_equal(scatters, 0.0)


def test_covariances_from_scatter(K, d):
    rng = np.random.default_rng(10)
    scatters, previous = random_covariances(rng, K, d), random_covariances(rng, K, d)
    dof, floor, out = rng.uniform(1, 2, size=K), rng.uniform(size=d), np.empty_like(scatters)
    dof[-1] = 0.0
    kernels.covariances_from_scatter(scatters, dof, floor, previous, out)
    assert_allclose(out[:-1], scatters[:-1] / dof[:-1, None, None] + np.diag(floor))
    assert_array_equal(out[-1], previous[-1])


def test_scatters_from_covariances(K, d):
    rng = np.random.default_rng(12)
    covariances, dof = random_covariances(rng, K, d), rng.uniform(1, 2, size=K)
    floor, out = rng.uniform(size=d), np.empty_like(covariances)
    kernels.scatters_from_covariances(covariances, dof, floor, out)
    assert_allclose(out, dof[:, None, None] * (covariances - np.diag(floor)))
    back = np.empty_like(out)
    kernels.covariances_from_scatter(out, dof, floor, covariances, back)
    assert_allclose(back, covariances)


@pytest.mark.parametrize("is_single", [False, True])
def test_variances_from_scatter_and_back(K, d, is_single):
    rng = np.random.default_rng(13)
    width = 1 if is_single else d
    scatters, previous = rng.uniform(1, 2, size=(2, K, width))
    dof, floor, out = rng.uniform(1, 2, size=K), rng.uniform(size=d), np.empty_like(scatters)
    dof[-1] = 0.0
    added = floor.mean() if is_single else floor
    assert kernels.variances_from_scatter(scatters, dof, floor, previous, 0.0, out)
    assert_array_equal(out[:-1], (scatters / (d // width * dof[:, None] + 1e-300) + added)[:-1])
    assert_array_equal(out[-1], previous[-1])
    assert not kernels.variances_from_scatter(scatters, dof, floor, previous, out.min(), out)
    scatters[0] = np.nan
    assert not kernels.variances_from_scatter(scatters, 1.0 + dof, floor, previous, 0.0, out)
    kernels.scatters_from_covariances(previous, dof, floor, out)
    assert_array_equal(out, d // width * dof[:, None] * (previous - added))
