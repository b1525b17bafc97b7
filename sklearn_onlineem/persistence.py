"""Estimators in files that later versions read, and that hold no code.

A file is a zip archive without compression: ``state.json``, and arrays in NumPy's own format,
``0.npy``, ``1.npy`` and so on. In JSON, null, booleans, whole numbers, finite floats, texts and
lists stand for themselves. Anything else is an object with one key::

    {"array": 3}                                3.npy; no array is stored twice
    {"tuple": [...]}                            by its parts, as all in `_PLAIN`
    {"models.MixtureModel": {"family": ...}}    a class of this library, by its room and its name

So rooms, names of classes and those of their fields are part of the format. `tests/saved` has such
files, and all names. A field with a default can be added at any time. Whoever renames a class or a
field raises `FORMAT`, and lets `_value` translate the names in files of an earlier one.
"""

import inspect
import io
import json
import math
import os
import pkgutil
import re
import secrets
import zipfile
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from functools import cache, partial
from importlib import import_module

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from sklearn_onlineem._python import ours
from sklearn_onlineem._values import Loaded
from sklearn_onlineem._version import __version__
from sklearn_onlineem.estimators.fitted import PersistentState, restore, saved_state

__all__ = ["load", "save", "trusted_types"]

FORMAT = 1
_STATE = "state.json"
# More levels than any estimator has; a list that contains itself has more.
_MOST_LEVELS = 100
_DTYPE = re.compile(r"[<>|=]?[biufcSUmM][1-9]\d*(\[\d*\w+\])?")
_PACKAGE = "sklearn_onlineem"
# Parts of the package that no state comes from.
_WITHOUT_STATES = ("diagnostics", "displays", "interop", "persistence")
# Their states are arrays, numbers and texts, and what runs on them is NumPy and SciPy.
_TRANSFORMERS = {
    "sklearn.decomposition": ("IncrementalPCA", "PCA", "TruncatedSVD"),
    "sklearn.feature_extraction.text": ("CountVectorizer", "HashingVectorizer"),
    "sklearn.frozen": ("FrozenEstimator",),
    "sklearn.impute": ("SimpleImputer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": (
        "MaxAbsScaler", "MinMaxScaler", "Normalizer", "OneHotEncoder", "OrdinalEncoder",
        "RobustScaler", "StandardScaler",
    ),
}  # fmt: skip


def save(estimator: object, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file that this version and all later ones load.

    The file is whole at any time: it replaces an earlier one of its name once it is on the disk.

    Parameters
    ----------
    estimator : estimator, live filter or model
        Fitted or not, of this library, with transformers of scikit-learn within: scalers, encoders,
        PCA and others. A stream continues from its file with the same bits.
    path : str or path-like
        Name of the file.

    Raises
    ------
    ValueError
        If it has something that no file without code can hold, such as a callback, a class of your
        own, or another estimator of scikit-learn. Nothing is written then.
    OSError, TypeError
        If the file cannot be written, or `path` is no name.

    See Also
    --------
    load : Reads the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.persistence import load, save
    >>> X = np.random.default_rng(0).poisson([[1.0], [9.0]] * 200)
    >>> stream = PoissonMixture(2, random_state=0).partial_fit(X[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(stream, os.path.join(folder, "stream.npz"))
    ...     loaded = load(os.path.join(folder, "stream.npz"))
    >>> bool((loaded.partial_fit(X[200:]).means_ == stream.partial_fit(X[200:]).means_).all())
    True
    """
    if type(estimator) not in _names():
        raise ValueError(f"save takes an estimator of this library, got {_described(estimator)}.")
    arrays = []
    value = _written(estimator, type(estimator).__name__, arrays, {})
    document = {"format": FORMAT, "version": __version__, "value": value}
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    # A symbolic link stays one.
    path = os.path.realpath(os.fsdecode(path))
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                # Of no date, so that equal states have equal files.
                archive.writestr(zipfile.ZipInfo(_STATE), text)
                for number, array in enumerate(arrays):
                    part = zipfile.ZipInfo(f"{number}.npy")
                    with archive.open(part, "w", force_zip64=True) as content:
                        np.lib.format.write_array(content, array, (1, 0), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise


def load(path: str | os.PathLike[str]) -> object:
    """Return the estimator that a file holds.

    Nothing in a file runs, whoever wrote it: a file has values, and names of classes of a closed
    list. No more memory is taken than a multiple of the size of the file.

    Parameters
    ----------
    path : str or path-like
        Name of a file of `save`, of this version or an earlier one.

    Returns
    -------
    estimator : estimator, live filter or model
        As it was saved.

    Raises
    ------
    ValueError
        If a newer version has saved the file, or it is damaged or something else.
    OSError, TypeError
        If the file cannot be read, or `path` is no name.

    See Also
    --------
    save : Writes the file, with an example.
    """
    path = os.fsdecode(path)
    with open(path, "rb") as file:
        try:
            return _read(file)
        except ours(Exception) as error:
            raise ValueError(f"{path} cannot be loaded: {error!s:.500}") from error


def trusted_types() -> list[str]:
    """Return the names of the types that skops has to trust to load an estimator of this library.

    Returns
    -------
    types : list of str
        Of this library, NumPy, SciPy and Python, in alphabetical order.

    Examples
    --------
    >>> from sklearn_onlineem.persistence import trusted_types
    >>> "sklearn_onlineem.estimators.mixtures.gaussian.GaussianMixture" in trusted_types()
    True
    """
    known = (f"{kind.__module__}.{kind.__qualname__}" for kind in _classes().values())
    others = ["builtins.range", "numpy.dtype"]
    others += ["scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"]
    return sorted(others + [name for name in known if name.startswith(f"{_PACKAGE}.")])


# ---------------------------------------------------------------------------- what files may name


@cache
def _classes():
    """Return classes by the names that they have in files."""
    found = {}
    rooms = (info.name for info in pkgutil.iter_modules(import_module(_PACKAGE).__path__))
    for room in rooms:
        if room.startswith("_") or room in _WITHOUT_STATES:
            continue
        package = import_module(f"{_PACKAGE}.{room}")
        inner = pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}.")
        for module in [package, *(import_module(info.name) for info in inner)]:
            found |= {
                f"{room}.{kind.__name__}": kind
                for kind in vars(module).values()
                if isinstance(kind, type) and kind.__module__ == module.__name__
                and (_is_value(kind) or issubclass(kind, BaseEstimator | Loaded))
                and not inspect.isabstract(kind)
            }  # fmt: skip
    for module, names in _TRANSFORMERS.items():
        found |= {f"{module}.{name}": getattr(import_module(module), name) for name in names}
    return found


def _is_value(kind):
    """Return whether objects of a class are made of the values of its fields."""
    is_record = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return is_record or is_dataclass(kind) and kind.__dataclass_params__.frozen


@cache
def _names():
    return {kind: name for name, kind in _classes().items()}


def _described(value):
    what = "class" if isinstance(value, type) else "function" if inspect.isroutine(value) else ""
    kind = value if what else type(value)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return f"the {what} {name}" if what else f"an object of {name}"


# --------------------------------------------------------------------------------- plain values


def _dtype(text):
    if not _DTYPE.fullmatch(text):
        raise ValueError(f"no arrays are of the type {text!r:.60}")
    return np.dtype(text)


def _scalar(text, content):
    content, dtype = bytes.fromhex(content), _dtype(text)
    if len(content) != dtype.itemsize:
        raise ValueError(f"{len(content)} bytes are no number of the type {text!r:.60}")
    return np.frombuffer(content, dtype)[0]


def _objects(shape, values):
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array.reshape(shape)


def _random_state(name, key, position, has_gauss, gauss):
    # NumPy would read at any position.
    if name != "MT19937" or key.shape != (624,) or not 0 <= position <= 624:
        raise ValueError("a RandomState has no such state")
    state = np.random.RandomState(0)
    state.set_state((name, key, position, has_gauss, gauss))
    return state


def _csr_parts(matrix):
    return matrix.shape, matrix.data, matrix.indices, matrix.indptr


def _csr(kind, shape, *parts):
    matrix = kind(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _timestamp(text, zone):
    return import_module("pandas").Timestamp(text, tz=zone)


def _interval(left, right, closed):
    return import_module("pandas").Interval(left, right, closed)


# By their names in files: the type, what a value is made of, and how it is made of these.
_PLAIN = {
    "tuple": (tuple, list, lambda *parts: parts),
    "set": (set, list, lambda *parts: set(parts)),
    "frozenset": (frozenset, list, lambda *parts: frozenset(parts)),
    "dict": (dict, lambda value: map(list, value.items()), lambda *items: dict(items)),
    "range": (range, lambda value: [value.start, value.stop, value.step], range),
    "slice": (slice, lambda value: [value.start, value.stop, value.step], slice),
    "bytes": (bytes, lambda value: [value.hex()], bytes.fromhex),
    "date": (date, lambda value: [value.isoformat()], date.fromisoformat),
    "datetime": (datetime, lambda value: [value.isoformat()], datetime.fromisoformat),
    # Types of pandas, which need not be there, by their names.
    "Timestamp": ("Timestamp", lambda x: [x.isoformat(), x.tz and str(x.tz)], _timestamp),
    "Interval": ("Interval", lambda x: [x.left, x.right, x.closed], _interval),
    # Those that are not finite.
    "float": (float, lambda value: [repr(value)], float),
    "scalar": (np.generic, lambda x: [np.array(x).dtype.str, np.array(x).tobytes().hex()], _scalar),
    "dtype": (np.dtype, lambda value: [value.str], _dtype),
    "type": (type, lambda value: [np.dtype(value).str], lambda text: _dtype(text).type),
    "objects": (np.ndarray, lambda array: [array.shape, [*array.flat]], _objects),
    "RandomState": (np.random.RandomState, lambda value: value.get_state(), _random_state),
    "csr_array": (sparse.csr_array, _csr_parts, partial(_csr, sparse.csr_array)),
    "csr_matrix": (sparse.csr_matrix, _csr_parts, partial(_csr, sparse.csr_matrix)),
}
_TAGS = {kind: tag for tag, (kind, *_) in _PLAIN.items()}


def _tag_of(value):
    """Return the name of a value in `_PLAIN`, or None."""
    kind = type(value)
    if isinstance(value, np.generic | np.dtype) or kind is type and issubclass(value, np.generic):
        kind = next(base for base in (np.generic, np.dtype, type) if isinstance(value, base))
        dtype = np.array(value).dtype if kind is np.generic else np.dtype(value)
        return _TAGS[kind] if _DTYPE.fullmatch(dtype.str) else None
    if kind is type or kind is np.ndarray and value.dtype != object:
        return None
    return _TAGS.get(kind.__name__ if kind.__module__.partition(".")[0] == "pandas" else kind)


# ------------------------------------------------------------------------------------- writing


def _written(value, where, arrays, numbers, level=0):
    """Return a value as JSON; its arrays are added to a list, by their places in memory."""
    if level > _MOST_LEVELS:
        raise ValueError(f"{where:.200} cannot be saved: it contains itself, or too many levels.")

    def inner(part, name):
        return _written(part, f"{where}{name}", arrays, numbers, level + 1)

    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [inner(part, f"[{i}]") for i, part in enumerate(value)]
    if kind in (np.ndarray, np.memmap) and _DTYPE.fullmatch(value.dtype.str):
        # Arrays in the list keep their places.
        place = value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
        if place not in numbers:
            numbers[place] = len(arrays)
            arrays.append(value)
        return {"array": numbers[place]}
    if kind in _names():
        state = _state_of(value)
        _check_memory(kind, state)
        return {_names()[kind]: {name: inner(part, f".{name}") for name, part in state.items()}}
    tag = _tag_of(value)
    if tag is None:
        raise ValueError(
            f"{where:.200} cannot be saved: it is {_described(value)}. Files without code hold"
            " values of this library only. set_params(callbacks=None) removes callbacks; skops and"
            " pickle save other objects."
        )
    return {tag: [inner(part, f"[{i}]") for i, part in enumerate(_PLAIN[tag][1](value))]}


def _state_of(value):
    """Return what a value is made of, by names."""
    if isinstance(value, PersistentState):
        return saved_state(value)
    if isinstance(value, tuple):
        return value._asdict()
    state = value.__getstate__() or {}
    if not is_dataclass(value):
        return state
    # Properties that are cached are computed again.
    return {f.name: state[f.name] for f in fields(value) if f.name in state}


def _check_memory(kind, state):
    if state.get("memory") is not None:
        raise ValueError(
            f"memory of {kind.__name__} must be None in a file without code: joblib runs what is in"
            " its folder."
        )


# ------------------------------------------------------------------------------------- reading


def _read(file):
    with zipfile.ZipFile(file) as archive:
        members, size = archive.infolist(), file.seek(0, os.SEEK_END)
        # So nothing is larger than the file says.
        if any(m.compress_type for m in members) or sum(m.file_size for m in members) > size:
            raise ValueError("its parts are compressed, or larger than the file")
        document = json.loads(archive.read(_STATE), parse_constant=_refuse)
        number, version = (document[key] for key in ("format", "version"))
        if type(number) is not int or number < 1:
            raise ValueError(f"it has no format {number!r:.60}")
        if number > FORMAT:
            raise ValueError(
                f"sklearn_onlineem {version!s:.60} has saved it in format {number}, and this"
                f" version, {__version__}, reads formats up to {FORMAT}; install a newer version"
            )
        names = [f"{n}.npy" for n in range(len(members) - 1)]
        if sorted(m.filename for m in members) != sorted([*names, _STATE]):
            raise ValueError("it has parts that no state has")
        arrays = [_array(archive.read(name)) for name in names]
    value = _value(document["value"], arrays)
    if type(value) not in _names():
        raise ValueError(f"it holds no estimator, but {_described(value)}")
    return value


def _refuse(name):
    raise ValueError(f"{name} is not JSON")


def _array(content):
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of another format")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if math.prod(shape) * _dtype(dtype.str).itemsize != len(content) - file.tell():
        raise ValueError(f"an array has not the shape {shape}")
    order = "F" if is_fortran else "C"
    return np.ndarray(shape, dtype, content, file.tell(), order=order).copy("K")


def _value(coded, arrays, level=0):
    """Return the value that JSON stands for."""
    if level > _MOST_LEVELS:
        raise ValueError("it has too many levels")

    def inner(part):
        return _value(part, arrays, level + 1)

    if isinstance(coded, list):
        return [*map(inner, coded)]
    if not isinstance(coded, dict):
        return coded
    ((tag, content),) = coded.items()
    if tag == "array":
        return arrays[content]
    if tag in _PLAIN and isinstance(content, list):
        return _PLAIN[tag][2](*map(inner, content))
    if tag not in _classes():
        raise ValueError(f"this version has no class {tag!r:.100}")
    kind = _classes()[tag]
    state = {name: inner(part) for name, part in content.items()}
    _check_memory(kind, state)
    if _is_value(kind):
        return kind(**state)
    made = kind.__new__(kind)
    for attribute in state:
        if attribute.startswith("__") or callable(getattr(kind, attribute, None)):
            raise ValueError(f"{kind.__name__} has no attribute {attribute!r:.60}")
    if issubclass(kind, BaseEstimator):
        # An earlier version did not have all parameters.
        for attribute, parameter in inspect.signature(kind).parameters.items():
            if parameter.default is not parameter.empty:
                state.setdefault(attribute, parameter.default)
    if isinstance(made, PersistentState):
        restore(made, state)
    else:
        made.__setstate__(state)
    return made
