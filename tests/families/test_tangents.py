"""Directions of parameters."""

import numpy as np
from scipy.linalg import expm

from sklearn_onlineem.families.tangents.base import symmetric_exponential


def test_exponentials_are_exact_to_second_order_and_always_positive_definite(rng):
    matrices = rng.standard_normal((5, 4, 4))
    matrices += matrices.mT
    exact = np.array([expm(1e-3 * matrix) for matrix in matrices])
    np.testing.assert_allclose(symmetric_exponential(1e-3 * matrices), exact, atol=1e-7)
    assert (np.linalg.eigvalsh(symmetric_exponential(100.0 * matrices)) > 0.0).all()
