"""All that is public, as the page of the API lists it: classes, functions, and their methods."""

import inspect
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "sklearn_onlineem"
HAS_RIVER = find_spec("river") is not None
PAGE = Path(__file__).parents[2] / "doc" / "api.rst"


@cache
def listed_names():
    """Names with their modules, as ``.. currentmodule::`` and ``.. autosummary::`` list them.

    The adapter to river can be imported only where that is installed.
    """
    module, in_summary, found = None, False, []
    for line in PAGE.read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        if line and not line.startswith(" "):
            in_summary = line.startswith(".. autosummary::")
        elif in_summary and line and not line.lstrip().startswith(":"):
            found.append(f"{module}.{line.strip()}")
    return [path for path in found if HAS_RIVER or ".interop.river." not in path]


def imported(path):
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def public():
    """Yield classes and functions of our own, by their names; errors have Python's signature."""
    for path in listed_names():
        value = inspect.unwrap(imported(path))
        is_class = inspect.isclass(value) and not issubclass(value, Exception)
        if is_class or inspect.isfunction(value):
            yield path, value


def _is_method(value):
    return inspect.isfunction(value) or inspect.ismethod(value)


def methods(kind):
    """Yield public methods of our own, by their names."""
    for name, method in inspect.getmembers(kind, _is_method):
        ours = (getattr(method, "__module__", None) or "").startswith(PACKAGE)
        if ours and not name.startswith("_"):
            yield name, method
