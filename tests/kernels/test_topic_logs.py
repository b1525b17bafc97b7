"""Expected logarithms of proportions against their formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import psi

from sklearn_onlineem._kernels._topic_sweeps import expected_logs

ALL_ALLOWED = np.empty((0, 0), np.uint8)


class Drawn:
    """Topics of tokens, where documents begin, the topics these may use, and the prior."""

    def __init__(self, K, restricted=False, n=150, alpha=None, n_blocks=0):
        rng = np.random.default_rng(K)
        lengths = rng.integers(0, 12, n)
        masks = np.ones((n, K), np.uint8)
        if restricted:
            masks = rng.integers(0, 2, (n, K)).astype(np.uint8)
            masks[np.arange(n), rng.integers(0, K, n)] = 1
        self.masks, self.allowed = masks, masks if restricted else ALL_ALLOWED
        self.offsets = np.cumsum([0, *lengths])
        self.documents = np.repeat(np.arange(n), lengths)
        self.topics = np.array(
            [rng.choice(np.flatnonzero(masks[d])) for d in self.documents], np.intc
        )
        self.alpha = rng.uniform(0.05, 2, K) if alpha is None else np.full(K, alpha)
        self.block_documents = np.sort(rng.integers(0, n, n_blocks))
        self.block_topics = rng.integers(0, 3, (n_blocks, K)) * masks[self.block_documents]

    def logs(self, n_threads=1):
        out = np.full(len(self.alpha), np.nan)
        arrays = self.topics, self.offsets, *self.blocks, self.allowed, self.alpha
        expected_logs(*arrays, out, n_threads)
        return out

    @property
    def blocks(self):
        """Where the blocks of documents begin, and how many of their tokens have each topic."""
        rows = np.zeros((self.block_topics.shape[0], 64), np.float32)
        rows[:, : len(self.alpha)] = self.block_topics
        return np.searchsorted(self.block_documents, np.arange(len(self.offsets))), rows

    def logs_numpy(self):
        n = np.zeros(self.masks.shape)
        np.add.at(n, (self.documents, self.topics), 1)
        np.add.at(n, self.block_documents, self.block_topics)
        here = self.masks > 0
        sums, before = ((x + self.alpha).sum(axis=1, where=here, keepdims=True) for x in (n, 0 * n))
        # The sum of the topics that are allowed is as in the prior.
        logs = psi(self.alpha + n) - psi(sums) + (psi(before) - psi(self.alpha.sum()))
        return np.where(here, logs, psi(self.alpha) - psi(self.alpha.sum())).sum(axis=0)


@pytest.mark.parametrize("K", [1, 2, 16, 17, 50])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("n_blocks", [0, 40])
def test_agree_with_the_formula(K, restricted, n_blocks):
    drawn = Drawn(K, restricted, n_blocks=n_blocks)
    one = drawn.logs()
    assert_allclose(one, drawn.logs_numpy(), rtol=1e-12, atol=1e-10)
    for n_threads in (2, 8):
        assert_array_equal(drawn.logs(n_threads), one)


@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e6, 1e20])
def test_no_digits_are_lost_at_small_and_large_priors(alpha):
    # All documents have all topics, so that 1 / alpha is in no sum.
    drawn = Drawn(2, n=2, alpha=alpha)
    drawn.topics, drawn.offsets = np.array([0, 0, 0, 1, 1, 0], np.intc), np.array([0, 4, 6])
    drawn.documents = np.repeat([0, 1], [4, 2])
    assert_allclose(drawn.logs(), drawn.logs_numpy(), rtol=1e-12)
