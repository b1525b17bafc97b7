"""Learning row by row: smoothed statistics are sums over all paths, M-steps those of the model."""

from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.enumeration import all_paths

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families import Categorical, Poisson
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel, HiddenMarkovStatistics
from sklearn_onlineem.models.row_by_row import SmoothedStatistics, learn_rows
from sklearn_onlineem.models.terminations import EndState
from sklearn_onlineem.statistics import Sums

K, N_CATEGORIES = 3, 4


def model_of(rng, n_columns=1, **settings):
    family = Categorical(N_CATEGORIES)
    symbols = rng.dirichlet(np.ones(N_CATEGORIES), size=(K, n_columns)).reshape(K, -1)
    moves = rng.dirichlet(np.ones(K), size=K)
    return HiddenMarkovModel(family, rng.dirichlet(np.ones(K)), moves, symbols, **settings)


def data_of(rng, lengths, n_columns=1, missing=0.0, before=None, labels=None):
    X = rng.integers(N_CATEGORIES, size=(sum(lengths), n_columns)).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    offsets = np.cumsum([0, *lengths])
    return Sequences(Rows(X, labels=labels), offsets, before)


def random_memory(rng, n_columns=1):
    n_statistics = K + K * K + K * N_CATEGORIES * n_columns
    return SmoothedStatistics(rng.dirichlet(np.ones(K)), rng.random((K, n_statistics)))


def own_memory(model):
    return SmoothedStatistics.of_model(model, data_of(np.random.default_rng(0), [4, 6]))


def parts_of(flat, n_columns=1):
    """Statistics of the model, from a row of smoothed ones."""
    start, moves, symbols = np.split(flat, [K, K + K * K])
    total = symbols.reshape(K, -1)
    sums = Sums(total.sum(axis=1) / n_columns, total)
    return HiddenMarkovStatistics(start, moves.reshape(K, K), sums)


def over_all_paths(model, data, before, step_sizes):
    """Expected statistics given all rows, and the log-likelihood, by enumeration."""
    X, n = data.X, data.n_rows
    begins = set(data.offsets[:-1].tolist()) - ({0} if data.before is not None else set())
    weights = step_sizes * np.append(np.cumprod((1.0 - step_sizes)[:0:-1])[::-1], 1.0)
    kept, labels = np.prod(1.0 - step_sizes), data.rows.labels
    symbols = model.parameters.reshape(K, X.shape[1], N_CATEGORIES)
    total, expected = 0.0, 0.0
    for first, *path in all_paths(K, n + 1):
        # The state before all rows, then those of the rows.
        probability, previous = before.filtered[first], first
        statistics = kept * before.conditional[first]
        start, moves, shown = np.split(statistics, [K, K + K * K])
        for t, state in enumerate(path):
            if t in begins:
                probability *= model.start[state]
                start[state] += weights[t]
            else:
                probability *= model.transmat[previous, state]
                moves[previous * K + state] += weights[t]
            if labels is not None and labels[t] not in (-1, state):
                probability = 0.0
            for j in np.flatnonzero(~np.isnan(X[t])):
                probability *= symbols[state, j, int(X[t, j])]
                shown.reshape(symbols.shape)[state, j, int(X[t, j])] += weights[t]
            previous = state
        total += probability
        expected = expected + probability * statistics
    return expected / total, np.log(total)


@pytest.mark.parametrize("n_columns", [1, 2])
@pytest.mark.parametrize("continues", [False, True])
@pytest.mark.parametrize("lengths", [[5], [2, 3], [1, 1, 3]], ids=str)
def test_statistics_are_expectations_over_all_paths(lengths, continues, n_columns):
    rng = np.random.default_rng(len(lengths))
    model, memory = model_of(rng, n_columns), random_memory(rng, n_columns)
    labels = np.array([-1, -1, 2, -1, -1], dtype=np.intc)
    data = data_of(
        rng, lengths, n_columns, 0.2, memory.filtered if continues else None, labels
    )  # fmt: skip
    step_sizes = rng.random(5)
    learnt, after, log_likelihoods = learn_rows(model, data, memory, step_sizes, n_held=5)
    expected, log_likelihood = over_all_paths(model, data, memory, step_sizes)
    assert_close(after.average, expected, rtol=1e-12, atol=1e-14)
    assert_close(log_likelihoods.sum(), log_likelihood, rtol=1e-12)
    assert_identical(learnt, model)


