"""The kernel of Gaussians in natural form against its formulas in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import (
    DTYPES,
    NO_LABELS,
    NONE,
    moments,
    options_for,
    random_covariances,
    task,
)
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem._kernels._gaussian import LARGEST_GUARD
from sklearn_onlineem._kernels._gaussian import mixture_pass as centred_pass
from sklearn_onlineem._kernels._natural import gaussian_e_step as e_step
from sklearn_onlineem._kernels._natural import moments_about, natural_form
from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem.families import Diagonal, Full, Gaussians, Spherical
from sklearn_onlineem.families.covariance_shapes import location


def problem(n, d, K, dtype=np.float64, offset=0.0):
    rng = np.random.default_rng([n, d, K])
    X = (rng.standard_normal((n, d)) + offset).astype(dtype)
    means = rng.standard_normal((K, d)) + offset
    return X, means, random_covariances(rng, K, d), np.log(rng.dirichlet(np.ones(K)))


def run(X, means, covariances, log_weights, *options, most_terms=np.inf, n_threads=1, of_rows=NONE):
    K, d = means.shape
    weight, mean, scatter = np.empty(K), np.empty((K, d)), np.empty((K, d, d))
    options = options or (NONE, NO_LABELS, NONE)
    log_likelihood = e_step(
        X,
        means,
        np.linalg.inv(covariances),
        np.linalg.inv(np.linalg.cholesky(covariances)).transpose(0, 2, 1).copy(),
        np.linalg.slogdet(covariances)[1],
        log_weights,
        task(*options, of_rows),
        float(options[0].sum() if len(options[0]) else len(X)),
        most_terms,
        weight,
        mean,
        scatter,
        n_threads,
    )
    return weight, mean, scatter, log_likelihood


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, d, K", [(1, 5, 3), (7, 1, 2), (300, 4, 3)])
@pytest.mark.parametrize("is_shared", [False, True])
def test_matrices_in_two_steps(n, d, K, is_shared, dtype):
    X, means, covariances, _ = problem(n, d, K, dtype)
    precision = np.linalg.inv(covariances[:1] if is_shared else covariances)
    y, (i, j) = X - X[:256].astype(np.float64).mean(axis=0), np.triu_indices(d)
    about = np.empty(d), np.empty((K, d + len(i))), np.empty(K)
    guard = natural_form(X, means, precision, NONE, *about)
    centre, natural, offset = about
    assert_allclose(centre, X[:256].astype(np.float64).mean(axis=0), rtol=1e-10)
    features, shift = np.concatenate([y, y[:, i] * y[:, j]], axis=1), means - centre
    deviations = X[:, None] - means
    each = np.broadcast_to(precision, covariances.shape)
    expected = np.einsum("nkd,kde,nke->nk", deviations, each, deviations)
    assert_allclose(-2.0 * (offset + features @ natural.T), expected, rtol=1e-8, atol=1e-8)
    log_det = np.linalg.slogdet(covariances[: len(precision)])[1]
    with_log_det = np.empty_like(offset)
    natural_form(X, means, precision, log_det, centre, natural, with_log_det)
    assert_allclose(with_log_det, offset - 0.5 * (log_det + d * np.log(2.0 * np.pi)), rtol=1e-12)
    diagonals = np.diagonal(precision, axis1=1, axis2=2)
    spread = X[:256].astype(np.float64).var(axis=0)
    assert_allclose(guard, (diagonals * (spread + shift**2)).sum(axis=1).max(), rtol=1e-10)
    responsibilities = np.random.default_rng(0).uniform(size=(n, K))
    expected = moments(X.astype(float), responsibilities)
    counts, mean, scatter = expected[0], np.empty((K, d)), np.empty((K, d, d))
    moments_about(centre, counts, responsibilities.T @ features, mean, scatter)
    assert_allclose(mean, expected[1], rtol=1e-8)
    assert_allclose(scatter, expected[2], rtol=1e-6, atol=1e-8)


def test_a_component_that_sees_nothing_lies_in_the_middle_of_the_rows():
    X, means, covariances, _ = problem(50, 3, 2)
    weight, mean, scatter, _ = run(X, means, covariances, np.array([0.0, -np.inf]))
    assert_allclose(weight, [1.0, 0.0])
    assert_allclose(mean[1], X.mean(axis=0))
    assert_array_equal(scatter[1], 0.0)


def test_it_declines_where_digits_of_most_components_would_be_lost():
    X, means, covariances, log_weights = problem(50, 3, 3)
    centre = X.mean(axis=0)
    spread = X.var(axis=0)
    diagonals = np.diagonal(np.linalg.inv(covariances), axis1=1, axis2=2)
    terms = np.median((diagonals * (spread + (means - centre) ** 2)).sum(axis=1))
    arguments = X, means, covariances, log_weights
    assert np.isnan(run(*arguments, most_terms=terms * (1 - 1e-9))[-1])
    assert np.isfinite(run(*arguments, most_terms=terms * (1 + 1e-9))[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [4, 17, 70])
@pytest.mark.parametrize("shape", [Full(), Diagonal(), Spherical()], ids=repr)
@pytest.mark.parametrize("n_narrow", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_narrow_components_keep_their_digits(n_narrow, shape, d, dtype, n_threads):
    rng = np.random.default_rng(n_narrow)
    n, K = 2500, 7
    scales = np.full(K, 100.0)
    scales[[5, 0, 3][:n_narrow]] = 1e-3
    means = 100.0 * rng.normal(size=(K, d))
    owners = rng.integers(K, size=n)
    X = (means[owners] + scales[owners, None] * rng.normal(size=(n, d))).astype(dtype)
    if shape == Full():
        covariances = random_covariances(rng, K, d) * scales[:, None, None] ** 2
    else:
        covariances = rng.uniform(1, 2, size=(K, shape.n_parameters(d))) * scales[:, None] ** 2
    gaussians, log_weights = Gaussians(means, covariances), np.log(rng.dirichlet(np.ones(K)))
    sample_weight, labels, uniforms = options_for(n, K)
    labels[:] = np.where(labels < 0, labels, owners)
    options = sample_weight, labels, NONE
    factors = gaussians.precision_factor if shape == Full() else NONE
    weight, mean, scatter = np.empty(K), np.empty((K, d)), np.empty_like(covariances)
    of_rows = np.empty(n)
    log_likelihood = e_step(
        X, means, gaussians.precision, factors, gaussians.log_det, log_weights,
        task(*options, of_rows), sample_weight.sum(), LARGEST_GUARD[X.dtype], weight, mean, scatter,
        n_threads,
    )  # fmt: skip
    # About all means.
    expected_of_rows, shares = np.empty(n), np.empty((n, K), dtype)
    if shape != Full():
        factors = np.ascontiguousarray(np.broadcast_to(gaussians.precision_factor, (K, d)))
    offset = gaussians._offset(log_weights)
    centred_pass(X, means, factors, offset, task(out=shares), None, None, None, 1)
    total = normalise(shares, task(*options, expected_of_rows))
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    assert_allclose(log_likelihood, total / sample_weight.sum(), rtol=tolerance)
    assert_allclose(of_rows, expected_of_rows, rtol=tolerance)
    shares = shares.astype(float) / sample_weight.sum()
    assert_allclose(weight, shares.sum(axis=0), rtol=tolerance)
    for k, scale in enumerate(scales):
        # Distances to the old mean are short and exact.
        residuals = (X.astype(float) - means[k]) / scale
        shift = shares[:, k] @ residuals / weight[k]
        assert_allclose((mean[k] - means[k]) / scale, shift, atol=tolerance)
        residuals -= shift
        squares = (residuals.T * shares[:, k]) @ residuals
        expected = shape.from_matrices(squares[None])[0]
        assert_allclose(scatter[k] / scale**2, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_does_not_matter_where_zero_is(dtype):
    near, far = problem(500, 3, 4, dtype), problem(500, 3, 4, dtype, offset=2.0**12)
    X = near[0].astype(np.float64) + 2.0**12
    if dtype == np.float64:
        far = (X, *far[1:])
    here, there = run(*near), run(*far)
    tolerance = 5e-3 if dtype == np.float32 else 1e-8
    assert_allclose(there[0], here[0], rtol=tolerance)
    assert_allclose(there[1] - 2.0**12, here[1], atol=tolerance)
    assert_allclose(there[2], here[2], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (100, 1), (256, 1), (300, 1), (300, 3)])
def test_centres_have_the_bits_of_those_of_numpy(n, d, dtype, rng):
    # Products of families take features about the latter.
    X = (1e7 + rng.normal(size=(n, d))).astype(dtype)
    centre, natural, offset = np.empty(d), np.empty((1, 2 * d)), np.empty(1)
    mean, precision = X[:1].astype(float), np.ones((1, d))
    guard = natural_form(X, mean, precision, NONE, centre, natural, offset)
    assert_array_equal(centre, location(X))
    spread = X[:256].astype(float).var(axis=0)
    assert_allclose(guard, (spread + (mean - centre) ** 2).sum(), rtol=1e-7)
