"""The small-matrix kernels against their formulas in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels import _small_matrices as kernels

SIZES = [(1, 1), (1, 20), (3, 2), (8, 5), (10, 16), (11, 33), (2, 70)]

pytestmark = pytest.mark.parametrize(("K", "d"), SIZES)


def random_covariances(rng, K, d):
    A = rng.normal(size=(K, d, d + 3))
    return A @ A.transpose(0, 2, 1) * np.exp(rng.normal(size=(K, 1, 1)))


def outer(x):
    return x[:, :, None] * x[:, None, :]


def factorise(covariances):
    precisions, factors = np.full_like(covariances, np.nan), np.full_like(covariances, np.nan)
    log_dets = np.empty(len(covariances))
    assert kernels.factorise(covariances, precisions, factors, log_dets) == -1
    return precisions, factors, log_dets


def moments(X, responsibilities):
    """Weighted moments in two passes: the definition."""
    weight = responsibilities.sum(axis=0)
    mean = responsibilities.T @ X / weight[:, None]
    residuals = X[:, None, :] - mean
    scatter = np.einsum("nk,nki,nkj->kij", responsibilities, residuals, residuals)
    return weight, mean, scatter


def merge(a, A, b, B):
    merge_centred = kernels.merge_centred if A[2].ndim == 3 else kernels.merge_centred_diagonal
    # Degrees take part like weights, but may be fewer.
    degrees_a, degrees_b = (np.arange(1.0, 1.0 + len(statistics[2])) for statistics in (A, B))
    degrees = np.empty_like(degrees_a)
    weight, mean, scatter = (np.full_like(part, np.nan) for part in A)
    merge_centred(
        a, A[0], degrees_a, *A[1:], b, B[0], degrees_b, *B[1:], weight, degrees, mean, scatter
    )
    assert_allclose(degrees, a * degrees_a + b * degrees_b)
    return weight, mean, scatter


def full(statistics):
    return statistics


def tied(statistics):
    weight, mean, scatter = statistics
    return weight, mean, scatter.sum(axis=0, keepdims=True)


def diagonal(statistics):
    weight, mean, scatter = statistics
    return weight, mean, np.ascontiguousarray(np.diagonal(scatter, axis1=1, axis2=2))


def spherical(statistics):
    weight, mean, scatter = diagonal(statistics)
    return weight, mean, scatter.sum(axis=1, keepdims=True)


def assert_same(left, right, **tolerance):
    for a, b in zip(left, right, strict=True):
        assert_allclose(a, b, **tolerance)


def test_factorise(K, d):
    covariances = random_covariances(np.random.default_rng(0), K, d)
    precisions, factors, log_dets = factorise(covariances)
    assert_allclose(precisions @ covariances, np.broadcast_to(np.eye(d), (K, d, d)), atol=1e-9)
    assert_allclose(factors @ factors.transpose(0, 2, 1), precisions, rtol=1e-10, atol=1e-13)
    assert_allclose(log_dets, np.linalg.slogdet(covariances)[1], rtol=1e-12, atol=1e-12)
    assert_array_equal(precisions, precisions.transpose(0, 2, 1))
    assert_array_equal(factors, np.triu(factors))


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_factorise_at_extreme_scales(K, d, scale):
    covariances = random_covariances(np.random.default_rng(1), K, d) * scale
    precisions, _, log_dets = factorise(covariances)
    assert_allclose(precisions @ covariances, np.broadcast_to(np.eye(d), (K, d, d)), atol=1e-9)
    assert_allclose(log_dets, np.linalg.slogdet(covariances)[1], rtol=1e-12)


@pytest.mark.parametrize("defect", [0.0, -1.0, np.nan, np.inf])
def test_factorise_reports_the_first_bad_component(K, d, defect):
    rng = np.random.default_rng(2)
    for bad in {0, K // 2, K - 1}:
        covariances = random_covariances(rng, K, d)
        covariances[bad:, d // 2, d // 2] = defect
        out = np.empty_like(covariances), np.empty_like(covariances), np.empty(K)
        assert kernels.factorise(covariances, *out) == bad


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


@pytest.mark.parametrize("shape", [full, tied, diagonal, spherical])
class TestMerge:
    def test_equals_pooled_moments(self, K, d, shape):
        rng = np.random.default_rng(7)
        X, responsibilities = rng.normal(size=(60, d)) + 1e3, rng.dirichlet(np.ones(K), size=60)
        A = shape(moments(X[:20], responsibilities[:20]))
        B = shape(moments(X[20:], responsibilities[20:]))
        scaled = np.concatenate([2.0 * responsibilities[:20], 0.5 * responsibilities[20:]])
        assert_same(merge(2.0, A, 0.5, B), shape(moments(X, scaled)), rtol=1e-9, atol=1e-9)

    def test_commutes_and_associates(self, K, d, shape):
        rng = np.random.default_rng(8)
        A, B, C = (
            shape(moments(rng.normal(size=(9, d)), rng.uniform(size=(9, K)))) for _ in range(3)
        )
        assert_same(merge(2.0, A, 3.0, B), merge(3.0, B, 2.0, A), rtol=1e-12, atol=1e-12)
        left = merge(1.0, merge(2.0, A, 3.0, B), 4.0, C)
        right = merge(2.0, A, 1.0, merge(3.0, B, 4.0, C))
        assert_same(left, right, rtol=1e-12, atol=1e-12)

    def test_zero_is_neutral_however_far(self, K, d, shape):
        rng = np.random.default_rng(9)
        A = shape(moments(rng.normal(size=(9, d)), rng.uniform(size=(9, K))))
        zero = np.zeros(K), np.full((K, d), 1e8), np.zeros_like(A[2])
        assert_same(merge(1.0, A, 1.0, zero), A, rtol=0)
        assert_same(merge(1.0, zero, 1.0, A), A, rtol=0)
        assert_same(merge(5.0, zero, 0.0, A), zero, rtol=0)


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


def test_kl_divergences(K, d):
    rng = np.random.default_rng(11)
    P, Q = random_covariances(rng, K, d), random_covariances(rng, K, d)
    mean_p, mean_q = rng.normal(size=(2, K, d))
    precision_p, _, log_det_p = factorise(P)
    precision_q, _, log_det_q = factorise(Q)
    out = np.empty(K)
    kernels.kl_divergences(mean_p, P, log_det_p, mean_q, precision_q, log_det_q, out)
    second = P + outer(mean_p - mean_q)
    expected = 0.5 * (np.trace(precision_q @ second, axis1=1, axis2=2) - d + log_det_q - log_det_p)
    assert_allclose(out, expected)
    kernels.kl_divergences(mean_p, P, log_det_p, mean_p, precision_p, log_det_p, out)
    assert_allclose(out, 0.0, atol=1e-9)


def test_kernels_refuse_arrays_that_are_not_theirs(K, d):
    def factorise(covariances, **others):
        outputs = {"precisions": np.empty((K, d, d)), "factors": np.empty((K, d, d))}
        arrays = {"covariances": covariances, **outputs, "log_dets": np.empty(K), **others}
        return kernels.factorise(*arrays.values())

    right = random_covariances(np.random.default_rng(0), K, d)
    read_only = right.copy()
    read_only.flags.writeable = False
    assert factorise(read_only) == -1
    misaligned = np.frombuffer(bytes(1 + right.nbytes), offset=1).reshape(right.shape)
    single, swapped = right.astype(np.float32), right.astype(">f8")
    for array in (misaligned, single, swapped, right[0, 0, 0], right[0, 0], right.tolist(), None):
        with pytest.raises(TypeError):
            factorise(array)
    for output in (read_only, single, np.empty((K, d, d + 1))):
        with pytest.raises(TypeError):
            factorise(right, precisions=output)
