"""R-hat and effective sample size, against loops over their formulas."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, rankdata

from sklearn_onlineem.em.solvers import Chains
from sklearn_onlineem.em.solvers.gibbs import effective_sample_size, r_hat


def halves_of(chains):
    n = chains.shape[1] // 2
    return [half for chain in chains for half in (chain[:n], chain[-n:])]


def normal_scores(values):
    ranks = rankdata(np.ravel(values)).reshape(np.shape(values))
    return norm.ppf((ranks - 3 / 8) / (np.size(values) + 1 / 4))


def plain_r_hat(chains):
    n = len(chains[0])
    between = n * np.var([np.mean(chain) for chain in chains], ddof=1)
    within = np.mean([np.var(chain, ddof=1) for chain in chains])
    return np.sqrt(((n - 1) / n * within + between / n) / within)


def drifting(rng, n_chains, n, memory):
    chains = rng.normal(size=(n_chains, n))
    for t in range(1, n):
        chains[:, t] = memory * chains[:, t - 1] + np.sqrt(1.0 - memory**2) * chains[:, t]
    return chains


@pytest.mark.parametrize("shape", [(1, 4), (1, 51), (3, 40), (4, 101)])
def test_r_hat_is_its_formula(shape, rng):
    chains = rng.normal(size=shape) + rng.normal(size=(shape[0], 1))
    halves = np.array(halves_of(chains))
    folded = np.abs(halves - np.median(halves))
    expected = max(plain_r_hat(normal_scores(halves)), plain_r_hat(normal_scores(folded)))
    assert_allclose(r_hat(chains), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 6), (2, 41), (3, 60)])
def test_effective_sample_size_is_its_formula(shape, rng):
    chains = drifting(rng, *shape, 0.6)
    scores = normal_scores(np.array(halves_of(chains)))
    n_chains, n = scores.shape
    centred = scores - scores.mean(axis=1, keepdims=True)
    # Covariances of each chain by lag, with the correction for its own mean.
    covariances = np.array([
        [(chain[: n - t] * chain[t:]).sum() / n * n / (n - 1) for t in range(n)]
        for chain in centred
    ])  # fmt: skip
    within = covariances[:, 0].mean()
    total = (n - 1) / n * within + np.var(scores.mean(axis=1), ddof=1)
    rho = 1.0 - (within - covariances.mean(axis=0)) / total
    rho[0] = 1.0
    time, smallest, t = -1.0, np.inf, 0
    while t + 1 < n and rho[t] + rho[t + 1] >= 0.0:
        smallest = min(smallest, rho[t] + rho[t + 1])
        time += 2.0 * smallest
        t += 2
    expected = scores.size / max(time, 1.0 / np.log10(scores.size))
    assert_allclose(effective_sample_size(chains), expected, rtol=1e-10)


@pytest.mark.parametrize("values", [np.zeros((2, 50)), np.ones((1, 3)), np.arange(6.0)[None, :3]])
def test_what_does_not_vary_has_neither(values):
    assert np.isnan(r_hat(values))
    assert np.isnan(effective_sample_size(values))


def test_chains_that_stand_still_apart_do_not_agree():
    assert r_hat(np.repeat([[0.0], [1.0]], 20, axis=1)) == np.inf


def test_a_record_takes_the_worse_of_scores_and_entropies(rng):
    scores, entropies = rng.normal(size=(2, 200)), drifting(rng, 2, 200, 0.9)
    record = Chains(scores, entropies, 51)
    assert record.r_hat == max(r_hat(scores[:, 50:]), r_hat(entropies[:, 50:]))
    assert record.effective_sample_size == effective_sample_size(entropies[:, 50:])
    of_one_component = Chains(scores, np.zeros_like(scores), 51)
    assert of_one_component.r_hat == r_hat(scores[:, 50:])
    assert np.isnan(Chains(scores[:, :2], entropies[:, :2], 1).r_hat)
