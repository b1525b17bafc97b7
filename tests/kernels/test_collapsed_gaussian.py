"""Sweeps over Gaussians: rank-one changes of factors keep their digits, and are refused at 0."""

import numpy as np
import pytest
from cases.collapsed_cases import collapsed_sweep
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels._collapsed_gaussian import sweep
from sklearn_onlineem.families import Full, Gaussian, Tied


@pytest.mark.parametrize("shape", [Full(), Tied()])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("d", [2, 7, 16])
def test_factors_keep_their_digits_when_many_rows_leave_and_come(d, scale, shape, rng):
    family = Gaussian(shape)
    prior = family.prior_statistics(
        2, n_features=d, mean_precision=1.0, covariance=0.1, degrees_of_freedom=d + 2.0
    )
    X = scale * rng.standard_normal((300, d))
    labels, uniforms = rng.integers(0, 2, 300).astype(np.intc), rng.random(300)
    concentration, expected = np.ones(2), labels.copy()
    score = family.collapsed_sweep(prior, X, labels, concentration, uniforms)
    expected_score = collapsed_sweep(family, prior, X, expected, concentration, uniforms)
    assert_array_equal(labels, expected)
    assert_allclose(score, expected_score, rtol=1e-10)


@pytest.mark.parametrize("fault", [np.nan, 1e200])
def test_a_row_without_a_density_is_refused(fault):
    X = np.ones((4, 2))
    X[2] = fault
    arguments = (np.zeros(2), np.ones(1), np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.ones(1))
    with pytest.raises(ValueError, match="number|definite"):
        sweep(X, *arguments, np.full(4, 0.5), np.zeros(4, np.intc), True)
