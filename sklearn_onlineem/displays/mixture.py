"""Mixtures: data and components, in a plane or by single features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr

from sklearn_onlineem._typing import Floats, RowData
from sklearn_onlineem.displays._display import Display, Style
from sklearn_onlineem.displays._marginals import Marginal, Profile, has_profile, marginal, profile
from sklearn_onlineem.displays._mixtures import (
    chosen_features,
    feature_names,
    mixture_of,
    plane_of,
    projection_of,
    rows_of,
    some_rows,
    telling,
)
from sklearn_onlineem.displays._planes import Plane, mass_handles
from sklearn_onlineem.families import Bernoulli, Categorical, Exponential, Gamma, Poisson
from sklearn_onlineem.families.gamma import FixedShapeGamma

if TYPE_CHECKING:
    from sklearn_onlineem.displays._typing import Axes, AxesOrMany

__all__ = ["MixtureDisplay", "checked_masses"]

_MOST_MARGINALS = 4
_MOST_IN_PROFILE = 30
_SINGLE = (Categorical, Exponential, FixedShapeGamma, Gamma, Poisson)


class MixtureDisplay(Display):
    """Data and the components of a mixture.

    Gaussian components are ellipses that hold given masses, in two features or in the two
    directions that tell the components apart; Laplace components are diamonds, whose directions are
    features. Counts and durations are shown feature by feature, as a histogram with a line for each
    component; of binary features, and of counts that compete for the length of a row, the
    probabilities are shown side by side. The larger the weight of a component, the darker it is.

    Parameters
    ----------
    panels : list of Plane, Marginal or Profile
        What is drawn: the numbers of each picture, by name. `from_estimator` makes them.
    weights : ndarray of shape (n_components,)
        Of the components; not negative.
    directions : ndarray of shape (n_features, 2), default=None
        Of the plane: what its axes are of the features.

    Attributes
    ----------
    ax_ : Axes, or ndarray of Axes
        One for each panel.
    figure_ : Figure
    ellipses_ : ndarray of Patch of shape (n_components, n_masses)
        Regions in the plane; without those of components of weight 0, which are not visible.
    scatter_ : PathCollection or None
        Rows in the plane, in the colours of their most probable components.
    labels_ : list of Text
        Numbers of the components at their centres; there are none where components are many.
    bars_ : list of BarContainer or None
        Of each panel that is not a plane: the data.
    curves_ : list of list of Line2D
        Of each panel that is not a plane: the components.
    totals_ : list of Line2D
        Of each panel that is not a plane: the mixture.

    Raises
    ------
    ValueError
        If there are no panels, or weights are negative or all 0.

    See Also
    --------
    MergeDisplay : Several mixtures and what they were merged into.
    ResponsibilityDisplay : Which component has which row.

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
        panels: Sequence[Plane | Marginal | Profile],
        weights: ArrayLike,
        directions: Floats | None = None,
    ):
        self.panels, self.weights, self.directions = list(panels), np.asarray(weights), directions
        if not self.panels or not all(isinstance(p, Plane | Marginal | Profile) for p in panels):
            raise ValueError("panels of MixtureDisplay: at least one plane, marginal or profile.")
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
        ax: AxesOrMany | None = None,
        **options: object,
    ) -> Self:
        """Draw a fitted mixture.

        Parameters
        ----------
        estimator : estimator
            A fitted mixture: of this library, or scikit-learn's `GaussianMixture` or
            `BayesianGaussianMixture`.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to draw, as the estimator takes them. None: components alone.
        features : int, str or list of these, default=None
            Numbers or names of the features to draw. Of Gaussian and Laplace components one, for
            its density, or two. None: all where these are at most two; else two discriminant
            directions of Gaussian components, those of :math:`v' B v / v' W v`, largest first,
            scaled to :math:`v' W v = 1` (B is the covariance of the means, W the mean
            covariance), and of other components the features that tell most of the component: two
            of Laplace components, four of counts, durations and codes, 30 side by side.
        max_rows : int, default=5000
            Most rows that are drawn as points: evenly chosen. Histograms and shares are of all.
        ax : Axes or array-like of Axes, default=None
            Where to draw, one for each panel. None: a new figure.
        **options
            As of `plot`.

        Returns
        -------
        display : MixtureDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            If it is no mixture, or `features` are neither numbers nor names.
        ValueError
            If components of this kind have no such picture, there are no such features, or X is
            invalid; the message names the estimator.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem import PoissonMixture
        >>> from sklearn_onlineem.displays import MixtureDisplay
        >>> X = np.random.default_rng(0).poisson([[2.0], [12.0]], size=(2, 500)).reshape(-1, 1)
        >>> mixture = PoissonMixture(2, random_state=0).fit(X)
        >>> display = MixtureDisplay.from_estimator(mixture, X)
        >>> heights = [bar.get_height() for bar in display.bars_[0]]
        >>> f"{sum(heights):.2f}", len(display.curves_[0])
        ('1.00', 2)
        """
        model = mixture_of(estimator)
        if isinstance(max_rows, bool) or not isinstance(max_rows, int | np.integer) or max_rows < 1:
            raise ValueError(f"max_rows of {cls.__name__} must be at least 1, got {max_rows!r}.")
        chosen = None if features is None else chosen_features(estimator, features)
        names, rows = feature_names(estimator), rows_of(estimator, X)
        panels, directions = _panels_of(estimator, model, names, chosen, rows, max_rows)
        return cls(panels, model.weights, directions).plot(ax=ax, **options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        masses: Sequence[float] | None = None,
        scatter_kw: Style | None = None,
        line_kw: Style | None = None,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : Axes or array-like of Axes, default=None
            Where to draw, one for each panel. None: a new figure.
        masses : float or sequence of float, default=None
            Of a plane: what the regions of a component hold, each in (0, 1). None: 0.5 and 0.9.
        scatter_kw : dict, default=None
            Of a plane: what `Axes.scatter` takes besides.
        line_kw : dict, default=None
            What the patches, or the lines, of components take besides.

        Returns
        -------
        self : MixtureDisplay

        Raises
        ------
        ValueError
            If masses are not between 0 and 1, if `masses` or `scatter_kw` are given where there is
            no plane, or if `ax` are not as many as the panels.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn_onlineem import GaussianMixture
        >>> from sklearn_onlineem.displays import MixtureDisplay
        >>> X = load_iris().data
        >>> display = MixtureDisplay.from_estimator(GaussianMixture(3, random_state=0).fit(X), X)
        >>> display.plot(masses=[0.5]).ellipses_.shape
        (3, 1)
        """
        given = {"masses": masses, "scatter_kw": scatter_kw}
        for name, value in given.items():
            if value is not None and not any(isinstance(p, Plane) for p in self.panels):
                raise ValueError(f"{name} of MixtureDisplay.plot: there is no plane to draw.")
        masses = checked_masses((0.5, 0.9) if masses is None else masses)
        n = len(self.panels)
        width, height = _figure_size()
        size = None if n < 3 else (width, 1.15 * height)
        self.ellipses_ = self.scatter_ = None
        self.labels_, self.bars_, self.curves_, self.totals_ = [], [], [], []
        for panel, axes in zip(self.panels, self._panels(ax, n, 2, figsize=size), strict=True):
            if isinstance(panel, Plane):
                drawn = panel.draw(axes, self.weights, masses, scatter_kw or {}, line_kw or {})
                self.scatter_, self.ellipses_, self.labels_ = drawn
                continue
            bars, curves, total = panel.draw(axes, self.weights, line_kw or {})
            self.bars_.append(bars)
            self.curves_.append(curves)
            self.totals_.append(total)
        if self.ellipses_ is not None:
            self._legend(mass_handles(masses))
        else:
            self._legend(np.ravel(self.ax_)[0].get_legend_handles_labels()[0])
        return self


def checked_masses(masses):
    """Return masses as a tuple.

    Raises
    ------
    ValueError
        If one is not between 0 and 1.
    """
    listed = (masses,) if isinstance(masses, Real) else tuple(masses)
    if not listed or not all(isinstance(m, Real) and 0.0 < m < 1.0 for m in listed):
        raise ValueError(f"masses must be numbers between 0 and 1, got {masses!r}.")
    return tuple(map(float, listed))


def _figure_size():
    import matplotlib

    return matplotlib.rcParams["figure.figsize"]


def _panels_of(estimator, model, names, chosen, X, max_rows):
    """Return the panels of a mixture, and the directions of its plane, if there is one."""
    family = model.family
    if has_profile(family):
        chosen = _most_telling(model, _MOST_IN_PROFILE) if chosen is None else chosen
        if hasattr(estimator, "feature_names_in_"):
            return [profile(model, X, chosen, names, "")], None
        return [profile(model, X, chosen, list(map(str, range(len(names)))), "feature")], None
    if isinstance(family, _SINGLE):
        chosen = _most_telling(model, _MOST_MARGINALS) if chosen is None else chosen
        return [marginal(model, _column(X, j), j, names[j]) for j in chosen], None
    d = len(names)
    chosen = list(range(d)) if chosen is None and d <= 2 else chosen
    if chosen is not None and len(chosen) == 1:
        j = chosen[0]
        return [marginal(model, _column(X, j), j, names[j])], None
    if chosen is not None and len(chosen) > 2:
        raise ValueError(
            f"features: {type(estimator).__name__} is drawn in one or two, got {len(chosen)}."
        )
    projection = projection_of(model, names, chosen)
    return [plane_of(model, projection, some_rows(X, max_rows))], projection.directions


def _most_telling(model, n):
    """The n features that tell most of the component, by mean KL divergences to the average."""
    family, weights = model.family, model.weights
    means = family.means(model.parameters)
    average = weights @ means
    if isinstance(family, Categorical):
        means = model.parameters.reshape(*means.shape, -1)
        told = rel_entr(means, np.tensordot(weights, means, 1)).sum(axis=2)
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
    return np.ravel(column.toarray() if hasattr(column, "toarray") else column)
