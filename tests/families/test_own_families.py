"""Families of users, and roots and coordinates of all."""

from dataclasses import replace

import numpy as np
import pytest
from cases.guide import defined_in
from scipy.linalg import expm

from sklearn_onlineem import Mixture, PoissonMixture
from sklearn_onlineem.families.gamma import increasing_root
from sklearn_onlineem.families.poisson import Poisson, PoissonTangents
from sklearn_onlineem.families.tangents import symmetric_exponential, tangents_of
from sklearn_onlineem.families.wishart import _log_det_gap, _log_det_gap_slope
from sklearn_onlineem.models.coordinates import has_coordinates

Geometric = defined_in("families.rst", "nu")["Geometric"]
WRONG = [np.sum, lambda x: x[:1], lambda x: x[..., None], lambda x: x * np.nan]


@pytest.mark.parametrize("name", ["to_natural", "log_partition"])
@pytest.mark.parametrize("wrong", WRONG, ids=["number", "one", "column", "NaN"])
def test_functions_with_wrong_results_are_named(name, wrong, rng):
    X = rng.geometric(rng.choice([0.5, 0.02], (200, 1)), (200, 3)) - 1.0
    Mixture(2, family=Geometric(), random_state=0, max_iter=2).fit(X)
    right = getattr(Geometric, name)
    own = type("Own", (Geometric,), {name: lambda *given: wrong(right(*given))})
    with pytest.raises(ValueError, match=f"Mixture: {name} of Own must return numbers"):
        Mixture(2, family=own(), random_state=0).fit(X)


@pytest.mark.parametrize("side", [1, 2, 3, 5, 10])
def test_few_iterations_are_enough_for_any_degrees_of_freedom(side):
    degrees = side - 1.0 + 10.0 ** np.linspace(-3.0, 7.0, 400)
    n_calls = []

    def gap(n):
        n_calls.append(1)
        return _log_det_gap(n, side)

    target = _log_det_gap(degrees, side)
    found = increasing_root(
        gap,
        lambda n: _log_det_gap_slope(n, side),
        target,
        side - 1.0 + 0.5 * (degrees - side + 1.0),
        lower=side - 1.0,
    )
    assert len(n_calls) < 20
    rounding = 1e-13 * np.maximum(1.0, degrees) * np.maximum(1.0, np.log(degrees + 1.0))
    np.testing.assert_array_less(np.abs(found / degrees - 1.0), 1e-9 + 10.0 * rounding)


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
