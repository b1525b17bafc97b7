"""Forward-backward, filtering, Viterbi and drawn paths against enumeration; endless chains."""

import time
from dataclasses import replace

import numpy as np
import pytest
from cases.enumeration import Enumeration, LogDensities
from cases.refusals import assert_refused_call, rows_of
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import LengthDistribution, Sequences
from sklearn_onlineem.models import terminations
from sklearn_onlineem.models.hidden_markov import markov as hidden_markov
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength

TERMINATIONS = [GivenLength(), EndState(), AbsorbingStates((1,))]
all_terminations = pytest.mark.parametrize(
    "termination", TERMINATIONS, ids=lambda h: type(h).__name__
)
LENGTHS = [1, 4, 2, 5, 1, 3]
# States that can be lost for good: one of them is entered from nowhere else.
LEFT_TO_RIGHT = np.array([[0.9, 0.1, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 1.0]])


def chain(rng, termination, n_states=3, transmat=None):
    """A chain whose rows are its log densities."""
    width = n_states + isinstance(termination, EndState)
    if transmat is None:
        transmat = rng.dirichlet(np.ones(width), n_states)
    if isinstance(termination, AbsorbingStates):
        transmat[list(termination.states)] = np.eye(n_states)[list(termination.states)]
    start = rng.dirichlet(np.ones(n_states))
    return HiddenMarkovModel(LogDensities(n_states), start, transmat, None, termination)


def sequences(X, lengths, labels=None, n_threads=1):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    return Sequences(Rows(X, None, labels, n_threads), offsets)


def enumerated(model, data, before=None):
    """Enumerations of all sequences; known states leave no other possible."""
    X = data.X.astype(float)
    if data.rows.labels is not None:
        known = data.rows.labels[:, None]
        X = np.where((known >= 0) & (known != np.arange(X.shape[1])), -np.inf, X)
    X = np.where(np.isnan(X), 0.0, X)
    parts = np.split(X, data.offsets[1:-1])
    befores = [before] + [None] * (len(parts) - 1)
    return [Enumeration(model, part, b) for part, b in zip(parts, befores, strict=True)]


def assert_as_enumerated(model, data, before=None, rtol=1e-9, atol=1e-12):
    """Likelihoods, posteriors, expected moves and best paths of all sequences."""
    if before is not None:
        data = data.continued(before)
    expected = enumerated(model, data, before)
    log_likelihoods = [one.log_likelihood for one in expected]
    assert_allclose(model.log_likelihood(data), log_likelihoods, rtol=rtol, atol=atol)
    posterior = np.concatenate([one.posterior() for one in expected])
    assert_allclose(model.posterior(data), posterior, rtol=rtol, atol=atol)
    evidence, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, np.mean(log_likelihoods), rtol=rtol)
    states, best = model.decoded(data)
    for one, found, log_probability in zip(
        expected, np.split(states, data.offsets[1:-1]), best, strict=True
    ):
        assert_allclose(log_probability, one.log_joint.max(), rtol=1e-10)
        (row,) = np.flatnonzero((one.paths == found).all(axis=1))
        assert_allclose(one.log_joint[row], one.log_joint.max(), rtol=1e-10)
    if before is None:
        starts = np.sum([one.posterior()[0] for one in expected], axis=0)
        moves = np.sum([one.transitions() for one in expected], axis=0)
        assert_allclose(evidence.start * len(data), starts, rtol=rtol, atol=atol)
        found = evidence.transitions[:, : model.n_components] * len(data)
        assert_allclose(found, moves, rtol=rtol, atol=atol)
        if isinstance(model.termination, EndState):
            ends = np.sum([one.posterior()[-1] for one in expected], axis=0)
            assert_allclose(evidence.transitions[:, -1] * len(data), ends, rtol=rtol, atol=atol)


