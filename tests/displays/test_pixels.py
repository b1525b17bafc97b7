"""What a file has in the end, pixel by pixel, where numbers of artists might still mislead."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from sklearn_onlineem import GaussianHMM, GaussianMixture, KalmanFilter
from sklearn_onlineem.displays import (
    ForecastDisplay,
    ResponsibilityDisplay,
    StatePathDisplay,
    TransitionDisplay,
)

LEVELS = np.repeat([0.0, 5.0, 0.0, 5.0], 25)[:, None]


def colours_at(ax, points):
    """Mean colours, 0 to 1, of 3 x 3 pixels around points in the data's coordinates."""
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255.0
    columns, rows = np.rint(ax.transData.transform(points)).astype(int).T
    around = [
        pixels[row - 1 : row + 2, column - 1 : column + 2]
        for row, column in zip(rows, columns, strict=True)
    ]
    return np.mean(around, axis=(1, 2))


def luminance(colours):
    return colours @ [0.2126, 0.7152, 0.0722]


@pytest.fixture
def hmm():
    X = LEVELS + np.random.default_rng(0).normal(size=LEVELS.shape)
    return GaussianHMM(2, random_state=0).fit(X), X


def test_the_likelier_a_transition_is_the_lighter_is_its_cell():
    """Also in grey, as the user's colour map is one in which lightness tells the order."""
    X = np.random.default_rng(1).normal(size=(200, 1))
    hmm = GaussianHMM(3, random_state=0).fit(X)
    display = TransitionDisplay.from_estimator(hmm)
    starts, ends = np.indices((3, 3)).reshape(2, -1)
    # Beside the number in the middle.
    grey = luminance(colours_at(display.ax_, np.column_stack([ends, starts]) + 0.4))
    order = np.argsort(hmm.transmat_[starts, ends])
    assert (np.diff(grey[order]) >= 0.0).all()
    assert grey[order[-1]] - grey[order[0]] > 0.2


def test_bands_change_colour_where_states_do(hmm):
    display = StatePathDisplay.from_estimator(*hmm, algorithm="viterbi")
    ax = np.ravel(display.ax_)[0]
    low, high = ax.get_ylim()
    path = hmm[0].predict(hmm[1])
    times = np.array([5.3, 30.3, 55.3, 80.3])
    colours = colours_at(ax, np.column_stack([times, np.full(4, low + 0.98 * (high - low))]))
    states = path[times.astype(int)]
    assert states[0] == states[2] != states[1] == states[3]
    assert np.abs(colours[:2] - colours[2:]).max() < 0.01
    assert np.abs(colours[0] - colours[1]).max() > 0.05


def test_the_band_of_a_forecast_is_filled_and_nothing_beyond_it():
    X = np.random.default_rng(0).normal(size=(60, 1)).cumsum(axis=0)
    kalman = KalmanFilter(1, max_iter=5, tol=0.0).fit(X)
    means, covariances = kalman.forecast(X, n_steps=10, return_cov=True)
    mean, deviation = means[8, 0], np.sqrt(covariances[8, 0, 0])
    display = ForecastDisplay.from_estimator(kalman, X, n_steps=10)
    ax = np.ravel(display.ax_)[0]
    ax.set_ylim(mean - 4.0 * deviation, mean + 4.0 * deviation)
    of_band = mean + deviation * np.array([-1.0, 1.0])
    beyond = mean + deviation * np.array([-3.0, 3.0])
    points = np.column_stack([np.full(4, 68.0), [*of_band, *beyond]])
    filled = luminance(colours_at(ax, points)) < 0.99
    assert filled.tolist() == [True, True, False, False]


def test_the_surer_a_row_is_the_darker_is_its_cell():
    X = np.random.default_rng(0).normal(size=(12, 1))
    mixture = GaussianMixture(2, random_state=0).fit(X)
    display = ResponsibilityDisplay.from_estimator(mixture, X)
    shares = mixture.predict_proba(X)[display.order_].T
    components, rows = np.indices(shares.shape).reshape(2, -1)
    # Components stand below each other, rows side by side.
    grey = luminance(colours_at(display.ax_, np.column_stack([rows + 0.5, components])))
    order = np.argsort(shares.ravel())
    assert (np.diff(grey[order]) <= 0.02).all()
    assert grey[order[0]] - grey[order[-1]] > 0.3
