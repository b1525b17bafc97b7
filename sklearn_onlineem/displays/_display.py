"""The base of displays: axes and figures."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Signatures name these types; matplotlib is imported when a picture is drawn.
if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure
else:
    Axes = Figure = object

AxesOrMany: TypeAlias = Axes | Sequence[Axes] | NDArray[np.object_]
# Keyword arguments of a method of matplotlib.
Style: TypeAlias = Mapping[str, object]


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
            if len(axes) != n:
                raise ValueError(
                    f"ax of {type(self).__name__}.plot must be {n} Axes, got {len(axes)}."
                )
        self.ax_, self.figure_ = axes if n > 1 else axes[0], axes[0].figure
        return axes

    def _one_or_two_axes(self, ax, n_axes, **options):
        """Return two axes, the second None if `n_axes` is 1 or the user has passed one only."""
        n = n_axes if ax is None else np.size(ax)
        if not 1 <= n <= n_axes:
            raise ValueError(f"ax must be {n_axes} Axes at most, got {n}.")
        return [*self._axes(ax, n, **(options if n > 1 else {})), None][:2]

    def _legend(self, handles):
        """Draw a legend above all axes, or in the first if the user has passed them."""
        if not self._is_mine:
            np.ravel(self.ax_)[0].legend(handles=handles, fontsize="small")
            return
        look = {"fontsize": "small", "frameon": False, "handlelength": 2.4}
        n_columns = min(5, len(handles))
        self.figure_.legend(handles=handles, loc="outside upper center", ncols=n_columns, **look)

    def _repr_png_(self):
        """Return the picture for a notebook, unless the user's figure is shown anyway."""
        if not self._is_mine:
            return None
        picture = io.BytesIO()
        self.figure_.savefig(picture, format="png")
        return picture.getvalue()
