"""What all displays of estimators have in common."""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import style
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_onlineem import (
    CategoricalHMM,
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MarkovChainMixture,
    PoissonMixture,
)
from sklearn_onlineem.displays import (
    AlignmentDisplay,
    ForecastDisplay,
    LearningCurveDisplay,
    MixtureDisplay,
    ResponsibilityDisplay,
    StatePathDisplay,
    StructureDisplay,
    TopicsDisplay,
    TransitionDisplay,
)
from sklearn_onlineem.structure import Level

ROWS = np.random.default_rng(0).normal(np.repeat([[0.0], [9.0]], 20, axis=0))
COUNTS = np.random.default_rng(0).poisson(3.0, (40, 2))
# Displays, estimators that suit them, what these learn from, and what is drawn of it.
CASES = [
    pytest.param(display, estimator, X, drawn, id=f"{display.__name__}-{type(estimator).__name__}")
    for display, estimator, X, drawn in [
        (LearningCurveDisplay, GaussianMixture(2, random_state=0), ROWS, ()),
        (MixtureDisplay, GaussianMixture(2, random_state=0), ROWS, ()),
        (MixtureDisplay, PoissonMixture(2, random_state=0), COUNTS, ()),
        (ResponsibilityDisplay, GaussianMixture(2, random_state=0), ROWS, (ROWS,)),
        (TopicsDisplay, LatentDirichletAllocation(3, random_state=0, max_iter=3), COUNTS, ()),
        (StatePathDisplay, GaussianHMM(2, random_state=0), ROWS, (ROWS,)),
        (TransitionDisplay, GaussianHMM(2, random_state=0), ROWS, ()),
        (ForecastDisplay, KalmanFilter(1, max_iter=2, tol=0.0), ROWS, (ROWS,)),
        (ForecastDisplay, GaussianHMM(2, random_state=0), ROWS, (ROWS,)),
        (StructureDisplay, KalmanFilter(structure=[Level()]), ROWS, (ROWS,)),
        (AlignmentDisplay, EditDistance(), [("ab", "abb"), ("ab", "b")], ("ab", "bb")),
    ]
]
all_cases = pytest.mark.parametrize(("display", "estimator", "X", "drawn"), CASES)
UNSUITABLE = [
    (LearningCurveDisplay, EditDistanceClassifier(), ()),
    (StatePathDisplay, GaussianMixture(), (ROWS,)),
    (StatePathDisplay, KalmanFilter(), (ROWS,)),
    (TransitionDisplay, KalmanFilter(), ()),
    (ForecastDisplay, GaussianMixture(), (ROWS,)),
    (StructureDisplay, GaussianHMM(), (ROWS,)),
    (AlignmentDisplay, CategoricalHMM(), ("ab", "b")),
    (AlignmentDisplay, MarkovChainMixture(), ("ab", "b")),
]


@all_cases
def test_estimators_that_are_not_fitted_are_refused(display, estimator, X, drawn):
    with pytest.raises(NotFittedError, match=type(estimator).__name__):
        display.from_estimator(clone(estimator), *drawn)


@pytest.mark.parametrize(("display", "estimator", "drawn"), UNSUITABLE)
def test_estimators_that_do_not_suit_are_named(display, estimator, drawn):
    name = type(estimator).__name__
    with pytest.raises(TypeError, match=f"{display.__name__} can't show {name}: it"):
        display.from_estimator(estimator, *drawn)
    with pytest.raises(TypeError, match=f"{display.__name__} can't show {name}: it"):
        display.from_estimator(type(estimator), *drawn)


@all_cases
def test_displays_follow_the_style_and_are_drawn_without_pyplot(display, estimator, X, drawn):
    fitted, before = estimator.fit(X), plt.get_fignums()
    with style.context("dark_background"):
        shown = display.from_estimator(fitted, *drawn)
        assert shown.figure_.get_facecolor() == mpl.colors.to_rgba("black")
        texts = [axis.get_label() for ax in shown.figure_.axes for axis in (ax.xaxis, ax.yaxis)]
        assert {text.get_color() for text in texts} == {"white"}
    assert shown.plot() is shown
    assert shown._repr_png_().startswith(b"\x89PNG")
    figure = Figure()
    axes = figure.subplots(1, np.size(shown.ax_))
    given = display.from_estimator(fitted, *drawn, ax=axes)
    assert given.figure_ is figure and np.ravel(given.ax_).tolist() == np.ravel(axes).tolist()
    assert given._repr_png_() is None and plt.get_fignums() == before


def test_importing_displays_and_adapters_imports_no_other_library():
    code = "import sys, sklearn_onlineem.displays as d, sklearn_onlineem.interop"
    code += "; assert not {'matplotlib', 'river'} & sys.modules.keys()"
    code += "; d.TransitionDisplay([[1.0]]).plot(); assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
