"""Sequences with their hidden states and posteriors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.displays._drawing import (
    Axes,
    AxesOrMany,
    Display,
    foreground,
    ink_on,
    label_axis,
    runs,
    shade_gaps,
    some_of,
    state_colours,
)
from sklearn_onlineem.displays._inputs import check_suits, index_of, one_sequence, state_names

# A legend of more lines would not help.
_MOST_IN_LEGEND = 6


class StatePathDisplay(Display):
    """A sequence, its hidden states as bands, and their posterior probabilities as a heat strip.

    Rows without observations are hatched; other missing values are gaps in the lines. Where several
    states are grey in the strip, the path is uncertain.

    Parameters
    ----------
    X : array-like of shape (n_rows,) or (n_rows, n_features)
        One sequence, NaN for missing values. The columns of a data frame have names, and its rows
        may have dates.
    states : array-like of int of shape (n_rows,)
        0 .. n_states - 1.
    posterior : array-like of shape (n_rows, n_states), default=None
        Probabilities of the states in each row. None: no strip.
    names : list of str, default=None
        Of the states. None: their numbers.
    symbols : bool or list of str, default=False
        Whether X holds codes of symbols, drawn as marks and not as lines; or their names.

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of two
        Of the sequence, and of the strip.
    bands_ : dict of matplotlib PolyCollection by state
        Bands of the states in the path, from half a row before to half a row after.
    lines_ : list of matplotlib Line2D
        The features.
    gaps_ : matplotlib PolyCollection or None
        Rows without observations of the features that are drawn.
    im_ : matplotlib AxesImage
        The heat strip, if there is one.
    text_ : list of matplotlib Text
        Names of states, on wide bands.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import GaussianHMM
    >>> from sklearn_onlineem.displays import StatePathDisplay
    >>> X = np.repeat([[0.0], [9.0], [0.0]], 20, axis=0)
    >>> X = X + np.random.default_rng(0).normal(size=X.shape)
    >>> hmm = GaussianHMM(2, random_state=0).fit(X)
    >>> X[30:35] = np.nan
    >>> display = StatePathDisplay.from_estimator(hmm, X)
    >>> np.flatnonzero(np.diff(display.states))
    array([19, 39])
    >>> display.gaps_.get_paths()[0].get_extents().intervalx
    array([29.5, 34.5])
    """

    X: Floats
    states: Integers
    posterior: Floats | None
    ax_: Axes | NDArray[np.object_]

    def __init__(
        self,
        X: ArrayLike,
        states: ArrayLike,
        *,
        posterior: ArrayLike | None = None,
        names: Iterable[str] | None = None,
        symbols: bool | Sequence[str] = False,
    ):
        self.X, self.feature_names, self._dates = one_sequence(X, type(self))
        n_rows, self.states = len(self.X), np.asarray(states)
        found = self.states.shape
        require(found == (n_rows,), "states", f"of shape ({n_rows},)", found)
        if not np.issubdtype(self.states.dtype, np.integer) or self.states.min() < 0:
            raise ValueError("states must be whole numbers from 0 up.")
        n_states, self.posterior = int(self.states.max()) + 1, None
        if posterior is not None:
            self.posterior = np.asarray(posterior, dtype=float)
            shape = self.posterior.shape
            fits = len(shape) == 2 and shape[0] == n_rows and shape[1] >= n_states
            require(fits, "posterior", f"of shape ({n_rows}, {n_states}), or wider", shape)
            n_states = shape[1]
        elif names is not None:
            n_states = max(n_states, len(names))
        self.names = state_names(names, n_states)
        self.symbols = symbols

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: ArrayLike,
        *,
        algorithm: str | None = None,
        names: Iterable[str] | None = None,
        symbols: bool | Sequence[str] | None = None,
        **options: object,
    ) -> Self:
        r"""Decode a sequence by a fitted hidden Markov model, and draw it.

        Of a mixture of Markov chains, which has one component for a sequence, it draws the
        posterior given the rows so far, :math:`p(k \mid x_1, \dots, x_t)`, and the most probable
        component. Time grows with the square of the length then.

        Parameters
        ----------
        estimator : object
            A hidden Markov model, or MarkovChainMixture.
        X : array-like of shape (n_rows, n_features)
            One sequence, NaN for missing values. Of symbols that are texts, also a text.
        algorithm : {"viterbi", "map"}, default=None
            Of `decode`. None: the estimator's.
        names : list of str, default=None
            Of the states. None: their numbers.
        symbols : bool or list of str, default=None
            Whether X holds codes of symbols, or their names. None: the texts, or True, for
            estimators of symbols.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or has no states.
        """
        is_chains = hasattr(type(estimator), "transmat_") and not hasattr(estimator, "decode")
        needed = ["transmat_", "predict_proba"]
        check_suits(estimator, cls, needed, "it has no states with transitions.")
        known = getattr(estimator, "categories_", [])
        if (is_chains or estimator.n_features_in_ == 1) and [x.dtype for x in known] == [object]:
            shaped, X = _symbols_of(X, known[0])
            symbols = list(map(str, known[0])) if symbols is None else symbols
        else:
            shaped = one_sequence(X, cls)[0] if is_chains or np.ndim(X) == 1 else X
        rows = one_sequence(X, cls)[0]
        if is_chains:
            whose = f"algorithm for {type(estimator).__name__}"
            require(algorithm is None, whose, None, algorithm)
            column = shaped.astype(np.int64) if shaped.dtype == float else shaped
            beginnings = [column[:t] for t in range(1, len(rows) + 1)]
            posterior = np.asarray(estimator.predict_proba(beginnings))
            states = posterior.argmax(axis=1)
        else:
            posterior = np.asarray(estimator.predict_proba(shaped))
            _, states = estimator.decode(shaped, algorithm=algorithm)
        if symbols is None:
            # One column that has several probabilities is of symbols.
            probabilities = getattr(estimator, "emissionprob_", None)
            symbols = is_chains or (
                probabilities is not None and rows.shape[1] == 1 < probabilities.shape[1]
            )
        shown = {"posterior": posterior, "names": names, "symbols": symbols}
        return cls(X, states, **shown).plot(**options)

    @classmethod
    def from_predictions(
        cls,
        X: ArrayLike,
        states: ArrayLike,
        *,
        posterior: ArrayLike | None = None,
        names: Iterable[str] | None = None,
        symbols: bool | Sequence[str] = False,
        **options: object,
    ) -> Self:
        """Draw a sequence and given states.

        Parameters
        ----------
        X, states, posterior, names, symbols
            Like those of the class.
        **options
            Arguments of `plot`, such as `ax`.
        """
        display = cls(X, states, posterior=posterior, names=names, symbols=symbols)
        return display.plot(**options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        features: Iterable[int | str] | None = None,
        cmap: str | None = None,
    ) -> Self:
        """Draw the sequence.

        Parameters
        ----------
        ax : matplotlib Axes, or array of two, default=None
            One: without the strip. None: those of a new figure.
        features : list of int or str, default=None
            Features to draw, by index or name. None: all.
        cmap : str, default=None
            Name of the colour map of the states, from dark to light. None:
            ``rcParams["image.cmap"]``.
        """
        shown = range(self.X.shape[1]) if features is None else list(features)
        shown = [index_of(feature, self.feature_names) for feature in shown]
        n_axes = 1 if self.posterior is None else 2
        heights = {"height_ratios": [3.0, 1.0 if len(self.names) < 8 else 1.6]}
        top, strip = self._one_or_two_axes(ax, n_axes, sharex=True, gridspec_kw=heights)
        colours = state_colours(len(self.names), cmap)
        self._draw_bands(top, colours)
        self.gaps_ = shade_gaps(top, np.isnan(self.X[:, shown]).all(axis=1))
        (self._draw_features if self.symbols is False else self._draw_symbols)(top, shown)
        # The legend shows the lines, if there are few, and gaps.
        handles = self.lines_ if 1 < len(self.lines_) <= _MOST_IN_LEGEND else []
        self._legend([*handles, self.gaps_], is_above=True)
        top.set_xlim(-0.5, len(self.X) - 0.5)
        if strip is not None:
            self._draw_strip(strip, colours)
        self._label_rows(top if strip is None else strip)
        return self

    def _draw_bands(self, ax, colours):
        firsts, lengths, values = runs(self.states)
        spans, self.bands_ = np.column_stack([firsts - 0.5, lengths]), {}
        look = {"transform": ax.get_xaxis_transform(), "linewidth": 0.0, "alpha": 0.45}
        for k in np.unique(self.states).tolist():
            look |= {"facecolor": colours[k], "zorder": 0.4}
            self.bands_[k] = ax.broken_barh(spans[values == k], (0, 1), **look)
        letters = np.array([len(self.names[k]) for k in values])
        # Widths of a letter and of the padding of a name, as shares of 640 pixels.
        has_room = lengths > (0.013 * letters + 0.006) * len(self.states)
        look = {"ha": "center", "va": "top", "fontsize": "small", "clip_on": True}
        look["transform"], middles = ax.get_xaxis_transform(), firsts + 0.5 * (lengths - 1)
        self.text_ = [
            ax.text(middles[i], 0.985, self.names[values[i]], **look)
            for i in np.flatnonzero(has_room)
        ]

    def _draw_features(self, ax, shown):
        is_few = len(shown) <= _MOST_IN_LEGEND
        self.lines_ = []
        for i, j in enumerate(shown):
            style = ["-", "--", ":", "-."][i % 4] if is_few else "-"
            # Lines do not show values between missing ones.
            firsts, lengths, are_seen = runs(~np.isnan(self.X[:, j]))
            look = {"markevery": firsts[are_seen & (lengths == 1)].tolist(), "markersize": 3.0}
            look |= {"marker": ".", "linewidth": 1.2 if is_few else 0.6}
            self.lines_ += ax.plot(self.X[:, j], style, label=self.feature_names[j], **look)
        # Leaves room for the names of the states.
        ax.margins(y=0.12)
        if len(shown) == 1:
            ax.set_ylabel(self.feature_names[shown[0]])
            self.lines_[0].set_color(foreground())

    def _draw_symbols(self, ax, shown):
        require(len(shown) == 1, "features", "one, as symbols are drawn", len(shown))
        symbols = self.X[:, shown[0]]
        codes = np.unique(symbols[~np.isnan(symbols)])
        self.lines_ = ax.plot(symbols, "|", color=foreground(), markersize=7.0)
        if isinstance(self.symbols, bool | np.bool):
            ax.set_yticks(codes[some_of(len(codes))])
        else:
            label_axis(ax.yaxis, list(map(str, self.symbols)))
        ax.margins(y=0.3 if len(codes) <= 4 else 0.12)
        ax.set_ylabel("symbol")

    def _draw_strip(self, ax, colours):
        is_light = ink_on(ax.get_facecolor()) == "black"
        self.im_ = ax.imshow(
            self.posterior.T, cmap="Greys" if is_light else "Greys_r", vmin=0.0, vmax=1.0,
            extent=(-0.5, len(self.X) - 0.5, len(self.names) - 0.5, -0.5), aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        # The colour of each state, beside its row, identifies its bands.
        limits = ax.get_xlim(), ax.get_ylim()
        ax.barh(
            np.arange(len(self.names)), 0.012, 1.0, left=-0.016, color=colours, clip_on=False,
            transform=ax.get_yaxis_transform(),
        )  # fmt: skip
        ax.set(xlim=limits[0], ylim=limits[1], ylabel="posterior")
        ax.tick_params("y", pad=9.0, length=0.0)
        label_axis(ax.yaxis, self.names, 6)
        ax.grid(False)


def _symbols_of(X, categories):
    """Return a sequence of texts as a column, and their codes, NaN where there is none."""
    column = np.reshape(np.array(list(X) if isinstance(X, str) else X, dtype=object), (-1, 1))
    numbers = {text: code for code, text in enumerate(categories)}
    return column, np.array([[numbers.get(text, np.nan)] for text in column.ravel()])
