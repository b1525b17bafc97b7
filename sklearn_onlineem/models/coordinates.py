"""Coordinates of models whose complete data are an exponential family, in units of information.

A vector is a matrix with a row for each component: its weight, its transitions, and its own
parameters. The information of complete data is diagonal in these coordinates: the effective count
of each.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from sklearn_onlineem import families
from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families.tangents import inverse, tangents_of

# Step of differences, relative to the size of the direction: some 1e-11 of them is curvature, and
# some 1e-13 of the values rounding.
_STEP, _TINY = 3e-3, np.finfo(float).tiny


class Coordinates(ABC):
    """Coordinates about a model.

    `what` names the rows; `remedy` is advice for fits that are not determined.
    """

    what = None
    remedy = "with fewer components"
    # Whether the likelihood has derivatives everywhere.
    is_smooth = True
    # Whether the gains of a few passes tell how fast EM is.
    gains_tell = True
    # Whether no other parameters have the same likelihood, so that any step tells how much longer
    # others should be.
    are_determined = False
    # Where all coordinates are logarithms of standard deviations: by how much a unit moves each,
    # and, as shares of variances, the rounding error of squares and what the M-step adds.
    deviations = None

    @property
    @abstractmethod
    def shape(self):
        """Rows and columns of a vector."""

    @property
    @abstractmethod
    def scale(self):
        """Factors from coordinates of unit information to others; 0 for fixed ones."""

    def direction(self, x):
        """Return a direction v from coordinates of unit information."""
        return self.scale * x

    def unit_score(self, score):
        """Return a score in coordinates of unit information: the adjoint of `direction`."""
        return self.scale * score

    @abstractmethod
    def score(self, statistics):
        """Return the scores of statistics."""

    @abstractmethod
    def is_proper(self, prior):
        """Return whether a prior, as pseudo-statistics, keeps parameters inside of their range."""

    def floor_penalty(self, statistics):
        """Return the log density of pseudo-data that floors of variances stand for, in nats."""
        return 0.0

    def m_step_error(self, statistics):
        """Return what iterations of the M-step of these statistics have left of Q, in nats."""
        return 0.0

    @abstractmethod
    def moved(self, v):
        """Return the model moved along v."""

    @abstractmethod
    def size(self, v):
        """Return how far v changes the model, as `Tangents.size`."""

    def raised(self, after, share):
        """Return the model with entries near zero raised that an M-step, to `after`, raises.

        They become a share of their row's mean; None: there are no such entries.
        """

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
    @abstractmethod
    def parts(self):
        """Columns of the coordinates, by the names of parameters."""

    def check_determined(self, n_observations, prior):
        """Raise ValueError if data and prior plainly do not determine parameters.

        Where they do not by chance, the information is singular.
        """


class ComponentCoordinates(Coordinates):
    """Coordinates of models of components of a family, about their complete data.

    Subclasses define `shares`, of the model's probabilities; `_sums`, the counts of these in
    statistics; `_rows`, which takes their coordinates from a vector, `_joined`, which puts them
    before those of the family, `_n_before` for each component; and `_chances`, the model's fields.
    """

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        self.tangents = tangents_of(model.family)(model.family, model.parameters)
        rows = self._sums(statistics)
        rows = rows.sum(axis=1, keepdims=True) + np.zeros_like(rows)
        counts = self.tangents.effective_counts(statistics.emissions)
        self._effective_counts = self._joined(rows, counts)

    @property
    def shape(self):
        return self._effective_counts.shape

    @cached_property
    def scale(self):
        return self._is_free * np.sqrt(inverse(self._effective_counts))

    def direction(self, x):
        return self.scale * self._projected(x)

    def unit_score(self, score):
        return self._projected(self.scale * score)

    def _projected(self, x):
        """Return x with shared covariances moving as one."""
        columns = self._columns(self.tangents.shared)
        if columns.start == columns.stop:
            return x
        x = x.copy()
        roots = np.sqrt(np.maximum(self._effective_counts[:, columns], 0.0))
        norms = (roots**2).sum(axis=0)
        x[:, columns] = roots * ((roots * x[:, columns]).sum(axis=0) * inverse(norms))
        return x

    @property
    def is_smooth(self):
        return self.tangents.is_smooth

    def floor_penalty(self, statistics):
        return self.tangents.floor_penalty(statistics.emissions)

    def check_determined(self, n_observations, prior):
        counts = self.model.effective_counts(self._statistics)
        if not (counts > 0.0).all():
            dead = np.flatnonzero(~(counts > 0.0)).tolist()
            raise ValueError(f"Standard errors of {self.what} {dead} require data of each.")

    @property
    def _is_free(self):
        """Which coordinates the M-step changes."""
        return self._joined(self.shares.is_free, self.tangents.is_free)

    def is_proper(self, prior):
        return bool((self._sums(prior) >= 0.0).all()) and self.tangents.is_proper(prior.emissions)

    def score(self, statistics):
        rows = self.shares.score(self._sums(statistics))
        return self._joined(rows, self.tangents.score(statistics.emissions))

    def m_step_error(self, statistics):
        own = self.tangents.unsolved(statistics.emissions) + np.zeros_like(self._own(self.scale))
        left = self._joined(np.zeros_like(self._sums(statistics)), own)
        return 0.5 * float((self.unit_score(left) ** 2).sum())

    def moved(self, v):
        chances = self._chances(self.shares.moved(self._rows(v)))
        return replace(self.model, parameters=self.tangents.moved(self._own(v)), **chances)

    def size(self, v):
        logarithms = self.shares.logarithms(self._rows(v))
        logarithms[0, len(v) :] = 0.0
        return max(np.abs(logarithms).max(), self.tangents.size(self._own(v)))

    def raised(self, after, share):
        after = type(self)(after, self._statistics)
        rows = self.shares.raised(after.shares, share)
        own = self.tangents.raised(after.tangents, share)
        if rows is None and own is None:
            return None
        changed = {} if rows is None else self._chances(rows)
        return replace(self.model, **changed, **({} if own is None else {"parameters": own}))

    def _own(self, v):
        """Return the coordinates of the family."""
        return v[:, self._n_before :]

    def _columns(self, own):
        """Return the columns of coordinates of the family."""
        start, stop, _ = own.indices(self.tangents.n_own)
        return slice(self._n_before + start, self._n_before + stop)

    @property
    def parts(self):
        return {name: self._columns(own) for name, own in self.tangents.parts.items()}


def has_coordinates(model):
    """Return whether complete data of models of this kind are an exponential family known here."""
    has_tangents = not hasattr(model, "family") or tangents_of(model.family) is not None
    return "coordinates" in vars(type(model)) and not _is_fixed(model) and has_tangents


def coordinates_of(model, statistics):
    """Return the coordinates of a model, or raise ValueError if it has none."""
    if has_coordinates(model):
        return type(model).coordinates(model, statistics)
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
