"""Hidden chains, with logarithms and without, against sums over all paths."""

import numpy as np
import pytest
from cases.enumeration import all_paths, logs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from sklearn_onlineem._kernels import _forward_backward, _log_chains

# States and rows: vectors of all widths, and a state more or less.
SIZES = [(1, 3), (2, 6), (3, 5), (4, 4), (5, 4), (8, 3), (9, 3), (17, 2), (33, 2), (3, 1)]
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
        self.paths, self.rtol = all_paths(K, T), TOLERANCES[dtype]

    def joint(self, n_rows=None, ends=True):
        """log p(path, rows), of the first rows."""
        paths, transitions = self.paths[:, :n_rows], logs(self.transmat)
        joint = logs(self.start)[paths[:, 0]] + transitions[paths[:, :-1], paths[:, 1:]].sum(axis=1)
        joint += self.rows[np.arange(paths.shape[1]), paths].sum(axis=1, dtype=float)
        return joint + logs(self.final)[paths[:, -1]] * ends

    def posterior(self, **kwargs):
        joint = self.joint(**kwargs)
        return np.exp(joint - logsumexp(joint))

    def state_shares(self, t, posterior):
        return np.bincount(self.paths[:, t], posterior, minlength=len(self.start))

    def filtered_numpy(self):
        steps = range(len(self.rows))
        return [self.state_shares(t, self.posterior(n_rows=t + 1, ends=False)) for t in steps]

    def moves(self, posterior):
        """Expected numbers of moves from a state to another."""
        counts = np.zeros(self.transmat.shape)
        for t in range(1, len(self.rows)):
            np.add.at(counts, (self.paths[:, t - 1], self.paths[:, t]), posterior)
        return counts

    def drawn_numpy(self):
        """From the last row to the first, each state given those after it."""
        posterior, path = self.posterior(), []
        for t in reversed(range(len(self.rows))):
            shares = np.cumsum(self.state_shares(t, posterior))
            path.append(np.searchsorted(shares, self.uniforms[t] * shares[-1], "right"))
            posterior = posterior * (self.paths[:, t] == path[-1])
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
        arrays = offsets, self.start, self.start, self.transmat, self.final, *options, found, *moves
        getattr(module, name)(rows, *arrays, 1)
        return rows, found[0], *moves


@by_module
@by_size
@by_kind
def test_posteriors_and_moves(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    posterior = chain.posterior()
    rows, log_likelihood, moves = chain.called(module, "forward_backward")
    tolerances = {"rtol": chain.rtol, "atol": chain.rtol}
    assert_allclose(log_likelihood, logsumexp(chain.joint()), rtol=chain.rtol)
    assert_allclose(rows, [chain.state_shares(t, posterior) for t in range(T)], **tolerances)
    assert_allclose(moves, chain.moves(posterior), **tolerances)


@by_module
@by_size
@by_kind
def test_filtered_states(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    rows, log_likelihood = chain.called(module, "filtered")
    assert_allclose(log_likelihood, logsumexp(chain.joint()), rtol=chain.rtol)
    assert_allclose(rows, chain.filtered_numpy(), rtol=chain.rtol, atol=chain.rtol)


@by_module
@by_size
@by_kind
def test_drawn_paths(K, T, dtype, has_zeros, module):
    chain = Chain(K, T, dtype, has_zeros)
    path = chain.drawn_numpy()
    rows, log_likelihood, moves = chain.called(module, "draw_paths", chain.uniforms)
    assert_allclose(log_likelihood, logsumexp(chain.joint()), rtol=chain.rtol)
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
    assert_allclose(found, chain.joint().max(), rtol=chain.rtol)
    assert_array_equal(path, chain.paths[chain.joint().argmax()])


@pytest.mark.parametrize("n_rows", [1, 2, 7, 4096, 4097, 9000])
@pytest.mark.parametrize("K", [1, 2, 4, 5, 8, 9, 17])
def test_occupancies_are_sums_over_rows(K, n_rows):
    rng = np.random.default_rng([K, n_rows])
    start, transmat = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K)
    weights, states = rng.uniform(size=n_rows), [start]
    for _ in range(1, n_rows):
        states.append(states[-1] @ transmat)
    left, emitted = np.ones(K), np.zeros(K)
    _forward_backward.occupancies(start, transmat, weights, left, emitted)
    assert_allclose(emitted, weights @ states, rtol=1e-10)
    assert_allclose(left, 1.0 + weights[1:] @ np.reshape(states[:-1], (-1, K)), rtol=1e-10)


@pytest.mark.parametrize("period", [2, 3])
def test_occupancies_of_a_chain_that_is_never_stationary(period):
    transmat, n_rows = np.roll(np.eye(period), 1, axis=1), 3 * 4096 + 1
    left, emitted = np.zeros((2, period))
    _forward_backward.occupancies(np.eye(period)[0], transmat, np.ones(n_rows), left, emitted)
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


def test_visits_of_a_chain_that_never_ends_are_refused():
    with pytest.raises(np.linalg.LinAlgError):
        _forward_backward.visits(np.ones(2), np.eye(2), 1.0, np.empty(2))
