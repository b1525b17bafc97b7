"""Responsibilities of components for rows, as a map."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import SequenceData
from sklearn_onlineem.displays._drawing import Axes, Display, Style
from sklearn_onlineem.displays._inputs import check_suits


class ResponsibilityDisplay(Display):
    """Responsibilities of components for rows; well separated clusters make a staircase.

    Rows run from left to right, sorted by their most probable component and then by its
    responsibility, in descending order; components run from top to bottom.

    Parameters
    ----------
    responsibilities : ndarray of shape (n_rows, n_components)
        From 0 to 1; each row sums to 1, else a ValueError is raised.

    Attributes
    ----------
    ax_ : Axes
    image_ : AxesImage
        Of responsibilities, transposed.
    order_ : ndarray of int of shape (n_rows,)
        The row at each place.
    boundaries_ : LineCollection or None
        Between the rows of components, if these are at most 20.

    See Also
    --------
    MixtureDisplay : Data and components.

    Examples
    --------
    >>> from sklearn_onlineem.displays import ResponsibilityDisplay
    >>> found = [[0.2, 0.8], [0.6, 0.4], [1.0, 0.0]]
    >>> ResponsibilityDisplay.from_predictions(found).order_
    array([2, 1, 0])
    """

    ax_: Axes

    def __init__(self, responsibilities: ArrayLike):
        found = np.asarray(responsibilities, dtype=float)
        shape = "of shape (n_rows, n_components)"
        require(found.ndim == 2 and found.size, "responsibilities", shape, found.shape)
        sums = found.sum(axis=1)
        # They may have been rounded to single precision.
        if not (found >= 0.0).all() or not (np.abs(sums - 1.0) <= 1e-4).all():
            raise ValueError("responsibilities must not be negative, and rows must add up to 1.")
        self.responsibilities = found

    @classmethod
    def from_estimator(cls, estimator: object, X: SequenceData, **options: object) -> Self:
        """Draw the responsibilities of a fitted estimator for the rows of X.

        Parameters
        ----------
        estimator : estimator
            Fitted, with `predict_proba`: a mixture, or a hidden Markov model, whose states are
            drawn as components.
        X : object
            Data, as `predict_proba` takes them.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or has no `predict_proba`.
        """
        because = "it has no predict_proba; use from_predictions."
        check_suits(estimator, cls, ["predict_proba"], because)
        found = estimator.predict_proba(X)
        found = np.concatenate(found) if isinstance(found, list) else found
        return cls.from_predictions(found, **options)

    @classmethod
    def from_predictions(cls, responsibilities: ArrayLike, **options: object) -> Self:
        """Draw responsibilities.

        Parameters
        ----------
        responsibilities : array-like of shape (n_rows, n_components)
            Of components, states, or topics; see the class.
        **options
            Arguments of `plot`, such as `ax`.
        """
        return cls(responsibilities).plot(**options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        sort: bool = True,
        cmap: str = "Greys",
        colorbar: bool = True,
        im_kw: Style | None = None,
    ) -> Self:
        """Draw the map.

        Parameters
        ----------
        ax : Axes, default=None
            None: those of a new figure.
        sort : bool, default=True
            Whether rows are sorted by component; else they are drawn in their order.
        cmap : str or Colormap, default="Greys"
            Colours of responsibilities from 0 to 1.
        colorbar : bool, default=True
            Whether to draw a colour bar.
        im_kw : dict, default=None
            Further arguments of `Axes.imshow`.
        """
        n_rows, n_components = self.responsibilities.shape
        components = self.responsibilities.argmax(axis=1)
        sureness = self.responsibilities.max(axis=1)
        self.order_ = np.lexsort((-sureness, components)) if sort else np.arange(n_rows)
        (ax,), sorted_rows = self._axes(ax), self.responsibilities[self.order_]
        from matplotlib.ticker import MaxNLocator

        extent = (0.0, n_rows, n_components - 0.5, -0.5)
        # Smoothed pixels would mix components.
        style = {"cmap": cmap, "vmin": 0.0, "vmax": 1.0, "interpolation": "nearest"}
        style |= {"aspect": "auto", "extent": extent}
        self.image_ = ax.imshow(sorted_rows.T, **{**style, **(im_kw or {})})
        self.boundaries_, sizes = None, np.bincount(components)
        if sort and np.count_nonzero(sizes) <= 20:
            ends = np.unique(np.cumsum(sizes))[:-1]
            look = {"color": "C0", "linewidth": 0.8, "linestyle": (0, (4, 3)), "alpha": 0.8}
            transform = ax.get_xaxis_transform()
            self.boundaries_ = ax.vlines(ends[ends > 0], 0.0, 1.0, transform=transform, **look)
        order = ", sorted by component" if sort else ""
        ax.set(xlabel="rows" + order, ylabel="component")
        ticks = {"nbins": min(n_components, 10), "min_n_ticks": 1}
        ax.yaxis.set_major_locator(MaxNLocator(**ticks, integer=True))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if colorbar:
            bar = self.figure_.colorbar(self.image_, ax=ax, label="responsibility", pad=0.02)
            bar.outline.set_visible(False)
        return self
