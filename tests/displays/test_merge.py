"""Sites and what they were merged into."""

import numpy as np
from cases.ellipses import assert_holds
from sklearn.datasets import load_iris

from sklearn_onlineem import GaussianMixture, LaplaceMixture, combine_estimators
from sklearn_onlineem.displays import MergeDisplay, MixtureDisplay

X = load_iris().data


def sites_of(X=X, n_sites=3, n_components=3, kind=GaussianMixture, **parameters):
    sites = [
        kind(n_components, random_state=0, **parameters).fit(X[i::n_sites]) for i in range(n_sites)
    ]
    return combine_estimators(sites), sites


def test_sites_and_merged_are_where_squared_distances_are_the_quantile():
    merged, sites = sites_of()
    display = MergeDisplay.from_estimator(merged, sites, features=[2, 1], mass=0.7)
    drawn = zip([merged, *sites], [display.merged_, *display.sites_], strict=True)
    for mixture, patches in drawn:
        for k, patch in enumerate(patches):
            covariance = mixture.covariances_[k][np.ix_([2, 1], [2, 1])]
            assert_holds(patch, 0.7, mixture.means_[k, [2, 1]], covariance)


def test_sites_are_in_the_discriminants_of_the_merged_mixture():
    merged, sites = sites_of()
    display = MergeDisplay.from_estimator(merged, sites)
    alone = MixtureDisplay.from_estimator(merged, masses=0.9)
    for patch, other in zip(display.merged_, alone.ellipses_[:, 0], strict=True):
        np.testing.assert_allclose(patch.get_center(), other.get_center())
        np.testing.assert_allclose(patch.width, other.width)
    origin = merged.weights_ @ merged.means_
    for site, patches in zip(sites, display.sites_, strict=True):
        centres = [patch.get_center() for patch in patches]
        np.testing.assert_allclose(centres, (site.means_ - origin) @ alone.directions, atol=1e-9)


def test_lines_tell_sites_from_each_other_and_from_the_merged_without_colours():
    display = MergeDisplay.from_estimator(*sites_of(), names=["north", "east", "west"])
    styles = [str(patches[0].get_linestyle()) for patches in display.sites_]
    assert len(set(styles)) == 3
    assert display.merged_[0].get_linewidth() > 1.5 * display.sites_[0][0].get_linewidth()
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["merged, 90 % of mass", "north", "east", "west"]


def test_long_names_have_lines_of_their_own():
    merged, sites = sites_of(n_sites=4)
    names = [f"the hospital in town number {i}" for i in range(4)]
    display = MergeDisplay.from_estimator(merged, sites, names=names)
    display.figure_.canvas.draw()
    box = display.figure_.legends[0].get_window_extent()
    assert 0.0 <= box.x0 < box.x1 <= display.figure_.bbox.x1


def test_many_sites_have_one_name():
    merged, sites = sites_of(n_sites=12, n_components=1)
    display = MergeDisplay.from_estimator(merged, sites)
    assert len(display.sites_) == 12
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["merged, 90 % of mass", "12 sites"]


def test_opacity_grows_with_weights():
    merged, sites = sites_of(n_components=2)
    display = MergeDisplay.from_estimator(merged, sites)
    for mixture, patches in zip([merged, *sites], [display.merged_, *display.sites_], strict=True):
        alphas = np.array([patch.get_edgecolor()[3] for patch in patches])
        assert np.diff(alphas[mixture.weights_.argsort()])[0] > 0.05


def test_fifty_components_and_rows_are_drawn():
    rows = np.random.default_rng(0).uniform(size=(400, 2))
    start = {"means_init": rows[:50], "covariance_type": "diag", "tol": 10.0}
    merged, sites = sites_of(rows, 2, 50, **start)
    display = MergeDisplay.from_estimator(merged, sites, rows)
    assert display.merged_.shape == (50,) and not display.labels_
    np.testing.assert_array_equal(display.scatter_.get_offsets(), rows)


def test_laplace_components_are_drawn_in_features():
    merged, sites = sites_of(kind=LaplaceMixture)
    display = MergeDisplay.from_estimator(merged, sites)
    found = display.merged_[0].get_xy()[:4].mean(axis=0)
    pairs = [merged.means_[0, [i, j]] for i in range(4) for j in range(i)]
    pairs = [pair[::-1] for pair in pairs]
    assert min(np.abs(found - pair).max() for pair in pairs) < 1e-9
