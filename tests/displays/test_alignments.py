"""Alignments of two strings in their lattice."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import EditDistance, EditDistanceClassifier
from sklearn_onlineem.displays import AlignmentDisplay

PAIRS = [("ab", "abb"), ("aab", "ab"), ("ba", "bb"), ("abab", "abba")] * 5


@pytest.fixture(params=["tied", "full"])
def edit(request):
    return EditDistance(request.param, max_iter=3, tol=0.0).fit(PAIRS)


def paths(n, m):
    """All paths of a lattice from (0, 0) to (n, m), as lists of nodes."""
    if n == m == 0:
        return [[(0, 0)]]
    before = [(n - i, m - j) for i, j in ((1, 1), (1, 0), (0, 1)) if n >= i and m >= j]
    return [[*path, (n, m)] for node in before for path in paths(*node)]


def probability(edit, path, x, y):
    """That of a script, but for its end."""
    operations, S = edit.operations_, len(edit.symbols_) + 1
    tables = None
    if edit.parametrization == "full":
        names = ("substitution", "deletion", "insertion")
        tables = [getattr(edit, f"{name}_probabilities_") for name in names]
    product = 1.0
    for (i, j), (di, dj) in zip(path, np.diff(path, axis=0), strict=False):
        a = edit.symbols_.index(x[i]) if di else None
        b = edit.symbols_.index(y[j]) if dj else None
        if tables is not None:
            product *= tables[2][b] if a is None else tables[1][a] if b is None else tables[0][a, b]
        elif a is None or b is None:
            product *= operations["insert" if a is None else "delete"] / S
        else:
            product *= operations["match"] / S if a == b else operations["mismatch"] / (S * (S - 1))
    return product


def test_heat_is_the_share_of_scripts_through_a_node(edit):
    x, y = "abaa", "bab"
    expected = np.zeros((5, 4))
    for path in paths(4, 3):
        weight = probability(edit, path, x, y)
        for node in path:
            expected[node] += weight
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
