"""Data and the components of a mixture, in a plane or by single features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from sklearn_onlineem._checks import check_count, require
from sklearn_onlineem._typing import Floats, RowData
from sklearn_onlineem.displays._drawing import Axes, AxesOrMany, Display, Style, colors
from sklearn_onlineem.displays._inputs import categories_of, read_mixture
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
        import matplotlib

        has_plane = any(isinstance(panel, Plane) for panel in self.panels)
        for name, value in (("masses", masses), ("scatter_kw", scatter_kw)):
            if value is not None and not has_plane:
                raise ValueError(f"{name} of MixtureDisplay.plot: there is no plane to draw.")
        masses = checked_masses((0.5, 0.9) if masses is None else masses)
        n, (width, height) = len(self.panels), matplotlib.rcParams["figure.figsize"]
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
