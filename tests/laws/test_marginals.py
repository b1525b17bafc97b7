"""What holds for every family with marginal distributions, for rows with missing values."""

from functools import partial

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.family_cases import FAMILIES, HIDDEN_FAMILIES, OTHER_FAMILIES
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import (
    Categorical,
    Full,
    Gamma,
    Gaussian,
    Gaussians,
    Laplace,
    StudentT,
    Tied,
)
from sklearn_onlineem.families.capabilities import Marginals, require
from sklearn_onlineem.families.laplace import Laplaces
from sklearn_onlineem.families.student_t import StudentTs
from sklearn_onlineem.statistics import combine

ALL = [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]
CASES = [case for case in ALL if isinstance(case.family, Marginals)]
# Columns of Student's t distributions have a hidden precision in common.
INDEPENDENT = [
    case
    for case in CASES
    if not isinstance(getattr(case.family, "covariance", None), Full | Tied)
    and not isinstance(case.family, StudentT)
]
WITHOUT = [case for case in ALL if case not in CASES]
SPARSE = [case for case in CASES if case.counts]

all_cases = pytest.mark.parametrize("case", CASES, ids=repr)
independent_cases = pytest.mark.parametrize("case", INDEPENDENT, ids=repr)
sparse_cases = pytest.mark.parametrize("case", SPARSE, ids=repr)
all_shares = pytest.mark.parametrize("share", [0.1, 0.6])


def with_gaps(rng, X, share=0.4):
    """Rows with missing values, among them one that is complete and one that has nothing."""
    X = np.where(rng.random(X.shape) < share, np.nan, X)
    X[0], X[1] = np.nan_to_num(X[0], nan=1.0), np.nan
    return X


