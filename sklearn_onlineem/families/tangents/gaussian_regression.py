"""Directions of regressions: those of Gaussians of (x, y) that do not move the inputs.

With the triangular root R of the covariance of (x, y), deviations are R (t, z): t are the inputs
and z the noise in units of their covariances. Rows score u'z + z'Ut + (z'Vz - tr V) / 2, which is
what they score as a Gaussian, along the directions in which z takes part.
"""

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families import Full, Gaussian, Gaussians, Spherical
from sklearn_onlineem.families.gaussian_regression import Regressions
from sklearn_onlineem.families.linear_gaussian import joined
from sklearn_onlineem.families.tangents.base import Tangents, symmetric_exponential
from sklearn_onlineem.families.tangents.gaussian import MatrixTangents


class _Combined(Tangents):
    """Tangents along orthonormal combinations of those of others, the columns of `basis`."""

    def __init__(self, tangents, basis):
        super().__init__(tangents.family, tangents.parameters)
        self._tangents, self._basis = tangents, basis

    @property
    def mean(self):
        return self._tangents.mean

    @property
    def n_own(self):
        return self._basis.shape[1]

    @property
    def takes_single(self):
        return self._tangents.takes_single

    @property
    def kernel(self):
        return self._tangents.kernel

    def rows(self, X):
        return self._tangents.rows(X)

    def features(self, X):
        return self._tangents.features(X)

    def frames(self):
        for components, to, frame in self._tangents.frames():
            yield components, to, _Combined(frame, self._basis)

    def natural(self, v):
        return self._tangents.natural(v @ self._basis.T)

    def whitened(self, raw):
        return self._tangents.whitened(raw) @ self._basis


class RegressionTangents(_Combined):
    """Tangents of regressions on known inputs."""

    def __init__(self, family, regressions):
        M, B, R = regressions.input_covariance, regressions.matrix, regressions.covariance
        across, (p, q) = B @ M, B.shape[1:]
        covariance = joined(M, across, across @ B.mT + R)
        floor = np.append(np.zeros(q), family._regression._added(p).diagonal())
        joint = MatrixTangents(Gaussian(floor=floor), Gaussians(regressions.mean, covariance))
        super().__init__(joint, _basis(q, p, family.noise))
        self.family, self.parameters = family, regressions

    @property
    def parts(self):
        p, q = self.parameters.matrix.shape[1:]
        of_matrix = slice(p, p + p * q)
        return {
            "intercepts": slice(0, p),
            "coefficients": of_matrix,
            "covariances": slice(of_matrix.stop, None),
        }

    def effective_counts(self, statistics):
        counts = np.repeat(statistics.degrees[:, None], self.n_own, axis=1)
        counts[:, self.parts["intercepts"]] = statistics.weight[:, None]
        return counts

    def score(self, statistics):
        return self._tangents.score(statistics) @ self._basis

    def is_proper(self, prior):
        return self._tangents.is_proper(prior)

    def floor_penalty(self, statistics):
        regressions, floor = self.parameters, self.family._regression._added(self._n_outputs)
        precision = regressions.noise.precision
        return -0.5 * float(np.einsum("k,kij,ij->", statistics.degrees, precision, floor))

    @property
    def _n_outputs(self):
        return self.parameters.covariance.shape[1]

    @cached_property
    def _roots(self):
        """Triangular roots of the covariances of the inputs, and of the noise."""
        regressions = self.parameters
        arrays = regressions.input_covariance, regressions.covariance
        return tuple(np.linalg.cholesky(values) for values in arrays)

    def moved(self, v):
        regressions, (root_x, root_y) = self.parameters, self._roots
        p, q = regressions.matrix.shape[1:]
        u, U, _ = (v[:, columns] for columns in self.parts.values())
        noise = v[:, self.parts["covariances"]] @ self._basis[:, self.parts["covariances"]].T
        V = self._tangents._matrices(noise[:, p + q :])[:, q:, q:]
        mean = regressions.mean.copy()
        mean[:, q:] += (root_y @ u[:, :, None])[:, :, 0]
        # U R_x^-1, by the transposed equations.
        slopes = np.linalg.solve(root_x.mT, U.reshape(-1, q, p)).mT
        roots = root_y @ symmetric_exponential(0.5 * V)
        matrix = regressions.matrix + root_y @ slopes
        return Regressions(mean, matrix, roots @ roots.mT, regressions.input_covariance)


def _basis(q, p, noise):
    """Return columns of directions of the outputs' means, of B by inputs, and of the noise."""
    n = q + p
    i, j = np.triu_indices(n)
    every = np.eye(n + len(i))
    of_mean, of_products = every[:, q:n], every[:, n:]
    own = of_products[:, i >= q]
    if not isinstance(noise, Full):
        own = of_products[:, (i >= q) & (i == j)]
    if isinstance(noise, Spherical):
        own = own.sum(axis=1, keepdims=True) / np.sqrt(p)
    return np.hstack([of_mean, of_products[:, (i < q) & (j >= q)], own])
