"""The kernels of topics against their formulas in NumPy, and these against enumeration."""

import time
from itertools import product

import numpy as np
import pytest
from cases.topic_formulas import choose, padded, stream_of, uniform_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, logsumexp, psi
from scipy.stats import chisquare, ks_2samp

from sklearn_onlineem._kernels._topics import e_step

NONE, NO_TABLE = np.empty(0), np.empty((0, 0))
ALL_ALLOWED = np.empty((0, 0), np.uint8)
# More tokens than any word here has, so that none are drawn as a block.
MANY = 1 << 20
SAMPLED = {"n_sweeps": 6, "burn_in": 2}
MAP = {"n_sweeps": 0, "burn_in": 0}
METHODS = pytest.mark.parametrize("method", [SAMPLED, MAP], ids=["sampled", "MAP"])


def documents(rng, n, V, mean_length=12.0, whole=True):
    """CSR rows of counts, of which the second document is empty."""
    X = rng.poisson(mean_length / V, (n, V)).astype(np.float32)
    X[1:2] = 0
    if not whole:
        X *= rng.uniform(0.3, 2, X.shape)
    rows, words = np.nonzero(X)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return X[rows, words].astype(np.float32), words.astype(np.intc), offsets.astype(np.int64)


def problem(K, n=9, V=23, whole=True, seed=0):
    rng = np.random.default_rng([K, seed])
    phi = rng.dirichlet(np.full(V, 0.3), K)
    return documents(rng, n, V, whole=whole), phi, rng.uniform(0.05, 1.5, K)


def run(data, phi, alpha, sample_weight=NONE, allowed=ALL_ALLOWED, ids=None, seed=3, n_sweeps=6,
        burn_in=2, n_rounds=5, most_single=MANY, most_tokens_singly=MANY,
        draws=False, n_threads=1):  # fmt: skip
    n, (K, V) = len(data[2]) - 1, phi.shape
    ids = np.arange(n) if ids is None else np.asarray(ids)
    result = {
        "totals_T": np.full((V, K), np.nan), "mean_logs": np.full(K, np.nan),
        "bounds": np.full(n, np.nan), "proportions": np.full((n, K), np.nan),
    }  # fmt: skip
    result["bound"] = e_step(*data, sample_weight, allowed, padded(phi.T), alpha, ids, seed,
                             n_sweeps, burn_in, n_rounds, most_single, most_tokens_singly, draws,
                             *result.values(), n_threads)  # fmt: skip
    return result


# --- formulas


def shares_of(weights, alpha):
    """In proportion to the weights; alike if these are all 0."""
    return weights / weights.sum() if weights.sum() > 0 else (alpha > 0) / (alpha > 0).sum()


def sample_numpy(counts, words, phi, alpha, key, n_sweeps, burn_in, draws):
    tokens = np.repeat(np.arange(len(words)), counts.astype(int))
    topics, n = np.full(len(tokens), -1), np.zeros(len(alpha))
    rows, logs = np.zeros((len(words), len(alpha))), np.zeros(len(alpha))
    share = 1 / (n_sweeps - burn_in)
    for sweep in range(n_sweeps + 1):
        stream = stream_of(key, sweep)
        for t, i in enumerate(tokens):
            if sweep > 0:
                n[topics[t]] -= 1
            q = shares_of((n + alpha) * phi[:, words[i]], alpha)
            topics[t] = choose(q, uniform_of(stream, t))
            n[topics[t]] += 1
            if sweep > burn_in:
                rows[i] += share * q
        if sweep > burn_in:
            logs += share * log_proportions(alpha, n)
    drawn = np.zeros_like(rows)
    np.add.at(drawn, (tokens, topics), 1)
    return rows, logs, drawn if draws else rows


