"""The base of displays: figures and axes, colours, line styles, ticks and hatches."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._checks import require

# Signatures name these types; matplotlib is imported when a picture is drawn.
if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = object

AxesOrMany: TypeAlias = Axes | Sequence[Axes] | NDArray[np.object_]
# Keyword arguments of a method of matplotlib.
Style: TypeAlias = Mapping[str, object]


_DASHES = ["-", "--", "-.", ":", (0, (7, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1))]
# Ticks for which there is room at 640 pixels.
_MOST_TICKS = 13


class Display:
    """A picture of an estimator: notebooks show it, and ``figure_.savefig`` saves it.

    New figures are made without pyplot, so that none stays open and no window appears; they follow
    the style in ``matplotlib.rcParams``.
    """

    figure_: Figure
    _is_mine = False

    def _axes(self, ax, n=1, n_columns=1, *, figsize=None, **options):
        """Return n axes in an array: the user's, or those of a new figure in rows of `n_columns`.

        One axes of the user may stand for an array. `ax_` is the array, or its only entry.
        """
        self._is_mine = ax is None
        if ax is None:
            try:
                from matplotlib.figure import Figure
            except ImportError as error:
                raise ImportError("displays need matplotlib: pip install matplotlib") from error
            # pyplot does not manage this figure.
            figure = Figure(layout="constrained", figsize=figsize)
            shape = math.ceil(n / n_columns), min(n, n_columns)
            axes = figure.subplots(*shape, squeeze=False, **options).ravel()
            for unused in axes[n:]:
                unused.remove()
            axes = axes[:n]
        else:
            axes = np.ravel(np.asarray(ax, dtype=object))
            require(len(axes) == n, f"ax of {type(self).__name__}.plot", f"{n} Axes", len(axes))
        self.ax_, self.figure_ = axes if n > 1 else axes[0], axes[0].figure
        return axes

    def _one_or_two_axes(self, ax, n_axes, **options):
        """Return two axes, the second None if `n_axes` is 1 or the user has passed one only."""
        n = n_axes if ax is None else np.size(ax)
        require(1 <= n <= n_axes, "ax", f"{n_axes} Axes at most", n)
        return [*self._axes(ax, n, **(options if n > 1 else {})), None][:2]

    def _legend(self, handles, is_above=False):
        """Draw a legend above all axes; above the first, or in it, if the user has passed them.

        Handles may be None; without any there is no legend.
        """
        handles = [handle for handle in handles if handle is not None]
        if not handles:
            return
        look = {"handles": handles, "fontsize": "small"}
        if not self._is_mine:
            if is_above:
                look |= {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 4}
            np.ravel(self.ax_)[0].legend(frameon=not is_above, **look)
            return
        look |= {"loc": "outside upper center", "frameon": False, "handlelength": 2.4}
        lengths = [len(handle.get_label()) for handle in handles]
        # A line has room for 100 letters at 640 pixels; a handle takes as much as 10.
        n_columns = min(5, len(handles))
        while sum(max(c) + 10 for c in np.array_split(lengths, n_columns)) > 100 and n_columns > 1:
            n_columns -= 1
        self.figure_.legend(ncols=n_columns, **look)

    def _label_rows(self, ax):
        """Label rows by numbers, or by dates if these are known; rows to come are +1, +2, ..."""
        from matplotlib.ticker import MaxNLocator

        if self._dates is None:
            ax.set_xlabel("row")
            return
        last, texts = len(self._dates) - 1, dict(enumerate(self._dates))
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.xaxis.set_major_formatter(lambda x, _: texts.get(x, f"+{x - last:.0f}" * int(x > last)))

    def _repr_png_(self):
        """Return the picture for a notebook, unless the user's figure is shown anyway."""
        if not self._is_mine:
            return None
        picture = io.BytesIO()
        self.figure_.savefig(picture, format="png")
        return picture.getvalue()


