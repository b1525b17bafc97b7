"""Parameters of any family as values: averaged, reordered, split into components.

A value is an array, or a tuple or dataclass of values; all else in it is a setting.
"""

import operator
import zlib
from collections import deque
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from functools import wraps
from itertools import chain
from numbers import Real
from typing import TypeVar

import numpy as np
from scipy import sparse

Value = TypeVar("Value", bound=type)


def quick(cls: Value) -> Value:
    """Decorate a frozen dataclass, so that its instances are made in a third of the time."""
    # In streams of single rows its calls of `object.__setattr__` would take a tenth of the time.
    init, names = cls.__init__, [f.name for f in fields(cls)]
    lines = [f"def __init__(self, {', '.join(names)}):", "values = self.__dict__"]
    lines += [f"values[{name!r}] = {name}" for name in names]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    made = {}
    exec("\n    ".join(lines), made)
    cls.__init__ = wraps(init)(made["__init__"])
    cls.__init__.__defaults__ = init.__defaults__
    return cls


def like(first, parts):
    """Return a tuple or dataclass of these parts, of the class of the first one."""
    is_plain = isinstance(first, tuple) and not hasattr(first, "_fields")
    return tuple(parts) if is_plain else type(first)(*parts)


def aligned(value, order="A"):
    """Return a value that was loaded with its arrays aligned, as kernels need them.

    Networks and spilled data have buffers at any address. Frozen dataclasses change in place. With
    ``order="C"``, as for values of users, arrays are C-ordered, too.
    """
    if isinstance(value, np.ndarray):
        is_ordered = order == "A" or value.flags.c_contiguous
        return value if value.flags.aligned and is_ordered else value.copy(order)
    if isinstance(value, dict):
        return {name: aligned(part, order) for name, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [aligned(part, order) for part in value]
        if all(map(operator.is_, parts, value)):
            return value
        return like(value, parts) if isinstance(value, tuple) else parts
    if sparse.issparse(value) or is_dataclass(value) and value.__dataclass_params__.frozen:
        values = getattr(value, "__dict__", {})
        for name, part in [*values.items()]:
            values[name] = aligned(part, order)
    return value


class Identified:
    """Mixin of objects that Dask identifies by their attributes, so by what they have learnt."""

    # Names of attributes that are not saved, and identify nothing.
    _transient = ()

    def __dask_tokenize__(self):
        from dask.base import normalize_token

        state = {name: x for name, x in vars(self).items() if name not in self._transient}
        return normalize_token((type(self), state))


class Loaded:
    """Mixin of values whose arrays are aligned when they are loaded."""

    def __setstate__(self, state):
        vars(self).update(aligned(state))


class Nested:
    """Mixin of dataclasses of two fields: an array (K, J), and a value of K J parts, J of each."""


class Rebuilt:
    """Mixin of dataclasses of which fields are saved; the rest is computed again."""

    def __getstate__(self):
        return {f.name: self.__dict__[f.name] for f in fields(self)}

    def __setstate__(self, state):
        self.__init__(**aligned(state))


def frozen(value):
    """Return a value whose arrays nobody can write to any more, in whatever it is made of."""
    if isinstance(value, np.ndarray):
        # Empty arrays that stand for no output are shared by all.
        if value.size:
            value.flags.writeable = False
    elif isinstance(value, tuple | list):
        for part in value:
            frozen(part)
    elif is_dataclass(value) and not getattr(value, "_arrays_grow", False):
        # Cached values too, which other threads may add meanwhile.
        for part in [*vars(value).values()]:
            frozen(part)
    return value


def n_bytes(value):
    if isinstance(value, np.ndarray):
        return value.nbytes
    if sparse.issparse(value):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    return sum(map(n_bytes, _parts(value)))


def n_numbers(value):
    return value.size if isinstance(value, np.ndarray) else sum(map(n_numbers, _parts(value)))


def _parts(value):
    """Return the parts of a tuple or dataclass; none for other values."""
    if isinstance(value, tuple):
        return value
    return [getattr(value, f.name) for f in fields(value)] if is_dataclass(value) else ()


def checksum(value):
    """Return a checksum of all arrays, numbers, names and types in a value."""
    total = 0
    for part in _bytes_of(value):
        total = zlib.crc32(part, total)
    return total


def _bytes_of(value):
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype.str} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, Real):
        yield f"{float(value).hex()};".encode()
    elif isinstance(value, str | bytes | np.dtype) or value is None:
        yield repr(value).encode("utf-8", "backslashreplace")
    else:
        yield f"{type(value).__name__} ".encode()
        for part in _parts_of(value):
            yield from _bytes_of(part)


def _is_of_numbers(record):
    return isinstance(record, tuple) and not any(isinstance(x, np.ndarray) for x in record)


def _parts_of(value):
    """Return the parts that identify a value, and their number."""
    if sparse.issparse(value):
        return value.shape, value.data, value.indices, value.indptr
    if isinstance(value, deque) and value and all(map(_is_of_numbers, value)):
        numbers = np.fromiter(chain.from_iterable(value), np.float64)  # Long histories are lists.
        return np.array([len(record) for record in value]), numbers
    if isinstance(value, tuple | list | deque | np.ndarray):
        return len(value), *value
    if isinstance(value, Mapping):
        return len(value), *value.items()
    if isinstance(value, Set):
        return len(value), *sorted(checksum(part) for part in value)
    return _parts(value)


