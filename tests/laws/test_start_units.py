"""Starts depend neither on the units of columns, nor on the order of rows, nor on repeated rows."""

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS, normal_clusters
from cases.sequence_cases import SEQUENCE_ESTIMATORS
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from sklearn_onlineem import BernoulliMixture, GaussianMixture, MultinomialMixture, PoissonMixture
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.estimators.base import set_start

all_inits = pytest.mark.parametrize("init", sorted(set(STARTS) - {"kmeans"}))
all_estimators = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
CASES = [*ESTIMATORS, *SEQUENCE_ESTIMATORS]


def data_of(case, rng):
    """Rows or sequences, and their number of columns."""
    X, _ = case.data(rng)
    return X, X[0].shape[-1]


def times(X, scales):
    return [x * scales for x in X] if isinstance(X, list) else X * scales


def units(case, n_columns, exponents):
    """Powers of two by columns, as far as the model can follow them."""
    scales = 2.0 ** exponents[:n_columns]
    if "spherical" in repr(case):
        return np.full(n_columns, scales[0])
    if case.is_matrix:
        side = np.sqrt(n_columns).astype(int)
        return np.outer(scales[:side], scales[:side]).ravel()
    return scales


def means(estimator):
    """Means of the columns that data have, which are the last ones."""
    model = estimator.model_
    return model.family.means(model.parameters)[:, -estimator.n_features_in_ :]


# Larger numbers would be promoted to double precision.
@cases_where(lambda case: case.is_scalable or case.takes_any_number, CASES)
@all_inits
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_units_change_no_bit_of_a_start(case, init, dtype, rng):
    X, n_columns = data_of(case, rng)
    X = [x.astype(dtype) for x in X] if isinstance(X, list) else X.astype(dtype)
    scales = units(case, n_columns, rng.integers(-6, 3, n_columns)).astype(dtype)
    here, there = (set_start(case(init=init), rows) for rows in (X, times(X, scales)))
    assert_array_equal(means(there), means(here) * scales)


@cases_where(lambda case: case.is_scalable, CASES)
@all_inits
def test_units_change_no_label_of_a_fit(case, init, rng):
    X, n_columns = data_of(case, rng)
    scales = units(case, n_columns, rng.uniform(-15.0, 15.0, n_columns))
    here, there = (case(init=init, max_iter=20).fit(rows) for rows in (X, times(X, scales)))
    # Converged fits differ by rounding errors along flat directions.
    assert_allclose(means(there), means(here) * scales, rtol=1e-6)
    found, expected = there.predict(times(X, scales)), here.predict(X)
    assert_array_equal(np.hstack(found), np.hstack(expected))


def test_a_constant_column_has_no_say(rng):
    X = normal_clusters(rng, np.arange(60) % 3)
    for covariance_type in ("full", "tied", "diag", "spherical"):
        mixture = GaussianMixture(3, covariance_type=covariance_type, random_state=0)
        expected = mixture.fit_predict(X)
        for value in (0.0, 3.0, -1e9):
            assert_array_equal(mixture.fit_predict(np.insert(X, 1, value, axis=1)), expected)


@all_estimators
@all_inits
def test_a_row_of_weight_2_starts_as_two_rows(case, init, rng):
    X, _ = case.data(rng)
    weights = rng.integers(0, 4, len(X))
    repeated = np.repeat(X, weights, axis=0)
    forms = [(X, weights), (rng.permutation(repeated), None)]
    if case.sparse:
        forms.append((sparse.csr_array(repeated), None))
    first, *others = (
        set_start(case(init=init), rows, sample_weight=weight).model_ for rows, weight in forms
    )
    for other in others:
        assert_close(other, first)
    fits = [
        case(init=init, solver="batch", max_iter=5).fit(rows, sample_weight=weight)
        for rows, weight in forms[:2]
    ]
    assert_close(fits[1].model_, fits[0].model_, rtol=1e-7, atol=1e-7)


@all_estimators
@all_inits
def test_the_order_of_rows_changes_no_bit_of_a_start(case, init, rng):
    X, _ = case.data(rng)
    here, there = (set_start(case(init=init), rows).model_ for rows in (X, rng.permutation(X)))
    assert_identical(there, here)


def parallel_lines(rng, n_rows, n_columns, n_clusters, is_white):
    """Clusters a few standard deviations apart along one direction, very long along all others."""
    y = rng.integers(n_clusters, size=n_rows)
    X = rng.standard_normal((n_rows, n_columns))
    X[:, 0] += 6.0 * y
    X[:, 1:] *= 100.0
    turn, _ = np.linalg.qr(rng.standard_normal((n_columns, n_columns)))
    X = X @ turn
    if is_white:
        X = np.linalg.solve(np.linalg.cholesky(np.cov(X.T)), (X - X.mean(axis=0)).T).T
    return X, y


@pytest.mark.parametrize("is_white", [False, True], ids=["long", "white"])
@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_clusters"),
    [(1000, 2, 2), (1000, 2, 5), (3000, 30, 2), (3000, 30, 3), (8000, 30, 5)],
)
@pytest.mark.parametrize("covariance_type", ["full", "tied"])
def test_long_parallel_clusters(n_rows, n_columns, n_clusters, is_white, covariance_type, rng):
    """scikit-learn's issue 34842, where k-means of the rows cuts all clusters across."""
    X, y = parallel_lines(rng, n_rows, n_columns, n_clusters, is_white)
    mixture = GaussianMixture(n_clusters, covariance_type=covariance_type, random_state=0)
    assert adjusted_rand_score(y, mixture.fit_predict(X)) > 0.9


def test_dependent_columns(rng):
    """A total covariance of lower rank."""
    X, y = parallel_lines(rng, 1000, 2, 3, False)
    X = X @ rng.standard_normal((2, 6))
    for dtype in ("float32", "float64"):
        found = GaussianMixture(3, random_state=0).fit_predict(X.astype(dtype))
        assert adjusted_rand_score(y, found) > 0.9


@pytest.mark.parametrize("kind", [MultinomialMixture, PoissonMixture, BernoulliMixture])
def test_documents_of_any_length(kind, rng):
    """Clusters of words, in documents whose lengths would decide distances between counts."""
    topics = rng.dirichlet(np.full(200, 0.1), 5)
    y = rng.integers(5, size=1500)
    lengths = np.rint(np.exp(rng.normal(4.0, 1.0, len(y)))).astype(int) + 20
    X = rng.multinomial(lengths, topics[y]).astype(float)
    if kind is PoissonMixture:  # whose clusters have lengths
        X = rng.poisson(200.0 * topics[y] * np.array([1.0, 1.0, 3.0, 3.0, 9.0])[y][:, None])
    found = [kind(5, random_state=seed).fit_predict(X) for seed in range(4)]
    assert np.median([adjusted_rand_score(y, labels) for labels in found]) > 0.9
