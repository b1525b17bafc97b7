"""What missing values are expected to be, given whole sequences."""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["imputed"]


def imputed(model, data):
    """Return rows with their gaps filled by E[v_t | all that was observed].

    With o the observed and m the missing features of a row, and h the smoothed mean of its state,

    .. math:: v_m = C_m h + d_m + R_{mo} R_{oo}^{-1} (v_o - C_o h - d_o)

    Parameters
    ----------
    model : LinearDynamicalModel
    data : Sequences

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    """
    X, gaps = data.X.astype(np.float64), np.isnan(data.X)
    expected = model.smoothed(data)[0] @ model.observation.T + model.observation_offset
    patterns, which = np.unique(gaps, axis=0, return_inverse=True)
    for i, gone in enumerate(patterns):
        if gone.any():
            rows = np.flatnonzero(which.reshape(-1) == i)
            X[np.ix_(rows, gone)] = _filled(model, X[rows], expected[rows], gone)
    return X


def _filled(model, X, expected, gone):
    """Missing values of rows that lack the same features."""
    R, seen = model.observation_covariance, ~gone
    factor = linalg.cho_factor(R[np.ix_(seen, seen)], lower=True)
    weights = linalg.cho_solve(factor, R[np.ix_(seen, gone)])
    return expected[:, gone] + (X - expected)[:, seen] @ weights
