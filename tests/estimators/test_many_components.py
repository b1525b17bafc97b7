"""Starts, fits and labels with more rows and components than need all of them in one array."""

import tracemalloc

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_onlineem import GaussianMixture, MultinomialMixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.estimators import _start
from sklearn_onlineem.estimators._start import STARTS, start_model, sums, wide_pseudo_rows
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Tied

MANY = 300
all_families = pytest.mark.parametrize(
    "case", [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES], ids=repr
)


def many_clusters(rng, n=6000):
    """Rows about the points of a grid, 7 x 7 x 7, and the number of the point of each."""
    points = np.stack(np.meshgrid(*3 * [np.arange(7.0)]), axis=-1).reshape(-1, 3)
    labels = rng.integers(len(points), size=n)
    return points[labels] + 0.05 * rng.standard_normal((n, 3)), labels


@all_families
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_by_groups_of_clusters_are_those_of_all(case, weighted, rng):
    # A mean of no rows is any.
    X, labels = case.rows(rng, 900, 4), rng.permutation(900) % MANY
    weight = rng.uniform(0.5, 2.0, size=900) if weighted else None
    shares = (labels[:, None] == np.arange(MANY)) * (1.0 if weight is None else weight[:, None])
    family = case.family.bind(X)
    counts, statistics = sums(family, Rows(X, weight), labels, MANY)
    assert_close(counts, shares.sum(axis=0))
    assert_close(statistics, family.expected_statistics(X, shares), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("covariance", [Full(), Tied(), Diagonal()], ids=repr)
def test_wide_pseudo_rows_need_no_column_for_each_component(covariance, rng, monkeypatch):
    X = rng.standard_normal((500, 3))
    family = Gaussian(covariance).bind(X)
    found = wide_pseudo_rows(family, Rows(X), MANY)
    monkeypatch.setattr(_start, "_MANY_COMPONENTS", MANY)
    assert_close(found, wide_pseudo_rows(family, Rows(X), MANY))


@pytest.mark.parametrize("init", sorted(set(STARTS) - {"kmeans", "random"}))
@pytest.mark.parametrize("stream", [False, True])
def test_a_start_has_no_array_of_rows_and_components(init, stream, rng):
    n, K = 20_000, 400
    X = rng.standard_normal((n, 2))
    family = Gaussian().bind(X)
    tracemalloc.start()
    pseudo_rows = wide_pseudo_rows(family, Rows(X), K) if stream else None
    start_model(init, family, Rows(X), K, np.random.RandomState(0), pseudo_rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * K * 8 / 4


def test_labelled_rows_number_many_clusters(rng):
    X, labels = many_clusters(rng)
    known = np.where(rng.random(len(X)) < 0.2, labels, -1)
    mixture = GaussianMixture(
        343, covariance_type="spherical", semi_supervised=True, random_state=0, max_iter=0
    )
    means = mixture.fit(X, known).means_
    nearest = ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == labels).mean() > 0.8


@pytest.mark.parametrize("init", sorted(set(STARTS) - {"kmeans", "random"}))
def test_sparse_rows_start_many_components_as_dense_ones(init, rng):
    X = rng.poisson(1.0, size=(900, 30)).astype(float)
    mixture = MultinomialMixture(MANY, init=init, random_state=0, max_iter=0)
    dense = mixture.fit(X).model_
    assert_identical(mixture.fit(sparse.csr_array(X)).model_, dense)


def test_predictions_need_no_array_of_rows_and_components(rng):
    X, _ = many_clusters(rng, 30_000)
    mixture = GaussianMixture(343, covariance_type="diag", max_iter=2, random_state=0).fit(X)
    shares = mixture.predict_proba(X)
    tracemalloc.start()
    found = mixture.predict(X)
    mixture.score(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_array_equal(found, shares.argmax(axis=1))
    assert peak < shares.nbytes / 2


@pytest.mark.parametrize("mixture", [GaussianMixture(3), PoissonMixture(3)], ids=repr)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_labels_have_the_largest_responsibility(mixture, missing, rng):
    X = rng.poisson(rng.choice([1.0, 6.0, 20.0], size=(9_000, 1)), (9_000, 2)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    mixture.set_params(random_state=0, max_iter=2, tol=0.0).fit(X[:500])
    labels = mixture.predict(X)
    assert labels.dtype == np.intp and len(np.unique(labels)) == 3
    assert np.array_equal(labels, mixture.predict_proba(X).argmax(axis=1))
