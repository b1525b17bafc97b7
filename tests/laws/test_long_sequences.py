"""Laws of long sequences of hidden chains: walked by blocks and halves, they say the same."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.comparing import assert_close, assert_identical
from cases.enumeration import LogDensities
from numpy.testing import assert_allclose

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.models.hidden_markov import _long_sequences
from sklearn_onlineem.models.hidden_markov import markov as hidden_markov
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.terminations import EndState, GivenLength

all_chains = pytest.mark.parametrize("case", CHAINS, ids=repr)


@pytest.fixture(params=[(0, 64), (1 << 20, 64), (0, 0)], ids=["twice", "kept", "side by side"])
def blocks(monkeypatch, request):
    """Blocks of 256 rows, whose log densities are computed twice or kept; halves side by side."""

    def cut():
        monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", 30)
        monkeypatch.setattr(_long_sequences, "_KEPT_VALUES", request.param[0])
        monkeypatch.setattr(_long_sequences, "_FEW_STATES", request.param[1])

    return cut


def uses(model, data):
    """What walks long sequences by blocks."""
    of_rows = np.empty(data.n_rows)
    evidence = model.e_step(data, log_likelihoods=of_rows)
    return evidence, of_rows, model.log_likelihood(data), model.posterior(data), model.decoded(data)


def assert_same_in_blocks(blocks, model, data, tolerance=1e-10):
    """Blocks say what the whole says, with any number of threads."""
    whole = uses(model, data)
    blocks()
    shared = replace(data, rows=replace(data.rows, n_threads=2))
    one, two = uses(model, data), uses(model, shared)
    assert_close(one, whole, rtol=tolerance, atol=tolerance)
    assert_identical(two, one)


@all_chains
@pytest.mark.parametrize("kind", ["complete", "gaps", "labels", "continued"])
def test_blocks_say_what_the_whole_says(case, kind, rng, blocks):
    model, data = case.draw(rng), case.data(rng, 400)
    if kind == "gaps":
        data = case.with_gaps(data, rng)
    rows = data.rows
    if kind == "labels":
        _, states = model.sample(1, rng, like=Sequences(rows, np.array([0, len(rows)])))
        is_known = rng.random(len(rows)) < 0.02
        labels = np.full(len(rows), -1, dtype=np.int32)
        labels[: len(states)][is_known[: len(states)]] = states[is_known[: len(states)]]
        rows = replace(rows, labels=labels)
    # A long sequence between short ones.
    data = Sequences(rows, np.array([0, 5, 9, len(rows) - 3, len(rows)]))
    if kind == "continued":
        data = data[2:].continued(case.before(model, rng))
    assert_same_in_blocks(blocks, model, data)


@pytest.mark.parametrize("n_rows", [3, 4, 255, 257, 511, 513])
def test_halves_may_be_shorter_than_blocks(n_rows, rng):
    model, data = left_to_right(rng, 600)
    data = Sequences(Rows(data.X[:n_rows].copy()), np.array([0, n_rows]))
    log_likelihood, found = _long_sequences.explored(
        model, data, 1, 2, lambda *piece: len(piece[0].X)
    )
    assert_allclose(log_likelihood, model.log_likelihood(data)[0])
    assert_allclose(found[0], model.e_step(data)[0].transitions, rtol=1e-10, atol=1e-10)
    assert sum(found[3]) == n_rows
    end = _long_sequences.filtered_end(model, data, 1)
    assert_allclose(end, model.filtered(data)[-1], rtol=1e-10, atol=1e-10)


def left_to_right(rng, n_rows, dtype=np.float64):
    """A chain whose scaled recursions lose states, and rows that need the lost ones."""
    transmat = np.array([[0.99, 0.01, 0.0], [0.0, 0.99, 0.01], [0.0, 0.0, 1.0]])
    model = HiddenMarkovModel(LogDensities(3), np.full(3, 1 / 3), transmat, None, GivenLength())
    X = rng.normal(size=(n_rows, 3)).astype(dtype)
    X[300, 0] -= 2000.0
    X[n_rows - 300 :, 1:] -= 10000.0
    return model, Sequences(Rows(X), np.array([0, n_rows]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lost_digits_are_brought_back(dtype, rng, blocks):
    model, data = left_to_right(rng, 1500, dtype)
    assert model.log_likelihood(data)[0] > -5000.0
    assert_same_in_blocks(blocks, model, data, 1e-10 if dtype is np.float64 else 1e-5)


@pytest.mark.parametrize("row", [100, 300, 600], ids="row {}".format)
def test_states_in_doubt_may_be_needed_in_any_piece(row, rng, blocks):
    """Some digits of a state are lost, and that is seen on the way back only."""
    model, _ = left_to_right(rng, 600)
    X = 0.1 * rng.normal(size=(1500, 3))
    X[row, 0] -= 742.0
    X[row + 1 : row + 21, 0] += 30.0
    X[1200:, 1:] -= 0.5
    data = Sequences(Rows(X), np.array([0, len(X)]))
    end = model.filtered_end(data)
    assert_same_in_blocks(blocks, model, data)
    assert_allclose(model.filtered_end(data), end, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["full", "triangular", "sparse"])
@pytest.mark.parametrize("n_rows", [1535, 1536, 1537])
def test_many_states(kind, n_rows, rng, blocks):
    K = 70
    transmat = rng.dirichlet(np.ones(K), K)
    transmat *= {"full": 1.0, "triangular": np.tri(K), "sparse": np.eye(K) + np.eye(K, k=1)}[kind]
    transmat /= transmat.sum(axis=1, keepdims=True)
    model = HiddenMarkovModel(LogDensities(K), np.full(K, 1 / K), transmat, None, GivenLength())
    data = Sequences(Rows(rng.normal(size=(n_rows, K))), np.array([0, n_rows]))
    assert_same_in_blocks(blocks, model, data)


def test_an_impossible_sequence_is_an_error(rng, blocks):
    model, data = left_to_right(rng, 1500)
    data.X[900, :] = -np.inf
    blocks()
    assert model.log_likelihood(data)[0] == -np.inf
    assert not model.posterior(data).any()
    with pytest.raises(ValueError, match="Some sequences are impossible"):
        model.e_step(data)


def test_an_end_far_from_the_middle_counts(rng, blocks):
    transmat = np.array([[0.6, 0.4, 0.0], [0.2, 0.7, 0.1]])
    model = HiddenMarkovModel(LogDensities(2), np.full(2, 0.5), transmat, None, EndState())
    data = Sequences(Rows(rng.normal(size=(1200, 2))), np.array([0, 1200]))
    blocks()
    evidence, _ = model.e_step(data)
    assert_allclose(evidence.transitions.sum(), 1200)
    assert_allclose(evidence.transitions[:, 2], [0.0, 1.0])


def test_paths_that_never_meet_are_found(rng, blocks):
    """Each state goes on forever, so that the last row decides on all."""
    n_states = 5
    start = np.full(n_states, 1 / n_states)
    model = HiddenMarkovModel(LogDensities(n_states), start, np.eye(n_states), None, GivenLength())
    data = Sequences(Rows(rng.normal(size=(1200, n_states))), np.array([0, 1200]))
    blocks()
    states, best = model.decoded(data)
    totals = data.X.sum(axis=0)
    assert (states == totals.argmax()).all()
    assert_allclose(best, totals.max() + np.log(1 / n_states))


@pytest.mark.parametrize("name", ["e_step", "log_likelihood", "decoded"])
def test_memory_is_flat(name, rng, monkeypatch):
    """It would be 8 bytes a row and state, where all log densities are held."""
    monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", 1 << 14)
    monkeypatch.setattr(_long_sequences, "_KEPT_VALUES", 1 << 14)
    case = next(case for case in CHAINS if "DiagonalGaussian" in repr(case))
    model, peaks = case.draw(rng), []
    rows = case.data(rng, 400).rows
    for n_rows in (50_000, 200_000):
        X = np.ascontiguousarray(np.resize(rows.X, (n_rows, rows.X.shape[1])))
        data = Sequences(Rows(X), np.array([0, n_rows]))
        tracemalloc.start()
        getattr(model, name)(data)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Paths have 8 bytes a row.
    n_bytes = 150_000 * (model.n_components + 8 * (name == "decoded"))
    assert peaks[1] - peaks[0] < n_bytes
