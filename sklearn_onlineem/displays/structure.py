"""The components of a structural time series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from sklearn_onlineem._checks import check_number
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.displays._drawing import Axes, AxesOrMany, Display, draw_band, draw_observed
from sklearn_onlineem.displays._inputs import check_suits, index_of, one_sequence


class StructureDisplay(Display):
    """The components of a series, one below the other, with bands.

    Parameters
    ----------
    X : array-like of shape (n_rows,) or (n_rows, n_features)
        The series, NaN for missing values; the rows of a data frame may have dates.
    components : dict of tuple (array-like of shape (n_rows,), array-like of shape (n_rows,))
        Means and variances by names, as `decompose` returns them; of shape (n_rows, n_features) if
        there are several columns.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes, or one
        One for each component; the series is in that of the level.
    points_ : matplotlib Line2D or None
        Observed values, if there is a level.
    lines_ : dict of matplotlib Line2D by str
        Means of the components.
    bands_ : dict of matplotlib PolyCollection by str

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.displays import StructureDisplay
    >>> from sklearn_onlineem.structure import Season, Trend
    >>> series = np.arange(40.0)[:, None] + np.tile([3.0, -3.0], 20)[:, None]
    >>> series += np.random.default_rng(0).normal(size=series.shape)
    >>> kalman = KalmanFilter(structure=[Trend(), Season(2)]).fit(series)
    >>> display = StructureDisplay.from_estimator(kalman, series)
    >>> [*display.lines_], len(display.ax_)
    (['level', 'slope', 'season'], 3)
    """

    X: Floats
    ax_: Axes | NDArray[np.object_]

    def __init__(self, X: ArrayLike, components: Mapping[str, tuple[ArrayLike, ArrayLike]]):
        self.X, self.feature_names, self._dates = one_sequence(X, type(self))
        shape = self.X.shape[: 1 if self.X.shape[1] == 1 else 2]
        self.components = {
            name: tuple(np.asarray(part, dtype=float) for part in parts)
            for name, parts in components.items()
        }
        for name, parts in self.components.items():
            if len(parts) != 2 or any(part.shape != shape for part in parts):
                raise ValueError(f"components[{name!r}] must be two arrays of shape {shape}.")
        if not self.components:
            raise ValueError("components must not be empty.")

    @classmethod
    def from_estimator(
        cls, estimator: object, X: ArrayLike, *, inputs: ArrayLike | None = None, **options: object
    ) -> Self:
        """Draw the components of a series by a fitted Kalman filter with a structure.

        Parameters
        ----------
        estimator : KalmanFilter
            A fitted one, with a `structure`.
        X : array-like of shape (n_rows, n_features)
            One sequence, NaN for missing values.
        inputs : array-like of shape (n_rows, n_inputs), default=None
            Known inputs of its rows. None: there are none.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            If the estimator is not fitted, is no Kalman filter, has no structure, or needs inputs.
        """
        check_suits(estimator, cls, ["decompose"], "it is not a Kalman filter.")
        rows = one_sequence(X, cls)[0]
        shaped = rows if np.ndim(X) == 1 else X
        return cls(X, estimator.decompose(shaped, inputs=inputs)).plot(**options)

    def plot(
        self, ax: AxesOrMany | None = None, *, feature: int | str = 0, mass: float = 0.95
    ) -> Self:
        """Draw the components.

        Parameters
        ----------
        ax : array of matplotlib Axes, default=None
            One for each component. None: those of a new figure.
        feature : int or str, default=0
            The column whose components are drawn, by index or name.
        mass : float, default=0.95
            Probability of the bands.
        """
        check_number("mass", mass, 0.0, 1.0)
        j = index_of(feature, self.feature_names)
        n, width = len(self.components), norm.ppf(0.5 + 0.5 * mass)
        rows = np.arange(len(self.X))
        axes = self._axes(ax, n, figsize=(6.4, 1.2 + 1.6 * n), sharex=True)
        self.points_, self.lines_, self.bands_ = None, {}, {}
        for axis, (name, parts) in zip(axes, self.components.items(), strict=True):
            mean, variance = (part.reshape(self.X.shape)[:, j] for part in parts)
            if name == "level":
                self.points_, _ = draw_observed(axis, self.X[:, j], markersize=3.0)
            spread = width * np.sqrt(variance)
            drawn = draw_band(axis, rows, mean, mean - spread, mean + spread, "C0")
            self.lines_[name], self.bands_[name] = drawn
            axis.set_ylabel(name)
        self._label_rows(axes[-1])
        return self
