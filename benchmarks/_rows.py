"""Rows of the tables of speed: what is compared, and the one way of comparing."""

import math
from importlib import import_module
from statistics import median
from typing import NamedTuple

from benchmarks._timing import seconds
from benchmarks.floors import measured_rates


class Row(NamedTuple):
    """A comparison on one thread, by wall seconds.

    Attributes
    ----------
    group : str
        What is done; rows of a group are one line of the README.
    case : str
        Which of the group.
    rival : str
        Name of the other library.
    faster : float or None
        How many times faster than the rival; None if that is not installed, or its data are not.
    floor : float or None
        Our time over the least that this processor needs; None where that is not counted.
    """

    group: str
    case: str
    rival: str
    faster: float | None
    floor: float | None = None


def rival(name):
    """Return a module of `benchmarks.rivals`, or None if its library is not installed."""
    try:
        return import_module(f"benchmarks.rivals.{name}")
    except (ImportError, OSError):  # OSError: a shared library is missing
        return None


def compared(ours, theirs, n_rounds, operations=None, n_calls=1, rel_tol=None):
    """Return how many times faster ours is, and its best time over the floor of its operations.

    Both take turns, and the ratio is the median of those of neighbouring runs.

    Parameters
    ----------
    ours : callable
    theirs : callable or None
        The same work; None if the rival is not installed.
    n_rounds : int
    operations : Operations, default=None
        Of one call.
    n_calls : int, default=1
        Calls of a run.
    rel_tol : float, default=None
        The most by which their results may differ; None if they have none that say the same.
    """
    ratios, best = [], math.inf
    result = ours()
    if theirs is not None:
        other = theirs()
        assert rel_tol is None or math.isclose(result, other, rel_tol=rel_tol), (result, other)
    for _ in range(n_rounds):
        slow = None if theirs is None else seconds(theirs, n_calls=n_calls)
        fast = seconds(ours, n_calls=n_calls)
        best = min(best, fast)
        if slow is not None:
            ratios.append(slow / fast)
    rates = operations and measured_rates()
    floor = best / rates.floor(operations) if rates else None
    return median(ratios) if ratios else None, floor