def test_step_sizes_of_one_by_t_are_forward_backward():
    rng = np.random.default_rng(0)
    model, data = model_of(rng), data_of(rng, [200])
    memory, step_sizes = own_memory(model), 1.0 / np.arange(1, 201)
    _, after, log_likelihoods = learn_rows(model, data, memory, step_sizes, n_held=200)
    evidence, log_likelihood = model.e_step(data)
    found = parts_of(after.average)
    for name in ("start", "transitions"):
        assert_close(getattr(found, name), getattr(evidence, name) / 200, rtol=1e-11)
    assert_close(found.emissions.total, evidence.emissions.total / 200, rtol=1e-11)
    assert_close(log_likelihoods.sum(), log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("learnt", ["ste", "te", "s", "e"])
@pytest.mark.parametrize("n_columns", [1, 2])
def test_m_steps_are_those_of_the_model(n_columns, learnt):
    rng = np.random.default_rng(1)
    model = replace(model_of(rng, n_columns, learnt=learnt))
    model.transmat[0] = [0.0, 0.4, 0.6]
    memory = own_memory(model)
    prior = parts_of(rng.random(memory.conditional.shape[1]), n_columns)
    prior.transitions[model.transmat == 0.0] = 0.0
    data, step_sizes = data_of(rng, [4, 3], n_columns), 1.0 / np.arange(2, 9)
    for t in range(7):
        begins = t in (0, 4)
        row = Sequences(
            Rows(data.X[t : t + 1]), np.array([0, 1]), None if begins else memory.filtered
        )
        expected, _ = over_all_paths(model, row, memory, step_sizes[t : t + 1])
        model, memory, _ = learn_rows(model, row, memory, step_sizes[t : t + 1], [(0.1, prior)])
        terms = parts_of(expected, n_columns) + prior * 0.1
        assert_close(model, model.m_step(terms), rtol=1e-12, atol=1e-14)
    assert model.transmat[0, 0] == 0.0


def test_a_state_without_weight_keeps_its_parameters():
    rng = np.random.default_rng(2)
    model = model_of(rng)
    model.start[:], model.transmat[:] = [1.0, 0.0, 0.0], np.eye(K)
    empty = SmoothedStatistics(model.start, np.zeros_like(random_memory(rng).conditional))
    learnt, _, _ = learn_rows(model, data_of(rng, [5]), empty, np.full(5, 0.5))
    assert_identical(learnt.parameters[1:], model.parameters[1:])
    assert_identical(learnt.transmat, model.transmat)
    assert np.isfinite(learnt.parameters).all()


def test_symbols_that_were_not_seen_have_the_floor():
    rng = np.random.default_rng(3)
    model, data = model_of(rng), Sequences(Rows(np.zeros((3, 1))), np.array([0, 3]))
    learnt, _, _ = learn_rows(model, data, random_memory(rng), np.ones(3))
    floor = model.family.min_probability
    assert_close(learnt.parameters[:, 1:], np.full((K, 3), floor), rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("cut", range(1, 30))
def test_cuts_change_nothing(cut):
    rng = np.random.default_rng(4)
    model, data = model_of(rng), data_of(rng, [30])
    memory, step_sizes = own_memory(model), np.arange(2.0, 32.0) ** -0.6
    whole = learn_rows(model, data, memory, step_sizes, n_held=7)
    first = Sequences(Rows(data.X[:cut]), np.array([0, cut]))
    middle, between, before = learn_rows(model, first, memory, step_sizes[:cut], n_held=7)
    second = Sequences(Rows(data.X[cut:]), np.array([0, 30 - cut]), between.filtered)
    end = learn_rows(middle, second, between, step_sizes[cut:], n_held=max(0, 7 - cut))
    assert_identical(end[:2], whole[:2])
    assert_identical(np.concatenate([before, end[2]]), whole[2])


def test_many_columns_do_not_underflow():
    rng = np.random.default_rng(5)
    model, data = model_of(rng, 2000), data_of(rng, [3], 2000)
    learnt, _, log_likelihoods = learn_rows(
        model, data, own_memory(model), np.full(3, 0.1), n_held=3
    )
    assert_close(log_likelihoods.sum(), learnt.log_likelihood(data)[0], rtol=1e-12)


def test_what_cannot_be_is_refused():
    rng = np.random.default_rng(6)
    model = model_of(rng)
    model.start[:] = [1.0, 0.0, 0.0]
    labels = np.array([1, -1], dtype=np.intc)
    with pytest.raises(ValueError, match="Some sequences are impossible"):
        learn_rows(model, data_of(rng, [2], labels=labels), own_memory(model), np.ones(2))
    with pytest.raises(ValueError, match="integer codes"):
        X = Rows(np.array([[4.0]]))
        memory = own_memory(model)
        learn_rows(model, Sequences(X, np.array([0, 1])), memory, np.ones(1))


def test_other_models_are_refused_by_name():
    rng = np.random.default_rng(7)
    model = model_of(rng)
    model.check_row_updates()
    ends = replace(model, transmat=np.full((K, K + 1), 0.25), termination=EndState())
    with pytest.raises(ValueError, match="given lengths"):
        ends.check_row_updates()
    with pytest.raises(ValueError, match="of symbols"):
        replace(model, family=Poisson(), parameters=np.ones((K, 1))).check_row_updates()
