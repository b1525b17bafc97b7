"""One EM pass of a mixture of Gaussians in NumPy, by products of matrices and blocks of rows."""

import numpy as np
from scipy.special import logsumexp

BLOCK = 2048  # rows, whose arrays stay in the second cache


def em_pass(X, weights, means, covariances, covariance_type):
    """Return a function that makes one E- and one M-step and returns the mean log-likelihood."""

    def run():
        densities = log_densities(means, covariances, covariance_type)
        total, sums = 0.0, None
        for start in range(0, len(X), BLOCK):
            rows = X[start : start + BLOCK]
            log_joint = densities(rows) + np.log(weights)
            log_likelihoods = logsumexp(log_joint, axis=1, keepdims=True)
            total += log_likelihoods.sum()
            found = moments(rows, np.exp(log_joint - log_likelihoods), covariance_type)
            sums = found if sums is None else [a + b for a, b in zip(sums, found, strict=True)]
        maximised(*sums, covariance_type)
        return total / len(X)

    return run


def log_densities(means, covariances, covariance_type):
    """Return a function of rows (n, d), which returns the log densities (n, K) of components."""
    d = means.shape[1]
    if covariance_type == "diag":
        precisions = 1.0 / covariances
        scale = np.log(2.0 * np.pi * covariances).sum(axis=1) + (means**2 * precisions).sum(axis=1)
        linear, quadratic = (precisions * means).T, -0.5 * precisions.T
        return lambda X: X @ linear + X**2 @ quadratic - 0.5 * scale
    whiteners = np.linalg.inv(np.linalg.cholesky(covariances))
    scale = np.log(np.diagonal(whiteners, axis1=1, axis2=2)).sum(axis=1) - 0.5 * d * np.log(
        2.0 * np.pi
    )
    wide = whiteners.reshape(-1, d).T  # of all components, side by side
    shifts = np.einsum("kij,kj->ki", whiteners, means)

    def of_rows(X):
        whitened = (X @ wide).reshape(len(X), *shifts.shape) - shifts
        return scale - 0.5 * np.einsum("nki,nki->nk", whitened, whitened)

    return of_rows


def moments(X, responsibilities, covariance_type):
    """Return the weights, sums and sums of squares of rows, by components."""
    sums = responsibilities.sum(axis=0), responsibilities.T @ X
    if covariance_type == "diag":
        return [*sums, responsibilities.T @ X**2]
    return [*sums, np.stack([(X * share[:, None]).T @ X for share in responsibilities.T])]


def maximised(weights, sums, squares, covariance_type):
    """Return the shares, means and covariances of moments."""
    means = sums / weights[:, None]
    if covariance_type == "diag":
        return weights / weights.sum(), means, squares / weights[:, None] - means**2
    outer = means[:, :, None] * means[:, None]
    return weights / weights.sum(), means, squares / weights[:, None, None] - outer
