"""Compound Dirichlets: their special functions, their optimum, and what a single component does."""

import math
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from cases.comparing import assert_identical
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import gammaln, polygamma, psi

from sklearn_onlineem import CompoundDirichlet, CompoundDirichletMixture, MultinomialMixture
from sklearn_onlineem._kernels import _compound_dirichlet
from sklearn_onlineem.data.rows import Rows, Wanted
from sklearn_onlineem.em.step import Sampled, online_step
from sklearn_onlineem.families import CompoundDirichlet as Family
from sklearn_onlineem.families._events import counted_events, events_of, moments, word_counts
from sklearn_onlineem.families.compound_dirichlet import Dirichlets
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def documents(rng, n=400, d=6, length=30):
    alpha = rng.uniform(0.3, 3.0, d)
    lengths = 1 + rng.poisson(length, n)
    return rng.multinomial(lengths, rng.dirichlet(alpha, n)).astype(float)


def negative_log_likelihood(alpha, X):
    """Per document, without the coefficients that alpha leaves alone; and its gradient."""
    total, lengths = alpha.sum(), X.sum(axis=1)
    value = gammaln(total) - gammaln(total + lengths) + (gammaln(alpha + X) - gammaln(alpha)).sum(1)
    slope = psi(total) - psi(total + lengths)[:, None] + psi(alpha + X) - psi(alpha)
    return -value.mean(), -slope.mean(axis=0)


def maximum_likelihood(X):
    """Directly: BFGS on log alpha, then Newton's method with the full Hessian."""

    def objective(log_alpha):
        value, slope = negative_log_likelihood(np.exp(log_alpha), X)
        return value, slope * np.exp(log_alpha)

    start = np.zeros(X.shape[1])
    alpha = np.exp(minimize(objective, start, jac=True, options={"gtol": 1e-10}).x)
    for _ in range(5):
        total, lengths = alpha.sum(), X.sum(axis=1)
        shared = (polygamma(1, total) - polygamma(1, total + lengths)).mean()
        own = (polygamma(1, alpha) - polygamma(1, alpha + X)).mean(axis=0)
        alpha = alpha - np.linalg.solve(np.diag(own) - shared, negative_log_likelihood(alpha, X)[1])
    return alpha


# ------------------------------------------------------------------------------ densities, exactly


HALF_AND_THREE = [Fraction(1, 2), Fraction(3)]
FAR_APART = [Fraction(10**6), Fraction(1, 7)]


@pytest.mark.parametrize("alpha", [HALF_AND_THREE, FAR_APART])
def test_densities_equal_polyas_urn_in_fractions(alpha):
    """Words drawn one by one, each put back twice; long documents reach the series."""
    for counts in [(1, 0), (2, 3), (0, 16), (17, 17), (40, 1), (300, 70)]:
        probability, drawn = Fraction(1), 0
        for a, count in zip(alpha, counts, strict=True):
            for i in range(count):
                drawn += 1
                probability *= (a + i) / (sum(alpha) + drawn - 1) * Fraction(drawn, i + 1)
        parameters = Dirichlets(np.array([alpha], dtype=float), np.ones(1))
        found = Family().log_density(parameters, np.array([counts], dtype=float))[0, 0]
        expected = math.log(probability.numerator) - math.log(probability.denominator)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-9 if max(alpha) > 1e5 else 1e-11)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_probabilities_add_up_to_one_and_hide_no_statistics(length, rng):
    """The sum over all documents of a length; and E log h does not depend on that length."""
    rows = np.array(list(product(range(length + 1), repeat=3)), dtype=float)
    rows = rows[rows.sum(axis=1) == length]
    family, parameters = Family(), Dirichlets(rng.uniform(0.1, 5.0, (2, 3)), np.ones(2))
    probabilities = np.exp(family.log_density(parameters, rows))
    assert_allclose(probabilities.sum(axis=0), 1.0, rtol=1e-12)
    expected = family.posterior_statistics(parameters, rows, probabilities)
    own = family.own_statistics(parameters, np.ones(2))
    assert_allclose(expected.total, own.total, rtol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_counted_events_are_those_of_documents(form, weighted, rng):
    X = rng.poisson(0.7, (60, 9)) * rng.choice([1.0, 3.0, 40.0, 100.0, 2000.0, 0.5], (60, 9))
    X[7] = 0.0
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    found, weight, totals = counted_events(form(X), weights)
    events = events_of(form(X))
    expected = events.totals(np.ones((60, 1)) if weights is None else weights[:, None])
    assert_allclose(weight, expected[0])
    family, parameters = Family(), Dirichlets(rng.uniform(0.1, 5.0, (1, 9)), np.ones(1))
    for function in (
        lambda events, totals: family._statistics(parameters, events, weight, totals).total,
        lambda events, totals: totals.T @ family._log_terms(parameters, events, 1),
        lambda events, totals: moments(events, totals, weight, 9)[0],
    ):
        assert_allclose(function(found, totals), function(events, expected[1]), rtol=1e-11)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1e-9, 0.3, 1e5])
