"""What is no word, no pair or no list of them is refused by name; what is one is understood."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases.comparing import arrays, assert_identical

from sklearn_onlineem import EditDistance, EditDistanceClassifier

PAIRS = [("abba", "abab"), ("cab", "cba"), ("bca", "bc"), ("", "a")]
WORDS = ["abba", "cab", "bca", ""]


class Lies:
    """Says that it has another number of entries than it has."""

    def __init__(self, entries, length):
        self.entries, self.length = entries, length

    def __len__(self):
        return self.length

    def __iter__(self):
        return iter(self.entries)


class LyingText(str):
    def __len__(self):
        return 100_000

    def __iter__(self):
        return itertools.repeat("a", 7)


class LyingList(list):
    def __len__(self):
        return 100_000


class LyingTuple(tuple):
    def __len__(self):
        return 1


NO_WORDS = {
    "data frame": pd.DataFrame({"a": ["x"] * 1000, "b": ["y"] * 1000}),
    "polars frame": pl.DataFrame({"a": ["x"], "b": ["y"]}), "longer": Lies("ab", 100_000),
    "shorter": Lies("abcdef", 2), "endless": Lies(itertools.cycle("ab"), 5),
    "lying list": LyingList("ab"), "lying tuple": LyingTuple("ab"), "dict": {"a": 1},
    "keys": {"a": 1}.keys(), "set": {"a"}, "frozenset": frozenset("a"),
    "generator": (c for c in "ab"), "bytes": b"ab", "bytearray": bytearray(b"ab"),
    "array of bytes": np.bytes_(b"ab"), "None": None, "NA": pd.NA, "int": 7, "float": 1.5,
    "scalar array": np.array("ab"), "object": object(), "class": str,
    "nested lists": [["a"], ["b"]], "matrix": np.ones((2, 2)), "NaN as symbol": ["a", float("nan")],
    "NaN in an array": np.array([1.0, np.nan]), "NA as symbol": ["a", pd.NA],
    "masked": np.ma.masked_array([1, 2], [True, False]),
}  # fmt: skip
NO_PAIRS = {
    "text": "ab", "dict": {("ab", "ba"): 1}, "set": {("ab", "ba")},
    "zip": zip(WORDS, WORDS, strict=True), "bytes": b"ab", "list of texts": ["ab", "ba"],
    "sets as pairs": [{"ab", "ba"}], "dicts as pairs": [{"ab": 1, "ba": 2}],
    "frame as pair": [pd.DataFrame({"ab": [1, 2], "ba": [1, 2]})],
    "one column": pd.DataFrame({"ab": ["a", "b"]}),
    "three columns": pd.DataFrame({"a": ["a"], "b": ["b"], "c": ["c"]}), "longer": Lies(PAIRS, 10),
    "endless": Lies(itertools.cycle(PAIRS), 3), "lying pair": [Lies("abc", 2)], "None": None,
    "int": 3, "scalar array": np.array("ab"), "array of texts": np.array(WORDS),
    "NaN in a frame": pd.DataFrame({"a": ["a", None], "b": ["b", "b"]}),
}  # fmt: skip
NO_LISTS = {
    "text": "ab", "data frame": pd.DataFrame({"ab": ["x"], "ba": ["y"]}),
    "polars frame": pl.DataFrame({"ab": ["x"], "ba": ["y"]}), "dict": {"ab": 1},
    "set": {"ab", "ba"}, "bytes": b"ab", "longer": Lies(WORDS, 10),
    "endless": itertools.cycle(WORDS), "None": None, "int": 3, "scalar array": np.array("ab"),
    "missing": pd.Series(["ab", None]),
}  # fmt: skip
no_words = pytest.mark.parametrize("word", NO_WORDS.values(), ids=NO_WORDS.keys())
no_pairs = pytest.mark.parametrize("X", NO_PAIRS.values(), ids=NO_PAIRS.keys())
no_lists = pytest.mark.parametrize("X", NO_LISTS.values(), ids=NO_LISTS.keys())


@pytest.fixture
def edit():
    return EditDistance(max_iter=2, tol=0.0, random_state=0).fit(PAIRS)


@pytest.fixture
def classifier():
    return EditDistanceClassifier(EditDistance(max_iter=2, tol=0.0)).fit(WORDS, WORDS)


def refused(function, *arguments, by="EditDistance"):
    with pytest.raises(ValueError, match=rf"(^|\s){by}\b"):
        function(*arguments)


@no_words
def test_what_is_no_word_is_refused_by_every_method(word, edit):
    before = arrays(edit.model_)
    for pair in ((word, "ab"), ("ab", word)):
        for method in ("fit", "partial_fit", "score", "score_samples", "transform"):
            refused(getattr(edit, method), [("ab", "ba"), pair])
        refused(EditDistance().partial_fit, [("ab", "ba"), pair])
        refused(edit.distance, *pair)
        refused(edit.align, *pair)
    refused(edit.pairwise, ["ab", word])
    refused(edit.pairwise, ["ab"], [word])
    assert_identical(arrays(edit.model_), before)


@no_words
def test_what_is_no_word_is_refused_by_the_classifier(word, classifier):
    name = "EditDistanceClassifier"
    for bad in ((["ab", word], WORDS[:2]), (WORDS[:2], ["ab", word])):
        refused(classifier.fit, *bad, by=name)
    refused(EditDistanceClassifier(dictionary=["ab", word]).fit, WORDS, WORDS, by=name)
    for method in (classifier.predict, classifier.kneighbors):
        refused(method, ["ab", word], by=name)
    refused(classifier.score, ["ab", word], ["ab", "ab"], by=name)
    assert classifier.predict(["ab"]).tolist() == [classifier.classes_[1]]


@no_pairs
def test_what_is_no_list_of_pairs_is_refused(X, edit):
    before = arrays(edit.model_)
    for method in ("fit", "partial_fit", "score", "score_samples", "transform"):
        refused(getattr(edit, method), X)
    refused(EditDistance().partial_fit, X)
    assert_identical(arrays(edit.model_), before)


@no_lists
def test_what_is_no_list_of_words_is_refused(X, edit, classifier):
    name = "EditDistanceClassifier"
    refused(edit.pairwise, X)
    refused(edit.pairwise, ["ab"], X) if X is not None else None
    refused(classifier.predict, X, by=name)
    refused(classifier.kneighbors, X, 1, by=name)
    refused(classifier.fit, X, WORDS, by=name)
    refused(classifier.fit, WORDS, X, by=name)
    refused(classifier.score, X, WORDS, by=name)
    refused(classifier.score, WORDS, X, by=name)
    # Nobody can tell whether an iterator ends.
    if X is not None and not hasattr(X, "__next__"):
        refused(EditDistanceClassifier(dictionary=X).fit, WORDS, WORDS, by=name)


def test_iterators_are_dictionaries_of_one_fit(classifier):
    other = EditDistanceClassifier(dictionary=(word for word in ["ab", "zz"])).fit(WORDS, WORDS)
    assert other.classes_.tolist() == ["ab", "zz"]
    with pytest.raises(ValueError, match="EditDistanceClassifier: dictionary is empty, as an iter"):
        other.fit(WORDS, WORDS)
    assert other.predict(["az"]).tolist() == ["ab"]
    with pytest.raises(ValueError, match="Expected a list of strings, .* symbols, got str 'cat'"):
        classifier.predict("cat")


def test_the_first_pairs_need_a_symbol():
    refused(EditDistance().partial_fit, [("", "")])


def test_numbers_of_words_and_neighbours_are_checked(edit, classifier):
    refused(classifier.score, WORDS, WORDS[:2], by="EditDistanceClassifier")
    refused(classifier.score, [], [], by="EditDistanceClassifier")
    for n_neighbors in (0, 1.5, "1", None):
        refused(classifier.kneighbors, WORDS, n_neighbors, by="EditDistanceClassifier")
    for n_samples in (0, 1.5, "1", None):
        refused(edit.sample, n_samples)


@pytest.mark.parametrize(
    "alphabet",
    [
        pd.DataFrame({"a": ["x"], "b": ["y"]}), {"a": 1, "b": 2}, b"ab", Lies("ab", 5),
        [["a"], ["b"]], np.ones((2, 2)), [float("nan")], "", [],
    ],
    ids=lambda alphabet: type(alphabet).__name__,
)  # fmt: skip
def test_what_is_no_alphabet_is_refused(alphabet):
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"alphabet|Symbols") as raised:
            getattr(EditDistance(alphabet=alphabet), method)(PAIRS)
        assert "EditDistance" in str(raised.value)


def as_words(word):
    """Forms of one word that are understood."""
    return {
        "list": list(word),
        "tuple": tuple(word),
        "array": np.array(list(word)),
        "object array": np.array(list(word), dtype=object),
        "series": pd.Series(list(word), index=range(10, 10 + len(word))),
        "polars series": pl.Series(list(word)),
        "text of numpy": np.str_(word),
        "text that lies": LyingText(word),
        "sequence": Lies(list(word), len(word)),
    }


@pytest.mark.parametrize("form", as_words("abba"))
def test_words_of_any_form_are_understood(form, edit, classifier):
    x, y = as_words("abba")[form], as_words("cab")[form]
    assert edit.distance(x, y) == edit.distance("abba", "cab")
    assert edit.align(x, y).operations == edit.align("abba", "cab").operations
    assert_identical([edit.pairwise([x, y])], [edit.pairwise(["abba", "cab"])])
    pairs = [(x, y), (y, x)]
    assert edit.score(pairs) == edit.score([("abba", "cab"), ("cab", "abba")])
    found = EditDistance(max_iter=2, tol=0.0).fit(pairs)
    expected = EditDistance(max_iter=2, tol=0.0).fit([("abba", "cab"), ("cab", "abba")])
    assert_identical(arrays(found.model_), arrays(expected.model_))
    distances, _ = classifier.kneighbors([x, y], 2)
    assert_identical([distances], [classifier.kneighbors(["abba", "cab"], 2)[0]])


def test_lists_of_any_form_are_understood(edit, classifier):
    forms = [tuple(WORDS), np.array(WORDS), np.array(WORDS, dtype=object), pd.Series(WORDS)]
    for X in [*forms, pd.Index(WORDS), pl.Series(WORDS)]:
        assert_identical([edit.pairwise(X)], [edit.pairwise(WORDS)])
        assert classifier.predict(X).tolist() == classifier.predict(WORDS).tolist()
        assert classifier.fit(X, X).classes_.tolist() == WORDS
    named = pd.DataFrame(PAIRS, columns=["written", "meant"], index=list("pqrs"))
    for X in (np.array(PAIRS), named, pl.DataFrame(PAIRS, orient="row"), pd.Series(PAIRS)):
        assert edit.score(X) == edit.score(PAIRS)
    numbers = np.array([[1, 2], [2, 1]])
    whole = EditDistance(max_iter=1, tol=0.0).fit([(numbers[0], numbers[1])])
    assert whole.symbols_ == [1, 2]
    assert_identical([whole.pairwise(numbers)], [whole.pairwise([(1, 2), (2, 1)])])


def test_words_of_one_length_make_a_dictionary(classifier):
    words = [("a", "b"), ("b", "c")]
    found = EditDistanceClassifier(EditDistance(max_iter=1, tol=0.0)).fit(words, words)
    assert found.predict([["a", "b"]]).tolist() == [("a", "b")]
