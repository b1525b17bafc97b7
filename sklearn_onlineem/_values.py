"""Parameters of any family as values: averaged, and with their components in another order."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
from scipy import sparse

__all__ = ["average", "differences", "n_bytes", "take"]


def n_bytes(value):
    """Return the size of the arrays that a value holds, as they are sent."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if sparse.issparse(value):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    if not is_dataclass(value):
        return 0
    return sum(n_bytes(getattr(value, f.name)) for f in fields(value))


def average(values, shares):
    """Average what is an array, in values that are alike in all else.

    Parameters
    ----------
    values : list
        Arrays, or dataclasses of arrays and of other things; the latter are those of the first.
    shares : list of float
        Adding up to 1.

    Returns
    -------
    averaged : object
        Like the values; an array that they all share stays as it is, to the last bit.
    """
    first = values[0]
    if isinstance(first, np.ndarray):
        if all(np.array_equal(first, value) for value in values[1:]):
            return first
        return sum(share * value for share, value in zip(shares, values, strict=True))
    if not is_dataclass(first):
        return first
    parts = ([getattr(value, f.name) for value in values] for f in fields(first))
    return type(first)(*(average(part, shares) for part in parts))


def take(value, index):
    """Return components in the order of an index array; what they all share stays as it is."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value[index]) if len(value) == len(index) else value
    if not is_dataclass(value):
        raise TypeError(
            f"{type(value).__name__} is neither an array nor a dataclass of arrays, so its family"
            " must override `taken`."
        )
    return type(value)(*(take(getattr(value, f.name), index) for f in fields(value)))


def differences(a, b, name=""):
    """Yield ``(name, of a, of b)`` where two values differ in more than the numbers in arrays.

    Objects that are not dataclasses are alike if they are of one class.
    """
    if type(a) is not type(b):
        yield name, type(a).__name__, type(b).__name__
    elif isinstance(a, np.ndarray):
        if a.shape != b.shape:
            yield f"shape of {name}", a.shape, b.shape
    elif is_dataclass(a):
        for f in fields(a):
            inner = f.name if f.name != "parameters" else name or f.name
            yield from differences(getattr(a, f.name), getattr(b, f.name), inner)
    elif isinstance(a, int | float | str | tuple | frozenset) and a != b:
        yield name, a, b