def map_numpy(counts, words, phi, alpha, n_rounds):
    old = (alpha > 0) * counts.sum() / (alpha > 0).sum()
    for i in range(n_rounds):
        rows = np.array(
            [
                c * shares_of((old + alpha) * phi[:, w], alpha)
                for c, w in zip(counts, words, strict=True)
            ]
        ).reshape(-1, len(alpha))
        n = rows.sum(axis=0)
        beyond = n * np.minimum(np.divide(n, old, out=np.ones_like(n), where=old > 0), 16)
        old = beyond * n.sum() / max(beyond.sum(), 1e-300) if 0 < i < n_rounds - 1 else n
    return rows, expected_logs(alpha, n, counts, rows), rows


def expected_logs(alpha, n, counts, rows):
    """E log theta of a topic's number of tokens of mean n, and of the variance of draws."""
    shares = np.divide(rows, counts[:, None], out=np.zeros_like(rows), where=counts[:, None] > 0)
    spread = np.divide((rows * (1 - shares)).sum(axis=0), n, out=np.ones_like(n), where=n > 0)
    spread = np.clip(spread, 1e-300, 0.999999)
    none = np.where(n > 0, np.exp(n * np.log(spread) / (1 - spread)), 1.0)
    mean = np.divide(n, 1 - none, out=np.zeros_like(n), where=none < 1)
    with np.errstate(invalid="ignore"):  # topics that are not allowed have no alpha
        logs = none * psi(alpha) + np.where(none < 1, (1 - none) * psi(alpha + mean), 0.0)
    return logs - psi((alpha + n).sum())


def log_proportions(alpha, n):
    with np.errstate(invalid="ignore"):
        return psi(alpha + n) - psi((alpha + n).sum())


def bound_numpy(counts, words, phi, alpha, n):
    used = alpha > 0
    alpha, phi, n = alpha[used], phi[used], n[used]
    theta = (alpha + n) / (alpha + n).sum()
    joint = theta[:, None] * phi[:, words]
    s = joint.sum(axis=0)
    if np.any((s == 0) & (counts > 0)):
        return -np.inf
    means = (joint / s) @ counts
    return (
        gammaln(alpha.sum()) - gammaln(alpha.sum() + counts.sum())
        + np.sum(gammaln(alpha + means) - gammaln(alpha) - means * np.log(theta))
        + counts @ np.log(s)
    )  # fmt: skip


def e_step_numpy(data, phi, alpha, sample_weight=NONE, allowed=ALL_ALLOWED, ids=None, seed=3,
                 n_sweeps=6, burn_in=2, n_rounds=5, draws=False):  # fmt: skip
    counts, words, offsets = data
    n, (K, V), phi = len(offsets) - 1, phi.shape, phi.astype(np.float32).astype(float)
    ids = range(n) if ids is None else ids
    result = {
        "totals_T": np.zeros((V, K)), "mean_logs": np.zeros(K), "bounds": np.zeros(n),
        "proportions": np.zeros((n, K)), "bound": 0.0,
    }  # fmt: skip
    for d in range(n):
        here, weight = (
            slice(offsets[d], offsets[d + 1]),
            sample_weight[d] if sample_weight.size else 1,
        )
        c, w = counts[here].astype(float), words[here]
        mask = allowed[d] > 0 if allowed.size else np.ones(K, bool)
        a = np.where(mask, alpha, 0)
        if n_sweeps > 0:
            key = stream_of(seed, ids[d])
            rows, logs, totals = sample_numpy(c, w, phi, a, key, n_sweeps, burn_in, draws)
        else:
            rows, logs, totals = map_numpy(c, w, phi, a, n_rounds)
        n_k = rows.sum(axis=0)
        np.add.at(result["totals_T"], w, weight * totals)
        logs = np.where(mask, logs + psi(a.sum()), psi(alpha)) - psi(alpha.sum())
        result["mean_logs"] += weight * logs
        result["bounds"][d] = bound_numpy(c, w, phi, a, n_k)
        result["proportions"][d] = (a + n_k) / (a.sum() + c.sum())
        if weight > 0:
            result["bound"] += weight * result["bounds"][d]
    return result


