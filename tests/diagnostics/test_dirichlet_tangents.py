"""Standard errors and missing information of compound Dirichlet components."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem.families import CompoundDirichlet as Family
from sklearn_onlineem.families.compound_dirichlet import CompoundDirichletTangents, Dirichlets
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

ALPHA = np.array([[0.4, 1.5, 3.0], [4.0, 0.7, 0.5]])


def documents(rng, alpha, n_documents=300):
    K = len(alpha)
    parameters = Dirichlets(alpha, np.full(K, 25.0))
    model = MixtureModel(Family(), np.full(K, 1.0 / K), parameters)
    return model.sample(n_documents, rng)[0]


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
