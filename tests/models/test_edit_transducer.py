"""Transducers of strings: against enumeration, and where strings are long."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.coordinates import minimiser
from cases.transducers import TRANSDUCERS, Scripts, index_and_log_share, split, strings_of
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_onlineem._kernels import _edit_lattice
from sklearn_onlineem.data.strings import StringPairs
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.models.strings import transducer as edit_transducer
from sklearn_onlineem.models.strings.operations import TiedOperations
from sklearn_onlineem.models.strings.transducer import EditTransducer

all_transducers = pytest.mark.parametrize("case", TRANSDUCERS, ids=repr)


@all_transducers
def test_likelihoods_and_operations_equal_enumeration(case, rng):
    model, data = case.draw(rng), case.data(rng, 50)
    truth = case.enumerated(model, data)
    evidence, log_likelihood = model.e_step(data)
    wanted = [pair.log_likelihood for pair in truth]
    assert_allclose(model.log_likelihood(data), wanted, rtol=1e-10)
    assert_allclose(log_likelihood, np.mean(wanted), rtol=1e-10)
    counts = np.mean([pair.expected_counts for pair in truth], axis=0)
    assert_allclose(evidence.counts, counts, rtol=1e-10, atol=1e-14)
    best = [pair.log_probabilities.max() for pair in truth]
    assert_allclose(model.best_log_probability(data), best, rtol=1e-10)


@all_transducers
@pytest.mark.parametrize("eta", [0.3, 5.0])
def test_online_step_minimises_bound_plus_divergence(case, eta, rng):
    """U + KL / eta, minimised numerically over all probabilities."""
    model = case.draw(rng)
    model = replace(model, operations=type(model.operations)(2))
    n = model.operations.n_probabilities
    model = replace(model, probabilities=model.probabilities[-n:] / model.probabilities[-n:].sum())
    sides = ([rng.integers(0, 2, k) for k in (3, 1, 2, 0)] for _ in range(2))
    data = StringPairs(*map(strings_of, sides))
    truth, p = case.enumerated(model, data), model.probabilities
    used = np.mean([pair.expected_counts for pair in truth], axis=0)

    def objective(vector):
        log_q = np.log(softmax(np.append(vector, 0.0)))
        # KL between scripts: 1 / p_end draws, the last of which is the end.
        return -used @ log_q + p @ (np.log(p) - log_q) / p[-1] / eta

    found = softmax(np.append(minimiser(objective, np.log(p[:-1] / p[-1])), 0.0))
    assert_allclose(online_step(model, data, eta)[0].probabilities, found, atol=1e-6)


@all_transducers
def test_probabilities_of_all_pairs_add_up_to_one(case, rng):
    """Over all pairs of up to two symbols, and the rest by the distribution of lengths."""
    model = case.draw(rng)
    p = model.operations.by_kind(model.probabilities)
    words = [(), *((a,) for a in range(4)), *((a, b) for a in range(4) for b in range(4))]
    table = np.exp(model.pairwise(strings_of(words), strings_of(words)))
    lengths = np.array([len(word) for word in words])
    # Blind to symbols: sums over strings of equal lengths follow the kinds alone.
    blind = EditTransducer(TiedOperations(2), np.append(p[:4], p[4]))
    for n in range(3):
        for m in range(3):
            total = table[np.ix_(lengths == n, lengths == m)].sum()
            pairs = [(x, y) for x in binary(n) for y in binary(m)]
            wanted = sum(np.exp(Scripts(blind, x, y).log_likelihood) for x, y in pairs)
            assert_allclose(total, wanted, rtol=1e-10)


def binary(length):
    return list(product(range(2), repeat=length))


@all_transducers
def test_probability_of_a_target_is_the_sum_over_sources(case, rng):
    model = case.draw(rng)
    p = model.probabilities.copy()
    p[-1] = 4.0 * p[:-1].sum()  # short strings, so that few sources are missing
    model = replace(model, probabilities=p / p.sum())
    words = [tuple(map(int, np.base_repr(i, 4))) for i in range(4**5)]
    sources = strings_of([(), *{(0,) * k + w for w in words for k in range(6 - len(w))}])
    targets = strings_of([(), (2,), (1, 3), (0, 0)])
    found = np.logaddexp.reduce(model.pairwise(sources, targets), axis=0)
    assert_allclose(found, model.target_log_probability(targets), atol=1e-3)


@all_transducers
def test_blocks_of_rows_and_single_lanes_change_nothing(case, rng, monkeypatch):
    """Sources of many more rows than a block keeps, beside short ones."""
    model = case.draw(rng)
    lengths = rng.integers(0, 300, (20, 2))
    lengths[:4] = [[300, 0], [0, 300], [1, 290], [290, 1]]
    sides = (strings_of([rng.integers(0, 4, k) for k in column]) for column in lengths.T)
    data = StringPairs(*sides)
    expected, log_likelihood = model.e_step(data)
    assert_allclose(log_likelihood, model.log_likelihood(data).mean(), rtol=1e-12)
    monkeypatch.setattr(_edit_lattice, "LONG", 100)
    found, again = model.e_step(data)
    assert_allclose(found.counts, expected.counts, rtol=1e-10)
    assert_allclose(again, log_likelihood, rtol=1e-12)
    # Each symbol is consumed once.
    by_kind = model.operations.by_kind(found.counts)
    assert_allclose(by_kind[:2].sum() + by_kind[2], data.sources.lengths.mean(), rtol=1e-10)
    assert_allclose(by_kind[:2].sum() + by_kind[3], data.targets.lengths.mean(), rtol=1e-10)


@all_transducers
@pytest.mark.parametrize("with_counts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_ten_thousand_symbols_do_not_underflow(case, with_counts, rng):
    """A copy, and as many symbols again: no script is far better than the obvious one."""
    model, word, more = case.draw(rng), rng.integers(0, 4, 5000), rng.integers(0, 4, 5000)
    data = StringPairs(strings_of([word]), strings_of([np.append(word, more)]))
    all_scripts, best = model.log_likelihood(data)[0], model.best_log_probability(data)[0]
    one_script = sum(
        math.log(model.probabilities[index]) + log_share
        for pairs in (zip(word, word, strict=True), ((None, b) for b in more))
        for index, log_share in (index_and_log_share(model.operations, a, b) for a, b in pairs)
    )
    assert np.isfinite(all_scripts)
    assert all_scripts >= best >= one_script + math.log(model.probabilities[-1]) - 1e-6
    if with_counts:
        counts = model.operations.by_kind(model.e_step(data)[0].counts)
        assert_allclose(counts[:3].sum(), 5_000, rtol=1e-10)
        assert_allclose(counts[[0, 1, 3]].sum(), 10_000, rtol=1e-10)


def test_a_long_copy_behind_junk_is_found(rng):
    """Scaling by rows loses the path, as others lead by far before the copy begins."""
    model = EditTransducer(TiedOperations(27), np.array([0.8, 0.02, 0.04, 0.04, 0.1]))
    word, junk = rng.integers(0, 26, 2000), rng.integers(0, 26, 2000)
    data = StringPairs(strings_of([np.append(junk, word)]), strings_of([word]))
    one_script = 2000 * math.log(0.04 / 27) + 2000 * math.log(0.8 / 27) + math.log(0.1)
    evidence, log_likelihood = model.e_step(data)
    best = model.best_log_probability(data)[0]
    assert log_likelihood >= best * (1 + 1e-12)
    assert best >= one_script * (1 + 1e-12)
    assert 1990 < evidence.counts[0] <= 2000


def test_impossible_operations_count_as_hardly_possible():
    model = EditTransducer(TiedOperations(3), np.array([0.9, 0.0, 0.0, 0.0, 0.1]))
    data = StringPairs(strings_of([[0, 1], [0, 1]]), strings_of([[0, 1], [0]]))
    same, shorter = model.log_likelihood(data)
    assert_allclose(same, 2 * math.log(0.9 / 3) + math.log(0.1), rtol=1e-12)
    assert_allclose(shorter, math.log(0.9 / 3) + math.log(1e-50 / 3) + math.log(0.1), rtol=1e-10)


@all_transducers
def test_scripts_of_samples_have_the_statistics_of_the_model(case, rng):
    model = case.draw(rng)
    visible, hidden = model.sample(20_000, rng)
    counts = np.bincount(hidden.symbols, minlength=model.operations.n_probabilities - 1) / 20_000
    assert_allclose(counts, model.own_statistics().counts[:-1], atol=0.05)
    other = case.draw(rng)
    ratios = np.log(model.probabilities / other.probabilities)
    divergence = counts @ ratios[:-1] + ratios[-1]  # mean log ratio of scripts
    assert_allclose(model.kl_divergence(other), divergence, rtol=0.1)
    fitted = model
    for _ in range(3):
        fitted, _ = online_step(fitted, visible, math.inf)
    assert_allclose(fitted.probabilities, model.probabilities, atol=0.02)
    first = next(i for i, script in enumerate(split(hidden)) if len(script))
    enumerated = Scripts(
        model, split(visible.sources)[first][:5], split(visible.targets)[first][:5]
    )
    assert np.isfinite(enumerated.log_likelihood)


@all_transducers
def test_chunks_change_nothing_but_rounding(case, rng, monkeypatch):
    model, data = case.draw(rng), case.data(rng, 200)
    whole = model.e_step(data)
    table = model.pairwise(data.sources, data.targets)
    monkeypatch.setattr(edit_transducer, "_CHUNK_CELLS", 100.0)
    chunked = model.e_step(data)
    assert_allclose(chunked[0].counts, whole[0].counts, rtol=1e-12)
    assert_allclose(chunked[1], whole[1], rtol=1e-12)
    assert_identical([model.pairwise(data.sources, data.targets)], [table])
