"""Mixtures: components and data, sites and their merged mixture, and responsibilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem._typing import Floats, RowData, SequenceData
from sklearn_onlineem.displays._drawing import (
    Axes,
    AxesOrMany,
    Display,
    Style,
    colors,
    figure_size,
    foreground,
    line_styles,
)
from sklearn_onlineem.displays._inputs import categories_of, check_suits, mixture_of, read_mixture
from sklearn_onlineem.displays._marginals import Marginal, marginal, profile
from sklearn_onlineem.displays._planes import Plane, mass_handles, plane_of, projection_of, telling
from sklearn_onlineem.families import (
    Bernoulli,
    Categorical,
    CompoundDirichlet,
    Exponential,
    Gamma,
    Multinomial,
    Poisson,
    Product,
)
from sklearn_onlineem.families.gamma import FixedShapeGamma

_SINGLE = (Categorical, Exponential, FixedShapeGamma, Gamma, Poisson)


class MixtureDisplay(Display):
    """Data and the components of a mixture.

    Gaussian and Student's t components are ellipses of given probability, in two features or in the
    two directions that separate the components best; Laplace components are diamonds, in two
    features. Counts and durations are shown feature by feature, as a histogram with a line for each
    component; the probabilities of binary features and of multinomial counts are shown side by
    side. Components of larger weight are darker.

    Parameters
    ----------
    panels : list of Plane or Marginal
        Contents of each panel; `from_estimator` makes them.
    weights : ndarray of shape (n_components,)
        Of the components; not negative.
    directions : ndarray of shape (n_features, 2), default=None
        Axes of the plane, in the features.

    Attributes
    ----------
    ax_ : Axes, or ndarray of Axes
        One for each panel.
    ellipses_ : ndarray of Patch of shape (n_components, n_masses)
        Regions in the plane; those of weight 0 are invisible.
    scatter_ : PathCollection or None
        Rows in the plane, in the colours of their most probable components.
    labels_ : list of Text
        Numbers of the components at their centres; empty if there are many.
    bars_ : list of BarContainer or None
        The data, in each panel that is not a plane.
    curves_ : list of list of Line2D
        The components, in each panel that is not a plane.
    totals_ : list of Line2D
        The mixture, in each panel that is not a plane.

    See Also
    --------
    MergeDisplay : Several mixtures and the mixture that they were merged into.
    ResponsibilityDisplay : Responsibilities of components for rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_onlineem import GaussianMixture
    >>> from sklearn_onlineem.displays import MixtureDisplay
    >>> X = load_iris().data
    >>> mixture = GaussianMixture(3, random_state=0).fit(X)
    >>> display = MixtureDisplay.from_estimator(mixture, X, masses=(0.5, 0.9))
    >>> display.ellipses_.shape, display.ax_.get_xlabel()
    ((3, 2), 'first discriminant')
    """

    ax_: Axes | NDArray[np.object_]

    def __init__(
        self,
        panels: Sequence[Plane | Marginal],
        weights: ArrayLike,
        directions: Floats | None = None,
    ):
        self.panels, self.weights, self.directions = list(panels), np.asarray(weights), directions
        are_panels = all(isinstance(panel, Plane | Marginal) for panel in self.panels)
        require(self.panels and are_panels, "panels", "Plane or Marginal", panels)
        if not (self.weights >= 0.0).all() or not self.weights.any():
            raise ValueError("weights of MixtureDisplay must not be negative, and not all 0.")

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: RowData | None = None,
        *,
        features: Sequence[int | str] | None = None,
        max_rows: int = 5000,
        **options: object,
    ) -> Self:
        """Draw a fitted mixture.

        Parameters
        ----------
        estimator : estimator
            A fitted mixture: of this library, or scikit-learn's `GaussianMixture` or
            `BayesianGaussianMixture`.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to draw, as the estimator takes them. None: only components are drawn.
        features : int, str or list of these, default=None
            Features to draw, by index or name; one or two of components drawn in a plane. None:
            all, if there are at most two; else two discriminant directions of Gaussian components,
            those of largest :math:`v' B v / v' W v`, scaled to :math:`v' W v = 1` (B is the
            covariance of the means, W the mean covariance); else the features that separate the
            components best: two of Laplace components, four of counts, durations and codes, 30 side
            by side.
        max_rows : int, default=5000
            Most rows to draw as points, evenly chosen. Histograms and shares are of all rows.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or is no mixture, or `features` are neither numbers nor
            names.
        ValueError
            If such components cannot be drawn, there are no such features, or X is invalid.
        """
        check_count(f"max_rows of {cls.__name__}", max_rows)
        model, names, chosen, rows = read_mixture(estimator, cls, X, features)
        family, directions = model.family, None
        if isinstance(family, Bernoulli | Multinomial | CompoundDirichlet):
            chosen, xlabel = chosen or _most_telling(model, 30), ""
            if not hasattr(estimator, "feature_names_in_"):
                names, xlabel = list(map(str, range(len(names)))), "feature"
            panels = [profile(model, rows, chosen, names, xlabel)]
        elif isinstance(family, (*_SINGLE, Product)) or len(chosen or names) == 1:
            if chosen is None and isinstance(family, _SINGLE):
                chosen = _most_telling(model, 4)
            texts, chosen = categories_of(estimator, family), chosen or range(min(4, len(names)))
            panels = [marginal(model, _column(rows, j), j, names[j], texts.get(j)) for j in chosen]
        else:
            n_shown = len(chosen or "xy")
            require(n_shown == 2, f"features of {type(estimator).__name__}", "one or two", n_shown)
            projection = projection_of(model, names, chosen)
            panels, directions = (
                [plane_of(model, projection, rows, max_rows)],
                projection.directions,
            )
        return cls(panels, model.weights, directions).plot(**options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        masses: Sequence[float] | None = None,
        scatter_kw: Style | None = None,
        line_kw: Style | None = None,
    ) -> Self:
        """Draw the components.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            One for each panel. None: those of a new figure.
        masses : float or sequence of float, default=None
            Of a plane: probabilities of the regions of a component, in (0, 1). None: 0.5 and 0.9.
        scatter_kw : dict, default=None
            Of a plane: further arguments of `Axes.scatter`.
        line_kw : dict, default=None
            Further arguments of the patches, or lines, of components.
        """
        has_plane = any(isinstance(panel, Plane) for panel in self.panels)
        for name, value in (("masses", masses), ("scatter_kw", scatter_kw)):
            if value is not None and not has_plane:
                raise ValueError(f"{name} of MixtureDisplay.plot: there is no plane to draw.")
        masses = checked_masses((0.5, 0.9) if masses is None else masses)
        n, (width, height) = len(self.panels), figure_size()
        axes = self._axes(ax, n, 2, figsize=None if n < 3 else (width, 1.15 * height))
        self.ellipses_ = self.scatter_ = None
        self.labels_, self.bars_, self.curves_, self.totals_ = [], [], [], []
        for panel, one in zip(self.panels, axes, strict=True):
            if isinstance(panel, Plane):
                looks = colors(len(self.weights)), scatter_kw or {}, line_kw or {}
                drawn = panel.draw(one, self.weights, masses, *looks)
                self.scatter_, self.ellipses_, self.labels_ = drawn
            else:
                drawn = panel.draw(one, self.weights, line_kw or {})
                for kept, artists in zip(
                    (self.bars_, self.curves_, self.totals_), drawn, strict=True
                ):
                    kept.append(artists)
        of_panel = axes[0].get_legend_handles_labels()[0]
        self._legend(mass_handles(masses) if has_plane else of_panel)
        return self


def checked_masses(masses):
    """Return masses as a tuple; ValueError if one is not between 0 and 1."""
    listed = (masses,) if isinstance(masses, Real) else tuple(masses)
    if not listed or not all(isinstance(m, Real) and 0.0 < m < 1.0 for m in listed):
        raise ValueError(f"masses must be numbers between 0 and 1, got {masses!r}.")
    return tuple(map(float, listed))


def _most_telling(model, n):
    """Return the n features of largest mean KL divergence of components from the average."""
    family, weights = model.family, model.weights
    means = family.means(model.parameters)
    average = weights @ means
    if isinstance(family, Categorical):
        parts = family.probabilities(model.parameters)
        told = np.transpose([rel_entr(p, weights @ p).sum(axis=1) for p in parts])
    elif isinstance(family, Exponential | Gamma | FixedShapeGamma):
        told = np.log(average / means)
    else:
        told = rel_entr(means, average)
        if isinstance(family, Bernoulli):
            told = told + rel_entr(1.0 - means, 1.0 - average)
    return telling(weights @ told, n)


def _column(X, j):
    if X is None:
        return None
    column = X[:, [j]]
    column = np.ravel(column.toarray() if hasattr(column, "toarray") else column)
    return column[~np.isnan(column)] if not np.isnan(column).all() else None


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
