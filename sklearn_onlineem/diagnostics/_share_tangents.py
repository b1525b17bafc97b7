"""Directions of probabilities of symbols, which add up to 1."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.data._transitions import has_starts, n_symbols_of
from sklearn_onlineem.diagnostics._tangents import Attribute, Shares, Tangents

__all__ = ["CategoricalTangents", "MarkovChainTangents", "MultinomialTangents"]


class _ShareTangents(Tangents):
    """Probabilities of symbols, which add up to 1."""

    @property
    def parts(self):
        return {"probabilities": slice(None)}

    @property
    @abstractmethod
    def _shares(self):
        """All rows of probabilities."""

    def _by_row(self, function, values):
        return function(values.reshape(self._shares.p.shape)).reshape(values.shape)

    def natural(self, v):
        return self._by_row(self._shares.logarithms, v)

    def whitened(self, raw):
        return self._by_row(self._shares.score, raw)

    @property
    def is_free(self):
        return self._shares.is_free.reshape(self.mean.shape)

    def size(self, v):
        return np.abs(self.natural(v)).max()

    def attributes(self):
        p = Attribute(self._shares.p.reshape(self.mean.shape), "probability")
        return {"probabilities_": p, "emissionprob_": p}

    def derivatives(self, v):
        change = self._by_row(self._shares.probabilities, v)
        return {"probabilities_": change, "emissionprob_": change}


class MultinomialTangents(_ShareTangents):
    """Of counts, each of which is an observation."""

    @cached_property
    def _shares(self):
        return Shares(self.family.probabilities(self.parameters))

    def moved(self, v):
        return self.parameters.sum(axis=1, keepdims=True) * self._shares.moved(v)


class CategoricalTangents(_ShareTangents):
    """Of codes, column by column."""

    @cached_property
    def _shares(self):
        return Shares(self.parameters.reshape(-1, self.family.n_categories))

    def moved(self, v):
        return self._by_row(self._shares.moved, v)


class MarkovChainTangents(_ShareTangents):
    """Of the first symbol and of the transitions from each, as often as it is visited.

    Visits are no parameters: they are those that the data have.
    """

    @property
    def _n_symbols(self):
        return n_symbols_of(self.mean.shape[1])

    @cached_property
    def _shares(self):
        return Shares(self.family.probabilities(self.parameters).reshape(-1, self._n_symbols))

    def _visits(self, counts):
        """What a row of probabilities was used, for each of its entries, (K, n_features)."""
        visits = counts.reshape(len(counts), -1, self._n_symbols).sum(axis=2)
        return np.repeat(visits, self._n_symbols, axis=1)

    def masses(self, statistics):
        return self._visits(statistics.total)

    def moved(self, v):
        return self._visits(self.parameters) * self._by_row(self._shares.moved, v)

    @property
    def parts(self):
        n = self._n_symbols
        moves = {"transitions": slice(-n * n, None)}
        return {"first symbols": slice(0, n), **moves} if self._has_starts else moves

    @property
    def _has_starts(self):
        return has_starts(self.mean.shape[1])

    def attributes(self):
        probabilities = self.family.probabilities(self.parameters)
        named = self._named(probabilities)
        return {name: Attribute(value, "probability") for name, value in named.items()}

    def derivatives(self, v):
        return self._named(self._by_row(self._shares.probabilities, v))

    def _named(self, flat):
        groups = flat.reshape(len(flat), -1, self._n_symbols)
        named = {"transmat_": groups[:, -self._n_symbols :], "probabilities_": flat}
        return {"startprob_": groups[:, 0], **named} if self._has_starts else named
