"""Gaussians of rows with missing values, which are integrated out.

For component k, let o be the observed features of a row and m its missing ones:

    x_o ~ N(m_o, S_oo),   x_m | x_o ~ N(m_m + G (x_o - m_o), S_mm - G S_om),   G = S_mo S_oo^-1
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["conditional_draws", "conditional_means", "marginal_log_density", "marginal_sums"]


def marginal_log_density(means, covariances, X):
    """Return log p(x_o | k), of shape (n_rows, K); NaN in X (n_rows, d) is missing."""
    out = np.empty((len(X), len(means)))
    for rows, o, _ in _patterns(X):
        factor = np.linalg.cholesky(covariances[:, o[:, None], o])
        deviation = X[np.ix_(rows, o)] - means[:, None, o]
        white = np.linalg.solve(factor, deviation.transpose(0, 2, 1))
        log_det = 2.0 * np.log(np.einsum("kii->ki", factor)).sum(axis=1)
        constant = log_det + len(o) * math.log(2.0 * math.pi)
        out[rows] = -0.5 * ((white**2).sum(axis=1) + constant[:, None]).T
    return out


def marginal_sums(means, covariances, X, responsibilities):
    """Return expected sums of deviations from the means (K, d) and of their products (K, d, d)."""
    first, second = np.zeros_like(means), np.zeros_like(covariances)
    for rows, o, m in _patterns(X):
        shares = responsibilities[rows].T
        across = covariances[:, o[:, None], m]
        gain = np.linalg.solve(covariances[:, o[:, None], o], across)
        deviation = np.empty((len(means), len(rows), X.shape[1]))
        deviation[:, :, o] = X[np.ix_(rows, o)] - means[:, None, o]
        deviation[:, :, m] = deviation[:, :, o] @ gain
        spread = covariances[:, m[:, None], m] - across.transpose(0, 2, 1) @ gain
        first += np.einsum("kn,knd->kd", shares, deviation)
        second += np.einsum("kn,kni,knj->kij", shares, deviation, deviation, optimize=True)
        second[:, m[:, None], m] += shares.sum(axis=1)[:, None, None] * spread
    return first, second


def conditional_means(means, covariances, X, responsibilities):
    """Return X with missing values replaced by their expectations, averaged over components."""
    out = X.copy()
    for rows, o, m in _patterns(X):
        gain = np.linalg.solve(covariances[:, o[:, None], o], covariances[:, o[:, None], m])
        deviation = X[np.ix_(rows, o)] - means[:, None, o]
        expected = means[:, None, m] + deviation @ gain
        out[np.ix_(rows, m)] = np.einsum("nk,knm->nm", responsibilities[rows], expected)
    return out


def conditional_draws(means, covariances, X, components, rng):
    """Return X with missing values drawn from the component of each row."""
    out, noise = X.copy(), rng.standard_normal(X.shape)
    for chosen, o, m in _patterns(X):
        for k in np.unique(components[chosen]):
            rows = chosen[components[chosen] == k]
            across = covariances[k][np.ix_(o, m)]
            gain = np.linalg.solve(covariances[k][np.ix_(o, o)], across)
            root = np.linalg.cholesky(covariances[k][np.ix_(m, m)] - across.T @ gain)
            expected = means[k, m] + (X[np.ix_(rows, o)] - means[k, o]) @ gain
            out[np.ix_(rows, m)] = expected + noise[np.ix_(rows, m)] @ root.T
    return out


def _patterns(X):
    """Yield rows that lack the same features, with indices of observed and of missing features."""
    masks, codes = np.unique(np.isnan(X), axis=0, return_inverse=True)
    for code, missing in enumerate(masks):
        rows = np.flatnonzero(codes.reshape(-1) == code)
        yield rows, np.flatnonzero(~missing), np.flatnonzero(missing)
