"""Kalman filters that are merged: theirs is a curved family, whose states have any coordinates."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from laws.cases import assert_close
from laws.numerical import minimiser
from sklearn_onlineem import KalmanFilter, combine_estimators
from sklearn_onlineem.distributed import DistributedEM


def sequences(rng, n, length=12):
    steps = rng.standard_normal((n, length, 2)).cumsum(axis=1)
    return list(steps + 0.5 * rng.standard_normal(steps.shape))


def members(rng, n=3, **arguments):
    common = KalmanFilter(n_dim_state=2, random_state=0, **arguments)
    common.partial_fit(sequences(rng, 20))
    parts = [copy.deepcopy(common) for _ in range(n)]
    for part in parts:
        part.partial_fit(sequences(rng, 10, rng.integers(5, 20)))
    return parts


@pytest.mark.parametrize("method", ["entropic", "averaging"])
def test_merging_is_associative_and_keeps_identical_models(method, rng):
    a, b, c = members(rng)

    def merge(*parts):
        return combine_estimators(parts, method=method)

    assert_close(merge(a, copy.deepcopy(a)).model_, a.model_, rtol=1e-8)
    assert_close(merge(merge(a, b), c).model_, merge(a, b, c).model_, rtol=1e-8)
    assert merge(a, b, c).partial_fit(sequences(rng, 5)).n_samples_seen_ == 95


def test_the_merged_filter_is_the_argmin_of_the_divergences(rng):
    """Over the moves and the readings, the covariances aside."""
    parts = members(rng)
    merged = combine_estimators(parts).model_
    progress = [part._training.progress for part in parts]

    def model_of(vector):
        A, C = vector.reshape(2, 2, 2)
        return replace(merged, transition=A.copy(), observation=C.copy())

    def objective(vector):
        new = model_of(vector)
        return sum(p.model.kl_divergence(new, p.lengths) for p in progress)

    start = np.concatenate([parts[0].model_.transition, parts[0].model_.observation]).ravel()
    found = model_of(minimiser(objective, start))
    assert_allclose(merged.transition, found.transition, atol=1e-6)
    assert_allclose(merged.observation, found.observation, atol=1e-6)


def test_other_coordinates_are_aligned_to_those_of_the_reference(rng):
    a, b, _ = members(rng)
    expected = b.model_.aligned_to(a.model_)
    T = rng.standard_normal((2, 2)) + 2.0 * np.eye(2)
    inverse, model = np.linalg.inv(T), b.model_
    moved = replace(
        model,
        initial_mean=T @ model.initial_mean,
        initial_covariance=T @ model.initial_covariance @ T.T,
        transition=T @ model.transition @ inverse,
        transition_offset=T @ model.transition_offset,
        transition_covariance=T @ model.transition_covariance @ T.T,
        observation=model.observation @ inverse,
    )
    assert_close(moved.aligned_to(a.model_), expected, rtol=1e-8)
    data = a._data_of(sequences(rng, 4), reset=False)
    assert_allclose(expected.log_likelihood(data), model.log_likelihood(data), rtol=1e-8)


def test_filters_learn_from_shards(rng):
    X = sequences(rng, 24)
    estimator = KalmanFilter(n_dim_state=2, random_state=0, max_iter=3, tol=0.0, batch_size=4)
    for mode in ("batch", "synchronous", "asynchronous"):
        learner = DistributedEM(estimator, mode=mode, n_shards=3).fit(X)
        assert learner.estimator_.n_samples_seen_ == 24
        assert np.isfinite(learner.score(X))
