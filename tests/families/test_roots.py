"""Newton's method for roots stops at rounding, however flat the function is there."""

import numpy as np
import pytest

from sklearn_onlineem.families.gamma import increasing_root
from sklearn_onlineem.families.wishart import _log_det_gap, _log_det_gap_slope


@pytest.mark.parametrize("side", [1, 2, 3, 5, 10])
def test_few_iterations_are_enough_for_any_degrees_of_freedom(side):
    degrees = side - 1.0 + 10.0 ** np.linspace(-3.0, 7.0, 400)
    n_calls = []

    def gap(n):
        n_calls.append(1)
        return _log_det_gap(n, side)

    target = _log_det_gap(degrees, side)
    found = increasing_root(
        gap,
        lambda n: _log_det_gap_slope(n, side),
        target,
        side - 1.0 + 0.5 * (degrees - side + 1.0),
        lower=side - 1.0,
    )
    assert len(n_calls) < 20
    rounding = 1e-13 * np.maximum(1.0, degrees) * np.maximum(1.0, np.log(degrees + 1.0))
    np.testing.assert_array_less(np.abs(found / degrees - 1.0), 1e-9 + 10.0 * rounding)
