"""What all tests share."""

import reprlib

import numpy as np
import pytest
from cases.kalman_filters import draw_system


@pytest.fixture
def rng():
    return np.random.default_rng(20260)


@pytest.fixture
def system(rng):
    """A linear dynamical system by pykalman's names."""
    return draw_system(rng)


def pytest_make_parametrize_id(val):
    """Name a parameter by its value where pytest would number it."""
    value = val.tolist() if isinstance(val, np.ndarray) else val
    return reprlib.repr(value) if isinstance(value, (list, tuple, dict, slice)) else None
