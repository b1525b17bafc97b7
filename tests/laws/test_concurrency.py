"""Estimators in several threads at once: each is as if it were alone. `make test-threads` runs
this on a Python without a global lock, and under the sanitizer of threads.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from cases.merged_cases import MERGED
from numpy.testing import assert_equal

N_THREADS = 4

pytestmark = pytest.mark.threads
all_estimators = pytest.mark.parametrize("case", MERGED, ids=repr)


def at_once(task):
    """What threads that start a task together return, each."""
    together = Barrier(N_THREADS, timeout=60)

    def run(_):
        together.wait()
        return task()

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(run, range(N_THREADS)))


def learnt(case, X):
    """Bits of all that batches and a stream teach."""
    return [pickle.dumps(case(n_jobs=1, max_iter=2).fit(X)), pickle.dumps(case().partial_fit(X))]


def used(estimator, X):
    """All that a fitted estimator says of data, by the names of the methods."""
    asked = ("predict", "predict_proba", "score", "score_samples", "transform", "decode", "smooth")
    said = {name: getattr(estimator, name)(X) for name in asked if hasattr(estimator, name)}
    assert said
    return said


@all_estimators
def test_models_that_threads_learn_are_those_that_one_learns(case, rng):
    X, _ = case.data(rng)
    alone = learnt(case, X)
    assert at_once(lambda: learnt(case, X)) == [alone] * N_THREADS


@all_estimators
def test_threads_that_ask_one_estimator_hear_what_one_hears(case, rng):
    X, _ = case.data(rng)
    estimator = case(max_iter=2).fit(X)
    alone = used(estimator, X)
    for said in at_once(lambda: used(estimator, X)):
        assert_equal(said, alone)
