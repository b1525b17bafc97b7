"""Names of a package, imported when first asked for; type checkers read imports beside them."""

import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from importlib import import_module

# Held while a name is imported, and while the process forks: a child would wait for ever for what
# another thread of its parent was importing.
_IMPORTING = threading.RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_IMPORTING.acquire,
        after_in_parent=_IMPORTING.release,
        after_in_child=_IMPORTING.release,
    )


def lazy_names(
    package: str, names: Mapping[str, Collection[str]], subpackages: Collection[str] = ()
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package.

    `package` is its name; it exports `names`, by the modules in it that define them, and
    `subpackages` are attributes of it without an import of their own.
    """
    home = {name: module for module, exported in names.items() for name in exported}

    def __getattr__(name):
        if name not in home and name not in subpackages:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with _IMPORTING:
            if name in subpackages:
                return import_module(f"{package}.{name}")
            try:
                value = getattr(import_module(f"{package}.{home[name]}"), name)
            except AttributeError as error:  # `from package import name` would hide it
                raise ImportError(f"{package}.{home[name]}: {error}") from error
        setattr(sys.modules[package], name, value)
        return value

    def __dir__():
        return sorted({*vars(sys.modules[package]), *home, *subpackages})

    return list(home), __getattr__, __dir__