@all_terminations
@pytest.mark.parametrize("n_states", [2, 3, 4, 5, 7])
def test_recursions_are_as_all_paths_say(termination, n_states, rng):
    lengths = LENGTHS if n_states < 5 else [1, 4, 2]
    model, X = chain(rng, termination, n_states), rng.normal(0.0, 3.0, (sum(lengths), n_states))
    assert_as_enumerated(model, sequences(X, lengths))
    # Rows that were not observed say nothing.
    X[[0, 2, 3, 6]] = np.nan
    assert_as_enumerated(model, sequences(X, lengths))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_only_unlikely_rows_lead_to(dtype, rng):
    model = chain(rng, GivenLength(), transmat=LEFT_TO_RIGHT.copy())
    X = rng.standard_normal((8, 3))
    X[:3, 1:] += 2000.0
    X[3:6, 0] += 6000.0
    data = sequences(X.astype(dtype), [6, 2])
    rows = model.row_log_likelihoods(data)
    totals = np.add.reduceat(rows, data.offsets[:-1])
    assert_allclose(totals, model.log_likelihood(data), rtol=1e-6)
    part = sequences(X[:4].astype(dtype), [4])  # rows do not know later ones
    assert_allclose(rows[:4], model.row_log_likelihoods(part), rtol=1e-6)


@all_terminations
def test_known_states_leave_no_others_possible(termination, rng):
    model = chain(rng, termination)
    labels = np.full(sum(LENGTHS), -1, dtype=np.int32)
    # No label forbids a sequence to end in the absorbing state, or to go on before.
    labels[[1, 3, 8, 13]] = [0, 2, 2, 2]
    data = sequences(3.0 * rng.standard_normal((sum(LENGTHS), 3)), LENGTHS, labels)
    assert_as_enumerated(model, data)


# ---------------------------------------------------------------------------- unlikely sequences


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gap", [200.0, 2000.0])
def test_states_that_seem_lost_come_back(dtype, gap, rng):
    """Rows that all but exclude the states that later rows need, where zeros let no other in."""
    model = chain(rng, GivenLength(), transmat=LEFT_TO_RIGHT.copy())
    X = rng.standard_normal((14, 3))
    X[:3, 1:] += gap
    X[3:6, 0] += 3.0 * gap
    X[6:10, 2] += gap
    X[10:14, 0] += 2.0 * gap
    data = sequences(X.astype(dtype), [6, 4, 4])
    single = dtype == np.float32
    assert_as_enumerated(model, data, rtol=1e-5 if single else 1e-9, atol=1e-6 if single else 1e-12)


@all_terminations
@pytest.mark.parametrize("gap", [0.9, 3.0, 300.0, 3000.0])
@pytest.mark.parametrize("kind", ["whole", "long", "single", "continued"])
def test_states_that_cannot_be_reached_count_for_nothing(kind, gap, termination, rng, monkeypatch):
    """However much better they explain what follows."""
    model, lengths = chain(rng, termination), [900, 1, 300]
    # All states may be entered from two more ones, which nothing leads to.
    others = rng.dirichlet(np.ones(model.transmat.shape[1] + 2), 2)
    larger = replace(
        model,
        family=LogDensities(5),
        start=np.append(model.start, [0.0, 0.0]),
        transmat=np.vstack([np.insert(model.transmat, [3, 3], 0.0, axis=1), others]),
    )
    X = rng.standard_normal((sum(lengths), 3)).astype("f4" if kind == "single" else "f8")
    before = np.array([0.3, 0.0, 0.7]) if kind == "continued" else None
    data = sequences(X, lengths).continued(before)
    better = X.max(axis=1, keepdims=True) + np.array([gap, 0.5 * gap], X.dtype)
    rows = sequences(np.hstack([X, better]), lengths)
    rows = rows.continued(None if before is None else np.append(before, [0.0, 0.0]))
    expected, log_likelihood = model.e_step(data)
    if kind == "long":
        monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", 30)
    found, of_larger = larger.e_step(rows)
    tolerances = {"rtol": 1e-5, "atol": 1e-4} if kind == "single" else {"rtol": 1e-9, "atol": 1e-9}
    assert_allclose(of_larger, log_likelihood, **tolerances)
    assert_allclose(larger.posterior(rows)[:, :3], model.posterior(data), **tolerances)
    transitions = np.delete(found.transitions, [3, 4], axis=1)
    assert_allclose(transitions[:3], expected.transitions, **tolerances)
    assert_array_equal(transitions[3:], 0.0)
    assert_array_equal(larger.e_step(rows, rng=rng)[0].transitions[3:], 0.0)


