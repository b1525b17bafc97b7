"""Known inputs of the rows of sequences: how they are read, and handed on to models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats, FloatsOrList, Method, SequenceData
from sklearn_onlineem.estimators.fitted import rollback
from sklearn_onlineem.estimators.parameters import fit_context, with_entries
from sklearn_onlineem.estimators.sequence_forms import (
    Pair,
    sequence_form,
    with_columns_of_symbols,
)
from sklearn_onlineem.estimators.sequences import SequenceEstimator, SequencesInput
from sklearn_onlineem.estimators.validation import converted

Result = TypeVar("Result")


class InputsReader(SequencesInput):
    """Reads sequences and their inputs; subclasses put them side by side in `_sequences`."""

    def read(
        self, X, y=None, lengths=None, groups=None, continues=False, sample_weight=None,
        classes=None, inputs=None,
    ):  # fmt: skip
        X, inputs = X if isinstance(X, Pair) else (X, inputs)
        self._inputs, self._cut = inputs, (lengths, groups)
        end = None if self._fresh else self._estimator._fitted.end
        self._last = end[-1] if continues and end is not None else None
        return super().read(X, y, lengths, groups, continues, sample_weight, classes)

    def _n_expected(self):
        """Return the number of inputs that the model has; None: any."""
        return self._estimator._n_known_inputs(self._fresh)

    def _inputs_of(self, rows):
        """Return the inputs of rows, (n_rows, n_inputs), or None if there are none."""
        form = self.form_of(self._inputs, rows.dtype, *self._cut)
        if form is None:
            return None
        _check_cut(np.diff(form.offsets), np.diff(self.form.offsets))
        return form.X

    def form_of(self, inputs, dtype, lengths=None, groups=None, name="inputs"):
        """Return the form of inputs, converted and checked, or None if there are none."""
        n_expected = self._n_expected()
        if inputs is None:
            if n_expected:
                raise ValueError(
                    f"{name} must be passed: the model has {n_expected} of them for each row."
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
        if n_expected is not None and form.X.shape[1] != n_expected:
            raise ValueError(
                f"{name} have {form.X.shape[1]} columns, but {n_expected} are expected."
            )
        with np.errstate(over="ignore"):
            values = form.X.astype(dtype, copy=False)
            if not np.isfinite(np.square(values).sum()):
                raise ValueError(
                    f"{name} have values whose squares overflow {dtype}; rescale them."
                )
        return replace(form, X=values)

    def future(self, inputs, n_steps, n_sequences):
        """Return inputs of rows to come, of shape (n_sequences, n_steps, n_inputs)."""
        form = self.form_of(inputs, np.float64, name="future_inputs")
        if form is None:
            return np.empty((n_sequences, n_steps, 0))
        lengths = np.diff(form.offsets)
        if len(lengths) != n_sequences or (lengths != n_steps).any():
            raise ValueError(
                f"future_inputs must have n_steps={n_steps} rows for each of {n_sequences}"
                f" sequence(s) of X, got {lengths.tolist()}."
            )
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


_ENTRY = """
inputs : array-like, default=None
    Known inputs, a row for each row of X, cut into sequences as X is, without NaN; of one
    dimension if there is one input. None: there are none."""
FUTURE = """
future_inputs : array-like, default=None
    Known inputs of the rows to come, `n_steps` rows for each sequence, in the forms of `inputs`
    without lengths and groups. None: there are none."""


def with_inputs(method: Callable[..., object], more: str = "") -> Callable[[Method], Method]:
    """Decorate a method that takes inputs, too, with the docstring of the one that does not."""
    return with_entries(method, _ENTRY + more)


def taking_inputs(method: Callable[..., Result]) -> Callable[..., Result]:
    """Return a method of inference that takes inputs, too, and hands them on with X."""
    documented, method = with_inputs(method), inspect.unwrap(method)

    @documented
    @wraps(method)
    def taking(self, X, *args, inputs=None, **kwargs):
        pair = X if isinstance(X, Pair) else Pair(X, inputs)
        return method(self, pair, *args, **kwargs)

    signature = inspect.signature(method)
    last = inspect.Parameter("inputs", inspect.Parameter.KEYWORD_ONLY, default=None)
    last = last.replace(annotation="SequenceData | None")
    taking.__signature__ = signature.replace(parameters=[*signature.parameters.values(), last])
    return taking


class TakesInputs(SequenceEstimator):
    """Mixin of estimators of sequences whose methods take inputs beside X."""

    @with_inputs(SequenceEstimator.fit)
    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        inputs: SequenceData | None = None,
    ) -> Self:
        where = {"lengths": lengths, "groups": groups, "inputs": inputs}
        return self._fit(X, y, sample_weight=sample_weight, **where)

    @with_inputs(SequenceEstimator.fit_transform)
    def fit_transform(
        self,
        X: SequenceData,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        inputs: SequenceData | None = None,
    ) -> FloatsOrList:
        with rollback(self):
            where = {"lengths": lengths, "groups": groups, "inputs": inputs}
            return self.fit(X, y, sample_weight=sample_weight, **where).transform(X, **where)

    score_samples = taking_inputs(SequenceEstimator.score_samples)
    score_rows = taking_inputs(SequenceEstimator.score_rows)
    score = taking_inputs(SequenceEstimator.score)
    bic = taking_inputs(SequenceEstimator.bic)
    aic = taking_inputs(SequenceEstimator.aic)

    @with_inputs(SequenceEstimator.forecast, FUTURE)
    def forecast(
        self,
        X: SequenceData,
        n_steps: int = 1,
        *,
        return_cov: bool = False,
        quantiles: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        inputs: SequenceData | None = None,
        future_inputs: SequenceData | None = None,
    ) -> Floats | tuple[Floats, ...]:
        return self._forecast(
            X, n_steps, return_cov, quantiles, lengths, groups, inputs, future_inputs
        )
