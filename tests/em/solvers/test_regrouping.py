"""What holds for every mixture whose components are merged and split at a fixed number."""

import numpy as np
import pytest
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.mixture_cases import MIXTURES
from scipy import sparse
from sklearn.datasets import load_digits

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem._values import components, with_components
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Auto, SplitMerge
from sklearn_onlineem.em.solvers.split_merge import split_merge_step
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.models import split_merge

FIXED = SplitMerge(n_components="fixed")
all_mixtures = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
# Components at clusters 0, 0 and 1 of three: two share one cluster, and one has to take two.
SHARES = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])


def stuck_start(y, rng):
    """Responsibilities that EM keeps: halves of the first cluster at random, the others as one."""
    halves = np.eye(3)[rng.integers(2, size=len(y))]
    return np.where((y == 0)[:, None], 0.9 * halves + 0.1 * SHARES[y], SHARES[y])


def log_joint(model, data, terms=()):
    """Mean log-likelihood plus log prior."""
    log_likelihood = model.e_step(data)[1]
    return log_likelihood + sum(a * model.expected_log_likelihood(s) for a, s in terms)


@pytest.mark.parametrize("case", by_likelihood(ESTIMATORS), ids=repr)
def test_two_components_on_one_cluster_and_one_on_two_come_apart(case, rng):
    X, y = case.data(rng, 600)
    best = case(3, init=np.eye(3)[y], solver="batch", tol=1e-5, max_iter=1000).fit(X)
    start = {"init": stuck_start(y, rng), "max_iter": 1000}
    stuck = case(3, solver="batch", **start).fit(X)
    freed = case(3, solver=FIXED, tol=1e-5, **start).fit(X)
    assert best.score(X) > stuck.score(X) + 0.1
    assert freed.score(X) == pytest.approx(best.score(X), abs=2e-3)
    found = freed.predict(X)
    assert sorted(np.bincount(found[y == k]).argmax() for k in range(3)) == [0, 1, 2]


@pytest.mark.parametrize("case", by_likelihood(ESTIMATORS), ids=repr)
def test_the_likelihood_never_falls_and_all_components_stay(case, rng):
    X = case.data(rng, 300)[0]
    mixture = case(7, solver=FIXED, init="random_from_data", tol=1e-4, max_iter=200).fit(X)
    bounds = np.array(mixture.lower_bounds_)
    # In floors, and in weighted medians of single precision, EM itself loses some digits.
    assert (np.diff(bounds) > -1e-6 * np.abs(bounds[1:])).all()
    assert mixture.score(X) >= bounds.max() - 1e-6 * abs(bounds.max())
    assert mixture.model_.n_components == len(mixture.weights_) == 7
    batch = case(7, solver="batch", init="random_from_data", tol=1e-4, max_iter=200).fit(X)
    assert mixture.score(X) >= batch.score(X) - 1e-2


@pytest.mark.parametrize("case", MIXTURES, ids=repr)
def test_a_step_raises_the_posterior_of_all_rows_or_is_none(case, rng):
    model = case.draw(rng, 5)
    data = Rows(case.data(rng, 400).X, rng.uniform(0.0, 2.0, 400))
    prior = (
        case.prior(model, data.n_features, 2.0)
        if hasattr(model.family, "prior_statistics")
        else None
    )
    for terms in [(), ((1.0 / data.total_weight, prior),)] if prior is not None else [()]:
        present = model
        for _ in range(5):
            present, _ = batch_step(present, data, terms)
        before = log_joint(present, data, terms)
        found = split_merge_step(present, data, rng, terms)
        if found is None:
            continue
        new, log_likelihood, gain = found
        assert log_likelihood == pytest.approx(present.e_step(data)[1], rel=1e-12)
        assert log_joint(new, data, terms) - before == pytest.approx(gain, rel=1e-6, abs=1e-9)
        assert gain > 0.0 and new.weights.sum() == pytest.approx(1.0, rel=1e-12)


