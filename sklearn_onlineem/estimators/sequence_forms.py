"""Forms of sequences: four forms of input, one form inside.

X may be a list of arrays or a 3-D array (an entry is a sequence), or a 2-D array: one sequence, or
several that `lengths` or `groups` separate. Output for rows has the form of the input.
"""

from __future__ import annotations

import numbers
import warnings
from contextlib import suppress
from functools import partial, wraps
from itertools import pairwise
from typing import NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing, _set_output
from sklearn.utils.validation import _check_feature_names_in, _num_samples

from sklearn_onlineem.estimators.validation import (
    check_complete,
    check_in_memory,
    checked_weight,
    column,
    countable,
    filled,
    frame_of,
)

# How libraries other than pandas put frames below each other.
_JOINS = {
    "polars": ("concat", {"how": "vertical_relaxed"}),
    "pyarrow": ("concat_tables", {"promote_options": "permissive"}),
}


class SequenceForm(NamedTuple):
    """Rows of all sequences, one after the other, and the form in which the user passed them.

    Rows lay in another `order` if groups had to be gathered. `is_nested` input had one entry for
    each sequence.
    """

    X: object
    offsets: np.ndarray
    order: np.ndarray | None = None
    is_nested: bool = False

    def flat(self, y):
        """Return values for each row, cut as X was, in the order of `X`."""
        is_list = isinstance(y, list | tuple | np.ndarray)
        if self.is_nested and is_list and len(y) > 0 and np.ndim(y[0]) > 0:
            parts = [column(f"y[{i}]", part) for i, part in enumerate(y)]
            expected = np.diff(self.offsets)
            if len(parts) != len(expected):
                raise ValueError(f"y has {len(parts)} parts, and X {len(expected)} sequences.")
            for i, (part, n_rows) in enumerate(zip(parts, expected, strict=True)):
                if len(part) != n_rows:
                    raise ValueError(
                        f"y[{i}] has {len(part)} entries, and sequence {i} of X has {n_rows} rows."
                    )
            if len({part.dtype.kind for part in parts}) > 1:  # Texts may stand beside NaN.
                parts = [part.astype(object) for part in parts]
            return np.concatenate(parts)
        y = column("y", y)
        if len(y) != self.offsets[-1]:
            raise ValueError(f"X has {self.offsets[-1]} rows, and y {len(y)}.")
        return y if self.order is None else y[self.order]

    def weights(self, sample_weight):
        """Return the weights of the sequences; the rows of a 2-D X may have them, too."""
        check_complete("sample_weight", sample_weight)
        sample_weight = np.asarray(sample_weight)
        lengths, shape = np.diff(self.offsets), sample_weight.shape
        n, n_rows = (len(lengths),), (int(self.offsets[-1]),)
        if shape == () or shape == n:
            return checked_weight(sample_weight, lengths)
        if self.is_nested or shape != n_rows:
            rows = "" if self.is_nested else f", or {n_rows}, equal in the rows of a sequence"
            raise ValueError(f"sample_weight must be of shape {n}{rows}; got {shape}.")
        weight = checked_weight(sample_weight, range(*n_rows))
        weight = weight if self.order is None else weight[self.order]
        of_first = weight[self.offsets[:-1]]
        wrong = np.flatnonzero(weight != np.repeat(of_first, lengths))
        if len(wrong):
            number = int(np.searchsorted(self.offsets, wrong[0], side="right")) - 1
            raise ValueError(
                f"sample_weight differs between the rows of sequence {number}, but a weight is that"
                " of a whole sequence, which is repeated."
            )
        return of_first

    def restored(self, rows):
        """Return rows as the user arranged them: a list if an entry was a sequence."""
        if self.is_nested:
            bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
            sliced = rows.iloc if hasattr(rows, "iloc") else rows
            return [sliced[begin:end] for begin, end in bounds]
        if self.order is None:
            return rows
        out = np.empty_like(rows)
        out[self.order] = rows
        return out


def dates_of(frame):
    """Return the index of a data frame of pandas if it has dates, else None."""
    pandas, index = nw.dependencies.get_pandas(), getattr(frame, "index", None)
    has_dates = pandas and isinstance(index, pandas.DatetimeIndex | pandas.PeriodIndex)
    return index if has_dates else None


def dates_after(X, form, n_steps):
    """Return the dates of the rows that follow each sequence of data frames; None without dates.

    ValueError where pandas cannot tell the next one.
    """
    if form.is_nested:
        found = [dates_of(part) for part in X]
    else:
        whole = dates_of(X)
        if whole is None:
            return None
        whole = whole if form.order is None else whole[form.order]
        found = [whole[begin:end] for begin, end in pairwise(form.offsets)]
    has_dates = [index is not None for index in found]
    if not any(has_dates):
        return None
    if not all(has_dates):
        raise ValueError(f"sequence {has_dates.index(False)} of X has no dates, and others have.")
    return [_following(i, index, n_steps) for i, index in enumerate(found)]


