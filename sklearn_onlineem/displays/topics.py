"""Topics and their most probable words."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem.displays._drawing import (
    Axes,
    AxesOrMany,
    Display,
    Style,
    figure_size,
    foreground,
    without_frame,
)
from sklearn_onlineem.displays._inputs import check_suits, floats_of, unsuitable


class TopicsDisplay(Display):
    """The most probable words of topics, as bars in a panel for each.

    Topics are sorted by their share of all words, which is in their titles.

    Parameters
    ----------
    words : list of list of str
        Of each topic, the most probable first.
    probabilities : array-like of shape (n_topics, n_words)
        Of these words.
    shares : array-like of shape (n_topics,), default=None
        Share of each topic in all words.
    numbers : sequence of int, default=None
        Of the topics. None: from 0 up.

    Attributes
    ----------
    ax_ : ndarray of Axes of shape (n_topics,), or Axes
    bars_ : list of BarContainer
        Of each topic.
    labels_ : list of list of Text
        The words on the bars of each topic.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import LatentDirichletAllocation
    >>> from sklearn_onlineem.displays import TopicsDisplay
    >>> X = np.repeat([[5, 4, 0, 0], [0, 0, 6, 3]], 50, axis=0)
    >>> lda = LatentDirichletAllocation(2, random_state=0).fit(X)
    >>> names = ["ale", "bun", "car", "dog"]
    >>> display = TopicsDisplay.from_estimator(lda, feature_names=names, n_words=2)
    >>> sorted(display.words)
    [['ale', 'bun'], ['car', 'dog']]
    """

    ax_: Axes | NDArray[np.object_]

    def __init__(
        self,
        words: Iterable[Iterable[str]],
        probabilities: ArrayLike,
        shares: ArrayLike | None = None,
        numbers: Iterable[int] | None = None,
    ):
        self.words = [list(topic) for topic in words]
        self.probabilities, n_topics = np.asarray(probabilities, dtype=float), len(self.words)
        if {(n_topics, len(topic)) for topic in self.words} != {self.probabilities.shape}:
            raise ValueError("words and probabilities must be of one shape, (n_topics, n_words).")
        self.shares = floats_of("shares", shares, (n_topics,))
        self.numbers = range(n_topics) if numbers is None else list(numbers)
        n = len(self.numbers)
        require(n == n_topics, "numbers", f"those of {n_topics} topics", n)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        *,
        feature_names: Iterable[object] | None = None,
        n_words: int = 8,
        topics: Iterable[int] | None = None,
        **options: object,
    ) -> Self:
        """Draw the topics of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `components_`: latent Dirichlet allocation, of this library or
            scikit-learn's.
        feature_names : array-like of str of shape (n_features,), default=None
            The words, as `get_feature_names_out` of a vectoriser returns them. None: the names of
            the features at `fit`, or numbers.
        n_words : int, default=8
            Words of each topic, at most all.
        topics : list of int, default=None
            Topics to draw, in this order. None: all, the largest first.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or has no topics.
        """
        components = _components(estimator, cls)
        n_topics, n_features = components.shape
        check_count(f"n_words of {cls.__name__}", n_words)
        if feature_names is None:
            feature_names = getattr(estimator, "feature_names_in_", range(n_features))
        names = [str(name) for name in feature_names]
        one_each = f"{n_features} names, one for each word"
        require(len(names) == n_features, "feature_names", one_each, len(names))
        totals = components.sum(axis=1)
        largest = np.argsort(-totals, kind="stable").tolist()
        chosen = largest if topics is None else list(topics)
        are_known = all(isinstance(k, Integral) and 0 <= k < n_topics for k in chosen)
        require(chosen and are_known, "topics", f"numbers of the {n_topics} topics", topics)
        chosen = [int(k) for k in chosen]
        probabilities = components[chosen] / totals[chosen][:, None]
        top = np.argsort(-probabilities, axis=1, kind="stable")[:, :n_words]
        words = [[names[j] for j in row] for row in top]
        values = np.take_along_axis(probabilities, top, axis=1)
        return cls(words, values, (totals / totals.sum())[chosen], chosen).plot(**options)

    def plot(self, ax: AxesOrMany | None = None, *, bar_kw: Style | None = None) -> Self:
        """Draw the topics.

        Parameters
        ----------
        ax : array-like of Axes, default=None
            One for each topic. None: those of a new figure, four in a row.
        bar_kw : dict, default=None
            Further arguments of `Axes.barh`.
        """
        n_topics, n_words = self.probabilities.shape
        n_columns = min(4, n_topics)
        # A title takes 0.36 inches, and a word 0.17.
        height = -(-n_topics // n_columns) * (0.36 + 0.17 * n_words) + 0.4
        size = figure_size()[0], max(2.0, height)
        axes = self._axes(ax, n_topics, n_columns, figsize=size)
        self.bars_, self.labels_ = [], []
        for i, panel in enumerate(axes):
            places, values = np.arange(len(self.words[i])), self.probabilities[i]
            style = {"height": 0.86, "color": "C0", "alpha": 0.35, "linewidth": 0.0}
            self.bars_.append(panel.barh(places, values, **{**style, **(bar_kw or {})}))
            at = {"x": 0.02, "transform": panel.get_yaxis_transform(), "va": "center"}
            look = {"clip_on": True, "size": "small", "color": foreground()}
            words = zip(places, self.words[i], strict=True)
            self.labels_.append([panel.text(y=y, s=word, **at, **look) for y, word in words])
            panel.set(xlim=(0.0, 1.02 * self.probabilities.max()), yticks=[])
            panel.set_ylim(len(places) - 0.45, -0.55)
            panel.tick_params(labelsize="x-small")
            panel.locator_params(axis="x", nbins=3)
            without_frame(panel, "top", "right", "bottom")
            share = "" if self.shares is None else f" ({100 * self.shares[i]:.3g} %)"
            panel.set_title(f"topic {self.numbers[i]}{share}", loc="left", size="small")
            if self._is_mine and i + n_columns < n_topics:
                panel.set_xticks([])
        if self._is_mine:
            self.figure_.supxlabel("probability", size="small")
        return self


def _components(estimator, display):
    because = "it has no topics: no components_ that are not negative."
    check_suits(estimator, display, ["fit"], because)
    components = np.asarray(getattr(estimator, "components_", np.nan), dtype=float)
    if components.ndim != 2 or not (components >= 0.0).all():
        raise unsuitable(estimator, display, because)
    return components
