"""Directions of parameters."""

from dataclasses import replace

import numpy as np
from scipy.linalg import expm

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.families.poisson import Poisson, PoissonTangents
from sklearn_onlineem.families.tangents import symmetric_exponential, tangents_of
from sklearn_onlineem.models.coordinates import has_coordinates


def test_exponentials_are_exact_to_second_order_and_always_positive_definite(rng):
    matrices = rng.standard_normal((5, 4, 4))
    matrices += matrices.mT
    exact = np.array([expm(1e-3 * matrix) for matrix in matrices])
    np.testing.assert_allclose(symmetric_exponential(1e-3 * matrices), exact, atol=1e-7)
    assert (np.linalg.eigvalsh(symmetric_exponential(100.0 * matrices)) > 0.0).all()


def test_a_subclass_is_another_family_and_another_model():
    model = PoissonMixture().fit([[1.0], [3.0]]).model_
    assert has_coordinates(model) and tangents_of(model.family) is PoissonTangents
    doubled = type("Doubled", (Poisson,), {})()
    assert tangents_of(doubled) is None and not has_coordinates(replace(model, family=doubled))
    other = type("Other", (type(model),), {})(model.family, model.weights, model.parameters)
    assert not has_coordinates(other)
