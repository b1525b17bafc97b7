"""Laplace distributions: exact steps, ties, floors and digits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from sklearn_onlineem.families import Laplace
from sklearn_onlineem.families._medians import Pull, minimisers, objective
from sklearn_onlineem.families.laplace import Laplaces
from sklearn_onlineem.statistics import combine

FAMILY = Laplace(min_scale=0.0)


def objective_by_definition(x, r, W, m_old, b_old, m):
    """f of one component and feature."""
    gap = np.abs(m_old - m)
    return (r * np.abs(x - m)).sum() + (W * (gap + b_old * np.exp(-gap / b_old))).sum()


def problem(rng, n, n_old, ties):
    X = rng.integers(-3, 4, (n, 3)) * 1.0 if ties else rng.standard_normal((n, 3))
    shares = rng.random((n, 2)) * rng.integers(0, 2, (n, 2)) if ties else rng.random((n, 2))
    weights = rng.random((n_old, 2)) * rng.integers(0, 2, (n_old, 2))
    location = 2.0 * rng.standard_normal((n_old, 2, 3))
    return X, shares, Pull(weights[:, :, None], location, rng.uniform(0.01, 2.0, location.shape))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_old", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8])
def test_locations_minimise_the_sum_of_distances_and_divergences(n, n_old, ties, rng):
    for _ in range(8):
        X, shares, pull = problem(rng, n, n_old, ties)
        found = minimisers(X, shares, pull)
        values = objective(X, shares, pull, found)
        for k, j in np.ndindex(found.shape):
            W, m_old, b_old = pull.weights[:, k, 0], pull.locations[:, k, j], pull.scales[:, k, j]
            arguments = X[:, j], shares[:, k], W, m_old, b_old
            if not (shares[:, k].any() or W.any()):
                assert found[k, j] == 0.0
                continue
            assert_allclose(values[k, j], objective_by_definition(*arguments, found[k, j]))
            smooth = minimize_scalar(
                lambda m, arguments=arguments: objective_by_definition(*arguments, m),
                bounds=(-9.0, 9.0),
                method="bounded",
                options={"xatol": 1e-12},
            )
            others = [smooth.x, *X[:, j], *m_old, *(found[k, j] + np.array([-1e-6, 1e-6]))]
            least = min(objective_by_definition(*arguments, m) for m in others)
            assert values[k, j] <= least + 1e-14 * abs(least)


def test_the_slope_is_0_to_the_last_digits_where_no_point_is(rng):
    """Where the minimiser is between points, by one old component and by several."""
    for n_old in (1, 3):
        _, _, pull = problem(rng, 0, n_old, False)
        pull = Pull(pull.weights + 0.5, pull.locations, pull.scales)
        X, shares = np.array([[40.0] * 3, [-40.0] * 3]), np.array([[0.2, 0.1], [0.1, 0.1]])
        slopes = pull.slope(minimisers(X, shares, pull)) - (shares[0] - shares[1])[:, None]
        assert_allclose(slopes, 0.0, atol=1e-14)


@pytest.mark.parametrize("n", [6, 7])
def test_weights_stand_for_repeated_rows_also_where_weights_are_evenly_parted(n, rng):
    X, repeats = rng.standard_normal((n, 2)), np.array([3, 1, 0, 2, 2, 4, 2])[:n]
    repeated = np.repeat(X, repeats, axis=0)
    a, b = (
        FAMILY.m_step(FAMILY.expected_statistics(rows, shares[:, None]))
        for rows, shares in ((X, repeats / 3.0), (repeated, np.full(len(repeated), 1.0 / 3.0)))
    )
    assert_allclose(a.location, b.location, rtol=1e-14)
    assert_allclose(a.scale, b.scale, rtol=1e-13)


def test_many_features_are_taken_in_chunks(rng, monkeypatch):
    X, shares = rng.standard_normal((50, 7)), rng.random((50, 3))
    statistics = combine(
        [
            (1.0, FAMILY.expected_statistics(X, shares)),
            (2.0, FAMILY.own_statistics(Laplaces(X[:3], np.ones((3, 7))), np.ones(3))),
        ]
    )
    whole = FAMILY.m_step(statistics)
    monkeypatch.setattr("sklearn_onlineem.families._medians._CHUNK_VALUES", 300)
    assert_array_equal(FAMILY.m_step(statistics).location, whole.location)


def test_far_from_0_no_digits_are_lost(rng):
    X, shares = np.round(rng.standard_normal((51, 2)) * 2**10) / 2**10, np.ones((51, 1))
    old = Laplaces(np.array([[0.5, -0.5]]), np.ones((1, 2)))

    def moved(offset):
        own = FAMILY.own_statistics(Laplaces(old.location + offset, old.scale), np.full(1, 3.0))
        return FAMILY.m_step(
            combine([(1.0, FAMILY.expected_statistics(X + offset, shares)), (3.0, own)])
        )

    near, far = moved(0.0), moved(2.0**27)
    assert_allclose(far.location - 2.0**27, near.location, atol=1e-7)
    assert_allclose(far.scale, near.scale, rtol=1e-7)


def test_the_floor_is_part_of_the_m_step_and_kept(rng):
    X = np.column_stack([np.full(20, 3.0), rng.laplace(0.0, 1e-3, 20), rng.laplace(0.0, 5.0, 20)])
    given = Laplace(min_scale=0.1)
    fitted = given.m_step(given.expected_statistics(X, np.ones((20, 1))))
    assert_array_equal(fitted.scale[0, :2], 0.1)
    again = given.m_step(given.own_statistics(fitted, np.ones(1)))
    assert_array_equal(again.scale, fitted.scale)
    relative = Laplace().bind(X, None)
    deviation = np.abs(X - X.mean(axis=0)).mean(axis=0)
    assert_allclose(relative.floor[1:], 1e-3 * deviation[1:])
    assert_allclose(relative.floor[0], 1e-3 * deviation[1:].mean())
    assert relative.bind(100.0 * X) is relative


def test_a_floor_depends_on_weights_as_on_repeated_rows(rng):
    X, repeats = rng.standard_normal((30, 2)), rng.integers(0, 4, 30)
    floors = [
        Laplace().bind(X, repeats.astype(float)).floor,
        Laplace().bind(np.repeat(X, repeats, axis=0)).floor,
    ]
    assert_allclose(*floors, rtol=1e-12)
