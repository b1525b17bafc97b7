"""Coordinates of linear dynamical systems, which are three regressions, in units of information."""

import math
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise

import numpy as np
from scipy.linalg import lapack, null_space

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels import _regressions
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.families.linear_gaussian import AffineGaussian
from sklearn_onlineem.families.tangents.base import Shares, inverse
from sklearn_onlineem.models.coordinates.components import Coordinates
from sklearn_onlineem.models.edit_operations import KINDS
from sklearn_onlineem.models.linear_dynamical import NAMES, LinearDynamicalModel
from sklearn_onlineem.models.regression import Regression


class TransducerCoordinates(Coordinates):
    """Coordinates of transducers: a single row, of the probabilities of operations and the end."""

    what = "transducer"
    remedy = "with tied operations"

    def __init__(self, model, statistics):
        self.model = model
        self._shares = Shares(model.probabilities[None])
        self._effective_count = np.maximum(statistics.counts.sum(), 0.0)

    @property
    def shape(self):
        return self._shares.p.shape

    @cached_property
    def scale(self):
        return np.where(self._shares.is_free, np.sqrt(inverse(self._effective_count)), 0.0)

    def score(self, statistics):
        return self._shares.score(statistics.counts[None])

    def is_proper(self, prior):
        return bool((prior.counts >= 0.0).all())

    def moved(self, v):
        return replace(self.model, probabilities=self._shares.moved(v)[0])

    def size(self, v):
        return np.abs(self._shares.logarithms(v)).max()

    def raised(self, after, share):
        rows = self._shares.raised(Shares(after.probabilities[None]), share)
        return None if rows is None else replace(self.model, probabilities=rows[0])

    @property
    def parts(self):
        spread = self.model.operations.spread
        return {kind: spread(unit) > 0.0 for kind, unit in zip(KINDS, np.eye(5), strict=True)}


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
        (p, q), learnt = regression.matrix.shape, regression.learnt
        self.columns, self.n_columns = _columns(regression.family.shape, learnt, p, q)
        if not self.columns:
            return
        degrees, noise_unit = float(statistics.degrees[0]), 0.0
        if "covariance" in learnt:
            if not degrees > 0.0:
                raise ValueError(f"There are no data on the noise of the {self._said}.")
            noise_unit = 1.0 / math.sqrt(0.5 * degrees)
        learns_offset, inverse_root = "offset" in learnt, NOTHING
        origin = statistics.mean[0, :q] if learns_offset else np.zeros(q)
        if "matrix" in self.columns:
            mean = statistics.mean[0, :q] - origin
            squares = float(statistics.weight[0]) * np.outer(mean, mean)
            root, failed = lapack.dpotrf(squares + statistics.scatter[0, :q, :q], lower=1)
            if failed:
                raise ValueError(f"The data do not determine the {self._said}.")
            inverse_root = np.ascontiguousarray(lapack.dtrtri(root, lower=1)[0])
        self._root, failed = lapack.dpotrf(regression.covariance, lower=1)
        if failed:
            raise ValueError(f"The noise of the {self._said} has no density.")
        # As kernels take it.
        unit = 1.0 / math.sqrt(max(float(statistics.weight[0]), _TINY))
        self._about = origin, inverse_root, unit, noise_unit, learns_offset

    @property
    def _said(self):
        return {"initial": "first state", "emissions": "observations"}.get(self.name, self.name)

    def score(self, statistics, out):
        """Fill in the score of statistics."""
        degrees = np.ascontiguousarray(statistics.degrees, dtype=np.float64)
        _regressions.unit_score(
            statistics.weight, degrees, statistics.mean, statistics.scatter,
            self.regression.family._floor, *self.regression.parameters._arrays, *self._about, out,
        )  # fmt: skip

    def floor_penalty(self, statistics):
        floor = self.regression.family._floor
        if "covariance" not in self.columns or not len(floor):
            return 0.0
        ratio = lapack.dpotrs(self._root, np.diag(floor), lower=1)[0]
        return -0.5 * float(statistics.degrees[0]) * float(ratio.trace())

    def moved(self, v):
        """Return the regression moved along v, and the size of v."""
        arrays = [array.copy() for array in self.regression.parameters._arrays]
        size = _regressions.move(*arrays, *self._about, np.ascontiguousarray(v), False)
        parameters = AffineGaussian(*arrays)
        return Regression(self.regression.family, parameters, self.regression.learnt), size