@pytest.mark.parametrize("factors", [[1.0], [1.0, 9.0, 64.0, 65.0, 0.5], [0.25]], ids=str)
def test_steps_on_the_likelihood_of_word_counts_are_those_of_events(factors, scale, weighted, rng):
    X = rng.poisson(0.7, (60, 9)) * rng.choice(factors, (60, 9))
    X[:, 3] = 0.0
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    events, _, totals = counted_events(X, weights)
    alpha, (found, expected) = rng.gamma(1.0, scale, 9) + 1e-12, np.empty((2, 10))
    order, *counts = word_counts(events, totals[:, 0], 9)
    of_events = events.words, events.counts, totals[:, 0].copy()
    no_words, limits = (np.empty(0), np.zeros(1, np.int64)), (1e-100, 1e15)
    value, _ = _compound_dirichlet.ascend(*counts, alpha[order], *limits, found)
    of_events, _ = _compound_dirichlet.ascend(*no_words, *of_events, alpha, *limits, expected)
    terms = Family()._log_terms(Dirichlets(alpha[None], np.ones(1)), events, 1) * totals
    assert_allclose(value, of_events, atol=1e-14 * np.abs(terms).sum())
    assert_allclose(found, expected[np.append(order, 9)], rtol=1e-9)


@pytest.mark.parametrize(
    "scale, d", [(1.0, 10), (1e-8, 50), (0.02, 5000), (1e4, 5), (1e-9, 2)], ids=str
)
def test_m_step_solves_for_given_mean_logarithms(scale, d, rng):
    family = Family(min_alpha=1e-14)
    parameters = Dirichlets(rng.gamma(1.0, scale, (3, d)) + 1e-13, np.ones(3))
    own = family.own_statistics(parameters, np.array([0.2, 0.5, 0.3]))
    found = family.m_step(own)
    assert_allclose(found.alpha, parameters.alpha, rtol=1e-9)
    for start in (1.1 * parameters.alpha, 10.0 ** rng.uniform(-6, 4, (3, d))):
        found = family.m_step(own, Dirichlets(start, np.ones(3)))
        assert_allclose(found.alpha, parameters.alpha, rtol=1e-9)


def test_floor_and_ceiling_are_part_of_the_m_step(rng):
    same = np.tile([3.0, 2.0, 0.0], (50, 1))
    for solver in ("batch", "newton"):
        model = CompoundDirichlet(solver=solver, max_iter=300, tol=0.0).fit(same)
        assert 0 < model.alpha_.min() and model.alpha_.sum() <= 1e6 * (1 + 1e-12)
        assert np.isfinite(model.score([[0.0, 0.0, 4.0]]))
    assert model.alpha_[2] == pytest.approx(1e-10)


# -------------------------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("solver, max_iter", [("batch", 3000), ("newton", 100)])
def test_the_optimum_is_that_of_the_likelihood(solver, max_iter, rng):
    X = documents(rng)
    expected = maximum_likelihood(X)
    assert_allclose(negative_log_likelihood(expected, X)[1], 0.0, atol=1e-13)
    for data in (X, sparse.csr_array(X)):
        model = CompoundDirichlet(solver=solver, tol=0.0, max_iter=max_iter).fit(data)
        assert_allclose(model.alpha_, expected, rtol=1e-8)
    assert model.converged_ == (solver == "newton")


# ---------------------------------------------------------------------------------------- inertia


def test_sampled_inertia_tends_to_the_exact_one(rng):
    X = documents(rng)
    parameters = Dirichlets(rng.uniform(0.5, 2.0, (1, 6)), np.ones(1))
    model = MixtureModel(Family(), np.ones(1), parameters)
    exact, _ = online_step(model, Rows(X), 0.5)
    for n, rtol in ((100, 0.5), (100_000, 0.01)):
        sampled, _ = online_step(model, Rows(X), 0.5, inertia=partial(Sampled(n), rng=rng))
        assert_allclose(sampled.parameters.alpha, exact.parameters.alpha, rtol=rtol)
        assert not np.allclose(sampled.parameters.alpha, exact.parameters.alpha, rtol=rtol / 1e4)


# ------------------------------------------------------------------------------- a single component


def test_transform_gives_posterior_mean_proportions(rng):
    X = documents(rng)
    model = CompoundDirichlet().fit(X)
    expected = (X + model.alpha_) / (X.sum(axis=1, keepdims=True) + model.alpha_.sum())
    assert_allclose(model.transform(X), expected, rtol=1e-12)
    assert list(model.get_feature_names_out()) == [f"x{j}" for j in range(6)]


