"""Which hidden state of one model is which of another's."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import rel_entr

__all__ = ["matching"]


def matching(occupancy, reference_occupancy, divergences, *ends):
    r"""Number states as in a reference, by the least KL divergence to it.

    .. math:: \sum_j u_i \log(u_i / v_j) + u_i \mathrm{KL}_{ij}, \qquad i = i(j)

    Parameters
    ----------
    occupancy, reference_occupancy : ndarray of shape (n_states,)
        u and v, how often states emit.
    divergences : ndarray of shape (n_states, n_states)
        KL(own emission i || the reference's emission j).
    *ends : ndarray of bool of shape (n_states,)
        If given: of both models, states that must be matched with each other.

    Returns
    -------
    order : ndarray of shape (n_states,)
        The own state i that is the reference's state j, for each j.
    """
    cost = rel_entr(occupancy[:, None], reference_occupancy)
    cost += np.where(occupancy[:, None] > 0.0, occupancy[:, None] * divergences, 0.0)
    if ends:
        cost[ends[0][:, None] != ends[1]] = np.inf
    possible = np.isfinite(cost)
    # Dearer than all others together, and of their size, so that these keep their digits.
    forbidden = 2.0 * len(cost) * np.abs(cost[possible]).max(initial=1.0)
    return linear_sum_assignment(np.where(possible, cost, forbidden).T)[1]
