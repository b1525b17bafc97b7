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
        Name of the other library; empty if there is none.
    faster : float or None
        How many times faster than the rival; None if that is not installed, or its data are not.
    floor : float or None
        Our time over the least that this processor needs; None where that is not counted.
    baseline : float or None
        How many times faster than a page of NumPy, or of numba where NumPy would be slow for its
        own sake; None without one, or if numba is not installed.
    """

    group: str
    case: str
    rival: str
    faster: float | None
    floor: float | None = None
    baseline: float | None = None


def rival(name):
    """Return a module of `benchmarks.rivals`, or None if its library is not installed."""
    try:
        return import_module(f"benchmarks.rivals.{name}")
    except (ImportError, OSError):  # OSError: a shared library is missing
        return None


def compared(ours, theirs, n_rounds, operations=None, n_calls=1, rel_tol=None, baseline=None):
    """Return how many times faster ours is, its best time over its floor, and the baseline's ratio.

    All take turns, and ratios are medians of those of neighbouring runs.

    Parameters
    ----------
    ours : callable
    theirs, baseline : callable or None
        The same work; None if it is not installed, or there is none.
    n_rounds : int
    operations : Operations, default=None
        Of one call.
    n_calls : int, default=1
        Calls of a run.
    rel_tol : float, default=None
        The most by which their results may differ; None if they have none that say the same.
    """
    result = ours()
    others = [run for run in (theirs, baseline) if run is not None]
    for other in others:
        found = other()
        assert rel_tol is None or math.isclose(result, found, rel_tol=rel_tol), (result, found)
    rounds = [[seconds(run, n_calls=n_calls) for run in (*others, ours)] for _ in range(n_rounds)]
    *slow, own = zip(*rounds, strict=True)
    faster = {
        run: median(a / b for a, b in zip(times, own, strict=True))
        for run, times in zip(others, slow, strict=True)
    }
    rates = operations and measured_rates()
    floor = min(own) / rates.floor(operations) if rates else None
    return faster.get(theirs), floor, faster.get(baseline)
