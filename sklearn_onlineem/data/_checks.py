"""What data are made of, checked once, where they are made: kernels read what pointers say."""

from __future__ import annotations

import numpy as np

__all__ = ["array_of", "check_offsets", "check_threads", "room"]

_MOST_THREADS = np.iinfo(np.intc).max


def array_of(name, array, dtypes, ndim=1):
    """Raise ValueError unless this is a C-ordered, aligned array of one of the types."""
    if not isinstance(array, np.ndarray) or array.ndim != ndim or array.dtype not in dtypes:
        kinds = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(f"{name} must be an array of {kinds} with {ndim} dimension(s).")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name} must be C-contiguous and aligned: np.require(..., 'AC').")


def check_offsets(offsets, n, what, least):
    """Raise ValueError unless offsets go from 0 to n by `least` at least."""
    array_of("offsets", offsets, (np.dtype(np.int64),))
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n:
        raise ValueError(f"offsets must begin with 0 and end with {n}, the number of {what}.")
    if (np.diff(offsets) < least).any():
        raise ValueError(
            f"offsets must rise by {least} or more: the lengths of sequences in {what}."
        )


def check_threads(n_threads):
    """Raise ValueError unless a number of threads is 1 or more, and a C int."""
    if not isinstance(n_threads, int | np.integer) or not 1 <= n_threads <= _MOST_THREADS:
        raise ValueError(f"n_threads must be from 1 to {_MOST_THREADS}, got {n_threads!r}.")


def room(name, shape):
    """An empty array of floats; ValueError, in the name of what asked for it, if it is too large.

    Parameters
    ----------
    name : str
        The parameter, or "the parameter of whom".
    shape : tuple of int
    """
    try:
        return np.empty(shape)
    except (MemoryError, OverflowError, ValueError):
        size = " x ".join(map(str, shape))
        raise ValueError(f"{name} is too large: there is no memory for {size} numbers.") from None
