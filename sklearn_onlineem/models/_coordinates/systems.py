"""Coordinates of linear dynamical systems, which are three regressions, in units of information."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import null_space, solve_triangular

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families import Diagonal, Full, Spherical
from sklearn_onlineem.families._tangents.base import (
    Attribute,
    symmetric_exponential,
    symmetric_units,
)
from sklearn_onlineem.families.linear_gaussian import AffineGaussian
from sklearn_onlineem.models._coordinates.components import Coordinates
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel

__all__ = ["RegressionCoordinates", "SystemCoordinates", "unseen_changes"]

# Smaller relative changes are rounding errors.
_NONE = 1e-9


def unseen_changes(model, sizes, told=()):
    """Return the dimension of changes of the states' coordinates that keep all known parameters.

    `sizes` are the scales of the states; `told` are the learnt parameters, as (part, parameter), on
    which a prior has information. Also returned are the learnt parameters that the changes move.
    """
    # In units in which states are of size 1.
    k, shrink, stretch = model.n_components, np.diag(1.0 / sizes), np.diag(sizes)
    model = LinearDynamicalModel(
        model.initial.in_coordinates(outputs=shrink),
        model.transitions.in_coordinates(inputs=stretch, outputs=shrink),
        model.emissions.in_coordinates(inputs=stretch),
    )
    units = np.eye(k * k + k)
    every = [_changes(model, unit[: k * k].reshape(k, k), unit[k * k :], told) for unit in units]
    known, learnt = (
        {name: np.array([pair[i][name].ravel() for pair in every]).T for name in every[0][i]}
        for i in (0, 1)
    )
    free = null_space(np.concatenate([*known.values(), np.zeros((1, len(units)))]), rcond=_NONE)
    moved = [
        name for name, changes in learnt.items() if np.abs(changes @ free).max(initial=0) > _NONE
    ]
    return free.shape[1], moved


def _changes(model, E, s, told):
    """Return relative changes of known and of learnt parameters, by part and parameter."""
    first, step, reading = model.initial, model.transitions, model.emissions
    A, C, b = step.matrix, reading.matrix, step.offset
    # Rows may be in units of any size.
    C = C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), np.finfo(float).tiny)
    every = {
        ("initial", "offset"): E @ first.offset + s,
        ("initial", "covariance"): _congruent(E, first.covariance),
        ("transitions", "matrix"): E @ A - A @ E,
        ("transitions", "offset"): E @ b + s - A @ s,
        ("transitions", "covariance"): _congruent(E, step.covariance),
        ("emissions", "matrix"): -C @ E,
        ("emissions", "offset"): -C @ s,
    }
    known, learnt = {}, {}
    for (part, what), change in every.items():
        regression = getattr(model, part)
        if what not in regression.learnt or (part, what) in told:
            known[part, what] = change
            continue
        learnt[part, what] = change
        if what == "covariance":
            # Zeros off a learnt diagonal are known.
            known[part, what] = change - regression.family.shape.nearest(change)
    return known, learnt


def _congruent(E, covariance):
    """Return the change of a covariance, relative to the largest variance."""
    largest = np.diag(covariance).max(initial=np.finfo(float).tiny)
    change = E @ covariance / largest
    return change + change.T


class RegressionCoordinates:
    """Coordinates of the learnt parts of a regression: U by columns, u and W."""

    def __init__(self, name, regression, statistics):
        self.name, self.regression = name, regression
        self._n_outputs, self._n_inputs = regression.matrix.shape
        self._weight = max(float(statistics.weight[0]), np.finfo(float).tiny)
        self._origin = np.zeros(self._n_inputs)
        if "offset" in regression.learnt:
            self._origin = statistics.mean[0, : self._n_inputs]
        self._inverse_root = self._inverse_root_of(statistics)
        p, learnt, degrees = self._n_outputs, regression.learnt, float(statistics.degrees[0])
        # Moves W of unit information.
        self._units = np.zeros((0, p, p))
        if "covariance" in learnt:
            if not degrees > 0.0:
                raise ValueError(f"There are no data on the noise of the {self._said}.")
            units = _UNITS[type(regression.family.shape)](p)
            self._units = units / np.sqrt(0.5 * degrees)
        self.columns, stop = {}, 0
        for what, n in (
            ("matrix", p * self._n_inputs * self._learns_matrix),
            ("offset", p * ("offset" in learnt)),
            ("covariance", len(self._units)),
        ):
            if n:
                self.columns[what] = slice(stop, stop + n)
            stop += n
        if self.columns:
            try:
                self._root = np.linalg.cholesky(regression.covariance)
            except np.linalg.LinAlgError:
                raise ValueError(f"The noise of the {self._said} has no density.") from None

    @property
    def _learns_matrix(self):
        return "matrix" in self.regression.learnt and self._n_inputs > 0

    def _inverse_root_of(self, statistics):
        """Return R^-1, (n_inputs, n_inputs)."""
        if not self._learns_matrix:
            return np.zeros((self._n_inputs, self._n_inputs))
        q, weight = self._n_inputs, float(statistics.weight[0])
        mean = statistics.mean[0, :q] - self._origin
        try:
            root = np.linalg.cholesky(statistics.scatter[0, :q, :q] + weight * np.outer(mean, mean))
        except np.linalg.LinAlgError:
            raise ValueError(f"The data do not determine the {self._said}.") from None
        return solve_triangular(root, np.eye(q), lower=True)

    @property
    def _said(self):
        return {"initial": "first state", "emissions": "observations"}.get(self.name, self.name)

    @property
    def n_columns(self):
        return max((columns.stop for columns in self.columns.values()), default=0)

    def score(self, statistics):
        B, c, q = self.regression.matrix, self.regression.offset, self._n_inputs
        weight, mean, scatter = (
            float(statistics.weight[0]),
            statistics.mean[0],
            statistics.scatter[0],
        )
        # About means, as data far from 0 would lose digits.
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
            # The M-step adds the floor to the mean of the squares.
            floor = self.regression.family._added(self._n_outputs)
            expected = float(statistics.degrees[0]) * (self.regression.covariance - floor)
            white = self._whitened(self._whitened(spread - expected).T)
            found.append(0.5 * np.tensordot(self._units, white, axes=2))
        return np.concatenate([*found, np.zeros(0)])

    def floor_penalty(self, statistics):
        if "covariance" not in self.columns:
            return 0.0
        white = self._whitened(self._whitened(self.regression.family._added(self._n_outputs)).T)
        return -0.5 * float(statistics.degrees[0]) * float(np.trace(white))

    def _whitened(self, values):
        return solve_triangular(self._root, values, lower=True)

    def _changes(self, v):
        """Return the changes of matrix and offset along v, and W."""
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
        if not self.columns:
            return self.regression
        B, c, W = self._changes(v)
        S = self.regression.covariance
        if "covariance" in self.columns:
            root = self._root @ symmetric_exponential(0.5 * W)
            S = root @ root.T
        B, c = self.regression.matrix + B, self.regression.offset + c
        return replace(self.regression, parameters=AffineGaussian.single(B, c, S))

    def size(self, v):
        """Return how far v moves the mean of an observation, in standard deviations of noise."""
        coefficients = v[: self.n_columns - len(self._units)]
        along = np.abs(coefficients).max(initial=0.0) / np.sqrt(self._weight)
        return max(along, np.abs(self._spread(v)).max(initial=0.0))

    def values(self):
        return {name: getattr(self.regression, name) for name in self.columns}

    def derivatives(self, v):
        if not self.columns:
            return {}
        B, c, W = self._changes(v)
        found = {"matrix": B, "offset": c, "covariance": self._root @ W @ self._root.T}
        return {name: found[name] for name in self.columns}


def _diagonal_units(p):
    return np.eye(p)[:, :, None] * np.eye(p)[:, None, :]


def _spherical_units(p):
    return np.eye(p)[None] / np.sqrt(p)


_UNITS = {
    Full: symmetric_units,
    Diagonal: _diagonal_units,
    Spherical: _spherical_units,
}


# Attributes of estimators, by part and parameter of a system.
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
_TINY = np.finfo(float).tiny
_KINDS = {"matrix": "real", "offset": "real", "covariance": "covariance"}


class SystemCoordinates(Coordinates):
    """Coordinates of linear dynamical systems: a single row, of the learnt parameters."""

    what = "system"
    remedy = "with fewer em_vars"
    # Parts have very different rates, and early gains tell the fast ones.
    gains_tell = False

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        self._coordinates = [
            RegressionCoordinates(part, getattr(model, part), getattr(statistics, part))
            for part in _NAMES
        ]
        if self.shape[1] == 0:
            raise ValueError("There are no standard errors of a system of which nothing is learnt.")

    def check_determined(self, n_observations, prior):
        """Refuse undetermined parameters, and first states of too few sequences."""
        degrees = n_observations * float(self._statistics.initial.degrees[0])
        if "covariance" in self.model.initial.learnt and degrees <= self.model.n_components:
            raise ValueError(
                "initial_state_covariance_ is not determined: it requires more sequences than"
                f" states have dimensions, got {n_observations:g} and {self.model.n_components}."
                " Leave it out of em_vars, or give it a prior."
            )
        told = set() if prior is None else set(self._told_by(prior))
        n_changes, moved = unseen_changes(self.model, self._sizes, told)
        if n_changes:
            names = ", ".join(_NAMES[part][what] for part, what in moved)
            raise ValueError(
                f"The data do not determine {names}: changes of the coordinates of the states, in"
                f" a space of {n_changes} dimensions, change these but not the likelihood. Leave"
                " some of them out of em_vars."
            )

    def _told_by(self, prior):
        """Yield the parameters on which a prior has information, by part and name."""
        for part in _NAMES:
            moments, n_inputs = getattr(prior, part), getattr(self.model, part).matrix.shape[1]
            if moments.scatter[0, :n_inputs, :n_inputs].any():
                yield part, "matrix"
            if moments.weight[0] > 0.0:
                yield part, "offset"
            if moments.degrees[0] > 0.0:
                yield part, "covariance"

    @property
    def _sizes(self):
        k, moments = self.model.n_components, self._statistics.emissions
        squares = np.diag(moments.scatter[0])[:k] / max(float(moments.weight[0]), _TINY)
        squares = squares + moments.mean[0, :k] ** 2
        return np.sqrt(np.where(squares > 0.0, squares, 1.0))

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

    def is_proper(self, prior):
        parts = (getattr(prior, part.name) for part in self._coordinates)
        return all(min(part.weight[0], part.degrees[0]) >= 0.0 for part in parts)

    def floor_penalty(self, statistics):
        return sum(part.floor_penalty(getattr(statistics, part.name)) for part in self._coordinates)

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
