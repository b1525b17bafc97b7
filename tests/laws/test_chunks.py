"""Laws of chunks: hidden Markov models walk data chunk by chunk, and threads share the chunks."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from cases.chains import CHAINS
from cases.comparing import assert_close, assert_identical
from cases.enumeration import LogDensities
from numpy.testing import assert_array_equal

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.families import Poisson
from sklearn_onlineem.models.hidden_markov import markov as hidden_markov
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel

all_chains = pytest.mark.parametrize("case", CHAINS, ids=repr)
N_SEQUENCES = 60


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of some 10 rows of 3 states."""
    monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", 30)


def with_threads(data, n_threads):
    return replace(data, rows=replace(data.rows, n_threads=n_threads))


def uses(model, data):
    """Everything that walks data."""
    yield model.e_step(data)
    yield model.e_step(data, rng=np.random.default_rng(0))
    yield model.log_likelihood(data)
    yield model.filtered(data)
    yield model.posterior(data)
    yield model.decoded(data)


@all_chains
def test_chunks_add_up_to_the_whole(case, rng, monkeypatch):
    model, data = case.draw(rng), case.rich_data(rng, N_SEQUENCES)
    whole = model.e_step(data)
    monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", 30)
    assert_close(model.e_step(data), whole, rtol=1e-9, atol=1e-9)


@all_chains
@pytest.mark.parametrize("kind", ["complete", "gaps", "continued"])
def test_what_is_made_of_chunks_does_not_depend_on_the_number_of_threads(
    case, kind, rng, small_chunks
):
    model, data = case.draw(rng), case.data(rng, N_SEQUENCES)
    if kind == "gaps":
        data = case.with_gaps(data, rng)
    if kind == "continued":
        data = data.continued(case.before(model, rng))
    one, five = (list(uses(model, with_threads(data, n))) for n in (1, 5))
    assert_identical(five, one)


def test_drawn_states_differ_from_chunk_to_chunk(rng, small_chunks):
    """Chunks of equal rows do not share their uniform numbers."""
    fair = np.full((2, 2), 0.5)
    model = HiddenMarkovModel(Poisson(), fair[0], fair, np.ones((2, 1)))
    data = Sequences(Rows(np.ones((600, 1))), np.arange(0, 601, 15))
    assert [len(chunk) for chunk in data.chunks(model._n_chunk)] == [1] * 40
    assert 0.0 < model.e_step(data, rng=rng)[0].start[0] < 1.0


@dataclass(frozen=True)
class Told(LogDensities):
    """A family that notes how many threads it is told of."""

    told: set

    def log_density(self, parameters, X, n_threads=1):
        self.told.add(n_threads)
        return super().log_density(parameters, X)

    def expected_statistics(self, X, responsibilities, n_threads=1):
        self.told.add(n_threads)
        return super().expected_statistics(X, responsibilities)


@pytest.mark.parametrize(("n_values", "told"), [(30, {1}), (1 << 20, {4})])
def test_a_chunk_of_several_is_one_threads(n_values, told, rng, monkeypatch):
    """So that threads meet once a pass; data of one chunk they share row by row."""
    monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", n_values)
    moves, densities = rng.dirichlet(np.ones(3), 3), rng.standard_normal((400, 3))
    data = Sequences(Rows(densities, n_threads=4), np.arange(0, 401, 8))
    model = HiddenMarkovModel(Told(3, set()), moves[0], moves, None)
    found = model.e_step(data)
    assert model.family.told == told
    assert_close(found, replace(model, family=LogDensities(3)).e_step(data))


@pytest.mark.parametrize("n_threads", [1, 4])
def test_an_impossible_chunk_is_an_error(n_threads, small_chunks):
    model = HiddenMarkovModel(Poisson(), np.array([1.0, 0.0]), np.eye(2), np.ones((2, 1)))
    labels = np.zeros(60, dtype=np.int32)
    labels[47] = 1
    rows = Rows(np.ones((60, 1)), labels=labels, n_threads=n_threads)
    with pytest.raises(ValueError, match="Some sequences are impossible"):
        model.e_step(Sequences(rows, np.arange(0, 61, 3)))


def test_chunks_are_even():
    data = Sequences(Rows(np.zeros((1000, 1)), n_threads=3), np.arange(0, 1001, 10))
    chunks = data.chunks(400)
    assert [chunk.n_rows for chunk in chunks] == [340, 330, 330]
    assert {chunk.n_threads for chunk in chunks} == {1}
    assert data.chunks(1000) == (data,) and data.chunks(1000)[0].n_threads == 3
    assert_array_equal(np.concatenate([chunk.lengths for chunk in chunks]), data.lengths)