def restricted(family, parameters, columns):
    """Parameters of some columns alone."""
    if isinstance(parameters, Gaussians):
        covariance = parameters.covariance
        if covariance.ndim == 3:
            covariance = covariance[:, columns[:, None], columns]
        elif covariance.shape[1] > 1:
            covariance = covariance[:, columns]
        return Gaussians(*map(np.ascontiguousarray, (parameters.mean[:, columns], covariance)))
    if isinstance(parameters, StudentTs):
        of_columns = restricted(Gaussian(family.covariance), parameters.gaussians, columns)
        return StudentTs(of_columns, parameters.degrees_of_freedom)
    if isinstance(parameters, Laplaces):
        return Laplaces(*(values[:, columns] for values in parameters))
    if isinstance(family, Gamma):
        return parameters[:, np.append(columns, columns + parameters.shape[1] // 2)].copy("C")
    if isinstance(family, Categorical):
        by_column = parameters.reshape(len(parameters), -1, family.n_categories)
        return by_column[:, columns].reshape(len(parameters), -1)
    return np.ascontiguousarray(parameters[:, columns])


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
        of_columns = restricted(case.family, parameters, o)
        expected = [case.log_density(case.family, of_columns, k)(x[None, o]) for k in range(3)]
        assert_allclose(log_density, np.ravel(expected), rtol=1e-9, atol=1e-9)
        same = case.family.log_density(of_columns, np.ascontiguousarray(x[None, o]))[0]
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
    if case.is_gaussian or isinstance(case.family, Laplace | StudentT):
        return
    X[5] = [np.nan, -1.0, np.nan, 1.0]
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
                of_observed = restricted(family, other, o)
                total += shares @ family.log_density(of_observed, x[None, o].copy())[0]
            if len(m):
                both = (restricted(family, p, m) for p in (parameters, other))
                total -= shares @ family.kl_divergence(*both)
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
    # Each in its own component and column.
    values, missing = np.unique(drawn[np.isnan(X)]), np.isnan(X).sum()
    assert len(values) == missing or len(values) < 50


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
    if family.is_nominal:
        counts = (drawn[..., None] == np.arange(family.n_categories)).mean(axis=0)
        chosen = np.take_along_axis(counts, completed[..., None].astype(int), axis=2)[..., 0]
        assert (chosen >= counts.max(axis=2) - 0.15).all()
        return
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - completed) <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize("case", [case for case in INDEPENDENT if not case.is_gaussian], ids=repr)
def test_without_values_completion_is_by_means_or_by_the_most_probable_symbols(case, rng):
    family, parameters, posterior = case.family, case.draw(rng, 3, 4), rng.dirichlet(np.ones(3), 9)
    found = family.completed(parameters, np.full((9, 4), np.nan), posterior)
    if family.is_nominal:
        expected = np.einsum("nk,kjc->njc", posterior, parameters.reshape(3, 4, -1)).argmax(axis=2)
    else:
        expected = posterior @ family.means(parameters)
    assert_allclose(found, expected, rtol=1e-12)


def sample_options(rng, n):
    weights, labels = rng.uniform(0.0, 2.0, n), rng.integers(-1, 3, n).astype(np.intc)
    return [({}, None), ({"sample_weight": weights, "labels": labels}, None), ({}, rng.random(n))]


@all_cases
def test_e_step_is_the_generic_one_by_log_densities_and_statistics(case, rng):
    family, (X, parameters, _) = case.family, problem(case, rng, n=2500)
    log_weights = np.log([0.2, 0.3, 0.5])
    for options, uniforms in sample_options(rng, len(X)):
        rows, outs = Rows(X, **options), np.empty((2, len(X)))
        found, expected = (
            step(parameters, log_weights, rows, uniforms, out)
            for step, out in zip(
                (family.marginal_e_step, partial(Marginals.marginal_e_step, family)),
                outs,
                strict=True,
            )
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
    sums = [
        family.marginal_e_step(parameters, np.log([0.2, 0.3, 0.5]), Rows(rows))
        for rows in (X, X.astype(np.float64))
    ]
    assert_close(sums[0][0], sums[1][0], rtol=1e-4)
    for complete in (
        family.completed(parameters, X, posterior),
        family.drawn(parameters, X, np.zeros(len(X), int), rng),
    ):
        assert complete.dtype == np.float32


@all_shares
@all_cases
def test_em_never_lowers_the_likelihood(case, share, rng):
    family, X = case.family, with_gaps(rng, case.rows(rng, 200, 3), share)
    weights, parameters = np.full(3, 1 / 3), case.draw(rng, 3, 3)
    path, rows = [], Rows(X)
    for _ in range(25):
        step = family.marginal_e_step(parameters, np.log(weights), rows)
        weights, parameters = step[0], family.m_step(step[1], parameters)
        path.append(step[2])
    assert (np.diff(path) >= -1e-11).all()
    assert path[-1] > path[0] + 1e-3


@all_cases
def test_an_online_step_raises_the_likelihood_of_a_batch(case, rng):
    """With inertia: missing values and the old model have the same statistics."""
    family, X = case.family, with_gaps(rng, case.rows(rng, 100, 3))
    weights, parameters = np.array([0.5, 0.3, 0.2]), case.draw(rng, 3, 3)
    counts, statistics, before = family.marginal_e_step(parameters, np.log(weights), Rows(X))
    for inertia in (0.3, 3.0):
        own = family.own_statistics(parameters, weights)
        new = family.m_step(combine([(1.0, statistics), (inertia, own)]))
        new_weights = (counts + inertia * weights) / (1.0 + inertia)
        _, _, after = family.marginal_e_step(new, np.log(new_weights), Rows(X))
        assert after > before


@all_cases
def test_a_component_without_rows_keeps_its_parameters(case, rng):
    family, (X, parameters, posterior) = case.family, problem(case, rng)
    posterior[:, 1] = 0.0
    new = family.m_step(family.marginal_statistics(parameters, X, posterior), parameters)
    gaussians = getattr(parameters, "gaussians", parameters)
    if getattr(gaussians, "covariance", np.empty((3, 0, 0))).shape[0] == 3:
        kept, old = ([np.asarray(a)[1] for a in arrays_of(p)] for p in (new, parameters))
        for a, b in zip(kept, old, strict=True):
            assert_allclose(a, b, rtol=1e-12)


def arrays_of(parameters):
    if isinstance(parameters, Gaussians):
        return parameters.mean, parameters.covariance
    if isinstance(parameters, StudentTs):
        degrees = np.broadcast_to(parameters.degrees_of_freedom, len(parameters.gaussians.mean))
        return *arrays_of(parameters.gaussians), degrees
    return parameters if isinstance(parameters, tuple) else (parameters,)


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
    found, expected = (
        family.marginal_e_step(parameters, np.log([0.2, 0.3, 0.5]), Rows(rows)) for rows in (csr, X)
    )
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
