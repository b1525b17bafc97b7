"""Checks of values of families; the estimator adds its name to the messages."""

import numpy as np
from scipy import sparse

from sklearn_onlineem._python import ours
from sklearn_onlineem.data.sparse import checked_csr

# Squares of settings, and their products with data, must be normal numbers. Arguments of log gammas
# must leave digits to differences of these.
LEAST, MOST = 1e-100, 1e100
LEAST_SHAPE, MOST_SHAPE = 1e-10, 1e15
# Largest value that users can give: small multiples and sums of it are finite.
LARGEST = 1e300
# Squares of start values must be finite; variances and precisions are such squares.
_LARGEST_START, LARGEST_SQUARE = 1e150, 1e300
# Rounding, relative to the numbers that are compared; of symmetric matrices, relative to their
# largest entry; and of sums of shares.
_TOLERANCE, _ASYMMETRY, _SUMS = 1e-7, 1e-5, 1e-6


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
        # The numbers are checked before they fill the shape.
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


def finite_start(name, values, shape, largest=_LARGEST_START):
    """Return a copy of a start value as kernels take it, checked for shape and size."""
    try:
        values = np.array(values, dtype=np.float64, order="C")
    except ours(TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers of shape {shape}: {error}") from error
    if values.shape != shape:
        raise ValueError(f"{name} must be finite and of shape {shape}, got shape {values.shape}.")
    most = np.abs(values).max(initial=0.0)
    if not most < np.inf:  # nor NaN
        raise ValueError(
            f"{name} must be finite, got {values[~np.isfinite(values)][0]} among them."
        )
    if most > largest:
        raise ValueError(
            f"{name} has values beyond {largest:g}, with which fits overflow; rescale the data."
        )
    return values


def relative_shares(name, values, shape, may_lack=False):
    """Return start values that are not negative, and not all 0 in a row, but with `may_lack`."""
    values = finite_start(name, values, shape)
    if values.min() < 0 or not (may_lack or values.sum(axis=-1).all()):
        raise ValueError(f"{name} must not be negative, nor all 0.")
    return values


def shares(name, values, shape, may_lack=False):
    """Return start values that add up to 1 in each row, or to less with `may_lack`."""
    values = relative_shares(name, values, shape, may_lack)
    totals = values.sum(axis=-1).ravel()
    excess = totals - 1.0 if may_lack else abs(totals - 1.0)
    if excess.max() > _SUMS:
        wrong = np.flatnonzero(excess > _SUMS)
        expected = "add up to at most 1" if may_lack else "add up to 1"
        where = f" in row {wrong[0]}" if values.ndim > 1 else ""
        raise ValueError(f"{name} must {expected}, got a sum of {totals[wrong[0]]:.6g}{where}.")
    return values


def shares_as_given(name, values, may_lack=False):
    """Return shares that add up to 1; those that do but for rounding stay as they are."""
    values = shares(name, values, values.shape, may_lack)
    totals = values.sum(axis=-1, keepdims=True)
    is_rounded = np.abs(totals - 1.0) <= values.shape[-1] * np.finfo(np.float64).eps
    keeps = is_rounded | (totals < 1.0) if may_lack else is_rounded
    return np.where(keeps, values, values / totals)


def definite(name, matrices):
    """Return matrices, or variances; ValueError unless they are positive definite, or above 0."""
    if matrices.ndim == 2:
        wrong = np.flatnonzero(~(matrices > 1.0 / LARGEST_SQUARE).all(axis=1))
        what = "above 0, so that matrices are positive definite"
    else:
        scale = np.abs(matrices).max(axis=(1, 2))
        gap = np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2))
        scale[scale == 0.0] = 1.0
        smallest = np.linalg.eigvalsh(matrices / scale[:, None, None])[:, 0]
        wrong = np.flatnonzero(
            (gap > _ASYMMETRY * scale) | ~(smallest * scale > 1.0 / LARGEST_SQUARE)
        )
        what = "symmetric and positive definite"
    if len(wrong):
        where = f"; number {wrong[0]} is not" if len(matrices) > 1 else ""
        raise ValueError(f"{name} must be {what}{where}.")
    return matrices
