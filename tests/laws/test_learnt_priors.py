"""What one estimator has learnt as the prior of another: yesterday's model for today's data."""

import copy
import pickle

import numpy as np
import pytest
from cases.comparing import arrays, assert_close, assert_identical
from cases.merged_cases import MERGED
from numpy.testing import assert_allclose
from sklearn.base import clone

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.estimators._start import LearntPrior

WITH_PRIORS = [case for case in MERGED if "prior" in case()._defaults]
all_estimators = pytest.mark.parametrize("case", WITH_PRIORS, ids=repr)


def yesterdays(case, rng):
    return case().partial_fit(case.data(rng, 60)[0])


def todays(case, prior, **arguments):
    """The estimator of a case whose start is the prior's."""
    estimator = case()
    start = {name: estimator._defaults[name] for name in estimator._start_parameters}
    return estimator.set_params(**start, prior=prior, **arguments)


@all_estimators
def test_a_pass_of_batch_em_is_one_sum(case, rng):
    yesterday, X = yesterdays(case, rng), case.data(rng, 40)[0]
    prior = yesterday.as_prior(25.0)
    today = todays(case, prior, solver="batch", max_iter=1, tol=0.0).fit(X)
    data = yesterday._input().read(X)
    expected, _ = batch_step(yesterday.model_, data, [(25.0 / 40.0, prior.statistics)])
    assert_close(today.model_, expected, rtol=1e-9, atol=1e-9)


@all_estimators
def test_a_heavy_prior_stays_what_it_was(case, rng):
    yesterday, X = yesterdays(case, rng), case.data(rng, 40)[0]
    for solver in ("batch", "online"):
        today = todays(case, yesterday.as_prior(1e12), solver=solver, max_iter=2).fit(X)
        assert_close(today.model_, yesterday.model_, rtol=1e-6, atol=1e-6)


@all_estimators
def test_streams_and_clones_take_it_whatever_becomes_of_what_it_was_learnt_by(case, rng):
    yesterday, X = yesterdays(case, rng), case.data(rng, 40)[0]
    today, before = todays(case, yesterday.as_prior(10.0), max_iter=2), arrays(yesterday.model_)
    before = copy.deepcopy(before)
    twin = clone(today)
    yesterday.partial_fit(X)
    assert_identical(arrays(twin.prior.model), before)
    assert_identical(twin.fit(X).model_, clone(today).fit(X).model_)
    today.partial_fit(X[:20])
    resumed = pickle.loads(pickle.dumps(today))
    assert_identical(resumed.partial_fit(X[20:]).model_, today.partial_fit(X[20:]).model_)


def test_it_adds_to_the_hyperparameters_of_weights(rng):
    X = rng.standard_normal((60, 2)) + 8.0 * (np.arange(60) % 2)[:, None]
    yesterday = GaussianMixture(2, random_state=0).fit(X)
    prior = yesterday.as_prior(20.0)
    mixture = GaussianMixture(2, prior=prior, weight_concentration_prior=6.0, solver="batch")
    mixture.fit(X[::2])
    counts = 20.0 * yesterday.weights_ + 5.0 + 30.0 * mixture.predict_proba(X[::2]).mean(axis=0)
    assert_allclose(mixture.weights_, counts / 60.0, atol=1e-3)


def test_its_repr_is_short(rng):
    prior = GaussianMixture().fit(rng.standard_normal((20, 2))).as_prior(1500)
    assert isinstance(prior, LearntPrior)
    assert repr(prior) == "LearntPrior(GaussianMixture, weight=1500)"
