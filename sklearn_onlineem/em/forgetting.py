r"""Forgetting factors and step sizes, two names of one thing.

With the weight :math:`1 / \gamma_t` of everything so far in units of the present batch,

.. math:: \frac{1}{\gamma_t} = 1 + \frac{\zeta_t}{\gamma_{t-1}}, \qquad
   \zeta_t = \gamma_{t-1} \Big(\frac{1}{\gamma_t} - 1\Big).

The start is the boundary: with the prior's mass :math:`1 / \gamma_0` it keeps its share, and
without, :math:`\gamma_1 = 1` erases it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._typing import Floats

__all__ = ["forgetting_factors", "forgetting_step_sizes"]


def forgetting_factors(step_sizes: ArrayLike, prior_mass: float) -> Floats:
    r"""Return the forgetting factors that make the step sizes.

    Parameters
    ----------
    step_sizes : array-like of shape (n_steps,)
        :math:`\gamma_t = \eta_t / (1 + \eta_t)`, in (0, 1).
    prior_mass : float
        What the start counts for, in batches, above 0.

    Returns
    -------
    factors : ndarray of shape (n_steps,)
        :math:`\zeta_t`, above 0; above 1 where a step gives more weight to the past than it had.

    Raises
    ------
    ValueError
        If a step size is not in (0, 1), or the mass not above 0.

    References
    ----------
    Sato, "Convergence of on-line EM algorithm for normalized Gaussian network", 2000; Brochu, de
    Freitas & Bao, "Owed to a Martingale", 2004, proposition 1, whose boundary is without a prior.

    Examples
    --------
    >>> forgetting_factors([0.5, 1 / 3, 1 / 4], prior_mass=1.0)
    array([1., 1., 1.])
    """
    sizes = np.asarray(step_sizes, dtype=float)
    if not ((sizes > 0.0) & (sizes < 1.0)).all():
        raise ValueError(f"step sizes must be in (0, 1), got {step_sizes!r}.")
    before = np.concatenate([[1.0 / _mass(prior_mass)], sizes[:-1]])
    return before * (1.0 / sizes - 1.0)


def forgetting_step_sizes(factors: ArrayLike, prior_mass: float) -> Floats:
    r"""Return the step sizes that forgetting factors make, the inverse of `forgetting_factors`.

    Parameters
    ----------
    factors : array-like of shape (n_steps,)
        :math:`\zeta_t`, above 0.
    prior_mass : float
        What the start counts for, in batches, above 0.

    Returns
    -------
    step_sizes : ndarray of shape (n_steps,)
        :math:`\gamma_t`, in (0, 1).

    Raises
    ------
    ValueError
        If a factor or the mass is not above 0.

    Examples
    --------
    >>> forgetting_step_sizes([1.0, 1.0, 1.0], prior_mass=1.0).round(3)
    array([0.5  , 0.333, 0.25 ])
    """
    factors = np.asarray(factors, dtype=float)
    if not (factors > 0.0).all():
        raise ValueError(f"forgetting factors must be above 0, got {factors!r}.")
    sizes, weight = np.empty(factors.shape), _mass(prior_mass)
    for t, factor in enumerate(factors):
        weight = 1.0 + factor * weight
        sizes[t] = 1.0 / weight
    return sizes


def _mass(prior_mass):
    if not 0.0 < prior_mass < np.inf:
        raise ValueError(f"prior_mass must be a finite number above 0, got {prior_mass!r}.")
    return float(prior_mass)
