"""Rank-one changes of factors: there and back, and refused where nothing would be left."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem._kernels._collapsed_gaussian import rank_one, sweep


def random_factor(rng, d):
    root = rng.normal(size=(d, d))
    return np.linalg.cholesky(root @ root.T + 0.1 * np.eye(d))


def changed(factor, w, sign):
    out = np.full_like(factor, np.nan)
    assert rank_one(factor, w, sign, out)
    return out


@pytest.mark.parametrize("d", [1, 2, 7, 16, 40])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_factors_are_those_of_the_changed_matrix(d, scale, rng):
    factor, w = random_factor(rng, d), scale * rng.normal(size=d)
    added = changed(factor, w, 1.0)
    expected = np.linalg.cholesky(factor @ factor.T + np.outer(w, w))
    assert_allclose(added, expected, rtol=1e-10, atol=1e-10 * scale)
    assert_allclose(changed(added, w, -1.0), factor, rtol=1e-7, atol=1e-10 * max(1.0, scale**2))


@pytest.mark.parametrize("d", [1, 3, 16])
def test_there_and_back_is_the_identity(d, rng):
    factor = start = random_factor(rng, d)
    rows = rng.normal(size=(1000, d))
    for w in rows:
        factor = changed(factor, w, 1.0)
    for w in rng.permutation(rows):
        factor = changed(factor, w, -1.0)
    assert_allclose(factor, start, atol=1e-10)


def test_what_leaves_nothing_is_refused():
    factor, out = 2.0 * np.eye(3), np.empty((3, 3))
    assert rank_one(factor, np.array([0.0, 1.99, 0.0]), -1.0, out)
    assert not rank_one(factor, np.array([0.0, 2.0, 0.0]), -1.0, out)
    assert not rank_one(factor, np.array([0.0, np.nan, 0.0]), -1.0, out)


@pytest.mark.parametrize("fault", [np.nan, 1e200])
def test_a_row_without_a_density_is_refused(fault):
    X = np.ones((4, 2))
    X[2] = fault
    arguments = (np.zeros(2), np.ones(1), np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.ones(1))
    with pytest.raises(ValueError, match="number|definite"):
        sweep(X, *arguments, np.full(4, 0.5), np.zeros(4, np.intc))
