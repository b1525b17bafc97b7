"""Points near rows, found by groups."""

import numpy as np
import pytest
from scipy import sparse

from sklearn_onlineem.models.nearest_points import NearestPoints


def distances(X, points):
    return ((X[:, None] - points) ** 2).sum(axis=2)


@pytest.mark.parametrize("n_points", [1, 7, 1000])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_of_few_points_the_nearest_are_found(n_points, container, rng):
    points, X = rng.standard_normal((n_points, 3)), rng.standard_normal((50, 3))
    near, n = NearestPoints.of(points), min(n_points, 5)
    np.testing.assert_array_equal(near.nearest(container(X)), distances(X, points).argmin(axis=1))
    expected = distances(points, points).argsort(axis=1)[:, :n]
    np.testing.assert_array_equal(near.neighbours(n), expected)


def test_of_many_points_nearly_all_are_found(rng):
    points = 5.0 * rng.standard_normal((4000, 6))
    X = points[rng.integers(4000, size=500)] + 0.5 * rng.standard_normal((500, 6))
    near = NearestPoints.of(points)
    assert (near.nearest(X) == distances(X, points).argmin(axis=1)).mean() > 0.95
    found, squares = near.neighbours(6), distances(points[:500], points)
    np.testing.assert_array_equal(found[:, 0], np.arange(4000))
    nearest = squares.argsort(axis=1)[:, :6]
    assert (found[:500, :, None] == nearest[:, None]).any(axis=2).mean() > 0.85
    # They are distinct, and come in order.
    assert all(len(set(row)) == 6 for row in found.tolist())
    assert (np.diff(np.take_along_axis(squares, found[:500], axis=1), axis=1) >= 0.0).all()


def test_groups_without_points_are_no_fault(rng):
    """Equal points are in one group, so that many groups are empty."""
    three = rng.standard_normal((3, 2))
    points = np.repeat(three, 700, axis=0)
    near = NearestPoints.of(points)
    np.testing.assert_array_equal(points[near.nearest(three + 1e-9)], three)
    found = near.neighbours(900)
    assert all(len(set(row)) == 900 for row in found.tolist())
    assert (points[found[:, :700]] == points[:, None]).all()


def test_rows_are_mapped_to_the_coordinates_of_the_points(rng):
    points, X = rng.standard_normal((20, 2)), rng.standard_normal((9, 2))
    near = NearestPoints.of(2.0 * points)
    expected = NearestPoints.of(points).nearest(X)
    np.testing.assert_array_equal(near.nearest(X, lambda rows: 2.0 * rows), expected)
