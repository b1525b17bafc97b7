"""Hostile values in the place of valid ones, whatever these are.

`hostile` looks at the valid value, and returns a near relative or something else altogether:
arrays with other contents, types and layouts; containers with one part changed, cut or lying; other
numbers; and objects of wrong types.
"""

import array
import collections
from dataclasses import fields, is_dataclass, replace
from numbers import Number, Real

import numpy as np
import pandas as pd
from scipy import sparse

from fuzz.arrays import ANY, VALUES, Arraylike, Refusal
from fuzz.choosing import one_of

# A user who asks for many waits for them.
PATIENCE = {
    "max_iter", "n_init", "n_passes", "n_jobs", "sync_every", "n_shards", "n_samples",
    "n_sequences", "n_steps", "n_pseudo_samples", "n", "n_sweeps", "n_rounds",
}  # fmt: skip
INTEGERS = [0, 1, 2, 3, 5, 100, -1, -2, -128, 2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 10**30]
INTEGER_TYPES = [np.int8, np.uint8, np.int16, np.int64, np.uint64, np.intc, int, float, str, bool]


class Liar(collections.abc.Sequence):
    """A sequence with a wrong idea of its length."""

    def __init__(self, items, length):
        self._items, self._length = items, length

    def __len__(self):
        return self._length

    def __getitem__(self, index):
        return self._items[index]

    def __iter__(self):
        return iter(self._items)

    def __repr__(self):
        return f"Liar({len(self._items)} items, length {self._length})"


class LyingList(list):
    """A list with a wrong idea of its length."""

    def __init__(self, items, length):
        super().__init__(items)
        self._length = length

    def __len__(self):
        return self._length


def recursive_list():
    out = [1.0]
    out.append(out)
    return out


JUNK = [
    lambda: None, lambda: True, lambda: 0, lambda: -1, lambda: 3.7, lambda: float("nan"),
    lambda: 2j, lambda: "", lambda: "abc", lambda: "\ud800", lambda: b"abc",
    lambda: bytearray(b"abc"), lambda: memoryview(b"abcdefgh"), lambda: [], lambda: [[]],
    lambda: [None], lambda: [[], [[]]], lambda: ["a", "b"], lambda: (), lambda: {},
    lambda: {"a": [1.0, 2.0]}, lambda: {1.0, 2.0}, lambda: range(5),
    lambda: (value for value in ([1.0], [2.0])), lambda: iter([1.0, 2.0]), lambda: object(),
    lambda: object, lambda: len, lambda: np.float64, lambda: np.random.default_rng(0),
    lambda: array.array("d", [1.0, 2.0]), lambda: pd.Series(["a", None, "c"]),
    lambda: pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), lambda: pd.NA,
    lambda: np.array(["a", "bc"]), lambda: np.array([]), lambda: np.array(None),
    lambda: np.ma.masked, lambda: sparse.csr_array((0, 0)), lambda: sparse.coo_array(np.ones(3)),
    lambda: Liar([1.0, 2.0], 5), lambda: Arraylike(np.ones((2, 2)), "raises"), recursive_list,
]  # fmt: skip


def junk(rng):
    """Return an object of a type that nobody expects."""
    return one_of(rng, JUNK)()


def patient(name, value):
    """The value, unless it asks for so many that one would wait for long."""
    is_many = name in PATIENCE and isinstance(value, Real) and not value <= 5
    return 3 if is_many else value


def hostile(rng, value, arrays=ANY):
    """Return something hostile in the place of a valid value.

    Parameters
    ----------
    rng : numpy.random.Generator
    value : object
    arrays : list of callables (rng, array) -> object
        What takes the places of arrays.
    """
    if rng.random() < 0.15:
        return junk(rng)
    try:
        return _relative(rng, value, arrays)
    except (TypeError, ValueError, AttributeError, OverflowError, IndexError, Refusal):
        return junk(rng)  # there is no such relative of this value


def _relative(rng, value, arrays):
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        return one_of(rng, arrays)(rng, value)
    if isinstance(value, pd.DataFrame):
        return one_of(rng, arrays)(rng, value.to_numpy())
    if isinstance(value, Number) and not isinstance(value, bool | np.bool_):
        return hostile_number(rng, value)
    if isinstance(value, str):
        return hostile_text(rng, value)
    if is_dataclass(value) and not isinstance(value, type):
        return hostile_field(rng, value, arrays)
    if isinstance(value, tuple | list):
        return hostile_list(rng, value, arrays)
    if isinstance(value, dict):
        return hostile_dict(rng, value, arrays)
    return junk(rng)


def hostile_number(rng, value):
    if rng.random() < 0.5:
        return one_of(rng, INTEGERS)
    if rng.random() < 0.4:
        return one_of(rng, VALUES)
    return one_of(rng, INTEGER_TYPES)(value)


def hostile_text(rng, value):
    texts = [
        "", "a", value[::-1], value + "x", value[:-1], value.upper(), "\ud800", "\0", "\U0010ffff",
    ]  # fmt: skip
    return one_of(
        rng, [*texts, [*value], (*value,), np.array([*value]), value.encode(errors="replace")]
    )


def hostile_field(rng, value, arrays):
    """Another value of the same class, with one field that is hostile."""
    names = [f.name for f in fields(value)]
    if not names:
        return junk(rng)
    name = one_of(rng, names)
    try:
        changed = patient(name, hostile(rng, getattr(value, name), arrays))
        return replace(value, **{name: changed})
    except Exception:
        # The class refuses it: at its construction, which is a target of its own.
        return junk(rng)


def hostile_list(rng, value, arrays):
    """The same items in another container, or cut, or one of them hostile."""
    items = list(value)
    if rng.random() < 0.5 and items:
        index = int(rng.integers(len(items)))
        items[index] = hostile(rng, items[index], arrays)
        named = hasattr(value, "_fields")
        return type(value)(*items) if named else type(value)(items)
    others = [
        lambda: items[:-1], lambda: items[:0], lambda: [*items, *items], lambda: [*items, None],
        lambda: [items], lambda: tuple(items), lambda: (item for item in items),
        lambda: dict(enumerate(items)), lambda: collections.deque(items),
        lambda: Liar(items, one_of(rng, [0, 1, len(items) + 3, 10**6])),
        lambda: LyingList(items, one_of(rng, [0, 1, len(items) + 3, 10**6])),
        lambda: pd.Series(items), lambda: _object_array(items),
        lambda: [pd.DataFrame(item) if np.ndim(item) == 2 else item for item in items],
        lambda: [np.asarray(item).tolist() for item in items],
        lambda: [sparse.csr_array(item) if np.ndim(item) == 2 else item for item in items],
    ]  # fmt: skip
    return one_of(rng, others)()


def hostile_dict(rng, value, arrays):
    if rng.random() < 0.5 or not value:
        return {**value, one_of(rng, ["x", "", 0, None]): junk(rng)}
    key = one_of(rng, list(value))
    return {**value, key: hostile(rng, value[key], arrays)}


def _object_array(items):
    out = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        out[i] = item
    return out
