"""Sweeps over the topics of tokens, and expected logarithms, against formulas and enumeration."""

import time
from itertools import product

import numpy as np
import pytest
from cases.topic_formulas import choose, padded, stream_of, uniform_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, logsumexp, psi
from scipy.stats import chisquare

from sklearn_onlineem._kernels._topic_sweeps import expected_logs
from sklearn_onlineem._kernels._topic_sweeps import sweep as draw_topics

ALL_ALLOWED = np.empty((0, 0), np.uint8)
BETA = 0.4


class Corpus:
    """Words of tokens, where documents begin, the topics these may use, and the prior."""

    def __init__(self, tokens, offsets, V, alpha, allowed=ALL_ALLOWED, beta=BETA):
        self.tokens, self.offsets = np.array(tokens, np.intc), np.array(offsets, np.int64)
        self.V, self.alpha, self.allowed, self.beta = V, np.array(alpha), allowed, beta
        self.K = len(alpha)
        self.documents = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    def table(self, topics):
        """How often words have topics (V, K), not counting -1."""
        counts = np.zeros((self.V, self.K))
        np.add.at(counts, (self.tokens[topics >= 0], topics[topics >= 0]), 1)
        return counts

    @property
    def no_blocks(self):
        blocks = np.zeros(len(self.offsets), int), np.empty(0, np.intc), np.empty(0, np.float32)
        return *blocks, np.empty((0, -(-self.K // 16) * 16), np.float32)

    def state(self, topics):
        topics = np.array(topics, np.intc)
        table = padded(self.table(topics))
        return topics, table, table.sum(axis=0, dtype=float)

    def prior(self, document):
        allowed = self.allowed[document] > 0 if self.allowed.size else True
        return np.where(allowed, self.alpha, 0.0)

    def weights(self, topics, t, table):
        """(n_dk + alpha_k) (n_kw + beta) / (n_k + V beta) / (n_d + alpha_0), for token t."""
        alpha, here = self.prior(self.documents[t]), topics[self.documents == self.documents[t]]
        n = np.bincount(here[here >= 0], minlength=self.K)
        phi = (table[self.tokens[t]] + self.beta) / (table.sum(axis=0) + self.V * self.beta)
        return (n + alpha) * phi / (n.sum() + alpha.sum())

    def uniform(self, seed, t):
        d = self.documents[t]
        return uniform_of(stream_of(seed, int(d)), int(t - self.offsets[d]))


def random_corpus(K, seed=0, restricted=False, n=20, V=17):
    rng = np.random.default_rng([K, seed])
    lengths = rng.integers(0, 12, n)
    allowed = ALL_ALLOWED
    if restricted:
        allowed = rng.integers(0, 2, (n, K)).astype(np.uint8)
        allowed[np.arange(n), rng.integers(0, K, n)] = 1
    corpus = Corpus(rng.integers(0, V, lengths.sum()), np.cumsum([0, *lengths]), V,
                    rng.uniform(0.05, 2, K), allowed)  # fmt: skip
    masks = allowed[corpus.documents] if restricted else np.ones((len(corpus.tokens), K))
    return corpus, np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])


def collapsed(corpus, topics, seed):
    topics, table, totals = corpus.state(topics)
    value = draw_topics(corpus.tokens, corpus.offsets, corpus.allowed, topics, *corpus.no_blocks,
                        table, totals, None, None, corpus.alpha, corpus.beta, seed, 1)  # fmt: skip
    return topics, table, totals, value


def stochastic(corpus, topics, seed, n_threads=1):
    topics, table, totals = corpus.state(topics)
    new = np.full_like(table, np.nan), np.full_like(totals, np.nan)
    value = draw_topics(corpus.tokens, corpus.offsets, corpus.allowed, topics, *corpus.no_blocks,
                        table, totals, *new, corpus.alpha, corpus.beta, seed,
                        n_threads)  # fmt: skip
    return topics, *new, value


SWEEPS = pytest.mark.parametrize("sweep", [collapsed, stochastic], ids=lambda s: s.__name__)


def collapsed_numpy(corpus, topics, seed):
    topics, value = topics.copy(), 0.0
    for t in range(len(topics)):
        own, topics[t] = topics[t], -1
        weights = corpus.weights(topics, t, corpus.table(topics))
        last, gained = gained_last(corpus, topics, t, weights)
        topics[t] = choose_in_parts(weights, own, last, gained, corpus.uniform(seed, t))
        value += np.log(weights.sum())
    return topics, value


def gained_last(corpus, topics, t, weights):
    """The topic of the token before, and what that token has added to its weight."""
    if t == corpus.offsets[corpus.documents[t]]:
        return -1, 0.0
    last, others = topics[t - 1], topics.copy()
    others[t - 1] = -1
    n_others = np.sum((corpus.documents == corpus.documents[t]) & (others >= 0))
    alpha_sum = corpus.prior(corpus.documents[t]).sum()
    before = corpus.weights(others, t, corpus.table(others))[last]
    return last, weights[last] - before * (n_others + alpha_sum) / (n_others + 1 + alpha_sum)


def choose_in_parts(weights, own, last, gained, uniform):
    """First come all topics but the token's own, then its own, then what the last one gained."""
    if gained < 0:
        return choose(weights, uniform)
    x, rest, kept = uniform * weights.sum(), weights.copy(), 0.0
    rest[last] -= gained
    if own >= 0:
        kept, rest[own] = rest[own], 0.0
    if x < rest.sum():
        return choose(rest, x / rest.sum())
    return own if x < rest.sum() + kept else last


def stochastic_numpy(corpus, topics, seed):
    new, value, table = topics.copy(), 0.0, corpus.table(topics)
    for t in range(len(topics)):
        weights = corpus.weights(topics, t, table)
        new[t] = choose(weights, corpus.uniform(seed, t))
        value += np.log(weights.sum())
    return new, value


FORMULAS = {collapsed: collapsed_numpy, stochastic: stochastic_numpy}


@SWEEPS
@pytest.mark.parametrize("K", [1, 2, 16, 17, 50])
@pytest.mark.parametrize("restricted", [False, True])
def test_agrees_with_the_formula(sweep, K, restricted):
    corpus, topics = random_corpus(K, restricted=restricted)
    for seed in (0, 7, 2**64 - 1):
        found, table, totals, value = sweep(corpus, topics, seed)
        topics, expected = FORMULAS[sweep](corpus, topics, seed)
        assert_array_equal(found, topics)
        assert_allclose(value, expected, rtol=1e-6)
        assert_array_equal(table, padded(corpus.table(topics)))
        assert_array_equal(totals, table.sum(axis=0))


@pytest.mark.parametrize("K", [2, 17])
def test_a_token_may_take_weight_from_its_topic(K):
    """Which it does where alpha_k > V beta."""
    corpus, topics = random_corpus(K)
    corpus = Corpus(corpus.tokens, corpus.offsets, corpus.V, 200 + corpus.alpha)
    assert any(gained_alone(corpus, topics, t) < 0 for t in range(len(topics)))
    for seed in range(5):
        found, *_, value = collapsed(corpus, topics, seed)
        topics, expected = collapsed_numpy(corpus, topics, seed)
        assert_array_equal(found, topics)
        assert_allclose(value, expected, rtol=1e-6)


def gained_alone(corpus, topics, t):
    others = np.where(np.arange(len(topics)) == t, -1, topics)
    return gained_last(corpus, others, t, corpus.weights(others, t, corpus.table(others)))[1]


@SWEEPS
def test_tokens_without_topics_are_not_counted(sweep):
    corpus, topics = random_corpus(5)
    for none in (np.full_like(topics, -1), np.where(np.arange(len(topics)) % 3, topics, -1)):
        found, table, totals, value = sweep(corpus, none, 3)
        expected, expected_value = FORMULAS[sweep](corpus, none, 3)
        assert_array_equal(found, expected)
        assert_allclose(value, expected_value, rtol=1e-6)
        assert_array_equal(table, padded(corpus.table(found)))
        assert totals.sum() == len(topics)


@SWEEPS
def test_counts_stay_those_of_the_topics(sweep):
    corpus, topics = random_corpus(20, restricted=True, n=100, V=5)
    for seed in range(50):
        topics, table, totals, value = sweep(corpus, topics, seed)
        assert np.isfinite(value)
    assert_array_equal(table, padded(corpus.table(topics)))
    assert_array_equal(totals, table.sum(axis=0))
    assert np.all(corpus.allowed[corpus.documents, topics])


# Three tokens, one of them in a document of its own.
TINY = Corpus([0, 1, 1], [0, 2, 3], 2, [0.3, 0.8])
STATES = np.array(list(product(range(2), repeat=3)))


def number_of(topics):
    return int(np.dot(topics, [4, 2, 1]))


def exact_collapsed():
    """The transition matrix (8, 8) of a sweep: a product of those of the tokens."""
    sweep = np.eye(8)
    for t in range(3):
        step = np.zeros((8, 8))
        for state in STATES:
            others = state.copy()
            others[t] = -1
            weights = TINY.weights(others, t, TINY.table(others))
            for k in range(2):
                others[t] = k
                step[number_of(state), number_of(others)] = weights[k] / weights.sum()
        sweep = sweep @ step
    return sweep


def exact_stochastic():
    sweep = np.ones((8, 8))
    for state, new in product(STATES, STATES):
        for t in range(3):
            weights = TINY.weights(state, t, TINY.table(state))
            sweep[number_of(state), number_of(new)] *= weights[new[t]] / weights.sum()
    return sweep


def posterior_of(corpus, states):
    log_joint = []
    for topics in states:
        table = corpus.table(topics)
        n = np.array([np.bincount(topics[corpus.documents == d], minlength=2) for d in range(2)])
        log_joint.append(
            gammaln(corpus.alpha + n).sum() - gammaln((corpus.alpha + n).sum(axis=1)).sum()
            + gammaln(table + BETA).sum() - gammaln((table + BETA).sum(axis=0)).sum()
        )  # fmt: skip
    return np.exp(log_joint - logsumexp(log_joint))


def test_the_posterior_is_stationary():
    posterior = posterior_of(TINY, STATES)
    assert_allclose(posterior @ exact_collapsed(), posterior, rtol=1e-12)
    # The stochastic automaton counts tokens in themselves: another law, and near it.
    assert 1e-3 < np.abs(posterior @ exact_stochastic() - posterior).max() < 0.2


@SWEEPS
@pytest.mark.parametrize("start", [0, 3, 6])
def test_transitions_have_their_exact_probabilities(sweep, start):
    exact = {collapsed: exact_collapsed, stochastic: exact_stochastic}[sweep]()[start]
    n = 8000
    seen = np.zeros(8)
    for seed in range(n):
        seen[number_of(sweep(TINY, STATES[start], 1_000_003 * start + seed)[0])] += 1
    assert exact.min() * n > 5
    assert chisquare(seen, exact * n).pvalue > 1e-3


# --- blocks

# Two documents: words of two and three tokens are blocks, and one word is single.
BLOCKS = np.array([0, 1, 2]), np.array([1, 0], np.intc), np.array([3.0, 2.0], np.float32)
BLOCKED = Corpus([0, 1, 1, 1, 0, 0], [0, 4, 6], 2, [0.3, 0.8])
BLOCKED_STATES = np.array(list(product(range(2), repeat=6)))


def counts_of(topics):
    """The topic of the single token, and how many of each block are of topic 1."""
    return topics[..., 0], topics[..., 1:4].sum(axis=-1), topics[..., 4:].sum(axis=-1)


def swept_blocks(sweep, topics, seed):
    """The same after a sweep that draws blocks."""
    single, first, second = counts_of(topics)
    _, table, totals = BLOCKED.state(topics)
    drawn, blocks = np.array([single], np.intc), np.zeros((2, 16), np.float32)
    blocks[:, :2] = [[3 - first, first], [2 - second, second]]
    arrays = [np.array([0], np.intc), np.array([0, 1, 1]), ALL_ALLOWED, drawn, *BLOCKS, blocks,
              table, totals]  # fmt: skip
    new = None, None
    if sweep is stochastic:
        new = np.full_like(table, np.nan), np.full_like(totals, np.nan)
    value = draw_topics(*arrays, *new, BLOCKED.alpha, BETA, seed, 1)
    new = (table, totals) if sweep is collapsed else new
    assert -np.inf < value < 0
    assert_array_equal(blocks.sum(axis=1), [3, 2])
    assert_array_equal(new[0][:, :2].sum(axis=1), [3, 3])
    assert_array_equal(new[0][0, :2], np.eye(2)[drawn[0]] + blocks[1, :2])
    assert_array_equal(new[0][1, :2], blocks[0, :2])
    assert_array_equal(new[1], new[0].sum(axis=0))
    return drawn[0], int(blocks[0, 1]), int(blocks[1, 1])


def seen_and_expected(states, probabilities, draws):
    """How often states of counts were drawn, and how often they should be."""
    expected, seen = np.zeros((2, 4, 3)), np.zeros((2, 4, 3))
    np.add.at(expected, counts_of(states), probabilities)
    for drawn in draws:
        seen[drawn] += 1
    return seen.ravel(), expected.ravel() * len(draws)


def test_the_posterior_is_stationary_under_draws_of_blocks():
    posterior, rng = posterior_of(BLOCKED, BLOCKED_STATES), np.random.default_rng(1)
    starts = BLOCKED_STATES[rng.choice(64, 8_000, p=posterior)]
    draws = [swept_blocks(collapsed, topics, seed) for seed, topics in enumerate(starts)]
    seen, expected = seen_and_expected(BLOCKED_STATES, posterior, draws)
    assert expected.min() > 10
    assert chisquare(seen, expected).pvalue > 1e-3
    # They move, and the law could fail.
    before = np.stack(counts_of(starts), axis=1)
    assert (before != np.array(draws)).any(axis=1).mean() > 0.3


def test_blocks_of_the_automaton_are_drawn_as_tokens_are():
    start, n = np.array([1, 0, 1, 1, 0, 1]), 8000
    draws = [swept_blocks(stochastic, start, seed) for seed in range(n)]
    probabilities = np.ones(64)
    for t in range(6):
        weights = BLOCKED.weights(start, t, BLOCKED.table(start))
        probabilities *= (weights / weights.sum())[BLOCKED_STATES[:, t]]
    seen, expected = seen_and_expected(BLOCKED_STATES, probabilities, draws)
    assert expected.min() > 5
    assert chisquare(seen, expected).pvalue > 1e-3


@SWEEPS
def test_blocks_of_millions_are_quick_and_finite(sweep):
    """Which tokens of 2e8 would not be; all of them keep a topic that their document may use."""
    rng, n, K, V = np.random.default_rng(0), 24, 20, 8
    counts = rng.integers(10**5, 2 * 10**6, (n, V))
    allowed = np.ones((n, K), np.uint8)
    allowed[:, 3] = 0
    table, totals = padded(np.ones((V, K))), np.ones(32)
    blocks = np.zeros((n * V, 32), np.float32)
    arrays = [np.empty(0, np.intc), np.zeros(n + 1, int), allowed, np.empty(0, np.intc),
              np.arange(0, n * V + 1, V), np.tile(np.arange(V), n).astype(np.intc),
              counts.ravel().astype(np.float32), blocks]  # fmt: skip
    begin = time.process_time()
    for seed in range(5):
        in_place = sweep is collapsed and seed > 0
        new = (None, None) if in_place else (np.empty_like(table), np.empty_like(totals))
        value = draw_topics(*arrays, table, totals, *new, np.full(K, 0.1), BETA, seed, 1)
        table, totals = (table, totals) if in_place else new
        assert -np.inf < value < 0
        assert_array_equal(blocks.sum(axis=1), counts.ravel())
        assert not blocks[:, 3].any()
        assert_array_equal(table.sum(axis=1, dtype=float), counts.sum(axis=0))
        assert_array_equal(totals, table.sum(axis=0, dtype=float))
    assert time.process_time() - begin < 3.0


def test_threads_change_no_bit():
    corpus, topics = random_corpus(60, n=2000, V=300)
    first, *others = (stochastic(corpus, topics, 5, n_threads) for n_threads in (1, 2, 3, 8))
    for other in others:
        for a, b in zip(first, other, strict=True):
            assert_array_equal(a, b)


@SWEEPS
def test_empty_documents_are_passed_over(sweep):
    corpus = Corpus([], [0, 0, 0], 3, [1.0, 2.0])
    topics, table, totals, value = sweep(corpus, np.empty(0, int), 0)
    assert value == 0 and not table.any() and not totals.any()


@SWEEPS
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e29])
def test_tiny_and_huge_priors_leave_numbers(sweep, scale):
    corpus, topics = random_corpus(5)
    for alpha, beta in ((scale, 0.1), (0.1, scale), (scale, scale)):
        other = Corpus(corpus.tokens, corpus.offsets, corpus.V, np.full(5, alpha), beta=beta)
        found, table, _, value = sweep(other, topics, 0)
        assert -np.inf < value <= 0
        assert_array_equal(table, padded(other.table(found)))


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