@cache
def _columns(shape, learnt, p, q):
    """Return the columns of the coordinates of each learnt parameter, and their number."""
    columns, start = {}, 0
    for what, n in (("matrix", p * q), ("offset", p), ("covariance", shape.n_parameters(p))):
        if what in learnt and n:
            columns[what] = slice(start, start + n)
            start += n
    return columns, start


_REGRESSIONS = "initial", "transitions", "emissions"


class SystemCoordinates(Coordinates):
    """Coordinates of linear dynamical systems: a single row, of the learnt parameters."""

    what = "system"
    remedy = "with fewer em_vars"
    # Parts have very different rates, and early gains tell the fast ones.
    gains_tell = False

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        # Steps are measured before they are taken.
        self._latest = None
        parts = (
            RegressionCoordinates(name, getattr(model, name), getattr(statistics, name))
            for name in _REGRESSIONS
            if getattr(model, name).learnt
        )
        self._coordinates = [part for part in parts if part.columns]
        if not self._coordinates:
            raise ValueError("There are no standard errors of a system of which nothing is learnt.")

    @property
    def are_determined(self):
        # States have units of their own.
        return not any("matrix" in part.columns for part in self._coordinates)

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
            names = ", ".join(f"{NAMES[place]}_" for place in moved)
            raise ValueError(
                f"The data do not determine {names}: changes of the coordinates of the states, in"
                f" a space of {n_changes} dimensions, change these but not the likelihood. Leave"
                " some of them out of em_vars."
            )

    def _told_by(self, prior):
        """Yield the parameters on which a prior has information, by part and name."""
        for part in _REGRESSIONS:
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
        ends = list(accumulate((part.n_columns for part in self._coordinates), initial=0))
        return [slice(*pair) for pair in pairwise(ends)]

    @property
    def shape(self):
        return 1, self._columns[-1].stop

    @property
    def scale(self):
        return np.ones(self.shape)

    # Coordinates are of unit information.
    def direction(self, x):
        return x

    unit_score = direction

    def _by_part(self, v):
        return [v[0, columns] for columns in self._columns]

    def score(self, statistics):
        scores = np.empty(self.shape)
        for part, own in zip(self._coordinates, self._by_part(scores), strict=True):
            part.score(getattr(statistics, part.name), own)
        return scores

    def is_proper(self, prior):
        parts = (getattr(prior, part.name) for part in self._coordinates)
        return all(min(part.weight[0], part.degrees[0]) >= 0.0 for part in parts)

    def floor_penalty(self, statistics):
        return sum(part.floor_penalty(getattr(statistics, part.name)) for part in self._coordinates)

    def _along(self, v):
        """Return the parts moved along v, each with the size of that."""
        if self._latest is None or self._latest[0] is not v:
            parts = zip(self._coordinates, self._by_part(v), strict=True)
            self._latest = v, [part.moved(own) for part, own in parts]
        return self._latest[1]

    def moved(self, v):
        parts = zip(self._coordinates, self._along(v), strict=True)
        return replace(self.model, **{part.name: moved for part, (moved, _) in parts})

    def size(self, v):
        return max(size for _, size in self._along(v))

    @property
    def parts(self):
        return {
            NAMES[part.name, what].replace("_", " "): slice(
                columns.start + own.start, columns.start + own.stop
            )
            for part, columns in zip(self._coordinates, self._columns, strict=True)
            for what, own in part.columns.items()
        }
