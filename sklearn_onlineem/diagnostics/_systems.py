r"""Coordinates of linear dynamical systems in units of information.

Complete data of a system are three regressions with Gaussian noise, :math:`y \mid x \sim N(C x, S)`
(a constant among x stands for offsets). With the second moments :math:`M = R R'` of what stands
before learnt coefficients, and :math:`S = L L'`, moves

.. math:: dC = L\, U R^{-1}, \qquad dS = L\, W L', \quad W = W'

bring the information :math:`|U|^2 + \tfrac n2 |W|^2`, and none on U and W together at a fixed
point of EM. They need not be natural parameters for Louis' identity to hold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular

from sklearn_onlineem.diagnostics._coordinates import Coordinates
from sklearn_onlineem.diagnostics._tangents import Attribute
from sklearn_onlineem.families import (
    AffineGaussian,
    DiagonalCovariance,
    FullCovariance,
    SphericalCovariance,
)

__all__ = ["SystemCoordinates"]

# Attributes of estimators by the part of a system, and what of it they show.
_NAMES = {
    "initial": {"offset": "initial_state_mean_", "covariance": "initial_state_covariance_"},
    "transitions": {
        "matrix": "transition_matrices_",
        "offset": "transition_offsets_",
        "covariance": "transition_covariance_",
    },
    "emissions": {
        "matrix": "observation_matrices_",
        "offset": "observation_offsets_",
        "covariance": "observation_covariance_",
    },
}
_KINDS = {"matrix": "real", "offset": "real", "covariance": "covariance"}


class SystemCoordinates(Coordinates):
    """Of linear dynamical systems: a single row, of what is learnt.

    Parameters
    ----------
    model : LinearDynamicalModel
    statistics : LinearDynamicalStatistics
        Of the complete data that the model maximises: evidence, and prior if there is one.

    Raises
    ------
    ValueError
        If nothing is learnt, or the evidence does not determine what is.
    """

    what = "system"

    def __init__(self, model, statistics):
        self.model = model
        self._coordinates = [
            RegressionCoordinates(part, getattr(model, part), getattr(statistics, part))
            for part in _NAMES
        ]
        if self.shape[1] == 0:
            raise ValueError("There is no information on a system of which nothing is learnt.")

    @cached_property
    def _columns(self):
        ends = np.cumsum([0, *(part.n_columns for part in self._coordinates)])
        return [slice(*pair) for pair in zip(ends[:-1], ends[1:], strict=True)]

    @property
    def shape(self):
        return 1, self._columns[-1].stop

    @cached_property
    def scale(self):
        return np.ones(self.shape)

    def direction(self, x):
        return x

    def unit_score(self, score):
        return score

    def _by_part(self, v):
        return [v[0, columns] for columns in self._columns]

    def score(self, statistics):
        scores = [part.score(getattr(statistics, part.name)) for part in self._coordinates]
        return np.concatenate(scores)[None]

    def moved(self, v):
        parts = zip(self._coordinates, self._by_part(v), strict=True)
        return replace(self.model, **{part.name: part.moved(own) for part, own in parts})

    def size(self, v):
        parts = zip(self._coordinates, self._by_part(v), strict=True)
        return max(part.size(own) for part, own in parts)

    def attributes(self):
        return {
            _NAMES[part.name][what]: Attribute(value, _KINDS[what])
            for part in self._coordinates
            for what, value in part.values().items()
        }

    def derivatives(self, v):
        parts = zip(self._coordinates, self._by_part(v), strict=True)
        return {
            _NAMES[part.name][what]: value
            for part, own in parts
            for what, value in part.derivatives(own).items()
        }

    @property
    def parts(self):
        return {
            _NAMES[part.name][what].rstrip("_").replace("_", " "): slice(
                columns.start + own.start, columns.start + own.stop
            )
            for part, columns in zip(self._coordinates, self._columns, strict=True)
            for what, own in part.columns.items()
        }


class RegressionCoordinates:
    """Coordinates of one regression: coefficients, by columns of U, and W.

    Parameters
    ----------
    name : str
        Of the part of the system.
    regression : Regression
        Of a single component.
    statistics : MatrixMoments
        What it maximises.
    """

    def __init__(self, name, regression, statistics):
        self.name, self.regression = name, regression
        learnt, (n_outputs, n_inputs) = regression.learnt, regression.matrix.shape
        self._n_outputs, self._n_inputs = n_outputs, n_inputs
        learns_inputs = "matrix" in learnt and n_inputs > 0
        self._learnt = np.r_[np.full(n_inputs, learns_inputs), "offset" in learnt]
        self._coefficients = np.column_stack([regression.matrix, regression.offset])
        self._weight = max(float(statistics.weight[0]), np.finfo(float).tiny)
        self._inverse_root = self._inverse_root_of(_second_moments(statistics, n_inputs))
        self._units = self._units_of(float(statistics.degrees[0]) if self._has_noise else 1.0)
        self._root = self._root_of(regression.covariance) if self.n_columns else None

    @property
    def _has_noise(self):
        return "covariance" in self.regression.learnt

    def _inverse_root_of(self, moments):
        """R^-1 of the second moments of what stands before learnt coefficients."""
        moments = moments[np.ix_(self._learnt, self._learnt)]
        try:
            root = np.linalg.cholesky(moments)
        except np.linalg.LinAlgError:
            raise ValueError(f"The data do not determine the {self._said}.") from None
        return solve_triangular(root, np.eye(len(root)), lower=True)

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
        if not self._has_noise:
            return np.zeros((0, p, p))
        if not n > 0.0:
            raise ValueError(f"There are no data on the noise of the {self._said}.")
        return _UNITS[type(self.regression.family.shape)](p) / np.sqrt(0.5 * n)

    @property
    def _n_coefficients(self):
        return self._n_outputs * int(self._learnt.sum())

    @property
    def n_columns(self):
        return self._n_coefficients + len(self._units)

    @property
    def columns(self):
        """What columns stand for, dict of slices; U is a matrix of these by learnt inputs."""
        found, stop = {}, 0
        for what, n in (
            ("matrix", self._n_outputs * int(self._learnt[:-1].sum())),
            ("offset", self._n_outputs * int(self._learnt[-1])),
            ("covariance", len(self._units)),
        ):
            if n:
                found[what] = slice(stop, stop + n)
            stop += n
        return found

    def _split(self, v):
        """Moves U, of shape (n_outputs, n_learnt), and W."""
        U = v[: self._n_coefficients].reshape(-1, self._n_outputs).T
        return U, np.tensordot(v[self._n_coefficients :], self._units, axes=1)

    def score(self, statistics):
        """Scores of the complete data that have these statistics."""
        if not self.n_columns:
            return np.zeros(0)
        inputs = _second_moments(statistics, self._n_inputs)
        across, outputs = _output_moments(statistics, self._n_inputs)
        C = self._coefficients
        residual = (across - C @ inputs)[:, self._learnt] @ self._inverse_root.T
        slopes = solve_triangular(self._root, residual, lower=True)
        spread = outputs - across @ C.T - C @ across.T + C @ inputs @ C.T
        half = solve_triangular(self._root, spread, lower=True)
        white = solve_triangular(self._root, half.T, lower=True)
        white -= float(statistics.degrees[0]) * np.eye(self._n_outputs)
        noises = 0.5 * np.tensordot(self._units, white, axes=2)
        return np.concatenate([slopes.T.ravel(), noises])

    def moved(self, v):
        """The regression some way along v."""
        if not self.n_columns:
            return self.regression
        U, W = self._split(v)
        C = self._coefficients.copy()
        C[:, self._learnt] += self._root @ U @ self._inverse_root
        # Positive definite, however far.
        S = self._root @ (np.eye(len(W)) + W + 0.5 * W @ W) @ self._root.T
        S = 0.5 * (S + S.T) if self._has_noise else self.regression.covariance
        parameters = AffineGaussian.single(C[:, :-1], C[:, -1], S)
        return replace(self.regression, parameters=parameters)

    def size(self, v):
        """How far v moves what is expected of an observation, in standard deviations of noise."""
        U, W = self._split(v)
        return max(np.abs(U).max(initial=0.0) / np.sqrt(self._weight), np.abs(W).max(initial=0.0))

    def values(self):
        """What is learnt, by the name of the parameter."""
        return {name: getattr(self.regression, name) for name in self.columns}

    def derivatives(self, v):
        """Derivatives of what is learnt along v."""
        if not self.n_columns:
            return {}
        U, W = self._split(v)
        C = np.zeros_like(self._coefficients)
        C[:, self._learnt] = self._root @ U @ self._inverse_root
        found = {
            "matrix": C[:, :-1],
            "offset": C[:, -1],
            "covariance": self._root @ W @ self._root.T,
        }
        return {name: found[name] for name in self.columns}


def _second_moments(statistics, n_inputs):
    """Sums of squares of inputs and of a constant, of shape (n_inputs + 1, n_inputs + 1)."""
    weight, mean = float(statistics.weight[0]), statistics.mean[0, :n_inputs]
    inputs = statistics.scatter[0, :n_inputs, :n_inputs] + weight * np.outer(mean, mean)
    first = weight * mean
    return np.block([[inputs, first[:, None]], [first[None], np.array([[weight]])]])


def _output_moments(statistics, n_inputs):
    """Sums of products of outputs with inputs and a constant, and with outputs."""
    weight, mean, scatter = float(statistics.weight[0]), statistics.mean[0], statistics.scatter[0]
    x, y = mean[:n_inputs], mean[n_inputs:]
    across = scatter[n_inputs:, :n_inputs] + weight * np.outer(y, x)
    outputs = scatter[n_inputs:, n_inputs:] + weight * np.outer(y, y)
    return np.column_stack([across, weight * y]), outputs


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
    FullCovariance: _full_units,
    DiagonalCovariance: _diagonal_units,
    SphericalCovariance: _spherical_units,
}
