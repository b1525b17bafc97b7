"""Transition matrices as heat maps and graphs."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import GaussianHMM, MarkovChainMixture
from sklearn_onlineem.displays import TransitionDisplay


def draw_transitions(rng, n_states):
    return 0.5 * np.eye(n_states) + 0.5 * rng.dirichlet(np.full(n_states, 0.3), n_states)


def test_a_heat_map_shows_the_estimators_numbers(rng):
    X = rng.normal(np.repeat([[0.0], [9.0]] * 5, 10, axis=0))
    hmm = GaussianHMM(2, random_state=0).fit(X)
    display = TransitionDisplay.from_estimator(hmm, names=["low", "high"])
    assert_array_equal(display.im_.get_array(), hmm.transmat_)
    assert_array_equal(
        [[float(text.get_text()) for text in row] for row in display.text_], hmm.transmat_.round(2)
    )
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["low", "high"]
    assert_allclose(display.durations, 1.0 / (1.0 - np.diag(hmm.transmat_)))
    timed = GaussianHMM(2, durations="poisson", max_duration=20, random_state=0).fit(X)
    means = timed.durationprob_ @ np.arange(1.0, 21.0)
    assert_allclose(TransitionDisplay.from_estimator(timed).durations, means)
    assert_array_equal(TransitionDisplay(np.eye(2)).durations, np.inf)


def test_probabilities_of_an_end_are_a_column(rng):
    sequences = [rng.normal(np.repeat([[0.0], [9.0]], 10, axis=0)) for _ in range(5)]
    hmm = GaussianHMM(2, termination="end_state", random_state=0).fit(sequences)
    display = TransitionDisplay.from_estimator(hmm)
    assert_allclose(display.end, hmm.endprob_, atol=1e-12)
    assert_allclose(display.im_.get_array(), np.c_[hmm.transmat_, hmm.endprob_], atol=1e-12)
    assert display.ax_.get_xticklabels()[-1].get_text() == "end"


def test_many_states_have_a_bar_of_colours_for_numbers(rng):
    transmat = draw_transitions(rng, 50)
    display = TransitionDisplay(transmat).plot()
    assert display.text_ is None and len(display.figure_.axes) == 2
    assert_array_equal(display.im_.get_array(), transmat)
    assert 2 < len(display.ax_.get_xticks()) <= 13


@pytest.mark.parametrize("n_states", [2, 9, 50])
def test_a_graph_has_arrows_for_the_ways_out(n_states, rng):
    transmat = draw_transitions(rng, n_states)
    display = TransitionDisplay(transmat).plot(kind="graph", threshold=0.1)
    ways_out = transmat / (1.0 - np.diag(transmat))[:, None]
    np.fill_diagonal(ways_out, 0.0)
    assert set(display.edges_) == {tuple(edge) for edge in np.argwhere(ways_out >= 0.1).tolist()}
    widths = {edge: arrow.get_linewidth() for edge, arrow in display.edges_.items()}
    order = sorted(widths, key=widths.get)
    assert (np.diff([ways_out[edge] for edge in order]) >= -1e-12).all()


def test_areas_of_states_are_their_shares_of_the_time():
    transmat = np.array([[0.9, 0.1], [0.3, 0.7]])
    display = TransitionDisplay(transmat).plot(kind="graph")
    areas = display.nodes_.get_sizes()
    # The stationary distribution is (3, 1) / 4.
    assert_allclose(areas[0] / areas[1], 3.0)
    assert [label.get_text() for label in display.labels_] == ["10 rows", "3.33 rows"]


def test_states_lie_where_they_are_put(rng, monkeypatch):
    where = rng.normal(size=(9, 2))
    transmat = draw_transitions(rng, 9)
    display = TransitionDisplay(transmat).plot(kind="graph", positions=where)
    assert_array_equal(display.nodes_.get_offsets(), where)

    def spring_layout(graph, seed):
        assert_allclose(graph, graph.T)
        return dict(enumerate(where))

    networkx = SimpleNamespace(from_numpy_array=np.asarray, spring_layout=spring_layout)
    monkeypatch.setitem(sys.modules, "networkx", networkx)
    display = TransitionDisplay(transmat).plot(kind="graph")
    assert_array_equal(display.nodes_.get_offsets(), where)
    monkeypatch.setitem(sys.modules, "networkx", None)
    display = TransitionDisplay(transmat).plot(kind="graph")
    assert_allclose(np.linalg.norm(display.nodes_.get_offsets(), axis=1), 1.0)


def test_a_mixture_of_chains_has_a_matrix_for_each_component(rng):
    X = rng.integers(3, size=(30, 8, 1))
    mixture = MarkovChainMixture(2, random_state=0).fit(X)
    display = TransitionDisplay.from_estimator(mixture, component=1)
    assert_array_equal(display.transmat, mixture.transmat_[1])
    words = MarkovChainMixture(1, random_state=0).fit(["abba", "baba"])
    labels = TransitionDisplay.from_estimator(words).ax_.get_yticklabels()
    assert [label.get_text() for label in labels] == ["a", "b"]
    for component in (None, 2, "1"):
        with pytest.raises(ValueError, match="component of MarkovChainMixture"):
            TransitionDisplay.from_estimator(mixture, component=component)
    hmm = GaussianHMM(1).fit(rng.normal(size=(9, 1)))
    with pytest.raises(ValueError, match=r"component of GaussianHMM must be in 0\.\.0, got 1"):
        TransitionDisplay.from_estimator(hmm, component=1)