def assert_same(found, expected):
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)


# --- the E-step


@METHODS
@pytest.mark.parametrize("K", [1, 2, 15, 16, 17, 50])
@pytest.mark.parametrize("options", ["", "weights", "allowed", "draws", "weights allowed draws"])
def test_agrees_with_the_formula(method, K, options):
    data, phi, alpha = problem(K)
    rng = np.random.default_rng(K)
    arguments = {**method, "draws": "draws" in options, "ids": [7, 2**40, 0, 1, 5, 6, 3, 2, 9]}
    if "weights" in options:
        arguments["sample_weight"] = rng.integers(0, 3, 9) * rng.random(9)
    if "allowed" in options:
        allowed = rng.integers(0, 2, (9, K)).astype(np.uint8)
        allowed[np.arange(9), rng.integers(0, K, 9)] = 1
        arguments["allowed"] = allowed
    assert_same(run(data, phi, alpha, **arguments), e_step_numpy(data, phi, alpha, **arguments))


@pytest.mark.parametrize("n_rounds", [1, 2, 3, 30])
def test_map_takes_counts_that_are_not_whole(n_rounds):
    data, phi, alpha = problem(7, whole=False)
    arguments = {**MAP, "n_rounds": n_rounds}
    assert_same(run(data, phi, alpha, **arguments), e_step_numpy(data, phi, alpha, **arguments))


@METHODS
def test_what_is_not_wanted_changes_nothing_else(method):
    data, phi, alpha = problem(20)
    full = run(data, phi, alpha, **method)
    mean_logs = np.empty(20)
    bound = e_step(*data, NONE, ALL_ALLOWED, padded(phi.T), alpha, np.arange(9), 3,
                   method["n_sweeps"], method["burn_in"], 5, MANY, MANY, False, NO_TABLE,
                   mean_logs, NONE, NO_TABLE, 1)  # fmt: skip
    assert_array_equal(mean_logs, full["mean_logs"])
    assert bound == full["bound"]


@METHODS
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("most_single", [MANY, 1, 0])
def test_threads_change_no_bit(method, draws, most_single):
    rng = np.random.default_rng(0)
    data = documents(rng, 600, 200, 60.0)
    phi, weights = rng.dirichlet(np.full(200, 0.1), 130), rng.random(600)
    one, three = (
        run(
            data,
            phi,
            np.full(130, 0.1),
            weights,
            draws=draws,
            n_threads=n_threads,
            most_single=most_single,
            **method,
        )
        for n_threads in (1, 3)
    )
    for name, value in one.items():
        assert_array_equal(three[name], value, err_msg=name)


@METHODS
def test_documents_are_the_same_in_any_company(method):
    (counts, words, offsets), phi, alpha = problem(33)
    full = run((counts, words, offsets), phi, alpha, **method)
    totals = np.zeros_like(full["totals_T"])
    for d in (4, 1, 8, 0, 2, 3, 5, 6, 7):
        here = slice(offsets[d], offsets[d + 1])
        data = counts[here], words[here], np.array([0, offsets[d + 1] - offsets[d]])
        alone = run(data, phi, alpha, ids=[d], **method)
        assert_array_equal(alone["proportions"][0], full["proportions"][d])
        assert alone["bounds"][0] == full["bounds"][d] == alone["bound"]
        totals += alone["totals_T"]
    assert_allclose(totals, full["totals_T"], rtol=1e-14)


