"""The families, and the mixtures of these, that collapsed Gibbs sampling is for."""

import itertools
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from cases.estimator_cases import ESTIMATORS
from cases.family_cases import FAMILIES, name_of
from sklearn_onlineem.statistics import combine

MATRIX = {"mean_precision": 0.5, "covariance": 2.0, "degrees_of_freedom": 8.0}
AXIS = {"mean_precision": 0.5, "shape": 4.0, "scale": 2.0}
COLLAPSED = {
    "Poisson": {"rate": 0.2},
    "Bernoulli": {"alpha": 1.5, "beta": 1.5},
    "Categorical": {"concentration": 1.5},
    "Categorical(2, 4, 3, 1)": {"concentration": 1.5},
    "Multinomial": {"concentration": 1.5},
    "MarkovChain": {"concentration": 1.5, "start_concentration": 1.5},
    "Exponential": {"shape": 1.5, "rate": 0.5},
    "FixedShapeGamma": {"shape": 1.5, "rate": 0.5},
    "FullGaussian": MATRIX,
    "TiedGaussian": MATRIX,
    "DiagonalGaussian": AXIS,
    "SphericalGaussian": AXIS,
}
CONJUGATE_FAMILIES = [case for case in FAMILIES if repr(case) in COLLAPSED]
OTHER_FAMILIES = [case for case in FAMILIES if repr(case) not in COLLAPSED]


def _family_name(case):
    return name_of(case()._family())


def even_gamma_clusters(rng, y):
    """Of spreads so alike that k-means finds all of them."""
    return rng.gamma(20.0, np.array([0.3, 0.8, 1.5])[y][:, None], (len(y), 3))


GIBBS = [
    replace(
        case,
        name=f"{case!r}, Gibbs",
        clusters=even_gamma_clusters if "Gamma" in repr(case) else case.clusters,
        arguments={
            **case.arguments,
            "prior": COLLAPSED[_family_name(case)],
            "weight_concentration_prior": 1.5,
            "solver": "gibbs",
        },
    )
    for case in ESTIMATORS
    if _family_name(case) in COLLAPSED
]


def one_hot(labels, n_components):
    return np.eye(n_components)[labels]


def given(family, prior, X, labels):
    """Statistics of the prior and of rows in components."""
    if not len(labels):
        return prior
    shares = one_hot(labels, len(prior.weight))
    return combine([(1.0, prior), (1.0, family.expected_statistics(X, shares))])


def log_joint_of_row(family, prior, X, labels, concentration, i, learns_shares=True, fixed=None):
    """log of the share of each component and of row i under it, given all other rows."""
    rest = np.delete(np.arange(len(labels)), i)
    statistics = given(family, prior, X[rest], labels[rest])
    counts = one_hot(labels[rest], len(concentration)).sum(axis=0) * learns_shares + concentration
    log_density = family.predictive_log_density(statistics, X[[i]])[0]
    if fixed is not None:
        log_density = np.where(fixed[0], family.log_density(fixed[1], X[[i]])[0], log_density)
    with np.errstate(divide="ignore"):
        return np.log(counts / counts.sum()) + log_density


def collapsed_sweep(family, prior, X, labels, concentration, uniforms, *known):
    """The sweep in NumPy, from scratch for each row."""
    log_predictives = np.empty(len(labels))
    for i in range(len(labels)):
        log_joint = log_joint_of_row(family, prior, X, labels, concentration, i, *known)
        log_predictives[i] = logsumexp(log_joint)
        cumulated = np.cumsum(np.exp(log_joint - log_joint.max()))
        labels[i] = np.searchsorted(cumulated, uniforms[i] * cumulated[-1], side="right")
    return log_predictives.mean()


def log_posteriors(family, prior, X, concentration):
    """All assignments of rows to components, and the logarithms of their probabilities."""
    n, n_components = len(X), len(concentration)
    assignments = np.array(list(itertools.product(range(n_components), repeat=n)), np.intc)
    logs = np.array(
        [_log_evidence(family, prior, X, labels, concentration) for labels in assignments]
    )
    return assignments, logs - logsumexp(logs)


def _log_evidence(family, prior, X, labels, concentration):
    """log p(X, labels), by the chain rule."""
    total, counts = 0.0, concentration.copy()
    for i, k in enumerate(labels):
        statistics = given(family, prior, X[:i], labels[:i])
        density = family.predictive_log_density(statistics, X[[i]])[0, k]
        total += np.log(counts[k] / counts.sum()) + density
        counts[k] += 1.0
    return total
