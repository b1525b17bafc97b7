"""Bands around sequences, forecasts and innovations."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, norm

from sklearn_onlineem import GaussianHMM, KalmanFilter, PoissonHMM
from sklearn_onlineem.displays import ForecastDisplay
from sklearn_onlineem.displays.forecasts import autocorrelations
from sklearn_onlineem.structure import Level, Season


def waves(rng, n):
    angles = np.arange(n) / 5
    return np.column_stack([np.sin(angles), np.cos(angles)]) + 0.2 * rng.normal(size=(n, 2))


@pytest.fixture
def kalman(rng):
    return KalmanFilter(2, max_iter=3, tol=0.0, random_state=0).fit(waves(rng, 80))


@pytest.fixture
def X(rng):
    X = waves(rng, 60)
    X[20:25] = X[30, 1] = np.nan
    return X


def edges_of(band, n):
    """Lower and upper edge of a band of n rows."""
    vertices = band.get_paths()[0].vertices
    return vertices[1 : n + 1, 1], vertices[n + 2 : 2 * n + 2, 1][::-1]


def test_lines_and_bands_are_the_estimators_moments(kalman, X):
    kinds = ["smoothed", "filtered", "predicted"]
    display = ForecastDisplay.from_estimator(kalman, X, n_steps=7, kinds=kinds, feature=1, mass=0.8)
    C, d, R = (
        getattr(kalman, f"observation_{name}_") for name in ("matrices", "offsets", "covariance")
    )
    future, covariances = kalman.forecast(X, n_steps=7, return_cov=True)
    foreseen = kalman.predict(X, return_cov=True)
    expected = {"forecast": (future[:, 1], covariances[:, 1, 1])}
    expected["predicted"] = foreseen[0][:, 1], foreseen[1][:, 1, 1]
    for kind in ("smooth", "filter"):
        means, covariances = getattr(kalman, kind)(X)
        kind += "ed"
        expected[kind] = (means @ C.T + d)[:, 1], np.einsum("i,tij,j->t", C[1], covariances, C[1])
    assert set(display.lines_) == set(display.bands_) == set(expected)
    for kind, (mean, variance) in expected.items():
        assert_allclose(display.lines_[kind].get_ydata(), mean)
        width = norm.ppf(0.9) * np.sqrt(variance)
        low, high = edges_of(display.bands_[kind], len(mean))
        assert_allclose((low, high), (mean - width, mean + width))
    assert_array_equal(display.lines_["forecast"].get_xdata(), np.arange(60, 67))
    # A forecast is of rows, which have noise.
    assert (expected["forecast"][1] > R[1, 1]).all()


@pytest.mark.parametrize("kind", [GaussianHMM, PoissonHMM], ids=lambda kind: kind.__name__)
def test_hidden_markov_models_have_quantiles(kind, rng):
    X = rng.poisson(np.repeat([[2.0, 30.0], [20.0, 3.0]] * 3, 10, axis=0)).astype(float)
    X[7] = np.nan
    hmm = kind(2, random_state=0).fit(X)
    display = ForecastDisplay.from_estimator(hmm, X, n_steps=9, feature=1, mass=0.8)
    mean, edges = hmm.forecast(X, 9, quantiles=[0.1, 0.9])
    assert_allclose(display.lines_["forecast"].get_ydata(), mean[:, 1])
    assert_allclose(edges_of(display.bands_["forecast"], 9), edges[..., 1])
    assert set(display.lines_) == {"forecast"} and display.innovations is None
    assert display.gaps_ is not None and display.plot(mass=0.8).points_ is not None
    alone = ForecastDisplay.from_estimator(hmm, X, n_steps=0)
    assert not alone.lines_ and len(alone.points_.get_xdata()) == 59


def test_gaps_and_what_is_put_into_them(kalman, X):
    display = ForecastDisplay.from_estimator(kalman, X, feature=1)
    spans = [path.get_extents().intervalx.tolist() for path in display.gaps_.get_paths()]
    assert spans == [[19.5, 24.5], [29.5, 30.5]]
    assert_array_equal(display.imputed_.get_xdata(), [*range(20, 25), 30])
    assert_array_equal(display.imputed_.get_ydata(), kalman.impute(X)[np.isnan(X[:, 1]), 1])
    assert_array_equal(display.points_.get_ydata(), X[~np.isnan(X[:, 1]), 1])
    assert len(display.lines_["forecast"].get_xdata()) == 16
    whole = ForecastDisplay.from_estimator(kalman, np.nan_to_num(X), n_steps=0)
    assert whole.gaps_ is whole.imputed_ is None and set(whole.lines_) == {"smoothed"}


def test_dates_need_not_be_regular(kalman, X):
    dated = pd.DataFrame(X, pd.date_range("2020", periods=60)[[*range(59), 57]])
    display = ForecastDisplay.from_estimator(kalman, dated, n_steps=2)
    assert_allclose(display.lines_["forecast"].get_ydata(), kalman.forecast(X, 2)[:, 0])
    label = display.ax_[0].xaxis.get_major_formatter()
    assert [label(x) for x in (-1, 0, 40, 59, 60, 61)] == [
        "", "2020-01-01", "2020-02-10", "2020-02-27", "+1", "+2",
    ]  # fmt: skip
    assert ForecastDisplay.from_estimator(kalman, X).ax_[0].get_xlabel() == "row"


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_that_diffuse_states_leave_open_have_no_innovations(rng):
    series = rng.normal(size=(40, 1)).cumsum(axis=0)
    kalman = KalmanFilter(structure=[Level(), Season(4)]).fit(series)
    display = ForecastDisplay.from_estimator(kalman, series, kinds=["filtered", "predicted"])
    is_open = np.isinf(kalman.predict(series, return_cov=True)[1].ravel())
    assert is_open.sum() == 4
    assert_array_equal(np.isnan(display.innovations.ravel()), is_open)


def test_innovations_and_their_autocorrelation(kalman, X):
    display = ForecastDisplay.from_estimator(kalman, X, n_lags=4)
    means, covariances = kalman.predict(X, return_cov=True)
    innovations = (X - means)[:, 0] / np.sqrt(covariances[:, 0, 0])
    assert_allclose(display.innovations[:, 0], innovations)
    centred = np.nan_to_num(innovations - np.nanmean(innovations))
    expected = [(centred[lag:] * centred[:-lag]).sum() for lag in range(1, 5)]
    heights = display.correlations_.markerline.get_ydata()
    assert_allclose(heights, np.divide(expected, (centred**2).sum()))
    assert_allclose(display.limit_, norm.ppf(0.975) / np.sqrt(55))


def test_white_noise_is_within_the_band_and_walks_are_not(rng):
    noise = rng.normal(size=1000)
    noise[rng.random(1000) < 0.2] = np.nan
    correlations, n_seen = autocorrelations(noise, 30)
    assert n_seen == np.isfinite(noise).sum()
    assert (np.abs(correlations) > 1.96 / np.sqrt(n_seen)).sum() <= 4
    assert autocorrelations(rng.normal(size=1000).cumsum(), 1)[0] > 0.9
    assert_array_equal(autocorrelations(np.full(5, np.nan), 2)[0], 0.0)


def test_whitening_shows_a_wrong_model(rng):
    level = rng.normal(size=(4000, 1)).cumsum(axis=0) + rng.normal(size=(4000, 1))
    outside = []
    for variance in (1.0, 0.001):
        kalman = KalmanFilter(1, em_vars=[], transition_covariance=variance).fit(level)
        display = ForecastDisplay.from_estimator(kalman, level)
        heights = np.abs(display.correlations_.markerline.get_ydata())
        outside.append((heights > display.limit_).sum())
    # Of white noise, each is outside with probability 0.05.
    n = len(heights)
    assert outside[0] <= binom.ppf(1.0 - 1e-6, n, 0.05) < 0.5 * n < outside[1]


def test_names_of_columns_choose_features(kalman, X):
    frame = pd.DataFrame(X, columns=["height", "depth"])
    fitted = KalmanFilter(1, max_iter=1, random_state=0).fit(frame)
    display = ForecastDisplay.from_estimator(
        fitted, frame, feature="depth", ax=Figure().add_subplot()
    )
    assert display.ax_.get_ylabel() == "depth"
    assert_array_equal(display.points_.get_ydata(), frame["depth"].dropna())


def test_bands_of_others():
    band = np.array([[1.0], [2.0]]), np.array([[0.1], [0.1]])
    display = ForecastDisplay([1.0, 2.5], predicted=band)
    display.plot(kinds=["predicted"])
    assert_allclose(display.innovations[:, 0], [0.0, 5.0])
