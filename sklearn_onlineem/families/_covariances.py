"""Linear algebra of covariances, which may be singular."""

import math

import numpy as np
from scipy.linalg import lapack

_EPS = np.finfo(float).eps


def joined(xx, yx, yy):
    """Return covariances of (x, y), from those of x, of y with x, and of y."""
    q, n = xx.shape[-1], xx.shape[-1] + yy.shape[-1]
    joint = np.empty((*yy.shape[:-2], n, n))
    joint[..., :q, :q], joint[..., :q, q:] = xx, yx.mT
    joint[..., q:, :q], joint[..., q:, q:] = yx, yy
    return joint


def eigen(matrix):
    """Return eigenvalues and eigenvectors of a symmetric matrix, as NumPy does of several."""
    values, vectors, failed = lapack.dsyevd(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("Eigenvalues did not converge.")
    return values, vectors


def gaussian_divergence(weight, covariance, other, spread):
    """Return weight KL(N(m, C) || N(n, other)), for `spread` weight (C + (m - n) (m - n)')."""
    values, vectors = _support(other)
    if _exceeds(covariance, vectors):
        return math.inf
    own_values = lapack.dsyevd(vectors.T @ covariance @ vectors, compute_v=0, lower=1)[0]
    log_det_ratio = np.log(values / np.abs(own_values)).sum()
    return 0.5 * (_trace(values, vectors, spread) + weight * (log_det_ratio - len(values)))


def gaussian_log_density(weight, covariance, spread):
    """Return the log density under N(0, covariance), up to a constant, where it is not 0."""
    values, vectors = _support(covariance)
    return -0.5 * (_trace(values, vectors, spread) + weight * np.log(values).sum())


def _trace(values, vectors, spread):
    """Return that of a pseudo-inverse, by its eigenvalues and eigenvectors, times spread."""
    return np.vdot(vectors / values, spread @ vectors)


def _support(covariance):
    """Return eigenvalues and eigenvectors of a covariance, without those of 0."""
    values, vectors = eigen(covariance)
    least = len(values) * _EPS * max(values[-1], 0.0)
    kept = slice(values.searchsorted(least, side="right"), None)
    return values[kept], vectors[:, kept]


def _exceeds(covariance, vectors):
    """Return whether a covariance has variance outside the span of these eigenvectors."""
    if vectors.shape[1] == len(covariance):
        return False
    inside = np.einsum("ij,ik,kj->", vectors, covariance, vectors)
    return np.trace(covariance) - inside > 1e-10 * np.trace(covariance)


def square_roots(covariances):
    """Return square roots of covariances of shape (K, p, p), which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
