"""Hostile arrays: what may stand where an array of numbers is expected.

Each generator takes a random generator and a valid array, and returns something else. `ANY` of them
are for estimators. What is below them gets `SOUND` ones: in aligned memory, and sparse matrices in
canonical form only: scipy brings others into it in place, and is undefined where their arrays
contradict each other.
"""

import tempfile

import numpy as np
import pandas as pd
from cases.array_likes import CLAIMS
from scipy import sparse

from fuzz.choosing import one_of

VALUES = [
    np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e200, 1e160, 1e-200, 5e-324, -5e-324, -0.0, 0.0,
    -1.0, 0.5, 1.0, 3.0, 1e8, 1e10, 1e15, 2.0**31, 2.0**53, 2.0**63, 2.0**64,
]  # fmt: skip
DTYPES = [
    "f2", "f4", ">f8", ">f4", ">i4", "g", "i1", "u1", "i2", "i4", "i8", "u8", "?", "c8", "c16", "O",
    "U8", "S8", "M8[s]", "m8[s]",
]  # fmt: skip
FORMATS = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


def numeric(array):
    """The array as floats; ones of its shape where it has none."""
    try:
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError):
        return np.ones(np.shape(array))


def with_values(rng, array):
    """Put a hostile value into an entry, a row, a column, or everywhere."""
    out = numeric(array)
    where = tuple(
        slice(None) if rng.random() < 0.4 else int(rng.integers(size)) for size in out.shape if size
    )
    if out.size:
        out[where] = one_of(rng, VALUES)
    return out


def rescaled(rng, array):
    with np.errstate(all="ignore"):
        return numeric(array) * one_of(rng, [-1.0, 0.0, 1e-320, 1e-200, 1e-100, 1e100, 1e200])


def shifted(rng, array):
    return numeric(array) + one_of(rng, [-1.0, 0.3, 1e8, 1e16, 1e150])


def of_dtype(rng, array):
    with np.errstate(all="ignore"):
        return numeric(array).astype(one_of(rng, DTYPES))


def huge_integers(rng, array):
    out = np.ones(np.shape(array), dtype=object)
    values = [2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**19, 10**400, -(10**30)]
    out[rng.random(out.shape) < 0.5] = one_of(rng, values)
    return out


def objects(rng, array):
    out = numeric(array).astype(object)
    if out.size:
        strange = [None, "a", "1", [1.0], {}, np.nan, 1j, object(), np.array([1.0]), True, b"x"]
        index = int(rng.integers(out.size))
        out.reshape(-1)[index : index + 1] = np.array([one_of(rng, strange), None], object)[:1]
    return out


def structured(rng, array):
    out = np.zeros(np.shape(array), dtype=[("a", "f8"), ("b", "i4")])
    return one_of(rng, [out, out["a"], out.view(np.recarray)])


def reshaped(rng, array):
    array = numeric(array)
    n, d = (array.shape + (1, 1))[:2]
    shapes = [
        (), (0,), (0, d), (n, 0), (0, 0), (0, 0, 0), (1,), (1, 1), (n, d + 1), (n, max(d - 1, 0)),
        (n + 1, d), (max(n - 1, 0), d), (1, d), (n, 1), (d, n), (n, d, 1), (1, n, d), (n, d, 2),
        (n * d,), (n,), (d,), (2, 700), (700, d), (2, 3, 4, 5),
    ]  # fmt: skip
    return np.resize(array if array.size else 1.0, one_of(rng, shapes))


