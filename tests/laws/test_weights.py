"""Weights of rows and of members, from the smallest numbers to the largest: finite, or refused."""

import numpy as np
import pytest
from cases.comparing import arrays, assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.merged_cases import MERGED, WAYS

from sklearn_onlineem import combine_estimators

pytestmark = pytest.mark.filterwarnings("ignore")

all_estimators = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
representatives = pytest.mark.parametrize(
    "case", [case for case in ESTIMATORS if repr(case) in WAYS], ids=repr
)
all_merged = pytest.mark.parametrize("case", MERGED, ids=repr)
METHODS = ("entropic", "averaging", "sampled")
SOLVERS = [
    {"max_iter": 5},
    {"max_iter": 5, "solver": "online", "batch_size": 10},
    {"max_iter": 5, "solver": "batch"},
]


def is_finite(model):
    return all(np.isfinite(a).all() for a in arrays(model) if a.dtype.kind == "f")


@pytest.mark.parametrize("weight", [5e-324, 1e-200, 1e200, 1.7e308])
@representatives
def test_weights_that_vanish_or_overflow_are_refused(case, weight, rng):
    X = case.data(rng)[0]
    weights = np.full(len(X), weight)
    estimator = case()
    for learn in (estimator.fit, estimator.partial_fit):
        with pytest.raises(
            ValueError, match=rf"{type(estimator).__name__}.*sample_weight must have a sum"
        ):
            learn(X, sample_weight=weights)
    estimator.fit(X)
    model = estimator.model_
    with pytest.raises(ValueError, match="sample_weight must have a sum"):
        estimator.partial_fit(X, sample_weight=weights)
    assert estimator.model_ is model


@pytest.mark.parametrize(
    ("small", "large", "arguments"), [(1e-99, 1e97, SOLVERS[1]), (1e97, 1e97, SOLVERS[2])], ids=str
)
@all_estimators
def test_weights_that_are_taken_give_finite_models(case, small, large, arguments, rng):
    X = case.data(rng)[0]
    weights = np.where(np.arange(len(X)) < 0.9 * len(X), small, large)
    estimator = case(**arguments).fit(X, sample_weight=weights)
    assert is_finite(estimator.model_)
    assert np.isfinite(estimator.lower_bound_)
    estimator.partial_fit(X[:10], sample_weight=np.full(10, small)).partial_fit(X)
    assert is_finite(estimator.model_)


@pytest.mark.parametrize("arguments", SOLVERS, ids=str)
@representatives
def test_vanishing_weights_are_zeros(case, arguments, rng):
    X = case.data(rng)[0]
    heavy = np.arange(len(X)) < 0.1 * len(X)
    found, expected = (
        case(**arguments).fit(X, sample_weight=np.where(heavy, 1.0, small)) for small in (5e-324, 0)
    )
    assert is_finite(found.model_)
    assert_identical(found.model_, expected.model_)


def members(case, rng):
    X = case.data(rng)[0]
    start = case().fit(X)
    return [start, case().fit(X[: len(X) // 2])]


def merged(both, weights, method):
    arguments = {"method": method, "random_state": 0, "n_pseudo_samples": 500}
    return combine_estimators(both, weights=weights, **arguments).model_


@all_merged
def test_only_ratios_of_members_weights_matter(case, rng):
    both = members(case, rng)
    for method in METHODS:
        expected = merged(both, [1.0, 2.0], method)
        assert is_finite(expected)
        for scale in (-1073, -1030, -300, 300, 1022):
            assert_identical(merged(both, np.ldexp([1.0, 2.0], scale), method), expected)


@all_merged
def test_a_member_of_vanishing_weight_says_nothing(case, rng):
    both = members(case, rng)
    for method in METHODS:
        expected = merged(both, [1.0, 0.0], method)
        # Powers of two: others round, which shows where data hardly determine a parameter.
        for weights in ([2.0**1023, 5e-324], [2.0**500, 1e-100], [1.0, 5e-324]):
            found = merged(both, weights, method)
            assert is_finite(found)
            assert_close(found, expected)
