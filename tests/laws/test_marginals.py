"""What holds for every family with marginal distributions, for rows with missing values."""

from functools import partial

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from sklearn_onlineem.data.rows import Rows, Wanted
from sklearn_onlineem.families import (
    Categorical,
    Full,
    Gamma,
    Gaussian,
    Gaussians,
    Laplace,
    MixtureOf,
    Multinomial,
    Poisson,
    Product,
    StudentT,
    Tied,
)
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.capabilities import Marginals, require
from sklearn_onlineem.families.laplace import Laplaces
from sklearn_onlineem.families.mixture_emissions import Submixtures
from sklearn_onlineem.families.student_t import StudentTs

ALL = [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]
CASES = [case for case in ALL if isinstance(case.family, Marginals)]
# Columns of Student's t distributions have a hidden precision in common, those of mixtures a part.
INDEPENDENT = [
    case
    for case in CASES
    if not isinstance(getattr(case.family, "covariance", None), Full | Tied)
    and not isinstance(case.family, MixtureOf | Product | StudentT)
]
WITHOUT = [case for case in ALL if case not in CASES]
SPARSE = [case for case in CASES if case.counts]

all_cases = pytest.mark.parametrize("case", CASES, ids=repr)
independent_cases = pytest.mark.parametrize("case", INDEPENDENT, ids=repr)
sparse_cases = pytest.mark.parametrize("case", SPARSE, ids=repr)


def with_gaps(rng, X, share=0.4):
    """Rows with missing values, among them one that is complete and one that has nothing."""
    first, X = X[0], np.where(rng.random(X.shape) < share, np.nan, X)
    X[0], X[1] = first, np.nan
    return X


def nominal_columns(family, n_features=4):
    """Which columns are symbols."""
    if not isinstance(family, Product):
        return np.full(n_features, family.is_nominal)
    groups = zip(family.families, family.columns, strict=True)
    symbols = [j for factor, columns in groups if factor.is_nominal for j in columns]
    return np.isin(np.arange(n_features), symbols)


def restricted_product(family, parameters, columns):
    factors, groups, values = [], [], []
    for factor, own, known in zip(family.families, family.columns, parameters, strict=True):
        places = [place for place, j in enumerate(own) if j in columns]
        if places:
            factor, value = restricted(factor, known, np.array(places))
            factors.append(factor)
            values.append(value)
            groups.append([list(columns).index(own[place]) for place in places])
    return Product(factors, groups), tuple(values)


