"""Displays of structural components: what is drawn is what the estimator says."""

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose
from scipy.stats import norm

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.displays import StructureDisplay
from sklearn_onlineem.structure import Inputs, Level, Season


def test_components_are_drawn_with_bands(rng):
    X = np.tile([1.0, -1.0, 0.5], 12)[:, None] + rng.normal(size=(36, 1)).cumsum(axis=0)
    X[5:8], u = np.nan, rng.normal(size=(36, 1))
    kalman = KalmanFilter(structure=Level() + Season(3) + Inputs(), max_iter=3).fit(X, inputs=u)
    display = StructureDisplay.from_estimator(kalman, X, inputs=u, mass=0.8)
    found, names = kalman.decompose(X, inputs=u), ["level", "season", "inputs"]
    assert [*display.lines_] == names == [axis.get_ylabel() for axis in display.ax_]
    for name, (mean, variance) in found.items():
        assert_allclose(display.lines_[name].get_ydata(), mean)
        upper = mean + norm.ppf(0.9) * np.sqrt(variance)
        path = display.bands_[name].get_paths()[0].vertices
        assert_allclose(path[:, 1].max(), upper.max())
    assert len(display.points_.get_xdata()) == 33


def test_rows_have_their_dates(rng):
    months = pd.period_range("2020-01", periods=30, freq="M")
    series = pd.DataFrame(rng.normal(size=(30, 1)), months)
    display = StructureDisplay.from_estimator(KalmanFilter(structure=[Level()]).fit(series), series)
    label = display.ax_.xaxis.get_major_formatter()
    assert [label(x) for x in (0, 11, 29)] == ["2020-01", "2020-12", "2022-06"]


def test_one_of_several_columns_is_drawn(rng):
    X = pd.DataFrame(rng.normal(size=(30, 2)).cumsum(axis=0), columns=["north", "south"])
    kalman = KalmanFilter(structure=[Level()]).fit(X)
    display = StructureDisplay.from_estimator(kalman, X, feature="south")
    assert_allclose(display.lines_["level"].get_ydata(), kalman.decompose(X)["level"][0][:, 1])
    assert_allclose(display.points_.get_ydata(), X["south"])
