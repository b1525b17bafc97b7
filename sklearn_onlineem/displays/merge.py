"""Mixtures of several sites, and the mixture that they were merged into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import require
from sklearn_onlineem._typing import RowData
from sklearn_onlineem.displays._drawing import Axes, Display, Style, colors, foreground, line_styles
from sklearn_onlineem.displays._inputs import mixture_of, read_mixture
from sklearn_onlineem.displays._planes import Plane, plane_of, projection_of
from sklearn_onlineem.displays.mixture import checked_masses

_MOST_NAMED, _MOST_BOLD = 9, 12


class MergeDisplay(Display):
    """Mixtures of several sites in a plane, and the mixture that they were merged into.

    Parameters
    ----------
    merged : Plane
        The merged mixture, and rows if they are to be drawn.
    sites : list of Plane
        The mixtures of the sites.
    weights : array-like of shape (n_components,)
        Of the merged mixture.
    site_weights : list of array-like of shape (n_components,)
        Of the sites.
    names : list of str, default=None
        Of the sites. None: "site 0" and so on.

    Attributes
    ----------
    ax_ : Axes
    merged_ : ndarray of Patch of shape (n_components,)
        Regions of the merged components.
    sites_ : list of ndarray of Patch of shape (n_components,)
        Regions of the components of each site.
    labels_ : list of Text
        Numbers of the merged components; empty if they are many.
    scatter_ : PathCollection or None

    See Also
    --------
    sklearn_onlineem.combine_estimators : Merges estimators.
    MixtureDisplay : One mixture.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_onlineem import GaussianMixture, combine_estimators
    >>> from sklearn_onlineem.displays import MergeDisplay
    >>> X = load_iris().data[:, 2:]
    >>> sites = [GaussianMixture(3, random_state=0).fit(X[i::3]) for i in range(3)]
    >>> display = MergeDisplay.from_estimator(combine_estimators(sites), sites)
    >>> len(display.sites_), display.merged_.shape
    (3, (3,))
    """

    ax_: Axes

    def __init__(
        self,
        merged: Plane,
        sites: Iterable[Plane],
        weights: ArrayLike,
        site_weights: Iterable[ArrayLike],
        names: Iterable[str] | None = None,
    ):
        self.merged, self.sites = merged, list(sites)
        self.weights = np.asarray(weights)
        self.site_weights = [np.asarray(one) for one in site_weights]
        n = len(self.sites)
        self.names = [f"site {i}" for i in range(n)] if names is None else list(names)
        counts = n, len(self.site_weights), len(self.names)
        are_alike = n > 0 and len(set(counts)) == 1
        require(are_alike, "sites, site_weights and names", "as many, above 0", counts)

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        sites: Iterable[object],
        X: RowData | None = None,
        *,
        features: Sequence[int | str] | None = None,
        names: Iterable[str] | None = None,
        **options: object,
    ) -> Self:
        """Draw fitted mixtures and the mixture that they were merged into.

        Parameters
        ----------
        estimator : estimator
            The result of `combine_estimators`: a mixture of Gaussian, Student's t or Laplace
            components.
        sites : list of estimators
            The mixtures that were merged.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to draw, at most 5,000 of them. None: no rows are drawn.
        features : list of two int or str, default=None
            Two features, by index or name. None: both, if there are two; else two discriminant
            directions of the merged mixture, see :meth:`MixtureDisplay.from_estimator`.
        names : list of str, default=None
            Of the sites, for the legend.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If an estimator is not fitted, or is no mixture, or `sites` is no list.
        """
        if not isinstance(sites, Iterable):
            raise TypeError(f"sites must be a list of estimators, got {type(sites).__name__}.")
        model, all_names, chosen, rows = read_mixture(estimator, cls, X, features)
        sites = list(sites)
        models = [mixture_of(site, cls) for site in sites]
        for i, site in enumerate(sites):
            d, whose = site.n_features_in_, f"n_features_in_ of sites[{i}]"
            require(d == len(all_names), whose, f"{len(all_names)}, as of the merged mixture", d)
        n_shown = min(2, len(all_names)) if chosen is None else len(chosen)
        whose = f"features of {type(estimator).__name__} and its sites"
        require(n_shown == 2, whose, "two", n_shown)
        projection = projection_of(model, all_names, chosen)
        planes = [plane_of(one, projection) for one in models]
        weights = [one.weights for one in models]
        merged = plane_of(model, projection, rows, 5000)
        return cls(merged, planes, model.weights, weights, names).plot(**options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        mass: float = 0.9,
        scatter_kw: Style | None = None,
        site_kw: Style | None = None,
        merged_kw: Style | None = None,
    ) -> Self:
        """Draw the regions.

        Parameters
        ----------
        ax : Axes, default=None
            None: those of a new figure.
        mass : float, default=0.9
            Probability of the region of a component, in (0, 1).
        scatter_kw : dict, default=None
            Further arguments of `Axes.scatter` for rows.
        site_kw, merged_kw : dict, default=None
            Further arguments of the patches of sites, and of the merged mixture.
        """
        (ax,), masses, n = self._axes(ax), checked_masses((mass,)), len(self.sites)
        from matplotlib.lines import Line2D

        is_few = len(self.weights) <= _MOST_BOLD
        # Too many sites look alike.
        is_named = n <= _MOST_NAMED
        looks = (colors(n), line_styles(n)) if is_named else (colors(1) * n, ["-"] * n)
        self.sites_ = []
        for site, weights, color, dashes in zip(self.sites, self.site_weights, *looks, strict=True):
            style = {"facecolor": "none", "linestyle": dashes, "linewidth": 1.2 if is_few else 0.8}
            style |= site_kw or {}
            patches = site.draw_regions(ax, weights, masses, [color] * len(weights), style)
            self.sites_.append(patches[:, 0])
        style = {"facecolor": "none", "linewidth": 2.4 if is_few else 1.5, "zorder": 3}
        grey = [foreground()] * len(self.weights)
        keywords = {"alpha": 0.25, **(scatter_kw or {})}, {**style, **(merged_kw or {})}
        drawn = self.merged.draw(ax, self.weights, masses, grey, *keywords)
        self.scatter_, self.merged_, self.labels_ = drawn[0], drawn[1][:, 0], drawn[2]
        names, shown = self.names, self.sites_
        if not is_named:
            names, shown = [f"{n} sites"], shown[:1]
        handles = []
        names = [f"merged, {100 * masses[0]:.4g} % of mass", *names]
        for name, (patch, *_) in zip(names, [self.merged_, *shown], strict=True):
            look = {"color": patch.get_edgecolor()[:3], "linestyle": patch.get_linestyle()}
            handles.append(Line2D([], [], linewidth=patch.get_linewidth(), label=name, **look))
        self._legend(handles)
        return self
