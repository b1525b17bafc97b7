r"""Coordinates of a regression with Gaussian noise, in units of information.

Of :math:`y \mid x \sim N(B x + c, S)`, with :math:`S = L L'`, a total weight w of rows and the
second moments :math:`M = R R'` of x about an origin (its mean where c is learnt, and else 0), moves

.. math::
    dB = L\, U R^{-1}, \qquad dc = L u / \sqrt w - dB\, x_0, \qquad dS = L\, W L', \quad W = W'

bring the information :math:`|U|^2 + |u|^2 + \tfrac n2 |W|^2`, and none on two of them together at a
fixed point of EM. They need not be natural parameters for Louis' identity to hold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families.linear_gaussian import AffineGaussian

__all__ = ["RegressionCoordinates"]


class RegressionCoordinates:
    """Coordinates of a regression: U by columns, u and W, of what is learnt.

    Parameters
    ----------
    name : str
        Of the part of a model that the regression is.
    regression : Regression
        Of a single component.
    statistics : Moments
        What it maximises.
    """

    def __init__(self, name, regression, statistics):
        self.name, self.regression = name, regression
        self._n_outputs, self._n_inputs = regression.matrix.shape
        self._weight = max(float(statistics.weight[0]), np.finfo(float).tiny)
        self._origin = np.zeros(self._n_inputs)
        if "offset" in regression.learnt:
            self._origin = statistics.mean[0, : self._n_inputs]
        self._inverse_root = self._inverse_root_of(statistics)
        self._units = self._units_of(float(statistics.degrees[0]))
        self.columns = self._all_columns()
        self._root = self._root_of(regression.covariance) if self.columns else None

    @property
    def _learns_matrix(self):
        return "matrix" in self.regression.learnt and self._n_inputs > 0

    def _inverse_root_of(self, statistics):
        """R^-1, (n_inputs, n_inputs)."""
        if not self._learns_matrix:
            return np.zeros((self._n_inputs, self._n_inputs))
        q, weight = self._n_inputs, float(statistics.weight[0])
        mean = statistics.mean[0, :q] - self._origin
        try:
            root = np.linalg.cholesky(statistics.scatter[0, :q, :q] + weight * np.outer(mean, mean))
        except np.linalg.LinAlgError:
            raise ValueError(f"The data do not determine the {self._said}.") from None
        return solve_triangular(root, np.eye(q), lower=True)

    def _root_of(self, covariance):
        try:
            return np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise ValueError(f"The noise of the {self._said} has no density.") from None

    @property
    def _said(self):
        return {"initial": "first state", "emissions": "observations"}.get(self.name, self.name)

    def _units_of(self, n):
        """Moves W of unit information, of shape (n_numbers, n_outputs, n_outputs)."""
        p = self._n_outputs
        if "covariance" not in self.regression.learnt:
            return np.zeros((0, p, p))
        if not n > 0.0:
            raise ValueError(f"There are no data on the noise of the {self._said}.")
        return _UNITS[type(self.regression.family.shape)](p) / np.sqrt(0.5 * n)

    def _all_columns(self):
        """What coordinates stand for: slices by the name of the parameter."""
        p, found, stop = self._n_outputs, {}, 0
        for what, n in (
            ("matrix", p * self._n_inputs * self._learns_matrix),
            ("offset", p * ("offset" in self.regression.learnt)),
            ("covariance", len(self._units)),
        ):
            if n:
                found[what] = slice(stop, stop + n)
            stop += n
        return found

    @property
    def n_columns(self):
        return max((columns.stop for columns in self.columns.values()), default=0)

    def score(self, statistics):
        """Scores of the complete data that have these statistics."""
        B, c, q = self.regression.matrix, self.regression.offset, self._n_inputs
        weight, mean, scatter = (
            float(statistics.weight[0]),
            statistics.mean[0],
            statistics.scatter[0],
        )
        # About means throughout: data far from 0 would lose their digits.
        residual = mean[q:] - B @ mean[:q] - c
        contrast = np.concatenate([-B, np.eye(self._n_outputs)], axis=1)
        across, found = contrast @ scatter, []
        if "matrix" in self.columns:
            slopes = across[:, :q] + weight * np.outer(residual, mean[:q] - self._origin)
            found.append(self._whitened(slopes @ self._inverse_root.T).T.ravel())
        if "offset" in self.columns:
            found.append(self._whitened(weight / np.sqrt(self._weight) * residual))
        if "covariance" in self.columns:
            spread = across @ contrast.T + weight * np.outer(residual, residual)
            white = self._whitened(self._whitened(spread).T)
            white -= float(statistics.degrees[0]) * np.eye(self._n_outputs)
            found.append(0.5 * np.tensordot(self._units, white, axes=2))
        return np.concatenate([*found, np.zeros(0)])

    def _whitened(self, values):
        return solve_triangular(self._root, values, lower=True)

    def _changes(self, v):
        """Changes of matrix and offset along v, and W."""
        B, c = np.zeros_like(self.regression.matrix), np.zeros(self._n_outputs)
        if "matrix" in self.columns:
            U = v[self.columns["matrix"]].reshape(-1, self._n_outputs).T
            B = self._root @ U @ self._inverse_root
        if "offset" in self.columns:
            c = self._root @ v[self.columns["offset"]] / np.sqrt(self._weight) - B @ self._origin
        return B, c, self._spread(v)

    def _spread(self, v):
        return np.tensordot(v[self.columns.get("covariance", slice(0))], self._units, axes=1)

    def moved(self, v):
        """The regression some way along v."""
        if not self.columns:
            return self.regression
        B, c, W = self._changes(v)
        S = self.regression.covariance
        if "covariance" in self.columns:
            # Positive definite, however far.
            S = self._root @ (np.eye(len(W)) + W + 0.5 * W @ W) @ self._root.T
            S = 0.5 * (S + S.T)
        B, c = self.regression.matrix + B, self.regression.offset + c
        return replace(self.regression, parameters=AffineGaussian.single(B, c, S))

    def size(self, v):
        """How far v moves what is expected of an observation, in standard deviations of noise."""
        coefficients = v[: self.n_columns - len(self._units)]
        along = np.abs(coefficients).max(initial=0.0) / np.sqrt(self._weight)
        return max(along, np.abs(self._spread(v)).max(initial=0.0))

    def values(self):
        """What is learnt, by the name of the parameter."""
        return {name: getattr(self.regression, name) for name in self.columns}

    def derivatives(self, v):
        """Derivatives of what is learnt along v, by the name of the parameter."""
        if not self.columns:
            return {}
        B, c, W = self._changes(v)
        found = {"matrix": B, "offset": c, "covariance": self._root @ W @ self._root.T}
        return {name: found[name] for name in self.columns}


def _full_units(p):
    """An orthonormal basis of symmetric matrices."""
    i, j = np.tril_indices(p)
    units = np.zeros((len(i), p, p))
    entry = np.where(i == j, 1.0, np.sqrt(0.5))
    units[np.arange(len(i)), i, j] = units[np.arange(len(i)), j, i] = entry
    return units


def _diagonal_units(p):
    return np.eye(p)[:, :, None] * np.eye(p)[:, None, :]


def _spherical_units(p):
    return np.eye(p)[None] / np.sqrt(p)


_UNITS = {
    Full: _full_units,
    Diagonal: _diagonal_units,
    Spherical: _spherical_units,
}
