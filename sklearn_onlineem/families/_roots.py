"""Roots of monotone functions of one variable, for M-steps without a closed form."""

import numpy as np
from scipy.special import polygamma, psi


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


def gamma_shapes(gap):
    """Return the shapes a of gamma distributions with log a - psi(a) = gap, above 0."""
    # Minka's starting point, within 2 % of the root.
    start = (3.0 - gap + np.sqrt((gap - 3.0) ** 2 + 24.0 * gap)) / (12.0 * gap)
    return increasing_root(
        lambda a: psi(a) - np.log(a), lambda a: polygamma(1, a) - 1.0 / a, -gap, start
    )