@all_terminations
def test_log_densities_of_minus_1e4_in_every_state(termination, rng):
    model = chain(rng, termination)
    data = sequences(rng.standard_normal((sum(LENGTHS), 3)) - 1e4, LENGTHS)
    assert_as_enumerated(model, data)
    T = 20_000
    X = rng.standard_normal((T, 3))
    near, far = (sequences(values, [T]) for values in (X, X - 1e4))
    assert_allclose(model.posterior(far), model.posterior(near), atol=1e-7)
    assert_allclose(model.log_likelihood(far) + 1e4 * T, model.log_likelihood(near), rtol=1e-6)


def test_impossible_sequences_have_no_posterior(rng):
    model = chain(rng, GivenLength(), transmat=LEFT_TO_RIGHT.copy())
    labels = np.array([-1, 2, 0, -1, -1], dtype=np.int32)  # nothing leads from 2 to 0
    data = sequences(rng.standard_normal((5, 3)), [3, 2], labels)
    impossible, possible = data[:1], data[1:]
    assert_array_equal(model.log_likelihood(data)[:1], -np.inf)
    assert_allclose(model.log_likelihood(data)[1:], model.log_likelihood(possible))
    assert_array_equal(model.posterior(impossible), 0.0)
    assert_array_equal(model.decoded(data)[1][:1], -np.inf)
    for generator in (None, rng):
        with pytest.raises(ValueError, match="Some sequences are impossible"):
            model.e_step(data, rng=generator)


def test_ties_go_to_the_lowest_state():
    model = HiddenMarkovModel(LogDensities(3), np.full(3, 1 / 3), np.full((3, 3), 1 / 3), None)
    assert_array_equal(model.decoded(sequences(np.zeros((5, 3)), [3, 2]))[0], 0)


