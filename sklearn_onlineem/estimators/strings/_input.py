"""Strings of any symbols as codes, and pairs of them as data."""

import reprlib
from collections.abc import Mapping, Set
from itertools import compress, islice

import numpy as np

from sklearn_onlineem._checks import NoStartError
from sklearn_onlineem._python import ours
from sklearn_onlineem.data.strings import StringPairs, Strings
from sklearn_onlineem.estimators.threads import threads_for
from sklearn_onlineem.estimators.validation import (
    Reader,
    check_in_memory,
    checked_weight,
    error_context,
    frame_of,
)

# They have lengths and can be iterated, but have no order, or yield numbers instead of symbols, or
# symbols instead of words.
_NO_SEQUENCES = (str, Mapping, Set, bytes, bytearray, memoryview)
_WORD = "a string or a sequence of hashable symbols as"


class SymbolCodes:
    """Gives symbols codes: known ones those of an alphabet, others the next free ones."""

    def __init__(self, alphabet=None):
        self.codes = dict(alphabet or {})

    def encode(self, sequences):
        """Return words, each a str or a tuple, as `Strings`."""
        lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
        if are_text(sequences):  # each code point is looked up once
            text = "".join(sequences).encode("utf-32-le", "surrogatepass")
            points, places = np.unique(np.frombuffer(text, dtype="<u4"), return_inverse=True)
            codes = np.asarray([self._code(chr(point)) for point in points], dtype=np.intc)[places]
        else:
            codes = [self._code(symbol) for sequence in sequences for symbol in sequence]
        symbols = np.asarray(codes, dtype=np.intc)
        return Strings(symbols, np.concatenate(([0], np.cumsum(lengths))))

    def _code(self, symbol):
        try:
            code = self.codes.get(symbol)
            if code is None and symbol == symbol:
                code = self.codes.setdefault(symbol, len(self.codes))
        except ours(TypeError):
            code = None
        if code is None:
            raise ValueError(
                f"Symbols must be hashable, and equal to themselves; got {reprlib.repr(symbol)}."
            )
        return code


def codes_of(alphabet, name):
    """Return a dict from the symbols of an alphabet that users give to their codes."""
    codes = SymbolCodes()
    if isinstance(alphabet, set | frozenset):  # in an order that all machines share
        codes.encode([sorted(alphabet, key=repr)])
    elif isinstance(alphabet, str):
        codes.encode([list(str.__str__(alphabet))])
    else:
        codes.encode([entries_of(alphabet, f"a list or a set of symbols as {name}")])
    if not codes.codes:
        raise ValueError(f"{name} has no symbols.")
    return codes.codes


def are_text(sequences):
    """Return whether all sequences are strings, so that symbols are code points."""
    return all(issubclass(kind, str) for kind in set(map(type, sequences)))


def pairs_of(X):
    """Return the sources and targets of a list of pairs, two lists of words."""
    if (frame := frame_of(X)) is not None:
        X = frame.to_numpy()
    entries = entries_of(X, "a list of pairs (source, target) as X")
    if not entries:
        raise ValueError("X is empty: at least one pair (source, target) is needed.")
    pairs = []
    for i, entry in enumerate(entries):
        expected = f"a pair (source, target) as entry {i} of X"
        pair = [] if isinstance(entry, str) else entries_of(entry, expected)
        if len(pair) != 2:
            raise ValueError(
                f"{_unlike(expected, entry)} Two lists become pairs by list(zip(sources, targets))."
            )
        pairs.append(pair)
    sources, targets = zip(*pairs, strict=True)
    return (
        strings_of(sources, "the source of pair {} of X"),
        strings_of(targets, "the target of pair {} of X"),
    )


def strings_of(sequences, name):
    """Return a list of words, each str or tuple, copied once.

    `name` is the name of a word in messages, with ``{}`` for its number. A copy is needed as
    collections of users may change, or claim a wrong length.
    """
    words = entries_of(sequences, "a list of strings, or of sequences of symbols")
    for i, entry in enumerate(words):
        if type(entry) is str:
            continue
        if isinstance(entry, str):
            words[i] = str.__str__(entry)
        else:
            words[i] = tuple(entries_of(entry, f"{_WORD} {name.format(i)}"))
    return words


def entries_of(value, expected):
    """Return the entries of a sequence as a list, by one pass that ends; else ValueError."""
    if type(value) in (list, tuple):
        return list(value)
    if isinstance(value, _NO_SEQUENCES) or _is_table(value) or np.ma.is_masked(value):
        raise _unlike(expected, value)
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufU":
        return value.tolist()
    try:
        n_entries = len(value)
        entries = list(islice(value, n_entries + 1))
    except ours(TypeError, ValueError, OverflowError):
        raise _unlike(expected, value) from None
    if len(entries) != n_entries:
        raise ValueError(
            f"Expected {expected}, got a {type(value).__name__} with len() {n_entries} but another"
            " number of entries."
        )
    return entries


def _is_table(value):
    """Return whether this is a data frame, which iterates over names of columns."""
    return hasattr(value, "columns")


def _unlike(expected, value):
    """Return an error that says what was expected and how to get there."""
    if isinstance(value, bytes | bytearray | memoryview):
        remedy = " Decode bytes to str; list(...) makes them integers."
    elif _is_table(value):
        remedy = " Pass one of its columns, or a list of its rows."
    elif hasattr(value, "__next__"):
        remedy = " Pass list(...) of it."
    elif isinstance(value, Mapping):
        remedy = " Pass list(...) of its items() or values()."
    else:
        remedy = ""
    return ValueError(
        f"Expected {expected}, got {type(value).__name__} {reprlib.repr(value)}.{remedy}"
    )


class PairsInput(Reader):
    """Reads pairs of strings as codes of symbols.

    First (`fresh`) pairs define the `attributes` of the estimator: its alphabet, unless that is
    given.
    """

    def read(self, X, y=None, sample_weight=None):
        """Return pairs, converted and checked, without those of weight 0."""
        with error_context(self._estimator):
            check_in_memory("X", X)
            sources, targets = pairs_of(X)
            weight = None if sample_weight is None else checked_weight(sample_weight, sources)
            if weight is not None:
                sources, targets = (list(compress(side, weight)) for side in (sources, targets))
                weight = weight[weight > 0.0]
            known = self._new_codes(sources, targets) if self._fresh else self._estimator._codes
            codes = SymbolCodes(known)
            sources, targets = codes.encode(sources), codes.encode(targets)
        n_cells = (sources.lengths + 1.0) @ (targets.lengths + 1.0)
        n_threads = threads_for(self._n_jobs, n_cells)
        # Unknown symbols share one more place.
        return StringPairs(sources, targets, n_threads, len(known) + 1, weight)

    def _new_codes(self, sources, targets):
        """Return codes of the alphabet: the given one, or that of the pairs."""
        if self._estimator.alphabet is None:
            codes = SymbolCodes()
            codes.encode(sources)
            codes.encode(targets)
            codes = codes.codes
        else:
            codes = codes_of(self._estimator.alphabet, "alphabet")
        if not codes:
            raise NoStartError("X has no symbols: all strings are empty.")
        self.attributes = {
            "symbols_": list(codes),
            "_codes": codes,
            "_makes_text": are_text(sources) and are_text(targets),
            "_dtype": np.dtype(np.float64),
        }
        return codes
