"""What holds for every mixture whose components are merged and split."""

from itertools import islice

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.estimator_cases import ESTIMATORS

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import SplitMerge
from sklearn_onlineem.families import Poisson, Tied
from sklearn_onlineem.models import split_merge
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

# The family alone tells their clusters apart.
QUICK = [case for case in ESTIMATORS if not case.hidden]
all_mixtures = pytest.mark.parametrize("case", QUICK, ids=repr)


def fitted(case, X, n_components=6, **arguments):
    return case(n_components, solver=SplitMerge(), max_iter=500, **arguments).fit(X)


def criterion(mixture, X):
    return -0.5 * mixture.bic(X)


@all_mixtures
def test_it_ends_where_no_move_raises_the_criterion_and_not_below_batch_em(case, rng):
    X = case.data(rng, 300)[0]
    mixture = fitted(case, X)
    batch = case(6, solver="batch", max_iter=500).fit(X)
    assert mixture.converged_
    assert criterion(mixture, X) >= criterion(batch, X) - 1e-6 * abs(criterion(batch, X))
    # Three clusters, which no family takes for fewer.
    assert mixture.n_components_ >= 3
    assert np.count_nonzero(mixture.weights_) == mixture.n_components_


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize(("n_clusters", "n_features"), [(2, 2), (2, 6), (5, 3)])
def test_the_number_of_clusters_is_found(covariance_type, n_clusters, n_features, rng):
    centres = 8.0 * rng.permutation(np.eye(n_clusters, n_features) - np.eye(n_clusters, 1)).cumsum(
        1
    )
    centres = 12.0 * np.arange(n_clusters)[:, None] + centres
    X = centres[rng.integers(n_clusters, size=600)] + rng.standard_normal((600, n_features))
    mixture = GaussianMixture(
        3 * n_clusters, covariance_type=covariance_type, solver=SplitMerge(), random_state=0
    )
    assert mixture.fit(X).n_components_ == n_clusters


def test_a_component_over_two_clusters_is_split(rng):
    X = rng.poisson(np.where(rng.random((600, 1)) < 0.3, 2.0, 30.0), (600, 2))
    start = {"means_init": [[20.0, 20.0], [1e3, 1e3]], "weights_init": [1.0, 0.0]}
    mixture = PoissonMixture(2, solver=SplitMerge(), **start).fit(X)
    assert mixture.n_components_ == 2
    assert np.sort(mixture.rates_[:, 0]) == pytest.approx([2.0, 30.0], rel=0.1)


def test_of_several_starts_the_best_by_the_criterion_is_kept():
    X = np.random.default_rng(7).standard_t(3, size=(200, 2))

    def fitted(n_init, random_state):
        mixture = GaussianMixture(6, solver=SplitMerge(1), init="random", n_init=n_init)
        return mixture.set_params(random_state=random_state).fit(X)

    one_by_one = np.random.RandomState(0)
    alone = [fitted(1, one_by_one) for _ in range(8)]
    best = max(criterion(mixture, X) for mixture in alone)
    likeliest = max(alone, key=lambda mixture: mixture.score(X))
    assert criterion(likeliest, X) < best - 1.0
    together = fitted(8, np.random.RandomState(0))
    assert criterion(together, X) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_of_many_rows_some_say_where_to_cut(monkeypatch, dtype, rng):
    monkeypatch.setattr(split_merge, "_SPLIT_ROWS", 50)
    monkeypatch.setattr(split_merge, "_ROWS", 100)
    X = rng.standard_normal((500, 2)) + 9.0 * rng.integers(3, size=(500, 1))
    mixture = GaussianMixture(6, solver=SplitMerge(), random_state=0).fit(X.astype(dtype))
    assert mixture.n_components_ == 3


def steps_from_counts(X, weight=None, **options):
    """Two components share the cluster of mean 90; another one has those of 2 and 30."""
    model = MixtureModel(Poisson(), np.array([0.2, 0.2, 0.6]), np.array([[85.0], [95.0], [16.0]]))
    rng = np.random.default_rng(0)
    return list(model.split_merge_steps(Rows(X[:, None], weight), rng, **options))


