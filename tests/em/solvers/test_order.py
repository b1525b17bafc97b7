"""The random order of a pass."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.em.solvers import base
from sklearn_onlineem.em.solvers.base import shuffled
from sklearn_onlineem.estimators._start import _some_rows


@pytest.fixture
def short_runs(monkeypatch):
    """Many observations are more than 100: runs of 4, 10 in a part."""
    for name, value in (("_IN_ONE_PART", 100), ("_RUNS", 10), ("_RUN", 4)):
        monkeypatch.setattr(base, name, value)


@pytest.mark.parametrize("n", [1, 100, 101, 103, 160, 999])
@pytest.mark.parametrize("batch_size", [1, 7, 40, 5000])
def test_each_observation_comes_once(n, batch_size, short_runs):
    parts = list(shuffled(n, batch_size, np.random.default_rng(0)))
    assert sorted(np.concatenate(parts)) == list(range(n))
    assert all(len(part) % batch_size == 0 for part in parts[:-1])


def test_few_observations_are_one_permutation(short_runs):
    (order,) = shuffled(100, 7, np.random.default_rng(0))
    assert np.array_equal(order, np.random.default_rng(0).permutation(100))


def test_a_part_is_a_sample_of_runs_from_everywhere(short_runs):
    first = next(shuffled(4000, 40, np.random.default_rng(0)))
    runs, counts = np.unique(first // 4, return_counts=True)
    assert len(runs) == 10 and (counts == 4).all()
    assert runs.min() < 250 and runs.max() > 750
    assert (np.diff(first) != 1).any()


def test_a_fit_sees_every_row(short_runs, rng):
    X = rng.poisson(3.0, (501, 2)).astype(float)
    mixture = PoissonMixture(1, solver="online", eta0=1.0, beta=1.0, max_iter=1, batch_size=50)
    # With rates 1 / t of equal batches and the rest, the mean of all rows so far.
    with pytest.warns(ConvergenceWarning):
        fitted = mixture.set_params(random_state=0, prior=None).fit(X)
    assert fitted.n_samples_seen_ == 501
    assert np.allclose(fitted.means_[0], X.mean(axis=0), rtol=0.02)


def test_memory_does_not_grow_with_the_number_of_observations():
    tracemalloc.start()
    order = next(shuffled(10**8, 1000, np.random.default_rng(0)))
    some = _some_rows(Lazy(10**8), 2, 2**16, np.random.RandomState(0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(order) > 10**5 and len(np.unique(some)) == len(some) > 10**4
    assert peak < 10**8  # an order of all would take eight times as much


class Lazy(NamedTuple):
    """As many rows, without any."""

    n: int
    labels: None = None

    def __len__(self):
        return self.n
