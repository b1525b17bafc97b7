"""What users call says what it takes and returns."""

import inspect
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import sklearn_onlineem
from sklearn_onlineem import families, models, statistics

PUBLIC = (sklearn_onlineem, families, models, statistics)
# Names that modules import for type checkers alone, lest they import each other, are public.
NAMES = {name: getattr(module, name) for module in PUBLIC for name in module.__all__}
PACKAGE = Path(sklearn_onlineem.__file__).parent


def is_ours(function):
    return Path(inspect.unwrap(function).__code__.co_filename).is_relative_to(PACKAGE)


def functions_of(cls):
    """Public methods and the readers of public properties, those of the bases included."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        for inner in ("__func__", "fget", "func", "fn"):
            member = getattr(member, inner, None) or member
        public = not name.startswith("_") or name == "__init__"
        if public and inspect.isfunction(member) and is_ours(member):
            yield inspect.unwrap(member)


def name_of(function):
    return f"{function.__module__.removeprefix('sklearn_onlineem.')}.{function.__qualname__}"


def public_functions():
    found = {}
    for thing in NAMES.values():
        for function in functions_of(thing) if inspect.isclass(thing) else [thing]:
            if inspect.isfunction(function) and is_ours(function):
                found[name_of(function)] = function
    return [found[name] for name in sorted(found)]


@pytest.mark.parametrize("function", public_functions(), ids=name_of)
def test_every_argument_and_result_has_a_type(function):
    names = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
    hints = inspect.get_annotations(function)
    expected = [*names, "return"] if function.__name__ != "__init__" else names
    assert [name for name in expected if name not in hints] == []


@pytest.mark.parametrize("function", public_functions(), ids=name_of)
def test_no_type_is_any_and_each_is_found(function):
    hints = get_type_hints(function, localns=NAMES)
    assert [name for name, hint in hints.items() if hint is Any] == []


def test_the_package_says_that_it_has_types():
    assert (PACKAGE / "py.typed").is_file()