def test_a_million_steps(rng):
    """Seconds at most, no underflow, and what halves of it say too."""
    T = 1_000_000
    transmat = np.array([[0.98, 0.01, 0.01], [0.02, 0.97, 0.01], [0.3, 0.3, 0.4]])
    model = chain(rng, GivenLength(), transmat=transmat)
    data = sequences(4.0 * rng.standard_normal((T, 3)) - 50.0, [T])
    began = time.process_time()
    evidence, log_likelihood = model.e_step(data)
    states, best = model.decoded(data)
    assert time.process_time() - began < 20.0
    assert np.isfinite(log_likelihood) and best[0] < log_likelihood
    assert_allclose(evidence.transitions.sum(), T - 1, rtol=1e-9)
    assert_allclose(evidence.emissions.weight.sum(), T, rtol=1e-9)
    half = sequences(data.X[: T // 2], [T // 2])
    rest = sequences(data.X[T // 2 :], [T // 2]).continued(model.filtered(half)[-1])
    halves = model.log_likelihood(half) + model.log_likelihood(rest)
    assert_allclose(halves, log_likelihood, rtol=1e-12)


# ------------------------------------------------------------------------------------ drawn paths


def test_drawn_paths_of_long_sequences_follow_what_is_certain(rng):
    """Longer than the blocks of the kernels, which are drawn from one after the other."""
    states = rng.integers(3, size=1000)
    data = sequences(200.0 * np.eye(3)[states], [700, 300])
    drawn, _ = chain(rng, GivenLength()).e_step(data, rng=rng)
    moves = np.zeros((3, 3))
    np.add.at(moves, (states[:-1], states[1:]), 1.0)
    moves[states[699], states[700]] -= 1.0
    assert_allclose(2.0 * drawn.transitions, moves)
    assert_allclose(2.0 * drawn.emissions.weight, np.bincount(states, minlength=3))


@pytest.mark.parametrize("n_values", [1 << 19, 6])
@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("scale", [2.0, 2000.0])
@all_terminations
def test_evidence_is_the_mean_of_sequences_by_weights(
    termination, scale, seed, n_values, monkeypatch, rng
):
    """Whether expected or drawn, in pieces, or by logarithms; what is drawn has no weights."""
    monkeypatch.setattr(hidden_markov, "_CHUNK_VALUES", n_values)
    transmat = LEFT_TO_RIGHT if isinstance(termination, GivenLength) else None
    model = chain(rng, termination, transmat=transmat)
    data = sequences(scale * rng.standard_normal((sum(LENGTHS), 3)), LENGTHS)

    def evidence(weight):
        rng = None if seed is None else np.random.default_rng(seed)
        statistics, log_likelihood = model.e_step(data.weighted(weight), rng)
        return statistics.start, statistics.transitions, statistics.emissions.weight, log_likelihood

    weight = rng.random(len(LENGTHS))
    each = [evidence(1e-300 + one) for one in np.eye(len(LENGTHS))]
    for found, parts in zip(evidence(weight), zip(*each, strict=True), strict=True):
        expected = np.average(np.array(parts), axis=0, weights=weight)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------------------- sequences that go on


def test_a_sequence_that_goes_on_starts_from_the_state_before(rng):
    model = chain(rng, GivenLength())
    data = sequences(2.0 * rng.standard_normal((sum(LENGTHS), 3)), LENGTHS)
    assert_as_enumerated(model, data, before=np.array([0.2, 0.7, 0.1]))


def test_the_move_across_a_seam_counts(rng):
    """Evidence of a piece: its own moves and the one into it, all smoothed by the piece."""
    model, before = chain(rng, GivenLength()), np.array([0.2, 0.7, 0.1])
    X = 2.0 * rng.standard_normal((4, 3))
    piece = sequences(X, [4]).continued(before)
    evidence, _ = model.e_step(piece)
    fresh = HiddenMarkovModel(model.family, before, model.transmat, None)
    longer = Enumeration(fresh, np.vstack([np.zeros(3), X]))
    assert_allclose(evidence.transitions, longer.transitions(), rtol=1e-10)
    assert_allclose(evidence.emissions.weight, longer.posterior()[1:].sum(axis=0), rtol=1e-10)
    assert_array_equal(evidence.start, 0.0)


@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.5, 2.0, 1.0, 4.0, 1.5])], ids=str)
def test_sequences_start_in_own_statistics_but_for_the_one_that_goes_on(weight, rng):
    model = chain(rng, GivenLength())
    data = sequences(rng.standard_normal((sum(LENGTHS), 3)), LENGTHS).weighted(weight)
    share = 5.0 / 6.0 if weight is None else 0.9
    own = model.own_statistics(data.continued(np.array([0.2, 0.7, 0.1])))
    assert_allclose(own.start, share * model.start, rtol=1e-12)
    assert_allclose(model.own_statistics(data).start, model.start, rtol=1e-12)


FIELDS = [("a", "f8"), ("b", "i4")]


@pytest.mark.parametrize(
    "changes",
    [
        {"start": np.zeros(2, dtype=FIELDS)},
        {"transmat": np.zeros((2, 2), dtype=FIELDS)},
        {"start": np.full((1, 2), 0.5)},
        {"transmat": np.asfortranarray([[0.9, 0.1], [0.2, 0.8]])},
        {"transmat": np.eye(2, dtype=np.float32)},
        {"start": [0.5, 0.5]},
    ],
)
def test_what_kernels_would_misread_is_refused(changes):
    parts = {"start": np.full(2, 0.5), "transmat": np.eye(2), **changes}
    with pytest.raises(ValueError, match=f"{next(iter(changes))} must be"):
        HiddenMarkovModel(LogDensities(2), parameters=None, **parts)


