"""A Kalman filter at work: bands around a sequence and its future, and what it did not foresee."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.displays._display import Display
from sklearn_onlineem.displays._states import (
    check_suits,
    index_of,
    one_sequence,
    shade_gaps,
    text_colour,
)

if TYPE_CHECKING:
    from sklearn_onlineem.displays._typing import Axes, AxesOrMany

__all__ = ["Band", "ForecastDisplay"]

_KINDS = ["smoothed", "filtered", "predicted"]
_LABELS = {
    "smoothed": "smoothed",
    "filtered": "filtered",
    "predicted": "predicted one row ahead",
    "forecast": "forecast",
}
_LINE_STYLES = {"smoothed": "-", "filtered": "--", "predicted": ":", "forecast": "-"}
# Of a colour cycle of eight or more, those that differ most in grey.
_COLOURS = {"smoothed": "C0", "filtered": "C2", "predicted": "C4", "forecast": "C1"}
_MOST_LAGS = 30


class Band(NamedTuple):
    """Means and standard deviations of the features, row by row.

    Attributes
    ----------
    mean, deviation : ndarray of shape (n_rows, n_features)
        In the units of the features.

    Examples
    --------
    What two rows were expected to be, drawn beside what they were:

    >>> from sklearn_onlineem.displays import ForecastDisplay
    >>> from sklearn_onlineem.displays.forecasts import Band
    >>> band = Band([[1.0], [2.0]], [[0.5], [0.5]])
    >>> display = ForecastDisplay([1.0, 2.5], predicted=band).plot(kinds=["predicted"])
    >>> display.innovations
    array([[0.],
           [1.]])
    """

    mean: Floats
    deviation: Floats


class ForecastDisplay(Display):
    r"""A sequence with what a Kalman filter makes of it, its forecast, and its innovations.

    The bands of smoothed and filtered values are of what the rows show without their noise,
    :math:`C h_t + d`, and those of forecasts and predictions of the rows themselves. Innovations
    are what was observed less what was predicted one row ahead, in standard deviations. Of a model
    that is right they are white: their autocorrelations lie within the band that is drawn,
    :math:`\pm z / \sqrt n`, but for a few.

    Parameters
    ----------
    X : array-like of shape (n_rows,) or (n_rows, n_features)
        One sequence, NaN for what was not observed. The columns of a data frame have names.
    smoothed, filtered, predicted : Band, default=None
        Of each row, given all rows, the rows so far, and the rows before. None: not drawn.
    forecast : Band, default=None
        Of the rows after the last one.
    imputed : array-like of shape (n_rows, n_features), default=None
        X with its gaps filled.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
    innovations : ndarray of shape (n_rows, n_features) or None
        Standardised; NaN where nothing was observed.
    ax_ : ndarray of matplotlib Axes, or one
        Of the sequence, and below it of the autocorrelation of the innovations.
    figure_ : matplotlib Figure
    points_ : matplotlib Line2D
        What was observed.
    imputed_ : matplotlib Line2D or None
        What was put into gaps.
    gaps_ : matplotlib PolyCollection or None
    lines_ : dict of matplotlib Line2D by str
        Means: "smoothed", "filtered", "predicted", "forecast".
    bands_ : dict of matplotlib PolyCollection by str
    correlations_ : matplotlib StemContainer
        Autocorrelations at the lags 1, 2, ..., where they are drawn.
    limit_ : float
        Half the width of the band that they are expected in.

    Raises
    ------
    ValueError
        If X is not one sequence, or the rest does not suit it.

    References
    ----------
    Durbin & Koopman, "Time Series Analysis by State Space Methods", 2nd ed., 2012, section 2.12.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem import KalmanFilter
    >>> from sklearn_onlineem.displays import ForecastDisplay
    >>> level = np.random.default_rng(0).normal(size=(100, 1)).cumsum(axis=0)
    >>> level[40:50] = np.nan
    >>> kalman = KalmanFilter(1, observation_covariance=0.1, em_vars=[]).fit(level)
    >>> display = ForecastDisplay.from_estimator(kalman, level, n_steps=5)
    >>> display.lines_["forecast"].get_xdata()
    array([100, 101, 102, 103, 104])
    >>> len(display.imputed_.get_xdata())
    10
    """

    X: Floats
    innovations: Floats | None
    limit_: float
    ax_: Axes | NDArray[np.object_]

    def __init__(
        self,
        X: ArrayLike,
        *,
        smoothed: Band | None = None,
        filtered: Band | None = None,
        predicted: Band | None = None,
        forecast: Band | None = None,
        imputed: ArrayLike | None = None,
    ):
        self.X, names = one_sequence(X, type(self))
        shape = self.X.shape
        self.feature_names = names or [f"feature {j}" for j in range(shape[1])]
        self.smoothed = _checked_band("smoothed", smoothed, shape)
        self.filtered = _checked_band("filtered", filtered, shape)
        self.predicted = _checked_band("predicted", predicted, shape)
        self.forecast = _checked_band("forecast", forecast, (None, shape[1]))
        self.imputed = None if imputed is None else np.asarray(imputed, dtype=float)
        if imputed is not None and self.imputed.shape != shape:
            raise ValueError(f"imputed must be of shape {shape}, got {self.imputed.shape}.")
        self.innovations = None
        if predicted is not None:
            self.innovations = (self.X - self.predicted.mean) / self.predicted.deviation

    @classmethod
    def from_estimator(
        cls,
        estimator: object,
        X: ArrayLike,
        *,
        n_steps: int | None = None,
        ax: AxesOrMany | None = None,
        **options: object,
    ) -> Self:
        """Draw what a fitted Kalman filter makes of a sequence.

        Parameters
        ----------
        estimator : KalmanFilter
            A fitted one.
        X : array-like of shape (n_rows, n_features)
            One sequence, NaN for what was not observed.
        n_steps : int, default=None
            Rows to forecast; 0: none. None: a quarter as many as there are.
        ax : matplotlib Axes, or array of two, default=None
            One: without the innovations. None: those of a new figure.
        **options
            Arguments of `plot`.

        Returns
        -------
        display : ForecastDisplay

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            If it does not filter, smooth and forecast rows.
        ValueError
            If X is not one sequence, or `n_steps` is no integer from 0 up.

        Examples
        --------
        A level that moves little is forecast where it is, and less surely the farther ahead:

        >>> import numpy as np
        >>> from sklearn_onlineem import KalmanFilter
        >>> from sklearn_onlineem.displays import ForecastDisplay
        >>> kalman = KalmanFilter(1, transition_covariance=0.1, em_vars=[]).fit([[3.0]] * 50)
        >>> display = ForecastDisplay.from_estimator(kalman, [[3.0]] * 50, n_steps=2)
        >>> display.forecast.mean.ravel().round(2), display.forecast.deviation.ravel().round(2)
        (array([3., 3.]), array([1.17, 1.21]))
        """
        methods = ["filter", "smooth", "forecast", "impute", "observation_matrices_"]
        check_suits(estimator, cls, methods, "it is no Kalman filter, which forecasts rows.")
        rows, _ = one_sequence(X, cls)
        shaped = rows if np.ndim(X) == 1 else X
        if n_steps is None:
            n_steps = 1 + len(rows) // 4
        if not isinstance(n_steps, Integral) or n_steps < 0:
            raise ValueError(f"n_steps must be an integer from 0 up, got {n_steps!r}.")
        after = None
        if n_steps:
            after = _band(*estimator.forecast(shaped, n_steps=int(n_steps), return_cov=True))
        display = cls(
            X,
            smoothed=_shown(estimator, *estimator.smooth(shaped)),
            filtered=_shown(estimator, *estimator.filter(shaped)),
            predicted=_band(*estimator.predict(shaped, return_cov=True)),
            forecast=after,
            imputed=estimator.impute(shaped),
        )
        return display.plot(ax, **options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        feature: int | str = 0,
        kinds: Iterable[str] = ("smoothed",),
        mass: float = 0.95,
        n_lags: int | None = None,
    ) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, or array of two, default=None
            One: without the innovations. None: those of a new figure.
        feature : int or str, default=0
            Which feature is drawn, by index or name.
        kinds : list of str, default=("smoothed",)
            Of "smoothed", "filtered" and "predicted", those that are drawn besides the forecast.
        mass : float, default=0.95
            Probability within a band, and within the band of the autocorrelations.
        n_lags : int, default=None
            Lags of the autocorrelation. None: 30, and no more than a quarter of the rows.

        Returns
        -------
        self : ForecastDisplay

        Raises
        ------
        ValueError
            If an argument is not one of these, or the display does not hold what it asks for.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.displays import ForecastDisplay
        >>> from sklearn_onlineem.displays.forecasts import Band
        >>> filtered = Band(mean=np.array([[0.0], [1.0]]), deviation=np.array([[1.0], [2.0]]))
        >>> display = ForecastDisplay([0.0, 2.0], filtered=filtered).plot(kinds=["filtered"])
        >>> display.lines_["filtered"].get_ydata()
        array([0., 1.])
        """
        if not isinstance(mass, Real) or not 0.0 < mass < 1.0:
            raise ValueError(f"mass must be between 0 and 1, got {mass!r}.")
        j, width = index_of(feature, self.feature_names), norm.ppf(0.5 + 0.5 * mass)
        kinds = self._checked_kinds(kinds)
        lags = self._checked_lags(n_lags)
        top, bottom = self._two_axes(ax, has_lags=len(lags) > 0)
        self._draw_rows(top, j)
        self._draw_bands(top, j, kinds, width)
        top.set(xlabel="row", ylabel=self.feature_names[j])
        handles = [one for one in self._legend_order() if one is not None]
        above = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 4, "borderpad": 0.2}
        top.legend(handles=handles, frameon=False, fontsize="small", **above)
        if bottom is not None:
            self._draw_correlations(bottom, j, lags, width)
        return self

    def _checked_kinds(self, kinds):
        kinds = list(kinds)
        for kind in kinds:
            if kind not in _KINDS or getattr(self, kind) is None:
                raise ValueError(f"kinds has {kind!r}: not in {_KINDS}, or the display has none.")
        return kinds

    def _checked_lags(self, n_lags):
        """Lags of the autocorrelation, none where there are no innovations."""
        if self.innovations is None:
            if n_lags is not None:
                raise ValueError("n_lags is for innovations, which need predicted.")
            return np.arange(0)
        most = len(self.X) - 1
        if n_lags is None:
            n_lags = min(_MOST_LAGS, len(self.X) // 4)
        elif not isinstance(n_lags, Integral) or not 1 <= n_lags <= most:
            raise ValueError(f"n_lags must be an integer in 1..{most}, got {n_lags!r}.")
        return np.arange(1, n_lags + 1)

    def _two_axes(self, ax, has_lags):
        ax = None if ax is None else np.ravel(ax)
        n_axes = 2 if has_lags else 1
        if ax is not None and not 1 <= len(ax) <= n_axes:
            raise ValueError(f"ax must be {n_axes} Axes at most, got {len(ax)}.")
        if n_axes == 1 or (ax is not None and len(ax) == 1):
            return self._axes(None if ax is None else ax[0]), None
        return self._axes(ax, 2, gridspec_kw={"height_ratios": [2.2, 1.0]})

    def _draw_rows(self, ax, j):
        rows = np.arange(len(self.X))
        is_gap, self.imputed_ = np.isnan(self.X[:, j]), None
        self.gaps_ = shade_gaps(ax, is_gap)
        (self.points_,) = ax.plot(
            rows[~is_gap], self.X[~is_gap, j], ".", color=text_colour(), markersize=4.0,
            label="observed",
        )  # fmt: skip
        if self.imputed is not None and is_gap.any():
            (self.imputed_,) = ax.plot(
                rows[is_gap], self.imputed[is_gap, j], "o", color=text_colour(), markersize=3.5,
                fillstyle="none", markeredgewidth=0.8, label="imputed",
            )  # fmt: skip

    def _draw_bands(self, ax, j, kinds, width):
        self.lines_, self.bands_, n = {}, {}, len(self.X)
        for kind in [*kinds, *([] if self.forecast is None else ["forecast"])]:
            mean, deviation = (values[:, j] for values in getattr(self, kind))
            rows = np.arange(len(mean)) + (n if kind == "forecast" else 0)
            look = {"color": _COLOURS[kind], "label": _LABELS[kind], "linewidth": 1.3}
            (self.lines_[kind],) = ax.plot(rows, mean, _LINE_STYLES[kind], **look)
            self.bands_[kind] = ax.fill_between(
                rows, mean - width * deviation, mean + width * deviation, color=_COLOURS[kind],
                alpha=0.25, linewidth=0.0,
            )  # fmt: skip
        if self.forecast is not None:
            ax.axvline(n - 0.5, color=text_colour(), linewidth=0.8, linestyle=":")

    def _legend_order(self):
        return self.points_, self.imputed_, self.gaps_, *self.lines_.values()

    def _draw_correlations(self, ax, j, lags, width):
        correlations, n_seen = autocorrelations(self.innovations[:, j], lags[-1])
        self.limit_ = width / np.sqrt(max(n_seen, 1))
        ax.axhspan(-self.limit_, self.limit_, color="C0", alpha=0.25, linewidth=0.0)
        ax.axhline(0.0, color=text_colour(), linewidth=0.8)
        self.correlations_ = ax.stem(lags, correlations, basefmt=" ")
        self.correlations_.markerline.set(markersize=3.5, color=text_colour())
        self.correlations_.stemlines.set(linewidth=1.0, color=text_colour())
        height = max(1.3 * np.nanmax(np.abs(correlations), initial=0.0), 2.0 * self.limit_)
        ax.set(xlabel="lag (rows)", ylabel="autocorrelation\nof innovations")
        ax.set_ylim(-height, height)


def autocorrelations(values, n_lags):
    """Autocorrelations at the lags 1 .. n_lags of values, of which some are missing.

    Products of pairs of which one is missing count as 0, and the sum of squares is that of what
    was observed: their expectations are 0 of white noise, whatever is missing.

    Returns
    -------
    correlations : ndarray of shape (n_lags,)
    n_seen : int
    """
    is_seen = ~np.isnan(values)
    n_seen = int(is_seen.sum())
    centred = np.where(is_seen, values - (values[is_seen].mean() if n_seen else 0.0), 0.0)
    square = centred @ centred
    products = np.array([centred[lag:] @ centred[:-lag] for lag in range(1, n_lags + 1)])
    return products / square if square > 0.0 else np.zeros(n_lags), n_seen


def _checked_band(name, band, shape):
    if band is None:
        return None
    parts = Band(*(np.asarray(part, dtype=float) for part in band))
    for part in parts:
        if part.ndim != 2 or part.shape[1] != shape[1] or shape[0] not in (None, len(part)):
            shape = tuple("n_steps" if n is None else n for n in shape)
            raise ValueError(f"{name} must be two arrays of shape {shape}, got {part.shape}.")
    return parts


def _band(means, covariances):
    """Means of rows and the deviations of their features."""
    variances = np.diagonal(np.asarray(covariances), axis1=-2, axis2=-1)
    return Band(np.asarray(means), np.sqrt(np.maximum(variances, 0.0)))


def _shown(kalman, means, covariances):
    """What states show, without the noise of the rows."""
    C, d = kalman.observation_matrices_, kalman.observation_offsets_
    return _band(np.asarray(means) @ C.T + d, C @ np.asarray(covariances) @ C.T)
