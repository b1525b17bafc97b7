"""Transitions between states: a heat map with numbers, or a graph with expected durations."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.displays._drawing import (
    Axes,
    Display,
    colour_map,
    foreground,
    ink_on,
    label_axis,
    state_colours,
)
from sklearn_onlineem.displays._inputs import check_suits, floats_of, state_names

_BEND = 0.2
# More numbers are unreadable at 640 pixels.
_MOST_ANNOTATED = 12


def jumps(transmat):
    """Return the probabilities of the next state when a chain leaves a state."""
    leaving = transmat.copy()
    np.fill_diagonal(leaving, 0.0)
    stays = np.minimum(transmat.diagonal(), 1.0)[:, None]
    return np.divide(leaving, 1.0 - stays, out=np.zeros_like(leaving), where=stays < 1.0)


def occupancies(transmat):
    """Return the shares of time in the states, of a chain that starts anywhere after its end."""
    n_states = len(transmat)
    ends = np.maximum(1.0 - transmat.sum(axis=1, keepdims=True), 0.0)
    endless = transmat + ends / n_states
    equations = np.vstack([endless.T - np.eye(n_states), np.ones(n_states)])
    shares = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
    return np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum()


def layout(transmat):
    """Return the positions of states, an ndarray of shape (n_states, 2)."""
    n_states = len(transmat)
    # Fewer states look best on a circle.
    if n_states > 6:
        with suppress(ImportError):
            import networkx

            weights = jumps(transmat)
            graph = networkx.from_numpy_array(weights + weights.T)
            placed = networkx.spring_layout(graph, seed=0)
            return np.array([placed[i] for i in range(n_states)])
    # Clockwise from the top; of two states, side by side.
    start = 0.5 * np.pi if n_states != 2 else np.pi
    angles = start - 2.0 * np.pi * np.arange(n_states) / n_states
    return np.column_stack([np.cos(angles), np.sin(angles)])


def number_place(ends):
    """Return the position of the number of such an arrow, in the coordinates of its ends."""
    (x, y), (dx, dy) = np.add(*ends) / 2.0, np.subtract(ends[1], ends[0])
    control = np.array([x + _BEND * dy, y - _BEND * dx])
    # Before the middle, where many arrows may cross.
    t = 0.4
    return (1.0 - t) ** 2 * ends[0] + 2.0 * t * (1.0 - t) * control + t**2 * ends[1]


class TransitionDisplay(Display):
    """Transition probabilities of a Markov chain, as a heat map or as a graph.

    The duration of a visit to state i is geometric, :math:`1 / (1 - A_{ii})` rows in the mean.

    Parameters
    ----------
    transmat : array-like of shape (n_states, n_states)
        Probabilities of the transitions from row to column. Rows sum to 1, or to less if the
        sequence may end.
    names : list of str, default=None
        Of the states. None: their numbers.

    Attributes
    ----------
    end : ndarray of shape (n_states,)
        Probabilities that the sequence ends after the state, 1 less the sums of rows.
    durations : ndarray of shape (n_states,)
        Expected durations in rows; infinity if a state is never left.
    ax_ : matplotlib Axes
    im_ : matplotlib AxesImage
        Of the heat map.
    text_ : ndarray of matplotlib Text, or None
        Its numbers; None if there are too many.
    nodes_ : matplotlib PathCollection
        States of the graph.
    edges_ : dict of matplotlib FancyArrowPatch by (from, to)
    labels_ : list of matplotlib Text
        Names of the states of the graph, with their durations.

    References
    ----------
    Rabiner, "A tutorial on hidden Markov models and selected applications in speech recognition",
    Proceedings of the IEEE 77, 1989, eq. (5).

    Examples
    --------
    >>> from sklearn_onlineem.displays import TransitionDisplay
    >>> display = TransitionDisplay([[0.9, 0.1], [0.5, 0.5]], names=["calm", "rough"]).plot()
    >>> display.durations.round(9)
    array([10.,  2.])
    >>> [text.get_text() for text in display.text_.flat]
    ['0.90', '0.10', '0.50', '0.50']
    """

    transmat: Floats
    end: Floats
    durations: Floats
    ax_: Axes

    def __init__(self, transmat: ArrayLike, *, names: Iterable[str] | None = None):
        transmat = np.array(transmat, dtype=float)
        is_square = transmat.ndim == 2 and len(transmat) == transmat.shape[1] > 0
        require(is_square, "transmat", "a square matrix", transmat.shape)
        if not (transmat.min() >= 0.0 and transmat.sum(axis=1).max() < 1.0 + 1e-4):
            raise ValueError("transmat must be probabilities, whose rows sum to at most 1.")
        self.transmat = transmat
        self.names = state_names(names, len(self.transmat))
        self.end = np.maximum(1.0 - self.transmat.sum(axis=1), 0.0)
        # Rounding errors of sums that should be 1.
        self.end[self.end < 1e-6] = 0.0
        with np.errstate(divide="ignore"):
            self.durations = 1.0 / (1.0 - np.minimum(self.transmat.diagonal(), 1.0))

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        *,
        component: int | None = None,
        names: Iterable[str] | None = None,
        **options: object,
    ) -> Self:
        """Draw the transitions of a fitted hidden Markov model, or of a mixture of Markov chains.

        Parameters
        ----------
        estimator : object
            With `transmat_`: a hidden Markov model, or MarkovChainMixture.
        component : int, default=None
            Component of a mixture. None: the only one.
        names : list of str, default=None
            Of the states, or of a mixture's symbols. None: their numbers, or these symbols.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or has no transitions.
        """
        check_suits(estimator, cls, ["transmat_"], "it has no transmat_.")
        transmat, name = np.asarray(estimator.transmat_), type(estimator).__name__
        is_mixture = transmat.ndim == 3
        n = len(transmat) if is_mixture else 1
        component = 0 if component is None and n == 1 else component
        is_one = isinstance(component, Integral) and 0 <= component < n
        require(is_one, f"component of {name}", f"in 0..{n - 1}", component)
        if is_mixture:
            transmat = transmat[component]
            names = estimator.categories_[0] if names is None else names
        display = cls(transmat, names=names)
        if (lasting := getattr(estimator, "durationprob_", None)) is not None:
            # A state that is never left lasts.
            means = lasting @ np.arange(1.0, lasting.shape[1] + 1.0)
            display.durations = np.where(np.diagonal(transmat) > 0.0, np.inf, means)
        return display.plot(**options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        kind: str = "matrix",
        cmap: str | None = None,
        threshold: float | None = None,
        positions: ArrayLike | None = None,
    ) -> Self:
        """Draw the transitions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: those of a new figure.
        kind : {"matrix", "graph"}, default="matrix"
            "matrix": a heat map, with numbers for up to 12 states; for more, with a colour bar in
            square roots, so that rare transitions are visible. "graph": states, whose areas are
            their shares of time, and arrows, whose widths are shares of leaving; with probabilities
            for up to 6 states.
        cmap : str, default=None
            Name of a colour map. None: ``rcParams["image.cmap"]``.
        threshold : float, default=None
            Of a graph: smallest share of leaving a state that has an arrow. None: 0.05, and 0.1 for
            more than 12 states.
        positions : array-like of shape (n_states, 2), default=None
            Of the states in a graph. None: by networkx, if it is installed and there are more than
            6 states, with frequent transitions between near states; else on a circle.
        """
        if kind == "matrix":
            if threshold is not None or positions is not None:
                raise ValueError("threshold and positions require kind='graph'.")
            return self._plot_matrix(ax, cmap)
        if kind != "graph":
            raise ValueError(f"kind must be 'matrix' or 'graph', got {kind!r}.")
        return self._plot_graph(ax, cmap, threshold, positions)

    # ----------------------------------------------------------------------------------- heat map

    def _plot_matrix(self, ax, cmap):
        from matplotlib.colors import Normalize, PowerNorm

        (ax,) = self._axes(ax)
        n_states, has_end = len(self.names), self.end.any()
        shown = np.column_stack([self.transmat, self.end]) if has_end else self.transmat
        is_annotated = n_states <= _MOST_ANNOTATED
        norm = Normalize(0.0, 1.0) if is_annotated else PowerNorm(0.5, 0.0, 1.0)
        self.im_ = ax.imshow(shown, cmap=colour_map(cmap), norm=norm)
        ax.grid(False)
        columns = [*self.names, "end"] if has_end else self.names
        label_axis(ax.yaxis, self.names)
        label_axis(ax.xaxis, columns)
        if is_annotated and sum(map(len, columns)) > 40:
            for label in ax.get_xticklabels():
                label.set(rotation=40, ha="right", rotation_mode="anchor")
        ax.set(xlabel="to", ylabel="from")
        if not is_annotated:
            self.text_ = None
            self.figure_.colorbar(self.im_, ax=ax, label="probability")
            return self
        inks = ink_on(self.im_.to_rgba(shown))
        look = {
            "ha": "center",
            "va": "center",
            "fontsize": "medium" if n_states <= 8 else "x-small",
        }
        self.text_ = np.empty(shown.shape, dtype=object)
        for i, j in np.ndindex(*shown.shape):
            self.text_[i, j] = ax.text(j, i, f"{shown[i, j]:.2f}", color=inks[i, j], **look)
        right = ax.secondary_yaxis("right")
        right.set_ticks(np.arange(n_states), labels=list(map(_rounded, self.durations)))
        right.set_ylabel("expected duration (rows)")
        right.tick_params(length=0)
        return self

    # -------------------------------------------------------------------------------------- graph

    def _plot_graph(self, ax, cmap, threshold, positions):
        from matplotlib.patches import FancyArrowPatch

        n_states = len(self.names)
        where = floats_of("positions", positions, (n_states, 2))
        where = layout(self.transmat) if where is None else where
        if threshold is None:
            threshold = 0.05 if n_states <= _MOST_ANNOTATED else 0.1
        (ax,), ink, ways_out = self._axes(ax), foreground(), jumps(self.transmat)
        # Radii in points of circles whose areas are shares of time, with a smallest radius.
        shares, largest = occupancies(self.transmat), 24.0 * min(1.0, (5.0 / n_states) ** 0.5)
        sizes = np.maximum(largest * np.sqrt(shares / shares.max()), 5.0)
        self.edges_ = {}
        curve = {"connectionstyle": f"arc3,rad={_BEND}", "arrowstyle": "-|>"}
        for i, j in np.argwhere((ways_out >= threshold) & (ways_out > 0.0)).tolist():
            # Wider and darker for larger shares of leaving.
            share = ways_out[i, j]
            look = {"linewidth": 0.5 + 2.5 * share, "alpha": 0.2 + 0.75 * share, "color": ink}
            reach = {"shrinkA": sizes[i] + 1.0, "shrinkB": sizes[j] + 1.0, "zorder": 2}
            look |= {"mutation_scale": 7.0 + 7.0 * share, **reach, **curve}
            self.edges_[i, j] = ax.add_patch(FancyArrowPatch(where[i], where[j], **look))
        colours = state_colours(n_states, cmap)
        look = {"c": colours, "edgecolors": ink, "linewidths": 1.0, "zorder": 3}
        self.nodes_ = ax.scatter(*where.T, s=(2.0 * sizes) ** 2, **look)
        if n_states <= 6:
            ground = self.figure_.get_facecolor()
            box = {"boxstyle": "round,pad=0.1", "linewidth": 0, "facecolor": ground}
            look = {"ha": "center", "va": "center", "fontsize": "small", "bbox": box, "zorder": 4}
            for i, j in self.edges_:
                ax.text(*number_place(where[[i, j]]), f"{self.transmat[i, j]:.2g}", **look)
        self._name_nodes(ax, where, sizes, ink_on(colours))
        ax.set_aspect("equal")
        ax.margins(0.25 if n_states <= _MOST_ANNOTATED else 0.08)
        ax.set_axis_off()
        return self

    def _name_nodes(self, ax, where, sizes, inks):
        """Draw names within wide circles, else beside; durations of few states beside."""
        from matplotlib.patheffects import withStroke

        is_few = len(self.names) <= _MOST_ANNOTATED
        # Arrows may pass below.
        halo = [withStroke(linewidth=2.0, foreground=self.figure_.get_facecolor())]
        look, self.labels_ = {"fontsize": "medium" if is_few else "xx-small", "zorder": 5}, []
        for i, away in enumerate(where - where.mean(axis=0)):
            name, texts, length = self.names[i], [], np.linalg.norm(away)
            # The least radius of a circle around a letter is 8 points.
            if is_few and sizes[i] > max(2.5 * len(name), 8.0):
                inside = {"ha": "center", "va": "center_baseline", "color": inks[i]}
                ax.annotate(name, where[i], **inside, **look)
            else:
                texts.append(name)
            if is_few:
                texts.append(f"{_rounded(self.durations[i])} rows")
            if is_few and self.end[i] > 0.0:
                texts.append(f"ends: {self.end[i]:.2g}")
            x, y = away = away / length if length > 1e-9 else np.array([0.0, 1.0])
            beside = {"ha": "center" if abs(x) <= 0.3 else "left" if x > 0.0 else "right"}
            beside["va"] = "center" if abs(y) <= 0.6 else "bottom" if y > 0.0 else "top"
            beside |= {"xytext": away * (sizes[i] + 3.0), "textcoords": "offset points"}
            text = ax.annotate("\n".join(texts), where[i], path_effects=halo, **look, **beside)
            self.labels_.append(text)


def _rounded(duration):
    if np.isinf(duration):
        return "\N{INFINITY}"
    return f"{duration:.3g}" if duration < 1000.0 else f"{duration:,.0f}"
