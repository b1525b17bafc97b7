"""Alignments of two strings in their lattice."""

import numpy as np
import pytest
from cases.transducers import Scripts, scripts
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import EditDistance, EditDistanceClassifier
from sklearn_onlineem.displays import AlignmentDisplay

PAIRS = [("ab", "abb"), ("aab", "ab"), ("ba", "bb"), ("abab", "abba")] * 5


@pytest.fixture(params=["tied", "full"])
def edit(request):
    return EditDistance(request.param, max_iter=3, tol=0.0).fit(PAIRS)


def test_heat_is_the_share_of_scripts_through_a_node(edit):
    x, y = "abaa", "bab"
    expected = np.zeros((5, 4))
    codes = ([edit.symbols_.index(symbol) for symbol in word] for word in (x, y))
    weights = np.exp(Scripts(edit.model_, *codes).log_probabilities)
    for script, weight in zip(scripts(x, y), weights, strict=True):
        steps = [(a is not None, b is not None) for a, b in script]
        nodes = np.cumsum([(0, 0), *steps], axis=0)
        expected[tuple(nodes.T)] += weight
    display = AlignmentDisplay.from_estimator(edit, x, y)
    assert_allclose(display.im_.get_array(), expected / expected[0, 0], rtol=1e-6)
    assert_allclose(display.posterior[[0, -1], [0, -1]], 1.0)


def test_the_path_is_the_alignment(edit):
    x, y = "abab", "babba"
    display = AlignmentDisplay.from_estimator(edit, x, y)
    operations = edit.align(x, y).operations
    assert display.operations == operations
    nodes = np.column_stack([display.line_.get_ydata(), display.line_.get_xdata()])
    assert tuple(nodes[0]) == (0, 0) and tuple(nodes[-1]) == (4, 5)
    for (kind, a, b), step in zip(operations, np.diff(nodes, axis=0), strict=True):
        assert tuple(step) == (a is not None, b is not None)
        assert kind in display.marks_
    n_marks = sum(len(marks.get_xdata()) for marks in display.marks_.values())
    assert n_marks == len(operations)
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == list(x)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == list(y)


def test_a_classifier_aligns_with_the_word_that_it_predicts():
    classifier = EditDistanceClassifier().fit(*zip(*PAIRS, strict=True))
    display = AlignmentDisplay.from_estimator(classifier, "abaab")
    assert "".join(display.target) == classifier.predict(["abaab"])[0]
    other = AlignmentDisplay.from_estimator(classifier, "abaab", "ab")
    assert other.operations == classifier.edit_distance_.align("abaab", "ab").operations


def test_strings_may_be_long_empty_or_sequences(edit, rng):
    x = "".join(rng.choice(["a", "b"], 50))
    display = AlignmentDisplay.from_estimator(edit, x, x[:30] + x[33:])
    # Half of 50 symbols have room below each other.
    assert len(display.ax_.get_yticks()) == 25 and len(display.ax_.get_xticks()) == 47
    empty = AlignmentDisplay.from_estimator(edit, "", "")
    assert_array_equal(empty.path, [[0, 0]])
    assert_allclose(empty.posterior, 1.0)
    one = AlignmentDisplay.from_estimator(edit, ["a", "b"], ("a",))
    assert one.source == ["a", "b"] and one.target == ["a"]


def test_a_path_alone():
    operations = [("match", "a", "a"), ("delete", "b", None)]
    display = AlignmentDisplay("ab", "a", operations).plot()
    assert display.im_ is None
    assert_array_equal(display.path, [[0, 0], [1, 1], [2, 1]])
