"""Coordinates of transducers, whose complete data are draws of operations."""

from dataclasses import replace

import numpy as np

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem.families.tangents.base import Attribute, Shares, inverse
from sklearn_onlineem.models.coordinates.components import Coordinates
from sklearn_onlineem.models.edit_operations import KINDS, FullOperations

# Attributes of estimators, of full operations.
_TABLES = "substitution_probabilities_", "deletion_probabilities_", "insertion_probabilities_"


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

    def _named(self, vector):
        operations = self.model.operations
        named = {"operations_": operations.by_kind(vector)}
        if isinstance(operations, FullOperations):
            named |= zip(_TABLES, operations.tables(vector), strict=True)
        return named

    def attributes(self):
        named = self._named(self.model.probabilities)
        return {name: Attribute(value, "probability") for name, value in named.items()}

    def derivatives(self, v):
        return self._named(self._shares.probabilities(v)[0])

    @property
    def parts(self):
        spread = self.model.operations.spread
        return {kind: spread(unit) > 0.0 for kind, unit in zip(KINDS, np.eye(5), strict=True)}