def misaligned(rng, array):
    array = numeric(array)
    memory = np.zeros(array.nbytes + 1, dtype=np.uint8)
    out = memory[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def strided(rng, array):
    array = numeric(array)
    doubled = np.repeat(array, 2, axis=-1) if array.ndim else array
    views = [
        np.asfortranarray(array), doubled[..., ::2], array[::-1] if array.ndim else array,
        array[..., ::-1], np.broadcast_to(array[:1], array.shape) if array.ndim else array, array.T,
    ]  # fmt: skip
    return one_of(rng, views)


def read_only(rng, array):
    out = numeric(array)
    out.flags.writeable = False
    return out


def memory_mapped(rng, array):
    array = numeric(array)
    with tempfile.TemporaryFile() as file:
        out = np.memmap(file, np.float64, one_of(rng, ["w+", "r+"]), shape=max(array.size, 1))
        out[: array.size] = array.reshape(-1)
        return out[: array.size].reshape(array.shape)


def masked(rng, array):
    array = numeric(array)
    return np.ma.masked_array(array, rng.random(array.shape) < one_of(rng, [0.0, 0.3, 1.0]))


def matrix(rng, array):
    array = numeric(array)
    return array.view(np.matrix) if array.ndim == 2 else np.matrix(array.reshape(1, -1))


class Refusal(Exception):
    """Raised by code of the user: it is to come out of a call as it is."""


class Arraylike:
    """Something that NumPy takes for an array, in its own way."""

    def __init__(self, array, manner):
        self._array, self._manner = array, manner
        self.shape = array.shape

    def __len__(self):
        return {"longer": 10**6, "shorter": 0}.get(self._manner, len(self._array))

    def __getitem__(self, index):
        return self._array[index]

    def __array__(self, dtype=None, copy=None):
        if self._manner == "raises":
            raise Refusal("no array today")
        if self._manner == "changes":
            self._array = self._array[:-1]
        return np.array(self._array, dtype=dtype)

    def __repr__(self):
        return f"Arraylike({self._array.shape}, {self._manner!r})"


def arraylike(rng, array):
    array = np.atleast_1d(numeric(array))
    return Arraylike(array, one_of(rng, ["honest", "longer", "shorter", "raises", "changes"]))


def claim(rng, array):
    """One that says it has other rows than it gives, or other columns."""
    array = np.atleast_1d(numeric(array))
    n, *columns = array.shape
    n = one_of(rng, [n, n - 1, n + 1, 2 * n, 0, 1, 10**6, 10**7])
    shift = one_of(rng, [0, 0, 0, 1, -1, 1000])
    shape = n, *(max(size + shift, 0) for size in columns)
    return one_of(rng, CLAIMS)(array, one_of(rng, [shape, shape, shape, shape[:1], (*shape, 1)]))


# ---------------------------------------------------------------------------------------- sparse


def two_dimensional(array):
    array = numeric(array)
    return array.reshape(len(array) if array.ndim else 1, -1) if array.size else np.ones((2, 2))


def sparse_of(rng, array):
    kind, name = one_of(rng, ["array", "matrix"]), one_of(rng, FORMATS)
    out = getattr(sparse, f"{name}_{kind}")(two_dimensional(array))
    return out.astype(one_of(rng, ["f8", "f4", "i4", "i8", "u1", "?"]))


def untidy_csr(rng, array):
    """Valid, but with duplicates, unsorted, or with indices of 64 bits."""
    out = sparse.csr_array(np.abs(two_dimensional(array)) + 1.0)
    n, d = out.shape
    indices = rng.integers(0, d, len(out.indices)).astype(one_of(rng, [np.int32, np.int64]))
    return sparse.csr_array((out.data, indices, out.indptr.astype(indices.dtype)), shape=(n, d))


def corrupt_compressed(rng, array):
    """CSR, CSC or BSR whose own arrays contradict each other."""
    out = getattr(sparse, f"{one_of(rng, ['csr', 'csr', 'csc', 'bsr'])}_array")(
        np.abs(two_dimensional(array)) + 1.0
    )
    wrong = one_of(rng, [-1, 10**6, 2**31 - 1, -(2**31), out.shape[1]])
    part = one_of(rng, ["indices", "indptr", "indptr", "data", "lengths", "shape", "dtype"])
    if part in ("indices", "indptr"):
        values = getattr(out, part).copy()
        values[int(rng.integers(len(values)))] = wrong
        setattr(out, part, values)
    elif part == "data":
        out.data = out.data[: len(out.data) // 2]
    elif part == "lengths":
        out.indptr = out.indptr[:-1]
    elif part == "dtype":
        out.indices = out.indices.astype(one_of(rng, ["f8", "i1", "O"]))
    else:
        out._shape = (out.shape[0] + 5, out.shape[1])
    return out


def corrupt_coo(rng, array):
    out = sparse.coo_array(two_dimensional(array) + 1.0)
    out.coords[int(rng.integers(2))][0] = one_of(rng, [-1, 10**6, 2**31 - 1])
    return out


# ---------------------------------------------------------------------------------------- frames


def frame(rng, array):
    array = two_dimensional(array)
    names = [f"c{i}" for i in range(array.shape[1])]
    out = pd.DataFrame(array, columns=names)
    kinds = {
        "plain": lambda: out, "numbered": lambda: pd.DataFrame(array),
        "reordered": lambda: out[names[::-1]],
        "alike": lambda: out.set_axis(["c"] * len(names), axis=1),
        "object": lambda: out.astype(object),
        "missing": lambda: out.astype("Float64").mask(rng.random(out.shape) < 0.3),
        "category": lambda: out.astype("category"), "text": lambda: out.astype(str),
        "dates": lambda: out.apply(pd.to_datetime, errors="coerce"),
        "series": lambda: out[names[0]], "empty": lambda: out[:0], "columnless": lambda: out[[]],
    }  # fmt: skip
    return kinds[one_of(rng, list(kinds))]()


SOUND = [
    with_values, with_values, with_values, rescaled, shifted, of_dtype, of_dtype, huge_integers,
    objects, structured, reshaped, reshaped, reshaped, strided, read_only,
    memory_mapped, masked, matrix, arraylike, claim, claim, sparse_of, frame, frame,
]  # fmt: skip
UNSOUND = [untidy_csr, misaligned, corrupt_compressed, corrupt_compressed, corrupt_coo]
ANY = [*SOUND, *UNSOUND]
