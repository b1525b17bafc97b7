"""The kernel of the E-step against its formula in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import DTYPES, NO_LABELS, NONE, normalise_numpy, task
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels._responsibilities import normalise

OPTIONS = ["", "weights", "labels", "uniforms", "weights labels uniforms"]


def run(log_joint, sample_weight=NONE, labels=NO_LABELS, uniforms=NONE):
    responsibilities = log_joint.copy()
    log_likelihoods = np.empty(len(log_joint))
    total = normalise(responsibilities, task(sample_weight, labels, uniforms, log_likelihoods))
    return responsibilities, log_likelihoods, total


def tolerance(dtype):
    return 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 256, 300])
@pytest.mark.parametrize("K", [1, 2, 5, 64])
@pytest.mark.parametrize("options", OPTIONS)
def test_agrees_with_the_formula(n, K, dtype, options):
    rng = np.random.default_rng([n, K])
    log_joint = (5 * rng.standard_normal((n, K)) - 100).astype(dtype)
    arguments = {}
    if "weights" in options:
        arguments["sample_weight"] = rng.integers(0, 3, n) * rng.random(n)
    if "labels" in options:
        arguments["labels"] = rng.integers(-1, K, n).astype(np.int32)
    if "uniforms" in options:
        arguments["uniforms"] = rng.random(n)
    found = run(log_joint, **arguments)
    expected = normalise_numpy(log_joint, **arguments)
    assert found[0].dtype == dtype
    for result, reference in zip(found, expected, strict=True):
        assert_allclose(result, reference, rtol=tolerance(dtype), atol=tolerance(dtype))


def negligible_log(dtype):
    """Shares below 1e-60, and in single precision 1e-30, are 0: they change no digit of any sum."""
    return -69.0 if dtype == np.float32 else -138.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_is_accurate_over_its_whole_range(dtype):
    x = np.concatenate(
        [
            np.linspace(negligible_log(dtype), 0, 20_001),
            -np.logspace(np.log10(np.finfo(dtype).smallest_subnormal), 0, 2_000),
        ]
    ).astype(dtype)
    x = x[x <= 0]
    found = run(np.stack([np.zeros_like(x), x], axis=1))[0][:, 1]
    exact = np.exp(x.astype(np.longdouble))
    assert_allclose(found, exact / (1 + exact), rtol=3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_negligible_shares_are_zero(dtype):
    x = np.array([negligible_log(dtype) - 0.1, -710.0, -1e6, -1e30, -np.inf], dtype)
    found = run(np.stack([np.zeros_like(x), x], axis=1))[0]
    assert_array_equal(found, [[1, 0]] * len(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_is_accurate_wherever_a_sum_can_be(dtype):
    K = 100
    x = np.concatenate([np.linspace(-90, 0, 3_001), -np.logspace(-20, 0, 500)]).astype(dtype)
    for copies in (1, 3, K - 1):
        log_joint = np.full((len(x), K), -np.inf, dtype)
        log_joint[:, 0] = 0
        log_joint[:, 1 : copies + 1] = x[:, None]
        found = run(log_joint)[1]
        exact = np.log1p(copies * np.exp(x.astype(np.longdouble)))
        eps = np.finfo(dtype).eps
        assert_allclose(found, exact, rtol=4 * eps, atol=copies * eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uniform", [None, 0.0, 0.5, 1 - 2**-53])
def test_a_row_that_no_component_explains_is_shared_by_all(dtype, uniform):
    log_joint = np.array([[-np.inf] * 4, [0, -np.inf, 0, -np.inf]], dtype)
    uniforms = NONE if uniform is None else np.full(2, uniform)
    weights = np.array([0.0, 2.0])
    responsibilities, log_likelihoods, total = run(log_joint, weights, NO_LABELS, uniforms)
    assert_allclose(responsibilities.sum(axis=1), [0, 2])
    assert log_likelihoods[0] == -np.inf
    assert_allclose(total, 2 * np.log(2), rtol=1e-6)
    responsibilities, _, total = run(log_joint, uniforms=uniforms)
    assert total == -np.inf
    assert_allclose(responsibilities.sum(axis=1), 1)
    assert_array_equal(responsibilities[1, 1::2], 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_impossible_label_is_still_the_label(dtype):
    log_joint = np.array([[0, -np.inf, 0]], dtype)
    responsibilities, log_likelihoods, _ = run(log_joint, labels=np.array([1], np.int32))
    assert_array_equal(responsibilities, [[0, 1, 0]])
    assert log_likelihoods[0] == -np.inf


def test_shifting_all_log_joints_shifts_only_the_likelihood():
    log_joint = np.random.default_rng(0).standard_normal((300, 8)).round(3)
    near, far = run(log_joint), run(log_joint + 2.0**30)
    assert_allclose(far[0], near[0], rtol=1e-6)
    assert_allclose(far[1] - 2.0**30, near[1], atol=1e-6)
