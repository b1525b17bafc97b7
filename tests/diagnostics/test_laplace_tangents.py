"""Standard errors and missing information of Laplace components."""

import numpy as np
import pytest
from cases.fitted_cases import jacobian
from numpy.testing import assert_allclose

from sklearn_onlineem import LaplaceMixture
from sklearn_onlineem.diagnostics import missing_information, standard_errors
from sklearn_onlineem.families import Laplace
from sklearn_onlineem.families.laplace import Laplaces, LaplaceTangents

# Log odds of the weights, locations, log scales.
TRUTH, N_ROWS = np.array([0.4, -1.0, 1.5, np.log(0.7), np.log(1.2)]), 500.0


def log_density(x, X):
    log_odds, locations, log_scales = x[0], x[1:3], x[3:5]
    log_weights = np.array([-np.logaddexp(0.0, -log_odds), -np.logaddexp(0.0, log_odds)])
    each = -np.abs(X - locations) / np.exp(log_scales) - log_scales - np.log(2.0)
    return np.logaddexp(*(each + log_weights).T)


@pytest.fixture
def fitted():
    """A fit to the distribution of a mixture, as weighted rows on a grid."""
    X = np.arange(-20.0, 20.0, 0.002)[:, None] + 0.0007
    weight = np.exp(log_density(TRUTH, X)) * 0.002 * N_ROWS
    mixture = LaplaceMixture(
        2, init=[[-1.0], [1.5]], solver="batch", tol=1e-13, max_iter=2000, random_state=0
    )
    with np.errstate(under="ignore"):
        return mixture.fit(X, sample_weight=weight), X, weight


def test_errors_are_those_of_the_fisher_information(fitted):
    """By integrals of squares of scores; the sandwich is the same if the model is true."""
    mixture, X, weight = fitted
    weights, locations, scales = (
        np.ravel(getattr(mixture, name)) for name in ("weights_", "locations_", "scales_")
    )
    x = np.concatenate([[np.log(weights[0] / weights[1])], locations, np.log(scales)])
    assert_allclose(x, TRUTH, atol=0.02)
    scores = jacobian(lambda x: log_density(x, X), x, step=1e-7)
    variances = np.diag(np.linalg.inv((scores.T * weight) @ scores))
    expected = {
        "weights_": np.full(2, np.sqrt(variances[0]) * weights[0] * weights[1]),
        "locations_": np.sqrt(variances[1:3]),
        "scales_": np.sqrt(variances[3:5]) * scales,
    }
    for robust in (False, True):
        errors = standard_errors(mixture, X, robust=robust, sample_weight=weight).errors
        for name, values in expected.items():
            assert_allclose(errors[name].ravel(), values, rtol=0.01, err_msg=f"{name} {robust}")


def test_the_rate_is_that_of_em(fitted):
    """Of how far passes from elsewhere stay away."""
    mixture, X, weight = fitted
    far = LaplaceMixture(2, init=[[-3.0], [0.0]], solver="batch", tol=0.0)
    gaps = []
    for max_iter in (29, 39):
        far.set_params(max_iter=max_iter).fit(X, sample_weight=weight)
        gaps.append(np.abs(far.scales_ - mixture.scales_).max())
    rate = missing_information(mixture, X, n_values=1, sample_weight=weight).rate
    assert_allclose((gaps[1] / gaps[0]) ** 0.1, rate, atol=0.015)


def test_scores_are_derivatives_of_densities_of_rows_and_of_divergences_of_priors(rng):
    family, X = Laplace(), rng.standard_normal((40, 2))
    parameters, prior = (
        Laplaces(rng.normal(size=(2, 2)), rng.uniform(0.5, 2.0, (2, 2))) for _ in range(2)
    )
    shares, weights = rng.random((40, 2)), np.array([3.0, 0.7])
    tangents, v = LaplaceTangents(family, parameters), rng.standard_normal((2, 4))
    own = family.own_statistics(prior, weights)
    for statistics, step, value in (
        (own, 1e-5, lambda moved: -weights @ family.kl_divergence(prior, moved)),
        (
            family.expected_statistics(X, shares),
            1e-7,
            lambda moved: (shares * family.log_density(moved, X)).sum(),
        ),
    ):
        ahead, behind = (value(tangents.moved(sign * step * v)) for sign in (1, -1))
        score = (tangents.score(statistics) * v).sum()
        assert_allclose(score, (ahead - behind) / (2.0 * step), rtol=1e-6)
    assert_allclose(tangents.effective_counts(own)[:, 0], weights)
