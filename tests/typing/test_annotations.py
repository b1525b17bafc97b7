"""What users call says what it takes and returns."""

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from cases.public_names import public

import sklearn_onlineem

pytestmark = pytest.mark.whole

PACKAGE = Path(sklearn_onlineem.__file__).parent
# These hold anything, where it is not said what.
GENERIC = {dict, list, set, tuple, Callable, np.ndarray, np.dtype}


def is_ours(function):
    return Path(inspect.unwrap(function).__code__.co_filename).is_relative_to(PACKAGE)


def functions_of(cls):
    """Public methods and the readers of public properties, those of the bases included."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        for wrapped in ("fget", "fn", "func", "__func__"):
            member = getattr(member, wrapped, None) or member
        public = not name.startswith("_") or name in ("__init__", "__call__")
        if public and inspect.isfunction(member) and is_ours(member):
            yield inspect.unwrap(member)


THINGS = dict(public())
CLASSES = {path: thing for path, thing in THINGS.items() if inspect.isclass(thing)}


def functions(path):
    """The function of this path, or those of the class."""
    thing = THINGS[path]
    return [*functions_of(thing)] if inspect.isclass(thing) else [thing]


@cache
def only_for_readers(module):
    """What a module imports for type checkers alone: it need not be installed, or is a circle."""
    names = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for line in node.body:
                try:
                    exec(ast.unparse(line), names)
                except ModuleNotFoundError:
                    names |= {each.name: type(each.name, (), {}) for each in line.names}
    return names


def hints_of(thing):
    kinds = thing.__mro__ if inspect.isclass(thing) else [thing]
    modules = [kind.__module__ for kind in kinds if kind.__module__.startswith("sklearn_onlineem")]
    names = [pair for module in modules for pair in only_for_readers(module).items()]
    return get_type_hints(thing, localns=dict(names))


def is_vague(hint):
    """Whether a type is Any, or holds it; but for what NumPy takes for an array."""
    if isinstance(hint, list):  # what a callable takes
        return any(map(is_vague, hint))
    if hint is Any or hint in GENERIC:
        return True
    if getattr(hint, "__module__", "").startswith("numpy._typing"):
        return False
    parts = get_args(hint)[1:] if get_origin(hint) is np.ndarray else get_args(hint)
    return any(is_vague(part) for part in parts if part is not ...)


@pytest.mark.parametrize("path", THINGS)
def test_every_argument_and_result_has_a_type(path):
    for function in functions(path):
        names = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
        hints = inspect.get_annotations(function)
        expected = [*names, "return"] if function.__name__ != "__init__" else names
        assert [name for name in expected if name not in hints] == [], function.__qualname__


@pytest.mark.parametrize("path", THINGS)
def test_no_type_is_any_and_each_is_found(path):
    for function in functions(path):
        vague = [name for name, hint in hints_of(function).items() if is_vague(hint)]
        assert vague == [], function.__qualname__


@pytest.mark.parametrize("path", CLASSES)
def test_no_field_is_any(path):
    public = {k: v for k, v in hints_of(CLASSES[path]).items() if not k.startswith("_")}
    assert [name for name, hint in public.items() if is_vague(hint)] == []


def test_the_package_says_that_it_has_types():
    assert (PACKAGE / "py.typed").is_file()
