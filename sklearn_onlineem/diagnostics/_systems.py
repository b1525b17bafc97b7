"""Coordinates of linear dynamical systems, which are three regressions, in units of information."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.diagnostics._coordinates import Coordinates
from sklearn_onlineem.diagnostics._regressions import RegressionCoordinates
from sklearn_onlineem.diagnostics._similarity import unseen_changes
from sklearn_onlineem.diagnostics._tangents import Attribute

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
_TINY = np.finfo(float).tiny
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
    remedy = "with fewer em_vars"

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        self._coordinates = [
            RegressionCoordinates(part, getattr(model, part), getattr(statistics, part))
            for part in _NAMES
        ]
        if self.shape[1] == 0:
            raise ValueError("There is no information on a system of which nothing is learnt.")

    def check_determined(self, n_observations, prior):
        """Refuse what no data determine, and first states of too few sequences."""
        degrees = n_observations * float(self._statistics.initial.degrees[0])
        if "covariance" in self.model.initial.learnt and degrees <= self.model.n_components:
            raise ValueError(
                f"Of {n_observations:g} sequences and states of {self.model.n_components}"
                " dimensions, initial_state_covariance_ is not determined: it takes more sequences"
                " than dimensions. Leave it out of em_vars, or give it a prior."
            )
        self._check_coordinates(() if prior is None else self._told_by(prior))

    def _told_by(self, prior):
        """What a prior tells something of, by part and parameter."""
        for part in _NAMES:
            moments, n_inputs = getattr(prior, part), getattr(self.model, part).matrix.shape[1]
            if moments.scatter[0, :n_inputs, :n_inputs].any():
                yield part, "matrix"
            if moments.weight[0] > 0.0:
                yield part, "offset"
            if moments.degrees[0] > 0.0:
                yield part, "covariance"

    def _check_coordinates(self, told):
        n_changes, moved = unseen_changes(self.model, self._sizes, set(told))
        if n_changes:
            names = ", ".join(_NAMES[part][what] for part, what in moved)
            raise ValueError(
                f"The data do not determine {names}: changes of the coordinates of the states, in"
                f" a space of {n_changes} dimensions, move these and leave the likelihood as it is."
                " Leave some of them out of em_vars, as what is known."
            )

    @property
    def _sizes(self):
        """Root mean squares of the states."""
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
