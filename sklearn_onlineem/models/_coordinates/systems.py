"""Coordinates of linear dynamical systems, which are three regressions, in units of information."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.linalg import lapack, null_space

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families import Full, Spherical
from sklearn_onlineem.families._covariances import eigen
from sklearn_onlineem.families._tangents.base import Attribute
from sklearn_onlineem.families.linear_gaussian import AffineGaussian
from sklearn_onlineem.models._coordinates.components import Coordinates
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.regression import Regression

__all__ = ["RegressionCoordinates", "SystemCoordinates", "unseen_changes"]

# Smaller relative changes are rounding errors.
_NONE = 1e-9
_TINY = np.finfo(float).tiny


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
    C = C / np.maximum(np.linalg.norm(C, axis=1, keepdims=True), _TINY)
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
    largest = np.diag(covariance).max(initial=_TINY)
    change = E @ covariance / largest
    return change + change.T


class RegressionCoordinates:
    """Coordinates of the learnt parts of a regression: U by columns, u and W."""

    def __init__(self, name, regression, statistics):
        self.name, self.regression = name, regression
        self._n_outputs, self._n_inputs = regression.matrix.shape
        self._weight = max(float(statistics.weight[0]), _TINY)
        p, q, learnt = self._n_outputs, self._n_inputs, regression.learnt
        self._origin = statistics.mean[0, :q] if "offset" in learnt else np.zeros(q)
        # Coordinates of W in unit information: entries below the diagonal move with those above.
        degrees, n_spread = float(statistics.degrees[0]), 0
        if "covariance" in learnt:
            if not degrees > 0.0:
                raise ValueError(f"There are no data on the noise of the {self._said}.")
            shape = regression.family.shape
            n_spread, self._places = shape.n_parameters(p), _places(type(shape), p)
            self._entries = _entries(type(shape), p) / math.sqrt(0.5 * degrees)
        self.columns, self.n_columns = {}, 0
        for what, n in (
            ("matrix", p * q * ("matrix" in learnt)),
            ("offset", p * ("offset" in learnt)),
            ("covariance", n_spread),
        ):
            if n:
                self.columns[what] = slice(self.n_columns, self.n_columns + n)
            self.n_columns += n
        if "matrix" in self.columns:
            self._inverse_root = self._inverse_root_of(statistics)
        if self.columns:
            self._root, failed = lapack.dpotrf(regression.covariance, lower=1)
            if failed:
                raise ValueError(f"The noise of the {self._said} has no density.")

    def _inverse_root_of(self, statistics):
        """Return R^-1, (n_inputs, n_inputs)."""
        q, mean = self._n_inputs, statistics.mean[0, : self._n_inputs] - self._origin
        squares = statistics.scatter[0, :q, :q] + float(statistics.weight[0]) * _outer(mean, mean)
        root, failed = lapack.dpotrf(squares, lower=1)
        if failed:
            raise ValueError(f"The data do not determine the {self._said}.")
        return lapack.dtrtri(root, lower=1)[0]

    @property
    def _said(self):
        return {"initial": "first state", "emissions": "observations"}.get(self.name, self.name)

    def score(self, statistics):
        B, c, q = self.regression.matrix, self.regression.offset, self._n_inputs
        weight, mean, scatter = (
            float(statistics.weight[0]),
            statistics.mean[0],
            statistics.scatter[0],
        )
        # About means, as data far from 0 would lose digits.
        residual = mean[q:] - B @ mean[:q] - c
        across, found = scatter[q:] - B @ scatter[:q], []
        if "matrix" in self.columns:
            slopes = across[:, :q] + weight * _outer(residual, mean[:q] - self._origin)
            found.append(self._whitened(slopes @ self._inverse_root.T).T.ravel())
        if "offset" in self.columns:
            found.append(self._whitened(weight / math.sqrt(self._weight) * residual))
        if "covariance" in self.columns:
            spread = across[:, q:] - across[:, :q] @ B.T + weight * _outer(residual, residual)
            # The M-step adds the floor to the mean of the squares.
            expected = float(statistics.degrees[0]) * (self.regression.covariance - self._floor)
            white = self._whitened(self._whitened(spread - expected).T)
            of_entries = (0.5 * self._entries) * (white + white.T)[self._places]
            n = self.n_columns - self.columns["covariance"].start
            found.append(of_entries.reshape(n, -1).sum(axis=1))
        return np.concatenate(found)

    @property
    def _floor(self):
        family = self.regression.family
        return 0.0 if family.floor is None else family._added(self._n_outputs)

    def floor_penalty(self, statistics):
        if "covariance" not in self.columns or self.regression.family.floor is None:
            return 0.0
        ratio = lapack.dpotrs(self._root, self._floor, lower=1)[0]
        return -0.5 * float(statistics.degrees[0]) * float(ratio.trace())

    def _whitened(self, values):
        return lapack.dtrtrs(self._root, values, lower=1)[0]

    def _changes(self, v):
        """Return the changes of matrix and offset along v, and W, of those that are learnt."""
        found = {}
        if "matrix" in self.columns:
            U = v[self.columns["matrix"]].reshape(-1, self._n_outputs).T
            found["matrix"] = self._root @ U @ self._inverse_root
        if "offset" in self.columns:
            c = self._root @ v[self.columns["offset"]] / math.sqrt(self._weight)
            found["offset"] = c - found["matrix"] @ self._origin if "matrix" in found else c
        if "covariance" in self.columns:
            found["covariance"] = self._spread(v)
        return found

    def _spread(self, v):
        W = np.zeros((self._n_outputs, self._n_outputs))
        W[self._places] = self._entries * v[self.columns["covariance"]]
        return W + W.T

    def moved(self, v):
        changes, regression = self._changes(v), self.regression
        S = regression.covariance
        if "covariance" in changes:
            values, vectors = eigen(changes["covariance"])
            root = self._root @ vectors * np.exp(0.5 * values)
            S = root @ root.T
        B, c = (
            value + changes[what] if what in changes else value
            for what, value in (("matrix", regression.matrix), ("offset", regression.offset))
        )
        parameters = AffineGaussian(B[None], c[None], S[None])
        return Regression(regression.family, parameters, regression.learnt)

    def size(self, v):
        """Return how far v moves the mean of an observation, in standard deviations of noise."""
        size = 0.0
        for what, columns in self.columns.items():
            if what == "covariance":
                size = max(size, np.abs(self._spread(v)).max())
            else:
                size = max(size, np.abs(v[columns]).max() / math.sqrt(self._weight))
        return size

    def values(self):
        return {name: getattr(self.regression, name) for name in self.columns}

    def derivatives(self, v):
        found = self._changes(v)
        if "covariance" in found:
            found["covariance"] = self._root @ found["covariance"] @ self._root.T
        return found


def _outer(x, y):
    return x[:, None] * y


@cache
def _places(kind, p):
    """Return row and column of the entries, on or below the diagonal, that coordinates move."""
    return np.tril_indices(p) if kind is Full else (np.arange(p), np.arange(p))


@cache
def _entries(kind, p):
    """Return these entries of an orthonormal basis; those on the diagonal count twice."""
    i, j = _places(kind, p)
    entries = np.where(i == j, 0.5, math.sqrt(0.5))
    return entries / math.sqrt(p) if kind is Spherical else entries


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
_KINDS = {"matrix": "real", "offset": "real", "covariance": "covariance"}


class SystemCoordinates(Coordinates):
    """Coordinates of linear dynamical systems: a single row, of the learnt parameters."""

    what = "system"
    remedy = "with fewer em_vars"
    # Parts have very different rates, and early gains tell the fast ones.
    gains_tell = False

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        parts = (
            RegressionCoordinates(name, getattr(model, name), getattr(statistics, name))
            for name in _NAMES
            if getattr(model, name).learnt
        )
        self._coordinates = [part for part in parts if part.columns]
        if not self._coordinates:
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
        parts = {name: getattr(self.model, name) for name in _NAMES}
        for part, own in zip(self._coordinates, self._by_part(v), strict=True):
            parts[part.name] = part.moved(own)
        return LinearDynamicalModel(**parts)

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
