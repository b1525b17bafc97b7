"""The base of displays: axes and figures."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from sklearn_onlineem.displays._typing import Figure

# Keyword arguments of a method of matplotlib.
Style: TypeAlias = Mapping[str, object]


class Display:
    """A picture of an estimator: notebooks show it, and ``figure_.savefig`` saves it.

    New figures are made without pyplot, so that none stays open and no window appears; they follow
    the style in ``matplotlib.rcParams``.
    """

    figure_: Figure

    def _axes(self, ax, n_rows=1, n_columns=1, *, figsize=None, **options):
        """Return `ax`, or the axes of a new figure; an array if there are several."""
        n_axes = n_rows * n_columns
        self._is_mine = ax is None
        if ax is None:
            try:
                from matplotlib.figure import Figure
            except ImportError as error:
                raise ImportError("displays need matplotlib: pip install matplotlib") from error
            # pyplot does not manage this figure.
            figure = Figure(layout="constrained", figsize=figsize)
            ax = figure.subplots(n_rows, n_columns, **options)
        elif n_axes > 1 or not hasattr(ax, "figure"):
            ax = np.asarray(ax, dtype=object)
            if ax.size != n_axes:
                raise ValueError(
                    f"ax of {type(self).__name__}.plot must be {n_axes} Axes, got {ax.size}."
                )
            ax = ax if n_axes > 1 else ax.item()
        first = ax if n_axes == 1 else ax.flat[0]
        self.ax_, self.figure_ = ax, first.figure
        return ax

    def _one_or_two_axes(self, ax, n_axes, **options):
        """Return two axes, the second None if `n_axes` is 1 or the user has passed one only."""
        ax = None if ax is None else np.ravel(ax)
        if ax is not None and not 1 <= len(ax) <= n_axes:
            raise ValueError(f"ax must be {n_axes} Axes at most, got {len(ax)}.")
        if n_axes == 1 or (ax is not None and len(ax) == 1):
            return self._axes(None if ax is None else ax[0]), None
        return self._axes(ax, 2, **options)

    def _panels(self, ax, n_panels, n_columns, *, figsize=None):
        """Return an array of axes, one for each panel; a new figure has rows of `n_columns`."""
        n_columns = min(n_columns, n_panels)
        shape = (1, n_panels) if ax is not None else (math.ceil(n_panels / n_columns), n_columns)
        found = np.array(self._axes(ax, *shape, figsize=figsize), dtype=object).ravel()
        axes = found[:n_panels]
        for unused in found[n_panels:]:
            unused.remove()
        self.ax_ = axes if n_panels > 1 else axes[0]
        return axes

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
        if not getattr(self, "_is_mine", False):
            return None
        picture = io.BytesIO()
        self.figure_.savefig(picture, format="png")
        return picture.getvalue()
