"""Kernels of the Kalman filter: both paths of complete data, long sequences, what is refused."""

import itertools

import numpy as np
import pytest
from cases import kalman as textbook
from cases.comparing import assert_close, assert_identical
from cases.dynamical import changed, draw_data, draw_model
from numpy.testing import assert_allclose

from sklearn_onlineem._kernels import _kalman
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.models.kalman import linear_dynamical
from sklearn_onlineem.models.kalman._filter import (
    Padded,
    SharedGains,
    _row_moments,
    allocate_sums,
    prepared,
    statistics_of,
)


def both_ways(model, data):
    """Statistics and log-likelihood with shared gains, and with those of each sequence."""
    padded, first = Padded(model), (model.initial.offset, model.initial.covariance)
    sequences = prepared(data, first)
    gains = SharedGains(padded, first, data.lengths.max())
    assert gains.suffice
    return gains.expected(data), padded.expected(sequences, n_threads=1)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 2], [3, 400, 1, 7, 7], [2000], [50] * 30])
@pytest.mark.parametrize("k, d", [(1, 1), (2, 7), (5, 10), (9, 4), (17, 3)])
def test_complete_sequences_may_share_their_gains(k, d, lengths, rng):
    model, data = draw_model(rng, k, d), draw_data(rng, lengths, d)
    shared, own = both_ways(model, data)
    assert_close(shared, own, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1e8])
@pytest.mark.parametrize("noise, n_whitened", [(1.0, 3), (0.1, 3), (1e-5, 8)])
def test_what_no_state_has_a_part_in_is_known_from_moments_of_rows(noise, n_whitened, level, rng):
    """Unless it is so little that moments have too few digits of it."""
    far = {"emissions__offset": level + np.arange(8.0)}
    model = changed(draw_model(rng, 3, 8), emissions__covariance=noise**2 * np.eye(8), **far)
    data = model.sample(20, rng, draw_data(rng, [90] * 20, 8))[0]
    gains = SharedGains(Padded(model), (model.initial.offset, model.initial.covariance), 90)
    of_rows = np.empty(data.n_rows)
    gains.expected(data, of_rows)
    assert gains.expected(data)[1] == pytest.approx(of_rows.sum(), rel=1e-11)
    moments = data.X.mean(axis=0), np.zeros(8), 1800 * np.cov(data.X.T, bias=True)
    assert gains._without_noise(1800, *moments)[0][1].shape == (8, n_whitened)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("level, n, d", [(0.0, 1, 1), (3.0, 5000, 3), (1e8, 5000, 4)])
def test_moments_of_rows_have_all_digits(level, n, d, dtype, rng):
    X = (level + rng.normal(size=(n, d)) @ rng.normal(size=(d, d))).astype(dtype)
    X[:128] -= dtype(3.0)
    (centre, rest, scatter), threaded = (_row_moments(X, n_threads) for n_threads in (1, 2))
    assert_identical(threaded, (centre, rest, scatter))
    deviations = X - X[0].astype(np.float64)
    assert_allclose(centre - X[0] + rest, deviations.mean(axis=0), rtol=1e-12, atol=1e-12)
    deviations -= deviations.mean(axis=0)
    assert_allclose(scatter, deviations.T @ deviations, rtol=1e-11, atol=1e-11 * n)


@pytest.mark.parametrize("radius", [0.0, 1e-30, 0.5, 0.93, 0.99, 0.9995, 1.0, 1.1, 1e200])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_a_form_is_forgotten_once_its_power_is_nothing(k, radius, rng):
    form = np.linalg.qr(rng.normal(size=(k, k)))[0] * radius
    steps, power = _kalman.forgetting_steps(form), np.linalg.matrix_power
    if radius > 0.999:
        assert steps == 0  # It takes more than 2^16, or never is.
    else:
        assert np.abs(power(form, steps)).max() < 1e-24
        assert steps == 1 or np.abs(power(form, steps - 1)).max() >= 1e-24


