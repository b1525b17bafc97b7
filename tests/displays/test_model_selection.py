"""Criteria against the number of components."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianHMM, GaussianMixture
from sklearn_onlineem.displays import ModelSelectionDisplay

X = load_iris().data
TRAIN, TEST = X[::2], X[1::2]
NUMBERS = [3, 1, 2]


def fitted(numbers=NUMBERS, **parameters):
    return [GaussianMixture(n, random_state=0, **parameters).fit(TRAIN) for n in numbers]


def search(estimator, grid, **options):
    return GridSearchCV(estimator, grid, cv=3, **options).fit(X[np.arange(150) * 7 % 150])


def test_criteria_are_in_nats_per_sample_by_rising_number():
    mixtures = fitted()
    display = ModelSelectionDisplay.from_estimators(mixtures, TRAIN, TEST)
    by_number = [mixtures[i] for i in (1, 2, 0)]
    expected = {
        "bic": [mixture.bic(TRAIN) / 150.0 for mixture in by_number],
        "aic": [mixture.aic(TRAIN) / 150.0 for mixture in by_number],
        "score": [-mixture.score(TEST) for mixture in by_number],
    }
    assert set(display.lines_) == set(expected)
    for name, values in expected.items():
        x, y = display.lines_[name].get_data()
        assert list(x) == [1, 2, 3]
        np.testing.assert_allclose(y, values)
        assert display.best_[name] == 1 + int(np.argmin(values))
        assert display.marks_[name].get_xydata().tolist() == [[display.best_[name], min(values)]]
    assert "lower is better" in display.ax_.get_ylabel()


def test_of_several_with_one_number_the_best_counts():
    mixtures = fitted([2, 2, 1]) + fitted([2], covariance_type="spherical")
    display = ModelSelectionDisplay.from_estimators(mixtures, TRAIN)
    best = min(mixture.bic(TRAIN) for mixture in mixtures if mixture.n_components == 2)
    assert display.n_components.tolist() == [1, 2] and display.bic[1] == best


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_scores_of_a_search_are_drawn_as_they_are(in_pipeline):
    estimator, name = GaussianMixture(random_state=0), "n_components"
    if in_pipeline:
        estimator, name = make_pipeline(StandardScaler(), estimator), "gaussianmixture__" + name
    found = search(estimator, {name: [4, 1, 2]})
    display = ModelSelectionDisplay.from_estimator(found)
    x, y = display.lines_["score"].get_data()
    assert x.tolist() == [1, 2, 4]
    np.testing.assert_array_equal(y, found.cv_results_["mean_test_score"][[1, 2, 0]])
    assert display.best_ == {"score": found.best_params_[name]}
    assert "higher is better" in display.ax_.get_ylabel()
    # The band is one standard deviation wide.
    corners = display.band_.get_paths()[0].vertices
    for n, mean, std in zip(x, y, found.cv_results_["std_test_score"][[1, 2, 0]], strict=True):
        heights = corners[corners[:, 0] == n, 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [mean - std, mean + std])


def test_other_parameters_of_a_search_are_at_their_best():
    grid = {"n_components": [1, 3], "covariance_type": ["full", "spherical"]}
    found = search(GaussianMixture(random_state=0), grid)
    display, results = ModelSelectionDisplay.from_estimator(found), found.cv_results_
    for n, score in zip(*display.lines_["score"].get_data(), strict=True):
        assert score == results["mean_test_score"][results["param_n_components"] == n].max()


def test_of_several_metrics_the_one_of_the_refit_is_drawn():
    def half(estimator, X, y=None):
        return 0.5 * estimator.score(X)

    scoring = {"half": half, "full": lambda *arguments: 2.0 * half(*arguments)}
    several = {"scoring": scoring, "refit": "half"}
    found = search(GaussianMixture(random_state=0), {"n_components": [1, 2]}, **several)
    display = ModelSelectionDisplay.from_estimator(found)
    np.testing.assert_array_equal(display.score, found.cv_results_["mean_test_half"])
    found.refit = False
    with pytest.raises(ValueError, match="refit= must name"):
        ModelSelectionDisplay.from_estimator(found)


def test_numbers_of_states_are_compared_as_numbers_of_components_are():
    hmms = [GaussianHMM(n, random_state=0, max_iter=5, tol=1.0).fit(TRAIN) for n in (1, 2)]
    display = ModelSelectionDisplay.from_estimators(hmms, TRAIN, TEST)
    n = len(hmms[0].score_samples(TRAIN))
    expected = [hmm.bic(TRAIN) / (2.0 * n) for hmm in hmms]
    np.testing.assert_allclose(display.lines_["bic"].get_ydata(), expected)


@pytest.mark.parametrize("values", [[0.1, 0.5, 2.5], ["diag", "full", "tied"]])
def test_other_parameters_are_numbers_or_texts(values):
    given = {"score": [1.0, 3.0, 2.0], "parameter": "parameter"}
    display = ModelSelectionDisplay(values, **given).plot()
    assert display.best_ == {"score": values[1]}
    display.figure_.canvas.draw()
    shown = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert isinstance(values[0], float) or shown == values


def test_single_models_have_whole_ticks():
    display = ModelSelectionDisplay([7], score=[1.0]).plot()
    ticks = [x for x in display.ax_.get_xticks() if 6.0 < x < 8.0]
    assert ticks == [7.0]


def test_fifty_numbers_are_told_apart_without_colours():
    values = (np.arange(50) - 20.0) ** 2
    display = ModelSelectionDisplay(
        range(1, 51), bic=values, aic=values, score=values, n_samples=10
    ).plot()
    assert display.best_ == {"bic": 21, "aic": 21, "score": 50}
    assert len({line.get_linestyle() for line in display.lines_.values()}) == 3
    assert len({mark.get_marker() for mark in display.marks_.values()}) == 3
    ticks = display.ax_.get_xticks()
    assert (ticks == np.rint(ticks)).all()
