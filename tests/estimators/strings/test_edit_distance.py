"""The estimators of edit distances: input, streams, faults, and their answers."""

import math
import tracemalloc

import numpy as np
import pytest
from cases.comparing import assert_identical
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import EditDistance, EditDistanceClassifier
from sklearn_onlineem.em import Constant
from sklearn_onlineem.estimators.strings._input import SymbolCodes

both = pytest.mark.parametrize("parametrization", ["tied", "full"])


def noisy_pairs(rng, n, letters="abcdefgh"):
    """Words, and what a careless writer makes of them."""
    pairs = []
    for length in rng.integers(3, 9, n):
        word = "".join(rng.choice(list(letters), length))
        kept = "".join(c for c in word if rng.random() > 0.05)
        written = "".join(rng.choice(list(letters)) if rng.random() < 0.05 else c for c in kept)
        pairs.append((written, word))
    return pairs


@both
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_fitting_finds_the_kinds_of_operations(parametrization, solver, rng):
    start = dict(match=8.0, mismatch=1.0, delete=0.5, insert=1.5, end=2.0)
    truth = EditDistance(parametrization, operations_init=start, random_state=0, max_iter=1)
    truth.fit([("abc", "abc")])  # for an alphabet
    p = truth.model_.operations.spread(np.array(list(start.values())) / 13.0)
    pairs, _ = truth.model_.__class__(truth.model_.operations, p).sample(5000, rng)
    decoded = list(zip(truth._decoded(pairs.sources), truth._decoded(pairs.targets), strict=True))
    edit = EditDistance(parametrization, alphabet="abc", solver=solver, operation_prior=1.0)
    edit.fit(decoded)
    found = np.array(list(edit.operations_.values())) * 13.0
    # The fitted alphabet has a place for what is unknown, as U+FFFD is.
    assert_allclose(found, list(start.values()), atol=0.25)


@both
def test_a_prior_adds_to_the_counts_of_operations(parametrization):
    """A word beside none has one script."""
    pairs = [("ab", ""), ("a", ""), ("", "b"), ("", "")]
    prior = {"match": 1.0, "mismatch": 1.0, "delete": 3.0, "insert": 1.5}
    edit = EditDistance(parametrization, alphabet="ab", operation_prior=prior).fit(pairs)
    n = 1 if parametrization == "tied" else len(edit.symbols_) + 1
    counts = np.array([0.0, 0.0, 3.0 + 2.0 * n, 1.0 + 0.5 * n, 4.0])
    assert_allclose(list(edit.operations_.values()), counts / counts.sum(), rtol=1e-6, atol=1e-9)
    nothing = edit.set_params(operation_prior=1.0, solver="batch").fit(2 * [("", "")])
    assert nothing.operations_["end"] == 1.0 and nothing.sample(2)[0] == 2 * [("", "")]


def test_any_hashable_symbols(rng):
    pairs = noisy_pairs(rng, 50)
    tuples = [tuple(tuple((c, 1) for c in word) for word in pair) for pair in pairs]
    text, other = EditDistance().fit(pairs), EditDistance().fit(tuples)
    assert_allclose(other.score(tuples), text.score(pairs), rtol=1e-12)
    assert str(other.align(*tuples[0])).count("\n") == 2
    sampled, _ = other.set_params(random_state=0).sample(20)
    assert {symbol for x, _ in sampled for symbol in x} <= {*other.symbols_, None}
    for drawn, kind in ((sampled, tuple), (text.set_params(random_state=0).sample(20)[0], str)):
        assert all(isinstance(word, kind) for pair in drawn for word in pair)


def test_symbols_are_code_points():
    edit = EditDistance().fit([("naïve 😀", "naive 😀"), ("ab", "abc")])
    assert "😀" in edit.symbols_ and "ï" in edit.symbols_
    assert edit.align("😀", "😀").operations == [("match", "😀", "😀")]
    assert np.isfinite(edit.distance("\ud800", ""))  # half of a surrogate pair


@both
def test_unknown_symbols_have_the_probability_that_is_documented(parametrization, rng):
    edit = EditDistance(parametrization).fit(noisy_pairs(rng, 300))
    assert np.isfinite(edit.distance("éü", "éü"))
    assert edit.distance("éü", "éü") < edit.distance("éü", "aü") + 20
    if parametrization == "tied":
        assert_allclose(edit.distance("éü", "éx"), edit.distance("ab", "ac"), rtol=1e-12)
    else:
        assert_allclose(edit.distance("é", "é"), edit.distance("é", "ü"), rtol=1e-12)
        kept = edit.substitution_probabilities_[-1, -1]
        assert edit.distance("é", "é") < -math.log(kept) - math.log(edit.operations_["end"])