def test_seeds_documents_and_sweeps_have_random_numbers_of_their_own():
    (counts, words, offsets), phi, alpha = problem(5)
    data = counts[: offsets[1]], words[: offsets[1]], offsets[:2]
    seen = [
        run(data, phi, alpha, ids=[id], seed=seed, n_sweeps=n_sweeps, burn_in=n_sweeps - 1)
        for id, seed, n_sweeps in [(0, 0, 3), (1, 0, 3), (0, 1, 3), (0, 0, 4), (-1, 2**64 - 1, 3)]
    ]
    for a, b in product(range(5), repeat=2):
        assert a == b or np.any(seen[a]["totals_T"] != seen[b]["totals_T"])


def assignments(words, phi, alpha):
    """All topics (K^N, N) of the words of one document, and their log p(z, w)."""
    K = len(alpha)
    topics = np.array(list(product(range(K), repeat=len(words)))).reshape(-1, len(words))
    n = (topics[:, :, None] == np.arange(K)).sum(axis=1)
    log_joint = (
        gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words))
        + np.sum(gammaln(alpha + n) - gammaln(alpha), axis=1)
        + np.log(phi[topics, words]).sum(axis=1)
    )  # fmt: skip
    return topics, n, log_joint


def one_document(words):
    words, counts = np.unique(words, return_counts=True)
    offsets = np.array([0, len(words)])
    return counts.astype(np.float32), words.astype(np.intc), offsets


@METHODS
@pytest.mark.parametrize("K", [1, 2, 3])
@pytest.mark.parametrize("words", [[0], [0, 0, 1], [0, 1, 2, 2, 2, 3], [3] * 7], ids=str)
def test_the_bound_is_one(method, K, words):
    rng = np.random.default_rng(K)
    for _ in range(20):
        phi, alpha = rng.dirichlet(np.ones(4), K), rng.gamma(1, 1, K) + 0.01
        found = run(one_document(words), phi, alpha, **method)["bound"]
        exact = logsumexp(assignments(words, phi, alpha)[2])
        assert found <= exact + 1e-5
        assert found >= exact - 3
        if K == 1:
            assert_allclose(found, exact, rtol=1e-6)


WORDS = [0, 1, 1, 2]
PHI = np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6], [0.2, 0.7, 0.1]])
ALPHA = np.array([0.3, 0.5, 0.9])


# All tokens one by one; two of word 1 as a block; all as blocks; all as those of a long document.
by_blocks = pytest.mark.parametrize("most_single, singly", [(MANY, 9), (1, 9), (0, 9), (MANY, 3)])


@by_blocks
def test_local_gibbs_sampling_averages_the_posterior(most_single, singly):
    topics, n, log_joint = assignments(WORDS, PHI, ALPHA)
    posterior = np.exp(log_joint - logsumexp(log_joint))
    found = run(
        one_document(WORDS), PHI, ALPHA, n_sweeps=100_000, burn_in=10, most_single=most_single,
        most_tokens_singly=singly,
    )  # fmt: skip
    expected = np.zeros((3, 3))
    for t, word in enumerate(WORDS):
        expected[word] += posterior @ (topics[:, t, None] == np.arange(3))
    assert_allclose(found["totals_T"], expected, atol=0.01)
    logs = psi(ALPHA + n) - psi(ALPHA.sum() + 4)
    assert_allclose(found["mean_logs"], posterior @ logs, atol=0.02)
    assert_allclose(found["proportions"][0], (ALPHA + posterior @ n) / (ALPHA.sum() + 4), atol=1e-2)


@by_blocks
def test_draws_follow_the_posterior(most_single, singly):
    topics, _, log_joint = assignments(WORDS, PHI, ALPHA)
    posterior = np.exp(log_joint - logsumexp(log_joint))
    # Topics are known by how many tokens of each word have each of them.
    keys = np.zeros((len(topics), 3, 3), int)
    for t, word in enumerate(WORDS):
        keys[np.arange(len(topics)), word, topics[:, t]] += 1
    states, number = np.unique(keys.reshape(-1, 9), axis=0, return_inverse=True)
    expected = np.bincount(number.ravel(), posterior)  # NumPy 2.0 returns a column
    seen, n = np.zeros(len(states)), 6000
    data = one_document(WORDS)
    for id in range(n):
        found = run(data, PHI, ALPHA, ids=[id], n_sweeps=25, burn_in=24, draws=True,
                    most_single=most_single, most_tokens_singly=singly)["totals_T"]  # fmt: skip
        seen[np.flatnonzero((states == found.ravel()).all(axis=1))] += 1
    assert seen.sum() == n
    frequent = expected * n > 5
    pool = [np.append(x[frequent], x[~frequent].sum()) for x in (seen, expected * n)]
    assert chisquare(*pool).pvalue > 1e-3