def test_cuts_have_the_axis_and_the_units_of_repeated_rows(rng):
    X, weight = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3)), rng.integers(1, 9, 400)
    weight[np.abs(X[:, 0]) < 1.0] = 0
    family, again = GaussianMixture(1).fit(X).model_.family, np.repeat(X, weight, axis=0)
    found, expected = (
        next(iter(split_merge._cuts(family, Rows(rows, np.array(own, float)), rng)))
        for rows, own in ((X, weight), (again, np.ones(len(again))))
    )
    assert_close(np.repeat(found, weight), expected)


def test_steps_are_found_in_a_sample_of_all_rows(rng):
    """Rows in their order, of which the first are all of one cluster."""
    X = rng.poisson(np.repeat([2.0, 30.0, 90.0], [6000, 1500, 1500])).astype(float)
    [found] = steps_from_counts(X)
    rates, weights = np.sort(found.parameters[:, 0]), np.sort(found.weights)
    assert_close(rates, np.array([2.0, 30.0, 90.0]), rtol=0.05)
    assert_close(weights, np.array([1.0, 1.0, 4.0]) / 6.0, atol=0.03)


@all_mixtures
def test_merges_are_sorted_by_what_they_lose_and_keep_the_moments(case, rng):
    X = case.data(rng, 200)[0]
    mixture = case(5).fit(X)
    data = mixture._input().read(X)
    model = mixture.model_
    for moved in islice(model.split_merge_steps(data, rng, price=0.01, n_merges=3), 3):
        assert np.count_nonzero(moved.weights) == 4
        assert moved.weights.sum() == pytest.approx(1.0, rel=1e-12)
        if model.family.determined_by_means:
            before, after = (m.weights @ m.family.means(m.parameters) for m in (model, moved))
            np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-8)


def test_parameters_are_counted_of_components_that_have_weight(rng):
    X = rng.standard_normal((300, 3)) + 9.0 * (np.arange(300) % 2)[:, None]
    for covariance_type, own, shared in [("full", 9, 0), ("tied", 3, 6), ("spherical", 4, 0)]:
        mixture = GaussianMixture(5, covariance_type=covariance_type, solver=SplitMerge())
        mixture.set_params(random_state=0).fit(X)
        n = mixture.n_components_
        assert mixture.model_.n_parameters() == shared + n * (own + 1) - 1
    family = GaussianMixture(1, covariance_type="tied").fit(X).model_.family
    assert family.covariance == Tied()


@pytest.mark.filterwarnings("error:.*more surprising")
def test_streams_learn_all_rows(rng):
    """A cluster that comes up is no outlier."""
    mixture = GaussianMixture(2, solver=SplitMerge(), random_state=0)
    for rows in rng.normal(size=(10, 200, 2)):
        mixture.partial_fit(rows)
    rows[:6] += 1000.0
    assert mixture.score(rows) < mixture.partial_fit(rows).score(rows) - 100.0


@pytest.mark.parametrize("options", [{}, {"price": 0.01, "n_merges": 2}], ids=["triples", "price"])
def test_weights_of_rows_are_repeated_rows(options, rng):
    means = np.array([2.0, 30.0, 90.0])[rng.integers(3, size=300)]
    many = rng.poisson(means).astype(float), rng.integers(0, 4, 300) * np.where(means == 2.0, 5, 1)
    few = np.array([2.0, 30.0, 85.0, 95.0]), np.array([30, 40, 20, 20])
    for X, weight in (many, few):
        found = steps_from_counts(X, weight.astype(float), **options)
        expected = steps_from_counts(np.repeat(X, weight), **options)
        assert len(found) == len(expected) > 0
        for both in zip(found, expected, strict=True):
            # Cuts that are the same but for their sides may number halves differently.
            found, expected = (np.sort([m.weights, m.weights * m.parameters[:, 0]]) for m in both)
            assert_close(found, expected, rtol=1e-6)
