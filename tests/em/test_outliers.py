"""Which rows of a stream are outliers."""

from dataclasses import replace

import numpy as np
import pytest

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em.stages.outliers import Gate, far_away

# Quantiles of 50 % and 1 % are -1.5 and about -2: the bound is near -51.
USUAL = -np.linspace(1.0, 2.0, 1000)


def gate():
    return Gate().after(USUAL)


def left_out(rows, n=1000, value=-100.0, told=None):
    values = np.full(n, -1.5)
    values[rows] = value
    found, told = (told or gate()).outliers(values, 1000)
    return found.tolist(), told


def test_the_bound_is_a_hundred_distances_beyond_the_quantile():
    high, middle = np.quantile(-USUAL, [0.99, 0.5])
    assert gate().least == pytest.approx(-(high + 100.0 * (high - middle)))


def test_few_rows_tell_nothing():
    assert Gate().after(USUAL[:99]).least == -np.inf
    assert Gate().after(USUAL[::10]).least > -np.inf
    assert Gate().after(np.full(300, -np.inf)).least == -np.inf
    assert Gate().after(np.full(300, np.nan)).least == -np.inf


def test_surprising_rows_are_left_out_while_they_are_few():
    few, many = list(range(100, 340, 30)), list(range(100, 370, 30))
    assert left_out(few)[0] == few
    assert left_out(many)[0] == []
    # They are as dense, but too few in one batch; the rest has come before.
    told = left_out(list(range(860, 1000, 30)), value=-100.0)[1]
    values = np.full(100, -1.5)
    values[[5, 35, 65, 95]] = -1e9
    assert told.outliers(values, 2000)[0].tolist() == []
    assert told.outliers(values, 2400)[0].tolist() == [5, 35, 65, 95]


def test_what_recurs_is_no_outlier():
    told = gate()
    for n in range(1, 31):
        rows, told = left_out([500], value=-1000.0 * (1.0 + 0.02 * (n % 3)), told=told)
        assert rows == ([500] if n <= 10 else [])
        told = replace(told, suspects=())
    # Nor are those that surprise less, once the model has learnt some of them; others are.
    assert left_out([500], value=-60.0, told=told)[0] == []
    assert left_out([500], value=-1e6, told=told)[0] == [500]
    assert told.n_left_out == 10


def test_errors_of_all_sizes_stay_outliers():
    told = gate()
    for n in range(30):
        rows, told = left_out([500], value=-(10.0 ** (2.0 + n % 10)), told=told)
        assert rows == [500]
        told = replace(told, suspects=())


def test_a_steady_gate_does_not_grow():
    told = gate()
    for _ in range(500):
        told = told.after(USUAL[:20])
    assert sum(map(len, told.latest)) < 270
    assert len(told.before.latest) == 1000


def test_values_far_outside_of_what_a_column_has(rng):
    X = rng.normal(size=(200, 3))
    X[:, 2] = 0.0
    X[[3, 4], 2] = 5.0
    assert far_away(Rows(X)).tolist() == []
    X[7, 1], X[150, 0] = 1e4, -1e4
    assert far_away(Rows(X)).tolist() == [7, 150]
    X[9, 0] = np.nan
    assert far_away(Rows(X)).tolist() == [7, 150]
    X[:8, 1] = 1e4
    assert far_away(Rows(X)).tolist() == []
    assert far_away(Rows(X[140:160])).tolist() == []