def average(values, shares):
    """Return the average of arrays in values that are otherwise alike, else raise a TypeError."""
    # Settings are the first's; an array that all share stays the same to the last bit.
    first = values[0]
    if isinstance(first, np.ndarray):
        if all(np.array_equal(first, value) for value in values[1:]):
            return first
        return sum(share * value for share, value in zip(shares, values, strict=True))
    if not (isinstance(first, tuple) or is_dataclass(first)):
        if all(has_arrays_of(value, first) for value in values[1:]):
            return first
        raise TypeError(
            f"Values of {type(first).__name__} differ and cannot be averaged: it is neither an"
            " array, nor a tuple or dataclass of arrays."
        )
    parts = zip(*map(_parts, values), strict=True)
    return like(first, [average(part, shares) for part in parts])


def has_arrays_of(value, other):
    """Return whether arrays are equal, alone or within lists, dictionaries and objects."""
    if value is other or type(value) is not type(other):
        return value is other
    if isinstance(value, np.ndarray):
        return np.array_equal(value, other)
    if isinstance(value, list | tuple):
        return len(value) == len(other) and all(map(has_arrays_of, value, other))
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(
            has_arrays_of(value[key], other[key]) for key in value
        )
    if hasattr(value, "__dict__"):
        return has_arrays_of(vars(value), vars(other))
    # Not a number equals itself here.
    return bool(value == other or (value != value and other != other))


def _mapped(function, first, *others):
    """Return the value of what a function makes of the arrays of values that are otherwise alike.

    Numbers are the first's.
    """
    if isinstance(first, np.ndarray):
        return function(first, *others)
    if isinstance(first, Real):
        return first
    if isinstance(first, Nested):
        return _mapped_parts(function, first, *others)
    if not (isinstance(first, tuple) or is_dataclass(first)):
        raise TypeError(
            f"{type(first).__name__} is neither an array nor a tuple or dataclass of arrays, so its"
            " components cannot be told apart."
        )
    parts = zip(*map(_parts, (first, *others)), strict=True)
    return like(first, [_mapped(function, *part) for part in parts])


def _mapped_parts(function, *values):
    """Return the same of `Nested` values, whose arrays of all parts get an axis of components."""
    of_components, inner = zip(*map(_parts, values), strict=True)

    def of_parts(*arrays):
        grouped = [
            x.reshape(*own.shape, *x.shape[1:]) if len(x) == own.size else x
            for x, own in zip(arrays, of_components, strict=True)
        ]
        out = function(*grouped)
        return out if grouped[0] is arrays[0] else out.reshape(-1, *out.shape[2:])

    return like(values[0], [function(*of_components), _mapped(of_parts, *inner)])


def take(value, index):
    """Return components in the order of an index array; shared parts stay the same."""
    n = len(index)
    return _mapped(lambda x: np.ascontiguousarray(x[index]) if len(x) == n else x, value)


def components(value, index, n):
    """Return some of n components, by a slice or an array of their numbers; shared parts stay.

    TypeError unless the value is made of arrays.
    """
    return _mapped(lambda x: x[index] if len(x) == n else x, value)


def with_components(value, index, new, n):
    """Return a value in which `new` replaces components, an array of their numbers of n."""

    def replaced(old, part):
        if len(old) == n:
            old = old.copy()
            old[index] = part
        return old

    return _mapped(replaced, value, new)


def joined(singles, whole):
    """Return the value with these `components`, one each, and with shared parts as in `whole`."""

    def together(first, *others):
        *more, of_whole = others
        return np.concatenate([first, *more]) if len(of_whole) == len(singles) else first

    return _mapped(together, *singles, whole)


def side_by_side(groups, n_first):
    """Return the value of all components, given those of groups; shared parts are added.

    The first group has `n_first` components, at least 2, and no other has just one.
    """

    def together(*parts):
        return np.concatenate(parts) if len(parts[0]) == n_first else sum(parts[1:], parts[0])

    return _mapped(together, *groups)


def differences(a, b, name=""):
    """Yield ``(name, of a, of b)`` where two values differ in more than the numbers in arrays."""
    # Objects that are not dataclasses are alike if they are of one class.
    if type(a) is not type(b):
        yield name, type(a).__name__, type(b).__name__
    elif isinstance(a, np.ndarray):
        if a.shape != b.shape:
            yield f"shape of {name}", a.shape, b.shape
    elif is_dataclass(a):
        for f in fields(a):
            inner = f.name if f.name != "parameters" else name or f.name
            yield from differences(getattr(a, f.name), getattr(b, f.name), inner)
    elif isinstance(a, tuple) and len(a) == len(b) and n_bytes(a):
        for i, (own, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(own, other, f"{name}[{i}]")
    elif isinstance(a, int | float | str | tuple | frozenset) and a != b:
        yield name, a, b
