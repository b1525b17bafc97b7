"""What all tests share."""

import gc
import os
import reprlib
from collections import defaultdict
from zlib import crc32

import numpy as np
import pytest
from cases.kalman_filters import draw_system

# SciPy reads it once, when it is imported.
HAS_ARRAY_API = "SCIPY_ARRAY_API" in os.environ
# Skips of a platform are marks; slow tests may want data that are not at hand.
MAY_SKIP = ("skipif", "slow")
# Another than 0 draws other data, shuffles tests, and takes other samples of cases.
SEED = int(os.environ.get("SKLEARN_ONLINEEM_TEST_SEED", "0"))
# One in so many cases of a law runs, but at least two.
ONE_IN = int(os.environ.get("SKLEARN_ONLINEEM_TEST_ONE_IN", "1"))


@pytest.fixture
def rng(request):
    is_pinned = request.node.get_closest_marker("pinned")
    return np.random.default_rng(20260 + (0 if is_pinned else SEED))


@pytest.fixture(autouse=True)
def numeric_errors():
    """Fail what changes NumPy's handling of errors for the tests that come after it."""
    before = np.geterr()
    yield
    after = np.geterr()
    np.seterr(**before)
    assert after == before


@pytest.fixture
def system(rng):
    """A linear dynamical system by pykalman's names."""
    return draw_system(rng)


def left_out(items):
    """What other seeds run: of ONE_IN seeds in a row, each case is run by one or more.

    In a file it is the same cases of all laws, which share what is fitted to them.
    """
    laws = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("whole"):
            laws[item.nodeid.partition("[")[0]].append(item)
    for cases in laws.values():
        if (one_in := min(ONE_IN, len(cases) // 2)) > 1:
            cases.sort(key=lambda item: crc32(f"{item.path.stem} {item.callspec.id}".encode()))
            yield from (item for i, item in enumerate(cases) if (i - SEED) % one_in)


def pytest_collection_modifyitems(config, items):
    """Leave out what is not in the sample, and shuffle; checks of the array API need SciPy's."""
    apart = {item for item in items if "check_array_api" in item.name and not HAS_ARRAY_API}
    apart.update(left_out(items))
    if SEED:
        items.sort(key=lambda item: crc32(f"{SEED} {item.nodeid}".encode()))
    items[:] = [item for item in items if item not in apart]
    config.hook.pytest_deselected(items=list(apart))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Spare the collector what is made to collect tests, and lives until the last of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail what is skipped for want of anything but a platform."""
    # Reports of failures, expected ones too, parse the source. Where the collector finalises what a
    # cluster has left in the midst of it, and that formats a traceback, CPython 3.11 raises
    # SystemError (AST constructor recursion depth mismatch), and the worker ends.
    gc.disable()
    try:
        report = yield
    finally:
        gc.enable()
    is_excused = hasattr(report, "wasxfail") or any(map(item.get_closest_marker, MAY_SKIP))
    if report.skipped and not is_excused:
        report.outcome = "failed"
        report.longrepr = f"What tests need is installed, so that none is skipped: {call.excinfo}"
    return report


def pytest_make_parametrize_id(val):
    """Name a parameter by its value where pytest would number it."""
    value = val.tolist() if isinstance(val, np.ndarray) else val
    return reprlib.repr(value) if isinstance(value, (list, tuple, dict, slice)) else None
