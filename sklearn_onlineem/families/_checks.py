"""What data a family can take; messages say what is wrong, the estimator adds its name."""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["check_non_negative", "stored_values"]


def stored_values(X):
    """The values that are stored: all of a dense array, the non-zeros of a sparse one."""
    return X.data if sparse.issparse(X) else X


def check_non_negative(X):
    """Raise ValueError where a value is below 0."""
    values = stored_values(X)
    if values.size and np.min(values) < 0:
        raise ValueError(f"Negative values in data: the smallest is {np.min(values):.6g}.")