def colors(n):
    """Return `n` colours of the style's cycle, or of its colour map if there are too few."""
    import matplotlib as mpl

    found = mpl.rcParams["axes.prop_cycle"].by_key().get("color", ["C0"])[:n]
    if len(found) < n:
        # The lightest part of a colour map is not visible on paper.
        found = colour_map()(np.linspace(0.0, 0.88, n))
    return [mpl.colors.to_hex(color) for color in found]


def colour_map(cmap=None):
    """Return a colour map, by default that of the style."""
    import matplotlib as mpl

    return mpl.colormaps[mpl.rcParams["image.cmap"] if cmap is None else cmap]


def state_colours(n_states, cmap=None):
    """Return colours of states from dark to light, which differ in greyscale, too."""
    # The ends of a map are too close to black and white for texts on them.
    return colour_map(cmap)(np.linspace(0.12, 0.92, n_states))


def ink_on(colours):
    """Return black or white for each colour, whichever is easier to read on it."""
    linear = np.asarray(colours)[..., :3] ** 2.2
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    # At this luminance the contrasts with black and white are equal (WCAG 2).
    return np.where(luminance > 0.179, "black", "white")


def foreground():
    import matplotlib

    return matplotlib.rcParams["text.color"]


def figure_size():
    """Return the width and height of figures by the style, in inches."""
    import matplotlib

    return tuple(matplotlib.rcParams["figure.figsize"])


def line_styles(n):
    return list(islice(cycle(_DASHES), n))


def opacities(weights):
    """Return opacities that grow with weights, from 0.25 for 0 to 1 for the largest."""
    weights = np.asarray(weights, dtype=float)
    return 0.25 + 0.75 * weights / weights.max()


def without_frame(ax, *sides):
    """Hide sides of the frame, by default top and right."""
    ax.spines[list(sides or ("top", "right"))].set_visible(False)


def some_of(n, most=_MOST_TICKS):
    """Return indices below n in even steps of 1, 2, 5, 10, ..., at most `most`."""
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if (n - 1) // step + 1 <= most)
    return np.arange(0, n, step)


def label_axis(axis, names, most=_MOST_TICKS, first=0, **look):
    """Label `first`, `first` + 1, ... of an axis by names, at most `most` of them."""
    shown = some_of(len(names), most)
    axis.set_ticks(first + shown, labels=[names[i] for i in shown], **look)


def draw_band(ax, x, mean, low, high, color, **look):
    """Draw means as a line and a band around them; return both."""
    (line,) = ax.plot(x, mean, color=color, linewidth=1.3, **look)
    return line, ax.fill_between(x, low, high, color=color, alpha=0.25, linewidth=0.0)


def draw_observed(ax, values, **look):
    """Draw observed values as points, and hatch the rows of the others; return both."""
    rows, is_gap = np.arange(len(values)), np.isnan(values)
    gaps = shade_gaps(ax, is_gap)
    (points,) = ax.plot(rows[~is_gap], values[~is_gap], ".", color=foreground(), **look)
    return points, gaps


def runs(values):
    """Return the first index, length and value of each run of equal values."""
    values = np.asarray(values)
    firsts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]][: len(values)])
    return firsts, np.diff(np.r_[firsts, len(values)]), values[firsts]


def shade_gaps(ax, is_gap, **options):
    """Hatch the rows that were not observed; return the hatches, None if there are none."""
    firsts, lengths, values = runs(is_gap)
    spans = [(f - 0.5, n) for f, n, v in zip(firsts, lengths, values, strict=True) if v]
    if not spans:
        return None
    look = {"facecolor": "none", "edgecolor": foreground(), "alpha": 0.25}
    look |= {"linewidth": 0.0, "hatch": "////", "label": "not observed", "zorder": 0.5}
    return ax.broken_barh(spans, (0, 1), transform=ax.get_xaxis_transform(), **(look | options))
