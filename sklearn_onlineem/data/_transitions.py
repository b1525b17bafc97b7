"""Counts of the first symbols and the transitions of sequences."""

from math import isqrt

import numpy as np
from scipy import sparse

# So many columns are counted faster than sorted.
_FEW_COLUMNS = 1 << 12


def n_symbols_of(n_columns):
    """Return the number of symbols of rows with `n_columns` counts."""
    n_symbols = isqrt(n_columns)
    if n_columns not in (n_symbols**2, n_symbols * (n_symbols + 1)) or n_symbols == 0:
        raise ValueError(
            f"X has {n_columns} columns (n_features={n_columns}), but counts of the transitions"
            " between S symbols have S * S, or S + S * S with the first symbol before them;"
            " sequences of symbols have one, and are arrays of shape (length, 1)."
        )
    return n_symbols


def has_starts(n_columns):
    """Return whether rows of `n_columns` begin with those of the first symbol."""
    return n_columns > n_symbols_of(n_columns) ** 2


def transition_counts(symbols, offsets, n_symbols, dtype=np.float64):
    """Return counts of the first symbol, one-hot, and of transitions, flattened, by sequence."""
    n_columns = n_symbols * (n_symbols + 1)
    index = np.int32 if max(n_columns, len(symbols)) < 1 << 31 else np.int64
    symbols = symbols.astype(index)
    columns = symbols + index(n_symbols)
    columns[1:] += symbols[:-1] * index(n_symbols)
    columns[offsets[:-1]] = symbols[offsets[:-1]]
    shape = len(offsets) - 1, n_columns
    if len(offsets) == 2 and n_columns <= _FEW_COLUMNS:
        # For a single sequence, as in streams of them, this takes half the time.
        counts = np.bincount(columns, minlength=n_columns)
        columns = counts.nonzero()[0].astype(index)
        parts = counts[columns].astype(dtype), columns, np.array([0, len(columns)], dtype=index)
        counts = sparse.csr_array(parts, shape=shape)
        counts.has_canonical_format = True
        return counts
    parts = (np.ones(len(symbols), dtype), columns, offsets.astype(index))
    counts = sparse.csr_array(parts, shape=shape)
    counts.sum_duplicates()
    return counts
