"""Checks of settings, start values and arrays; estimators add their names to the messages."""

import sys
from numbers import Integral, Real

import numpy as np

from sklearn_onlineem._python import ours

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
# Types of arrays of values.
REALS = (np.dtype(np.float64), np.dtype(np.float32))
_MOST_THREADS = np.iinfo(np.intc).max


def check_bool(name, value):
    """Raise ValueError unless a value is a bool."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be a bool, got {value!r:.60}.")


def check_count(name, value, optional=False, least=1):
    """Raise ValueError unless a value is a whole number from `least` up, or None if optional."""
    if value is None and optional:
        return
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or not least <= value <= sys.maxsize:
        allowed = f"a whole number from {least} up to {sys.maxsize}" + " or None" * optional
        raise ValueError(f"{name} must be {allowed}, got {value!r:.60}.")


def check_number(name, value, low, high):
    """Raise ValueError unless a value is a real number strictly between `low` and `high`."""
    if not isinstance(value, Real) or not low < value < high:
        raise ValueError(f"{name} must be a number between {low:g} and {high:g}, got {value!r}.")


def finite(name, value, shape=()):
    """Return a hyper-parameter as numbers of this shape, up to `LARGEST`; else a ValueError."""
    require(not np.ma.is_masked(value), name, "free of masked values", value)
    try:
        # The numbers are checked before they fill the shape.
        numbers = np.asarray(value, dtype=float)
        result = np.broadcast_to(numbers, shape)
    except ours(TypeError, ValueError, OverflowError):
        kind = f"numbers that broadcast to shape {shape}" if shape else "a number"
        raise ValueError(f"{name} must be {kind}, got {value!r}.") from None
    require((np.abs(numbers) <= LARGEST).all(), name, f"finite, up to {LARGEST:g}", value)
    return result


def above(name, value, bound, shape=()):
    numbers = finite(name, value, shape)
    require((np.asarray(value, dtype=float) > bound).all(), name, f"above {bound:.6g}", value)
    return numbers


def at_least(name, value, bound, shape=()):
    numbers = finite(name, value, shape)
    require((np.asarray(value, dtype=float) >= bound).all(), name, f"at least {bound:.6g}", value)
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
    require((numbers <= bounds + slack).all(), name, f"at most {what}", value)
    return numbers


def positive_semidefinite(name, value, size):
    """Return a symmetric matrix without negative eigenvalues, from a number as a multiple of I."""
    if np.ndim(value) == 0:
        return at_least(name, value, 0.0) * np.eye(size)
    matrix = finite(name, value, (size, size))
    values, scale = _eigenvalues(name, matrix)
    require((values >= -_TOLERANCE * scale).all(), name, "positive semidefinite", value)
    return matrix


def check_setting(name, value, least, most):
    """Raise ValueError unless a setting of a family is a number from `least` to `most`."""
    number = value if type(value) is float and abs(value) <= LARGEST else finite(name, value)
    require(least <= number <= most, name, f"from {least:g} to {most:g}", value)


def check_positive_definite(name, matrix):
    values, _ = _eigenvalues(name, matrix)
    require((values > 0.0).all(), name, "positive definite", matrix)


def _eigenvalues(name, matrix):
    scale = np.abs(matrix).max(initial=0.0)
    asymmetry = np.abs(matrix - matrix.T).max(initial=0.0)
    require(asymmetry <= _TOLERANCE * scale, name, "symmetric", matrix)
    return np.linalg.eigvalsh(matrix), scale


def require(holds, name, what, value):
    """Raise ValueError, which says what a value must be, unless it holds."""
    if not holds:
        raise ValueError(f"{name} must be {what}, got {value!r}.")


def check_squares(name, values):
    """Raise ValueError if squares of data overflow."""
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(np.square(values).sum())
    if not is_finite:
        what = f"values whose squares overflow {values.dtype}"
        raise ValueError(f"{name} can't have {what}; rescale the data.")


def finite_start(name, values, shape, largest=_LARGEST_START):
    """Return a copy of a start value as kernels take it, checked for shape and size."""
    try:
        values = np.array(values, dtype=np.float64, order="C")
    except ours(OverflowError, TypeError, ValueError) as error:
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


def array_of(name, array, dtypes=REALS[:1], ndim=1):
    """Raise ValueError unless this is a C-ordered, aligned array of one of the types."""
    if not isinstance(array, np.ndarray) or array.ndim != ndim or array.dtype not in dtypes:
        kinds = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(f"{name} must be an array of {kinds} with {ndim} dimension(s).")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} must be C-contiguous and aligned: np.require(..., 'AC').")


def check_offsets(offsets, n, what, least):
    """Raise ValueError unless offsets go from 0 to n in steps of at least `least`."""
    array_of("offsets", offsets, (np.dtype(np.int64),))
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(f"offsets must begin with 0 and end with {n}, the number of {what}.")
    if (np.diff(offsets) < least).any():
        raise ValueError(
            f"offsets must rise by {least} or more: lengths are differences of offsets, in {what}."
        )


class NoStartError(ValueError):
    """Data are too few to start from."""


def check_columns(X):
    """Raise NoStartError if a column has nothing but NaN."""
    empty = np.flatnonzero(np.isnan(X).all(axis=0))
    if len(empty):
        raise NoStartError(f"Feature {empty[0]} of X has no value to start from: pass more rows.")


def check_threads(n_threads):
    """Raise ValueError unless a number of threads is at least 1, and fits a C int."""
    if not isinstance(n_threads, int | np.integer) or not 1 <= n_threads <= _MOST_THREADS:
        raise ValueError(f"n_threads must be from 1 to {_MOST_THREADS}, got {n_threads!r}.")


def check_weights(whose, weights, n):
    """Raise ValueError unless these are n finite weights from 0 up, not all 0."""
    array_of(f"sample_weight of {whose}", weights)
    # Subnormal weights are above 0.
    if len(weights) != n or not (weights >= 0.0).all() or not 0.0 < weights.max() < np.inf:
        raise ValueError(
            f"sample_weight of {whose} must be {n} finite weights of 0 or more, not all 0."
        )
