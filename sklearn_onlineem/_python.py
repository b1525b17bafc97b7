"""Errors of this package, and those of users' code in it; and properties that are computed once.

Signal handlers run at any line; callbacks, schedules, iterators and arrays of users where they are
called. What these raise is nobody else's to catch or to word.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

_LIBRARIES = {
    "sklearn_onlineem", "sklearn", "numpy", "scipy", "joblib", "threadpoolctl", "pandas", "polars",
    "pyarrow", "narwhals", "dask", "distributed",
} | sys.stdlib_module_names  # fmt: skip


def is_foreign(error: BaseException) -> bool:
    """Return whether code of the user has raised an error, or called what has raised it."""
    traceback = error.__traceback__
    while traceback is not None:
        # Frames of kernels may have no name.
        module = traceback.tb_frame.f_globals.get("__name__") or "sklearn_onlineem"
        if module.partition(".")[0] not in _LIBRARIES:
            return True
        traceback = traceback.tb_next
    return False


def ours(*kinds: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the kinds that an `except` clause catches: none if the present error is foreign.

    It is called as the clause is reached, ``except ours(ValueError):``.
    """
    return () if is_foreign(sys.exception()) else kinds


# Type checkers know the one of `functools`.
if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """As in `functools`, without the lock that it has before Python 3.12.

        A forked process would wait for ever on a lock that another thread of its parent held.
        Threads that meet compute the same value twice.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value
