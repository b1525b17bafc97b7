"""Sequences with their states as bands."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import CategoricalHMM, GaussianHMM, MarkovChainMixture
from sklearn_onlineem.displays import StatePathDisplay


@pytest.fixture
def hmm(rng):
    return GaussianHMM(2, random_state=0).fit(rng.normal(np.repeat([[0, 1], [9, 1]], 30, axis=0)))


def rows_of(bands):
    """Rows that bands cover."""
    spans = [path.get_extents().intervalx for path in bands.get_paths()]
    return np.concatenate([np.arange(first + 0.5, last) for first, last in spans])


def test_bands_and_strip_are_those_of_the_estimator(hmm, rng):
    X = rng.normal(np.repeat([[0, 1], [9, 1], [0, 1]], [10, 30, 1], axis=0))
    display = StatePathDisplay.from_estimator(hmm, X)
    states = hmm.decode(X)[1]
    assert set(display.bands_) == {0, 1}
    for k, bands in display.bands_.items():
        assert_array_equal(rows_of(bands), np.flatnonzero(states == k))
    assert_allclose(display.im_.get_array(), hmm.predict_proba(X).T)
    for line, column in zip(display.lines_, X.T, strict=True):
        assert_array_equal(line.get_ydata(), column)
    assert display.gaps_ is None
    # The last visit is too short for a name.
    assert [text.get_text() for text in display.text_] == [str(states[0]), str(states[20])]
    by_map = StatePathDisplay.from_estimator(hmm, X, algorithm="map")
    assert_array_equal(by_map.states, hmm.predict_proba(X).argmax(axis=1))


def test_gaps_are_rows_of_which_nothing_that_is_drawn_was_observed(hmm, rng):
    X = rng.normal(size=(20, 2))
    X[5:8] = np.nan
    X[9, 0] = X[11, 0] = X[12:15, 1] = np.nan
    display = StatePathDisplay.from_estimator(hmm, X)
    assert_array_equal(rows_of(display.gaps_), [5, 6, 7])
    # A value between gaps has no line, so it has a mark.
    assert [line.get_markevery() for line in display.lines_] == [[8, 10], []]
    first = StatePathDisplay.from_estimator(hmm, X, features=[0])
    assert_array_equal(rows_of(first.gaps_), [5, 6, 7, 9, 11])


def test_features_are_chosen_by_name(hmm, rng):
    X = pd.DataFrame(rng.normal(size=(20, 2)), columns=["level", "speed"])
    fitted = GaussianHMM(2, random_state=0).fit(X)
    display = StatePathDisplay.from_estimator(fitted, X, features=["speed"])
    (line,) = display.lines_
    assert_array_equal(line.get_ydata(), X["speed"])
    assert display.ax_[0].get_ylabel() == "speed"


@pytest.mark.parametrize("n_states", [2, 50])
def test_many_states_have_colours_that_differ_in_grey(n_states, rng):
    states = np.arange(200) % n_states
    display = StatePathDisplay.from_predictions(rng.normal(size=200), states)
    colours = [display.bands_[k].get_facecolor()[0, :3] for k in range(n_states)]
    assert (np.diff(colours @ np.array([0.299, 0.587, 0.114])) > 0).all()
    assert isinstance(display.figure_, Figure) and display.posterior is None


@pytest.mark.parametrize("n_axes", [1, 2])
def test_rows_have_their_dates(n_axes, hmm, rng):
    frame = pd.DataFrame(rng.normal(size=(30, 2)), pd.date_range("2020", periods=30))
    axes = Figure().subplots(n_axes, sharex=True)
    display = StatePathDisplay.from_estimator(hmm, frame, ax=axes)
    label = np.ravel(display.ax_)[-1].xaxis.get_major_formatter()
    assert [label(x) for x in (0, 29)] == ["2020-01-01", "2020-01-30"]


def test_symbols_are_marks(rng):
    probabilities = [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
    hmm = CategoricalHMM(2, emissionprob_init=probabilities, params="")
    X = rng.integers(3, size=(30, 1))
    display = StatePathDisplay.from_estimator(hmm.fit(X), X, symbols=list("abc"))
    (marks,) = display.lines_
    assert_array_equal(marks.get_ydata(), X[:, 0])
    assert marks.get_linestyle() == "None"
    assert [label.get_text() for label in display.ax_[0].get_yticklabels()] == list("abc")
    assert StatePathDisplay.from_estimator(hmm, X).lines_[0].get_linestyle() == "None"
    with pytest.raises(ValueError, match="features must be one, as symbols are drawn"):
        StatePathDisplay.from_predictions(np.zeros((3, 2)), [0, 0, 0], symbols=True)


@pytest.mark.parametrize("kind", [CategoricalHMM, MarkovChainMixture])
def test_texts_are_symbols(kind):
    estimator = kind(2, random_state=0).fit(10 * ["abab", "cbcb"])
    expected = [0, 1, 2, 1]
    for X in ("abcb", list("abcb"), pd.DataFrame({"letter": list("abcb")})):
        display = StatePathDisplay.from_estimator(estimator, X)
        assert_array_equal(display.lines_[0].get_ydata(), expected)
        assert [label.get_text() for label in display.ax_[0].get_yticklabels()] == list("abc")
    with pytest.raises(ValueError, match="unknown category 'z'"):
        StatePathDisplay.from_estimator(estimator, "abz")
    if kind is CategoricalHMM:
        display = StatePathDisplay.from_estimator(estimator, ["a", None, "c"])
        assert_array_equal(display.lines_[0].get_ydata(), [0.0, np.nan, 2.0])
        assert display.gaps_ is not None


def test_a_mixture_of_chains_shows_what_is_known_so_far(rng):
    X = [rng.choice(2, p=p, size=(12, 1)) for p in 10 * [[0.9, 0.1], [0.1, 0.9]]]
    mixture = MarkovChainMixture(2, random_state=0).fit(X)
    display = StatePathDisplay.from_estimator(mixture, X[0])
    # By Bayes' rule, symbol by symbol.
    x, joint = X[0][:, 0], mixture.weights_ * mixture.startprob_[:, X[0][0, 0]]
    posterior = [joint / joint.sum()]
    for before, after in zip(x[:-1], x[1:], strict=True):
        joint = joint * mixture.transmat_[:, before, after]
        posterior.append(joint / joint.sum())
    assert_allclose(display.im_.get_array().T, posterior, atol=1e-9)
    assert_array_equal(display.states, np.argmax(posterior, axis=1))
    with pytest.raises(
        ValueError, match="algorithm for MarkovChainMixture must be None, got 'map'"
    ):
        StatePathDisplay.from_estimator(mixture, X[0], algorithm="map")


def test_on_one_axes_there_is_no_strip(hmm, rng):
    display = StatePathDisplay.from_estimator(
        hmm, rng.normal(size=(20, 2)), ax=Figure().add_subplot()
    )
    assert not display.ax_.images
