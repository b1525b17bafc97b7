"""Running quantiles of a stream of numbers."""

import pickle

import numpy as np
import pytest

from sklearn_onlineem.em.stages.outliers import RunningQuantiles


@pytest.mark.parametrize("sizes", [[1] * 37, [37], [5, 0, 31, 1], [36, 1]])
def test_quantiles_are_those_of_the_latest_numbers_however_the_stream_is_cut(sizes):
    values, running = np.random.default_rng(0).standard_t(2.0, size=37), RunningQuantiles(window=10)
    for part in np.split(values, np.cumsum(sizes)[:-1]):
        running = pickle.loads(pickle.dumps(running)).after(part)
    np.testing.assert_array_equal(running.latest, values[-10:])
    for q in (0.0, 0.01, 0.5, 0.77, 0.99, 1.0):
        assert running.quantile(q) == pytest.approx(np.quantile(values[-10:], q), rel=1e-14)


def test_quantiles_of_few_equal_and_infinite_numbers():
    running = RunningQuantiles()
    assert np.isnan(running.quantile(0.5))
    assert running.after([0.1, 0.1, 0.1]).quantile(0.3) == 0.1
    infinite = running.after([-np.inf, 0.0, 1.0, np.inf, np.inf])
    assert [infinite.quantile(q) for q in (0.0, 0.1, 0.375, 0.9, 1.0)] == [
        -np.inf, -np.inf, 0.5, np.inf, np.inf
    ]  # fmt: skip


def test_numbers_of_the_caller_are_copied():
    values = np.arange(3.0)
    running = RunningQuantiles().after(values)
    values[:] = 9.0
    assert running.quantile(1.0) == 2.0
