"""What a call may do: the exceptions that are documented, and what no call may leave behind.

A call passes, or is refused by a documented exception; all else is a fault:

=============  ==================================================================================
crash          the process died: a signal, or a report of a sanitizer
hang           no end within the limit of time
exception      an exception that is not documented
memory         a MemoryError, where no size was asked for
nan            NaN in a result or a model, though all that came in was finite
infinite       an infinite parameter of a model, though all that came in was finite
changed        a call was refused, and the estimator is not as it was
wrote          the call wrote to what the user had passed
unraisable     a kernel's error that could not be raised: bounds, in the debug build
=============  ==================================================================================
"""

import collections
import traceback
import types
from dataclasses import fields, is_dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy import sparse

from fuzz.arrays import Refusal
from sklearn_onlineem.distributed import DistributionError

# Errors of estimators and of their results. NotFittedError is a ValueError, and so is LinAlgError;
# that a method is missing is an AttributeError when it is looked up, not when it is called.
DOCUMENTED = (ValueError, TypeError, DistributionError, Refusal)
# The layers below take what they are called with for what it should be: a string in the place of a
# model has no `e_step`, a number too large for C overflows, a tuple that is too short has no third
# element.
DOCUMENTED_BELOW = (*DOCUMENTED, AttributeError, OverflowError, ZeroDivisionError, LookupError)
# Frames, masked and sparse arrays in the places of arrays raise errors of their own, there.
OTHERS = ("pandas", "pyarrow", "scipy", "numpy")


class Fault(Exception):
    """A verdict, and what was found."""

    def __init__(self, verdict, message):
        super().__init__(verdict, message)
        self.verdict, self.message = verdict, message


def is_finite(value):
    """Whether all numbers in a value are finite; False of what nobody can look into."""
    try:
        return all(np.isfinite(array).all() for array in arrays_of(value))
    except Exception:
        return False


def check_finite(value, what, infinite=True):
    """Raise a Fault where arrays of a value have NaN or, unless told otherwise, infinities."""
    for array in arrays_of(value):
        if (np.isnan(array) & ~_is_undetermined(array)).any():
            raise Fault("nan", f"{what} has NaN, of shape {array.shape}")
        if infinite and np.isinf(array).any():
            raise Fault("infinite", f"{what} has infinities, of shape {array.shape}")


def _is_undetermined(array):
    """Whether numbers are covariances with a column of infinite variance."""
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    infinite = np.isposinf(np.diagonal(array, axis1=-2, axis2=-1))
    return infinite[..., None] | infinite[..., None, :]


def arrays_of(value, depth=0):
    """Yield all numbers in a value as arrays of floats."""
    if depth > 8:
        return
    parts = parts_of(value)
    if parts is not None:
        for part in parts:
            yield from arrays_of(part, depth + 1)
    elif isinstance(value, np.ma.MaskedArray):
        yield np.asarray(value.filled(np.nan)) if value.dtype.kind == "f" else np.full(1, np.nan)
    elif isinstance(value, float | np.floating):
        yield np.array(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        yield np.asarray(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind == "O":
        for part in value.reshape(-1)[:1000].tolist():
            yield from [np.array(np.nan)] if part is None else arrays_of(part, depth + 1)


def parts_of(value):
    """What a container holds; None of what is none."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | collections.deque):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, f.name) for f in fields(value)]
    if isinstance(value, pd.DataFrame | pd.Series):
        return [value.to_numpy()]
    if sparse.issparse(value):
        return [part for part in vars(value).values() if isinstance(part, np.ndarray)]
    return None


def fingerprint(value, depth=0):
    """Return something that is equal for two values only if these are alike to the last bit.

    Of dataclasses only the fields count: what is computed from them and kept is no change.
    """
    inner = partial(fingerprint, depth=depth + 1)
    if depth > 10 or value is None or isinstance(value, str | bytes | bool | int):
        return repr(value)[:200]
    if value is np.ma.masked:
        return "masked"
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, np.random.RandomState | types.GeneratorType):
        return type(value).__name__
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.ndarray):
        return value.shape, [inner(part) for part in value.reshape(-1).tolist()]
    if isinstance(value, pd.DataFrame):
        return list(map(str, value.columns)), inner(value.to_numpy())
    if isinstance(value, dict):
        return [(repr(key)[:200], inner(part)) for key, part in value.items()]
    if (parts := parts_of(value)) is not None:
        return type(value).__name__, [inner(part) for part in parts]
    if type(value).__module__.startswith("sklearn") and not isinstance(value, type):
        return type(value).__name__, inner(state_of(value))
    return type(value).__name__, id(value) if depth else 0


def state_of(subject):
    """All that an object of this library holds, but for locks and what follows from the rest."""
    state = getattr(subject, "__dict__", {})
    return {name: part for name, part in state.items() if name not in ("_mutex", "_present_rules")}


def is_of_others(error):
    """Whether an exception was raised by the code of an object that was passed.

    That of a library, or a memoryview of Python's, which takes no slices of rows and columns.
    """
    if isinstance(error, NotImplementedError) and "multi-dimensional sli" in str(error):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals.get("__name__", "").partition(".")[0] in OTHERS


def undocumented(error, where):
    """The Fault that an exception is."""
    verdict = "memory" if isinstance(error, MemoryError) else "exception"
    return Fault(verdict, f"{type(error).__name__} in {where}: {str(error)[:300]}")


def shown(arguments, valid=None):
    """Arguments in short: of those that are not the valid ones the parts that differ.

    Parameters
    ----------
    arguments : dict
    valid : dict, default=None
        None: all are shown as they are.
    """
    if valid is None:
        return ", ".join(f"{name}={_shown(value)}" for name, value in arguments.items())
    parts = []
    for name, value in arguments.items():
        is_valid = value is valid[name]
        parts += [f"{name}=..."] if is_valid else different_parts(name, valid[name], value)
    return ", ".join(parts)


def different_parts(name, valid, value):
    """Yield what the differing parts of a value are called, and are."""
    if type(valid) is type(value) and is_dataclass(value):
        for f in fields(value):
            own, other = getattr(valid, f.name), getattr(value, f.name)
            if own is not other:
                yield from different_parts(f"{name}.{f.name}", own, other)
    elif (
        type(valid) is type(value) and isinstance(value, list | tuple) and len(valid) == len(value)
    ):
        for i, (own, other) in enumerate(zip(valid, value, strict=True)):
            if own is not other:
                yield from different_parts(f"{name}[{i}]", own, other)
    else:
        yield f"{name}={_shown(value)}"


def _shown(value):
    if sparse.issparse(value):
        return f"<{value.format} {value.shape}>"
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = object.__repr__(value)
    if isinstance(value, np.ndarray):
        text = f"<{value.dtype} {value.shape} {text[:250]}>"
    return text[:300]
