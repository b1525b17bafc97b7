"""Sums of statistics."""

import numpy as np
import pytest
from cases.comparing import assert_close
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem.families.gaussian_axis import AxisMoments
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.models import MixtureStatistics
from sklearn_onlineem.statistics import Sums, combine


def full(deviations):
    return np.einsum("nki,nkj->kij", deviations, deviations)


SHAPES = {
    "full": (MatrixMoments, full),
    "tied": (MatrixMoments, lambda deviations: full(deviations).sum(axis=0, keepdims=True)),
    "diagonal": (AxisMoments, lambda deviations: (deviations**2).sum(axis=0)),
    "spherical": (
        AxisMoments,
        lambda deviations: (deviations**2).sum(axis=(0, 2))[:, None],
    ),
}


def moments_of(X, kind, weight=1.0):
    """Moments of equally weighted points, X of shape (n, K, d)."""
    moments, outer = SHAPES[kind]
    mean, weights = X.mean(axis=0), np.full(X.shape[1], weight * len(X))
    degrees = weights.sum(keepdims=True) if kind == "tied" else weights
    return moments(weights, degrees, mean, weight * outer(X - mean))


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_moments_of_parts_add_up_to_those_of_the_whole(kind, offset, rng):
    X = np.round(rng.standard_normal((60, 3, 4)) * 2**10) / 2**10 + offset
    whole = moments_of(X, kind)
    parts = moments_of(X[:10], kind) + moments_of(X[10:11], kind) + moments_of(X[11:], kind)
    # A mean can't be better than its own last digit; raw second moments would lose 8 digits more.
    last_digit = np.finfo(float).eps * offset
    assert_close(parts, whole, rtol=1e-12, atol=1e-12 + X.size * last_digit)


@pytest.mark.parametrize("kind", SHAPES)
def test_weights_multiply_moments(kind, rng):
    X, Y = rng.standard_normal((2, 20, 3, 4))
    combined = combine([(0.5, moments_of(X, kind)), (3.0, moments_of(Y, kind))])
    expected = combine([(1.0, moments_of(X, kind, 0.5)), (1.0, moments_of(Y, kind, 3.0))])
    assert_close(combined, expected, rtol=1e-12)
    assert_close(2.0 * moments_of(X, kind), moments_of(X, kind, 2.0), rtol=1e-12)
    assert_close(moments_of(X, kind) * 2.0, moments_of(X, kind, 2.0), rtol=1e-12)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_component_without_weight_adds_nothing(kind, rng):
    statistics = moments_of(rng.standard_normal((20, 3, 4)), kind)
    empty = moments_of(rng.standard_normal((20, 3, 4)), kind, 0.0)
    assert_close(statistics + empty, statistics, rtol=1e-12)
    assert_close(empty + statistics, statistics, rtol=1e-12)
    nothing = empty + empty
    assert_array_equal(nothing.weight, 0.0)
    assert np.isfinite(nothing.mean).all() and np.isfinite(nothing.scatter).all()


def test_the_sum_does_not_depend_on_the_order(rng):
    parts = [(w, Sums(*rng.random((2, 3)))) for w in rng.random(6)]
    assert_close(combine(parts), combine(parts[::-1]), rtol=1e-14)


def test_statistics_within_statistics_add_up(rng):
    a, b = (
        MixtureStatistics(rng.random(3), Sums(rng.random(3), rng.random((3, 2)))) for _ in range(2)
    )
    total = combine([(2.0, a), (0.5, b)])
    assert_allclose(total.counts, 2.0 * a.counts + 0.5 * b.counts)
    assert_allclose(total.emissions.total, 2.0 * a.emissions.total + 0.5 * b.emissions.total)


def test_terms_of_weight_0_are_left_out():
    one, rotten = (
        Sums(np.ones(1), np.ones((1, 1))),
        Sums(np.full(1, np.nan), np.full((1, 1), np.nan)),
    )
    assert combine([(1.0, one), (0.0, rotten)]) is one
    for terms in ([], [(0.0, one)]):
        with pytest.raises(ValueError, match="at least one term"):
            combine(terms)


def test_different_statistics_do_not_add():
    sums = Sums(np.ones(1), np.ones((1, 1)))
    with pytest.raises(TypeError):
        sums + MixtureStatistics(np.ones(1), sums)
