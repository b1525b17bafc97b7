"""Topics by their words."""

import numpy as np
import pytest
from sklearn import decomposition

from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem.displays import TopicsDisplay

WORDS = [f"word{j}" for j in range(12)]


def fitted(n_topics=3, kind=LatentDirichletAllocation):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(12, 0.2), 3)
    X = np.array([rng.multinomial(40, rng.dirichlet([2.0, 0.5, 0.2]) @ topics) for _ in range(60)])
    return kind(n_topics, random_state=0, max_iter=3).fit(X)


def bars_of(display):
    return np.array([[bar.get_width() for bar in topic] for topic in display.bars_])


@pytest.mark.parametrize(
    "kind", [LatentDirichletAllocation, decomposition.LatentDirichletAllocation]
)
def test_bars_are_the_probabilities_of_top_words(kind):
    lda = fitted(kind=kind)
    display = TopicsDisplay.from_estimator(lda, feature_names=WORDS, n_words=4, topics=[2, 0])
    rows = lda.components_[[2, 0]] / lda.components_[[2, 0]].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(bars_of(display), -np.sort(-rows, axis=1)[:, :4])
    for row, labels in zip(rows, display.labels_, strict=True):
        assert [label.get_text() for label in labels] == [WORDS[j] for j in np.argsort(-row)[:4]]
    assert [ax.get_title(loc="left")[:7] for ax in display.ax_] == ["topic 2", "topic 0"]


def test_words_are_those_of_the_estimator():
    lda = fitted()
    display = TopicsDisplay.from_estimator(lda, feature_names=WORDS, n_words=3)
    by_topic = dict(zip(display.numbers, display.words, strict=True))
    for k, words in enumerate(lda.top_words(WORDS, 3)):
        assert by_topic[k] == list(words)


def test_topics_are_sorted_by_their_shares_which_titles_say():
    lda = fitted()
    display = TopicsDisplay.from_estimator(lda)
    shares = lda.components_.sum(axis=1) / lda.components_.sum()
    assert (np.diff(display.shares) <= 0.0).all()
    np.testing.assert_allclose(display.shares, shares[display.numbers])
    titles = [ax.get_title(loc="left") for ax in display.ax_]
    expected = [f"topic {k} ({100 * shares[k]:.3g} %)" for k in display.numbers]
    assert titles == expected
    assert TopicsDisplay([["all"]], [[1.0]], [1.0]).plot().ax_.get_title("left").endswith("(100 %)")


def test_words_stand_beside_their_bars_from_the_top_on_a_common_scale():
    display = TopicsDisplay.from_estimator(fitted(), n_words=5)
    for bars, labels in zip(display.bars_, display.labels_, strict=True):
        middles = [bar.get_y() + bar.get_height() / 2.0 for bar in bars]
        np.testing.assert_allclose([label.get_position()[1] for label in labels], middles)
    assert len({ax.get_xlim() for ax in display.ax_}) == 1
    low, high = display.ax_[0].get_ylim()
    assert low > high


def test_fifty_topics_have_a_figure_that_is_high_enough():
    display = TopicsDisplay.from_estimator(fitted(50), n_words=8)
    assert len(display.figure_.axes) == len(display.bars_) == 50
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.labels_[7]]
    assert all(a.y0 >= b.y1 - 1.0 for a, b in zip(boxes[:-1], boxes[1:], strict=True))
    assert display.figure_.get_figwidth() == 6.4


def test_few_words_are_all_drawn_and_names_may_be_missing():
    display = TopicsDisplay.from_estimator(fitted(2), n_words=50)
    assert bars_of(display).shape == (2, 12)
    np.testing.assert_allclose(bars_of(display).sum(axis=1), 1.0)
    assert set(display.words[0]) == {str(j) for j in range(12)}
