"""Missing values in all of their forms, as NaN: masked arrays, and NA of data frames."""

from __future__ import annotations

import sys

import numpy as np

from sklearn_onlineem.estimators._in_memory import check_in_memory

__all__ = ["check_complete", "filled"]


def filled(X):
    """Return data with NaN where a value is masked or NA; what has none of these as it is.

    Parameters
    ----------
    X : object
        A masked array, a list of masked arrays, a data frame or an array of objects with NA, or
        anything else.

    Returns
    -------
    X : object
        A copy where something was missing: the user's data stay as they are.
    """
    if type(X) is np.ndarray:
        return _without_na(X) if X.dtype == object and X.ndim == 2 else X
    if isinstance(X, np.ma.MaskedArray):
        return _filled_array(X)
    if isinstance(X, list | tuple) and any(isinstance(part, np.ma.MaskedArray) for part in X):
        return [filled(part) for part in X]
    if hasattr(X, "iloc") and X.ndim == 2 and any(dtype.kind == "O" for dtype in X.dtypes):
        values = np.where(X.isna(), np.nan, X.to_numpy(dtype=object))
        return type(X)(values, index=X.index, columns=X.columns)
    return X


def _filled_array(X):
    mask = np.ma.getmaskarray(X)
    if not mask.any():
        return np.asarray(X.data)
    holds_nan = X.dtype.kind in "fcO"
    values = np.array(X.data, dtype=X.dtype if holds_nan else np.float64)
    values[mask] = np.nan
    return values


def _without_na(X):
    """Objects with NaN for NA, which is pandas', and in `X` only if that has been imported."""
    pandas = sys.modules.get("pandas")
    missing = False if pandas is None else pandas.isna(X)
    return np.where(missing, np.nan, X) if np.any(missing) else X


def check_complete(name, values):
    """Raise ValueError if a value is masked of what must be complete, TypeError if it is not here.

    Parameters
    ----------
    name : str
        Of the argument.
    values : object
    """
    check_in_memory(name, values)
    parts = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(f"{name} has masked entries, and none may be missing.")
