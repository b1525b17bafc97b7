"""Singular matrices that Cholesky's algorithm passes by rounding are no Wishart matrices."""

import numpy as np
import pytest

from sklearn_onlineem.families import Wishart
from sklearn_onlineem.families.wishart import FixedDegreesWishart

families = pytest.mark.parametrize("family", [Wishart(), FixedDegreesWishart(9.0)], ids=repr)


def singular(rng, side, n=50):
    roots = rng.normal(size=(n, side, side - 1))
    return (roots @ roots.transpose(0, 2, 1)).reshape(n, -1)


@families
@pytest.mark.parametrize("side", [2, 3, 6])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_singular_matrices_are_refused(family, side, scale, rng):
    for row in scale * singular(rng, side):
        with pytest.raises(ValueError, match="positive-definite"):
            family.check(row[None])


@families
def test_matrices_of_any_scales_are_taken(family, rng):
    roots = rng.normal(size=(50, 3, 5))
    matrices = roots @ roots.transpose(0, 2, 1)
    scales = np.array([1e-8, 1.0, 1e8])
    for dtype in (np.float32, np.float64):
        family.check((matrices * np.outer(scales, scales)).reshape(50, -1).astype(dtype))
