"""Coordinates of mixtures of two-dimensional Gaussians, and directions of descent in each.

All take B mixtures at once; coordinates are arrays (B, K, 1 + D + D * D), a number, a vector and a
matrix for each component. Gradients are those of the mean negative log-likelihood.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

D = 2
_IMAGINARY = 1e-30j


class Mixtures(NamedTuple):
    """Arrays (..., K), (..., K, D) and (..., K, D, D), which may be complex."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def joined(scalars, vectors, matrices):
    flat = matrices.reshape(*vectors.shape[:-1], D * D)
    return np.concatenate([scalars[..., None], vectors, flat], axis=-1)


def parted(joint):
    matrices = joint[..., 1 + D :].reshape(*joint.shape[:-1], D, D)
    return joint[..., 0], joint[..., 1 : 1 + D], matrices


def outer(a, b):
    return a[..., :, None] * b[..., None, :]


def times(matrices, vectors):
    return (matrices @ vectors[..., None])[..., 0]


def normalised(logits):
    weights = np.exp(logits - logits.real.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def determinant(matrices):
    """Determinants of two by two, NaN of what is not positive definite."""
    (a, b), (c, d) = np.moveaxis(matrices, (-2, -1), (0, 1))
    det = a * d - b * c
    return np.where((det.real > 0.0) & (a.real > 0.0), det, np.nan)


def symmetric(matrices):
    """Without what rounding adds, as gradients would have that grow."""
    return 0.5 * (matrices + matrices.mT)


def inverse(matrices):
    (a, b), (c, d) = np.moveaxis(matrices, (-2, -1), (0, 1))
    adjugate = np.moveaxis(np.array([[d, -b], [-c, a]]), (0, 1), (-2, -1))
    return adjugate / determinant(matrices)[..., None, None]


def to_natural(mixtures):
    """Natural parameters of complete data, whose products with statistics are log p(x, k)."""
    weights, means, covariances = mixtures
    precisions = inverse(covariances)
    linear = times(precisions, means)
    log_norm = np.log((2.0 * np.pi) ** D * determinant(covariances))
    scalars = np.log(weights) - 0.5 * ((linear * means).sum(axis=-1) + log_norm)
    return joined(scalars, linear, -0.5 * precisions)


def from_natural(theta):
    scalars, linear, matrices = parted(theta)
    covariances = inverse(symmetric(-2.0 * matrices))
    means = times(covariances, linear)
    log_norm = np.log(determinant(covariances))
    return Mixtures(
        normalised(scalars + 0.5 * ((linear * means).sum(axis=-1) + log_norm)), means, covariances
    )


def to_mean(mixtures):
    weights, means, covariances = mixtures
    one = np.ones(means.shape[:-1])
    return weights[..., None] * joined(one, means, covariances + outer(means, means))


def from_mean(mu):
    _, means, second = parted(mu / mu[..., :1])
    return Mixtures(mu[..., 0], means, second - outer(means, means))


def to_log_cholesky(covariances):
    factors, i = np.linalg.cholesky(covariances), np.arange(D)
    factors[..., i, i] = np.log(factors[..., i, i])
    return factors


def from_log_cholesky(matrices):
    factors, i = np.tril(matrices), np.arange(D)
    factors[..., i, i] = np.exp(factors[..., i, i])
    return factors @ factors.mT


@dataclass(frozen=True)
class Euclidean:
    """Coordinates (B, K, 1 + D + D * D) of B mixtures, and gradients in these."""

    coordinates: Callable
    mixtures: Callable

    @classmethod
    def of_covariances(cls, coordinates, covariances):
        return cls(
            lambda mixtures: joined(np.log(mixtures[0]), mixtures[1], coordinates(mixtures[2])),
            lambda theta: Mixtures(
                normalised(theta[..., 0]), parted(theta)[1], covariances(parted(theta)[2])
            ),
        )

    def direction(self, theta, evidence):
        """Gradients of losses: the evidence, through complex steps to natural parameters."""
        steps = _IMAGINARY * np.eye(theta[0].size).reshape(-1, 1, *theta[0].shape)
        jacobian = to_natural(self.mixtures(theta + steps)).imag / _IMAGINARY.imag
        return -np.einsum("pbkj,bkj->bp", jacobian, evidence).reshape(theta.shape)

    def divergence(self, new, old):
        return 0.5 * ((new - old) ** 2).sum(axis=(1, 2))


class Dual(Euclidean):
    """Mean parameters, in which a gradient by natural parameters is the natural gradient."""

    def direction(self, mu, evidence):
        return mu - evidence

    def divergence(self, new, old):
        logs = to_natural(from_mean(new)) - to_natural(from_mean(old))
        return (new * logs).sum(axis=(1, 2))


DUAL = Dual(to_mean, from_mean)
LOG_CHOLESKY = Euclidean.of_covariances(to_log_cholesky, from_log_cholesky)
PARAMETRISATIONS = {
    "natural gradient": DUAL,
    "natural": Euclidean(to_natural, from_natural),
    "log-Cholesky": LOG_CHOLESKY,
    "covariances": Euclidean.of_covariances(symmetric, symmetric),
    "precisions": Euclidean.of_covariances(inverse, lambda P: inverse(symmetric(P))),
}
