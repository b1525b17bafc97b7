"""Standard errors and missing information of compound Dirichlet components."""

import numpy as np
import pytest
from cases.fitted_cases import hessian, jacobian
from numpy.testing import assert_allclose

from sklearn_onlineem import CompoundDirichlet, CompoundDirichletMixture
from sklearn_onlineem.diagnostics import missing_information, standard_errors
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families import CompoundDirichlet as Family
from sklearn_onlineem.families.compound_dirichlet import CompoundDirichletTangents
from sklearn_onlineem.families.dirichlets import Dirichlets
from sklearn_onlineem.models.mixture import MixtureModel

ALPHA = np.array([[0.4, 1.5, 3.0], [4.0, 0.7, 0.5]])


def documents(rng, alpha, n_documents=300):
    K = len(alpha)
    parameters = Dirichlets(alpha, np.full(K, 25.0))
    model = MixtureModel(Family(), np.full(K, 1.0 / K), parameters)
    return model.sample(n_documents, rng)[0]


def mixture():
    return CompoundDirichletMixture(2, solver="batch", tol=0.0, max_iter=3000, random_state=0)


def of(model, x):
    """The model of logarithms of alpha, and log odds of the weights before the last."""
    K, d = model.parameters.alpha.shape
    weights = np.exp(np.append(x[K * d :], 0.0))
    parameters = Dirichlets(np.exp(x[: K * d]).reshape(K, d), model.parameters.length)
    return MixtureModel(model.family, weights / weights.sum(), parameters)


def numbers(model):
    odds = np.log(model.weights[:-1] / model.weights[-1])
    return np.append(np.log(model.parameters.alpha), odds)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [1, 2])
def test_errors_are_those_of_the_numerical_hessian(K, weighted, rng):
    X = documents(rng, ALPHA[:K])
    weight = rng.integers(1, 4, len(X)).astype(float) if weighted else None
    fitted = CompoundDirichlet(solver="newton", tol=1e-14) if K == 1 else mixture()
    fitted.fit(X, sample_weight=weight)
    found = {
        robust: standard_errors(fitted, X, robust=robust, sample_weight=weight).errors
        for robust in (False, True)
    }
    model, data = fitted.model_, fitted._input().read(X, sample_weight=weight)
    shares = np.ones(len(X)) if weight is None else weight
    x = numbers(model)

    def log_likelihoods(x):
        return of(model, x).log_likelihood(data)

    inverse = np.linalg.inv(-hessian(lambda x: shares @ log_likelihoods(x), x))
    scores = jacobian(log_likelihoods, x)
    variances = inverse, inverse @ (scores.T * shares) @ scores @ inverse
    moves = jacobian(lambda x: of(model, x).parameters.alpha.ravel(), x)
    for robust, variance in enumerate(variances):
        expected = np.sqrt(np.diag(moves @ variance @ moves.T))
        assert_allclose(found[bool(robust)]["alpha_"].ravel(), expected, rtol=1e-4)


def test_eigenvalues_are_those_of_the_jacobian_of_em(rng):
    X = documents(rng, ALPHA)
    fitted = mixture().fit(X)
    model, data = fitted.model_, fitted._input().read(X)
    step = jacobian(lambda x: numbers(batch_step(of(model, x), data, ())[0]), numbers(model))
    expected = np.sort(np.linalg.eigvals(step).real)[::-1]
    found = missing_information(fitted, X, n_values=7)
    assert_allclose(found.eigenvalues, expected, atol=1e-6)
    assert 0.5 < found.rate < 1.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_root_is_that_of_the_information(scale, rng):
    """Of sums of statistics, whose variance is the derivative of their mean."""
    parameters = Dirichlets(scale * ALPHA, np.ones(2))
    tangents = CompoundDirichletTangents(Family(max_precision=1e10), parameters)
    v, raw = rng.standard_normal((2, 2, 3))
    assert_allclose((tangents.natural(v) * raw).sum(), (v * tangents.whitened(raw)).sum())
    step = 1e-5 / tangents.size(v)
    ahead, behind = (
        CompoundDirichletTangents(tangents.family, tangents.moved(s * v)).mean
        for s in (step, -step)
    )
    assert_allclose(tangents.whitened((ahead - behind) / (2.0 * step)), v, rtol=1e-4, atol=1e-5)