def test_a_sample_of_many_rows_is_enough(monkeypatch, rng):
    for name, value in {"_ROWS": 150, "_MERGE_ROWS": 60, "_SPLIT_ROWS": 40}.items():
        monkeypatch.setattr(split_merge, name, value)
    monkeypatch.setattr(split_merge, "_ROWS_PER_PARAMETER", 1)
    centres = 9.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])
    y = rng.integers(5, size=2000)
    X = centres[y] + rng.standard_normal((2000, 2))
    start = centres[[0, 0, 0, 3, 4]] + 0.1 * rng.standard_normal((5, 2))
    mixture = GaussianMixture(5, solver=FIXED, init=start, max_iter=300).fit(X)
    found = mixture.means_[np.lexsort(mixture.means_.round().T)]
    np.testing.assert_allclose(found, centres[np.lexsort(centres.T)], atol=0.3)


def test_a_prior_of_each_component_is_part_of_the_objective(rng):
    """Rows would be explained better by a split that the prior of the components forbids."""
    y = np.arange(300) % 3
    X = rng.standard_normal((300, 1)) + 9.0 * y[:, None]
    held = {"mean": [[0.0], [0.0], [13.5]], "mean_precision": 1e9}
    prior = {**held, "covariance": 1e-3, "degrees_of_freedom": 1.0}
    start = {"init": stuck_start(y, rng), "prior": prior, "max_iter": 300}
    batch = GaussianMixture(3, solver="batch", **start).fit(X)
    fixed = GaussianMixture(3, solver=FIXED, **start).fit(X)
    np.testing.assert_allclose(np.sort(fixed.means_.ravel()), [0.0, 0.0, 13.5], atol=1e-3)
    np.testing.assert_allclose(fixed.means_, batch.means_, atol=1e-3)


def test_one_fit_in_two_beats_the_best_of_five_on_digits():
    X = load_digits().data[:, 20:28] + np.random.default_rng(0).random((1797, 8))
    plain = Auto(split_merge=False)
    fits = [GaussianMixture(10, solver=plain, random_state=k).fit(X).score(X) for k in range(5)]
    moved = [GaussianMixture(10, solver=FIXED, random_state=k).fit(X).score(X) for k in range(7)]
    assert np.median(moved) > max(fits) - 0.01


def test_one_and_two_components_are_those_of_batch_em(rng):
    X = rng.poisson(5.0, (100, 2)).astype(float)
    for n_components in (1, 2):
        fixed, batch = (
            PoissonMixture(n_components, solver=solver, random_state=0, tol=1e-8, max_iter=500)
            for solver in (FIXED, "batch")
        )
        assert fixed.fit(X).score(X) == pytest.approx(batch.fit(X).score(X), abs=1e-5)


def test_a_component_without_weight_takes_half_of_another(rng):
    X = rng.poisson(np.array([2.0, 30.0, 90.0])[np.arange(600) % 3][:, None], (600, 2))
    start = {"means_init": [[2.0, 2.0], [60.0, 60.0], [1e3, 1e3]], "weights_init": [0.5, 0.5, 0.0]}
    mixture = PoissonMixture(3, solver=FIXED, **start).fit(X)
    assert np.sort(mixture.rates_[:, 0]) == pytest.approx([2.0, 30.0, 90.0], rel=0.1)


def test_components_are_taken_and_put_back():
    value = np.arange(8.0).reshape(4, 2), (np.eye(2)[None], np.arange(4))
    some = components(value, [3, 1], 4)
    np.testing.assert_array_equal(some[0], [[6.0, 7.0], [2.0, 3.0]])
    assert some[1][0] is value[1][0]
    back = with_components(value, [0, 2], some, 4)
    np.testing.assert_array_equal(back[0], [[6, 7], [2, 3], [2, 3], [6, 7]])
    np.testing.assert_array_equal(back[1][1], [3, 1, 1, 3])
    np.testing.assert_array_equal(value[0][0], [0.0, 1.0])


@pytest.mark.parametrize("case", [case for case in ESTIMATORS if case.sparse], ids=repr)
def test_sparse_rows_find_what_dense_rows_do(case, rng):
    X, y = case.data(rng, 600)
    start = {"init": stuck_start(y, rng), "max_iter": 300, "solver": FIXED}
    dense, other = (case(3, **start).fit(rows) for rows in (X, sparse.csr_array(X)))
    assert other.score(X) == pytest.approx(dense.score(X), abs=1e-3)
