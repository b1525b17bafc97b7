"""Mixtures against pomegranate; `make test-rivals` installs it."""

from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_onlineem import PoissonMixture

pytestmark = [
    pytest.mark.rivals,
    # Tests stop fits on purpose before they converge.
]


def pomegranates_em(X, weights, rates, n_iter):
    """Weights and rates after iterations of EM."""
    torch, distributions = import_module("torch"), import_module("pomegranate.distributions")
    components = [distributions.Poisson(torch.from_numpy(rate)) for rate in rates]
    mixture = import_module("pomegranate.gmm").GeneralMixtureModel(
        components, priors=torch.from_numpy(weights)
    )
    for _ in range(n_iter):
        mixture.summarize(torch.from_numpy(X))
        mixture.from_summaries()
    return mixture.priors.numpy(), [component.lambdas.numpy() for component in components]


@pytest.mark.parametrize("n_iter", [1, 2, 5])
def test_batch_em_of_poisson_mixtures_is_pomegranates(n_iter, rng):
    rates, weights = rng.gamma(2.0, 2.0, size=(3, 5)), np.array([0.5, 0.3, 0.2])
    X = rng.poisson(rates[rng.choice(3, 1000, p=weights)]).astype(np.float64)
    start = {"weights_init": np.full(3, 1 / 3), "means_init": 1.1 * rates}
    ours = PoissonMixture(3, **start, solver="batch", max_iter=n_iter, tol=0.0).fit(X)
    weights, rates = pomegranates_em(X, *start.values(), n_iter)
    # pomegranate keeps its sums in single precision.
    assert_allclose(ours.weights_, weights, rtol=1e-6)
    assert_allclose(ours.means_, rates, rtol=1e-6)
