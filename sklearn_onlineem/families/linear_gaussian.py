"""Linear-Gaussian regressions, y given x: the transitions and emissions of a Kalman filter."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from sklearn_onlineem.families._checks import above, at_least, finite, positive_semidefinite
from sklearn_onlineem.families._gaussian import NEGLIGIBLE
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments

__all__ = [
    "AffineGaussian",
    "CovarianceShape",
    "DiagonalCovariance",
    "FullCovariance",
    "LinearGaussian",
    "SphericalCovariance",
    "joined",
    "joint_moments",
]

_EVERYTHING = frozenset({"matrix", "offset", "covariance"})


@dataclass(frozen=True, eq=False)
class AffineGaussian:
    """Parameters of y | x ~ N(matrix x + offset, covariance).

    Parameters
    ----------
    matrix : ndarray of shape (p, q)
    offset : ndarray of shape (p,)
    covariance : ndarray of shape (p, p)
    """

    matrix: np.ndarray
    offset: np.ndarray
    covariance: np.ndarray


class CovarianceShape(ABC):
    """What noise covariances a family takes."""

    @abstractmethod
    def nearest(self, covariance):
        """Return the covariance of this shape that maximises the likelihood of the given one."""

    @abstractmethod
    def n_parameters(self, n_features):
        """Return the number of free parameters."""


@dataclass(frozen=True)
class FullCovariance(CovarianceShape):
    """Any covariance."""

    def nearest(self, covariance):
        return 0.5 * (covariance + covariance.T)

    def n_parameters(self, n_features):
        return n_features * (n_features + 1) // 2


@dataclass(frozen=True)
class DiagonalCovariance(CovarianceShape):
    """Independent features."""

    def nearest(self, covariance):
        return np.diag(np.diag(covariance))

    def n_parameters(self, n_features):
        return n_features


@dataclass(frozen=True)
class SphericalCovariance(CovarianceShape):
    """Independent features of one variance."""

    def nearest(self, covariance):
        return np.eye(len(covariance)) * (np.trace(covariance) / max(1, len(covariance)))

    def n_parameters(self, n_features):
        return 1


@dataclass(frozen=True, eq=False)
class LinearGaussian:
    r"""Regressions with Gaussian noise.

    .. math:: p(y \mid x) = N(y; B x + c, S)

    The statistics are the moments of the stacked vector :math:`z = (x, y)`, centred, so that they
    merge by the parallel-axis formula: with :math:`S_{yx}` and :math:`S_{xx}` blocks of the
    scatter, :math:`B = S_{yx} S_{xx}^{-1}` and :math:`c = m_y - B m_x`. Without inputs (q = 0) it
    is a Gaussian.

    Parameters
    ----------
    shape : CovarianceShape, default=FullCovariance()
        Shape of the noise covariance.
    floor : ndarray of shape (p,), default=None
        What the M-step adds to the variances of the noise; None: nothing.

    References
    ----------
    Ghahramani & Hinton, "Parameter Estimation for Linear Dynamical Systems", 1996; Amid & Warmuth,
    UAI 2020, section 6, with sums of their statistics as means over sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import LinearGaussian
    >>> from sklearn_onlineem.families.linear_gaussian import joint_moments
    >>> z = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.2]])
    >>> family = LinearGaussian()
    >>> parameters = family.m_step(joint_moments(z))
    >>> parameters.matrix.round(3), parameters.offset.round(3)
    (array([[2.1]]), array([0.967]))
    """

    shape: CovarianceShape = FullCovariance()
    floor: np.ndarray | None = None

    def own_statistics(self, parameters, inputs):
        """Return the moments of (x, y), given those of x.

        Parameters
        ----------
        parameters : AffineGaussian
        inputs : MatrixMoments
            Of one component of q features.
        """
        B, weight = parameters.matrix, inputs.weight[0]
        mean = np.concatenate([inputs.mean[0], B @ inputs.mean[0] + parameters.offset])
        within, across = inputs.scatter[0], B @ inputs.scatter[0]
        noise = weight * (parameters.covariance - self._floor(len(B)))
        scatter = joined(within, across, across @ B.T + noise)
        return MatrixMoments(inputs.weight, inputs.degrees, mean[None], scatter[None])

    def m_step(self, statistics, previous=None, learnt=_EVERYTHING):
        """Return the maximiser of the statistics over what is learnt.

        Parameters
        ----------
        statistics : MatrixMoments
            Moments of (x, y).
        previous : AffineGaussian, default=None
            Holds what is known, and what is kept where the statistics say nothing. It may be left
            out only if there are no inputs, or one output and all is learnt.
        learnt : set of str
            Of "matrix", "offset" and "covariance"; what is not among them keeps its value, and
            the others are the best with that value.
        """
        n_outputs = 1 if previous is None else len(previous.offset)
        z = _Blocks(statistics, n_outputs)
        if previous is None:
            previous = _nothing(n_outputs, len(z.mean_x))
        B = z.regression(previous, "offset" in learnt) if "matrix" in learnt else previous.matrix
        c = z.mean_y - B @ z.mean_x if "offset" in learnt and z.weight > 0.0 else previous.offset
        S = previous.covariance
        if "covariance" in learnt and statistics.degrees[0] > NEGLIGIBLE:
            S = self._covariance(z.residual(B, c), statistics.degrees[0], z.scatter_yy)
        return AffineGaussian(B, c, S)

    def _covariance(self, residual, degrees, total):
        n_outputs = len(residual)
        S = self.shape.nearest(residual / degrees) + self._floor(n_outputs)
        if np.linalg.eigvalsh(S)[0] < 0.0:  # by rounding
            S += 8.0 * n_outputs * np.finfo(float).eps * np.diag(np.diag(total) / degrees)
        return S

    def _floor(self, n_outputs):
        if self.floor is None:
            return np.zeros((n_outputs, n_outputs))
        return self.shape.nearest(np.diag(self.floor))

    def kl_divergence(self, p, q, inputs):
        """Return the expectation over x of KL(p(y | x) || q(y | x)), times the weight of x.

        Parameters
        ----------
        p, q : AffineGaussian
        inputs : MatrixMoments
            Of x.
        """
        weight, mean, scatter = inputs.weight[0], inputs.mean[0], inputs.scatter[0]
        difference = p.matrix - q.matrix
        shift = difference @ mean + p.offset - q.offset
        spread = weight * (p.covariance + np.outer(shift, shift))
        spread += difference @ scatter @ difference.T
        values, vectors = _support(q.covariance)
        if _exceeds(p.covariance, vectors):
            return math.inf
        trace = (vectors * (spread @ vectors)).sum(axis=0) @ (1.0 / values)
        own_log_det = np.linalg.slogdet(vectors.T @ p.covariance @ vectors)[1]
        return 0.5 * (trace + weight * (np.log(values).sum() - own_log_det - len(values)))

    def sample(self, parameters, x, rng):
        """Draw one y for each row of x, an ndarray of shape (n_rows, p)."""
        noise = rng.standard_normal((len(x), len(parameters.offset)))
        return x @ parameters.matrix.T + parameters.offset + noise @ _root(parameters.covariance).T

    def n_parameters(self, parameters, learnt=_EVERYTHING):
        """Return the number of free parameters among those that are learnt."""
        numbers = {
            "matrix": parameters.matrix.size,
            "offset": parameters.offset.size,
            "covariance": self.shape.n_parameters(len(parameters.offset)),
        }
        return sum(numbers[name] for name in learnt)

    def prior_statistics(
        self,
        n_inputs,
        n_outputs,
        *,
        matrix=0.0,
        matrix_precision=0.0,
        offset=0.0,
        offset_precision=0.0,
        covariance=0.0,
        degrees_of_freedom=None,
    ):
        r"""Return a matrix-normal inverse-Wishart prior, whose joint mode is taken.

        .. math:: B \sim MN(M, S, K^{-1}), \quad c \sim N(c_0, S / k), \quad S \sim IW(\Psi, \nu)

        The weight of the offset is that of :math:`y` where :math:`x = 0`.

        Parameters
        ----------
        n_inputs, n_outputs : int
        matrix : array broadcasting to (n_outputs, n_inputs)
            M.
        matrix_precision : float or array of shape (n_inputs, n_inputs)
            K, positive semidefinite; a number stands for a multiple of the unit matrix.
        offset : array broadcasting to (n_outputs,)
        offset_precision : float
            k, pseudo-rows of the offset, not below 0.
        covariance : float or array of shape (n_outputs, n_outputs)
            Psi, positive semidefinite; a number stands for a multiple of the unit matrix.
        degrees_of_freedom : float, default=None
            Of the inverse Wishart distribution, above n_outputs - 1; None: no prior on the
            covariance.
        """
        M = finite("matrix", matrix, (n_outputs, n_inputs))
        K = positive_semidefinite("matrix_precision", matrix_precision, n_inputs)
        Psi = positive_semidefinite("covariance", covariance, n_outputs)
        scatter = joined(K, M @ K, Psi + M @ K @ M.T)
        mean = np.zeros(n_inputs + n_outputs)
        mean[n_inputs:] = finite("offset", offset, (n_outputs,))
        weight = np.array([at_least("offset_precision", offset_precision, 0.0)])
        mode = 0.0
        if degrees_of_freedom is not None:
            mode = above("degrees_of_freedom", degrees_of_freedom, n_outputs - 1.0)
            mode = mode + n_outputs + 1.0 + np.linalg.matrix_rank(K) + (weight[0] > 0.0)
        return MatrixMoments(weight, np.array([float(mode)]), mean[None], scatter[None])


class _Blocks:
    """Moments of (x, y), taken apart."""

    def __init__(self, statistics, n_outputs):
        mean, scatter = statistics.mean[0], statistics.scatter[0]
        q = len(mean) - n_outputs
        self.weight = statistics.weight[0]
        self.mean_x, self.mean_y = mean[:q], mean[q:]
        self.scatter, self.scatter_yy = scatter, scatter[q:, q:]
        self._xx, self._yx = scatter[:q, :q], scatter[q:, :q]

    def regression(self, previous, learns_offset):
        """The best B, where the offset is the best one, or the known one."""
        xx, yx = self._xx, self._yx
        if not learns_offset:
            weighted = self.weight * self.mean_x
            xx = xx + np.outer(weighted, self.mean_x)
            yx = yx + np.outer(self.mean_y - previous.offset, weighted)
        # As a correction, so that directions without evidence keep their coefficients.
        return previous.matrix + _solved(xx, (yx - previous.matrix @ xx).T).T

    def residual(self, B, c):
        """Sum of the outer products of y - B x - c."""
        contrast = np.concatenate([-B, np.eye(len(B))], axis=1)
        mean = self.mean_y - B @ self.mean_x - c
        return contrast @ self.scatter @ contrast.T + self.weight * np.outer(mean, mean)


def joint_moments(z):
    """Return the moments of rows, as statistics of one component."""
    mean, n = z.mean(axis=0), np.array([float(len(z))])
    return MatrixMoments(n, n, mean[None], ((z - mean).T @ (z - mean))[None])


def joined(xx, yx, yy):
    """Covariance of (x, y), from those of x, of y with x, and of y."""
    q, n = len(xx), len(xx) + len(yx)
    joint = np.empty((n, n))
    joint[:q, :q], joint[:q, q:] = xx, yx.T
    joint[q:, :q], joint[q:, q:] = yx, yy
    return joint


def _solved(matrix, right):
    """Solve matrix x = right; what a singular matrix leaves open is 0."""
    if not len(matrix):
        return right
    scale = np.sqrt(np.diag(matrix))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    matrix, right = matrix * inverse[:, None] * inverse, right * inverse[:, None]
    factor, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        solution = linalg.pinvh(matrix) @ right
    else:
        solution = lapack.dpotrs(factor, right, lower=1)[0]
    return solution * inverse[:, None]


def _support(covariance):
    """Eigenvalues and eigenvectors of a covariance, but those of 0."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > len(values) * np.finfo(float).eps * values.max(initial=0.0)
    return values[kept], vectors[:, kept]


def _exceeds(covariance, vectors):
    """Whether a covariance has variance where these eigenvectors have none."""
    if vectors.shape[1] == len(covariance):
        return False
    inside = np.einsum("ij,ik,kj->", vectors, covariance, vectors)
    return np.trace(covariance) - inside > 1e-10 * np.trace(covariance)


def _nothing(n_outputs, n_inputs):
    return AffineGaussian(
        np.zeros((n_outputs, n_inputs)), np.zeros(n_outputs), np.zeros((n_outputs, n_outputs))
    )


def _root(covariance):
    """A square root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))
