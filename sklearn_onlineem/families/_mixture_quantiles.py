"""Quantiles of mixtures of distributions of numbers."""

import numpy as np

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families.capabilities import Distribution

# Halving alone is as exact as numbers are after some 60 steps, unless a quantile is nearly 0.
_MOST_STEPS = 300


def mixture_quantiles(components: Distribution, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of mixtures, where distribution functions have levels, (n_levels, ...).

    They lie between those of the components: secants shorten the bounds (the Illinois method), and
    every third step halves them.

    Parameters
    ----------
    components : Distribution
        K in one.
    weights : ndarray of shape (..., K)
        They add up to 1.
    levels : ndarray of shape (n_levels,)
        Probabilities in (0, 1).
    """
    levels = levels.reshape(-1, *np.ones(weights.ndim - 1, dtype=int))

    def excess(x):
        return (weights * components.cdf(x[..., None])).sum(axis=-1) - levels

    seen, is_whole = weights > 0.0, hasattr(components, "pmf")
    ends = components.ppf(levels[..., None])
    low = np.where(seen, ends, np.inf).min(axis=-1) - is_whole
    high = np.where(seen, ends, -np.inf).max(axis=-1)
    below, above, negligible = excess(low), excess(high), 1e-13 * levels
    was_below = np.zeros(low.shape, dtype=np.int8)
    for step in range(_MOST_STEPS):
        x = low + 0.5 * (high - low)
        if is_whole:
            x = np.floor(x)
        elif step % 3 < 2:
            drop = np.divide(above, above - below, out=np.full_like(x, 0.5), where=above > below)
            secant = high - drop * (high - low)
            x = np.where((low < secant) & (secant < high), secant, x)
        if not ((low < x) & (x < high)).any():
            break
        found = excess(x)
        is_below = found < 0.0
        # An end that stays twice counts half, so that it moves.
        below = np.where(is_below, found, np.where(was_below == -1, 0.5 * below, below))
        above = np.where(is_below, np.where(was_below == 1, 0.5 * above, above), found)
        low, high = np.where(is_below, x, low), np.where(is_below, high, x)
        was_below = np.where(is_below, 1, -1)
        if not is_whole:
            low = np.where(np.abs(found) <= negligible, x, low)
            high = np.where(np.abs(found) <= negligible, x, high)
    return high
