"""Maps of responsibilities."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sklearn_onlineem import GaussianHMM, GaussianMixture
from sklearn_onlineem.displays import ResponsibilityDisplay

X = load_iris().data


def drawn(n_rows, n_components, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n_components, 0.3), n_rows)


def test_rows_are_sorted_by_component_and_from_sure_to_unsure():
    mixture = GaussianMixture(3, covariance_type="tied", random_state=0).fit(X[:, :2])
    display = ResponsibilityDisplay.from_estimator(mixture, X[:, :2])
    found = mixture.predict_proba(X[:, :2])[display.order_]
    np.testing.assert_array_equal(display.image_.get_array().T, found)
    components, sureness = found.argmax(axis=1), found.max(axis=1)
    assert (np.diff(components) >= 0).all()
    assert (np.diff(sureness)[np.diff(components) == 0] <= 0.0).all()
    np.testing.assert_array_equal(np.sort(display.order_), np.arange(len(X)))


def test_rows_may_stay_as_they_came():
    found = drawn(20, 4)
    display = ResponsibilityDisplay(found).plot(sort=False)
    np.testing.assert_array_equal(display.image_.get_array(), found.T)
    assert display.boundaries_ is None and display.ax_.get_xlabel() == "rows"


def test_boundaries_are_where_components_with_rows_change():
    for components, expected in (([2, 0, 2, 2, 0, 1], [2.0, 3.0]), ([1, 1, 3], [2.0])):
        display = ResponsibilityDisplay.from_predictions(np.eye(4)[components])
        assert [segment[0, 0] for segment in display.boundaries_.get_segments()] == expected


def test_each_row_and_component_has_its_cell():
    display = ResponsibilityDisplay.from_predictions(drawn(200, 50))
    assert display.image_.get_extent() == [0.0, 200, 49.5, -0.5]
    assert display.image_.get_clim() == (0.0, 1.0) and display.boundaries_ is None
    # Smoothed pixels would mix components.
    assert display.image_.get_interpolation() == "nearest"
    ticks = display.ax_.get_yticks()
    assert (ticks == np.rint(ticks)).all() and len(ticks) <= 12
    alone = ResponsibilityDisplay.from_predictions(np.ones((9, 1))).ax_.get_yticks()
    assert (alone == np.rint(alone)).all()


@pytest.mark.parametrize("as_list", [False, True])
def test_states_of_sequences_are_components(as_list):
    hmm = GaussianHMM(2, random_state=0, max_iter=3, tol=1.0).fit(X)
    data = [X[:80], X[80:]] if as_list else X
    found = hmm.predict_proba(data)
    display = ResponsibilityDisplay.from_estimator(hmm, data)
    expected = np.concatenate(found) if as_list else found
    np.testing.assert_array_equal(display.responsibilities, expected)


def test_looks_can_be_changed():
    options = {"cmap": "Blues", "colorbar": False, "im_kw": {"vmin": -1.0}}
    display = ResponsibilityDisplay.from_predictions(drawn(9, 2), **options)
    assert len(display.figure_.axes) == 1
    assert display.image_.get_cmap().name == "Blues" and display.image_.get_clim() == (-1.0, 1.0)