def restricted(family, parameters, columns):
    """The family of some columns alone, and its parameters."""
    if isinstance(family, Product):
        return restricted_product(family, parameters, columns)
    if isinstance(family, MixtureOf):
        inner, of_columns = restricted(family.family, parameters.inner, columns)
        return MixtureOf(inner, family.n_mix), Submixtures(parameters.weights, of_columns)
    if isinstance(parameters, Gaussians):
        covariance = parameters.covariance
        if covariance.ndim == 3:
            covariance = covariance[:, columns[:, None], columns]
        elif covariance.shape[1] > 1:
            covariance = covariance[:, columns]
        parts = map(np.ascontiguousarray, (parameters.mean[:, columns], covariance))
        return family, Gaussians(*parts)
    if isinstance(parameters, StudentTs):
        of_columns = restricted(Gaussian(family.covariance), parameters.gaussians, columns)[1]
        return family, StudentTs(of_columns, parameters.degrees_of_freedom)
    if isinstance(parameters, Laplaces):
        return family, Laplaces(*(values[:, columns] for values in parameters))
    if isinstance(family, Gamma):
        chosen = np.append(columns, columns + parameters.shape[1] // 2)
        return family, parameters[:, chosen].copy("C")
    if isinstance(family, Categorical):
        parts = [family.probabilities(parameters)[j] for j in columns]
        sizes = tuple(part.shape[1] for part in parts)
        return Categorical(n_categories=sizes), np.concatenate(parts, axis=1)
    return family, np.ascontiguousarray(parameters[:, columns])


def problem(case, rng, n=60, d=4, n_components=3):
    X = with_gaps(rng, case.rows(rng, n, d))
    return X, case.draw(rng, n_components, d), rng.dirichlet(np.ones(n_components), n)


@all_cases
def test_log_density_is_that_of_the_family_of_the_observed_columns(case, rng):
    X, parameters, _ = problem(case, rng)
    found = case.family.marginal_log_density(parameters, X)
    for x, log_density in zip(X, found, strict=True):
        o = np.flatnonzero(~np.isnan(x))
        if len(o) == 0:
            assert_array_equal(log_density, 0.0)
            continue
        x = np.ascontiguousarray(x[None, o])
        family, of_columns = restricted(case.family, parameters, o)
        if not isinstance(family, Product):
            expected = [case.log_density(family, of_columns, k)(x) for k in range(3)]
            assert_allclose(log_density, np.ravel(expected), rtol=1e-9, atol=1e-9)
        same = family.log_density(of_columns, x)[0]
        assert_allclose(log_density, same, rtol=1e-9, atol=1e-9)


@all_cases
def test_complete_rows_are_as_ever(case, rng):
    family, parameters = case.family, case.draw(rng, 3, 4)
    X, posterior = case.rows(rng, 50, 4), rng.dirichlet(np.ones(3), 50)
    found = family.marginal_log_density(parameters, X)
    assert_allclose(found, family.log_density(parameters, X), rtol=1e-9, atol=1e-9)
    gained = family.marginal_statistics(parameters, X, posterior)
    expected = family.posterior_statistics(parameters, X, posterior)
    assert_close(family.m_step(gained), family.m_step(expected), rtol=1e-9)
    assert_close(family.effective_counts(gained), posterior.sum(axis=0))
    assert_identical(family.completed(parameters, X, posterior), X)
    assert_identical(family.drawn(parameters, X, np.zeros(50, int), rng), X)


@all_cases
def test_values_beside_missing_ones_are_checked(case, rng):
    X, _, _ = problem(case, rng)
    case.family.check(X)
    case.family.check(np.full((2, 4), np.nan))
    if (case.inner or case).is_gaussian or isinstance(case.family, Laplace | StudentT):
        return
    X[5] = [np.nan, -1.0, np.nan, -1.0]
    with pytest.raises(ValueError, match="data"):
        case.family.check(X)


@all_cases
def test_rows_without_values_have_the_components_own_statistics(case, rng):
    family, parameters, posterior = case.family, case.draw(rng, 3, 4), rng.dirichlet(np.ones(3), 9)
    nothing = np.full((9, 4), np.nan)
    found = family.marginal_statistics(parameters, nothing, posterior)
    own = family.own_statistics(parameters, posterior.sum(axis=0))
    assert_close(family.effective_counts(found), family.effective_counts(own))
    assert_close(family.m_step(found), family.m_step(own), rtol=1e-9)
    assert_close(family.m_step(found), parameters, rtol=1e-7)
    others = [case.draw(rng, 3, 4) for _ in range(2)]
    gaps = [
        np.subtract(*(family.expected_log_density(p, statistics) for p in others))
        for statistics in (found, own)
    ]
    assert_allclose(*gaps, rtol=1e-9, atol=1e-9)


@independent_cases
def test_statistics_are_those_of_observed_values_and_expectations_of_missing_ones(case, rng):
    """E log q(x) is log q(x_o) - KL(p_m || q_m), up to what does not depend on q."""
    family, (X, parameters, posterior) = case.family, problem(case, rng, n=30)
    statistics = family.marginal_statistics(parameters, X, posterior)

    def expected(other):
        total = 0.0
        for x, shares in zip(X, posterior, strict=True):
            o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
            if len(o):
                observed, of_observed = restricted(family, other, o)
                total += shares @ observed.log_density(of_observed, x[None, o].copy())[0]
            if len(m):
                (unknown, p), (_, q) = (restricted(family, p, m) for p in (parameters, other))
                total -= shares @ unknown.kl_divergence(p, q)
        return total

    a, b = case.draw(rng, 3, 4), case.draw(rng, 3, 4)
    found = family.expected_log_density(a, statistics) - family.expected_log_density(b, statistics)
    assert_allclose(found, expected(a) - expected(b), rtol=1e-9, atol=1e-9)


@all_cases
def test_statistics_are_the_mean_of_those_of_rows_with_drawn_values(case, rng):
    family, (X, parameters, _) = case.family, problem(case, rng, n=40)
    components = rng.integers(0, 3, len(X))
    one_hot = np.eye(3)[components]
    a, b = case.draw(rng, 3, 4), case.draw(rng, 3, 4)

    def ratio(statistics):
        return family.expected_log_density(a, statistics) - family.expected_log_density(
            b, statistics
        )

    draws = [
        ratio(
            family.posterior_statistics(
                parameters, family.drawn(parameters, X, components, rng), one_hot
            )
        )
        for _ in range(400)
    ]
    expected = ratio(family.marginal_statistics(parameters, X, one_hot))
    error = np.std(draws) / np.sqrt(len(draws))
    assert error > 0.0
    assert abs(np.mean(draws) - expected) < 4.5 * error


@all_cases
def test_drawn_values_are_in_the_support_and_observed_ones_stay(case, rng):
    family, (X, parameters, _) = case.family, problem(case, rng, n=300)
    before, components = X.copy(), rng.integers(0, 3, len(X))
    drawn, again = (
        family.drawn(parameters, X, components, np.random.default_rng(3)) for _ in range(2)
    )
    assert_array_equal(X, before)
    assert_array_equal(drawn, again)
    assert_array_equal(drawn[~np.isnan(X)], X[~np.isnan(X)])
    family.check(drawn)
    # Each by itself.
    for column, missing in zip(drawn.T, np.isnan(X).T, strict=True):
        values = np.unique(column[missing])
        assert len(values) == missing.sum() or len(values) < 50


@all_cases
def test_completed_values_are_the_means_of_draws(case, rng):
    family, (X, parameters, posterior) = case.family, problem(case, rng, n=12)
    completed, before = family.completed(parameters, X, posterior), X.copy()
    assert_array_equal(X, before)
    assert_array_equal(completed[~np.isnan(X)], X[~np.isnan(X)])
    drawn = np.zeros((600, *X.shape))
    for draw in drawn:
        components = (posterior.cumsum(axis=1) < rng.random((len(X), 1))).sum(axis=1)
        draw[:] = family.drawn(parameters, X, np.minimum(components, 2), rng)
    is_symbol = nominal_columns(family)
    symbols = completed[:, is_symbol, None].astype(int)
    counts = (drawn[:, :, is_symbol, None] == np.arange(4)).mean(axis=0)
    chosen = np.take_along_axis(counts, symbols, axis=2)[..., 0]
    assert (chosen >= counts.max(axis=2, initial=0.0) - 0.15).all()
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    is_close = np.abs(drawn.mean(axis=0) - completed) <= 4.5 * error + 1e-9
    assert is_close[:, ~is_symbol].all()


@all_cases
@pytest.mark.parametrize(
    ("options", "n", "d", "n_components"),
    [("", 2500, 4, 3), ("weights labels", 70, 9, 11), ("uniforms", 300, 4, 3)],
)
def test_e_step_is_the_generic_one_by_log_densities_and_statistics(
    case, options, n, d, n_components, rng
):
    family, (X, parameters, _) = case.family, problem(case, rng, n, d, n_components)
    weights, labels = rng.uniform(0.0, 2.0, n), rng.integers(-1, n_components, n).astype(np.intc)
    rows = Rows(X, *((weights, labels) if "weights" in options else ()), has_gaps=True)
    uniforms = rng.random(n) if "uniforms" in options else None
    log_weights, outs = np.log(rng.dirichlet(np.full(n_components, 3.0))), np.empty((2, n))
    steps = family.e_step, partial(Family.e_step, family)
    found, expected = (
        step(parameters, log_weights, rows, Wanted(uniforms, out))
        for step, out in zip(steps, outs, strict=True)
    )
    assert_close(found[0], expected[0], rtol=1e-9)
    assert_close(family.m_step(found[1]), family.m_step(expected[1]), rtol=1e-8, atol=1e-9)
    assert_allclose(found[2], expected[2], rtol=1e-10)
    assert_allclose(*outs, rtol=1e-9, atol=1e-9)


@all_cases
def test_e_step_of_float32_equals_that_of_float64(case, rng):
    family, (X, parameters, posterior) = case.family, problem(case, rng, n=500)
    X = X.astype(np.float32)
    found = family.marginal_log_density(parameters, X)
    expected = family.marginal_log_density(parameters, X.astype(np.float64))
    assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    each = (Rows(rows, has_gaps=True) for rows in (X, X.astype(np.float64)))
    sums = [family.e_step(parameters, np.log([0.2, 0.3, 0.5]), rows) for rows in each]
    assert_close(sums[0][0], sums[1][0], rtol=1e-4)
    for complete in (
        family.completed(parameters, X, posterior),
        family.drawn(parameters, X, np.zeros(len(X), int), rng),
    ):
        assert complete.dtype == np.float32


@pytest.mark.parametrize("index", [np.int32, np.int64])
@sparse_cases
def test_missing_values_among_those_of_sparse_rows(case, index, rng):
    family, parameters = case.family, case.draw(rng, 3, 5)
    X = np.where(rng.random((200, 5)) < 0.3, case.rows(rng, 200, 5), 0.0)
    X[rng.random(X.shape) < 0.1] = np.nan
    csr = sparse.csr_array(X)
    csr = sparse.csr_array((csr.data, csr.indices.astype(index), csr.indptr.astype(index)), X.shape)
    posterior = rng.dirichlet(np.ones(3), 200)
    found, expected = (family.marginal_log_density(parameters, rows) for rows in (csr, X))
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    found, expected = (family.marginal_statistics(parameters, rows, posterior) for rows in (csr, X))
    assert_close(found, expected, rtol=1e-9)
    both = (Rows(rows, has_gaps=True) for rows in (csr, X))
    found, expected = (family.e_step(parameters, np.log([0.2, 0.3, 0.5]), rows) for rows in both)
    assert_close(found[:2], expected[:2], rtol=1e-9)
    assert_allclose(found[2], expected[2], rtol=1e-9)
    found, expected = (family.completed(parameters, rows, posterior) for rows in (csr, X))
    assert_array_equal(found.toarray(), expected)
    components = rng.integers(0, 3, 200)
    found, expected = (
        family.drawn(parameters, rows, components, np.random.default_rng(0)) for rows in (csr, X)
    )
    assert_array_equal(found.toarray(), expected)


def test_lists_of_medians_grow_by_rows_and_not_by_gaps(rng):
    family, X = Laplace(), with_gaps(rng, rng.standard_normal((50, 4)))
    parameters = Laplaces(rng.standard_normal((2, 4)), np.ones((2, 4)))
    statistics = family.marginal_statistics(parameters, X, rng.dirichlet(np.ones(2), 50))
    assert len(statistics.points.weights) == 50
    assert len(statistics.past.weights) == 1


@pytest.mark.parametrize("case", WITHOUT, ids=repr)
def test_families_without_marginals_are_refused_by_name(case):
    with pytest.raises(ValueError, match=f"{type(case.family).__name__} has no marginal"):
        require(case.family, Marginals)


def product_with_documents(rng):
    """Of a family without marginal distributions, and one with some."""
    family = Product([Poisson(), Multinomial()], [[0, 4], [1, 2, 3]], names=["visits", "words"])
    parameters = rng.uniform(1.0, 4.0, (3, 2)), 9.0 * rng.dirichlet(np.ones(3), 3)
    X = np.empty((40, 5))
    X[:, [0, 4]] = rng.poisson(3.0, (40, 2))
    X[:, 1:4] = rng.multinomial(9, np.full(3, 1.0 / 3.0), 40)
    X[rng.random(40) < 0.3, 1:4] = np.nan
    X[rng.random(40) < 0.3, 0] = np.nan
    return family, parameters, X


def test_a_group_without_values_leaves_its_factor_out(rng):
    family, parameters, X = product_with_documents(rng)
    poisson, multinomial = family.families
    counts, words = X[:, [0, 4]].copy(), X[:, 1:4].copy()
    known = ~np.isnan(words[:, 0])
    expected = poisson.marginal_log_density(parameters[0], counts)
    expected[known] += multinomial.log_density(parameters[1], words[known])
    family.check(X)
    assert_allclose(family.marginal_log_density(parameters, X), expected, rtol=1e-12)
    posterior = rng.dirichlet(np.ones(3), 40)
    found = family.marginal_statistics(parameters, X, posterior)
    assert_close(found.factors[0], poisson.marginal_statistics(parameters[0], counts, posterior))
    own = multinomial.own_statistics(parameters[1], posterior[~known].sum(axis=0))
    of_words = multinomial.expected_statistics(words[known], posterior[known]) + own
    assert_close(found.factors[1], of_words)
    completed = family.completed(parameters, X, posterior)
    assert_allclose(completed[~known][:, 1:4], (posterior @ parameters[1])[~known])
    drawn = family.drawn(parameters, X, np.zeros(40, int), rng)
    assert_array_equal(drawn[:, 1:4].sum(axis=1), 9.0)
    # No group of the rows is complete.
    nothing = np.full((2, 5), np.nan)
    assert_array_equal(family.marginal_log_density(parameters, nothing), np.zeros((2, 3)))


def test_a_group_with_some_values_is_refused_by_the_name_of_its_family(rng):
    family, parameters, X = product_with_documents(rng)
    X[3, 1:4] = [1.0, np.nan, 2.0]
    for use in (
        family.check,
        lambda X: family.marginal_log_density(parameters, X),
        lambda X: family.marginal_statistics(parameters, X, np.ones((40, 3))),
        lambda X: family.completed(parameters, X, np.ones((40, 3))),
    ):
        with pytest.raises(ValueError, match="Multinomial has no marginal"):
            use(X)
