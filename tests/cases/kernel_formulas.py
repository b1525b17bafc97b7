"""Formulas in NumPy that several kernels are held to, and what they are given."""

import numpy as np
from scipy.special import logsumexp

NONE = np.empty(0)
NO_LABELS = np.empty(0, np.int32)
DTYPES = [np.float32, np.float64]
# Components, features.
SIZES = [(1, 1), (1, 20), (3, 2), (8, 5), (10, 16), (11, 33), (2, 70)]


def task(
    sample_weight=None, labels=None, uniforms=None, log_likelihoods=None, base=None, given=None,
    out=None,
):  # fmt: skip
    """What a mixture kernel is given besides rows."""
    return sample_weight, labels, uniforms, log_likelihoods, base, given, out


def random_covariances(rng, K, d):
    A = rng.normal(size=(K, d, d + 3))
    return A @ A.transpose(0, 2, 1) * np.exp(rng.normal(size=(K, 1, 1)))


def moments(X, responsibilities):
    """Weighted moments in two passes: the definition."""
    weight = responsibilities.sum(axis=0)
    mean = responsibilities.T @ X / weight[:, None]
    residuals = X[:, None, :] - mean
    scatter = np.einsum("nk,nki,nkj->kij", responsibilities, residuals, residuals)
    return weight, mean, scatter


def normalise_numpy(log_joint, sample_weight=NONE, labels=NO_LABELS, uniforms=NONE):
    n, K = log_joint.shape
    log_joint = log_joint.astype(float)
    shares = np.ones((n, K))
    if labels.size:
        shares = np.where(labels[:, None] < 0, 1.0, np.arange(K) == labels[:, None])
        log_joint = np.where(shares, log_joint, -np.inf)
    log_likelihoods = logsumexp(log_joint, axis=1)
    possible = np.isfinite(log_likelihoods)
    shares[possible] = np.exp(log_joint[possible] - log_likelihoods[possible, None])
    shares /= shares.sum(axis=1, keepdims=True)
    if uniforms.size:
        drawn = (np.cumsum(shares, axis=1) <= uniforms[:, None]).sum(axis=1)
        shares = np.eye(K)[np.minimum(drawn, K - 1)]
    weights = sample_weight if sample_weight.size else np.ones(n)
    counted = weights > 0
    total = weights[counted] @ log_likelihoods[counted]
    return shares * weights[:, None], log_likelihoods, total


def options_for(n, K, seed=0):
    rng = np.random.default_rng([n, K, seed])
    weights = rng.integers(0, 3, n) * rng.random(n) + (n == 1)
    return weights, rng.integers(-1, K, n).astype(np.int32), rng.random(n)


def tolerance(dtype, n=1):
    return (
        {"rtol": 1e-4, "atol": 2e-4 * n**0.5}
        if dtype == np.float32
        else {"rtol": 1e-11, "atol": 1e-11 * n}
    )
