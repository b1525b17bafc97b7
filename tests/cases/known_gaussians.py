"""Three Gaussians in two columns, by the fitted attributes that have them."""

import numpy as np
import pytest

WEIGHTS, MEANS = np.array([0.2, 0.3, 0.5]), np.array([[0.0, 1.0], [5.0, -2.0], [-3.0, 4.0]])
ROOTS = np.array([[[1.0, 0.0], [0.5, 1.0]], [[2.0, 0.0], [-1.0, 0.5]], [[0.3, 0.0], [0.0, 3.0]]])
COVARIANCES = {
    "full": ROOTS @ ROOTS.transpose(0, 2, 1),
    "tied": ROOTS[0] @ ROOTS[0].T,
    "diag": np.array([[1.0, 2.0], [0.5, 3.0], [4.0, 0.1]]),
    "spherical": np.array([1.0, 0.5, 4.0]),
}
kinds = pytest.mark.parametrize("kind", COVARIANCES)
