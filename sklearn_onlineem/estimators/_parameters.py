"""Parameters of estimators, declared once: name, default, what is valid, and what it means.

An estimator is a dataclass whose fields are its parameters. So its signature is explicit, and its
`__init__` only stores, as scikit-learn asks for; `clone`, `get_params` and editors see nothing
unusual. A field says besides what values are valid, and whether a fitted model is shaped by it. Its
meaning stands in the docstring of the class that declares it, and is inserted in those of the
classes that inherit it.

NumPy's numbers are read as Python's, as arithmetic in int8 overflows from 128 on. They are kept as
they were given, and `get_params` returns them so.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from sklearn_onlineem.estimators._calls import naming_calls
from sklearn_onlineem.estimators._documentation import completed

__all__ = ["are_same", "contents", "estimator", "is_container", "parameter"]


class _Parameter:
    """What reads a parameter of an instance, and the default of the class."""

    def __init__(self, name, default):
        self._name, self._default = name, default

    def __get__(self, instance, owner):
        if instance is None:
            return self._default
        try:
            value = instance.__dict__[self._name]
        except KeyError:
            return self._default
        return value.item() if isinstance(value, np.number) else value

    def __set__(self, instance, value):
        instance.__dict__[self._name] = value
        # Objects that were built from the parameters.
        instance.__dict__.pop("_present_rules", None)

    def __delete__(self, instance):
        instance.__dict__.pop(self._name, None)
        instance.__dict__.pop("_present_rules", None)


Estimator = TypeVar("Estimator", bound=type)


def parameter(
    *, default: object, valid: list, structural: bool = False, kw_only: bool = True
) -> Any:
    """Declare a parameter of an estimator.

    Parameters
    ----------
    default : object
        Immutable.
    valid : list
        Constraints of scikit-learn's parameter validation, any of which is to hold.
    structural : bool, default=False
        Whether it shapes the model, so that a fitted one can't change it.
    kw_only : bool, default=True
        Whether it must be passed by name.
    """
    metadata = {"valid": valid, "structural": structural}
    return field(default=default, kw_only=kw_only, metadata=metadata)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: Estimator) -> Estimator:
    """Give an estimator its `__init__`, its constraints and a docstring with all parameters."""
    cls = dataclass(cls, eq=False, repr=False)
    declared = fields(cls)
    cls._parameter_constraints = {f.name: f.metadata["valid"] for f in declared}
    cls._structural_parameters = tuple(f.name for f in declared if f.metadata["structural"])
    cls._defaults = {f.name: f.default for f in declared}
    cls._values = staticmethod(itemgetter(*cls._defaults))
    for name, default in cls._defaults.items():
        setattr(cls, name, _Parameter(name, default))
    names = _own_first(cls)
    cls.__init__.__signature__ = _reordered(inspect.signature(cls.__init__), names)
    cls.__doc__ = completed(cls, names)
    return naming_calls(cls)


def is_container(value):
    """Whether a value of a parameter may be changed in its place."""
    if isinstance(value, np.generic):
        return False
    return isinstance(value, dict | list | tuple | set) or hasattr(value, "__array__")


def are_same(a, b):
    """Whether two values of a parameter are equal, or of one class that can't say."""
    if a is b or (type(a) is type(b) and type(a).__eq__ is object.__eq__):
        return True
    # NumPy 2.0 can't compare strings with numbers.
    return isinstance(a, str) == isinstance(b, str) and np.array_equal(a, b)


def contents(value):
    """What a container holds at present, to compare with what it holds later.

    Examples
    --------
    >>> prior = {"mean": [0.0, 1.0]}
    >>> before = contents(prior)
    >>> prior["mean"][1] = 2.0
    >>> contents(prior) == before
    False
    """
    if isinstance(value, float | int | str):
        return value
    if isinstance(value, dict):
        return {key: contents(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return list(map(contents, value))
    if isinstance(value, set):
        return value.copy()
    if not is_container(value):
        return value
    array = np.asarray(value)
    return array.shape, array.tolist() if array.dtype.hasobject else array.tobytes()


def _own_first(cls):
    """Names of parameters: the positional one, the class's own, and those of its bases."""
    positional = [f.name for f in fields(cls) if not f.kw_only]
    declared = (inspect.get_annotations(kind) for kind in cls.__mro__)
    names = dict.fromkeys([*positional, *(name for part in declared for name in part)])
    return [name for name in names if name in cls._defaults]


def _reordered(signature, names):
    """The signature as it is shown: types stand in the docstring."""
    ordered = [
        signature.parameters[name].replace(annotation=inspect.Parameter.empty)
        for name in ("self", *names)
    ]
    return signature.replace(parameters=ordered, return_annotation=inspect.Signature.empty)
