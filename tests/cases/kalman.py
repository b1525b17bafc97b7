"""Kalman filter and Rauch-Tung-Striebel smoother by their textbook formulas, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import linalg


@dataclass(frozen=True)
class Filtered:
    """Moments of the states given the rows before, and up to, each."""

    predicted: np.ndarray
    predicted_covariance: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_likelihood: np.ndarray


def filtered(model, X, offsets, inputs=None):
    """Filter sequences; `inputs` are those of the rows before, and of the rows."""
    n, k = len(X), model.n_components
    past, now = np.split(np.empty((n, 0)) if inputs is None else inputs, 2, axis=1)
    out = Filtered(
        np.empty((n, k)), np.empty((n, k, k)), np.empty((n, k)), np.empty((n, k, k)), np.zeros(n)
    )
    for s in range(len(offsets) - 1):
        mean, covariance = model.initial.offset, model.initial.covariance
        for t in range(offsets[s], offsets[s + 1]):
            if t > offsets[s]:
                mean, covariance = moved(model, mean, covariance, past[t])
            out.predicted[t], out.predicted_covariance[t] = mean, covariance
            mean, covariance, out.log_likelihood[t] = updated(model, mean, covariance, X[t], now[t])
            out.mean[t], out.covariance[t] = mean, covariance
    return out


def moved(model, mean, covariance, inputs=()):
    """Moments of the next state."""
    A, B = np.split(model.transitions.matrix, [len(mean)], axis=1)
    mean = A @ mean + B @ inputs + model.transitions.offset
    return mean, A @ covariance @ A.T + model.transitions.covariance


def updated(model, mean, covariance, v, inputs=()):
    """Moments given what is there of a row, and its log density."""
    seen = ~np.isnan(v)
    if not seen.any():
        return mean, covariance, 0.0
    C, D = np.split(model.emissions.matrix[seen], [len(mean)], axis=1)
    R = model.emissions.covariance[np.ix_(seen, seen)]
    innovation = v[seen] - C @ mean - D @ inputs - model.emissions.offset[seen]
    factor = linalg.cho_factor(C @ covariance @ C.T + R, lower=True)
    gain = linalg.cho_solve(factor, C @ covariance).T
    log_det = 2.0 * np.log(np.diag(factor[0])).sum()
    quadratic = innovation @ linalg.cho_solve(factor, innovation)
    shrink = np.eye(len(mean)) - gain @ C
    log_density = -0.5 * (seen.sum() * math.log(2.0 * math.pi) + log_det + quadratic)
    covariance = shrink @ covariance @ shrink.T + gain @ R @ gain.T
    return mean + gain @ innovation, covariance, log_density


def backward_gain(model, covariance, predicted_covariance):
    """J of E(h_t | h_t+1) = mean_t + J (h_t+1 - predicted_t+1), and the covariance given h_t+1."""
    A = model.transitions.matrix
    J = np.linalg.solve(predicted_covariance, A @ covariance).T
    shrink = np.eye(len(A)) - J @ A
    return J, shrink @ covariance @ shrink.T + J @ model.transitions.covariance @ J.T


def smoothed(model, rows, offsets):
    """Means, covariances and lag-one covariances given all rows."""
    mean, covariance = rows.mean.copy(), rows.covariance.copy()
    lag = np.zeros_like(covariance)
    for begin, end in zip(offsets[:-1], offsets[1:], strict=True):
        for t in range(end - 2, begin - 1, -1):
            J, rest = backward_gain(model, rows.covariance[t], rows.predicted_covariance[t + 1])
            mean[t] += J @ (mean[t + 1] - rows.predicted[t + 1])
            lag[t + 1] = covariance[t + 1] @ J.T
            covariance[t] = rest + J @ covariance[t + 1] @ J.T
    return mean, covariance, lag
