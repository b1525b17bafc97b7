"""Initialiser of edit distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.families._checks import LARGEST
from sklearn_onlineem.models.edit_operations import KINDS, FullOperations, TiedOperations
from sklearn_onlineem.models.edit_transducer import EditTransducer

__all__ = ["PARAMETRIZATIONS", "TransducerInitialiser", "by_kind"]

PARAMETRIZATIONS = {"tied": TiedOperations, "full": FullOperations}

# Shares of match, mismatch, deletion and insertion that EM starts from.
_START = np.array([0.7, 0.1, 0.1, 0.1])
_LARGEST_FULL_ALPHABET = 3000


@dataclass(frozen=True)
class TransducerInitialiser(Initialiser):
    """Shares of the kinds of operations, and scripts as long as the strings.

    Parameters
    ----------
    parametrization : str
        A key of `PARAMETRIZATIONS`.
    operations_init : dict, default=None
        Given shares.
    """

    parametrization: str
    operations_init: dict | None = None

    def given(self, data):
        if self.operations_init is None:
            return None
        values = by_kind("operations_init", self.operations_init, KINDS, 0.0)
        if set(self.operations_init) != set(KINDS) or not 0.0 < values[-1] < values.sum():
            raise ValueError(
                f"operations_init must have {', '.join(KINDS)}, with an end above 0 and an"
                " operation above 0."
            )
        operations = self._operations(data)
        return EditTransducer(operations, operations.spread(values / values.sum()))

    def estimated(self, data, random_state):
        lengths = np.maximum(data.sources.lengths, data.targets.lengths)
        end = 1.0 / (1.0 + max(lengths.mean(), 1.0))
        operations = self._operations(data)
        return EditTransducer(operations, operations.spread([*(1.0 - end) * _START, end]))

    def stream_model(self, data, random_state):
        # One pseudo-pair: what the first batch lacks may yet come.
        model = self.estimated(data, random_state)
        return model, model.own_statistics()

    def _operations(self, data):
        if self.parametrization == "full" and data.n_symbols > _LARGEST_FULL_ALPHABET:
            raise ValueError(
                f"parametrization='full' takes alphabets of less than {_LARGEST_FULL_ALPHABET}"
                f" symbols, got {data.n_symbols - 1}; use 'tied'."
            )
        return PARAMETRIZATIONS[self.parametrization](data.n_symbols)


def by_kind(name, given, kinds, least):
    """Return numbers for each kind of operation from a dict; `least` where it has none."""
    values = np.array([given.get(kind, least) for kind in kinds], dtype=np.float64)
    unknown = set(given) - set(kinds)
    if unknown or not ((values >= least) & (values <= LARGEST)).all():
        raise ValueError(
            f"{name} must be finite numbers, from {least:g} to {LARGEST:g}, for"
            f" {', '.join(kinds)}; got {given!r}."
        )
    return values