def test_blocks_are_drawn_as_tokens_are():
    """Of thousands of tokens, too: proportions of both ways have one distribution."""
    rng = np.random.default_rng(5)
    phi, alpha = np.array([[0.7, 0.2, 0.1], [0.1, 0.5, 0.4]]), np.array([0.5, 1.5])
    data = one_document(np.repeat([0, 1, 2], [900, 1100, 20]))
    drawn = [
        [run(data, phi, alpha, ids=[id], seed=seed, n_sweeps=100, burn_in=99, draws=True,
             most_single=most_single, most_tokens_singly=singly)["totals_T"][:, 0]
         for id in rng.integers(1 << 60, size=400)]
        for seed, most_single, singly in [(0, MANY, MANY), (1, 500, MANY), (2, MANY, 2000)]
    ]  # fmt: skip
    for word in range(3):
        one_by_one, *others = (np.array(counts)[:, word] for counts in drawn)
        assert one_by_one.std() > 1.0
        for as_blocks in others:
            assert ks_2samp(one_by_one, as_blocks).pvalue > 1e-3


def test_long_documents_are_as_if_drawn_by_token():
    """At their few sweeps, they are as near to the posterior, of topics without tokens too."""
    rng = np.random.default_rng(6)
    phi, alpha = rng.dirichlet(np.full(400, 0.1), 12), np.full(12, 0.1)
    X = rng.multinomial(8000, rng.dirichlet(alpha, 8) @ phi).astype(np.float32)
    rows, words = np.nonzero(X)
    offsets = np.concatenate([[0], np.cumsum((X > 0).sum(axis=1))])
    data = X[rows, words], words.astype(np.intc), offsets
    long = {"n_sweeps": 1500, "burn_in": 500}
    few = {"n_sweeps": 20, "burn_in": 10}
    exact, drawn = (run(data, phi, alpha, **long, most_tokens_singly=m) for m in (MANY, 5000))
    assert_allclose(drawn["proportions"], exact["proportions"], rtol=0.01, atol=3e-4)
    assert_allclose(drawn["totals_T"], exact["totals_T"], rtol=0.05, atol=5.0)
    assert_allclose(drawn["bounds"], exact["bounds"], atol=1.0)
    assert abs((drawn["mean_logs"] - exact["mean_logs"]).mean()) < 1.5  # nats, of 8 documents
    distances = [
        np.abs(run(data, phi, alpha, **few, most_tokens_singly=m)["totals_T"]
               - exact["totals_T"]).sum()
        for m in (MANY, 5000)
    ]  # fmt: skip
    assert distances[1] < 1.2 * distances[0]


@METHODS
@pytest.mark.parametrize("K", [1, 3, 40])
def test_counts_of_millions_are_quick_and_finite(method, K):
    rng = np.random.default_rng(K)
    phi, alpha = rng.dirichlet(np.ones(4), K), np.full(K, 0.1)
    counts = rng.integers(10**6, 4 * 10**6, (24, 4)).astype(np.float32)
    data = counts.ravel(), np.tile(np.arange(4), 24).astype(np.intc), np.arange(0, 97, 4)
    start = time.process_time()
    for draws in (False, True):
        found = run(data, phi, alpha, draws=draws, most_single=4096, **method)
        assert all(np.isfinite(value).all() for value in found.values())
        assert_allclose(found["totals_T"].sum(axis=1), counts.sum(axis=0), rtol=1e-5)
        assert_allclose(found["proportions"].sum(axis=1), 1.0)
    # Token by token that would be 2e9 draws.
    assert time.process_time() - start < 3.0


