"""The kernel of hidden precisions against its formula in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import NO_LABELS, NONE, normalise_numpy, task
from numpy.testing import assert_allclose
from scipy.special import psi

from sklearn_onlineem._kernels._student_t import weigh

OPTIONS = ["", "weights", "labels", "uniforms", "weights labels uniforms"]


def run(squares, degrees, d, constants, sample_weight=NONE, labels=NO_LABELS, uniforms=NONE):
    n, K = squares.shape
    gaps = np.log(0.5 * (degrees + d)) - psi(0.5 * (degrees + d))
    weights, log_likelihoods, sums = -0.5 * squares, np.empty(n), [np.empty(K), np.empty(K)]
    total = weigh(
        weights, degrees, d, constants, gaps,
        task(sample_weight, labels, uniforms, log_likelihoods), *sums,
    )  # fmt: skip
    return weights, *sums, log_likelihoods, total


def by_numpy(squares, degrees, d, constants, **of_rows):
    u = (degrees + d) / (degrees + squares)
    mean_log = psi(0.5 * (degrees + d)) - np.log(0.5 * (degrees + squares))
    log_joint = constants - 0.5 * (degrees + d) * np.log1p(squares / degrees)
    shares, log_likelihoods, total = normalise_numpy(log_joint, **of_rows)
    gaps = (shares * (u - mean_log - 1.0)).sum(axis=0)
    return shares * u, shares.sum(axis=0), gaps, log_likelihoods, total


@pytest.mark.parametrize("n", [1, 7, 256, 700])
@pytest.mark.parametrize("K", [1, 2, 5, 40])
@pytest.mark.parametrize("options", OPTIONS)
def test_agrees_with_the_formula(n, K, options):
    rng = np.random.default_rng([n, K])
    squares, d = 9.0 * rng.standard_normal((n, K)) ** 2, int(rng.integers(1, 30))
    degrees, constants = np.exp(rng.uniform(-2.0, 6.0, K)), rng.normal(-50.0, 3.0, K)
    arguments = {}
    if "weights" in options:
        arguments["sample_weight"] = rng.integers(0, 3, n) * rng.random(n)
    if "labels" in options:
        arguments["labels"] = rng.integers(-1, K, n).astype(np.int32)
    if "uniforms" in options:
        arguments["uniforms"] = rng.random(n)
    found = run(squares, degrees, d, constants, **arguments)
    expected = by_numpy(squares, degrees, d, constants, **arguments)
    for result, reference in zip(found, expected, strict=True):
        assert_allclose(result, reference, rtol=1e-11, atol=1e-12)


def test_rows_beyond_all_numbers_have_no_weight_and_a_finite_density():
    squares = np.array([[np.inf], [1e300], [0.0], [-1e-9]])
    weights, counts, gaps, log_likelihoods, total = run(squares, np.ones(1), 2, np.zeros(1))
    assert_allclose(weights[:, 0], [0.0, 0.0, 3.0, 3.0], atol=1e-280)
    assert np.isfinite([counts, gaps]).all() and np.isfinite(log_likelihoods).all()
    assert_allclose(log_likelihoods[2:], 0.0)
    assert_allclose(total, log_likelihoods.sum())
