"""What all tests share."""

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
