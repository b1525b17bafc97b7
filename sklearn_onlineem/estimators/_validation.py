"""Validation of data: everything is converted once, here, and errors name the estimator."""

from __future__ import annotations

import math
from contextlib import contextmanager

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    column_or_1d,
    validate_data,
)

from sklearn_onlineem._kernels import _rows

__all__ = [
    "check_values",
    "checked_labels",
    "checked_weight",
    "converted",
    "finite_start",
    "is_ready",
    "naming",
    "raise_named",
    "shares",
]

# Sums of squares below this have lost digits to underflow.
_SMALLEST_SQUARE = 1e-290
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


@contextmanager
def naming(estimator):
    """Let invalid input be reported in the name of the estimator."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise_named(error, estimator)


def raise_named(error, estimator):
    """Raise the error again, in the name of the estimator."""
    name = type(estimator).__name__
    if isinstance(error, NotFittedError) or name in str(error):
        raise error
    first, _, rest = str(error).partition(" ")
    if first.rstrip(":").partition("[")[0] in getattr(estimator, "_defaults", ()):
        whose = f"{first.rstrip(':')} of {name}{':' * first.endswith(':')}"
        raise type(error)(f"{whose} {rest}") from error
    raise type(error)(f"{name}: {error}") from error


def converted(estimator, X, fresh, ensure_all_finite=True):
    """Convert rows to what kernels take.

    Parameters
    ----------
    estimator : BaseEstimator
        It is not changed.
    X : array-like or sparse array of shape (n_rows, n_features)
    fresh : bool
        Whether X defines what an estimator expects of data, or is checked for it.
    ensure_all_finite : bool or "allow-nan", default=True

    Returns
    -------
    X : ndarray or CSR array
    attributes : dict
        With `fresh`: `n_features_in_` and `feature_names_in_`, where X has names.

    Raises
    ------
    ValueError
        If X is invalid.
    """
    if not fresh:
        return _checked(estimator, X, False, ensure_all_finite), {}
    # What validation writes goes to a blank one, and to the estimator once all has gone well.
    blank, params = object.__new__(type(estimator)), estimator.get_params(deep=False)
    vars(blank).update(params)
    X = _checked(blank, X, True, ensure_all_finite)
    attributes = {name: value for name, value in vars(blank).items() if name not in params}
    return X, {**attributes, "_dtype": X.dtype}


def is_ready(estimator, X):
    """Whether X needs no conversion: the hot path of streams of small batches."""
    named = "feature_names_in_" in estimator.__dict__
    return not named and _rows.are_ready(X, estimator.n_features_in_)


def check_values(data, family, first=True):
    """Let the family check the rows that have all of their values; refuse others it can't take.

    A model that has its start may see nothing but gaps: time passes.
    """
    if data.observed is None:
        family.check(data.X)
        return
    incomplete = np.isnan(data.X).any(axis=1)
    if not family.handles_missing and (incomplete & data.observed).any():
        raise ValueError(
            f"X has NaN in rows with other values: {family} has no marginal distributions of"
            " some features. Only whole rows can be missing."
        )
    if first and not data.observed.any():
        raise ValueError("X has nothing but NaN.")
    if not incomplete.all():
        family.check(data.X[~incomplete])


def _checked(estimator, X, reset, ensure_all_finite):
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr" if get_tags(estimator).input_tags.sparse else False,
        accept_large_sparse=True,
        dtype=_FLOATS,
        order="C",
        ensure_all_finite=ensure_all_finite,
    )
    if sparse.issparse(X):
        X = _canonical_csr(X)
    else:
        X = np.require(X, requirements=["A", "C"])
    _check_scale(X.data if sparse.issparse(X) else X, first=reset)
    return X


def _check_scale(values, first):
    """Refuse values whose squares are too large, or in the first data too small, for their type."""
    square = float(np.vdot(values, values))
    if math.isnan(square):
        values = values[~np.isnan(values)]
        square = float(np.vdot(values, values))
    if not math.isfinite(square):
        raise ValueError(f"X has values whose squares overflow {values.dtype}; rescale the data.")
    if first and square < _SMALLEST_SQUARE and values.any():
        raise ValueError(f"X has values whose squares underflow {values.dtype}; rescale the data.")


def _canonical_csr(X):
    """Sorted rows without duplicates; a copy if X is not so, and never an index out of range."""
    X.check_format(full_check=True)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def checked_labels(estimator, y, n_rows, n_components):
    """Known components of rows, int32; None where none is known."""
    if n_components == 1:
        # A label among one says nothing, so its value is ignored: scikit-learn's checks fit
        # estimators to whatever labels they have.
        _check_length(y, n_rows)
        return None
    y = column_or_1d(
        check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator)
    )
    _check_length(y, n_rows)
    if not np.issubdtype(y.dtype, np.number):
        raise ValueError(f"Unknown label type: {y.dtype}; y must be integers.")
    labels, top = y.astype(np.int32), n_components - 1
    if (labels != y).any() or labels.min() < -1 or labels.max() > top:
        raise ValueError(
            f"y must be component labels 0..{top}, or -1 where unknown (semi-supervised learning);"
            " leave it out for unsupervised learning."
        )
    return None if (labels == -1).all() else labels


def _check_length(y, n_rows):
    n_labels = _num_samples(y)
    if n_labels != n_rows:
        raise ValueError(f"X has {n_rows} rows, and y {n_labels}.")


def checked_weight(sample_weight, X):
    """Weights of rows, float64."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not 0.0 < weight.sum() < math.inf:
        raise ValueError("sample_weight must not be all 0, and its sum must be finite.")
    return np.ascontiguousarray(weight)


def finite_start(name, values, shape):
    """Copy a start value as kernels take it; check its shape and that it is finite."""
    values = np.array(values, dtype=np.float64, order="C")
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite and of shape {shape}, got shape {values.shape}.")
    return values


def shares(name, values, shape):
    """Convert start values that are shares: not negative, and not all 0 in a row."""
    values = finite_start(name, values, shape)
    if values.min() < 0 or not values.sum(axis=-1).all():
        raise ValueError(f"{name} must not be negative, nor all 0.")
    return values
