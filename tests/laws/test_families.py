"""What holds for every family of distributions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import arrays, assert_close, assert_identical
from cases.coordinates import minimiser
from cases.family_cases import (
    FAMILIES,
    HIDDEN_FAMILIES,
    IMPROPER,
    LIMITS,
    OTHER_FAMILIES,
    hyperparameters,
)
from cases.random_rows import SIDE
from cases.regressions import REGRESSIONS
from numpy.testing import assert_allclose
from scipy import sparse, stats

from sklearn_onlineem.data.rows import Rows, Wanted
from sklearn_onlineem.families import (
    ExponentialFamily,
    Family,
    Gamma,
    Gaussian,
    Gaussians,
    Tied,
    Wishart,
)
from sklearn_onlineem.families.capabilities import HiddenVariables, Marginals
from sklearn_onlineem.families.wishart import FixedDegreesWishart
from sklearn_onlineem.statistics import combine

ALL_FAMILIES = [*FAMILIES, *OTHER_FAMILIES, *HIDDEN_FAMILIES]
all_families = pytest.mark.parametrize("case", [*ALL_FAMILIES, *REGRESSIONS], ids=repr)
# Without hidden variables of their own.
visible_families = pytest.mark.parametrize("case", [*FAMILIES, *OTHER_FAMILIES], ids=repr)
exponential_families = pytest.mark.parametrize("case", FAMILIES, ids=repr)
COUNT_FAMILIES = [case for case in ALL_FAMILIES if case.counts]
GAUSSIANS = [case for case in FAMILIES if case.is_gaussian]


def symmetric_direction(case, rng, natural):
    """A random direction in which the natural parameters of the family can move."""
    direction = rng.standard_normal(natural.shape)
    if case.matrix:
        side = math.isqrt(natural.shape[1])
        matrices = direction[:, -(side**2) :].reshape(-1, side, side)
        if case.matrix == "shared":
            matrices = np.broadcast_to(matrices[:1], matrices.shape)
        symmetric = (matrices + matrices.transpose(0, 2, 1)) / 2.0
        direction[:, -(side**2) :] = symmetric.reshape(len(direction), -1)
    return direction


def dense(phi):
    return phi.toarray() if sparse.issparse(phi) else phi


@exponential_families
def test_gradient_of_log_partition_is_the_mean(case, rng):
    family = case.family
    natural = family.to_natural(case.draw(rng, 3, 3))
    # The log-partition of multinomials is that of one draw.
    mean = family.mean_statistics(family.from_natural(natural))
    for _ in range(10):
        direction = symmetric_direction(case, rng, natural)
        step = 1e-5 * direction
        slope = family.log_partition(natural + step) - family.log_partition(natural - step)
        assert_allclose(slope / 2e-5, (mean * direction).sum(axis=1), rtol=1e-7, atol=1e-6)


@exponential_families
def test_natural_parameters_go_there_and_back(case, rng):
    family, parameters = case.family, case.draw(rng, 4, 3)
    again = family.from_natural(family.to_natural(parameters))
    assert_close(case.identified(again), case.identified(parameters), rtol=1e-9)
    natural = family.to_natural(again)
    assert_allclose(natural, family.to_natural(parameters), rtol=1e-9, atol=1e-10)


@all_families
def test_log_density_equals_scipys(case, rng):
    X, parameters = case.rows(rng, 50, 3), case.draw(rng, 4, 3)
    expected = [case.log_density(case.family, parameters, k)(X) for k in range(4)]
    found = case.family.log_density(parameters, X)
    assert_allclose(found, np.transpose(expected), rtol=1e-10, atol=1e-10)


@exponential_families
def test_log_density_has_the_form_of_an_exponential_family(case, rng):
    family, X, parameters = case.family, case.rows(rng, 50, 3), case.draw(rng, 4, 3)
    natural, base = family.to_natural(parameters), family.log_base_measure(X)
    expected = dense(family.sufficient_statistics(X)) @ natural.T - family.log_partition(natural)
    if len(base):
        expected += base[:, None]
    assert_allclose(family.log_density(parameters, X), expected, rtol=1e-9, atol=1e-9)


@exponential_families
def test_kl_divergence_is_the_bregman_divergence_of_the_log_partition(case, rng):
    for d in (1, 3, 19):
        family, p, q = case.family, case.draw(rng, 6, d), case.draw(rng, 6, d)
        natural_p, natural_q = family.to_natural(p), family.to_natural(q)
        gap = family.log_partition(natural_q) - family.log_partition(natural_p)
        inner = (family.mean_statistics(p) * (natural_q - natural_p)).sum(axis=1)
        assert_allclose(family.kl_divergence(p, q), gap - inner, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", [*FAMILIES, *OTHER_FAMILIES, *REGRESSIONS], ids=repr)
def test_kl_divergence_is_the_mean_log_ratio_of_samples(case, rng):
    family, p, q = case.family, case.draw(rng, 2, 2), case.draw(rng, 2, 2)
    for k in range(2):
        X = family.sample(p, np.full(20_000, k), rng)
        ratio = family.log_density(p, X)[:, k] - family.log_density(q, X)[:, k]
        error = ratio.std() / math.sqrt(len(ratio))
        assert abs(family.kl_divergence(p, q)[k] - ratio.mean()) < 5.0 * error


@pytest.mark.parametrize("case", GAUSSIANS, ids=repr)
def test_the_floor_is_part_of_the_m_step_and_of_own_statistics(case, rng):
    """A floor is added once, not at every step."""
    family, X = replace(case.family, reg_covar=0.5), case.rows(rng, 30, 3)
    responsibilities = rng.dirichlet(np.ones(2), 30)
    plain = case.family.m_step(case.family.expected_statistics(X, responsibilities)).covariance
    parameters = family.m_step(family.expected_statistics(X, responsibilities))
    ridge = 0.5 * np.eye(3) if parameters.covariance.ndim == 3 else 0.5
    assert_allclose(parameters.covariance, plain + ridge, rtol=1e-12)
    again = family.m_step(family.own_statistics(parameters, np.array([0.3, 0.7])))
    assert_close(again, parameters, rtol=1e-12)


@all_families
def test_merged_statistics_minimise_the_sum_of_divergences(case, rng):
    family, alphas = case.family, (0.2, 0.5, 1.3)
    models = [(case.draw(rng, 2, 2), rng.dirichlet(np.ones(2))) for _ in alphas]
    own = [family.own_statistics(*model) for model in models]
    merged = family.m_step(combine(zip(alphas, own, strict=True)))
    like = models[0][0]

    def divergence(vector):
        q = case.decode(vector, like)
        return sum(
            alpha * weights @ family.kl_divergence(p, q)
            for alpha, (p, weights) in zip(alphas, models, strict=True)
        )

    found = case.decode(minimiser(divergence, case.encode(like)), like)
    assert_close(case.identified(merged), case.identified(found), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "case", [case for case in [*ALL_FAMILIES, *REGRESSIONS] if case.regular], ids=repr
)
def test_divergences_to_merged_statistics_and_from_there_add_up(case, rng):
    """The triangular equality: merging loses nothing that another model would not lose, too."""
    family = case.family
    models = [(a, case.draw(rng, 2, 2), rng.dirichlet(np.ones(2))) for a in (0.2, 0.5, 1.3)]
    merged = family.m_step(combine((a, family.own_statistics(p, w)) for a, p, w in models))
    other, weights = case.draw(rng, 2, 2), sum(a * w for a, _, w in models)

    def divergence_to(q):
        return sum(a * w @ family.kl_divergence(p, q) for a, p, w in models)

    expected = divergence_to(merged) + weights @ family.kl_divergence(merged, other)
    assert_allclose(divergence_to(other), expected, rtol=1e-8)


@exponential_families
def test_means_of_natural_parameters_minimise_the_divergences_from_there(case, rng):
    """Amid & Warmuth, lemma 5, by the triangular equality, which no other model can better."""
    family, alphas = case.family, np.array([0.1, 0.25, 0.65])
    natural = [family.to_natural(case.draw(rng, 2, 3)) for _ in range(4)]
    # In this form, models of counts have one draw each.
    *models, other = map(family.from_natural, natural)
    merged = family.from_natural(np.tensordot(alphas, natural[:3], axes=1))

    def divergence_from(q):
        return alphas @ [family.kl_divergence(q, p) for p in models]

    expected = divergence_from(merged) + family.kl_divergence(other, merged)
    assert_allclose(divergence_from(other), expected, rtol=1e-8)
    assert (divergence_from(merged) < divergence_from(other)).all()


@visible_families
def test_m_step_with_a_prior_is_the_mode_of_the_posterior(case, rng):
    family, X = case.family, case.rows(rng, 12, 2)
    responsibilities = rng.dirichlet(np.ones(2), 12)
    prior = family.prior_statistics(2, n_features=X.shape[1], **case.prior(X.shape[1]))
    evidence = family.expected_statistics(X, responsibilities)
    mode = family.m_step(combine([(1.0, evidence), (1.0, prior)]))
    like = case.draw(rng, 2, 2)

    def negative_log_posterior(vector):
        parameters = case.decode(vector, like)
        log_likelihood = (responsibilities * family.log_density(parameters, X)).sum()
        try:
            return -log_likelihood - case.log_prior(family, parameters)
        except np.linalg.LinAlgError:  # SciPy takes covariances that a search tries for singular.
            return 1e10

    assert_minimal(case, negative_log_posterior, mode, like, rng, tolerance=1e-5)


def assert_minimal(case, objective, found, start, rng, tolerance):
    """A numerical minimiser finds the same, or, where slopes jump, nothing that is less."""
    vector = minimiser(objective, case.encode(start))
    if case.is_smooth:
        expected = case.identified(case.decode(vector, start))
        assert_close(case.identified(found), expected, rtol=tolerance, atol=tolerance)
        return
    best, encoded = objective(case.encode(found)), case.encode(found)
    assert best <= objective(vector) + 1e-12
    for scale in 10.0 ** -np.arange(8.0).repeat(10):
        assert best <= objective(encoded + scale * rng.standard_normal(len(encoded))) + 1e-12


@all_families
def test_hyper_parameters_that_make_no_prior(case):
    family, n_features = case.family, 4 + case.n_inputs
    prior = case.prior(n_features)
    for name in hyperparameters(family):
        for value in [np.nan, np.inf, "many", *IMPROPER.get(name, [])]:
            with pytest.raises(ValueError, match=f"^{name} must be "):
                family.prior_statistics(2, n_features=n_features, **{**prior, name: value})


@pytest.mark.parametrize(
    "family, mean",
    [
        (Gamma(), 0.0),
        (Gamma(), -1.0),
        (Wishart(), [1.0, 2.0, 2.0, 1.0]),
        (Wishart(), np.zeros((2, 2))),
        (Wishart(), np.eye(3)),
    ],
    ids=repr,
)
def test_means_of_priors_are_means_of_rows(family, mean):
    with pytest.raises(ValueError, match="^mean must be "):
        family.prior_statistics(2, n_features=4, mean=mean)


@all_families
def test_priors_may_be_limits_of_proper_ones(case):
    family, n_features = case.family, 4 + case.n_inputs
    for name in hyperparameters(family):
        for value in LIMITS.get(name, []):
            settings = {**case.prior(n_features), name: value}
            prior = family.prior_statistics(2, n_features=n_features, **settings)
            assert all(np.isfinite(array).all() for array in arrays(prior))


@all_families
def test_several_covariances_have_no_prior_without_degrees(case):
    family, n_features = case.family, 4 + case.n_inputs
    for name in {"covariance", "scale", "inverse_scale"} & {*hyperparameters(family)}:
        if "pseudo_count" in hyperparameters(family) or getattr(case, "inner", None):
            continue  # A component of several parts has several covariances.
        family.prior_statistics(1, n_features=n_features, **{name: 1.0})
        if getattr(getattr(family, "covariance", None), "is_shared", False):
            family.prior_statistics(2, n_features=n_features, **{name: 1.0})
            continue
        with pytest.raises(ValueError, match=f"^{name} alone has no mode .* set (deg|shape)"):
            family.prior_statistics(2, n_features=n_features, **{name: 1.0})


@all_families
def test_samples_are_in_the_support_and_repeatable(case, rng):
    family, parameters = case.family, case.draw(rng, 3, 3)
    draws = [
        family.sample(parameters, np.arange(300) % 3, np.random.default_rng(7)) for _ in range(2)
    ]
    np.testing.assert_array_equal(*draws)
    family.check(draws[0])
    assert np.isfinite(family.log_density(parameters, draws[0])).all()


# ------------------------------------------------------------------ compiled against generic E-step


def rows_with(case, rng, options, n=700, d=4):
    X = case.rows(rng, n, d)
    return Rows(
        X,
        rng.integers(0, 3, n) * rng.random(n) if "weights" in options else None,
        rng.integers(-1, 3, n).astype(np.int32) if "labels" in options else None,
    )


def both_e_steps(case, rng, rows, uniforms=None, d=4, n_components=3):
    log_weights = np.log(rng.dirichlet(np.ones(n_components)))
    arguments = case.draw(rng, n_components, d), log_weights, rows, Wanted(uniforms)
    return case.family.e_step(*arguments), Family.e_step(case.family, *arguments)


@all_families
@pytest.mark.parametrize(
    ("options", "n", "d", "n_components"),
    [
        ("", 700, 4, 3),
        ("weights", 256, 17, 1),
        ("labels", 7, 2, 5),
        ("uniforms", 1, 4, 2),
        ("weights labels uniforms", 300, 9, 40),
    ],
)
def test_compiled_e_step_equals_the_generic_one(case, options, n, d, n_components, rng):
    rows = rows_with(case, rng, options, n, d)
    uniforms = rng.random(n) if "uniforms" in options else None
    compiled, generic = both_e_steps(case, rng, rows, uniforms, d, n_components)
    assert_close(compiled[::2], generic[::2], rtol=1e-9, atol=1e-9)
    # Means of those without rows are anywhere.
    some = np.flatnonzero(generic[0] > 0.0)
    found, expected = (each[1].components(some, n_components) for each in (compiled, generic))
    assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", COUNT_FAMILIES, ids=repr)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_e_step_of_sparse_rows_equals_that_of_dense_rows(case, index, form, rng):
    rows = rows_with(case, rng, "weights labels")
    X = form(rows.X)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    state = rng.bit_generator.state
    dense_result, _ = both_e_steps(case, rng, rows)
    rng.bit_generator.state = state
    for result in both_e_steps(case, rng, replace(rows, X=X)):
        rng.bit_generator.state = state
        assert_close(result, dense_result, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", GAUSSIANS, ids=repr)
@pytest.mark.parametrize("log_weight", [-70.0, -85.0, -100.0])
def test_a_component_of_one_outlier_stays_valid_in_single_precision(case, log_weight, rng):
    X = rng.standard_normal((1000, 16))
    X[0] = 5.0
    X = X.astype(np.float32)
    family = replace(case.family, reg_covar=None).bind(X)
    covariances = np.array([1.0, 1.5])[:, None, None] * np.eye(16)
    mean, scatter = np.zeros((2, 16)), family.covariance.from_matrices(covariances)
    parameters = Gaussians(mean, scatter / (len(covariances) / len(scatter)))
    rows, log_weights = Rows(X), np.array([0.0, log_weight])
    posterior = log_weights + family.log_density(parameters, X)
    posterior = np.exp(posterior - np.logaddexp.reduce(posterior, axis=1, keepdims=True))
    for evidence in (
        family.e_step(parameters, log_weights, rows)[1],
        family.posterior_statistics(parameters, X, posterior),
    ):
        found = family.m_step(evidence, parameters).covariance_matrices
        assert (np.linalg.eigvalsh(found) > 0.5 * family.floor.min()).all()
        assert_allclose(np.trace(found[0]), np.trace(np.cov(X[1:].T)), rtol=0.1)


@all_families
def test_n_parameters_is_the_dimension_of_the_parameters(case, rng):
    parameters = case.draw(rng, 4, 3)
    directions = len(case.encode(parameters)) - 4 * case.n_redundant(3)
    assert case.family.n_parameters(parameters) == directions


# ---------------------------------------------------------------------------- the Wishart's digits


@pytest.mark.parametrize("shape", [1e-2, 1.0, 30.0, 1e4])
def test_gamma_fits_its_own_data_as_scipy_does(shape, rng):
    X = np.maximum(rng.gamma(shape, 2.0, (500, 1)), np.finfo(float).tiny)
    parameters = Gamma().m_step(Gamma().expected_statistics(X, np.ones((500, 1))))
    expected, _, scale = stats.gamma.fit(X.ravel(), floc=0.0)
    shapes, rates = Gamma().shapes_and_rates(parameters)
    assert_allclose([shapes[0, 0], rates[0, 0]], [expected, 1.0 / scale], rtol=1e-6)


@pytest.mark.parametrize(
    ("family", "name", "degrees"),
    [
        (Gaussian(), "covariance", {"degrees_of_freedom": 9.0}),
        (Gaussian(Tied()), "covariance", {}),
        (FixedDegreesWishart(degrees=5.0), "inverse_scale", {"degrees": 4.0}),
    ],
    ids=str,
)
def test_a_number_for_a_matrix_is_a_multiple_of_the_unit_matrix(family, name, degrees):
    n_features = SIDE**2
    size = SIDE if name == "inverse_scale" else n_features
    found, expected = (
        family.prior_statistics(3, n_features=n_features, **{name: value}, **degrees)
        for value in (2.5, 2.5 * np.eye(size))
    )
    assert_identical(found, expected)


@all_families
@pytest.mark.parametrize("form", ["f4", "f8", "sparse"])
def test_bits_do_not_depend_on_the_number_of_threads(case, form, rng):
    # So many rows that one thread has more rounds of slabs than four have.
    n_rows = 20_001 if isinstance(case.family, ExponentialFamily) else 3000
    family, parameters, X = case.family, case.draw(rng, 9, 16), case.rows(rng, n_rows, 16)
    if form == "sparse" and case not in COUNT_FAMILIES:
        return
    X = sparse.csr_array(X) if form == "sparse" else X.astype(form)
    shares, log_weights = rng.dirichlet(np.ones(9), n_rows), np.log(rng.dirichlet(np.ones(9)))
    methods = [
        lambda n: family.e_step(parameters, log_weights, Rows(X, n_threads=n)),
        lambda n: family.log_density(parameters, X, n_threads=n),
        lambda n: family.expected_statistics(X, shares, n_threads=n),
        lambda n: family.posterior_statistics(parameters, X, shares, n_threads=n),
    ]
    if isinstance(family, HiddenVariables):
        methods.append(
            lambda n: family.posterior_statistics(
                parameters, X, shares, n_threads=n, rng=np.random.default_rng(3)
            )
        )
    if isinstance(family, Marginals) and form != "sparse":
        gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X).astype(form)
        gaps = gaps[~np.isnan(gaps).all(axis=1)]
        some = shares[: len(gaps)]
        methods += [
            lambda n: family.marginal_log_density(parameters, gaps, n_threads=n),
            lambda n: family.marginal_statistics(parameters, gaps, some, n_threads=n),
            lambda n: family.e_step(parameters, log_weights, Rows(gaps, None, None, n, True)),
        ]
    for method in methods:
        one = method(1)
        assert_identical(method(2), one)
        assert_identical(method(4), one)


@visible_families
def test_uniform_numbers_have_no_fields(case, rng):
    """Kernels take them as they are, and would crash."""
    p, X = case.draw(rng, 2, 2), case.rows(rng, 5, 2)
    uniforms = np.zeros(5, dtype=[("a", "f8"), ("b", "i4")])
    with pytest.raises((TypeError, ValueError)):
        case.family.e_step(p, np.log([0.5, 0.5]), Rows(X), Wanted(uniforms))
