"""Strings as users hand them over: text, or any sequences of hashable symbols, as codes."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem.data import Strings

__all__ = ["SymbolCodes", "are_text", "pairs_of", "strings_of"]


class SymbolCodes:
    """Gives symbols codes: those of an alphabet their own, others the next that are free.

    Parameters
    ----------
    alphabet : dict, default={}
        Codes of the symbols that are known. It is not changed.

    Attributes
    ----------
    codes : dict
        Of all symbols so far, in the order of the codes.

    Examples
    --------
    >>> codes = SymbolCodes({"a": 0, "b": 1})
    >>> codes.encode(["abba", "cab"]).symbols
    array([0, 1, 1, 0, 2, 0, 1], dtype=int32)
    """

    def __init__(self, alphabet=None):
        self.codes = dict(alphabet or {})

    def encode(self, sequences):
        """Return a list of sequences as `Strings`."""
        lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
        encode = self._encode_text if are_text(sequences) else self._encode_symbols
        symbols = np.asarray(encode(sequences), dtype=np.intc)
        return Strings(symbols, np.concatenate(([0], np.cumsum(lengths))))

    def _encode_symbols(self, sequences):
        try:
            return [self._code(symbol) for sequence in sequences for symbol in sequence]
        except TypeError:
            raise ValueError("Symbols must be hashable.") from None

    def _encode_text(self, strings):
        """Look each code point up once."""
        text = "".join(strings).encode("utf-32-le", "surrogatepass")
        points, places = np.unique(np.frombuffer(text, dtype="<u4"), return_inverse=True)
        codes = [self._code(chr(point)) for point in points]
        return np.asarray(codes, dtype=np.intc)[places]

    def _code(self, symbol):
        return self.codes.setdefault(symbol, len(self.codes))


def are_text(sequences):
    """Whether all sequences are strings, so that symbols are code points."""
    return all(isinstance(sequence, str) for sequence in sequences)


def pairs_of(X):
    """Return sources and targets, two lists of sequences.

    Parameters
    ----------
    X : list of pairs, or array-like of shape (n_pairs, 2)

    Raises
    ------
    ValueError
        If X is empty, or has an entry that is not a pair of sequences.
    """
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, str) or not hasattr(X, "__len__"):
        raise ValueError("X must be a list of pairs (source, target).")
    if len(X) == 0:
        raise ValueError("X is empty: at least one pair (source, target) is needed.")
    for i, pair in enumerate(X):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"Entry {i} of X must be a pair (source, target), got {pair!r:.80}.")
    sources, targets = zip(*X, strict=True)
    return strings_of(sources, "a source of X"), strings_of(targets, "a target of X")


def strings_of(sequences, name):
    """Return a list of sequences; raise ValueError for what has no symbols."""
    if isinstance(sequences, str) or not hasattr(sequences, "__iter__"):
        raise ValueError(f"Expected a list of strings, got {sequences!r:.80}.")
    sequences = list(sequences)
    for sequence in sequences:
        if not hasattr(sequence, "__len__") or isinstance(sequence, dict | set):
            raise ValueError(
                f"Expected a string or a sequence of hashable symbols as {name}, got"
                f" {sequence!r:.80}."
            )
    return sequences
