"""All that is public: classes, functions and methods of our own, by their names."""

import inspect
from importlib import import_module

import sklearn_onlineem

PACKAGE = "sklearn_onlineem"
ROOMS = "em data families models diagnostics displays distributed statistics".split()
MODULES = [sklearn_onlineem, *(import_module(f"{PACKAGE}.{room}") for room in ROOMS)]


def public():
    """Yield classes and functions of our own, by their names; errors have Python's signature."""
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            ours = getattr(value, "__module__", "").startswith(PACKAGE)
            is_class = inspect.isclass(value) and not issubclass(value, Exception)
            if ours and (is_class or inspect.isfunction(value)):
                yield f"{module.__name__}.{name}", value


def _is_method(value):
    return inspect.isfunction(value) or inspect.ismethod(value)


def methods(kind):
    """Yield public methods of our own, by their names."""
    for name, method in inspect.getmembers(kind, _is_method):
        ours = (getattr(method, "__module__", None) or "").startswith(PACKAGE)
        if ours and not name.startswith("_"):
            yield name, method
