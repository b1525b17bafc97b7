"""Linear-Gaussian regressions: several at once, on nothing, and as parts of models."""

import pickle

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.random_rows import positive_definite
from numpy.testing import assert_allclose

from sklearn_onlineem.families import Diagonal, Full, Gaussian, Gaussians, Spherical
from sklearn_onlineem.families.linear_gaussian import ALL_PARAMETERS, AffineGaussian, LinearGaussian
from sklearn_onlineem.models.kalman.regression import Regression
from sklearn_onlineem.statistics import combine


def draw_regressions(rng, n_components=3, n_inputs=2, n_outputs=2):
    return AffineGaussian(
        rng.standard_normal((n_components, n_outputs, n_inputs)),
        rng.standard_normal((n_components, n_outputs)),
        positive_definite(rng, n_components, n_outputs),
    )


def draw_moments(rng, n_components=3, n_columns=4):
    """Statistics of components with rows of their own."""
    X, owners = rng.standard_normal((90, n_columns)), np.arange(90) % n_components
    return LinearGaussian().expected_statistics(X, np.eye(n_components)[owners])


@pytest.mark.parametrize("shape", [Full(), Diagonal(), Spherical()])
@pytest.mark.parametrize("learnt", [ALL_PARAMETERS, frozenset({"covariance"})], ids=len)
def test_m_step_with_the_mean_form_of_a_prior_is_the_mean_of_the_posterior(shape, learnt, rng):
    """By the book: of an inverse Wishart distribution, or of inverse gamma ones."""
    n, q, p, nu = 12, 2, 3, 9.0
    family, known = LinearGaussian(shape), draw_regressions(rng, 1, q, p)
    X = rng.standard_normal((n, q + p))
    x, y = np.column_stack([X[:, :q], np.ones(n)]), X[:, q:]
    M, c = rng.standard_normal((p, q)), rng.standard_normal(p)
    prior = family.prior_statistics(
        1, n_features=p, n_inputs=q, matrix=M, matrix_precision=0.7, offset=c, offset_precision=1.5,
        covariance=2.0, degrees_of_freedom=nu,
    )  # fmt: skip
    before, precision = np.column_stack([M, c]), np.diag([0.7, 0.7, 1.5])
    if learnt == ALL_PARAMETERS:
        after = (y.T @ x + before @ precision) @ np.linalg.inv(x.T @ x + precision)
        degrees = nu + n
    else:
        after = np.column_stack([known.matrix[0], known.offset[0]])
        degrees = nu + n + q + 1
    residual, moved = y - x @ after.T, after - before
    Psi = 2.0 * np.eye(p) + residual.T @ residual + moved @ precision @ moved.T
    if shape == Full():
        expected = Psi / (degrees - p - 1)
    elif shape == Diagonal():
        expected = np.diag(np.diag(Psi) / 2 / ((degrees + p + 1) / 2 - 2))
    else:
        expected = np.eye(p) * (np.trace(Psi) / 2 / (p * (degrees + p + 1) / 2 - 2))
    evidence = family.expected_statistics(X, np.ones((n, 1)))
    total = combine([(1.0, evidence), (1.0, family.mean_form(prior, q, learnt))])
    found = family.m_step(total, known, learnt)
    assert_allclose(found.covariance[0], expected, rtol=1e-10)
    assert_allclose(np.column_stack([found.matrix[0], found.offset[0]]), after, rtol=1e-9)


def test_a_regression_on_nothing_is_a_gaussian(rng):
    plain, family = Gaussian(reg_covar=0.0), LinearGaussian()
    X, responsibilities = rng.standard_normal((80, 3)), rng.dirichlet(np.ones(2), 80)
    statistics = family.expected_statistics(X, responsibilities)
    found, expected = family.m_step(statistics), plain.m_step(statistics)
    assert_close((found.offset, found.covariance), (expected.mean, expected.covariance))
    assert_allclose(family.log_density(found, X), plain.log_density(expected, X), rtol=1e-10)
    weights = np.array([0.3, 0.7])
    assert_close(family.own_statistics(found, weights), plain.own_statistics(expected, weights))
    other, others = draw_regressions(rng, 2, 0, 3), positive_definite(rng, 2, 3)
    other = AffineGaussian(other.matrix, other.offset, others)
    divergence = plain.kl_divergence(expected, Gaussians(other.offset, others))
    assert_allclose(family.kl_divergence(found, other), divergence, rtol=1e-10)
    assert family.n_parameters(found) == plain.n_parameters(expected)
    assert family.sample(found, np.array([0, 1, 1]), rng).shape == (3, 3)


def test_several_regressions_are_not_a_single_one(rng):
    several = Regression(LinearGaussian(), draw_regressions(rng))
    with pytest.raises(ValueError, match="there are 3 regressions"):
        _ = several.matrix
    step = several.m_step(draw_moments(rng))
    assert step.parameters.matrix.shape == (3, 2, 2)
    assert several.n_parameters() == 3 * (4 + 2 + 3)


def test_other_coordinates_are_other_coordinates(rng):
    """Residuals turn with the outputs, and do not know of the inputs' coordinates."""
    several = Regression(LinearGaussian(), draw_regressions(rng))
    T, U = rng.standard_normal((2, 2, 2))
    moved = several.in_coordinates(inputs=np.linalg.inv(U), outputs=T)
    x, y = rng.standard_normal((2, 20, 2))
    before = LinearGaussian().log_density(several.parameters, np.hstack([x, y]))
    after = LinearGaussian().log_density(moved.parameters, np.hstack([x @ U.T, y @ T.T]))
    assert_allclose(after + np.log(abs(np.linalg.det(T))), before, rtol=1e-8, atol=1e-8)


def test_roots_are_not_pickled(rng):
    parameters = draw_regressions(rng)
    size = len(pickle.dumps(parameters))
    assert_allclose(parameters.roots @ parameters.roots.mT, parameters.covariance)
    assert len(pickle.dumps(parameters)) == size


@pytest.mark.parametrize(
    ("matrix", "offset", "covariance"),
    [
        (np.ones((1, 2, 1)), np.ones((1, 2)), np.ones((1, 4))),
        (np.ones((1, 2, 1)), np.ones((1, 2)), np.ones((1, 1, 2))),
        (np.ones((1, 2, 1)), np.ones((2, 2)), np.ones((1, 2, 2))),
        (np.ones((1, 3, 1)), np.ones((1, 2)), np.ones((1, 2, 2))),
        (np.ones((2, 1)), np.ones(2), np.ones((2, 2))),
    ],
)
def test_parameters_of_other_shapes_are_refused(matrix, offset, covariance):
    with pytest.raises(ValueError, match="must be of shapes"):
        AffineGaussian(matrix, offset, covariance)
