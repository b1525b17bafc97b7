"""Regressions on known inputs: brute force, and inputs that say nothing."""

import pickle

import numpy as np
import pytest
from cases.numerical import minimiser
from cases.random_rows import positive_definite
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import LinearRegression

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import GaussianRegression
from sklearn_onlineem.families.gaussian_regression import Regressions
from sklearn_onlineem.models.mixture import MixtureModel
from sklearn_onlineem.statistics import combine

N_INPUTS, N_OUTPUTS, N_COMPONENTS = 2, 2, 2


def draw_rows(rng, n):
    x = rng.normal(1.0, 2.0, (n, N_INPUTS))
    y = x @ rng.normal(size=(N_INPUTS, N_OUTPUTS)) + rng.normal(size=(n, N_OUTPUTS))
    return np.hstack([x, y])


def learnt_model(rng, X):
    """A mixture after steps of EM, and the responsibilities of the last one."""
    family = GaussianRegression(N_INPUTS, reg_covar=0.0)
    shares = rng.dirichlet(np.ones(N_COMPONENTS), len(X))
    statistics = family.expected_statistics(X, shares)
    return MixtureModel(family, shares.mean(axis=0), family.m_step(statistics)), shares


def encode(model):
    roots = np.linalg.cholesky(model.parameters.covariance)
    i, j = np.tril_indices(N_OUTPUTS)
    roots = np.where(i == j, np.log(np.abs(roots[:, i, j])), roots[:, i, j])
    linear = model.parameters.matrix.ravel(), model.parameters.offset.ravel()
    return np.concatenate([np.log(model.weights), *linear, roots.ravel()])


def decode(vector):
    """Weights, matrices, offsets and covariances of the noise."""
    K, p, q = N_COMPONENTS, N_OUTPUTS, N_INPUTS
    logs, B, c, entries = np.split(vector, np.cumsum([K, K * p * q, K * p]))
    i, j = np.tril_indices(p)
    entries, roots = entries.reshape(K, -1), np.zeros((K, p, p))
    roots[:, i, j] = np.where(i == j, np.exp(entries), entries)
    weights = np.exp(logs) / np.exp(logs).sum()
    return weights, B.reshape(K, p, q), c.reshape(K, p), roots @ roots.mT


def log_densities(X, B, c, R):
    """By scipy, of shape (n_rows, K)."""
    x, y = X[:, :N_INPUTS], X[:, N_INPUTS:]
    noises = [stats.multivariate_normal(np.zeros(N_OUTPUTS), covariance) for covariance in R]
    return np.stack([noise.logpdf(y - x @ B[k].T - c[k]) for k, noise in enumerate(noises)], axis=1)


def gaussian_divergences(x, old, new, k):
    """KL(N(B x + c, R) || N(B~ x + c~, R~)) of component k for each row of inputs."""
    (_, B, c, R), (_, B_new, c_new, R_new) = old, new
    shift = x @ (B[k] - B_new[k]).T + c[k] - c_new[k]
    inverse = np.linalg.inv(R_new[k])
    log_ratio = np.linalg.slogdet(R_new[k])[1] - np.linalg.slogdet(R[k])[1]
    trace = np.trace(inverse @ R[k]) - N_OUTPUTS + log_ratio
    return 0.5 * (trace + np.einsum("ni,ij,nj->n", shift, inverse, shift))


@pytest.mark.parametrize("eta", [0.3, 2.0])
def test_an_online_step_minimises_the_conditional_bound_and_the_expected_divergence(eta, rng):
    """The expectation is over the inputs that the model has seen, by their responsibilities."""
    before, batch = draw_rows(rng, 40), draw_rows(rng, 25)
    model, shares = learnt_model(rng, before)
    old = decode(encode(model))
    log_joint = np.log(old[0]) + log_densities(batch, *old[1:])
    posterior = np.exp(log_joint - np.logaddexp.reduce(log_joint, axis=1, keepdims=True))

    def objective(vector):
        new = decode(vector)
        log_joint = np.log(new[0]) + log_densities(batch, *new[1:])
        bound = (posterior * (np.log(posterior) - log_joint)).sum(axis=1).mean()
        divergence = (old[0] * np.log(old[0] / new[0])).sum()
        for k in range(N_COMPONENTS):
            of_rows = gaussian_divergences(before[:, :N_INPUTS], old, new, k)
            divergence += old[0][k] * np.average(of_rows, weights=shares[:, k])
        return bound + divergence / eta

    found, _ = online_step(model, Rows(batch), eta)
    for ours, expected in zip(
        decode(encode(found)), decode(minimiser(objective, encode(model))), strict=True
    ):
        assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)
    assert found.kl_divergence(model) > 1e-4


