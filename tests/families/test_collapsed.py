"""Posterior predictives, draws from posteriors, and sweeps of collapsed Gibbs sampling."""

import itertools

import numpy as np
import pytest
from cases.collapsed_cases import (
    CONJUGATE_FAMILIES,
    OTHER_FAMILIES,
    collapsed_sweep,
    given,
    log_posteriors,
)
from cases.family_cases import case_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import gammaln

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    Exponential,
    MarkovChain,
    Multinomial,
    Poisson,
    Tied,
)
from sklearn_onlineem.families._collapsed import log_rising, over_values
from sklearn_onlineem.families.gamma import FixedShapeGamma
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.statistics import Sums

by_family = pytest.mark.parametrize("case", CONJUGATE_FAMILIES, ids=repr)
# Draws of which as many components may be made as one likes.
by_own = pytest.mark.parametrize(
    "case", [case for case in CONJUGATE_FAMILIES if case is not case_of(Tied)], ids=repr
)
SPARSE = [case for case in CONJUGATE_FAMILIES if case.counts]


def problem(case, rng, n=12, d=3, n_components=2):
    """A family, its prior, rows, components and unequal concentrations of these."""
    family = case.family
    X, labels = case.rows(rng, n, d), rng.integers(0, n_components, n).astype(np.intc)
    n_columns = X.shape[1]
    prior = family.prior_statistics(n_components, n_features=n_columns, **case.prior(n_columns))
    return family, prior, X, labels, rng.uniform(0.3, 3.0, n_components)


# ---------------------------------------------------------------------------------- predictives


@by_own
def test_predictives_are_means_of_densities_over_the_posterior(case, rng):
    """Of draws from it: this is a law of draws, too."""
    n_draws = 20_000
    family, prior, X, labels, _ = problem(case, rng)
    own = given(family, prior, X, labels)
    many = type(own)(*(np.repeat(part[:1], n_draws, axis=0) for part in vars(own).values()))
    densities = np.exp(family.log_density(family.draw_from_posterior(many, rng), X))
    expected = np.exp(family.predictive_log_density(own, X)[:, 0])
    error = densities.std(axis=1) / np.sqrt(n_draws)
    assert (np.abs(densities.mean(axis=1) - expected) < 5.0 * error + 1e-12).all()
    # Enough draws to tell, but for rows that are under hardly any of them.
    assert (error < 0.05 * expected).mean() > 0.5


@by_family
def test_rows_are_exchangeable(case, rng):
    family, prior, X, _, _ = problem(case, rng)
    together = np.zeros(len(X), int)

    def log_evidence(X):
        parts = (
            family.predictive_log_density(given(family, prior, X[:i], together[:i]), X[[i]])[0, 0]
            for i in range(len(X))
        )
        return sum(parts)

    assert_allclose(log_evidence(X), log_evidence(rng.permutation(X)), rtol=1e-11)


def test_values_are_looked_at_in_blocks(rng, monkeypatch):
    X, weights = rng.poisson(0.4, (40, 7)) * 1.0, rng.normal(size=(7, 3))
    for size in (1, 7, 20, 10_000):
        monkeypatch.setattr("sklearn_onlineem.families._collapsed._BLOCK_VALUES", size)
        assert_allclose(over_values(X, 3, lambda x, j: x * weights[j]), X @ weights, atol=1e-13)


def test_rising_factorials_keep_their_digits():
    assert_allclose(log_rising(1e12, 3.0), 3.0 * np.log(1e12), rtol=1e-13)
    assert_allclose(log_rising(2.5, [0.0, 1.0, 7.5]), gammaln([2.5, 3.5, 10.0]) - gammaln(2.5))
    products = np.log([np.prod(a + np.arange(9)) for a in (1e-9, 0.3, 9.99, 10.01, 300.0)])
    assert_allclose(log_rising([1e-9, 0.3, 9.99, 10.01, 300.0], 9.0), products, rtol=1e-13)


# ---------------------------------------------------------------------------------------- sweeps


def swept(family, prior, X, labels, concentration, uniforms, *known):
    labels = labels.copy()
    return family.collapsed_sweep(prior, X, labels, concentration, uniforms, *known), labels


@by_family
@pytest.mark.parametrize(
    ("n_components", "n", "d", "dtype"),
    [(1, 60, 3, "f8"), (2, 2, 1, "f8"), (2, 40, 19, "f8"), (5, 60, 3, "f8"), (9, 20, 5, "f4"),
     (17, 20, 2, "f8"), (70, 8, 2, "f4")],
)  # fmt: skip
def test_a_sweep_is_the_formula_row_by_row(case, n_components, n, d, dtype, rng):
    family, prior, X, labels, concentration = problem(case, rng, n, d, n_components)
    single = X.astype(dtype)
    X, uniforms, expected = single.astype(float), rng.random(n), labels.copy()
    score, found = swept(family, prior, single, labels, concentration, uniforms)
    expected_score = collapsed_sweep(family, prior, X, expected, concentration, uniforms)
    assert_array_equal(found, expected)
    assert_allclose(score, expected_score, rtol=1e-12, atol=1e-12)


