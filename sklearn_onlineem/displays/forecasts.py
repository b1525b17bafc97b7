"""Sequences with forecasts, estimates and innovations, and the components of a structure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from sklearn_onlineem._checks import check_count, check_number, require
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.displays._drawing import (
    Axes,
    AxesOrMany,
    Display,
    draw_band,
    draw_observed,
    foreground,
)
from sklearn_onlineem.displays._inputs import check_suits, floats_of, index_of, one_sequence

_KINDS = ["smoothed", "filtered", "predicted"]
# Labels, line styles, and colours of the style's cycle that differ most in greyscale.
_LOOKS = {
    "smoothed": {"label": "smoothed", "color": "C0"},
    "filtered": {"label": "filtered", "color": "C2", "linestyle": "--"},
    "predicted": {"label": "predicted one row ahead", "color": "C4", "linestyle": ":"},
    "forecast": {"label": "forecast", "color": "C1"},
}


class Band(NamedTuple):
    """Means and standard deviations of the features, row by row.

    Attributes
    ----------
    mean, deviation : ndarray of shape (n_rows, n_features)
        In the units of the features.
    """

    mean: Floats
    deviation: Floats

    def edges(self, mass: float) -> tuple[Floats, Floats]:
        """Return lower and upper ends of normal distributions, as means are.

        Parameters
        ----------
        mass : float
            Probability between the ends, in (0, 1).
        """
        reach = norm.ppf(0.5 + 0.5 * mass) * self.deviation
        return self.mean - reach, self.mean + reach


class QuantileBand(NamedTuple):
    """Means and quantiles of the features, row by row.

    Attributes
    ----------
    mean, low, high : ndarray of shape (n_rows, n_features)
        In the units of the features.
    mass : float
        Probability between the quantiles, in (0, 1).
    """

    mean: Floats
    low: Floats
    high: Floats
    mass: float = 0.95

    def edges(self, mass: float) -> tuple[Floats, Floats]:
        """Return the quantiles; ValueError if they are of another mass.

        Parameters
        ----------
        mass : float
            Probability between the ends.
        """
        if mass != self.mass:
            raise ValueError(f"mass must be {self.mass}, that of the forecast, got {mass!r}.")
        return self.low, self.high


class ForecastDisplay(Display):
    r"""A sequence with its forecast by a hidden Markov model or a Kalman filter.

    The band of a forecast is one of rows. Hidden Markov models have quantiles, which need not be
    symmetric, of emissions that are numbers or counts.

    Kalman filters have estimates and innovations, too. Bands of smoothed and filtered values are
    those of rows without noise, :math:`C h_t + d`; bands of predictions are those of rows.
    Innovations are observations less their predictions one row ahead, in standard deviations. If
    the model is correct, they are white noise: their autocorrelations are in the drawn band,
    :math:`\pm z / \sqrt n`, with few exceptions.

    Parameters
    ----------
    X : array-like of shape (n_rows,) or (n_rows, n_features)
        One sequence, NaN for missing values. The columns of a data frame have names, and its rows
        may have dates.
    smoothed, filtered, predicted : Band, default=None
        Of each row, given all rows, the rows so far, and the rows before. None: not drawn.
    forecast : Band or QuantileBand, default=None
        Of the rows after the last one.
    imputed : array-like of shape (n_rows, n_features), default=None
        X with its gaps filled.

    Attributes
    ----------
    innovations : ndarray of shape (n_rows, n_features) or None
        Standardised; NaN for missing values, and where diffuse first states are not determined.
    ax_ : ndarray of matplotlib Axes, or one
        The sequence, and below it the autocorrelation of the innovations.
    points_ : matplotlib Line2D
        Observed values.
    imputed_ : matplotlib Line2D or None
        Values of gaps.
    gaps_ : matplotlib PolyCollection or None
    lines_ : dict of matplotlib Line2D by str
        Means: "smoothed", "filtered", "predicted", "forecast".
    bands_ : dict of matplotlib PolyCollection by str
    correlations_ : matplotlib StemContainer
        Autocorrelations at the lags 1, 2, ..., if they are drawn.
    limit_ : float
        Half the width of the band of autocorrelations.

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
    >>> display.lines_["forecast"].get_xdata(), len(display.imputed_.get_xdata())
    (array([100, 101, 102, 103, 104]), 10)
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
        forecast: Band | QuantileBand | None = None,
        imputed: ArrayLike | None = None,
    ):
        self.X, self.feature_names, self._dates = one_sequence(X, type(self))
        shape = self.X.shape
        self.smoothed = _checked_band("smoothed", smoothed, shape)
        self.filtered = _checked_band("filtered", filtered, shape)
        self.predicted = _checked_band("predicted", predicted, shape)
        n_steps = () if forecast is None else np.shape(forecast[0])[:1]
        self.forecast = _checked_band("forecast", forecast, (*n_steps, shape[1]))
        self.imputed = floats_of("imputed", imputed, shape)
        self.innovations = None
        if predicted is not None:
            deviation = self.predicted.deviation
            # Rows of diffuse first states have no innovations.
            deviation = np.where(np.isinf(deviation), np.nan, deviation)
            self.innovations = (self.X - self.predicted.mean) / deviation

    @classmethod
    def from_estimator(
        cls, estimator: object, X: ArrayLike, *, n_steps: int | None = None, **options: object
    ) -> Self:
        """Draw the forecast of a sequence, and the estimates of a fitted Kalman filter.

        Parameters
        ----------
        estimator : object
            A fitted hidden Markov model or Kalman filter.
        X : array-like of shape (n_rows, n_features)
            One sequence, NaN for missing values.
        n_steps : int, default=None
            Rows to forecast; 0: none. None: a quarter as many as there are.
        **options
            Arguments of `plot`, such as `ax`.

        Raises
        ------
        NotFittedError, TypeError
            If the estimator is not fitted, or has no forecasts.
        ValueError
            If the emissions have no quantiles, or need inputs.
        """
        check_suits(estimator, cls, ["forecast"], "it has no forecasts.")
        rows = one_sequence(X, cls)[0]
        shaped = rows if np.ndim(X) == 1 else X
        if hasattr(shaped, "reset_index"):  # Rows are drawn by number, so dates may be irregular.
            shaped = shaped.reset_index(drop=True)
        if n_steps is None:
            n_steps = 1 + len(rows) // 4
        check_count("n_steps", n_steps, least=0)
        known, after = {}, None
        if hasattr(estimator, "smooth"):
            known = {
                "smoothed": _shown(estimator, *estimator.smooth(shaped)),
                "filtered": _shown(estimator, *estimator.filter(shaped)),
                "predicted": _band(*estimator.predict(shaped, return_cov=True)),
                "imputed": estimator.impute(shaped),
            }
            if n_steps:
                after = _band(*estimator.forecast(shaped, int(n_steps), return_cov=True))
        elif n_steps:
            mass = options.get("mass", 0.95)
            check_number("mass", mass, 0.0, 1.0)
            ends = [0.5 - 0.5 * mass, 0.5 + 0.5 * mass]
            mean, edges = estimator.forecast(shaped, int(n_steps), quantiles=ends)
            after = QuantileBand(mean, *edges, mass=mass)
        return cls(X, forecast=after, **known).plot(**options)

    def plot(
        self,
        ax: AxesOrMany | None = None,
        *,
        feature: int | str = 0,
        kinds: Iterable[str] | None = None,
        mass: float = 0.95,
        n_lags: int | None = None,
    ) -> Self:
        """Draw the sequence.

        Parameters
        ----------
        ax : matplotlib Axes, or array of two, default=None
            One: without the innovations. None: those of a new figure.
        feature : int or str, default=0
            The feature to draw, by index or name.
        kinds : list of str, default=None
            Of "smoothed", "filtered" and "predicted", those to draw besides the forecast. None:
            "smoothed", where it is known.
        mass : float, default=0.95
            Probability of the bands, also of that of the autocorrelations. A forecast with
            quantiles has those of one mass.
        n_lags : int, default=None
            Lags of the autocorrelation. None: 30, and at most a quarter of the rows.
        """
        check_number("mass", mass, 0.0, 1.0)
        j, width = index_of(feature, self.feature_names), norm.ppf(0.5 + 0.5 * mass)
        known = [kind for kind in _KINDS if getattr(self, kind) is not None]
        kinds = [kind for kind in known if kind == "smoothed"] if kinds is None else list(kinds)
        require(set(kinds) <= set(known), "kinds", f"among {known}, which have a Band", kinds)
        lags = self._checked_lags(n_lags)
        heights = {"height_ratios": [2.2, 1.0]}
        top, bottom = self._one_or_two_axes(ax, 2 if len(lags) else 1, gridspec_kw=heights)
        self._draw_rows(top, j)
        self._draw_bands(top, j, kinds, mass)
        self._label_rows(top)
        top.set_ylabel(self.feature_names[j])
        handles = self.points_, self.imputed_, self.gaps_, *self.lines_.values()
        self._legend(handles, is_above=True)
        if bottom is not None:
            self._draw_correlations(bottom, j, lags, width)
        return self

    def _checked_lags(self, n_lags):
        most = 0 if self.innovations is None else len(self.X) - 1
        if n_lags is None:
            n_lags = min(30, len(self.X) // 4, most)
        else:
            is_known = isinstance(n_lags, Integral) and 1 <= n_lags <= most
            what = f"an integer in 1..{most}" if most else "None without predicted rows"
            require(is_known, "n_lags", what, n_lags)
        return np.arange(1, n_lags + 1)

    def _draw_rows(self, ax, j):
        values, self.imputed_ = self.X[:, j], None
        self.points_, self.gaps_ = draw_observed(ax, values, markersize=4.0, label="observed")
        gaps = np.flatnonzero(np.isnan(values))
        if self.imputed is not None and len(gaps):
            look = {"color": foreground(), "markersize": 3.5, "markeredgewidth": 0.8}
            look |= {"fillstyle": "none", "label": "imputed"}
            (self.imputed_,) = ax.plot(gaps, self.imputed[gaps, j], "o", **look)

    def _draw_bands(self, ax, j, kinds, mass):
        self.lines_, self.bands_, n = {}, {}, len(self.X)
        for kind in [*kinds, *([] if self.forecast is None else ["forecast"])]:
            band = getattr(self, kind)
            mean, (low, high) = band.mean[:, j], band.edges(mass)
            rows = np.arange(len(mean)) + (n if kind == "forecast" else 0)
            drawn = draw_band(ax, rows, mean, low[:, j], high[:, j], **_LOOKS[kind])
            self.lines_[kind], self.bands_[kind] = drawn
        if self.forecast is not None:
            ax.axvline(n - 0.5, color=foreground(), linewidth=0.8, linestyle=":")

    def _draw_correlations(self, ax, j, lags, width):
        correlations, n_seen = autocorrelations(self.innovations[:, j], lags[-1])
        self.limit_ = width / np.sqrt(max(n_seen, 1))
        ax.axhspan(-self.limit_, self.limit_, color="C0", alpha=0.25, linewidth=0.0)
        ax.axhline(0.0, color=foreground(), linewidth=0.8)
        self.correlations_ = ax.stem(lags, correlations, basefmt=" ")
        self.correlations_.markerline.set(markersize=3.5, color=foreground())
        self.correlations_.stemlines.set(linewidth=1.0, color=foreground())
        height = max(1.3 * np.nanmax(np.abs(correlations), initial=0.0), 2.0 * self.limit_)
        ax.set(xlabel="lag (rows)", ylabel="autocorrelation\nof innovations")
        ax.set_ylim(-height, height)


def autocorrelations(values, n_lags):
    """Return autocorrelations at the lags 1 .. n_lags, and the number of values that are not NaN.

    Products with missing values count as 0 and the sum of squares is that of observed values, so
    that expectations are 0 for white noise.
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
    arrays = [floats_of(f"each array of {name}", part, shape) for part in band[:3]]
    if not isinstance(band, QuantileBand):
        return Band(*arrays)
    check_number("mass", band.mass, 0.0, 1.0)
    return QuantileBand(*arrays, mass=band.mass)


def _band(means, covariances):
    """Return the means of rows and the standard deviations of their features."""
    variances = np.diagonal(np.asarray(covariances), axis1=-2, axis2=-1)
    return Band(np.asarray(means), np.sqrt(np.maximum(variances, 0.0)))


def _shown(kalman, means, covariances):
    """Return the bands of rows without noise, from states."""
    C, d = kalman.observation_matrices_, kalman.observation_offsets_
    with np.errstate(invalid="ignore"):
        return _band(np.asarray(means) @ C.T + d, C @ np.asarray(covariances) @ C.T)


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
