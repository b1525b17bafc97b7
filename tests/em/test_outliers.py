"""Rows that surprise: quantiles of the latest numbers, and what is left out of learning."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.stages.outliers import Gate, Repetitions, RunningQuantiles, far_away

# Quantiles of 50 % and 1 % are -2.5 and about -4: the bound is near -151.
USUAL = -np.linspace(1.0, 4.0, 1000)


def gate():
    return Gate().after(USUAL)


def left_out(rows, n=1000, value=-1000.0, told=None):
    values = np.full(n, -1.5)
    values[rows] = value
    found, told = (told or gate()).before_batch(n).outliers(values)
    return found.tolist(), told


def test_the_bound_is_a_hundred_distances_beyond_the_quantile():
    high, middle = np.quantile(-USUAL, [0.99, 0.5])
    assert gate().least == pytest.approx(-(high + 100.0 * (high - middle)))


def test_rare_symbols_are_no_outliers_where_all_others_are_alike():
    told = Gate().after(np.full(1000, np.log(0.999)))
    assert left_out([500], value=np.log(1e-6), told=told)[0] == []
    assert left_out([500], told=told)[0] == [500]


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
    told = left_out(list(range(860, 1000, 30)), value=-1000.0)[1]
    values = np.full(100, -1.5)
    values[[5, 35, 65, 95]] = -1e9
    assert told.before_batch(100).outliers(values)[0].tolist() == []
    later = told.before_batch(400).before_batch(100)
    assert later.outliers(values)[0].tolist() == [5, 35, 65, 95]


def test_what_recurs_is_no_outlier():
    told = gate()
    for n in range(1, 31):
        rows, told = left_out([500], value=-1000.0 * (1.0 + 0.02 * (n % 3)), told=told)
        assert rows == ([500] if n <= 10 else [])
        told = replace(told, suspects=())
    # Nor are those that surprise less, once the model has learnt some of them; others are.
    assert left_out([500], value=-600.0, told=told)[0] == []
    assert left_out([500], value=-1e6, told=told)[0] == [500]
    assert told.n_left_out == 10


def test_errors_of_all_sizes_stay_outliers():
    told = gate()
    for n in range(30):
        rows, told = left_out([500], value=-(10.0 ** (3.0 + n % 10)), told=told)
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


def judged(gate, values, weight, offsets):
    """What a gate leaves out of a batch of sequences, and the gate after it."""
    rows = Rows(np.zeros((len(values), 1)), np.repeat(weight, np.diff(offsets)))
    repeats = Repetitions.of(Sequences(rows, offsets))
    found, gate = gate.before_batch(int(repeats.of_rows.sum())).outliers(values, repeats)
    return found, gate.after(values, repeats)


@pytest.mark.parametrize("longest", [1, 3, 60, 1500])
@pytest.mark.parametrize("seed", range(50))
def test_a_weight_counts_as_repetitions(seed, longest):
    rng = np.random.default_rng(seed)
    weighted, repeated, n_partly = gate(), gate(), 0
    for _ in range(6):
        lengths, most = rng.integers(1, longest + 1, 40), rng.choice([2, 4, 30])
        weight, offsets = rng.integers(0, most, 40), np.append(0, np.cumsum(lengths))
        weight[0] = 1
        values = -rng.uniform(1.0, 4.0, offsets[-1])
        surprising = rng.random(offsets[-1]) < rng.choice([0.003, 0.01, 0.05])
        values[surprising] = -(10.0 ** rng.choice([3.0, 4.0, 6.0], surprising.sum()))
        values[rng.random(offsets[-1]) < 0.1] = np.nan
        each = [np.arange(a, b) for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        rows = np.concatenate([np.tile(x, n) for x, n in zip(each, weight, strict=True)])
        found, weighted = judged(weighted, values, weight.astype(float), offsets)
        expected, repeated = repeated.before_batch(len(rows)).outliers(values[rows])
        repeated = repeated.after(values[rows])
        counts = np.bincount(rows[expected], minlength=len(values))
        n_partly += np.count_nonzero((counts > 0) & (counts < np.repeat(weight, lengths)))
        every = (counts > 0) & (counts == np.repeat(weight, lengths))
        assert found.tolist() == np.flatnonzero(every).tolist()
        assert weighted.least == repeated.least
        assert (weighted.excesses, weighted.accepted) == (repeated.excesses, repeated.accepted)
        np.testing.assert_array_equal(weighted.before.latest, repeated.before.latest)
    assert n_partly < 20


@pytest.mark.parametrize("seed", range(20))
def test_weights_count_before_there_is_a_model(seed):
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(200, 3)).round(1), rng.integers(0, 5, 200)
    X[rng.integers(0, 200, 6), rng.integers(0, 3, 6)] = 1e4
    X[rng.random(X.shape) < 0.05] = np.nan
    expected = far_away(Rows(np.repeat(X, weight, axis=0)))
    expected = np.unique(np.repeat(np.arange(200), weight)[expected])
    assert far_away(Rows(X, weight.astype(float))).tolist() == expected.tolist()
    ones = far_away(Rows(X, np.ones(200)))
    assert ones.tolist() == far_away(Rows(X)).tolist()


@pytest.mark.parametrize("scale", [1e-90, 0.3, 1.0, 1e90])
def test_weights_of_any_size_leave_few_numbers_in_memory(scale):
    told, X = gate(), np.zeros((4000, 1))
    for offsets in (np.arange(4001), np.array([0, 7, 4000])):
        data = Sequences(Rows(X, np.full(4000, scale)), offsets)
        for _ in range(3):
            values = -np.random.default_rng(0).uniform(1.0, 4.0, 4000)
            values[3900] = -1e6
            found, told = judged(told, values, data.sample_weight, offsets)
            # A row that counts a thousand times is one of many.
            assert (3900 in found) == (scale <= 1.0)
            assert len(told.before.latest) == 1000
            assert np.isfinite(told.least)


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
