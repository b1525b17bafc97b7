"""The M-step takes the mode of the documented prior, with a prior on the mean and without."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sklearn_onlineem.estimators._columns import FAMILIES
from sklearn_onlineem.families import Gaussians
from sklearn_onlineem.statistics import combine

D, NU, K0, M0 = 3, 7.0, [0.0, 4.0], 0.5
SHAPES = ["gaussian_full", "gaussian_tied", "gaussian_diag", "gaussian_spherical"]


def covariance_log_prior(kind, covariance):
    """Log density of the prior of one covariance."""
    if kind in ("gaussian_full", "gaussian_tied"):
        return stats.invwishart.logpdf(covariance, NU, 2.0 * np.eye(D))
    values = np.diag(covariance)[: 1 if kind == "gaussian_spherical" else D]
    return stats.invgamma.logpdf(values, NU, scale=2.0).sum()


def objective(kind, X, means, covariances, k0):
    """Log-likelihood of rows of known components, plus the log prior."""
    total = 0.0
    for rows, mean, S in zip(X, means, covariances, strict=True):
        total += stats.multivariate_normal.logpdf(rows, mean, S).sum()
        if k0:
            total += stats.multivariate_normal.logpdf(mean, np.full(D, M0), S / k0)
    distinct = covariances[:1] if kind == "gaussian_tied" else covariances
    return total + sum(covariance_log_prior(kind, S) for S in distinct)


def changed(kind, covariances, rng):
    """Covariances of the same shape nearby."""
    if kind == "gaussian_spherical":
        return covariances * np.exp(0.01 * rng.standard_normal((2, 1, 1)))
    if kind == "gaussian_diag":
        return covariances * np.exp(0.01 * rng.standard_normal((2, D)))[:, :, None]
    turns = np.eye(D) + 0.01 * rng.standard_normal((2, D, D))
    turns = turns[[0, 0]] if kind == "gaussian_tied" else turns
    return turns @ covariances @ turns.transpose(0, 2, 1)


@pytest.mark.parametrize("k0", K0)
@pytest.mark.parametrize("kind", SHAPES)
def test_the_m_step_maximises_the_penalised_likelihood(kind, k0, rng):
    X = rng.standard_normal((2, 9, D)) * [[[1.0, 2.0, 0.5]], [[0.7, 1.0, 3.0]]] + 1.0
    family = replace(FAMILIES[kind], reg_covar=0.0)
    family = family.bind(X.reshape(-1, D))
    evidence = family.expected_statistics(X.reshape(-1, D), np.repeat(np.eye(2), 9, axis=0))
    matrix = kind in ("gaussian_full", "gaussian_tied")
    spread = (
        {"covariance": 2.0, "degrees_of_freedom": NU} if matrix else {"shape": NU, "scale": 2.0}
    )
    prior = family.prior_statistics(2, n_features=D, mean=M0, mean_precision=k0, **spread)
    start = Gaussians(np.zeros((2, D)), family.covariance.from_matrices(np.stack([np.eye(D)] * 2)))
    found = family.m_step(combine([(1.0, evidence), (1.0, prior)]), start)
    covariances = np.broadcast_to(found.covariance_matrices, (2, D, D))
    best = objective(kind, X, found.mean, covariances, k0)
    for _ in range(50):
        means = found.mean + 0.01 * rng.standard_normal((2, D))
        assert objective(kind, X, means, covariances, k0) < best
        assert objective(kind, X, found.mean, changed(kind, covariances, rng), k0) < best
    for factor in (0.999, 1.001):  # a degree too many is worse than this
        assert objective(kind, X, found.mean, factor * covariances, k0) < best
