"""Alignment of two strings by a learnt edit distance."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.displays._drawing import Axes, Display, colour_map, label_axis
from sklearn_onlineem.displays._inputs import check_suits, floats_of

_MARKS = {"match": "o", "mismatch": "X", "delete": "v", "insert": ">"}
_STEPS = {"match": (1, 1), "mismatch": (1, 1), "delete": (1, 0), "insert": (0, 1)}


class AlignmentDisplay(Display):
    r"""Posterior of the alignment of a source and a target, and the best alignment.

    The heat at node (i, j) is the posterior probability that a script of edit operations has made
    exactly the first i symbols of the source and j of the target at some step,

    .. math::
        p(i, j \mid x, y) = \frac{p(x_{1..i}, y_{1..j}) \, p(x_{i+1..}, y_{j+1..})}
        {\delta_\# \, p(x, y)},

    where :math:`\delta_\#` is the probability that a script ends. If the heat is narrow, there is
    one way to align the strings; if it is wide, the best path is one of many.

    Parameters
    ----------
    source, target : str or sequence
        The strings, drawn down and across.
    operations : list of (kind, source symbol, target symbol)
        The path, as in `Alignment`: "match", "mismatch", "delete" or "insert"; None is no symbol.
    posterior : array-like of shape (n_source + 1, n_target + 1), default=None
        Probabilities of the nodes. None: only the path is drawn.

    Attributes
    ----------
    path : ndarray of shape (n_operations + 1, 2)
        Nodes (i, j) of the path, from (0, 0).
    ax_ : matplotlib Axes
    im_ : matplotlib AxesImage or None
        The heat.
    line_ : matplotlib Line2D
        The path.
    marks_ : dict of matplotlib Line2D by kind
        Operations, at the nodes where they end.

    References
    ----------
    Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998, section 2.3.

    Examples
    --------
    >>> from sklearn_onlineem import EditDistance
    >>> from sklearn_onlineem.displays import AlignmentDisplay
    >>> pairs = [("recieve", "receive"), ("adress", "address"), ("teh", "the")] * 10
    >>> edit = EditDistance().fit(pairs)
    >>> display = AlignmentDisplay.from_estimator(edit, "adres", "address")
    >>> [kind for kind, *_ in display.operations]
    ['match', 'insert', 'match', 'match', 'match', 'insert', 'match']
    >>> display.posterior[1:3, 2].round(2)  # either d may be the inserted one
    array([0.5, 0.5])
    """

    path: Integers
    posterior: Floats | None
    ax_: Axes

    def __init__(
        self,
        source: Sequence[Hashable],
        target: Sequence[Hashable],
        operations: Iterable[tuple[str, Hashable, Hashable]],
        *,
        posterior: ArrayLike | None = None,
    ):
        self.source, self.target = list(source), list(target)
        self.operations = list(operations)
        kinds = [kind for kind, *_ in self.operations]
        require(set(kinds) <= _STEPS.keys(), "operations", f"among {[*_STEPS]}", kinds)
        steps = [(0, 0), *(_STEPS[kind] for kind in kinds)]
        self.path = np.cumsum(steps, axis=0)
        shape = len(self.source) + 1, len(self.target) + 1
        if tuple(self.path[-1] + 1) != shape:
            raise ValueError(f"operations must lead to {shape}, they lead to {self.path[-1] + 1}.")
        self.posterior = floats_of("posterior", posterior, shape)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        source: Sequence[Hashable],
        target: Sequence[Hashable] | None = None,
        **options: object,
    ) -> Self:
        """Align two strings by a fitted edit distance, and draw the alignment.

        Time grows with the product of the squares of both lengths: use it for words and lines.

        Parameters
        ----------
        estimator : EditDistance or EditDistanceClassifier
            A fitted one.
        source : str or sequence of hashables
            The original string; drawn downwards.
        target : str or sequence of hashables, default=None
            None: the word that a classifier predicts.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or does not align strings.
        ValueError
            If a string is invalid, or `target` is missing and the estimator predicts none.
        """
        edit = estimator
        if hasattr(type(estimator), "edit_distance_"):
            check_suits(estimator, cls, ["predict"], "it does not predict words.")
            edit = estimator.edit_distance_
            target = estimator.predict([source])[0] if target is None else target
        check_suits(edit, cls, ["align", "pairwise", "operations_"], "it does not align strings.")
        if target is None:
            raise ValueError(f"target is required: {type(edit).__name__} does not predict one.")
        operations = edit.align(source, target).operations
        # Probabilities of nodes follow from distances of all beginnings and ends.
        heads = ([text[:i] for i in range(len(text) + 1)] for text in (source, target))
        tails = ([text[i:] for i in range(len(text) + 1)] for text in (source, target))
        before = edit.pairwise(*heads, kind="stochastic")
        after = edit.pairwise(*tails, kind="stochastic")
        log_end = np.log(edit.operations_["end"])
        posterior = np.exp(before[-1, -1] - before - after - log_end)
        display = cls(source, target, operations, posterior=posterior)
        return display.plot(**options)

    def plot(self, ax: Axes | None = None, *, cmap: str | None = None) -> Self:
        """Draw the alignment.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None: those of a new figure.
        cmap : str, default=None
            Name of a colour map. None: ``rcParams["image.cmap"]``.
        """
        (ax,) = self._axes(ax)
        shape = len(self.source) + 1, len(self.target) + 1
        self.im_ = None
        if self.posterior is not None:
            self.im_ = ax.imshow(self.posterior, cmap=colour_map(cmap), vmin=0.0, vmax=1.0)
            self.figure_.colorbar(self.im_, ax=ax, label="posterior probability")
        # Cells are square, unless one string is much longer.
        ax.set_aspect("equal" if 0.4 < shape[0] / shape[1] < 2.5 else "auto")
        ax.set(xlim=(-0.5, shape[1] - 0.5), ylim=(shape[0] - 0.5, -0.5))
        self._draw_path(ax)
        # So many symbols have room at 640 pixels.
        for axis, symbols, most in ((ax.yaxis, self.source, 32), (ax.xaxis, self.target, 60)):
            size = {"fontsize": "x-small"} if len(symbols) > 25 else {}
            label_axis(axis, list(map(str, symbols)), most, first=1, **size)
            axis.set_tick_params(length=0.0)
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
        ax.set(xlabel="target", ylabel="source")
        ax.grid(False)
        return self

    def _draw_path(self, ax):
        from matplotlib.patheffects import withStroke

        i, j = self.path.T
        # Long paths are drawn with a finer line.
        width, size = (1.8, 7.0) if len(i) <= 30 else (1.0, 3.5)
        # White lines with black edges are visible on any colour.
        rim = [withStroke(linewidth=2.2 * width, foreground="black")]
        (self.line_,) = ax.plot(j, i, color="white", linewidth=width, path_effects=rim)
        kinds = np.array([kind for kind, *_ in self.operations])
        self.marks_ = {}
        for kind in [kind for kind in _MARKS if kind in kinds]:
            there = 1 + np.flatnonzero(kinds == kind)
            (self.marks_[kind],) = ax.plot(
                j[there], i[there], _MARKS[kind], color="white", markeredgecolor="black",
                markeredgewidth=0.4 * width, markersize=size, label=kind,
            )  # fmt: skip
        if self.marks_:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.02), "ncols": 4}
            ax.legend(fontsize="small", **below)
