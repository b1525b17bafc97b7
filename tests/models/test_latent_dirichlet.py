"""Latent Dirichlet allocation as a model: its statistics, steps, divergences and chains."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.coordinates import minimiser
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from scipy.special import gammaln, psi, softmax
from scipy.stats import ks_2samp

from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Online
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.models.topics.inference import LocalGibbs, MaximumAPosteriori
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel, TopicStatistics
from sklearn_onlineem.statistics import combine

INFERENCES = [LocalGibbs(), LocalGibbs(6, 2), LocalGibbs(3, 0, True), MaximumAPosteriori()]
all_inferences = pytest.mark.parametrize("inference", INFERENCES, ids=repr)


def drawn_model(rng, n_components=3, n_words=7, inference=INFERENCES[0], length=12.0):
    topics_T = np.ascontiguousarray(rng.dirichlet(np.full(n_words, 0.7), n_components).T)
    alpha = rng.uniform(0.2, 1.5, n_components)
    return LatentDirichletModel(topics_T, alpha, np.array([length]), inference)


def drawn_documents(rng, model, n=50, **more):
    return Documents(Rows(csr_array(model.sample(n, rng)[0]), **more))


def test_own_statistics_are_expectations_over_documents(rng):
    """Enumerated over all topics and words of documents of three tokens."""
    model = drawn_model(rng, 2, 3, length=3.0)
    counts_T, mean_logs, total = np.zeros((3, 2)), np.zeros(2), 0.0
    alpha = model.alpha
    for topics in itertools.product(range(2), repeat=3):
        n = np.bincount(topics, minlength=2)
        p_topics = math.exp(
            gammaln(alpha.sum()) - gammaln(alpha.sum() + 3)
            + (gammaln(alpha + n) - gammaln(alpha)).sum()
        )  # fmt: skip
        mean_logs += p_topics * (psi(alpha + n) - psi(alpha.sum() + 3))
        for words in itertools.product(range(3), repeat=3):
            p = p_topics * model.topics_T[list(words), list(topics)].prod()
            np.add.at(counts_T, (list(words), list(topics)), p)
            total += p
    own = model.own_statistics()
    assert_allclose(total, 1.0)
    assert_allclose(own.counts_T, counts_T)
    assert_allclose(own.mean_logs, mean_logs)


@pytest.mark.parametrize("eta", [0.3, 5.0])
def test_a_step_minimises_bound_plus_divergence(eta, rng):
    """U + KL / eta, minimised numerically over topics and alpha."""
    model = drawn_model(rng, 2, 3, MaximumAPosteriori())
    data = drawn_documents(rng, model, 8)
    evidence, _ = model.e_step(data)

    def decoded(vector):
        topics_T = softmax(np.vstack([vector[:4].reshape(2, 2), np.zeros(2)]), axis=0)
        return replace(model, topics_T=topics_T, alpha=np.exp(vector[4:]))

    def objective(vector):
        new = decoded(vector)
        alpha = new.alpha
        of_topics = gammaln(alpha.sum()) - gammaln(alpha).sum() + (alpha - 1) @ evidence.mean_logs
        bound = of_topics + (evidence.counts_T * np.log(new.topics_T)).sum()
        return model.kl_divergence(new) / eta - bound

    start = np.concatenate([np.log(model.topics_T[:2] / model.topics_T[2]).ravel(), [0.0, 0.0]])
    found = decoded(minimiser(objective, start))
    step, _ = online_step(model, data, eta)
    assert_allclose(step.topics_T, found.topics_T, atol=1e-5)
    assert_allclose(step.alpha, found.alpha, rtol=1e-4)


def test_kl_divergence_is_the_mean_of_log_ratios(rng):
    model, other = drawn_model(rng, 2, 4), drawn_model(rng, 2, 4)
    proportions = rng.dirichlet(model.alpha, 200_000)

    def log_dirichlet(alpha):
        logs = np.log(np.maximum(proportions, 1e-300)) @ (alpha - 1)
        return logs + gammaln(alpha.sum()) - gammaln(alpha).sum()

    of_topics = (log_dirichlet(model.alpha) - log_dirichlet(other.alpha)).mean()
    logs = np.log(model.topics_T / other.topics_T)
    shares = model.topics_T * model.alpha / model.alpha.sum()
    expected = of_topics + 12.0 * (shares * logs).sum()
    assert_allclose(model.kl_divergence(other), expected, rtol=0.02)
    assert model.kl_divergence(model) == 0.0


@all_inferences
def test_shards_add_up_to_the_whole(inference, rng):
    """Whichever way documents are cut, as each has a number of its own."""
    model = drawn_model(rng, inference=inference)
    data = drawn_documents(rng, model, sample_weight=rng.uniform(0.5, 2.0, 50))
    shards = [data[:20], data[20:21], data[21:]]
    seeds = [np.random.default_rng(3) for _ in range(4)]
    parts = [model.e_step(shard, seed) for shard, seed in zip(shards, seeds, strict=False)]
    shares = [shard.total_weight / data.total_weight for shard in shards]
    whole, bound = model.e_step(data, seeds[3])
    assert_close(combine((a, s) for a, (s, _) in zip(shares, parts, strict=True)), whole)
    assert_allclose(sum(a * b for a, (_, b) in zip(shares, parts, strict=True)), bound)
    assert_close(model.e_step(Documents.concatenate(shards), np.random.default_rng(3))[0], whole)


def test_a_stream_starts_from_draws_of_its_seed(rng):
    model = drawn_model(rng)
    data = drawn_documents(rng, model)
    starts = []
    for seed in ((1,), (1,), (2,)):
        starts.append(Online().start(State(model, seed=seed), data, None, 3).model)
    assert_identical(starts[0], starts[1])
    assert (starts[0].topics_T != starts[2].topics_T).any()


def test_topics_are_aligned_to_what_they_were(rng):
    model = drawn_model(rng, 4)
    order = np.array([2, 0, 3, 1])
    topics_T = np.ascontiguousarray(model.topics_T[:, order])
    shuffled = replace(model, topics_T=topics_T, alpha=model.alpha[order])
    assert_close(shuffled.aligned_to(model), model, rtol=0.0, atol=0.0)
    assert model.aligned_to(model) is model


def test_a_pass_learns_the_mean_length_of_documents(rng):
    model, data = drawn_model(rng, length=3.0), drawn_documents(rng, drawn_model(rng), 50)
    found, _ = online_step(model, data, math.inf, (), np.random.default_rng(0))
    assert_allclose(found.length, data.lengths.mean(), rtol=1e-6)


def test_draws_have_the_expected_counts(rng):
    model = drawn_model(rng, length=40.0)
    counts, proportions = model.sample(20_000, rng)
    assert_array_equal(counts.sum(axis=1), 40.0)
    assert_allclose(proportions.mean(axis=0), model.shares, atol=0.01)
    assert_allclose(counts.mean(axis=0), 40.0 * model.topics_T @ model.shares, rtol=0.03)


def test_alpha_is_learnt_where_topics_are_known(rng):
    """By draws as it is; by means, which know less of how unsure they are, too large, not more."""
    truth = drawn_model(rng, 3, 40, length=100.0)
    truth = replace(truth, alpha=np.array([0.1, 0.3, 0.6]))
    data = drawn_documents(rng, truth, 1000)
    found = []
    for inference in (LocalGibbs(), MaximumAPosteriori(20)):
        model = replace(truth, inference=inference, alpha=np.full(3, 2.0))
        for step in range(20):
            new, _ = online_step(model, data, math.inf, (), np.random.default_rng(step))
            model = replace(new, topics_T=truth.topics_T)
        found.append(model.alpha)
    assert_allclose(found[0], truth.alpha, rtol=0.15)
    assert truth.alpha.sum() < found[1].sum() < 3.0 * truth.alpha.sum()
    assert_array_equal(found[1].argsort(), [0, 1, 2])


@pytest.mark.parametrize("inference", [LocalGibbs(), MaximumAPosteriori(20)], ids=repr)
def test_alpha_is_that_of_shares_among_the_topics_that_are_allowed(inference, rng):
    """At the maximum of the likelihood a step changes nothing; each topic has a word of its own."""
    counts, allowed = rng.integers(0, 9, (60, 3)), rng.integers(0, 2, (60, 3))
    allowed[np.arange(60), rng.integers(0, 3, 60)] = 1
    counts *= allowed

    def objective(logs):
        alpha = np.exp(logs) * allowed
        terms = gammaln(np.where(allowed, alpha + counts, 1)) - gammaln(np.where(allowed, alpha, 1))
        sums = alpha.sum(axis=1)
        return -(terms.sum() + (gammaln(sums) - gammaln(sums + counts.sum(axis=1))).sum())

    alpha = np.exp(minimiser(objective, np.zeros(3)))
    X, allowed = csr_array(counts.astype(float)), allowed.astype(np.uint8)
    model = LatentDirichletModel(np.eye(3), alpha, np.ones(1), inference)
    found, _ = online_step(model, Documents(Rows(X), allowed=allowed), math.inf, (), rng)
    assert_allclose(found.alpha, alpha, rtol=1e-4)


def test_completion_scores_half_of_the_tokens_given_the_other(rng):
    model = drawn_model(rng, 1, 6)
    data = drawn_documents(rng, model, 30)
    log_likelihoods, n_tokens = model.completion(data, np.random.default_rng(0))
    assert_array_equal(n_tokens, np.floor(data.lengths / 2))
    # With one topic, a token has the probability of its word: half of them are a sample of all.
    values = np.log(model.topics_T[:, 0])
    means, squares = ((data.X @ x) / data.lengths for x in (values, values**2))
    error = np.sqrt((n_tokens * (squares - means**2)).sum())
    assert abs(log_likelihoods.sum() - (n_tokens * means).sum()) < 5.0 * error


def test_completion_deals_tokens_out_as_shuffling_does(rng):
    model, n, counts = drawn_model(rng, 1, 3), 3000, [4, 3, 6]
    data = Documents(Rows(csr_array(np.tile(np.array(counts, dtype=float), (n, 1)))))
    found, n_tokens = model.completion(data, rng)
    assert_array_equal(n_tokens, 6.0)
    assert found.std() > 0.05
    logs = np.repeat(np.log(model.topics_T[:, 0]), counts)
    shuffled = rng.permuted(np.tile(logs, (n, 1)), axis=1)[:, :6].sum(axis=1)
    assert ks_2samp(found.round(9), shuffled.round(9)).pvalue > 1e-3


# ---------------------------------------------------------------------------------------- chains


def test_chains_refuse_what_they_cannot_draw(rng):
    model = drawn_model(rng)
    data = drawn_documents(rng, model, 5)
    prior = TopicStatistics(None, 0.1, 0.0, np.zeros(3))
    halves = Documents(Rows(csr_array(data.X * 0.5)))
    with pytest.raises(ValueError, match="whole numbers"):
        model.chain(halves, prior, rng)
    with pytest.raises(ValueError, match="whole numbers"):
        model.e_step(halves)
    weighted = Documents(Rows(data.X, np.full(5, 2.0)))
    with pytest.raises(ValueError, match="sample_weight"):
        model.chain(weighted, prior, rng)
    with pytest.raises(ValueError, match="topic_word_prior"):
        model.chain(data, None, rng)
    many = Documents(Rows(csr_array(np.repeat([[8e6, 1.0]], 3, axis=0))))
    for collapsed in (True, False):
        with pytest.raises(ValueError, match=r"2\*\*24 tokens of a word"):
            drawn_model(rng, 3, 2).chain(many, prior, rng, collapsed)


MODEL = drawn_model(np.random.default_rng(0))
FIELDS = np.zeros((7, 3), [("a", "f8"), ("b", "i4")])
WRONG_ARRAYS = {
    "columns": {"topics_T": np.asfortranarray(MODEL.topics_T)},
    "single precision": {"topics_T": MODEL.topics_T.astype(np.float32)},
    "numbers with fields": {"topics_T": FIELDS["a"]},
    "records": {"topics_T": FIELDS.view(np.recarray)},
    "a topic less": {"topics_T": MODEL.topics_T[:, :2].copy()},
    "a list": {"alpha": [1.0, 1.0, 1.0]},
    "an alpha more": {"alpha": np.ones(4)},
    "records of alpha": {"alpha": FIELDS[0].view(np.recarray)},
    "no alpha": {"alpha": np.array([1.0, 0.0, 1.0])},
    "an alpha that is no number": {"alpha": np.array([1.0, np.nan, 1.0])},
    "an alpha whose logarithm is none": {"alpha": np.full(3, 5e-324)},
    "two dimensions": {"alpha": np.ones((1, 3))},
    "a number": {"length": 3.0},
    "two lengths": {"length": np.ones(2)},
}


@pytest.mark.parametrize("changes", WRONG_ARRAYS.values(), ids=WRONG_ARRAYS.keys())
def test_models_of_other_arrays_are_refused(changes):
    with pytest.raises(ValueError, match="topics_T|alpha|length"):
        replace(MODEL, **changes)


@all_inferences
@pytest.mark.parametrize("name", ["topics_T", "alpha", "totals_T", "proportions"])
def test_inference_refuses_other_arrays(inference, name, rng):
    data = drawn_documents(rng, MODEL, 5)
    valid = {"topics_T": MODEL.topics_T, "alpha": MODEL.alpha}
    wrong = [FIELDS, FIELDS.view(np.recarray), np.ones((7, 4)), np.ones(4), None, memoryview(b"a")]
    for array in wrong:
        with pytest.raises(ValueError):
            inference(**{**valid, "data": data, name: array})


@pytest.mark.parametrize(
    "counts_T",
    [
        FIELDS,
        FIELDS.view(np.recarray),
        np.ones((7, 4)),
        np.ones((3, 7)).T,
        np.full((7, 3), np.nan),
        np.full((7, 3), 1e308),
        np.ones((7, 3), np.float32),
        [[1.0] * 3] * 7,
    ],
    ids=["records", "recarray", "topics", "order", "NaN", "sums", "single", "list"],
)
def test_m_steps_refuse_other_counts(counts_T):
    with pytest.raises(ValueError):
        MODEL.m_step(TopicStatistics(counts_T, 0.0, 1.0, -np.ones(3)))


def test_topics_of_next_to_no_counts_keep_their_words():
    for least in (0.0, 5e-324):
        counts_T = np.zeros((7, 3))
        counts_T[:2], counts_T[2, 1] = least, 4.0
        found = MODEL.m_step(TopicStatistics(counts_T, 0.0, 1.0, -np.ones(3))).topics_T
        assert_array_equal(found[:, [0, 2]], MODEL.topics_T[:, [0, 2]])
        assert_array_equal(found[:, 1], np.eye(7)[2])