def test_samples_have_the_lengths_asked_for(rng):
    X = documents(rng)
    model = CompoundDirichlet(random_state=0).fit(X)
    assert_array_equal(model.sample(3, lengths=[5, 0, 1000]).sum(axis=1), [5, 0, 1000])
    with pytest.raises(ValueError, match=r"lengths of CompoundDirichlet .*got shape \(2,\)"):
        model.sample(3, lengths=[1, 2])
    assert_array_equal(model.sample(4, lengths=7).sum(axis=1), 7)
    assert_array_equal(model.sample(4).sum(axis=1), np.rint(X.sum(axis=1).mean()))
    mixture = CompoundDirichletMixture(2, random_state=0).fit(X)
    drawn, components = mixture.sample(5, lengths=9)
    assert_array_equal(drawn.sum(axis=1), 9) and components.shape == (5,)
    for lengths in (-1, 2.5, [1, -1], "long"):
        with pytest.raises(ValueError, match="lengths of CompoundDirichlet"):
            model.sample(2, lengths=lengths)


def test_a_sample_of_tiny_parameters_repeats_one_word(rng):
    parameters = Dirichlets(np.array([[1e-9, 3e-9]]), np.array([20.0]))
    X = Family().sample(parameters, np.zeros(2000, dtype=int), rng)
    assert (X.max(axis=1) == 20.0).all()
    assert X[:, 1].mean() / 20.0 == pytest.approx(0.75, abs=0.05)


def test_given_starts(rng):
    X = documents(rng)
    start = rng.uniform(0.5, 2.0, 6)
    model = CompoundDirichlet(alpha_init=start, eta0=1e-12, beta=0.0, batch_size=100, max_iter=1)
    assert_allclose(model.fit(X).alpha_, start, rtol=1e-8)
    assert_allclose(model.set_params(eta0=1e-12).partial_fit(X[:1]).alpha_, start, rtol=1e-6)
    for bad in (np.zeros(6), np.ones(5), np.full(6, np.nan), -np.ones(6)):
        with pytest.raises(ValueError, match="alpha_init of CompoundDirichlet"):
            CompoundDirichlet(alpha_init=bad).fit(X)
    two = rng.uniform(0.5, 2.0, (2, 6))
    mixture = CompoundDirichletMixture(2, alpha_init=two, eta0=1e-12, beta=0.0)
    assert_allclose(mixture.partial_fit(X).alpha_, two, rtol=1e-8)


def test_a_prior_holds_alpha_back(rng):
    """But not the mean length, which is of documents, not of the prior's pseudo-documents."""
    X = documents(rng)
    prior = {"pseudo_count": 1e6, "concentration": 2.0}
    for solver in ("online", "batch"):
        model = CompoundDirichlet(solver=solver, prior=prior, max_iter=200, tol=1e-9).fit(X)
        assert_allclose(model.alpha_, 2.0, rtol=0.01)
        assert_allclose(model.model_.parameters.length, X.sum(axis=1).mean())
    with pytest.raises(ValueError, match="CompoundDirichlet.*newton.*prior"):
        CompoundDirichlet(solver="newton", prior=prior).fit(X)


# ------------------------------------------------------------------------------------ faulty input


@pytest.mark.parametrize(
    ("solver", "form"),
    [("online", sparse.csr_array), ("batch", np.asarray), ("newton", sparse.csr_array)],
)
def test_documents_without_words(solver, form, rng):
    zeros = np.zeros((30, 4))
    model = CompoundDirichlet(solver=solver).fit(form(zeros))
    assert_allclose(model.alpha_, 1.0, rtol=1e-8)
    assert_array_equal(model.score_samples(form(zeros)), 0.0)
    X = documents(rng, 50)
    padded = np.vstack([X, np.zeros((50, 6))])
    arguments = {"solver": solver, "tol": 0.0, "max_iter": 500, "alpha_init": np.ones(6)}
    found, expected = (CompoundDirichlet(**arguments).fit(form(rows)) for rows in (padded, X))
    assert_allclose(found.alpha_, expected.alpha_, rtol=1e-6)
    assert_allclose(found.transform(form(padded))[-1], found.alpha_ / found.alpha_.sum())


@pytest.mark.parametrize("scale", [1e6, 1e15, 1e19, 1e150])
@pytest.mark.parametrize("solver", ["online", "batch", "newton"])
def test_huge_counts(scale, solver, rng):
    """Whole documents of so many words tell their proportions: those of a Dirichlet."""
    proportions = rng.dirichlet([0.7, 2.0, 5.0], 300)
    X = np.rint(proportions * scale)
    model = CompoundDirichlet(solver=solver, tol=1e-12, max_iter=500).fit(X)
    assert_allclose(model.alpha_, [0.7, 2.0, 5.0], rtol=0.2)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.partial_fit(X).alpha_).all()


