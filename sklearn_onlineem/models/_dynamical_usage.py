"""How often the states of a linear dynamical system are where, under the model itself."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.families.gaussian_matrix import MatrixMoments

__all__ = ["moved", "usage"]

# An unstable system is taken to stop growing at so many times its start: any usage keeps the
# promise that a step lowers the objective of its batch, but not one that overflows.
_LARGEST_GROWTH = 1e10
_ROUNDING = 4.0 * np.finfo(float).eps


def usage(model, mean, covariance, survival):
    """Return the moments of h_1, h_2, ..., summed with weights.

    Parameters
    ----------
    model : LinearDynamicalModel
    mean, covariance : ndarray
        Moments of h_1.
    survival : ndarray of shape (n_steps,)
        Weight of each step.
    """
    total = _moments(0.0, mean, covariance)
    largest = _LARGEST_GROWTH * _size(mean, covariance + model.transition_covariance)
    for t, weight in enumerate(survival):
        next_mean, next_covariance = moved(model, mean, covariance)
        if _is_at_rest(mean, covariance, next_mean, next_covariance) or (
            _size(next_mean, next_covariance) > largest
        ):
            return total + _moments(survival[t:].sum(), mean, covariance)
        total = total + _moments(weight, mean, covariance)
        mean, covariance = next_mean, next_covariance
    return total


def moved(model, mean, covariance):
    """Moments of the next state."""
    A = model.transition
    return A @ mean + model.transition_offset, A @ covariance @ A.T + model.transition_covariance


def _moments(weight, mean, covariance):
    weights = np.array([float(weight)])
    return MatrixMoments(weights, weights, mean[None], weight * covariance[None])


def _size(mean, covariance):
    return mean @ mean + np.trace(covariance)


def _is_at_rest(mean, covariance, next_mean, next_covariance):
    scale = np.sqrt(np.diag(covariance))
    return (np.abs(next_mean - mean) <= _ROUNDING * (scale + np.abs(mean))).all() and (
        np.abs(next_covariance - covariance) <= _ROUNDING * np.outer(scale, scale)
    ).all()
