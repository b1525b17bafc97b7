"""Known inputs of the rows of sequences: how they are read, and handed on to models."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
from scipy.sparse import issparse

from sklearn_onlineem._checks import check_squares, require
from sklearn_onlineem._python import ours
from sklearn_onlineem.data.batch import room
from sklearn_onlineem.estimators.sequence_forms import (
    dates_of,
    sequence_form,
    with_columns_of_symbols,
)
from sklearn_onlineem.estimators.sequences import SequencesInput
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import converted, error_context


class InputsReader(SequencesInput):
    """Reads sequences and their inputs; subclasses put them side by side in `_sequences`."""

    def __init__(self, estimator, fresh=False):
        super().__init__(estimator, fresh)
        self.n_expected = estimator._n_inputs(fresh)  # None: any number.

    def read(
        self, X, y=None, lengths=None, groups=None, continues=False, sample_weight=None,
        classes=None, inputs=None,
    ):  # fmt: skip
        self._inputs, self._cut = inputs, (lengths, groups)
        with error_context(self._estimator):
            _check_dates(X, inputs)
        end = None if self._fresh else self._estimator._fitted.end
        self._last = end[-1] if continues and end is not None else None
        return super().read(X, y, lengths, groups, continues, sample_weight, classes)

    def _inputs_of(self, rows):
        """Return the inputs of rows, (n_rows, n_inputs), or None if there are none."""
        form = self.form_of(self._inputs, rows.dtype, *self._cut)
        if form is None:
            return None
        _check_cut(np.diff(form.offsets), np.diff(self.form.offsets))
        return form.X

    def form_of(self, inputs, dtype, lengths=None, groups=None, name="inputs"):
        """Return the form of inputs, converted and checked, or None if there are none."""
        if inputs is None:
            if self.n_expected:
                raise ValueError(
                    f"{name} must be passed: the model has {self.n_expected} of them for each row."
                )
            return None
        inputs = with_columns_of_symbols(inputs)
        is_list = isinstance(inputs, list | tuple) and len(inputs) and not np.ndim(inputs[0])
        if is_list or (getattr(inputs, "ndim", 0) == 1 and not issparse(inputs)):
            inputs = np.asarray(inputs)[:, None]
        try:
            form = sequence_form(inputs, lengths, groups, partial(self._converted_inputs, name))
        except ours(TypeError, ValueError) as error:
            raise type(error)(re.sub(r"\bX\b", name, str(error))) from None
        if np.isnan(form.X).any():
            raise ValueError(
                f"{name} have NaN, and they must be known. Fill them in; rows of X may be missing."
            )
        if self.n_expected is not None and form.X.shape[1] != self.n_expected:
            raise ValueError(
                f"{name} have {form.X.shape[1]} columns, but {self.n_expected} are expected."
            )
        with np.errstate(over="ignore"):
            values = form.X.astype(dtype, copy=False)
        check_squares(name, values)
        return form._replace(X=values)

    def future(self, inputs, n_steps, n_sequences):
        """Return inputs of rows to come, of shape (n_sequences, n_steps, n_inputs)."""
        form = self.form_of(inputs, np.float64, name="future_inputs")
        if form is None:
            return room("n_steps", (n_sequences, n_steps, 0))
        lengths = np.diff(form.offsets)
        lengths, what = lengths.tolist(), f"n_steps={n_steps} rows for each of {n_sequences}"
        fits = lengths == [n_steps] * n_sequences
        require(fits, "future_inputs", f"{what} sequence(s) of X", lengths)
        return form.X.reshape(n_sequences, n_steps, -1)

    def _converted_inputs(self, name, inputs):
        found, attributes = converted(self._estimator, inputs, True, "allow-nan")
        names = attributes.get("feature_names_in_")
        if self._fresh:
            self.attributes["_input_names"] = names
            return found
        first = self._estimator._fitted.attributes.get("_input_names")
        if names is not None and first is not None and names.tolist() != first.tolist():
            raise ValueError(
                f"{name} have the columns {names.tolist()}, and the first inputs"
                f" {first.tolist()}: their names and their order must agree."
            )
        return found


def _check_dates(X, inputs):
    """Raise ValueError if inputs have other dates than the rows of X."""
    are_lists = isinstance(X, list | tuple) and isinstance(inputs, list | tuple)
    for parts in zip(X, inputs, strict=False) if are_lists else [(X, inputs)]:
        dates, others = map(dates_of, parts)
        if type(dates) is type(others) and dates is not None and not dates.equals(others):
            raise ValueError(
                "inputs have other dates than the rows of X; inputs.loc[X.index] has the same."
            )


def _check_cut(lengths, expected):
    """Raise ValueError unless inputs are cut as X is."""
    if len(lengths) != len(expected):
        raise ValueError(f"inputs are {len(lengths)} sequences, and X {len(expected)}.")
    for i in np.flatnonzero(lengths != expected)[:1]:
        which = f"sequence {i} of " if len(expected) > 1 else ""
        raise ValueError(
            f"{which}inputs must have a row for each row of {which}X: got {lengths[i]} rows for"
            f" {expected[i]}."
        )


class TakesInputs:
    """Mixin of estimators of sequences whose methods take inputs beside X.

    They define `_ahead_of`, from data, the inputs of rows to come, and the number of rows; and
    `_n_inputs`, the number of inputs of first or later data, or None.
    """

    _where = ("inputs", "future_inputs")

    def _ahead(self, X, n_steps, future_inputs=None, **where):
        with error_context(self):
            reader = self._input()
            data = reader.read(X, **where)
            future = reader.future(future_inputs, n_steps, len(data))
            with single_threaded_blas(data.n_rows):
                return self._ahead_of(data, future, n_steps), reader.form