def test_bursty_documents_are_told_apart_where_mean_counts_are_alike(rng):
    """Components of equal proportions, one bursty: a mixture of multinomials is blind to them."""
    y = rng.integers(0, 2, 600)
    alpha = np.where(y[:, None], 20.0, 0.2) * np.ones(8)
    X = np.array([rng.multinomial(60, rng.dirichlet(a)) for a in alpha])
    start = np.array([np.full(8, 1.0), np.full(8, 5.0)])
    bursty = CompoundDirichletMixture(2, alpha_init=start, solver="batch").fit_predict(X)
    assert np.mean(bursty == y) > 0.97
    flat = MultinomialMixture(2, random_state=0, n_init=3).fit_predict(X)
    assert max(np.mean(flat == y), np.mean(flat != y)) < 0.9


# ------------------------------------------------------------------------------ sampled proportions


def drawn_mean_logs(alpha, rows, n_draws, rng, **options):
    """Means of log h over draws, and their standard errors."""
    family, parameters = Family(), Dirichlets(alpha[None], np.ones(1))
    X = np.repeat(rows, n_draws, axis=0)
    X = sparse.csr_array(X) if options.get("as_csr") else X
    found = family.posterior_statistics(parameters, X, np.ones((X.shape[0], 1)), rng=rng)
    assert_allclose([found.weight, found.documents], n_draws * len(rows))
    assert_allclose(found.length, n_draws * rows.sum())
    return found.total[0] / n_draws


@pytest.mark.parametrize("as_csr", [False, True])
@pytest.mark.parametrize("smallest", [1e-8, 1e-3, 1.0])
def test_sampled_proportions_do_not_underflow(smallest, as_csr, rng):
    """Where most gamma variables of that shape are below the smallest number."""
    alpha, rows, n = np.array([smallest, 0.3, 2.0]), np.array([[0.0, 3.0, 0.0]]), 20_000
    found = drawn_mean_logs(alpha, rows, n, rng, as_csr=as_csr)
    posterior = alpha + rows[0]
    expected = psi(posterior) - psi(posterior.sum())
    error = np.sqrt((polygamma(1, posterior) + polygamma(1, posterior.sum())) / n)
    assert np.isfinite(found).all()
    assert (np.abs(found - expected) <= 5.0 * error).all()


def test_sampled_proportions_of_many_documents_are_drawn_in_blocks(rng, monkeypatch):
    monkeypatch.setattr("sklearn_onlineem.families.compound_dirichlet._BLOCK_VALUES", 64)
    alpha, rows = np.array([0.5, 1.0, 3.0]), np.array([[4.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    found = drawn_mean_logs(alpha, rows, 5000, rng)
    posterior = alpha + rows
    expected = (psi(posterior) - psi(posterior.sum(axis=1, keepdims=True))).sum(axis=0)
    assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("rows_first", [False, True])
def test_statistics_have_the_same_bits_with_and_without_those_of_rows(rows_first, rng):
    X, weight = documents(rng), rng.uniform(0.1, 3.0, size=400)
    rows, parameters = Rows(X, weight), Dirichlets(np.full((1, 6), 0.7), np.full(1, 30.0))
    outs = [None, np.empty(400)]
    found = [
        Family().e_step(parameters, np.zeros(1), rows, Wanted(log_likelihoods=out))
        for out in outs[:: 1 - 2 * rows_first]
    ]
    assert_identical(*[statistics for _, statistics, _ in found])
    assert_allclose(found[0][2], found[1][2], rtol=1e-12)
    assert_allclose(outs[1], Family().log_density(parameters, X)[:, 0], rtol=1e-12)


def test_what_is_remembered_of_rows_is_not_drawn_from(rng):
    """A single component's counts of counts, which all passes share, make expectations."""
    model = MixtureModel(
        Family(), np.ones(1), Dirichlets(np.array([[0.5, 1.0, 2.0]]), np.array([9.0]))
    )
    rows = Rows(rng.multinomial(9, [0.2, 0.3, 0.5], size=40).astype(float))
    expected, _ = model.e_step(rows)
    drawn = [model.e_step(rows, rng)[0] for _ in range(2)]
    again, _ = model.e_step(rows)
    assert_array_equal(again.emissions.total, expected.emissions.total)
    assert not np.allclose(drawn[0].emissions.total, drawn[1].emissions.total)
    assert not np.allclose(drawn[0].emissions.total, expected.emissions.total)


@pytest.mark.parametrize("alpha", [-1.7e308, -1.0, 0.0, np.nan, np.inf, 1.7e308])
def test_parameters_that_are_none_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha must be"), np.errstate(over="ignore"):
        Dirichlets(np.array([[1.0, 2.0], [alpha, alpha]]), np.ones(2))
