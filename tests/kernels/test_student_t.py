"""The kernel of hidden precisions against its formula in NumPy."""

import numpy as np
from cases.kernel_formulas import NO_LABELS, NONE, task
from numpy.testing import assert_allclose
from scipy.special import psi

from sklearn_onlineem._kernels._student_t import weigh


def run(squares, degrees, d, constants, sample_weight=NONE, labels=NO_LABELS, uniforms=NONE):
    n, K = squares.shape
    gaps = np.log(0.5 * (degrees + d)) - psi(0.5 * (degrees + d))
    weights, log_likelihoods, sums = -0.5 * squares, np.empty(n), [np.empty(K), np.empty(K)]
    total = weigh(
        weights, degrees, d, constants, gaps,
        task(sample_weight, labels, uniforms, log_likelihoods), *sums,
    )  # fmt: skip
    return weights, *sums, log_likelihoods, total


def test_rows_beyond_all_numbers_have_no_weight_and_a_finite_density():
    squares = np.array([[np.inf], [1e300], [0.0], [-1e-9]])
    weights, counts, gaps, log_likelihoods, total = run(squares, np.ones(1), 2, np.zeros(1))
    assert_allclose(weights[:, 0], [0.0, 0.0, 3.0, 3.0], atol=1e-280)
    assert np.isfinite([counts, gaps]).all() and np.isfinite(log_likelihoods).all()
    assert_allclose(log_likelihoods[2:], 0.0)
    assert_allclose(total, log_likelihoods.sum())