def one_by_one(model, sequences):
    """Statistics, log-likelihoods of sequences and of rows, without batches."""
    padded, (k, d) = Padded(model), (model.n_components, model.n_features)
    sums, of_sequences = allocate_sums(k, d), np.empty(len(sequences))
    of_rows = np.empty(len(sequences.X))
    rows = (*4 * (None,), of_rows, *4 * (None,))
    _kalman.filter_pass(*padded._arguments(sequences), rows, None, sums, of_sequences, 1)
    return sums, of_sequences, of_rows


@pytest.mark.parametrize("missing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("lengths", [[1, 1], [3, 40, 1, 7, 7], [9] * 8, [5, 30, 2] * 40])
@pytest.mark.parametrize("k, d", [(1, 1), (2, 7), (5, 10), (9, 4), (17, 3), (3, 63)])
def test_batches_are_sequences_one_by_one(k, d, lengths, missing, rng):
    model, data = draw_model(rng, k, d), draw_data(rng, lengths, d, missing)
    data.X[rng.random(len(data.X)) < 0.1] = np.nan
    sequences = prepared(data, (model.initial.offset, model.initial.covariance))
    expected = one_by_one(model, sequences)
    padded = Padded(model)
    of_rows = np.empty(len(data.X))
    arguments = padded._arguments(sequences)
    sums, of_parts = padded._in_batches(padded._batched(sequences), *arguments, True, 1, of_rows)
    of_sequences = np.empty(len(lengths))
    of_sequences[np.argsort(-np.array(lengths), kind="stable")] = of_parts
    found = sums, of_sequences
    assert_close((*found, of_rows), expected, rtol=1e-8, atol=1e-8)
    assert_identical(model.row_log_likelihoods(data), of_rows)


def test_batches_have_singular_covariances_as_well(rng):
    """Of first states, and of noise; and states that are known once and for all."""
    model, data = draw_model(rng, 3, 4), draw_data(rng, [20, 5, 9], 4, 0.3)
    singular = np.diag([1.0, 0.0, 2.0])
    for noise in (singular, np.zeros((3, 3))):
        model = changed(model, initial__covariance=noise, transitions__covariance=singular)
        sequences = prepared(data, (model.initial.offset, model.initial.covariance))
        expected, of_rows, padded = one_by_one(model, sequences), np.empty(34), Padded(model)
        parts, arguments = padded._batched(sequences), padded._arguments(sequences)
        sums, of_parts = padded._in_batches(parts, *arguments, True, 1, of_rows)
        found = sums, of_parts[[0, 2, 1]], of_rows
        assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.pinned("whether a sequence is cut depends on how soon the model that is drawn forgets")
@pytest.mark.parametrize("n_rows", [8192, 20_000])
@pytest.mark.parametrize("noise, gap", [(1.0, 0), (1.0, 900), (1e-6, 0)])
def test_a_long_sequence_with_gaps_is_cut_where_that_changes_nothing(n_rows, noise, gap, rng):
    """Not where passes do not forget their starts, as in a long gap or with little noise."""
    model, data = draw_model(rng, 3, 4), draw_data(rng, [n_rows], 4, 0.1)
    moves = {"transitions__matrix": np.eye(3), "transitions__covariance": noise * np.eye(3)}
    model = changed(model, **moves)
    data.X[n_rows // 2 : n_rows // 2 + gap] = np.nan
    padded, first = Padded(model), (model.initial.offset, model.initial.covariance)
    sequences = prepared(data, first)
    sums, log_likelihoods, of_rows = one_by_one(model, sequences)
    found, parts = np.empty(n_rows), padded._batched(sequences)
    assert (parts is None) == (noise < 1.0)
    if parts is not None:
        arguments = padded._arguments(sequences)
        cut = padded._in_batches(parts, *arguments, True, 1, found)
        assert (cut is None) == (gap > 0)
    statistics, log_likelihood = padded.expected(sequences, 1, log_densities=found)
    expected = statistics_of(sums), log_likelihoods.sum(), of_rows
    assert_close((statistics, log_likelihood, found), expected, rtol=1e-9, atol=1e-9)
    assert_close(model.row_log_likelihoods(data), of_rows, rtol=1e-9, atol=1e-9)


def test_sequences_without_room_in_batches_are_taken_one_by_one(rng):
    for k, d, lengths in [(2, 64, [3, 3]), (2, 3, [4000]), (2, 3, [200_000, 1])]:
        model, data = draw_model(rng, k, d), draw_data(rng, lengths, d)
        sequences = prepared(data, (model.initial.offset, model.initial.covariance))
        assert Padded(model)._batched(sequences) is None


@pytest.mark.parametrize("lengths", [[1], [3, 400, 1, 7, 7], [2000], [50] * 30])
@pytest.mark.parametrize("k, d", [(1, 1), (5, 10), (9, 4)])
def test_log_densities_of_rows_are_those_of_the_filter(k, d, lengths, rng):
    model, data = draw_model(rng, k, d), draw_data(rng, lengths, d)
    padded, first = Padded(model), (model.initial.offset, model.initial.covariance)
    expected = one_by_one(model, prepared(data, first))[-1]
    for smooths in (True, False):
        found, gains = np.empty(data.n_rows), SharedGains(padded, first, max(lengths))
        gains.expected(data, found, smooths)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert_allclose(model.row_log_likelihoods(data), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.02])
def test_an_e_step_of_few_rows_is_that_of_many(missing, rng, monkeypatch):
    model, data = draw_model(rng, 2, 3), draw_data(rng, [9, 40, 1, 7], 3, missing)
    found = []
    for most in (0, np.inf):
        monkeypatch.setattr(linear_dynamical, "_MOST_UNSHARED", most)
        found.append(model.e_step(data))
    assert_close(*found, rtol=1e-9, atol=1e-9)


def test_gains_are_shared_by_rows_of_many_values_and_of_floats(rng, monkeypatch):
    monkeypatch.setattr(linear_dynamical, "_MOST_UNSHARED", 0)
    model, data = draw_model(rng, 2, 520), draw_data(rng, [9, 12], 520)
    shared, own = both_ways(model, data)
    assert_close(shared, own, rtol=1e-9, atol=1e-9)
    single = data.X.astype(np.float32)
    floats, doubles = (Sequences(Rows(X), data.offsets) for X in (single, single.astype(float)))
    assert_identical(model.e_step(floats), model.e_step(doubles))


def test_gains_that_change_slowly_are_shared_as_well(rng):
    """A random walk with little noise: the gains come to rest after thousands of steps."""
    model, data = draw_model(rng, 2, 2), draw_data(rng, [3000, 3000, 2999], 2)
    model = changed(model, transitions__matrix=np.eye(2), transitions__covariance=1e-6 * np.eye(2))
    shared, own = both_ways(model, data)
    assert_close(shared, own, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_rows", [600, 1500, 5000, 40_000])
@pytest.mark.parametrize("noise, is_cut", [(1.0, True), (1e-3, True), (1e-8, False)])
@pytest.mark.parametrize("level", [0.0, 1e6])
def test_stretches_of_a_long_sequence_know_nothing_of_each_other(n_rows, noise, is_cut, level, rng):
    """Whether passes forget soon where they started, or late; states may be far from the start."""
    model, data = draw_model(rng, 2, 3), draw_data(rng, [n_rows], 3)
    model = changed(
        model, transitions__matrix=np.eye(2), transitions__covariance=noise * np.eye(2),
        transitions__offset=np.zeros(2), initial__offset=np.full(2, level),
    )  # fmt: skip
    data.X[:] = np.cumsum(data.X, axis=0) * np.sqrt(noise) + level * np.ones((1, 2)) @ (
        model.emissions.matrix.T
    )
    padded, first = Padded(model), (model.initial.offset, model.initial.covariance)
    gains = SharedGains(padded, first, n_rows)
    if n_rows == 40_000:
        assert (gains._reach > 0) == is_cut
    of_rows = np.empty(n_rows)
    found = (*gains.expected(data, of_rows), of_rows)
    sequences = prepared(data, first)
    statistics, log_likelihood = padded.expected(sequences, 1)
    expected = statistics, log_likelihood, one_by_one(model, sequences)[-1]
    # Rounding is of the size of the level.
    assert_close(found, expected, rtol=1e-8, atol=1e-9 * (1.0 + level))


def test_a_singular_start_is_shared_as_well(rng):
    model, data = draw_model(rng, 3, 2), draw_data(rng, [30, 10], 2)
    model = changed(model, initial__covariance=np.zeros((3, 3)))
    shared, own = both_ways(model, data)
    assert_close(shared, own, rtol=1e-9, atol=1e-9)


def test_complete_sequences_among_others_change_nothing(rng):
    """Sequences with and without gaps, in any order and in one batch or two."""
    model, data = draw_model(rng, 2, 3), draw_data(rng, [40] * 500, 3)
    X = data.X.copy()
    X[::97] = np.nan
    data = Sequences(Rows(X), data.offsets)
    expected = [model.e_step(data[i : i + 1]) for i in range(500)]
    evidence, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, np.mean([value for _, value in expected]), rtol=1e-12)
    total = sum((e for e, _ in expected[1:]), expected[0][0]) * (1 / 500)
    assert_close(evidence, total, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_sequences_longer_than_a_block_are_smoothed_exactly(missing, rng):
    """Only the first and last rows of a long sequence are far from the middle."""
    model, data = draw_model(rng, 2, 2), draw_data(rng, [70_000], 2, missing)
    means, covariances, lags = model.smoothed(data)
    head = Sequences(Rows(data.X[:33_000]), np.array([0, 33_000]))
    parts_of = model.smoothed(head)
    for long, short in zip((means, covariances, lags), parts_of, strict=True):
        assert_allclose(long[:32_850], short[:32_850], rtol=1e-9, atol=1e-10)


def test_parts_add_up(rng):
    """Sequences of many parts, some of these with a single one that is cut into stretches."""
    lengths = [3000, 9000, 10, 700, 5000, 1, 6000, 200]
    model, data = draw_model(rng, 3, 4), draw_data(rng, lengths, 4)
    evidence, log_likelihood = model.e_step(data)
    each = [model.e_step(data[i : i + 1]) for i in range(len(lengths))]
    assert_allclose(log_likelihood, np.mean([value for _, value in each]), rtol=1e-12)
    total = sum((e for e, _ in each[1:]), each[0][0]) * (1 / len(lengths))
    assert_close(evidence, total, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("lengths", [[50] * 300, [9000, 40, 5000], [20_000]])
def test_threads_change_no_bit(lengths, missing, rng):
    model, data = draw_model(rng, 3, 4), draw_data(rng, lengths, 4, missing)

    def results(n_threads):
        threaded = Sequences(Rows(data.X, n_threads=n_threads), data.offsets)
        drawn = model.e_step(threaded, rng=np.random.default_rng(0))
        return model.e_step(threaded), drawn, model.filtered(threaded), model.smoothed(threaded)

    expected = results(1)
    for n_threads in (2, 4):
        assert_identical(results(n_threads), expected)


@pytest.mark.parametrize("lengths", [[1], [1, 2], [2000], [3, 400, 1, 7], [3, 800, 804, 809]])
def test_occupancies_are_sums_over_steps(lengths, rng):
    """A stable system may grow far beyond its start, as states have units of their own."""
    model, data = draw_model(rng, 5, 2), draw_data(rng, lengths, 2)
    if lengths == [2000]:
        model = changed(model, transitions__matrix=0.5 * np.eye(5) + np.eye(5, k=4) * 1e8)
    own = model.own_statistics(data)
    mean, covariance = model.initial.offset, model.initial.covariance
    left, emitting = 0.0, 0.0
    for t in range(max(lengths)):
        second = covariance + np.outer(mean, mean)
        left += np.mean(np.greater(lengths, t + 1)) * second
        emitting += np.mean(np.greater(lengths, t)) * second
        mean = model.transitions.matrix @ mean + model.transitions.offset
        covariance = model.transitions.matrix @ covariance @ model.transitions.matrix.T
        covariance += model.transitions.covariance
    for moments, expected in ((own.transitions, left), (own.emissions, emitting)):
        mean = moments.mean[0, :5]
        found = moments.scatter[0, :5, :5] + moments.weight * np.outer(mean, mean)
        assert_allclose(found, expected + np.zeros((5, 5)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "n_rows, radius",
    [*itertools.product([1, 10, 299, 300, 700], [0.3, 0.999, 1.0]), (1, 1.2), (5, 1.2)],
)
def test_occupancies_of_a_piece_are_sums_over_its_steps_and_some_ahead(n_rows, radius, rng):
    """Both ways of summing: step by step, and by doubling where the system is stable."""
    model = draw_model(rng, 3, 2)
    A = model.transitions.matrix
    A = A * radius / np.abs(np.linalg.eigvals(A)).max()
    model = changed(model, transitions__matrix=A)
    mean, covariance = rng.standard_normal(3) + 100.0, np.eye(3)
    data = draw_data(rng, [n_rows], 2).continued((mean, covariance))
    horizon = 300 if n_rows < 300 else 0
    if radius > 1.0 and horizon:
        horizon = int(np.log(10.0) / (2.0 * np.log(radius)))
    steps = np.ones(n_rows)
    if horizon > n_rows:
        steps = np.full(horizon, 0.5 * n_rows / horizon)
        steps[:n_rows] += 0.5
    left, emitting = 0.0, 0.0
    for step in steps:
        left += step * (covariance + np.outer(mean, mean))
        mean = A @ mean + model.transitions.offset
        covariance = A @ covariance @ A.T + model.transitions.covariance
        emitting += step * (covariance + np.outer(mean, mean))
    own = model.own_statistics(data)
    for moments, expected in ((own.transitions, left), (own.emissions, emitting)):
        mean = moments.mean[0, :3]
        found = moments.scatter[0, :3, :3] + moments.weight * np.outer(mean, mean)
        assert_allclose(moments.weight, steps.sum(), rtol=1e-12)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_iterations_remember_nothing_of_other_models(rng):
    data = draw_data(rng, [20] * 30, 3)
    for _ in range(3):
        model = draw_model(rng, 2, 3)
        fresh = Sequences(Rows(data.X.copy()), data.offsets)
        assert_identical(model.e_step(data), model.e_step(fresh))
    other = Sequences(data.rows, np.array([0, 100, 600]))
    fresh = Sequences(Rows(data.X.copy()), other.offsets)
    assert_identical(model.e_step(other), model.e_step(fresh))


@pytest.mark.parametrize("missing", [[], [0, 2], [0, 1, 2]])
def test_covariances_at_rest_are_those_of_the_recursions(missing, rng):
    """Of rows whose gaps are the same for long, between others, by the textbook formulas."""
    model = draw_model(rng, 2, 3)
    data = draw_data(rng, [700, 3, 200], 3, 0.3)
    data.X[50:650, missing] = np.nan
    data.X[300] = rng.normal(size=3)
    data.X[720:, missing] = np.nan
    rows = textbook.filtered(model, data.X, data.offsets)
    assert_close(model.filtered(data), (rows.mean, rows.covariance), rtol=1e-9, atol=1e-9)
    expected = textbook.smoothed(model, rows, data.offsets)
    assert_close(model.smoothed(data), expected, rtol=1e-9, atol=1e-9)
    assert_close(model.row_log_likelihoods(data), rows.log_likelihood, rtol=1e-9, atol=1e-9)
