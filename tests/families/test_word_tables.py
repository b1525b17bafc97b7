"""Tables of words of which a step changes few rows, against arrays of which it changes all."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from sklearn_onlineem import MultinomialMixture
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Online
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.families import Multinomial, _word_tables
from sklearn_onlineem.families._word_tables import (
    WordSum,
    WordSums,
    WordTable,
    few_words,
    word_divergences,
)
from sklearn_onlineem.models.topics.inference import MaximumAPosteriori
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel
from sklearn_onlineem.statistics import Sums, combine

N_WORDS, K = 300, 3


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(_word_tables, "_LEAST_NUMBERS", 1)


def documents(rng, n, dtype=np.float64):
    """Documents of three kinds, with few words each."""
    X = np.zeros((n, N_WORDS), dtype)
    for row, kind in enumerate(rng.integers(3, size=n)):
        words = np.minimum(rng.geometric(0.05, size=12), 90) + 100 * kind
        np.add.at(X[row], words, 1.0)
    return sparse.csr_array(X)


def held(mixture):
    return vars(mixture.model_)["parameters"]


PRIORS = {
    "auto": "auto",
    "none": None,
    "sparse": {"concentration": 0.9},
    "of words": {"concentration": np.linspace(1.1, 3.0, N_WORDS)},
    "of components": {"concentration": np.array([[1.2], [1.5], [4.0]])},
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
def test_streams_are_those_of_arrays(prior, weighted, dtype, monkeypatch):
    found = []
    for least in (1, np.inf):
        monkeypatch.setattr(_word_tables, "_LEAST_NUMBERS", least)
        rng = np.random.default_rng(0)
        mixture = MultinomialMixture(
            K,
            prior=PRIORS[prior],
            random_state=0,
            solver=Online(start_rows=0),
            semi_supervised=True,
        )
        mixture.partial_fit(documents(rng, 50, dtype), rng.integers(-1, 3, 50))
        for _ in range(40):
            X = documents(rng, rng.integers(1, 6), dtype)
            weight = rng.uniform(0.1, 3.0, X.shape[0]) if weighted else None
            labels = rng.integers(-1, 3, X.shape[0])
            mixture.partial_fit(X, labels, sample_weight=weight)
        found.append(mixture)
    lazy, dense = found
    assert isinstance(held(dense), np.ndarray)
    assert isinstance(held(lazy), WordTable) == (prior not in ("none", "sparse"))
    np.testing.assert_allclose(lazy.history_, dense.history_, rtol=1e-9, atol=1e-11)
    rtol = 1e-5 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(lazy.probabilities_, dense.probabilities_, rtol=rtol)
    np.testing.assert_allclose(lazy.weights_, dense.weights_, rtol=rtol)
    test = documents(rng, 3, dtype)
    np.testing.assert_allclose(lazy.score_samples(test), dense.score_samples(test), rtol=rtol)
    np.testing.assert_allclose(
        lazy.predict_proba(test.toarray()), dense.predict_proba(test), rtol=1e-4, atol=1e-12
    )


def learnt(n_steps=5):
    rng = np.random.default_rng(1)
    mixture = MultinomialMixture(K, random_state=0, solver=Online(start_rows=0))
    mixture.partial_fit(documents(rng, 50))
    for _ in range(n_steps):
        mixture.partial_fit(documents(rng, 3))
    assert isinstance(held(mixture), WordTable)
    return mixture, [documents(rng, 4) for _ in range(60)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_continue_with_the_same_bits(copied):
    mixture, batches = learnt()
    other = copied(mixture)
    assert not np.shares_memory(held(other).rows, held(mixture).rows)
    for X in batches:
        mixture.partial_fit(X)
        other.partial_fit(X)
    assert other.history_ == mixture.history_
    np.testing.assert_array_equal(other.probabilities_, mixture.probabilities_)


def test_models_of_earlier_steps_stay():
    mixture, batches = learnt()
    models = []
    for X in batches:
        models.append((mixture.model_, held(mixture).array))
        mixture.partial_fit(X)
    for model, parameters in models:
        np.testing.assert_array_equal(vars(model)["parameters"].array, parameters)
        np.testing.assert_array_equal(model.parameters, parameters.T)
        assert not (parameters.flags.writeable or model.parameters.flags.writeable)


def test_two_steps_from_one_table():
    table = held(learnt()[0])
    factors, constants, words = np.full(K, 0.9), np.full(K, 0.1), np.array([3, 200])
    first, second = (
        table.stepped(factors, constants, words, np.full((2, K), value)) for value in (1.0, 2.0)
    )
    for step, value in ((first, 1.0), (second, 2.0)):
        expected = 0.9 * table.array + 0.1
        expected[words] += value
        np.testing.assert_allclose(step.array, expected, rtol=1e-14)
        np.testing.assert_allclose(step.sums, expected.sum(axis=0), rtol=1e-13)


def divergences(p, q):
    return (p.array * np.log(p.array / q.array)).sum(axis=0)


@pytest.mark.parametrize("factor", [1e-3, 0.5, 0.97, 1.1])
@pytest.mark.parametrize("constant", [0.0, 1e-4, 3.0])
def test_divergences_after_a_step(factor, constant):
    rng = np.random.default_rng(2)
    q = WordTable.of(rng.gamma(0.1, size=(N_WORDS, K)) + 1e-9)
    for n_words in (5, 1, 0):
        words = np.sort(rng.choice(N_WORDS, n_words, replace=False))
        factors, constants = factor * np.ones(K), constant * np.arange(K)
        p = q.stepped(factors, constants, words, rng.gamma(1.0, size=(n_words, K)))
        for found in (word_divergences(p, q), word_divergences(p, WordTable.of(q.array))):
            np.testing.assert_allclose(found, divergences(p, q), rtol=1e-10, atol=1e-9)
        q = p


@pytest.mark.parametrize("factor, constant", [(0.97, 1e-4), (1.0, -1e-3), (1.0, 0.0), (0.9, 0.1)])
def test_divergences_of_small_steps_are_those_of_a_series(factor, constant):
    rng = np.random.default_rng(5)
    table = WordTable.of(rng.gamma(0.1, size=(N_WORDS, K)) + 0.1)
    n_series = 0
    for _ in range(60):
        words = np.sort(rng.choice(N_WORDS, 4, replace=False))
        constants, values = np.full(K, constant), rng.gamma(1.0, size=(4, K))
        q, table = table, table.stepped(np.full(K, factor), constants, words, values)
        n_series += table.anchor is not None and table.anchor is q.anchor
        for p in (table, replace(table, before=None)):
            np.testing.assert_allclose(word_divergences(p, q), divergences(p, q), atol=1e-11)
        again = pickle.loads(pickle.dumps(table))
        np.testing.assert_array_equal(again.powers, table.powers)
    assert (n_series > 30) == (factor > 0.95)


def test_components_without_weight():
    # One component loses all that tells its words apart; later it gets evidence.
    rng = np.random.default_rng(3)
    table = WordTable.of(rng.gamma(1.0, size=(N_WORDS, K)) + 0.1)
    factors, constants, expected = np.array([1e-60, 0.5, 1.0]), np.full(K, 0.1), table.array
    for step, value in enumerate((0.0, 0.0, 0.0, 0.0, 1e-50, 2.0, 0.0)):
        words, values = np.array([step, 50 + step]), np.full((2, K), 1.0)
        values[:, 0] = value
        before, table = table, table.stepped(factors, constants, words, values)
        expected = expected * factors + constants
        expected[words] += values
        np.testing.assert_allclose(table.array, expected, rtol=1e-13)
        np.testing.assert_allclose(
            word_divergences(table, before), divergences(table, before), rtol=1e-10, atol=1e-10
        )
        assert (table.scale[0] == 0.0) == (step in (1, 2, 3, 4))


def sums_of(rng, kind):
    """Return statistics, lazy ones or an array."""
    weight, total = rng.random(K), rng.random((K, N_WORDS))
    if kind == "array":
        return Sums(weight, total)
    if kind == "constant":
        return WordSums(weight, WordSum.of_constants(N_WORDS, total[:, 0]))
    if kind == "table":
        return WordSums(weight, WordSum.of_array(np.ascontiguousarray(total.T)))
    words = np.sort(rng.choice(N_WORDS, 20, replace=False))
    return WordSums(weight, WordSum.of_words(N_WORDS, words, rng.random((20, K))))


KINDS = ["words", "table", "constant", "array"]


@pytest.mark.parametrize("third", KINDS)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_sums_are_those_of_arrays(first, second, third):
    rng = np.random.default_rng(4)
    parts = [sums_of(rng, kind) for kind in (first, second, third)]
    for terms in ([0.5, 2.0, 3.0], [0.5, 2.0, 3.0, 1.0, 0.1]):
        pairs = list(zip(terms, [*parts, *parts[:2]], strict=False))
        found = combine(pairs)
        expected = combine([(a, Sums(part.weight, part.total)) for a, part in pairs])
        np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-14)
        np.testing.assert_allclose(found.total, expected.total, rtol=1e-12)
        np.testing.assert_allclose((2.0 * found).total, 2.0 * expected.total, rtol=1e-12)
        parameters = Multinomial().m_step(found)
        if isinstance(parameters, WordTable):
            parameters = parameters.array_T
        np.testing.assert_allclose(parameters, Multinomial().m_step(expected), rtol=1e-12)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 2.5, [[1.5], [3.0], [0.7]]])
def test_priors_of_one_number_for_all_words_are_those_of_arrays(concentration):
    family = Multinomial().bind(documents(np.random.default_rng(6), 5))
    parts = [
        family.prior_statistics(K, n_features=N_WORDS, concentration=value)
        for value in (concentration, np.array(np.broadcast_to(concentration, (K, N_WORDS))))
    ]
    assert [type(part) for part in parts] == [WordSums, Sums]
    for found, expected in (parts, map(family.mean_form, parts)):
        np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-12)
        np.testing.assert_array_equal(found.total, expected.total)


def test_few_words():
    X = documents(np.random.default_rng(5), 3)
    words, few = few_words(X, K)
    np.testing.assert_array_equal(few.toarray(), X.toarray()[:, words])
    assert few.sum() == X.sum()
    assert few_words(X.toarray(), K) is None
    assert few_words(documents(np.random.default_rng(5), 30), K) is None
    assert few_words(sparse.csr_array((3, N_WORDS)), K) is None


def topic_model(table, learns_alpha=True):
    inference = MaximumAPosteriori()
    return LatentDirichletModel(table, np.full(K, 0.3), np.array([12.0]), inference, learns_alpha)


@pytest.mark.parametrize("smoothing", [0.0, 0.01])
@pytest.mark.parametrize("learns_alpha", [False, True])
def test_topics_are_those_of_arrays(smoothing, learns_alpha, monkeypatch):
    rng = np.random.default_rng(6)
    topics = rng.dirichlet(np.full(N_WORDS, 0.5), K).T
    lazy = dense = topic_model(np.ascontiguousarray(topics), learns_alpha)
    prior = replace(dense.own_statistics(), counts_T=None, smoothing=smoothing)
    for _ in range(20):
        documents_ = Documents(Rows(documents(rng, 4)))
        found = []
        for least, model in ((1, lazy), (np.inf, dense)):
            monkeypatch.setattr(_word_tables, "_LEAST_NUMBERS", least)
            new, log_likelihood = online_step(model, documents_, 0.3, ((1.0, prior),))
            divergence = new.kl_divergence(model)
            found.append((new, log_likelihood, divergence))
        (lazy, *of_lazy), (dense, *of_dense) = found
        # Kernels read topics in single precision.
        np.testing.assert_allclose(of_lazy, of_dense, rtol=1e-6)
        np.testing.assert_allclose(lazy.topics_T, dense.topics_T, rtol=1e-6)
        np.testing.assert_allclose(lazy.alpha, dense.alpha, rtol=1e-6)
        np.testing.assert_allclose(lazy.length, dense.length, rtol=1e-12)
    assert isinstance(vars(lazy)["topics_T"], WordTable)
    np.testing.assert_allclose(lazy.topics_T.sum(axis=0), 1.0, rtol=1e-12)