def test_numbers_with_fields_are_no_transitions():
    like = sequences(np.zeros((3, 2)), [3])
    with pytest.raises(ValueError, match="of its type"):
        GivenLength().occupancies(np.full(2, 0.5), np.zeros((2, 2), dtype=FIELDS), like)


START = np.array([1.0, 0.0, 0.0])
LOOP = np.array([[0.5, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def with_ends(moves, ends):
    return np.column_stack([moves * (1.0 - np.array(ends))[:, None], ends])


MASKED = np.ma.masked_array([0.5, 0.5], mask=[True, True])
WITH_END = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
RNG, LIKE = np.random.default_rng(0), LengthDistribution((np.array([3]), np.ones(1)))
REFUSED = """
EndState().sample_states(START, with_ends(*each), 5, RNG)
    for each in ((LOOP, [0.1, 0.0, 0.5]), (np.eye(3), [0.0, 0.5, 0.5])) -> would never end
AbsorbingStates((2,)).sample_states(START, np.array(each), 5, RNG)
    for each in ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]],
    [[0.3, 0.3, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) -> would never end
EndState().sample_states(each, WITH_END, 3, RNG) for each in (MASKED, [0.5, np.nan], [1.5, -0.5],
    [0.0, 0.0], [0.5, 0.3, 0.2], [[0.5, 0.5]], [0.5, 10**400]) -> start|transmat|never end
EndState().sample_states([0.5, 0.5], each, 3, RNG) for each in (np.ma.masked_less(WITH_END, 0.4),
    -WITH_END, np.inf * WITH_END, 1e308 * np.ones((2, 3)),
    np.array([[0.0, 0.0, 0.5], [0.5, 0.0, 0.5]])) -> start|transmat|never end
# Weights are looked at where lengths are given, too.
GivenLength().sample_states(MASKED, np.eye(2), 3, RNG, LIKE) -> start
GivenLength().sample_states([0.5, 0.5], each, 3, RNG, LIKE) for each in (-np.eye(2), WITH_END) ->
    transmat
# Sequences of millions of rows.
EndState().sample_states([1.0, 0.0], np.array(each), 1, RNG)
    for each in ([[0.5, 0.5 - 1e-9, 1e-9], [0.5, 0.5 - 1e-9, 1e-9]],
    [[0.5, 0.5, 5e-324], [0.5, 0.5, 1e-17]]) -> rows on average
AbsorbingStates((1,)).sample_states([1.0, 0.0], np.array(each), 1, RNG)
    for each in ([[2.0**31, 1.0], [1.0, 2.0**31]], [[1.0 - 1e-9, 1e-9], [0.0, 1.0]]) ->
    rows on average
"""


@pytest.mark.parametrize(("call", "words"), rows_of(REFUSED))
def test_chains_without_an_end_and_what_is_no_weight_are_refused(call, words):
    assert_refused_call(call, words, {**vars(terminations), **globals()})


def test_states_that_are_never_reached_need_no_way_to_the_end():
    transmat = with_ends(np.eye(3), [0.5, 0.0, 0.0])
    offsets, states = EndState().sample_states(START, transmat, 5, np.random.default_rng(0))
    assert len(offsets) == 6 and not states.any()


def test_weights_need_not_add_up_to_1():
    tiny = np.array([[5e-324, 0.0, 0.5], [0.0, 5e-324, 0.5]])
    _, states = EndState().sample_states([5e-324, 0.0], tiny, 3, np.random.default_rng(0))
    assert not states.any()


def test_long_sequences_are_drawn():
    transmat = np.array([[0.9999, 0.0, 1e-4], [0.0, 1.0, 0.0]])
    offsets, _ = EndState().sample_states([1.0, 0.0], transmat, 500, np.random.default_rng(0))
    assert np.diff(offsets).mean() == pytest.approx(1e4, rel=0.2)
