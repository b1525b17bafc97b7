"""Expected occupancies: where the states of a linear dynamical system are, under the model."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._kernels import _kalman_shared
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments

__all__ = ["occupancies"]


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
    steps = np.full(like.lengths[0], 1.0 / len(like))
    left, entered = np.append(steps, 0.0), np.insert(steps, 0, 0.0)
    more_departures, more_states = _occupancies(padded, like.before, left, entered)
    return departures + more_departures, states + more_states


def _occupancies(padded, first, *weights):
    """Moments of h_1, h_2, ..., summed with each of the given weights."""
    k, width = padded.k, padded.width
    totals = np.empty((len(weights), 1 + width + width**2))
    _kalman_shared.occupancy(np.stack(weights), padded.moves, k, padded.moments(*first), totals)
    return [_unpadded(total, k, width) for total in totals]


def _unpadded(total, k, width):
    weight, mean = total[:1], total[None, 1 : 1 + k].copy()
    scatter = total[1 + width :].reshape(1, width, width)[:, :k, :k].copy()
    return MatrixMoments(weight, weight, mean, scatter)
