"""Checks of values of families; the estimator adds its name to the messages."""

import numpy as np
from scipy import sparse

from sklearn_onlineem._errors import ours
from sklearn_onlineem.data.sparse import checked_csr

# Squares of settings, and their products with data, must be normal numbers. Arguments of log gammas
# must leave digits to differences of these.
LEAST, MOST = 1e-100, 1e100
LEAST_SHAPE, MOST_SHAPE = 1e-10, 1e15
# Largest value that users can give: small multiples and sums of it are finite.
LARGEST = 1e300
# Rounding, relative to the numbers that are compared.
_TOLERANCE = 1e-7


def stored_values(X):
    """Return all values of a dense array, or the stored ones of a CSR array; else a ValueError."""
    if not sparse.issparse(X):
        return X
    if X.format != "csr":
        raise ValueError(f"Sparse data must be CSR, got {X.format}.")
    checked_csr(X)
    return X.data


def check_non_negative(X):
    values = stored_values(X)
    # The minimum is fast, but NaN where values beside NaN may be negative.
    if not values.min(initial=0.0) >= 0.0 and (values < 0).any():
        raise ValueError(f"Negative values in data: the smallest is {np.nanmin(values):.6g}.")


def finite(name, value, shape=()):
    """Return a hyper-parameter as numbers of this shape, up to `LARGEST`; else a ValueError."""
    _require(not np.ma.is_masked(value), name, "free of masked values", value)
    try:
        # What is checked is not as large as the shape.
        numbers = np.asarray(value, dtype=float)
        result = np.broadcast_to(numbers, shape)
    except ours(TypeError, ValueError, OverflowError):
        kind = f"numbers that broadcast to shape {shape}" if shape else "a number"
        raise ValueError(f"{name} must be {kind}, got {value!r}.") from None
    _require((np.abs(numbers) <= LARGEST).all(), name, f"finite, up to {LARGEST:g}", value)
    return result


def above(name, value, bound, shape=()):
    numbers = finite(name, value, shape)
    _require((np.asarray(value, dtype=float) > bound).all(), name, f"above {bound:.6g}", value)
    return numbers


def at_least(name, value, bound, shape=()):
    numbers = finite(name, value, shape)
    _require((np.asarray(value, dtype=float) >= bound).all(), name, f"at least {bound:.6g}", value)
    return numbers


def check_has_mode(name, scatter, degrees, settings):
    """Raise ValueError for scatters of several covariances without degrees.

    A covariance whose component loses all rows would grow without bound.
    """
    if degrees == 0.0 and len(scatter) > 1 and scatter.any():
        raise ValueError(
            f"{name} alone has no mode where each component has its own: set {settings}, too."
        )


def at_most(name, value, bounds, what, shape=()):
    """Return finite numbers up to bounds that are called `what`, give or take rounding."""
    numbers = finite(name, value, shape)
    slack = _TOLERANCE * np.maximum(1.0, np.abs(bounds))
    _require((numbers <= bounds + slack).all(), name, f"at most {what}", value)
    return numbers


def positive_semidefinite(name, value, size):
    """Return a symmetric matrix without negative eigenvalues, from a number as a multiple of I."""
    if np.ndim(value) == 0:
        return at_least(name, value, 0.0) * np.eye(size)
    matrix = finite(name, value, (size, size))
    values, scale = _eigenvalues(name, matrix)
    _require((values >= -_TOLERANCE * scale).all(), name, "positive semidefinite", value)
    return matrix


def check_setting(name, value, least, most):
    """Raise ValueError unless a setting of a family is a number from `least` to `most`."""
    number = value if type(value) is float and abs(value) <= LARGEST else finite(name, value)
    _require(least <= number <= most, name, f"from {least:g} to {most:g}", value)


def check_positive_definite(name, matrix):
    values, _ = _eigenvalues(name, matrix)
    _require((values > 0.0).all(), name, "positive definite", matrix)


def _eigenvalues(name, matrix):
    scale = np.abs(matrix).max(initial=0.0)
    asymmetry = np.abs(matrix - matrix.T).max(initial=0.0)
    _require(asymmetry <= _TOLERANCE * scale, name, "symmetric", matrix)
    return np.linalg.eigvalsh(matrix), scale


def _require(holds, name, what, value):
    if not holds:
        raise ValueError(f"{name} must be {what}, got {value!r}.")