def test_a_maximum_of_the_conditional_likelihood_is_where_em_ends(rng):
    X = draw_rows(rng, 60)
    X[:30, N_INPUTS:] += 6.0
    family = GaussianRegression(N_INPUTS, reg_covar=0.0)
    halves = np.repeat(np.eye(2), 30, axis=0)
    statistics = family.expected_statistics(X, halves)
    model, rows = MixtureModel(family, np.full(2, 0.5), family.m_step(statistics)), Rows(X)
    for _ in range(500):
        model, _ = batch_step(model, rows)

    def objective(vector):
        weights, *others = decode(vector)
        log_joint = np.log(weights) + log_densities(X, *others)
        return -np.logaddexp.reduce(log_joint, axis=1).mean()

    for ours, expected in zip(
        decode(encode(model)), decode(minimiser(objective, encode(model) + 0.05)), strict=True
    ):
        assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_merged_regressions_are_those_of_all_rows(rng):
    family = GaussianRegression(N_INPUTS, reg_covar=0.0)
    parts = [draw_rows(rng, n) for n in (30, 50, 20)]
    learnt = [family.m_step(family.expected_statistics(X, np.ones((len(X), 1)))) for X in parts]
    pairs = [
        (len(X), family.own_statistics(parameters, np.ones(1)))
        for X, parameters in zip(parts, learnt, strict=True)
    ]
    merged = family.m_step(combine(pairs))
    X = np.vstack(parts)
    expected = LinearRegression().fit(X[:, :N_INPUTS], X[:, N_INPUTS:])
    assert_allclose(merged.matrix[0], expected.coef_, rtol=1e-10)
    assert_allclose(merged.offset[0], expected.intercept_, rtol=1e-10)
    residual = X[:, N_INPUTS:] - expected.predict(X[:, :N_INPUTS])
    assert_allclose(merged.covariance[0], residual.T @ residual / len(X), rtol=1e-10)
    assert_allclose(merged.mean[0], X.mean(axis=0), rtol=1e-12)


def test_inputs_far_from_zero_cost_no_digits(rng):
    X = draw_rows(rng, 200)
    far = X + [1e7, -1e8, 1e6, 0.0]
    family, ones = GaussianRegression(N_INPUTS, reg_covar=0.0), np.ones((200, 1))
    here = family.m_step(family.expected_statistics(X, ones))
    there = family.m_step(family.expected_statistics(far, ones))
    assert_allclose(there.matrix, here.matrix, rtol=1e-5)
    assert_allclose(there.covariance, here.covariance, rtol=1e-6)
    assert_allclose(family.log_density(there, far), family.log_density(here, X), atol=1e-5)
    again = family.m_step(family.own_statistics(there, np.array([0.3])))
    assert_allclose(again.matrix, there.matrix, rtol=1e-12)


def test_inputs_that_do_not_vary_keep_their_coefficients(rng):
    """Those that depend on others share the effect: the least squares of least norm."""
    x = rng.normal(size=(100, 2))
    x = np.column_stack([x, np.full(100, 0.1), 3.0 * x[:, 0]])
    y = x @ [1.0, 2.0, 3.0, 4.0] + rng.normal(size=100)
    X, family, ones = np.column_stack([x, y]), GaussianRegression(4), np.ones((100, 1))
    found = family.m_step(family.expected_statistics(X, ones))
    assert found.matrix[0, 0, 2] == 0.0
    of_two = LinearRegression().fit(x[:, :2], y)
    assert_allclose(found.matrix[0, 0, 0] + 3.0 * found.matrix[0, 0, 3], of_two.coef_[0])
    assert_allclose(family.predicted(found, x)[:, 0, 0], of_two.predict(x[:, :2]), rtol=1e-8)
    known = Regressions(found.mean, found.matrix + 7.0, found.covariance, found.input_covariance)
    again = family.m_step(family.expected_statistics(X, ones), known)
    assert again.matrix[0, 0, 2] == 7.0
    assert_allclose(family.predicted(again, x), family.predicted(found, x), rtol=1e-8)


def test_a_ridge_penalty_is_a_prior(rng):
    X, ones = draw_rows(rng, 50), np.ones((50, 1))
    family = GaussianRegression(N_INPUTS, reg_covar=0.0)
    prior = family.prior_statistics(1, n_features=X.shape[1], matrix_precision=5.0)
    found = family.m_step(family.expected_statistics(X, ones) + prior)
    x, y = (part - part.mean(axis=0) for part in (X[:, :N_INPUTS], X[:, N_INPUTS:]))
    expected = np.linalg.solve(x.T @ x + 5.0 * np.eye(N_INPUTS), x.T @ y).T
    assert_allclose(found.matrix[0], expected, rtol=1e-10)


def test_draws_of_outputs_have_the_moments_of_the_regressions(rng):
    family = GaussianRegression(N_INPUTS)
    parameters = Regressions(
        rng.normal(size=(2, 4)), rng.normal(size=(2, 2, 2)),
        positive_definite(rng, 2, 2), positive_definite(rng, 2, 2),
    )  # fmt: skip
    x = np.tile([[1.0, -2.0]], (40_000, 1))
    components = np.arange(40_000) % 2
    y = family.sample_outputs(parameters, components, x, rng)
    for k in range(2):
        own = y[components == k]
        expected = parameters.matrix[k] @ x[0] + parameters.offset[k]
        assert_allclose(own.mean(axis=0), expected, atol=0.05)
        assert_allclose(np.cov(own.T), parameters.covariance[k], atol=0.08)
    inputs = family.sample(parameters, components, rng)[components == 1, :2]
    assert_allclose(np.cov(inputs.T), parameters.input_covariance[1], atol=0.08)


def test_a_pickle_has_the_same_bits(rng):
    X = draw_rows(rng, 30)
    model, _ = learnt_model(rng, X)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.log_likelihood(Rows(X)), model.log_likelihood(Rows(X)))
