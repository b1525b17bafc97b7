"""Pairs of strings, as estimators of edit distances read them."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.data.strings import StringPairs
from sklearn_onlineem.estimators._in_memory import check_in_memory
from sklearn_onlineem.estimators._threads import threads_for
from sklearn_onlineem.estimators._validation import naming
from sklearn_onlineem.estimators.strings._symbols import (
    SymbolCodes,
    are_text,
    entries_of,
    pairs_of,
)

__all__ = ["PairsInput"]


class PairsInput:
    """Reads pairs of strings as codes of symbols.

    Parameters
    ----------
    estimator : BaseEstimator
    fresh : bool, default=False
        Whether the pairs are the first that a new model meets, and give it its alphabet, unless
        that is a parameter.

    Attributes
    ----------
    attributes : dict
        What the estimator is to remember of the first pairs.
    """

    def __init__(self, estimator, fresh=False):
        self._estimator, self._fresh = estimator, fresh
        self.attributes = {}

    def read(self, X, y=None):
        """Convert and check pairs.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
        y : object
            Ignored.

        Returns
        -------
        pairs : StringPairs

        Raises
        ------
        ValueError
            If X is invalid; the message names the estimator.
        """
        with naming(self._estimator):
            check_in_memory("X", X)
            sources, targets = pairs_of(X)
            known = self._new_codes(sources, targets) if self._fresh else self._estimator._codes
            codes = SymbolCodes(known)
            sources, targets = codes.encode(sources), codes.encode(targets)
        n_cells = (sources.lengths + 1.0) @ (targets.lengths + 1.0)
        n_threads = threads_for(self._estimator.n_jobs, n_cells)
        # Those that are unknown share one more place.
        return StringPairs(sources, targets, n_threads, n_symbols=len(known) + 1)

    def release(self):
        """Let go of the pairs that were read: nothing of them is kept."""

    def _new_codes(self, sources, targets):
        """Codes of the alphabet, which is that of the pairs unless it is given."""
        codes, alphabet = SymbolCodes(), self._estimator.alphabet
        for strings in (sources, targets) if alphabet is None else ([_ordered(alphabet)],):
            codes.encode(strings)
        if not codes.codes and alphabet is not None:
            raise ValueError("alphabet has no symbols.")
        if not codes.codes:
            raise ValueError("X has no symbols: all strings are empty.")
        self.attributes = {
            "symbols_": list(codes.codes),
            "_codes": codes.codes,
            "_makes_text": are_text(sources) and are_text(targets),
            "_dtype": np.dtype(np.float64),
        }
        return codes.codes


def _ordered(alphabet):
    """The alphabet; a set is put in an order that all machines agree on."""
    if isinstance(alphabet, set | frozenset):
        return sorted(alphabet, key=repr)
    if isinstance(alphabet, str):
        return list(str.__str__(alphabet))
    return entries_of(alphabet, "a list or a set of symbols as alphabet")
