"""Coordinates of models whose complete data are an exponential family, in units of information.

A vector is a matrix with a row for each component: its weight, its transitions, and its own
parameters. The information of complete data is diagonal in these coordinates: the effective count
of each.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sklearn_onlineem import families
from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families.tangents import Directions, Shares, inverse, tangents_of

# Step of differences, relative to the size of the direction: some 1e-11 of them is curvature, and
# some 1e-13 of the values rounding.
_STEP, _TINY = 3e-3, np.finfo(float).tiny


class Node(NamedTuple):
    """A factor of the density of complete data, with parameters of its own."""

    # The field of the model that has them, and the name of their coordinates.
    field: str
    name: str
    # Statistics of the node, of those of the model.
    own: Callable[[Any], Any]
    # Directions in which the parameters move, of a model and statistics of the node.
    directions: Callable[[Any, Any], Directions]


def shares_node(field, name, statistics):
    """Return the node of probabilities, (K,) or (K, n), and counts: fields of these names."""

    def directions(model, counts):
        p = getattr(model, field)
        return Shares(p) if p.ndim > 1 else Shares(p[:, None], 0)

    return Node(field, name, attrgetter(statistics), directions)


def _tangents(model, statistics):
    tangents = tangents_of(model.family)(model.family, model.parameters)
    return tangents if tangents.about is None else tangents.about(statistics)


FAMILY_NODE = Node("parameters", "parameters", attrgetter("emissions"), _tangents)


class Coordinates:
    """Coordinates about a model: those of its nodes, side by side.

    Vectors have the `shape`. `what` names their rows; `remedy` is advice for fits that are not
    determined. `is_smooth` says whether the likelihood has derivatives everywhere. `data`, if any,
    are those that a climb reads.
    """

    what = "components"
    remedy = "with fewer components"
    # Whether the gains of a few passes tell how fast EM is.
    gains_tell = True
    # Whether no other parameters have the same likelihood, so that any step tells how much longer
    # others should be.
    are_determined = True
    # Where coordinates are logarithms of standard deviations, and few others: by how much a unit
    # moves each, and, as shares of variances, the rounding error of squares and what the M-step
    # adds; 0 for the others.
    deviations = None

    def __init__(self, model, statistics, data=None):
        self.model, self._statistics, self._data = model, statistics, data
        self.directions, self._places, self._shared, self.is_smooth = {}, [], [], True
        counts, start = [], 0
        for node, own in self._made():
            counts.append(own.effective_counts(node.own(statistics)))
            place = slice(start, start + counts[-1].shape[1])
            self.directions[node.field], self.is_smooth = own, self.is_smooth and own.is_smooth
            self._places.append((node, own, place))
            shared, start = within(place, own.shared), place.stop
            if shared.start < shared.stop:
                self._shared.append(shared)
        self._effective_counts = np.concatenate(counts, axis=1)
        self.shape = self._effective_counts.shape

    def _made(self):
        """Yield nodes with their directions."""
        for node in self.model.nodes:
            yield node, node.directions(self.model, node.own(self._statistics))

    @cached_property
    def scale(self):
        """Factors from coordinates of unit information to others; 0 for fixed ones."""
        roots = np.sqrt(inverse(self._effective_counts))
        learnt = getattr(self.model, "learnt", self.directions)
        for node, own, place in self._places:
            roots[:, place] *= own.is_free if node.field in learnt else 0.0
        return roots

    def direction(self, x):
        """Return a direction v from coordinates of unit information."""
        return self.scale * self._projected(x)

    def unit_score(self, score):
        """Return a score in coordinates of unit information: the adjoint of `direction`."""
        return self._projected(self.scale * score)

    def _projected(self, x):
        """Return x with what components share moving as one."""
        for columns in self._shared:
            x = x.copy()
            roots = np.sqrt(np.maximum(self._effective_counts[:, columns], 0.0))
            norms = (roots**2).sum(axis=0)
            x[:, columns] = roots * ((roots * x[:, columns]).sum(axis=0) * inverse(norms))
        return x

    def score(self, statistics):
        """Return the scores of statistics."""
        score = np.empty(self.shape)
        for node, own, place in self._places:
            score[:, place] = own.score(node.own(statistics))
        return score

    def is_proper(self, prior):
        """Return whether a prior, as pseudo-statistics, keeps parameters inside of their range."""
        return all(own.is_proper(node.own(prior)) for node, own, _ in self._places)

    def floor_penalty(self, statistics):
        """Return the log density of pseudo-data that floors of variances stand for, in nats."""
        total = 0.0
        for node, own, _ in self._places:
            total += own.floor_penalty(node.own(statistics))
        return total

    def m_step_error(self, statistics):
        """Return what iterations of the M-step of these statistics have left of Q, in nats."""
        left = np.zeros(self.shape)
        for node, own, place in self._places:
            left[:, place] = own.unsolved(node.own(statistics))
        return 0.5 * float((self.unit_score(left) ** 2).sum())

    def moved(self, v):
        """Return the model moved along v."""
        return self._with([(node, own.moved(v[:, place])) for node, own, place in self._places])

    def _with(self, changes):
        """Return the model with other values of nodes, which stay where they are None."""
        changed = {}
        for node, values in changes:
            if isinstance(values, np.ndarray):
                values = values.reshape(getattr(self.model, node.field).shape)
            if values is not None:
                changed[node.field] = values
        return replace(self.model, **changed) if changed else None

    def size(self, v):
        """Return how far v changes the model, as `Tangents.size`."""
        return max(own.size(v[:, place]) for _, own, place in self._places)

    def climbed(self, most=100):
        """Return a model at a maximum, the reads that took, and the gain that is still promised.

        That is in nats. After them come derivatives, for `information`. The climb takes at `most`
        this number of reads, and one for each derivative. None: no kernel climbs the likelihood of
        these data.
        """

    def raised(self, after, rise):
        """Return the model with entries near zero raised that an M-step, to `after`, raises.

        `rise` is like that of `Directions.raised`; None: there are no such entries.
        """
        changes = []
        for node, own, _ in self._places:
            other = node.directions(after, node.own(self._statistics))
            changes.append((node, own.raised(other, rise)))
        return self._with(changes)

    @property
    def views(self):
        """Parts of the model that are learnt, by the names of fitted attributes."""
        return {f"{part.name}_": part for part in self.model.parts if part.kind}

    def shown_by(self, estimator):
        """Return the views of attributes that an estimator has; all, if it takes any family."""
        kind = type(estimator)
        shows_all = hasattr(kind, "parameters_")
        return {name: part for name, part in self.views.items() if shows_all or hasattr(kind, name)}

    def derivatives(self, v, views):
        """Return the derivatives of views along v, by differences of fourth order: by name."""
        step = _STEP / max(self.size(v), _TINY)
        models = [self.moved(factor * step * v) for factor in (1.0, -1.0, 2.0, -2.0)]
        found = {}
        for name, part in views.items():
            ahead, behind, far_ahead, far_behind = map(part.get, models)
            found[name] = (8.0 * (ahead - behind) - (far_ahead - far_behind)) / (12.0 * step)
        return found

    @property
    def parts(self):
        """Columns of the coordinates, by the names of parameters."""
        found = {}
        for node, own, place in self._places:
            parts = own.parts or {node.name: slice(None)}
            for name, columns in parts.items():
                found[self._said(node, name)] = within(place, columns)
        return found

    def _said(self, node, name):
        """Return the name of a parameter, as users know it."""
        return name

    def check_determined(self, n_observations, prior):
        """Raise ValueError if data and prior plainly do not determine parameters.

        Where they do not by chance, the information is singular.
        """
        counts = self.model.effective_counts(self._statistics)
        if counts is not None and not (counts > 0.0).all():
            dead = np.flatnonzero(~(counts > 0.0)).tolist()
            raise ValueError(f"Standard errors of {self.what} {dead} require data of each.")


def within(place, columns):
    """Return the columns of a vector that are these of a node, which has a place in it."""
    start, stop, _ = columns.indices(place.stop - place.start)
    return slice(place.start + start, place.start + stop)


def has_coordinates(model):
    """Return whether complete data of models of this kind are an exponential family known here."""
    has_tangents = not hasattr(model, "family") or tangents_of(model.family) is not None
    return "coordinates" in vars(type(model)) and not _is_fixed(model) and has_tangents


def coordinates_of(model, statistics, data=None):
    """Return the coordinates of a model, or raise ValueError if it has none."""
    if has_coordinates(model):
        return type(model).coordinates(model, statistics, data)
    # A subclass may be another model, and have none.
    if "coordinates" not in vars(type(model)):
        raise ValueError(
            "The model must be a mixture, a hidden Markov model, a Kalman filter or a transducer,"
            f" got a {type(model).__name__}."
        )
    if _is_fixed(model):
        raise ValueError("Standard errors and rates need all parameters learnt; params fixes some.")
    named = ((name, getattr(families, name)) for name in families.__all__)
    known = ", ".join(sorted(name for name, kind in named if "tangents" in vars(kind)))
    raise ValueError(f"The family must be one of {known}, got {type(model.family).__name__}.")


def _is_fixed(model):
    """Return whether coordinates of a model are fixed; those of hidden chains leave out parts."""
    fixed = getattr(model, "fixed", None)
    return fixed is not None and (fixed.is_partial or not hasattr(model, "learnt"))