@both
def test_distances_of_all_methods_agree(parametrization, rng):
    pairs = noisy_pairs(rng, 60)
    edit = EditDistance(parametrization).fit(pairs)
    X, Y = [x for x, _ in pairs], [y for _, y in pairs]
    for kind in ("stochastic", "viterbi"):
        table = edit.pairwise(X, Y, kind=kind)
        assert_allclose(edit.set_params(kind=kind).transform(pairs)[:, 0], np.diag(table))
        assert_allclose(edit.distance(X[3], Y[5], kind=kind), table[3, 5], rtol=1e-12)
    assert_allclose(edit.distance(X[0], Y[0], kind="stochastic"), -edit.score_samples(pairs)[0])
    assert (edit.pairwise(X, kind="viterbi") >= edit.pairwise(X, kind="stochastic") - 1e-12).all()
    assert edit.get_feature_names_out().tolist() == ["editdistance0"]


@both
def test_an_alignment_has_the_viterbi_distance(parametrization, rng):
    edit = EditDistance(parametrization).fit(noisy_pairs(rng, 300))
    tables = edit.model_.operations.tables(edit.model_.probabilities)
    for x, y in [("", ""), ("abc", ""), ("", "ab"), *noisy_pairs(rng, 20)]:
        alignment = edit.align(x, y)
        assert "".join(a for _, a, _ in alignment.operations if a) == x
        assert "".join(b for _, _, b in alignment.operations if b) == y
        total = math.log(edit.operations_["end"])
        for kind, a, b in alignment.operations:
            i, j = (None if c is None else edit.symbols_.index(c) for c in (a, b))
            if parametrization == "tied":
                p = {"match": tables[0][0, 0], "mismatch": tables[0][0, 1]}
                p |= {"delete": tables[1][0], "insert": tables[2][0]}
                total += math.log(p[kind])
            else:
                p = tables[1][i] if b is None else tables[2][j] if a is None else tables[0][i, j]
                total += math.log(p)
        assert_allclose(alignment.distance, -total, rtol=1e-10)
        assert_allclose(alignment.distance, edit.distance(x, y, kind="viterbi"), rtol=1e-12)


def test_printed_alignments():
    edit = EditDistance().fit([("abcd", "abcd"), ("abd", "abcd"), ("abcd", "axcd")] * 5)
    assert str(edit.align("abd", "abcd")) == "ab-d\n|| |\nabcd"
    assert str(edit.align("axcd", "abcd")) == "axcd\n|.||\nabcd"
    assert str(edit.align("", "")) == "\n\n"
    phrases = [(("to", None), ("to", "see", None))] * 5
    words = EditDistance().fit(phrases).align(*phrases[0])
    assert str(words).split() == ["to", "-", "None", "|", "|", "to", "see", "None"]


def test_grid_search_and_pipelines_take_lists_of_pairs(rng):
    pairs = noisy_pairs(rng, 60)
    grid = {"parametrization": ["tied", "full"], "beta": [0.6, 0.9]}
    search = GridSearchCV(EditDistance(batch_size=10, max_iter=2), grid, cv=3).fit(pairs)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    scaled = make_pipeline(EditDistance(max_iter=2), StandardScaler()).fit_transform(pairs)
    assert scaled.shape == (60, 1)
    search = GridSearchCV(
        EditDistanceClassifier(EditDistance(max_iter=2), dictionary=[y for _, y in pairs]),
        {"edit_distance__parametrization": ["tied", "full"], "conditional": [True, False]},
        cv=KFold(3),
    ).fit([x for x, _ in pairs], [y for _, y in pairs])  # fmt: skip
    assert search.best_score_ > 0.5


def test_too_large_an_alphabet_for_a_table_is_refused():
    words = [(tuple(range(5000)), tuple(range(5000)))]
    with pytest.raises(ValueError, match="tied"):
        EditDistance("full").fit(words)
    assert np.isfinite(EditDistance(max_iter=2).fit(words).score(words))


def test_sets_of_symbols_have_one_order_everywhere():
    edit = EditDistance(alphabet=set("shuffled")).fit([("s", "h")])
    assert edit.symbols_ == sorted(set("shuffled"))


