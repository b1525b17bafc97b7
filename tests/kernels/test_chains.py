"""Hidden chains, with logarithms and without, against sums over all paths."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from cases.enumeration import Enumeration, filtered_by_enumeration, logs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, rel_entr

from sklearn_onlineem._kernels import _forward_backward, _log_chains
from sklearn_onlineem.models.terminations import EndState

# States and rows: vectors of all widths, and a state more or less.
SIZES = [(1, 3), (2, 6), (3, 5), (4, 4), (5, 4), (8, 3), (9, 3), (3, 1)]
SIZES += [(17, 2), (27, 2), (33, 2), (70, 2)]
TOLERANCES = {np.float32: 1e-5, np.float64: 1e-10}

by_module = pytest.mark.parametrize(
    "module", [_forward_backward, _log_chains], ids=lambda m: m.__name__.rpartition(".")[2]
)
by_size = pytest.mark.parametrize(("K", "T"), SIZES)
by_kind = pytest.mark.parametrize(
    ("dtype", "has_zeros"), [(np.float64, False), (np.float64, True), (np.float32, False)]
)


class Chain:
    """One sequence, and what its paths say of it."""

    def __init__(self, K, T, dtype, has_zeros):
        rng = np.random.default_rng([K, T])
        self.rows = rng.normal(-3, 2, (T, K)).astype(dtype)
        self.start, self.final = rng.dirichlet(np.ones(K)), rng.uniform(0.1, 1, K)
        self.transmat = rng.dirichlet(np.ones(K), K)
        if has_zeros and K > 1:
            self.transmat[0, 0] = self.start[-1] = 0.0
            self.rows[-1, -1] = -np.inf
        self.uniforms = rng.random(T)
        self.rtol = TOLERANCES[dtype]

    def enumerated(self):
        ending = np.column_stack([self.transmat, self.final])
        model = SimpleNamespace(start=self.start, transmat=ending, termination=EndState())
        return Enumeration(model, self.rows.astype(float)), model

    def drawn_numpy(self):
        """From the last row to the first, each state given those after it."""
        (chain, _), path = self.enumerated(), []
        for t in reversed(range(len(self.rows))):
            shares = np.cumsum(chain.posterior()[t])
            path.append(np.searchsorted(shares, self.uniforms[t] * shares[-1], "right"))
            chain.shares = chain.shares * (chain.paths[:, t] == path[-1])
        return np.array(path[::-1])

    def called(self, module, name, *options):
        """What a function of either module says: rows, the log-likelihood, and moves."""
        rows, moves = self.rows.copy(), np.zeros(self.transmat.shape)
        moves = [] if name == "filtered" else [moves]
        if module is _log_chains:
            name = "draw_path" if name == "draw_paths" else name
            arrays = self.start, self.transmat, self.final, *options, *moves
            return rows, getattr(module, name)(rows, *arrays), *moves
        found, offsets = np.empty(1), np.array([0, len(rows)])
        arrays = offsets, self.start, self.start, self.transmat, self.final, found, *moves
        name, unweighted = name.replace("draw_paths", "forward_backward"), [None] * len(options)
        getattr(module, name)(rows, *arrays, 1, *unweighted, *options)
        return rows, found[0], *moves


@by_module
@by_size
@by_kind
def test_posteriors_and_moves(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    expected, _ = chain.enumerated()
    rows, log_likelihood, moves = chain.called(module, "forward_backward")
    tolerances = {"rtol": chain.rtol, "atol": chain.rtol}
    assert_allclose(log_likelihood, expected.log_likelihood, rtol=chain.rtol)
    assert_allclose(rows, expected.posterior(), **tolerances)
    assert_allclose(moves, expected.transitions(), **tolerances)


@by_module
@by_size
@by_kind
def test_filtered_states(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    (expected, model), (rows, log_likelihood) = chain.enumerated(), chain.called(module, "filtered")
    assert_allclose(log_likelihood, expected.log_likelihood, rtol=chain.rtol)
    filtered = filtered_by_enumeration(model, chain.rows.astype(float))
    assert_allclose(rows, filtered, rtol=chain.rtol, atol=chain.rtol)


@by_module
@by_size
@by_kind
def test_drawn_paths(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    path = chain.drawn_numpy()
    rows, log_likelihood, moves = chain.called(module, "draw_paths", chain.uniforms)
    assert_allclose(log_likelihood, chain.enumerated()[0].log_likelihood, rtol=chain.rtol)
    assert_array_equal(rows, np.eye(K)[path])
    counts = np.zeros((K, K))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    assert_array_equal(moves, counts)


@by_size
@by_kind
def test_best_paths(K, T, dtype, has_zeros):
    chain = Chain(K, T, dtype, has_zeros)
    found, path = np.empty(1), np.empty(T, np.int64)
    arrays = chain.start, chain.start, chain.transmat, chain.final
    _log_chains.viterbi(chain.rows, np.array([0, T]), *arrays, found, path, 1)
    expected, _ = chain.enumerated()
    assert_allclose(found, expected.log_joint.max(), rtol=chain.rtol)
    assert_array_equal(path, expected.paths[expected.log_joint.argmax()])


@pytest.mark.parametrize("leaving", [1.0, 1e-3, 1e-7])
@pytest.mark.parametrize("share", [1.0, 0.5, 1e-3])
@pytest.mark.parametrize("n_rows", [1, 2, 7, 64, 65, 9000])
@pytest.mark.parametrize("K", [1, 2, 4, 5, 8, 9, 17, 70])
def test_occupancies_are_sums_over_rows(K, n_rows, share, leaving):
    rng = np.random.default_rng([K, n_rows])
    ends = np.append(1 + np.flatnonzero(rng.random(n_rows - 1) < share), n_rows)
    start, transmat = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
    transmat = leaving * transmat + (1.0 - leaving) * np.eye(K)
    shares, states = rng.uniform(size=len(ends)), [start]
    for _ in range(1, n_rows):
        states.append(states[-1] @ transmat)
    left, emitted = np.ones(K), np.zeros(K)
    _forward_backward.occupancies(start, transmat, ends, shares, left, emitted)
    weights = np.repeat(shares, np.diff(ends, prepend=0))
    assert_allclose(emitted, weights @ states, rtol=1e-10)
    assert_allclose(left, 1.0 + weights[1:] @ np.reshape(states[:-1], (-1, K)), rtol=1e-10)


@pytest.mark.parametrize("period", [2, 3])
def test_occupancies_of_a_chain_that_is_never_stationary(period):
    transmat, n_rows = np.roll(np.eye(period), 1, axis=1), 3 * 4096 + 1
    left, emitted = np.zeros((2, period))
    runs = np.array([n_rows]), np.ones(1)
    _forward_backward.occupancies(np.eye(period)[0], transmat, *runs, left, emitted)
    assert_array_equal(emitted, np.bincount(np.arange(n_rows) % period))
    assert_array_equal(left, np.bincount(np.arange(n_rows - 1) % period))


@pytest.mark.parametrize("K", [1, 2, 5, 40])
def test_visits_are_sums_over_all_rows(K):
    rng = np.random.default_rng(K)
    start, inner = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
    expected, state = np.zeros(K), start
    for _ in range(500):
        expected, state = expected + state, 0.9 * (state @ inner)
    out = np.empty(K)
    _forward_backward.visits(start, inner, 0.9, out)
    assert_allclose(out, expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_largest_of_rows(dtype, rng):
    values = rng.normal(size=(5, 4)).astype(dtype)
    values[0], values[1, 2], values[2, 0] = -np.inf, np.nan, np.nan
    out = np.empty(5)
    _forward_backward.largest_of_rows(values, out[::-1])
    assert_array_equal(out[::-1], np.maximum.reduce(values, axis=1))


def test_visits_of_a_chain_that_never_ends_are_refused():
    with pytest.raises(np.linalg.LinAlgError):
        _forward_backward.visits(np.ones(2), np.eye(2), 1.0, np.empty(2))


@pytest.mark.parametrize("needs_lost_states", [False, True])
@pytest.mark.parametrize("K", [3, 5, 12, 33])
@pytest.mark.parametrize("name", ["forward_backward", "filtered", "draw_paths"])
def test_states_in_doubt(name, K, needs_lost_states, monkeypatch):
    """A share falls below the smallest number, and zeros among transitions keep it there.

    Logarithms are taken only where later rows need such a state, or for filtered states.
    """
    rng = np.random.default_rng(K)
    chain = Chain(K, 1, np.float64, has_zeros=False)
    T = 700
    chain.transmat = 0.9 * np.eye(K) + 0.1 * np.roll(np.eye(K), 1, axis=1)
    chain.transmat[-1, -1], chain.transmat[-1, 0] = 1.0, 0.0
    chain.uniforms, chain.rows = rng.random(T), rng.normal(-3, 2, (T, K))
    chain.rows[100, 0] -= 2000.0
    chain.rows[400:, 1:] -= 10.0 * needs_lost_states
    expected = chain.called(_log_chains, name, *_uniforms(chain, name))
    calls = []
    for function in ("forward_backward", "filtered", "draw_path"):
        noted = partial(_noted, calls, getattr(_log_chains, function))
        monkeypatch.setattr(_log_chains, function, noted)
    rows, log_likelihood, *moves = chain.called(_forward_backward, name, *_uniforms(chain, name))
    assert bool(calls) == (needs_lost_states or name == "filtered")
    assert_allclose(log_likelihood, expected[1], rtol=1e-12)
    assert_allclose(rows, expected[0], rtol=1e-10, atol=1e-10)
    if moves:
        assert_allclose(moves[0], expected[2], rtol=1e-10, atol=1e-10)
    lone, offsets = np.empty(1), np.array([0, T])
    arrays = chain.start, chain.start, chain.transmat, chain.final
    calls.clear()
    _forward_backward.filtered(chain.rows.copy(), offsets, *arrays, lone, 1, False)
    assert bool(calls) == needs_lost_states
    assert_allclose(lone, expected[1], rtol=1e-12)


def _noted(calls, function, *arguments):
    calls.append(function)
    return function(*arguments)


def _uniforms(chain, name):
    return [chain.uniforms] if name == "draw_paths" else []


@by_module
@by_kind
@pytest.mark.parametrize(
    ("K", "T", "cut"), [(2, 700, 256), (3, 600, 512), (12, 300, 256), (70, 300, 256)]
)
def test_pieces_of_a_sequence(K, T, cut, dtype, has_zeros, module):
    """Passes of two pieces that hand on their states are those of the whole."""
    chain = Chain(K, 1, dtype, has_zeros)
    chain.rows = np.random.default_rng(K).normal(-3, 2, (T, K)).astype(dtype)
    posterior, log_likelihood, moves = chain.called(module, "forward_backward")
    is_log = module is _log_chains
    into = logs if is_log else np.asarray
    pieces, table = [chain.rows[:cut].copy(), chain.rows[cut:].copy()], into(chain.transmat)
    predicted, total, filtered, found = [into(chain.start)], 0.0, np.empty((1, K)), np.empty(1)
    for piece in pieces:
        of_piece = np.empty((1 - (-len(piece) // 256), K))
        of_piece[0] = predicted[-1] if len(predicted) == 1 else predicted[-1][-1]
        offsets = np.array([0, len(piece)])
        in_doubt = module.forward(piece, offsets, table, of_piece, filtered, found, False)
        predicted.append(of_piece)
        total += found[0]
        assert in_doubt == [False]
    last = logs(chain.final) + (filtered[0] if is_log else logs(filtered[0]))
    assert_allclose(total + logsumexp(last), log_likelihood, rtol=chain.rtol)
    later, counts = np.full((1, 2, K), -np.inf), np.zeros((1, K, K))
    later[0, 0] = logs(chain.final) - logsumexp(last)
    later = later if is_log else np.exp(later)
    for piece, of_piece in zip(pieces[::-1], predicted[:0:-1], strict=True):
        offsets = np.array([0, len(piece)])
        assert module.backward(piece, offsets, table, of_piece, later, counts, False) == [False]
    tolerances = {"rtol": chain.rtol, "atol": chain.rtol}
    assert_allclose(np.concatenate(pieces), posterior, **tolerances)
    assert_allclose(counts[0], moves, **tolerances)


@by_module
@by_kind
@pytest.mark.parametrize("K", [3, 12, 40, 70])
@pytest.mark.parametrize("lengths", [(300, 520), (256, 3)])
def test_runs_side_by_side(K, lengths, dtype, has_zeros, module):
    """Two runs give the bits that each gives alone, the second with transposed transitions.

    That one agrees with a run that is told the transposed transitions.
    """
    chain, rng = Chain(K, 1, dtype, has_zeros), np.random.default_rng(K)
    into = logs if module is _log_chains else np.asarray
    offsets, table = np.array([0, lengths[0], sum(lengths)]), into(chain.transmat)
    rows = rng.normal(-3, 2, (sum(lengths), K)).astype(dtype)
    starts, laters = into(rng.dirichlet(np.ones(K), 2)), into(rng.random((2, 2, K)))
    runs = [
        (_middle, module, rows[offsets[r] : offsets[r + 1]], table, starts[r], laters[r], r == 1)
        for r in (0, 1)
    ]
    alone = [run(*arguments) for run, *arguments in runs]
    pair = _middle(module, rows, table, starts, laters, True, offsets)
    for found, *separate in zip(pair, *alone, strict=True):
        assert_array_equal(found, np.concatenate(separate))
    told = _middle(module, runs[1][2], into(chain.transmat.T.copy()), starts[1], laters[1], False)
    for found, expected in zip(alone[1], told, strict=True):
        assert_allclose(found, expected, rtol=10 * chain.rtol, atol=chain.rtol)


def _middle(module, rows, table, starts, laters, is_reversed, offsets=None):
    """What both passes of runs say."""
    rows, K = rows.copy(), len(table)
    starts, laters = starts.reshape(-1, K), laters.reshape(-1, 2, K).copy()
    offsets = np.array([0, len(rows)]) if offsets is None else offsets
    n_blocks = 1 - (-np.diff(offsets) // 256)
    R, firsts = len(starts), np.cumsum(n_blocks) - n_blocks
    predicted, filtered, found = np.empty((n_blocks.sum(), K)), np.empty((R, K)), np.empty(R)
    predicted[firsts] = starts
    module.forward(rows, offsets, table, predicted, filtered, found, is_reversed)
    moves = np.zeros((R, K, K))
    module.backward(rows, offsets, table, predicted, laters, moves, is_reversed)
    return found, filtered, rows, laters, moves


@pytest.mark.parametrize("K", [5, 64, 70])
@pytest.mark.parametrize("zeros", ["none", "few", "many"])
def test_sequences_side_by_side(K, zeros):
    """Sequences of all lengths give what they give with logarithms, one by one."""
    chain, rng = Chain(K, 1, np.float64, has_zeros=False), np.random.default_rng(K)
    if zeros == "few":
        chain.transmat = np.triu(chain.transmat)
        chain.transmat /= chain.transmat.sum(axis=1, keepdims=True)
    elif zeros == "many":
        chain.transmat = 0.9 * np.eye(K) + 0.1 * np.roll(np.eye(K), 1, axis=1)
    lengths = [1, 300, 2, 520, 5, 7, 256, 257, 9, 40, 1]
    offsets = np.cumsum([0, *lengths])
    chain.rows = rng.normal(-3, 2, (offsets[-1], K))
    # One sequence has lost a state that it needs: it alone is done again.
    chain.rows[offsets[3] + 100, 1:] -= 2000.0
    chain.rows[offsets[3] + 200, 0] -= 2000.0
    rows, moves, found = chain.rows.copy(), np.empty((K, K)), np.empty(len(lengths))
    filtered, lone = chain.rows.copy(), np.empty(len(lengths))
    arrays = offsets, chain.start, chain.start, chain.transmat, chain.final
    total = _forward_backward.forward_backward(rows, *arrays, found, moves, 1)
    assert_allclose(total, found.sum(), rtol=1e-12)
    _forward_backward.filtered(filtered, *arrays, lone, 1)
    assert_allclose(lone, found, rtol=1e-12)
    expected, arrays = np.zeros((K, K)), (chain.start, chain.transmat, chain.final)
    for s, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        part, forward = chain.rows[begin:end].copy(), chain.rows[begin:end].copy()
        log_likelihood = _log_chains.forward_backward(part, *arrays, expected)
        _log_chains.filtered(forward, *arrays)
        assert_allclose(found[s], log_likelihood, rtol=1e-12)
        assert_allclose(rows[begin:end], part, rtol=1e-9, atol=1e-12)
        assert_allclose(filtered[begin:end], forward, rtol=1e-9, atol=1e-12)
    assert_allclose(moves, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("K", [3, 6, 13])
def test_padding_does_not_take_what_memory_held(K):
    """Several blocks of states that fill no vector, in memory that is left full of NaN."""
    chain, T = Chain(K, 1, np.float64, has_zeros=False), 1100
    chain.rows = np.random.default_rng(K).normal(-3, 2, (T, K))
    expected, *_ = chain.called(_forward_backward, "forward_backward")
    predicted, filtered = np.empty((6, K)), np.empty((1, K))
    predicted[0] = chain.start
    run = chain.rows, np.array([0, T]), chain.transmat, predicted
    _forward_backward.forward(*run, filtered, np.empty(1), False)
    later = np.array([[chain.final / (filtered[0] @ chain.final), np.zeros(K)]])
    junk = [np.full(2**n, np.nan) for n in range(4, 16) for _ in range(32)]
    del junk[::2]
    _forward_backward.backward(*run, later, np.zeros((1, K, K)), False)
    assert_allclose(chain.rows, expected, rtol=1e-10, atol=1e-10)


def test_rows_are_normalised_and_empty_ones_kept(rng):
    rows, previous = rng.normal(size=(6, 4)), rng.dirichlet(np.ones(4), 6)
    rows[0], rows[1], rows[2, 1] = 0.0, -1.0, np.nan
    out, counts = np.empty((6, 4)), np.maximum(rows, 0.0)
    _forward_backward.normalise_rows(rows, previous, out)
    assert_array_equal(out[:3], previous[:3])
    assert_allclose(out[3:], counts[3:] / counts[3:].sum(axis=1, keepdims=True), rtol=1e-15)


@pytest.mark.parametrize("n_starts", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("distance", [1.0, 1e-4])
@pytest.mark.parametrize("columns", [3, 4])
def test_the_joint_divergence_of_chains(columns, distance, n_starts, rng):
    def near(p):
        q = p * np.exp(distance * rng.normal(size=p.shape))
        return q / q.sum(axis=-1, keepdims=True)

    start, transmat = rng.uniform(size=3), rng.uniform(size=(3, columns))
    start[0] = transmat[1, 2] = 0.0
    start /= start.sum()
    transmat /= transmat.sum(axis=1, keepdims=True)
    others, (left, emitted) = (near(start), near(transmat)), rng.uniform(size=(2, 3))
    divergences = rng.uniform(size=3)
    left[0] = emitted[2] = divergences[1] = 0.0
    others[1][0, 0], divergences[2] = 0.0, np.inf  # States that are never visited do not count.
    expected = n_starts * rel_entr(start, others[0]).sum() + emitted[:2] @ divergences[:2]
    expected += left[1:] @ rel_entr(transmat, others[1]).sum(axis=1)[1:]
    pair = start, transmat, *others
    found = _forward_backward.joint_divergence(*pair, n_starts, left, emitted, divergences)
    assert_allclose(found, expected, rtol=1e-10)
    others[1][1, 0] = 0.0
    assert _forward_backward.joint_divergence(*pair, n_starts, left, emitted, divergences) == np.inf
    divergences[0] = np.nan
    assert np.isnan(_forward_backward.joint_divergence(*pair, n_starts, left, emitted, divergences))


@pytest.mark.parametrize("name", ["forward_backward", "filtered", "draw_paths"])
@pytest.mark.parametrize("K", [33, 48, 130])
@pytest.mark.parametrize("has_hub", [False, True])
def test_sparse_transitions(name, K, has_hub):
    """Tables that are mostly zeros: some states with many ways in or out, and one with none in.

    With a hub, to which all states have a way, zeros are walked over as well.
    """
    rng, T = np.random.default_rng(K), 600
    chain = Chain(K, 1, np.float64, has_zeros=False)
    transmat = rng.dirichlet(np.ones(K), K) * (rng.random((K, K)) < 0.02)
    transmat[: K if has_hub else K // 20 + 1, 3] += 0.01
    transmat[:, 7] = 0.0
    transmat += 0.1 * np.roll(np.eye(K), 2, axis=1) * (np.arange(K) != 7)
    # Kernels take eight states together, each with as many neighbours as the fullest of them.
    W, n_entries = -(-K // 8) * 8, []
    for axis in (0, 1):
        degrees = np.pad(np.count_nonzero(transmat, axis=axis), (0, W - K))
        n_entries.append(8 * degrees.reshape(-1, 8).max(axis=1).sum())
    assert (max(n_entries) > 0.1 * W * W) == has_hub
    assert np.count_nonzero(transmat) <= 0.1 * K * K
    chain.transmat = transmat / transmat.sum(axis=1, keepdims=True)
    chain.rows, chain.uniforms = rng.normal(-3, 2, (T, K)), rng.random(T)
    found = chain.called(_forward_backward, name, *_uniforms(chain, name))
    expected = chain.called(_log_chains, name, *_uniforms(chain, name))
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-10)
