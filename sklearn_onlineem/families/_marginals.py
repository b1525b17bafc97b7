"""Draws of the missing values of Gaussian rows, given what is observed.

For component k, let o be the observed features of a row and m its missing ones:

    x_o ~ N(m_o, S_oo),   x_m | x_o ~ N(m_m + G (x_o - m_o), S_mm - G S_om),   G = S_mo S_oo^-1
"""

from __future__ import annotations

import numpy as np

__all__ = ["conditional_draws"]


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