@METHODS
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("most_single", [MANY, 2, 0])
def test_topics_that_are_not_allowed_get_nothing(method, draws, most_single):
    data, phi, alpha = problem(40)
    allowed = np.zeros((9, 40), np.uint8)
    allowed[:, [3, 17, 39]] = 1
    found = run(data, phi, alpha, allowed=allowed, draws=draws, most_single=most_single, **method)
    others = allowed[0] == 0
    assert_array_equal(found["totals_T"][:, others], 0)
    assert_array_equal(found["proportions"][:, others], 0)
    prior = psi(alpha) - psi(alpha.sum())
    assert_allclose(found["mean_logs"][others], 9 * prior[others], rtol=1e-12)
    alone = run(data, phi[~others], alpha[~others], draws=draws, **MAP)
    if method is MAP:
        assert_allclose(found["bounds"], alone["bounds"], rtol=1e-6)


@METHODS
def test_explicit_zeros_are_no_words(method):
    data = np.array([0, 2, 0], np.float32), np.array([0, 1, 2], np.intc), np.array([0, 3])
    _, phi, alpha = problem(5)
    phi[:, 0] = 0
    found = run(data, phi, alpha, **method)
    alone = run((data[0][1:2], data[1][1:2], np.array([0, 1])), phi, alpha, **method)
    assert_same(found, alone)
    assert np.isfinite(found["bound"])


@METHODS
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize("most_single", [MANY, 2, 0])
def test_words_that_no_topic_explains_are_shared_alike(method, restricted, most_single):
    method = {**method, "most_single": most_single}
    data = np.array([3, 1], np.float32), np.array([0, 1], np.intc), np.array([0, 1, 2])
    phi = np.array([[0.0, 0.5, 0.5], [0.0, 0.2, 0.8], [restricted * 1.0, 0.0, 0.0]])
    allowed = np.array([[1, 1, 0]] * 2, np.uint8) if restricted else ALL_ALLOWED
    found = run(data, phi, ALPHA, np.array([0.0, 1.0]), allowed, **method)
    assert found["bounds"][0] == -np.inf
    assert np.isfinite(found["bounds"][1]) and found["bound"] == found["bounds"][1]
    weighted = run(data, phi, ALPHA, np.array([2.0, 1.0]), allowed, **method)
    assert weighted["bound"] == -np.inf
    share = [1 / 2, 1 / 2, 0] if restricted else [1 / 3] * 3
    assert_allclose(weighted["totals_T"][0], 6 * np.array(share), rtol=1e-6)
    assert all(np.isfinite(weighted[name]).all() for name in ("mean_logs", "proportions"))


@METHODS
@pytest.mark.parametrize("most_single", [MANY, 0])
def test_tiny_and_huge_priors_leave_numbers(method, most_single):
    data, phi, _ = problem(5)
    for scale in (1e-300, 1e-40, 1e-10, 1e10, 1e29):
        found = run(data, phi, np.full(5, scale), most_single=most_single, **method)
        assert all(np.isfinite(value).all() for value in found.values())
        assert_allclose(found["proportions"].sum(axis=1), 1, rtol=1e-14)
        assert_allclose(found["totals_T"].sum(), data[0].sum(), rtol=1e-5)


def test_repeated_words_and_any_order_are_taken():
    (counts, words, offsets), phi, alpha = problem(5)
    counts, words = np.repeat(counts, 2), np.repeat(words, 2)
    data = (counts / 2, words, 2 * offsets)
    assert_same(run(data, phi, alpha, **MAP), run(problem(5)[0], phi, alpha, **MAP))
