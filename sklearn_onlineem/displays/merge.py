"""Sites, and the model that they were merged into."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._typing import RowData
from sklearn_onlineem.displays._display import Display, Style
from sklearn_onlineem.displays._drawing import colors, foreground, line_styles
from sklearn_onlineem.displays._mixtures import (
    chosen_features,
    feature_names,
    mixture_of,
    plane_of,
    projection_of,
    rows_of,
    some_rows,
)
from sklearn_onlineem.displays._planes import Plane
from sklearn_onlineem.displays.mixture import checked_masses

if TYPE_CHECKING:
    from sklearn_onlineem.displays._typing import Axes

__all__ = ["MergeDisplay"]

_MOST_ROWS = 5000
_MOST_NAMED, _MOST_BOLD = 9, 12


class MergeDisplay(Display):
    """Mixtures of several sites in a plane, and the mixture that they were merged into.

    Parameters
    ----------
    merged : Plane
        The merged mixture; rows may lie beneath.
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
    figure_ : Figure
    merged_ : ndarray of Patch of shape (n_components,)
        Regions of the merged components.
    sites_ : list of ndarray of Patch of shape (n_components,)
        Regions of the components of each site.
    labels_ : list of Text
        Numbers of the merged components; none where they are many.
    scatter_ : PathCollection or None

    Raises
    ------
    ValueError
        If there are no sites, or not as many weights or names as sites.

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
        if not n or not n == len(self.site_weights) == len(self.names):
            raise ValueError(
                "MergeDisplay needs sites, and weights and a name for each; got"
                f" {n}, {len(self.site_weights)} and {len(self.names)}."
            )

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        sites: Iterable[object],
        X: RowData | None = None,
        *,
        features: Sequence[int | str] | None = None,
        names: Iterable[str] | None = None,
        ax: Axes | None = None,
        **options: object,
    ) -> Self:
        """Draw fitted mixtures and what they were merged into.

        Parameters
        ----------
        estimator : estimator
            What `combine_estimators` returned: a mixture of Gaussian or Laplace components.
        sites : list of estimators
            The mixtures that were merged.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to draw beneath, 5,000 of them at most; None: there are none, or they are at the
            sites.
        features : list of two int or str, default=None
            Numbers or names of two features. None: both, where there are two, or else two
            discriminant directions of the merged mixture, in which sites are drawn, too, see
            :meth:`MixtureDisplay.from_estimator`.
        names : list of str, default=None
            Of the sites, for the legend.
        ax : Axes, default=None
            Where to draw. None: a new figure.
        **options
            As of `plot`.

        Returns
        -------
        display : MergeDisplay

        Raises
        ------
        NotFittedError
            If an estimator is not fitted.
        TypeError
            If one is no mixture, or sites are no list.
        ValueError
            If components have no regions of known mass, sites have other features, or features are
            not two.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture, combine_estimators
        >>> from sklearn_onlineem.displays import MergeDisplay
        >>> rng = np.random.default_rng(0)
        >>> sites = [GaussianMixture().fit(rng.normal(size=(50, 2)) + [i, 0.0]) for i in (0, 4)]
        >>> merged = combine_estimators(sites)
        >>> display = MergeDisplay.from_estimator(merged, sites, names=["north", "south"])
        >>> widths = [bool(site[0].width < display.merged_[0].width) for site in display.sites_]
        >>> widths
        [True, True]
        """
        if not isinstance(sites, Iterable):
            raise TypeError(f"sites must be a list of estimators, got {type(sites).__name__}.")
        sites, model, all_names = list(sites), mixture_of(estimator), feature_names(estimator)
        models = [_model_of_site(site, i, len(all_names)) for i, site in enumerate(sites)]
        chosen = None if features is None else chosen_features(estimator, features)
        chosen = [0, 1] if chosen is None and len(all_names) == 2 else chosen
        if (chosen is not None and len(chosen) != 2) or len(all_names) < 2:
            raise ValueError(
                f"features: {type(estimator).__name__} and its sites are drawn in two, and there"
                f" are {len(all_names) if chosen is None else len(chosen)}."
            )
        rows = some_rows(rows_of(estimator, X), _MOST_ROWS)
        projection = projection_of(model, all_names, chosen)
        merged, planes = (
            plane_of(model, projection, rows),
            [plane_of(m, projection) for m in models],
        )
        weights = [one.weights for one in models]
        merged = plane_of(model, projection, rows)
        return cls(merged, planes, model.weights, weights, names).plot(ax=ax, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        mass: float = 0.9,
        scatter_kw: Style | None = None,
        site_kw: Style | None = None,
        merged_kw: Style | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes, default=None
            Where to draw. None: a new figure.
        mass : float, default=0.9
            What the region of a component holds, in (0, 1).
        scatter_kw : dict, default=None
            What `Axes.scatter` takes besides, of the rows.
        site_kw, merged_kw : dict, default=None
            What the patches of sites, and of the merged mixture, take besides.

        Returns
        -------
        self : MergeDisplay

        Raises
        ------
        ValueError
            If the mass is not between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import GaussianMixture, combine_estimators
        >>> from sklearn_onlineem.displays import MergeDisplay
        >>> rng = np.random.default_rng(0)
        >>> sites = [GaussianMixture().fit(rng.normal(size=(50, 2)) + [i, 0.0]) for i in (0, 4)]
        >>> display = MergeDisplay.from_estimator(combine_estimators(sites), sites)
        >>> half, most = (display.plot(mass=mass).merged_[0].width for mass in (0.5, 0.9))
        >>> bool(half < most)
        True
        """
        ax, (mass,) = self._axes(ax), checked_masses((mass,))
        grey = [foreground()] * len(self.weights)
        self.scatter_ = self.merged.draw_points(ax, grey, {"alpha": 0.25, **(scatter_kw or {})})
        self.sites_ = self._draw_sites(ax, mass, site_kw or {})
        width = 2.4 if len(self.weights) <= _MOST_BOLD else 1.5
        style = {"facecolor": "none", "linewidth": width, "zorder": 3, **(merged_kw or {})}
        self.merged_ = self.merged.draw_regions(ax, self.weights, (mass,), grey, style)[:, 0]
        self.labels_ = self.merged.draw_centres(ax, self.weights)
        self.merged.frame(ax)
        self._name_lines(mass)
        return self

    def _draw_sites(self, ax, mass, site_kw):
        drawn, n = [], len(self.sites)
        width = 1.2 if len(self.weights) <= _MOST_BOLD else 0.8
        # Where sites are too many to be told apart, they look alike.
        named = n <= _MOST_NAMED
        cycled = (colors(n), line_styles(n)) if named else (colors(1) * n, ["-"] * n)
        looks = zip(self.sites, self.site_weights, *cycled, strict=True)
        for site, weights, color, line_style in looks:
            style = {"facecolor": "none", "linestyle": line_style, "linewidth": width, **site_kw}
            drawn.append(site.draw_regions(ax, weights, (mass,), [color] * len(weights), style))
        return [patches[:, 0] for patches in drawn]

    def _name_lines(self, mass):
        """Name the sites, by the looks of their lines."""
        shown = [(f"merged, {100 * mass:.4g} % of mass", self.merged_)]
        if len(self.sites) > _MOST_NAMED:
            shown.append((f"{len(self.sites)} sites", self.sites_[0]))
        else:
            shown += zip(self.names, self.sites_, strict=True)
        self._legend([_handle(name, patches[0]) for name, patches in shown])


def _handle(name, patch):
    from matplotlib.lines import Line2D

    look = {"color": patch.get_edgecolor()[:3], "linestyle": patch.get_linestyle()}
    return Line2D([], [], linewidth=patch.get_linewidth(), label=name, **look)


def _model_of_site(site, i, n_features):
    model = mixture_of(site)
    if site.n_features_in_ != n_features:
        raise ValueError(
            f"sites[{i}], a {type(site).__name__}, has n_features_in_={site.n_features_in_}, and"
            f" the merged one has {n_features}."
        )
    return model
