"""Learning curves are the histories of estimators."""

import numpy as np
import pytest
from cases.streams import AT_ONCE
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem import PoissonMixture
from sklearn_onlineem.displays import LearningCurveDisplay
from sklearn_onlineem.displays.learning_curves import LearningCurve


@pytest.fixture
def counts(rng):
    return rng.poisson(rng.choice([2.0, 20.0], size=(600, 1)))


def streamed(counts, solver):
    mixture = PoissonMixture(2, solver=solver, random_state=0)
    for batch in np.array_split(counts, 12):
        mixture.partial_fit(batch)
    return mixture


@pytest.fixture
def stream(counts):
    return streamed(counts, AT_ONCE)


@pytest.fixture
def batch(counts):
    return PoissonMixture(2, solver="batch", tol=0.0, max_iter=4, random_state=0).fit(counts)


@pytest.mark.parametrize(("solver", "n_of_start"), [(AT_ONCE, 1), ("auto", 100 * 2 // 50)])
def test_lines_are_the_history_and_steps_of_the_start_are_marked(solver, n_of_start, counts):
    stream = streamed(counts, solver)
    display = LearningCurveDisplay.from_estimator(stream)
    assert len(display.ax_) == 3 and not display.raw_lines_
    steps, gap = stream.history_, np.full(n_of_start, np.nan)
    for panel in ("log_likelihood", "eta", "kl_divergence"):
        line = display.lines_[panel, "PoissonMixture"]
        assert_array_equal(line.get_xdata(), [step.n_rows for step in steps])
        later = [getattr(step, panel) for step in steps[n_of_start:]]
        assert_array_equal(line.get_ydata(), [*gap, *later])
    marks = display.marks_["PoissonMixture"].get_ydata()
    assert_array_equal(marks[:n_of_start], [step.log_likelihood for step in steps[:n_of_start]])
    assert np.isnan(marks[n_of_start:]).all()


def test_batch_em_is_marked(stream, batch):
    display = LearningCurveDisplay.from_estimator({"online": stream, "batch": batch})
    marks = display.marks_["batch"]
    assert_array_equal(marks.get_xdata(), [600, 1200, 1800, 2400])
    assert_array_equal(marks.get_ydata(), batch.lower_bounds_)
    assert ("log_likelihood", "batch") not in display.lines_
    # It has no learning rate, and moves all the same.
    assert np.isnan(display.lines_["eta", "batch"].get_ydata()).all()
    # The axis has no 0, which the last one is on some machines, and an error of rounding on others.
    movements = display.lines_["kl_divergence", "batch"].get_ydata()
    assert_array_equal(movements, [step.kl_divergence or np.nan for step in batch.history_])
    assert np.isfinite(movements[:2]).all()
    names = [text.get_text() for text in display.ax_[0].get_legend().get_texts()]
    assert names == ["online", "batch"]
    # Nothing to draw in a panel, no panel.
    alone = LearningCurveDisplay.from_estimator(batch)
    assert len(alone.ax_) == 2


def test_averages_are_of_rows_read_before(counts):
    steps, sizes = [], [50, 10, 30, 20, 40, 10]
    mixture = PoissonMixture(2, solver=AT_ONCE, callbacks=[steps.append], random_state=0)
    for batch in np.split(counts[:160], np.cumsum(sizes)[:-1]):
        mixture.partial_fit(batch)
    display = LearningCurveDisplay.from_estimator({"a": steps})
    display.plot(window=3)
    values = np.array([step.log_likelihood for step in steps])
    expected = [
        np.average(values[max(1, t - 2) : t + 1], weights=sizes[max(1, t - 2) : t + 1])
        for t in range(1, 6)
    ]
    assert_allclose(display.lines_["log_likelihood", "a"].get_ydata()[1:], expected)
    assert_array_equal(display.raw_lines_["a"].get_ydata()[1:], values[1:])
    display.plot(window=1)
    assert_array_equal(display.lines_["log_likelihood", "a"].get_ydata()[1:], values[1:])


def test_certificates_have_a_panel(stream):
    display = LearningCurveDisplay.from_estimator(stream, panels=["certificate"])
    expected = [step.certificate for step in stream.history_[1:]]
    line = display.lines_["certificate", "PoissonMixture"]
    assert_array_equal(line.get_ydata()[1:], expected)
    assert display.ax_.get_yscale() == "log"


def test_as_many_panels_as_axes_are_given(stream):
    display = LearningCurveDisplay.from_estimator(stream, ax=Figure().add_subplot())
    assert {panel for panel, _ in display.lines_} == {"log_likelihood"}
    display.plot(Figure().subplots(1, 2))
    assert {panel for panel, _ in display.lines_} == {"log_likelihood", "eta"}


@pytest.mark.parametrize("n_curves", [2, 50])
def test_curves_of_others_and_many_of_them(n_curves):
    curves = {
        str(k): LearningCurve(np.arange(1, 6), np.linspace(-k - 2.0, -1.0, 5))
        for k in range(n_curves)
    }
    display = LearningCurveDisplay.from_estimator(curves)
    assert len(display.lines_) == n_curves
    assert_array_equal(display.lines_["log_likelihood", "1"].get_ydata(), curves["1"][1])
