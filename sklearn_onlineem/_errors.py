"""Errors of this package, and those of users' code that runs within it.

Signal handlers run at any line; callbacks, schedules, iterators and arrays of users where they are
called. What these raise is nobody else's to catch or to word.
"""

from __future__ import annotations

import sys

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