def test_long_queries_of_short_words_need_little_memory():
    words = ["ab" * n for n in range(1, 20)]
    edit = EditDistance(alphabet="ab", max_iter=1, tol=0.0).fit([(w, w) for w in words])
    classifier = EditDistanceClassifier(edit, prefit=True).fit(words, words)
    tracemalloc.start()
    nearest = classifier.predict(["ab" * 2500])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert nearest[0] == words[-1]
    assert peak < 2**24


def test_single_pairs_and_pairs_without_symbols(rng):
    edit = EditDistance().partial_fit([("a", "b")]).partial_fit([("", "")]).partial_fit([("a", "")])
    assert np.isfinite(edit.model_.probabilities).all()
    assert_allclose(edit.distance("", ""), -math.log(edit.operations_["end"]))


def test_partial_fit_with_a_given_start_is_a_step_of_em(rng):
    pairs = noisy_pairs(rng, 50)
    start = dict(match=8.0, mismatch=1.0, delete=0.5, insert=1.5, end=2.0)
    parameters = dict(operations_init=start, alphabet="abcdefgh")
    stream = EditDistance(schedule=Constant(math.inf), **parameters).partial_fit(pairs)
    once = EditDistance(solver="batch", max_iter=1, **parameters).fit(pairs)
    assert_identical(stream.model_, once.model_)
    assert clone(stream).get_params() == stream.get_params()


# --------------------------------------------------------------------------------- classifier


@both
@pytest.mark.parametrize("kind", ["stochastic", "viterbi"])
@pytest.mark.parametrize("conditional", [True, False])
def test_pruning_never_changes_the_answer(parametrization, kind, conditional, rng):
    pairs = noisy_pairs(rng, 1500, "abcdefghijklmnop")
    words = list(dict.fromkeys(word for _, word in pairs)) + ["", "éa", "ñb", "a" * 60]
    queries = [x for x, _ in pairs[:40]] + ["", "éb", "üaé", "aaaa", "zzz"]
    edit = EditDistance(parametrization, kind=kind, max_iter=5).fit(pairs)
    classifier = EditDistanceClassifier(
        edit, prefit=True, dictionary=words, conditional=conditional
    )
    distances, indices = classifier.fit(["a"], ["a"]).kneighbors(queries, 7)
    table = edit.pairwise(queries, words)
    if conditional:
        codes = SymbolCodes(classifier._fitted.codes)
        table += edit.model_.target_log_probability(codes.encode(words))
    order = np.argsort(table, axis=1, kind="stable")[:, :7]
    assert_allclose(distances, np.take_along_axis(table, order, axis=1), rtol=1e-10)
    # Equal but for rounding, words may change places.
    assert_allclose(np.take_along_axis(table, indices, axis=1), distances, rtol=1e-10)
    assert np.mean(indices == order) > 0.95


@both
def test_bounds_hold(parametrization, rng):
    pairs = noisy_pairs(rng, 300)
    for kind in ("stochastic", "viterbi"):
        edit = EditDistance(parametrization, kind=kind, max_iter=5).fit(pairs)
        words = [word for _, word in pairs] + ["é", "zé", ""]
        classifier = EditDistanceClassifier(edit, prefit=True, dictionary=words).fit(["a"], ["a"])
        known, kept_out = classifier._fitted.known, 0
        for query in ["abcd", "", "éa", "hgfedcba"]:
            word = SymbolCodes(classifier._fitted.codes).encode([query])
            bounds = known._largest_log_probabilities(word)
            found = -edit.pairwise([query], classifier.classes_.tolist())[0]
            assert (found <= bounds + 1e-9).all()
            kept_out += np.mean(bounds < np.sort(found)[-5])
        assert kept_out > 0.3 or parametrization == "full"


def test_classifier_learns_and_takes_sequences(rng):
    pairs = noisy_pairs(rng, 300)
    X, y = [tuple(x) for x, _ in pairs], [list(word) for _, word in pairs]
    classifier = EditDistanceClassifier().fit(X, y)
    assert classifier.score(X, y) > 0.8
    with pytest.raises(ValueError, match="n_neighbors of EditDistanceClassifier"):
        classifier.kneighbors(X, 10_000)
    for bad in ([1.0], "abc", [None]):
        with pytest.raises(ValueError, match="EditDistanceClassifier"):
            classifier.predict(bad)
