"""Reads sequences of symbols, or counts of their transitions, as rows of counts."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels._rows import are_ready
from sklearn_onlineem.data._checks import room
from sklearn_onlineem.data._transitions import n_symbols_of, transition_counts
from sklearn_onlineem.estimators._in_memory import check_in_memory
from sklearn_onlineem.estimators._missing import filled
from sklearn_onlineem.estimators._rows import RowsInput
from sklearn_onlineem.estimators._sequence_forms import SequenceForm, is_nested, sequence_form
from sklearn_onlineem.estimators._validation import converted

__all__ = ["ChainsInput", "symbol_column"]

# A stray code of 1e10 must be an error, not an allocation.
_MOST_SYMBOLS = 1 << 12
_NO_ROWS = (
    "a column of symbols (n_features=1) is a sequence, or several: pass lengths=[len(X)] or"
    " groups=..., or the list [X]. Rows of a 2-D X alone are counts of transitions."
)


class ChainsInput(RowsInput):
    """Reads sequences as rows of counts, and takes such rows.

    Entries of a list or of an array of three dimensions, and what `sequence_form` has made of other
    X, are sequences if they have one column, and matrices of counts if they are square. Other X is
    rows of counts.

    Parameters
    ----------
    estimator : MarkovChainMixture
    family : MarkovChain
    fresh : bool
        Whether the data are the first that a new model meets, and give it its symbols, unless
        their number is a parameter.
    n_components : int
    takes_labels : bool
    """

    def __init__(self, estimator, family, fresh, n_components, takes_labels):
        super().__init__(estimator, family, fresh, n_components, takes_labels=takes_labels)

    def _converted(self, X):
        if isinstance(X, SequenceForm):
            return self._counted(X)
        check_in_memory("X", X)
        if is_nested(X):
            form = sequence_form(X)
            if form.X.shape[1] == 1:
                return self._counted(form)
            X = _matrices_as_rows(form)
        elif _is_column(X):
            raise ValueError(_NO_ROWS)
        return super()._converted(X)

    def _counted(self, form):
        """Count the transitions of sequences, in the columns that the first data had."""
        values = symbol_column(self._estimator, form.X)[:, 0]
        symbols, n_symbols, n_columns = self._symbols(values)
        counts = transition_counts(symbols, form.offsets, n_symbols, values.dtype)
        if self._fresh:
            self.attributes = {"n_features_in_": n_columns, "_dtype": values.dtype}
        return counts if n_columns == counts.shape[1] else counts[:, n_symbols:]

    def _symbols(self, values):
        """Codes, the number of symbols, and that of the columns of counts."""
        given = self._estimator.n_symbols
        if not self._fresh:
            n_columns = self._estimator.n_features_in_
            n_symbols = n_symbols_of(n_columns)
            why = "as in the first data; n_symbols says how many there may be"
            return _codes(values, n_symbols, why), n_symbols, n_columns
        if given is None:
            symbols = _codes(values, _MOST_SYMBOLS, "more need n_symbols")
            n_symbols = int(symbols.max()) + 1
        else:
            symbols, n_symbols = _codes(values, given, f"n_symbols={given}"), given
        n_columns = n_symbols * (n_symbols + 1)
        room("n_symbols", (self._n_components, n_columns))
        return symbols, n_symbols, n_columns

    def _batch(self, X, weight, y, n_threads):
        if X.shape[1] == 1:
            raise ValueError(_NO_ROWS)
        n_symbols, given = n_symbols_of(X.shape[1]), self._estimator.n_symbols
        if self._fresh and given not in (None, n_symbols):
            raise ValueError(
                f"n_symbols is {given}, but X has {X.shape[1]} columns: counts of the transitions"
                f" between {n_symbols} symbols."
            )
        return super()._batch(X, weight, y, n_threads)


def symbol_column(estimator, X):
    """Return a column of symbols as floats, an array of shape (n_rows, 1).

    Raises
    ------
    TypeError, ValueError
        If X is no such column.
    """
    if sparse.issparse(X):
        raise TypeError("Sequences must be dense, but X is sparse.")
    if not are_ready(X, 1):
        # What it finds of first data is that of the column, and not of its counts.
        X, _ = converted(estimator, X, fresh=True)
    if X.shape[1] != 1:
        raise ValueError(f"Sequences have one column, of symbols, but X has {X.shape[1]}.")
    return X


def _matrices_as_rows(form):
    n_columns = form.X.shape[1]
    if (np.diff(form.offsets) != n_columns).any():
        raise ValueError(
            f"X has entries of {n_columns} columns that are not all square. Sequences have one"
            " column, of symbols, and matrices of counts as many columns as rows."
        )
    return np.asarray(filled(form.X)).reshape(-1, n_columns**2)


def _is_column(X):
    if isinstance(X, list | tuple):
        return np.shape(next(iter(X), None)) == (1,)
    return getattr(X, "shape", ())[1:] == (1,)


def _codes(values, n_symbols, why):
    """Values as integers; a ValueError names the first that is no code below `n_symbols`."""
    wrong = np.flatnonzero(~((values >= 0) & (values < n_symbols) & (values == np.floor(values))))
    if len(wrong):
        raise ValueError(
            f"X has the symbol {values[wrong[0]]:.17g}, but symbols must be integer codes in"
            f" 0..{n_symbols - 1} ({why})."
        )
    return values.astype(np.int64)