@by_own
@pytest.mark.parametrize("fixes", ["shares", "some", "all", "shares and some"])
def test_what_is_known_is_not_integrated_out(case, fixes, rng):
    family, prior, X, labels, concentration = problem(case, rng, 40, 4, 4)
    fixed, learns_shares = None, "shares" not in fixes
    if not learns_shares:
        # No row can come to the last but one of them.
        concentration = np.array([0.4, 0.3, 0.0, 0.3])
        labels[labels == 2] = 0
    if fixes != "shares":
        mask = np.ones(4, bool) if fixes == "all" else np.arange(4) < 2
        fixed = mask, case.draw(rng, 4, 4)
    uniforms, expected = rng.random(40), labels.copy()
    arguments = (family, prior, X), (concentration, uniforms, learns_shares, fixed)
    score, found = swept(*arguments[0], labels, *arguments[1])
    expected_score = collapsed_sweep(*arguments[0], expected, *arguments[1])
    assert_array_equal(found, expected)
    assert learns_shares or (found != 2).all()
    assert_allclose(score, expected_score, rtol=1e-11)


@pytest.mark.parametrize("case", SPARSE, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_drawn_as_dense_ones(case, dtype, rng):
    family, prior, X, labels, concentration = problem(case, rng, 300, 25, 4)
    X, uniforms = X.astype(dtype), rng.random(300)
    dense = swept(family, prior, X, labels, concentration, uniforms)
    for index in (np.int32, np.int64):
        rows = sparse.csr_array(X)
        rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
        score, found = swept(family, prior, rows, labels, concentration, uniforms)
        assert score == dense[0]
        assert_array_equal(found, dense[1])


def test_values_of_sparse_rows_of_transitions_come_in_any_order(rng):
    family, X = MarkovChain(), 1.0 * rng.poisson(0.7, (50, 12))
    prior = family.prior_statistics(3, n_features=12, concentration=1.5)
    rows, labels = sparse.csr_array(X), rng.integers(0, 3, 50).astype(np.intc)
    for start, end in itertools.pairwise(rows.indptr):
        order = rng.permutation(np.arange(start, end))
        rows.data[start:end], rows.indices[start:end] = rows.data[order], rows.indices[order]
    rows.has_sorted_indices = False
    before, uniforms = rows.indices.copy(), rng.random(50)
    found = swept(family, prior, rows, labels, np.ones(3), uniforms)
    expected = swept(family, prior, X, labels, np.ones(3), uniforms)
    assert found[0] == expected[0]
    assert_array_equal(found[1], expected[1])
    assert_array_equal(rows.indices, before)


def test_a_row_alone_is_drawn_by_the_prior(rng):
    family, X = Poisson(), np.array([[3.0]])
    prior = family.prior_statistics(2, n_features=1, shape=2.0, rate=1.0)
    drawn = [swept(family, prior, X, np.zeros(1, np.intc), np.array([1.0, 3.0]), u)[1][0]
             for u in np.array([[0.0], [0.249], [0.251], [0.999]])]  # fmt: skip
    assert drawn == [0, 0, 1, 1]


FRACTIONS = [
    (Bernoulli(), lambda rng: rng.random((40, 9))),
    (Poisson(), lambda rng: rng.gamma(0.3, 5.0, (40, 9))),
    (Multinomial(), lambda rng: rng.gamma(0.3, 5.0, (40, 9))),
    (Multinomial(), lambda rng: 1.0 * rng.integers(0, 500, (40, 9))),
    (MarkovChain(), lambda rng: rng.gamma(0.3, 5.0, (40, 9))),
    (MarkovChain(), lambda rng: 1.0 * rng.integers(0, 500, (40, 9))),
    (Exponential(), lambda rng: np.exp(rng.normal(0.0, 20.0, (40, 9)))),
    (FixedShapeGamma(0.2), lambda rng: np.exp(rng.normal(0.0, 20.0, (40, 9)))),
]


@pytest.mark.parametrize(("family", "draw"), FRACTIONS)
def test_what_a_row_has_added_is_gone_when_it_leaves(family, draw, rng):
    """From scratch there is nothing left of a row; values differ by 30 orders of magnitude."""
    X = draw(rng)
    flat = {"concentration": 1e-9}
    names = {Poisson: {"rate": 1e-9}, Multinomial: flat, MarkovChain: flat, Bernoulli: {}}
    hyperparameters = names.get(type(family), {"shape": 1.0, "rate": 1e-9})
    prior = family.prior_statistics(3, n_features=9, **hyperparameters)
    labels, uniforms = rng.integers(0, 3, 40).astype(np.intc), rng.random(40)
    concentration, expected = np.ones(3), labels.copy()
    score, found = swept(family, prior, X, labels, concentration, uniforms)
    expected_score = collapsed_sweep(family, prior, X, expected, concentration, uniforms)
    assert_array_equal(found, expected)
    assert_allclose(score, expected_score, rtol=1e-9)


def threshold(sweep, labels, uniforms, i):
    """Up to which uniform number row i comes to component 0, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(45):
        middle = 0.5 * (low + high)
        uniforms[i] = middle
        low, high = (middle, high) if sweep(labels, uniforms)[i] == 0 else (low, middle)
    return 0.5 * (low + high)


def transition_matrix(sweep, assignments):
    """Of a sweep over rows of two components: shares of uniform numbers that lead anywhere."""
    n = assignments.shape[1]
    index = {tuple(labels): i for i, labels in enumerate(assignments)}
    matrix = np.zeros((len(assignments), len(assignments)))

    def follow(labels, uniforms, i, probability):
        if i == n:
            matrix[index[tuple(labels)], index[tuple(sweep(labels, uniforms))]] += probability
            return
        t = threshold(sweep, labels, uniforms, i)
        for uniform, share in ((0.5 * t, t), (0.5 * (1.0 + t), 1.0 - t)):
            follow(labels, np.append(uniforms[:i], np.full(n - i, uniform)), i + 1,
                   probability * share)  # fmt: skip

    for labels in assignments:
        follow(labels, np.full(n, 0.5), 0, 1.0)
    return matrix


@by_family
def test_the_exact_posterior_is_stationary(case, rng):
    family, prior, X, _, concentration = problem(case, rng, n=3, d=2)
    assignments, logs = log_posteriors(family, prior, X, concentration)

    def sweep(labels, uniforms):
        return swept(family, prior, X, labels, concentration, uniforms)[1]

    matrix, posterior = transition_matrix(sweep, assignments), np.exp(logs)
    assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(posterior @ matrix, posterior, atol=1e-10)
    # It moves, and the law could fail.
    assert np.abs(matrix - np.eye(len(matrix))).max() > 0.1
    assert np.abs(posterior - 1.0 / len(posterior)).max() > 0.01


# --------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("case", OTHER_FAMILIES, ids=repr)
def test_families_without_a_closed_form_say_so(case, rng):
    family = case.family
    parameters, X = case.draw(rng, 2, 3), case.rows(rng, 5, 3)
    model = MixtureModel(family, np.full(2, 0.5), parameters)
    prior = model.own_statistics()
    for call in [
        lambda: model.chain(Rows(X), prior, rng),
        lambda: model.predictive_log_likelihood(Rows(X), prior),
        lambda: model.mean_form(prior),
    ]:
        with pytest.raises(ValueError, match=f"{type(family).__name__}.* closed form"):
            call()


IMPROPER = [
    (Poisson(), "rate", Sums(np.zeros(2), np.ones((2, 3)))),
    (Poisson(), "shape", Sums(np.ones(2), -np.ones((2, 3)))),
    (Multinomial(), "concentration", Sums(np.zeros(2), -np.ones((2, 3)))),
    (Categorical(3), "concentration", Sums(np.zeros(2), -np.ones((2, 9)))),
    (Bernoulli(), "alpha", Sums(np.ones(2), -np.ones((2, 3)))),
    (Bernoulli(), "beta", Sums(np.ones(2), np.full((2, 3), 2.5))),
    (Exponential(), "rate", Sums(np.ones(2), np.zeros((2, 3)))),
    (Exponential(), "shape", Sums(-np.ones(2), np.ones((2, 3)))),
    (FixedShapeGamma(2.0), "rate", Sums(np.ones(2), np.full((2, 3), np.nan))),
]


@pytest.mark.parametrize(("family", "name", "statistics"), IMPROPER)
def test_improper_priors_are_refused_by_name(family, name, statistics, rng):
    X, labels = np.ones((4, 3)), np.zeros(4, np.intc)
    calls = [
        lambda: family.predictive_log_density(statistics, X),
        lambda: family.draw_from_posterior(statistics, rng),
        lambda: family.collapsed_sweep(statistics, X, labels, np.ones(2), rng.random(4)),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=f"{type(family).__name__} is improper, as its {name}"):
            call()


@by_family
def test_arguments_that_do_not_fit_are_refused(case, rng):
    family, prior, X, labels, concentration = problem(case, rng)
    wide, uniforms = np.concatenate([X, X], axis=1), rng.random(len(X))
    wrong = [
        (prior, wide, labels, concentration, uniforms),
        (prior, X[1:], labels, concentration, uniforms),
        (prior, X, labels.astype(float), concentration, uniforms),
        (prior, X, np.full_like(labels, -1), concentration, uniforms),
        (prior, X, np.full_like(labels, 2), concentration, uniforms),
        (prior, X, labels, np.array([1.0, 0.0]), uniforms),
        (prior, X, labels, np.ones(3), uniforms),
        (prior, X, labels, concentration, uniforms[1:]),
    ]
    if case.counts:
        wrong.append((prior, sparse.csr_array(wide), labels, concentration, uniforms))
    if case.is_gaussian:
        gap = np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X)
        wrong.append((prior, gap, labels, concentration, uniforms))
    before = labels.copy()
    for arguments in wrong:
        with pytest.raises(ValueError):
            family.collapsed_sweep(*arguments)
        assert_array_equal(labels, before)
