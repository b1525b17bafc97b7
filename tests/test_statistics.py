"""Sums of statistics."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_close, assert_identical
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem.models.mixtures.mixture import MixtureStatistics
from sklearn_onlineem.statistics import Listed, Moments, Statistics, Sums, combine, pooled


def full(deviations):
    return np.einsum("nki,nkj->kij", deviations, deviations)


SHAPES = {
    "full": (Moments, full),
    "tied": (Moments, lambda deviations: full(deviations).sum(axis=0, keepdims=True)),
    "diagonal": (Moments, lambda deviations: (deviations**2).sum(axis=0)),
    "spherical": (Moments, lambda deviations: (deviations**2).sum(axis=(0, 2))[:, None]),
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
    X = np.round(rng.standard_normal((60, 3, 11)) * 2**10) / 2**10 + offset
    whole = moments_of(X, kind)
    parts = moments_of(X[:10], kind) + moments_of(X[10:11], kind) + moments_of(X[11:], kind)
    # A mean can't be better than its own last digit; raw second moments would lose 8 digits more.
    last_digit = np.finfo(float).eps * offset
    assert_close(parts, whole, rtol=1e-12, atol=1e-12 + X.size * last_digit)


@pytest.mark.parametrize("kind", SHAPES)
def test_moments_of_a_part_are_taken_away(kind, rng):
    X = rng.standard_normal((60, 3, 4))
    whole, part = moments_of(X, kind), moments_of(X[:20], kind)
    assert_close(whole.merge(1.0, part, -1.0), moments_of(X[20:], kind), rtol=1e-12, atol=1e-12)
    nothing = whole.merge(1.0, whole, -1.0)
    assert_close(nothing + part, part, rtol=1e-12, atol=1e-12)


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


def test_weights_are_numbers_that_repeat_nothing():
    texts = Sums(np.array(["a"], dtype=object), pd.DataFrame({"a": ["x"]}))
    for total in (lambda: 3 * texts, lambda: texts + texts, lambda: combine([(2, texts)])):
        with pytest.raises(TypeError):
            total()


def test_different_statistics_do_not_add():
    sums = Sums(np.ones(1), np.ones((1, 1)))
    with pytest.raises(TypeError):
        sums + MixtureStatistics(np.ones(1), sums)


# ------------------------------------------------------------------------- tuples and many terms


class Pair(NamedTuple):
    left: np.ndarray
    right: object


@dataclass(frozen=True)
class Nested(Statistics):
    """Tuples of arrays and of statistics, of which some grow."""

    number: float
    arrays: tuple
    inner: Pair


def nested(rng):
    sums = Sums(rng.random(2), rng.random((2, 3)))
    listed = Listed(rng.random((4, 2)), (rng.random((4, 3)), rng.random(4)))
    return Nested(rng.random(), (rng.random(3), rng.random((2, 2))), Pair(sums, (listed,)))


KINDS = {
    "sums": lambda rng: Sums(rng.random(3), rng.standard_normal((3, 2))),
    "listed": lambda rng: Listed(rng.random((5, 2)), rng.standard_normal((5, 3))),
    "mixture": lambda rng: MixtureStatistics(rng.random(3), KINDS["sums"](rng)),
    "mixture of listed": lambda rng: MixtureStatistics(rng.random(2), KINDS["listed"](rng)),
    "nested": nested,
    **{kind: lambda rng, kind=kind: moments_of(rng.random((9, 3, 4)), kind) for kind in SHAPES},
}


def pairwise(terms):
    """By the definition of `combine`: weighted terms, added one after the other."""
    (a, total), *rest = terms
    for b, statistics in rest:
        total, a = total.merge(a, statistics, b), 1.0
    return total if a == 1.0 else total.scale(a)


def as_listed(statistics):
    """Where `assert_identical` would bring values into an order."""
    if isinstance(statistics, Listed):
        return statistics.weights, statistics.values
    if isinstance(statistics, MixtureStatistics):
        return statistics.counts, as_listed(statistics.emissions)
    if isinstance(statistics, Nested):
        return statistics.number, statistics.arrays, as_listed(statistics.inner.right[0])
    return statistics


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
def test_a_sum_of_many_is_the_sum_of_pairs_to_the_last_bit(kind, n, rng):
    terms = [(weight, KINDS[kind](rng)) for weight in rng.random(n)]
    terms.insert(n // 2, (0.0, KINDS[kind](rng)))
    total, expected = combine(iter(terms)), pairwise([term for term in terms if term[0]])
    assert type(total) is type(expected)
    assert_identical(total, expected)
    assert_identical(as_listed(total), as_listed(expected))


def test_tuples_of_statistics_add_and_scale(rng):
    a, b = nested(rng), nested(rng)
    total = combine([(2.0, a), (0.5, b)])
    assert_allclose(total.number, 2.0 * a.number + 0.5 * b.number)
    assert_allclose(total.arrays[1], 2.0 * a.arrays[1] + 0.5 * b.arrays[1])
    assert isinstance(total.inner, Pair)
    assert_close(total.inner.left, 2.0 * a.inner.left + 0.5 * b.inner.left)
    assert_allclose((3.0 * a).inner.right[0].weights, 3.0 * a.inner.right[0].weights)
    assert_array_equal((3.0 * a).inner.right[0].values[0], a.inner.right[0].values[0])


def test_statistics_that_grow_are_copied_once(monkeypatch):
    """Not once for each term that follows."""
    copied, concatenate = [], np.concatenate

    def counted(arrays, *arguments, **keywords):
        out = concatenate(arrays, *arguments, **keywords)
        copied.append(out.size)
        return out

    terms = [(1.0, MixtureStatistics(np.ones(1), Listed(np.ones((10, 1)), np.ones((10, 3)))))] * 100
    monkeypatch.setattr(np, "concatenate", counted)
    total = combine(terms)
    assert len(total.emissions.weights) == 1000
    assert sum(copied) == 1000 * (1 + 3)


@pytest.mark.parametrize("weights", [(1e308, 1e308), (5e-324, 5e-324), (1.7e308, 5e-324)])
def test_an_average_depends_on_ratios_of_weights(weights):
    terms = [Sums(np.ones(1), np.array([[2.0]])), Sums(np.ones(1), np.array([[4.0]]))]
    average = pooled(list(zip(weights, terms, strict=True)))
    assert_allclose(average.weight, 1.0)
    assert_allclose(average.total, 3.0 if weights[0] == weights[1] else 2.0)
