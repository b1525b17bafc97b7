"""Expected occupancies: where the states of a linear dynamical system are, under the model."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.models._horizons import HORIZON, OWN_SHARE
from sklearn_onlineem.statistics import Moments

__all__ = ["occupancies"]

# Of the squares of states, within the horizon.
_MOST_GROWTH = 10.0


def occupancies(padded, first, like):
    """Return the moments of the states that are left, and of those that emit, for each sequence.

    Parameters
    ----------
    padded : Padded
    first : tuple
        Mean and covariance of the first state.
    like : Sequences, or LengthDistribution
    """
    survival = like.survival
    departures, states = _occupancies(padded, first, np.append(survival, 0.0)[1:], survival)
    if like.before is None:
        return departures, states
    steps = _steps(padded, int(like.lengths[0]), 1.0 / len(like))
    left, entered = np.append(steps, 0.0), np.insert(steps, 0, 0.0)
    more_departures, more_states = _occupancies(padded, like.before, left, entered)
    return departures + more_departures, states + more_states


def _steps(padded, n_rows, share):
    """Weights of the steps of a piece of a sequence, and of those ahead of it: `_horizons`."""
    horizon = max(n_rows, _horizon(padded)) if n_rows < HORIZON else n_rows
    if horizon == n_rows:
        return np.full(n_rows, share)
    steps = np.full(horizon, (1.0 - OWN_SHARE) * share * n_rows / horizon)
    steps[:n_rows] += OWN_SHARE * share
    return steps


def _horizon(padded):
    """Rows to look ahead: the fewer, the faster an unstable system grows."""
    k = padded.k
    growth = np.abs(np.linalg.eigvals(padded.moves[0][:k, :k])).max(initial=0.0)
    if growth <= 1.0:
        return HORIZON
    return min(HORIZON, int(np.log(_MOST_GROWTH) / (2.0 * np.log(growth))))


def _occupancies(padded, first, *weights):
    """Moments of h_1, h_2, ..., summed with each of the given weights."""
    k, width = padded.k, padded.width
    totals = np.empty((len(weights), 1 + width + width**2))
    _kalman_shared.occupancy(np.stack(weights), padded.moves, k, padded.moments(*first), totals)
    return [_unpadded(total, k, width) for total in totals]


def _unpadded(total, k, width):
    weight, mean = total[:1], total[None, 1 : 1 + k].copy()
    scatter = total[1 + width :].reshape(1, width, width)[:, :k, :k].copy()
    return Moments(weight, weight, mean, scatter)