def framed(X, tables, dates):
    """Return tables of rows as data frames with dates, and with the columns of X."""
    columns = getattr(X[0] if isinstance(X, list | tuple | np.ndarray) else X, "columns", None)
    frame = nw.dependencies.get_pandas().DataFrame
    return [
        frame(rows, index=index, columns=columns) for rows, index in zip(tables, dates, strict=True)
    ]


def _following(i, index, n_steps):
    pandas = nw.dependencies.get_pandas()
    if isinstance(index, pandas.PeriodIndex):  # Periods may be left out.
        n_periods = len(index) + n_steps
        every = pandas.period_range(index[0], periods=n_periods, freq=index.freq, name=index.name)
        if (every[: len(index)] == index).all():
            return every[len(index) :]
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a frequency that will be of another type
            frequency = index.inferred_freq if index.freq is None else index.freq
        if frequency is not None and index.is_monotonic_increasing:
            last, n_dates = index[-1], n_steps + 1
            return pandas.date_range(last, periods=n_dates, freq=frequency, name=index.name)[1:]
    raise ValueError(
        f"the dates of sequence {i} of X are not regular, or fewer than 3, so that those of a"
        " forecast are unknown. Make them regular with X.asfreq(...), which has missing rows at"
        " dates in between, or drop them with X.reset_index(drop=True)."
    )


def check_rows_of_y(form, y):
    """Refuse a `y` without an entry for each row of a 2-D X: hmmlearn has lengths there."""
    if y is None or form.is_nested:
        return
    check_in_memory("y", y)
    n_rows, n_entries = form.offsets[-1], "no"
    with suppress(TypeError):
        n_entries = _num_samples(countable(y))
    if n_entries == n_rows:
        return
    advice = ". Pass lengths of sequences as lengths=..."
    with suppress(ValueError):
        y = np.asarray(y)
        if np.issubdtype(y.dtype, np.integer) and y.sum() == n_rows:
            advice = "; these look like lengths: pass lengths=..."
    raise ValueError(f"X has {n_rows} rows, and y {n_entries} entries{advice}")


def sequence_form(X, lengths=None, groups=None, convert=countable):
    """Return the form of sequences in X; `lengths` and `groups` require a 2-D X.

    `convert` is called once, with all rows. Its result is counted, cut and reordered, as the data
    of the user may be corrupt, or have another number of rows than they claim.
    """
    is_one = lengths is None and groups is None
    part = X[0] if type(X) is list and len(X) == 1 else X
    # A plain sequence, as in streams of them.
    is_plain = type(part) is np.ndarray and part.ndim == 2 and part.dtype.kind in "biuf"
    if is_one and is_plain and part.size:
        rows = convert(part)
        return SequenceForm(rows, np.array([0, len(rows)], dtype=np.int64), None, part is not X)
    check_in_memory("X", X)
    if is_nested(X):
        if lengths is not None or groups is not None:
            raise ValueError(
                "lengths and groups require a 2-D X; a list or 3-D X already defines the sequences."
            )
        # The lengths of lists of users' classes may be wrong.
        return _form_of_list(list(iter(X)), convert)
    is_list = isinstance(X, list | tuple) and not isinstance(next(iter(X), None), str)
    if is_one and is_list and with_columns_of_symbols(X) is not X:
        # They may be rows, or sequences of one feature.
        raise ValueError(
            "X is a list of arrays of one dimension. Sequences of one feature are"
            " [x.reshape(-1, 1) for x in X]; rows of one sequence are np.stack(X)."
        )
    X = convert(filled(X))
    if lengths is not None and groups is not None:
        raise ValueError("Pass either lengths or groups, not both.")
    n_rows = len(X) if type(X) is np.ndarray and X.ndim == 2 else _num_samples(X)
    if groups is not None:
        check_complete("groups", groups)
        return _form_of_groups(X, np.asarray(groups), n_rows)
    if lengths is None:
        return SequenceForm(X, np.array([0, n_rows], dtype=np.int64))
    check_complete("lengths", lengths)
    lengths = np.asarray(lengths)
    if not np.issubdtype(lengths.dtype, np.integer):
        raise TypeError(f"lengths must be integers, got {lengths.dtype}.")
    if lengths.ndim != 1 or len(lengths) == 0 or lengths.min() < 1:
        raise ValueError("lengths must be a list of numbers above 0.")
    if lengths.sum(dtype=object) != n_rows:
        raise ValueError(f"lengths add up to {lengths.sum(dtype=object)}, but X has {n_rows} rows.")
    return SequenceForm(X, _running_sums(lengths))


