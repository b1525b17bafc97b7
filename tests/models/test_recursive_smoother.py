"""Recursive smoothing with step sizes 1 / t is forward-backward over all that came."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.enumeration import Enumeration

from benchmarks.papers._recursive_learning import ScoreSmoother, moved
from benchmarks.papers._recursive_smoother import (
    CategoricalEmissions,
    Chain,
    GaussianEmissions,
    RecursiveSmoother,
    Sums,
)

N_STATES, N_SYMBOLS, N_FEATURES = 3, 4, 2
EMISSIONS = ["categorical", "gaussian"]


def emissions(kind, rng):
    if kind == "categorical":
        return CategoricalEmissions(rng.dirichlet(np.ones(N_SYMBOLS), size=N_STATES))
    roots = rng.normal(size=(N_STATES, N_FEATURES, N_FEATURES)) + 2.0 * np.eye(N_FEATURES)
    means = rng.normal(size=(N_STATES, N_FEATURES))
    return GaussianEmissions.with_covariances(means, roots @ roots.mT)


def chain_of(kind, rng, with_end=False):
    moves = rng.dirichlet(np.ones(N_STATES + with_end), size=N_STATES)
    return Chain(rng.dirichlet(np.ones(N_STATES)), moves, emissions(kind, rng))


def symbols(kind, n, rng):
    if kind == "categorical":
        return rng.integers(N_SYMBOLS, size=(n, 1)).astype(float)
    return rng.normal(size=(n, N_FEATURES))


def smoothed(chain, X, gammas, begins=()):
    """The smoother after all symbols, and their log-likelihoods."""
    rows = chain.emissions.features(X)
    smoother = RecursiveSmoother(chain, rows.shape[1])
    log_likelihoods = [
        smoother.update(chain, row, gamma, t in begins)
        for t, (row, gamma) in enumerate(zip(rows, gammas, strict=True))
    ]
    return smoother, np.array(log_likelihoods)


@pytest.mark.parametrize("decays", [True, False], ids=["averages", "random step sizes"])
@pytest.mark.parametrize("kind", EMISSIONS)
def test_statistics_are_those_of_all_paths(kind, decays):
    """A symbol, and the move to it, weigh its step size times what later ones have left of it."""
    rng, n = np.random.default_rng(7), 6
    chain, X = chain_of(kind, rng), symbols(kind, n, rng)
    gammas = 1.0 / np.arange(1, n + 1) if decays else rng.uniform(0.1, 0.6, size=n)
    smoother, log_likelihoods = smoothed(chain, X, gammas)
    rows = chain.emissions.features(X)
    log_densities = np.array([chain.emissions.log_density(row) for row in rows])
    chain = SimpleNamespace(start=chain.start, transmat=chain.transmat, termination=None)
    truth = Enumeration(chain, log_densities)
    weights = gammas * np.append(np.cumprod(1.0 - gammas[:0:-1])[::-1], 1.0)
    states = np.eye(N_STATES)[truth.paths]
    expected = (
        weights[0] * np.einsum("p,pk->k", truth.shares, states[:, 0]),
        np.einsum("t,p,pti,ptj->ij", weights[1:], truth.shares, states[:, :-1], states[:, 1:]),
        np.einsum("t,p,ptk,ts->ks", weights, truth.shares, states, rows),
    )
    assert_close(tuple(smoother.statistics()), expected, rtol=1e-11)
    assert_close(log_likelihoods.sum(), truth.log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("with_end", [False, True], ids=["endless", "sequences"])
@pytest.mark.parametrize("kind", EMISSIONS)
def test_scores_are_derivatives_of_log_likelihoods(kind, with_end):
    """Along a random direction, by central differences."""
    rng = np.random.default_rng(4)
    chain, X = chain_of(kind, rng, with_end), symbols(kind, 12, rng)
    begins = np.isin(np.arange(12), [0, 5, 6] if with_end else [0])
    rows, smoother = chain.emissions.features(X), ScoreSmoother(chain)
    scores = []
    for row, begin in zip(rows, begins, strict=True):
        smoother.update(chain, row, begin)
        scores.append(np.concatenate([part.ravel() for part in smoother.score()]))
    shapes = [part.shape for part in smoother.score()]
    direction = Sums(*(rng.normal(size=shape) for shape in shapes))
    along = np.concatenate([part.ravel() for part in direction])

    def log_likelihoods(step):
        there = moved(chain, direction, step, learns_start=True)
        return smoothed(there, X, np.ones(12), np.flatnonzero(begins))[1]

    differences = (log_likelihoods(1e-5) - log_likelihoods(-1e-5)) / 2e-5
    assert_close(np.array(scores) @ along, differences, rtol=1e-7, atol=1e-7)
