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
    n_nearest = min(n_points, 5)
    found = NearestPoints.of(points).nearest(container(X), n_nearest)
    np.testing.assert_array_equal(found, distances(X, points).argsort(axis=1)[:, :n_nearest])


def test_of_many_points_nearly_all_are_found(rng):
    points = 5.0 * rng.standard_normal((4000, 6))
    X = points[rng.integers(4000, size=500)] + 0.5 * rng.standard_normal((500, 6))
    squares = distances(X, points)
    found = NearestPoints.of(points).nearest(X, 3)
    nearest = squares.argsort(axis=1)[:, :3]
    assert (found[:, 0] == nearest[:, 0]).mean() > 0.95
    # They are distinct, and those that are found come in order.
    assert all(len(set(row)) == 3 for row in found.tolist())
    assert (np.diff(np.take_along_axis(squares, found, axis=1), axis=1) >= 0.0).all()


def test_groups_without_points_and_points_without_groups_are_no_fault(rng):
    """Equal points are in one group, so that many groups are empty."""
    points = np.repeat(rng.standard_normal((3, 2)), 700, axis=0)
    found = NearestPoints.of(points).nearest(points[::300], 900)
    assert found.shape == (7, 900)
    assert all(len(set(row)) == 900 for row in found.tolist())
    same = (points[found[:, :700]] == points[::300][:, None]).all(axis=2)
    assert same.all()


def test_rows_are_mapped_to_the_coordinates_of_the_points(rng):
    points, X = rng.standard_normal((20, 2)), rng.standard_normal((9, 2))
    near = NearestPoints.of(2.0 * points)
    np.testing.assert_array_equal(
        near.nearest(X, 20, to=lambda rows: 2.0 * rows), NearestPoints.of(points).nearest(X, 20)
    )
