"""Coordinates of models whose complete data are an exponential family, in units of information.

A vector is a matrix with a row for each component: its weight, its transitions, and its own
parameters. The information of complete data is diagonal in these coordinates: the effective count
of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families._tangents import TANGENTS
from sklearn_onlineem.families._tangents.base import Attribute, Shares, inverse

__all__ = ["ChainCoordinates", "Coordinates", "MixtureCoordinates"]


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

    @abstractmethod
    def moved(self, v):
        """Return the model moved along v."""

    @abstractmethod
    def size(self, v):
        """Return how far v changes the model, as `Tangents.size`."""

    @abstractmethod
    def attributes(self):
        """Return the attributes of estimators: dict of `Attribute` by name."""

    def shown_by(self, estimator):
        """Return the names of the attributes that an estimator has; all, if it takes any family."""
        kind = type(estimator)
        shows_all = hasattr(kind, "parameters_")
        return [name for name in self.attributes() if shows_all or hasattr(kind, name)]

    @abstractmethod
    def derivatives(self, v):
        """Return the derivatives of the attributes along v: dict of ndarrays by name."""

    @property
    @abstractmethod
    def parts(self):
        """Columns of the coordinates, by the names of parameters."""

    def check_determined(self, n_observations, prior):
        """Raise ValueError if data and prior plainly do not determine parameters.

        Where they do not by chance, the information is singular.
        """


class ComponentCoordinates(Coordinates):
    """Coordinates of models of components of a family, about their complete data."""

    def __init__(self, model, statistics):
        self.model, self._statistics = model, statistics
        self.tangents = TANGENTS[type(model.family)](model.family, model.parameters)
        self._effective_counts = self._all_counts(statistics)

    @property
    def shape(self):
        return self._effective_counts.shape

    @cached_property
    def scale(self):
        return np.where(
            self._is_free, np.sqrt(inverse(np.maximum(self._effective_counts, 0.0))), 0.0
        )

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
    @abstractmethod
    def _n_before(self):
        """Coordinates of a component before those of the family."""

    @property
    @abstractmethod
    def _is_free(self):
        """Which coordinates the M-step changes."""

    @abstractmethod
    def _all_counts(self, statistics):
        """Return the effective counts of all coordinates."""

    def _columns(self, own):
        """Return the columns of coordinates of the family."""
        start, stop, _ = own.indices(self.tangents.n_own)
        return slice(self._n_before + start, self._n_before + stop)

    @property
    def parts(self):
        return {name: self._columns(own) for name, own in self.tangents.parts.items()}


class MixtureCoordinates(ComponentCoordinates):
    """Coordinates of mixtures: the weight of a component, and its parameters."""

    what = "components"
    _n_before = 1

    @cached_property
    def weights(self):
        return Shares(self.model.weights[None])

    @property
    def _is_free(self):
        return np.concatenate([self.weights.is_free.T, self.tangents.is_free], axis=1)

    def is_proper(self, prior):
        return bool((prior.counts >= 0.0).all()) and self.tangents.is_proper(prior.emissions)

    def _all_counts(self, statistics):
        counts = self.tangents.effective_counts(statistics.emissions)
        return np.concatenate([np.full((len(counts), 1), statistics.counts.sum()), counts], axis=1)

    def score(self, statistics):
        weights = self.weights.score(statistics.counts[None]).T
        return np.concatenate([weights, self.tangents.score(statistics.emissions)], axis=1)

    def moved(self, v):
        weights = self.weights.moved(v[None, :, 0])[0]
        return replace(self.model, weights=weights, parameters=self.tangents.moved(v[:, 1:]))

    def size(self, v):
        weights = np.abs(self.weights.logarithms(v[None, :, 0])).max()
        return max(weights, self.tangents.size(v[:, 1:]))

    def attributes(self):
        weights = Attribute(self.model.weights, "probability")
        return {"weights_": weights, **self.tangents.attributes()}

    def derivatives(self, v):
        weights = self.weights.probabilities(v[None, :, 0])[0]
        return {"weights_": weights, **self.tangents.derivatives(v[:, 1:])}

    @property
    def parts(self):
        return {"weights": slice(0, 1), **super().parts}


class ChainCoordinates(ComponentCoordinates):
    """Coordinates of hidden Markov models: start, transitions and emissions of a state."""

    what = "states"

    @cached_property
    def start(self):
        return Shares(self.model.start[None])

    @cached_property
    def transmat(self):
        return Shares(self.model.transmat)

    @property
    def _n_before(self):
        return 1 + self.model.transmat.shape[1]

    @property
    def _is_free(self):
        learnt = self.model.learnt
        return np.concatenate([
            self.start.is_free.T & ("s" in learnt),
            self.transmat.is_free & ("t" in learnt),
            self.tangents.is_free & ("e" in learnt),
        ], axis=1)  # fmt: skip

    def is_proper(self, prior):
        chain = np.append(prior.start, prior.transitions)
        return bool((chain >= 0.0).all()) and self.tangents.is_proper(prior.emissions)

    def _all_counts(self, statistics):
        n_transitions = statistics.transitions.sum(axis=1, keepdims=True)
        return np.concatenate([
            np.full_like(n_transitions, statistics.start.sum()),
            np.repeat(n_transitions, statistics.transitions.shape[1], axis=1),
            self.tangents.effective_counts(statistics.emissions),
        ], axis=1)  # fmt: skip

    def score(self, statistics):
        return np.concatenate([
            self.start.score(statistics.start[None]).T,
            self.transmat.score(statistics.transitions),
            self.tangents.score(statistics.emissions),
        ], axis=1)  # fmt: skip

    def moved(self, v):
        return replace(
            self.model,
            start=self.start.moved(v[None, :, 0])[0],
            transmat=self.transmat.moved(v[:, 1 : self._n_before]),
            parameters=self.tangents.moved(v[:, self._n_before :]),
        )

    def size(self, v):
        start = np.abs(self.start.logarithms(v[None, :, 0])).max()
        moves = np.abs(self.transmat.logarithms(v[:, 1 : self._n_before])).max()
        return max(start, moves, self.tangents.size(v[:, self._n_before :]))

    def attributes(self):
        chain = self._split(self.model.start, self.model.transmat)
        chain = {name: Attribute(value, "probability") for name, value in chain.items()}
        # A family may have start and transition probabilities, too.
        return self.tangents.attributes() | chain

    def derivatives(self, v):
        chain = self._split(
            self.start.probabilities(v[None, :, 0])[0],
            self.transmat.probabilities(v[:, 1 : self._n_before]),
        )
        return self.tangents.derivatives(v[:, self._n_before :]) | chain

    def _split(self, start, transmat):
        n_states = len(start)
        named = {"startprob_": start, "transmat_": transmat[:, :n_states]}
        if transmat.shape[1] > n_states:
            named["endprob_"] = transmat[:, n_states]
        return named

    @property
    def parts(self):
        chain = {"start": slice(0, 1), "transitions": slice(1, self._n_before)}
        return chain | super().parts
