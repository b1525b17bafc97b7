"""The small-matrix kernels against their formulas in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import SIZES, random_covariances
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels import _small_matrices as kernels

pytestmark = pytest.mark.parametrize(("K", "d"), SIZES)


def factorise(covariances):
    precisions, factors = np.full_like(covariances, np.nan), np.full_like(covariances, np.nan)
    log_dets = np.empty(len(covariances))
    assert kernels.factorise(covariances, precisions, factors, log_dets) == -1
    return precisions, factors, log_dets


def test_factorise(K, d):
    covariances = random_covariances(np.random.default_rng(0), K, d)
    precisions, factors, log_dets = factorise(covariances)
    assert_allclose(precisions @ covariances, np.broadcast_to(np.eye(d), (K, d, d)), atol=1e-9)
    assert_allclose(factors @ factors.transpose(0, 2, 1), precisions, rtol=1e-10, atol=1e-13)
    assert_allclose(log_dets, np.linalg.slogdet(covariances)[1], rtol=1e-12, atol=1e-12)
    assert_array_equal(precisions, precisions.transpose(0, 2, 1))
    assert_array_equal(factors, np.triu(factors))


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("is_single", [False, True])
def test_inverse_variances(K, d, is_single, scale):
    variances = scale * np.random.default_rng(3).gamma(1.0, size=(K, 1 if is_single else d))
    precisions, log_dets = np.empty_like(variances), np.empty(K)
    kernels.invert_variances(variances, d, precisions, log_dets)
    assert_array_equal(precisions, 1.0 / variances)
    expected = np.log(np.broadcast_to(variances, (K, d))).sum(axis=1)
    assert_allclose(log_dets, expected, rtol=1e-13, atol=1e-13)


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
    for array in (misaligned, single, swapped, right[0, 0]):
        with pytest.raises(ValueError):
            factorise(array)
    for no_array in (right[0, 0, 0], right.tolist(), None):
        with pytest.raises((TypeError, ValueError)):
            factorise(no_array)
    for output in (read_only, single, np.empty((K, d, d + 1))):
        with pytest.raises(ValueError):
            factorise(right, precisions=output)


@pytest.mark.parametrize("scales", [False, True])
def test_the_inverse_of_quasi_newton_steps_is_that_of_their_updates(K, d, scales):
    rng = np.random.default_rng(2)
    information, steps = random_covariances(rng, 1, d)[0], rng.standard_normal((K, d))
    changes = steps @ information
    lacking = max(1.0, steps[-1] @ changes[-1] / (changes[-1] @ changes[-1]))
    inverse = (lacking if scales else 1.0) * np.eye(d)
    for step, change in zip(steps, changes, strict=True):
        turn = np.eye(d) - np.outer(change, step) / (step @ change)
        inverse = turn.T @ inverse @ turn + np.outer(step, step) / (step @ change)
    gradient = rng.standard_normal(d)
    found = gradient.copy()
    kernels.multiply_by_inverse(tuple(steps), tuple(changes), scales, found)
    assert_allclose(found, inverse @ gradient, rtol=1e-7, atol=1e-9 * np.abs(inverse).max())
