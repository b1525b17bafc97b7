"""Parameters of distributed EM: NumPy's integers are as good as Python's, nonsense is named."""

import inspect
import math

import joblib
import numpy as np
import pytest
from cases.comparing import assert_identical
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.distributed import DistributedEM, _executors

# Valid, and the largest of int8, so that one more is none.
NUMBERS = {
    "sync_every": 127,
    "n_passes": 127,
    "n_shards": 127,
    "n_jobs": 127,
    "worker_timeout": 127,
}
BOOLEANS = ["shuffle", "warm_start", "progress"]
CHOICES = ["mode", "combine"]
NONSENSE = [0, -1, math.nan, -math.inf, np.int8(-3), np.float32(np.nan), np.False_, "2", [2], 2j]
# Parameters for which these values make sense.
SENSIBLE = {"-1": ["n_jobs"], "np.int8(-3)": ["n_jobs"], "np.False_": BOOLEANS}
HUGE = 10**400


@pytest.fixture
def X(rng):
    return rng.poisson(rng.choice([1.0, 20.0], size=(400, 1)))


def learner(**arguments):
    mixture = PoissonMixture(2, random_state=0, max_iter=2, batch_size=2)
    defaults = {"estimator": mixture, "n_shards": 2, "mode": "synchronous"}
    return DistributedEM(**{**defaults, **arguments})


def test_each_parameter_is_examined_here():
    known = {"estimator", *NUMBERS, *BOOLEANS, *CHOICES}
    assert set(inspect.signature(DistributedEM).parameters) == known


@pytest.mark.parametrize("name", NUMBERS)
def test_a_numpy_integer_is_the_integer(name, X):
    X = X[:300] if name == "n_shards" else X[:40]
    given = np.int8(NUMBERS[name])
    with joblib.parallel_config("threading"):
        expected = learner(**{name: NUMBERS[name]}).fit(X)
        found = learner(**{name: given}).fit(X)
    assert_identical(found.estimator_.model_, expected.estimator_.model_)
    assert len(found.history_) == len(expected.history_)
    assert found.get_params()[name] is given
    assert type(clone(found).get_params()[name]) is np.int8


@pytest.mark.parametrize("n_shards", [np.uint8(255), 255])
def test_no_number_of_shards_wraps_around(n_shards, X):
    fitted = learner(n_shards=n_shards).fit(np.tile(X, (2, 1)))
    assert sum(each.n_seen for each in fitted.history_) == 2 * len(X)


@pytest.mark.parametrize("name", [*NUMBERS, *BOOLEANS, *CHOICES])
@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_is_refused_by_name(name, value, X):
    if name in SENSIBLE.get(repr(value), ()):
        return
    fitted = learner().fit(X[:40])
    known = vars(fitted).copy()
    with pytest.raises(InvalidParameterError, match=f"{name}.* of DistributedEM"):
        fitted.set_params(**{name: value}).fit(X)
    assert {**vars(fitted), name: None} == {**known, name: None}


@pytest.mark.parametrize("name", ["sync_every", "n_shards", "worker_timeout"])
def test_huge_numbers_mean_what_they_say(name, X):
    most = {"sync_every": len(X), "n_shards": len(X), "worker_timeout": math.inf}
    single = PoissonMixture(1, random_state=0, batch_size=2)
    expected, found = (
        learner(estimator=single, **{name: value}).fit(X) for value in (most[name], HUGE)
    )
    assert_identical(found.estimator_.model_, expected.estimator_.model_)


def test_passes_without_end_end_where_a_callback_says_so(X):
    endless = learner(n_passes=HUGE)
    endless.estimator.set_params(callbacks=[lambda step: True])
    assert len(endless.fit(X).history_) == 1


def test_no_more_jobs_are_started_than_there_are_shards(X, monkeypatch):
    """Processes by the million would take the machine down."""
    asked = []

    def parallel(n_jobs):
        asked.append(n_jobs)
        return joblib.Parallel(n_jobs=1)

    monkeypatch.setattr(_executors, "Parallel", parallel)
    learner(n_jobs=2**31 - 1, n_shards=3).fit(X)
    assert set(asked) == {3}
