"""Roots of monotone functions of one variable, for M-steps without a closed form."""

from __future__ import annotations

import numpy as np

__all__ = ["increasing_root"]


def increasing_root(function, derivative, target, start, lower=0.0, n_iter=100):
    """Solve ``function(x) == target`` elementwise, for increasing functions on (lower, inf)."""
    # Newton's method on log(x - lower), in which the special functions of the M-steps are nearly
    # straight. A step is at most a factor of 10; some five are needed.
    previous, settled = np.inf, False
    excess = np.array(start, dtype=np.float64) - lower
    for _ in range(n_iter):
        x = lower + excess
        step = (target - function(x)) / (derivative(x) * excess)
        excess *= np.exp(np.clip(step, -2.3, 2.3))
        # Steps that are small, and no longer shrink, are those of rounding.
        size = np.abs(step)
        settled = settled | (size < 1e-13) | ((size < 1e-3) & (size > 0.5 * previous))
        if np.all(settled):
            break
        previous = size
    return lower + excess
