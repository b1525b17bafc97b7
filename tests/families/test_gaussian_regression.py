"""Regressions on known inputs: digits, and inputs that say nothing."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

from sklearn_onlineem.families import GaussianRegression
from sklearn_onlineem.families.gaussian_regression import Regressions

N_INPUTS, N_OUTPUTS = 2, 2


def draw_rows(rng, n):
    x = rng.normal(1.0, 2.0, (n, N_INPUTS))
    y = x @ rng.normal(size=(N_INPUTS, N_OUTPUTS)) + rng.normal(size=(n, N_OUTPUTS))
    return np.hstack([x, y])


def test_inputs_far_from_zero_cost_no_digits(rng):
    X = draw_rows(rng, 200)
    far = X + [1e7, -1e8, 1e6, 0.0]
    family, ones = GaussianRegression(N_INPUTS, reg_covar=0.0), np.ones((200, 1))
    here = family.m_step(family.expected_statistics(X, ones))
    there = family.m_step(family.expected_statistics(far, ones))
    assert_allclose(there.matrix, here.matrix, rtol=1e-5)
    assert_allclose(there.covariance, here.covariance, rtol=1e-6)
    assert_allclose(family.log_density(there, far), family.log_density(here, X), atol=1e-5)
    again = family.m_step(family.own_statistics(there, np.array([0.3])))
    assert_allclose(again.matrix, there.matrix, rtol=1e-12)


def test_inputs_that_do_not_vary_keep_their_coefficients(rng):
    """Those that depend on others share the effect: the least squares of least norm."""
    x = rng.normal(size=(100, 2))
    x = np.column_stack([x, np.full(100, 0.1), 3.0 * x[:, 0]])
    y = x @ [1.0, 2.0, 3.0, 4.0] + rng.normal(size=100)
    X, family, ones = np.column_stack([x, y]), GaussianRegression(4), np.ones((100, 1))
    found = family.m_step(family.expected_statistics(X, ones))
    assert found.matrix[0, 0, 2] == 0.0
    of_two = LinearRegression().fit(x[:, :2], y)
    assert_allclose(found.matrix[0, 0, 0] + 3.0 * found.matrix[0, 0, 3], of_two.coef_[0])
    assert_allclose(family.predicted(found, x)[:, 0, 0], of_two.predict(x[:, :2]), rtol=1e-8)
    known = Regressions(found.mean, found.matrix + 7.0, found.covariance, found.input_covariance)
    again = family.m_step(family.expected_statistics(X, ones), known)
    assert again.matrix[0, 0, 2] == 7.0
    assert_allclose(family.predicted(again, x), family.predicted(found, x), rtol=1e-8)