def with_columns_of_symbols(X):
    """Return sequences with a column each if X is a list of texts or 1-D arrays, else X."""
    is_array = isinstance(X, np.ndarray) and X.dtype.kind in "OU" and X.ndim == 1
    first = next(iter(X), None) if is_array or isinstance(X, list | tuple) else None
    if isinstance(first, str):
        wrong = next((i for i, text in enumerate(X) if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"Sequence {wrong} of X is no text, as sequence 0 is.")
        return [np.array(list(text), dtype=object).reshape(-1, 1) for text in X]
    if not hasattr(first, "__array__") or len(getattr(first, "shape", ())) != 1:
        return X
    check_in_memory("X", X)
    # Columns of masked arrays are masked.
    arrays = [part if isinstance(part, np.ndarray) else np.asarray(part) for part in X]
    return [part[:, None] if part.ndim == 1 else part for part in arrays]


def is_nested(X):
    """Return whether each entry of X is a sequence."""
    if sparse.issparse(X) or isinstance(X, numbers.Number | str | bytes):
        return False
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    with suppress(ValueError):  # of entries that have parts of several lengths
        return isinstance(X, list | tuple | np.ndarray) and np.ndim(next(iter(X), None)) == 2
    return False


def _form_of_list(X, convert):
    if len(X) == 0:
        raise ValueError("X has no sequences.")
    if any(map(sparse.issparse, X)):
        raise TypeError("Sequences must be dense, but X has sparse ones.")
    library = _common_library(X)
    parts = [filled(part) if library else np.asarray(filled(part)) for part in X]
    for i, part in enumerate(parts):
        if len(part.shape) != 2 or part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"Sequence {i} of X has shape {part.shape}; expected (length, n_features) with"
                f" {parts[0].shape[1]} features, as the first has."
            )
        if len(part) == 0:
            raise ValueError(f"Sequence {i} of X is empty.")
    offsets = _running_sums([*map(len, parts)])
    if len(parts) == 1:
        X = parts[0]
    elif library is None:
        X = np.concatenate(parts)
    else:
        # Columns get a common type, which is the default in pandas.
        join, how = _JOINS.get(library.__name__, ("concat", {}))
        X = getattr(library, join)(parts, **how)
    X = convert(X)
    if X.shape[0] != offsets[-1]:
        raise ValueError(f"The sequences of X claim {offsets[-1]} rows, but have {len(X)}.")
    return SequenceForm(X, offsets, is_nested=True)


def _common_library(X):
    """Return the library of the data frames in a list; None if all are arrays."""
    first = None if type(X[0]) is np.ndarray else _library_of(X[0])
    names = None if first is None else frame_of(X[0]).columns
    for i, part in enumerate(X):
        if type(part) is np.ndarray and first is None:
            continue
        if _library_of(part) is not first:
            raise TypeError(
                f"Sequence {i} of X is of {type(part)}, and the first of {type(X[0])}: pass either"
                " data frames of one library or arrays."
            )
        if first is not None and (own := frame_of(part).columns) != names:
            raise ValueError(
                f"Sequence {i} of X has the columns {own}, and the first {names}: their names and"
                " their order must agree."
            )
    return first


def _library_of(part):
    frame = frame_of(part)
    return None if frame is None else nw.get_native_namespace(frame)


def _form_of_groups(X, groups, n_rows):
    if groups.shape != (n_rows,):
        raise ValueError(f"groups must be of shape ({n_rows},), got {groups.shape}.")
    # Sequences are numbered as they first appear.
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    codes = rank[codes.reshape(-1)]
    offsets = _running_sums(np.bincount(codes))
    if (np.diff(codes) >= 0).all():
        return SequenceForm(X, offsets)
    order = np.argsort(codes, kind="stable")
    return SequenceForm(_safe_indexing(X, order), offsets, order)


def _running_sums(lengths):
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def in_container(estimator, rows, X):
    """Return rows in the container that `set_output` says, with the columns of X."""
    kind = _set_output._get_output_config("transform", estimator)["dense"]
    if kind == "default":
        return rows
    if isinstance(rows, list):
        return [in_container(estimator, *pair) for pair in zip(rows, X, strict=True)]
    names = _check_feature_names_in(estimator, generate_names=True)
    adapter = _set_output.ADAPTERS_MANAGER.adapters[kind]
    return adapter.create_container(rows, X, columns=names, inplace=False)


class SequenceOutput:
    """Mixin that makes scikit-learn's `set_output` work for lists of sequences.

    `transform` and `fit_transform` may return a list for nested X. Each of its arrays becomes a
    data frame with the index of its sequence. Output with a row for each sequence has no index.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name in ("transform", "fit_transform"):
            # scikit-learn's wrapper of the method only works for rows.
            method = getattr(cls, name, None)
            if method is not None and not hasattr(method, "takes_sequences"):
                setattr(cls, name, _contained(method.__wrapped__))


def _contained(method):
    @wraps(method)
    def wrapped(self, *args, **kwargs):
        out, X = method(self, *args, **kwargs), args[0] if args else kwargs["X"]
        wrap = partial(_set_output._wrap_data_with_container, "transform", estimator=self)
        if not isinstance(out, list):
            rows = X if hasattr(X, "iloc") and len(X) == len(out) else None
            return wrap(out, rows)
        return [wrap(part, rows) for part, rows in zip(out, X, strict=True)]

    wrapped.takes_sequences = True
    return wrapped
