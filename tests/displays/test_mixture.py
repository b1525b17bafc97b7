"""Pictures of mixtures: what is drawn where, by the numbers of the artists."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from cases.ellipses import assert_holds
from cases.estimator_cases import covariance_matrices
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy import sparse
from sklearn import mixture as rival
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sklearn_onlineem import (
    BernoulliMixture,
    CategoricalMixture,
    CompoundDirichletMixture,
    ExponentialMixture,
    GammaMixture,
    GaussianMixture,
    LaplaceMixture,
    Mixture,
    MultinomialMixture,
    PoissonMixture,
    StudentTMixture,
)
from sklearn_onlineem.displays import MixtureDisplay
from sklearn_onlineem.displays._planes import discriminant_directions
from sklearn_onlineem.families import Categorical

IRIS = load_iris()
SHAPES = ["full", "tied", "diag", "spherical"]


def named(value):
    """A name that is the same in each process."""
    return getattr(value, "__name__", str(value)[:60])


def fitted(kind="full", n_components=3, X=IRIS.data):
    return GaussianMixture(n_components, covariance_type=kind, random_state=0).fit(X)


# ----------------------------------------------------------------------------------- in the plane


@pytest.mark.parametrize("features", [[0, 2], [3, 1], None], ids=str)
@pytest.mark.parametrize("kind", SHAPES)
def test_ellipses_are_where_squared_distances_are_the_quantile_of_their_mass(kind, features):
    mixture, masses = fitted(kind), (0.3, 0.95)
    display = MixtureDisplay.from_estimator(mixture, features=features, masses=masses)
    V = display.directions if features is None else np.eye(4)[:, features]
    origin = mixture.weights_ @ mixture.means_ if features is None else np.zeros(4)
    centres = (mixture.means_ - origin) @ V
    for k, covariance in enumerate(covariance_matrices(mixture)):
        for j, mass in enumerate(masses):
            assert_holds(display.ellipses_[k, j], mass, centres[k], V.T @ covariance @ V)


PLANAR = [GaussianMixture(1), StudentTMixture(1, degrees_of_freedom=2.0), LaplaceMixture(1)]


@pytest.mark.parametrize("estimator", PLANAR, ids=str)
def test_regions_hold_their_mass_of_what_is_drawn_from_the_component(estimator):
    X = np.random.default_rng(0).standard_normal((500, 2)) * [1.0, 5.0] + [3.0, 0.0]
    estimator.set_params(random_state=0).fit(X)
    rows = estimator.sample(20_000)[0]
    display = MixtureDisplay.from_estimator(estimator, masses=[0.5, 0.9])
    for patch, mass in zip(display.ellipses_[0], [0.5, 0.9], strict=True):
        path = patch.get_patch_transform().transform_path(patch.get_path())
        share = path.contains_points(rows).mean()
        assert abs(share - mass) < 4.0 * np.sqrt(mass * (1.0 - mass) / 20_000)


def test_discriminant_directions_are_those_of_discriminant_analysis():
    X, y = IRIS.data, IRIS.target
    exact = {"semi_supervised": True, "solver": "batch", "reg_covar": 0.0, "max_iter": 2}
    mixture = GaussianMixture(3, covariance_type="tied", **exact).fit(X, y)
    directions = MixtureDisplay.from_estimator(mixture).directions
    expected = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2]
    cosines = (directions * expected).sum(axis=0) / np.linalg.norm(expected, axis=0)
    np.testing.assert_allclose(np.abs(cosines), np.linalg.norm(directions, axis=0), rtol=1e-8)


@pytest.mark.parametrize("n_components", [1, 2, 4])
@pytest.mark.parametrize("kind", SHAPES)
def test_components_have_unit_covariance_on_average_along_discriminants(kind, n_components):
    mixture = fitted(kind, n_components)
    V = MixtureDisplay.from_estimator(mixture).directions
    within = np.tensordot(mixture.weights_, covariance_matrices(mixture), 1)
    np.testing.assert_allclose(V.T @ within @ V, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 2, 4])
def test_discriminants_do_not_depend_on_units(n_components):
    mixture, units = fitted(n_components=n_components), np.array([1e3, 1.0, 1e-3, 7.0])
    weights, means, covariances = mixture.weights_, mixture.means_, mixture.covariances_
    directions = discriminant_directions(weights, means, covariances)
    scaled = covariances * np.outer(units, units)
    found = discriminant_directions(weights, means * units, scaled) * units[:, None]
    np.testing.assert_allclose(found, directions, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", SHAPES)
def test_scikit_learns_mixtures_have_the_same_picture(kind):
    theirs = rival.GaussianMixture(3, covariance_type=kind, random_state=0).fit(IRIS.data)
    ours = MixtureDisplay.from_estimator(theirs, IRIS.data, features=[1, 2], masses=0.9)
    for k, covariance in enumerate(covariance_matrices(theirs)):
        assert_holds(ours.ellipses_[k, 0], 0.9, theirs.means_[k, 1:3], covariance[1:3, 1:3])


def test_opacity_grows_with_weights_and_those_of_weight_0_are_not_seen():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 2)) + 20.0 * np.repeat(np.eye(3)[:, :2], [100, 200, 400], axis=0)
    mixture = GaussianMixture(3, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture)
    edges = [patch.get_edgecolor()[3] for patch in display.ellipses_[:, 0]]
    faces = [patch.get_facecolor()[3] for patch in display.ellipses_[:, 0]]
    order = mixture.weights_.argsort()
    assert np.diff(np.array(edges)[order]).min() > 0.1
    assert np.diff(np.array(faces)[order]).min() > 0.02
    without = MixtureDisplay(display.panels, [0.0, 0.5, 0.5]).plot()
    assert [patch.get_visible() for patch in without.ellipses_[:, 0]] == [False, True, True]
    assert [label.get_text() for label in without.labels_] == ["1", "2"]


def test_larger_masses_lie_around_smaller_ones_whatever_their_order():
    display = MixtureDisplay.from_estimator(fitted(), masses=[0.9, 0.5])
    wide, narrow = display.ellipses_[0]
    assert wide.width > narrow.width and wide.get_zorder() < narrow.get_zorder()
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["90 % of mass", "50 % of mass"]


def test_rows_are_points_in_the_colours_of_their_components():
    mixture, X = fitted(), IRIS.data.copy()
    X[75:, 2] = np.nan  # Gaps of features that are not drawn hide no rows.
    display = MixtureDisplay.from_estimator(mixture, X, features=[3, 0])
    np.testing.assert_array_equal(display.scatter_.get_offsets(), X[:, [3, 0]])
    colors = display.scatter_.get_facecolors()[:, :3]
    edges = np.array([patch.get_edgecolor()[:3] for patch in display.ellipses_[:, 0]])
    np.testing.assert_allclose(colors, edges[mixture.predict(X)])


def test_there_are_not_more_points_than_asked_for():
    display = MixtureDisplay.from_estimator(fitted(), IRIS.data, max_rows=7, features=[0, 1])
    found = display.scatter_.get_offsets()
    assert len(found) == 7
    np.testing.assert_array_equal(found[[0, -1]], IRIS.data[[0, -1], :2])


def test_fifty_components_are_drawn_without_numbers():
    X = np.random.default_rng(0).uniform(size=(500, 2))
    display = MixtureDisplay.from_estimator(fitted("diag", 50, X), X)
    assert display.ellipses_.shape == (50, 2) and not display.labels_
    assert len({patch.get_edgecolor()[:3] for patch in display.ellipses_[:, 0]}) == 50


# -------------------------------------------------------------------------------- by one feature


def durations(rng):
    return rng.gamma(np.where(rng.random((400, 1)) < 0.3, 2.0, 30.0))


def counts(rng):
    return rng.poisson(np.where(rng.random((400, 1)) < 0.3, 2.0, 15.0)).astype(float)


def reals(rng):
    return rng.normal(np.where(rng.random((400, 1)) < 0.3, -4.0, 4.0))


def codes(rng):
    return rng.integers(0, 4, (400, 1)).astype(float)


SINGLE = [
    (GaussianMixture(2), reals),
    (GaussianMixture(2, covariance_type="tied"), reals),
    (GaussianMixture(2, covariance_type="spherical"), reals),
    (LaplaceMixture(2), reals),
    (StudentTMixture(2), reals),
    (StudentTMixture(2, covariance_type="diag", degrees_of_freedom=3.0), reals),
    (PoissonMixture(2), counts),
    (ExponentialMixture(2), durations),
    (GammaMixture(2), durations),
    (GammaMixture(2, shape=3.0), durations),
    (Mixture(2, family=Categorical(4)), codes),
]


@pytest.mark.parametrize(("estimator", "draw"), SINGLE, ids=named)
def test_lines_are_densities_of_components_and_histograms_those_of_the_rows(estimator, draw):
    X = draw(np.random.default_rng(0))
    estimator.set_params(random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(estimator, X)
    x, total = display.totals_[0].get_data()
    log_density = estimator.score_samples(np.asarray(x, dtype=float)[:, None])
    np.testing.assert_allclose(total, np.exp(log_density), rtol=1e-7)
    parts = np.array([line.get_ydata() for line in display.curves_[0]])
    np.testing.assert_allclose(parts.sum(axis=0), total, rtol=1e-12)
    edges = display.panels[0].edges
    inside = [((low <= X) & (X < high)).mean() for low, high in itertools.pairwise(edges)]
    areas = np.diff(edges) * [bar.get_height() for bar in display.bars_[0]]
    # The last bin has both ends.
    np.testing.assert_allclose(areas[:-1], inside[:-1], atol=1e-12)
    assert areas.sum() > 0.98


def test_wide_counts_are_binned():
    X = np.random.default_rng(0).poisson(3000.0, (500, 1))
    display = MixtureDisplay.from_estimator(PoissonMixture(1).fit(X), X)
    edges = display.panels[0].edges
    assert len(edges) <= 62 and set(np.diff(edges)) == {np.diff(edges)[0]} != {1.0}


def test_an_unbounded_density_does_not_hide_the_rest():
    X = np.random.default_rng(0).gamma(0.05, size=(2000, 1)) + 1e-12
    display = MixtureDisplay.from_estimator(GammaMixture(1, max_iter=5).fit(X), X)
    heights = [bar.get_height() for bar in display.bars_[0]]
    assert max(heights) < display.ax_.get_ylim()[1] < 2.0 * max(heights)


def test_features_with_a_panel_each_are_those_that_tell_most():
    X = np.random.default_rng(0).poisson(5.0, (300, 6))
    X[:150, [1, 4]] += 40
    mixture = PoissonMixture(2, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    names = [ax.get_xlabel() for ax in display.ax_]
    assert len(names) == 4 and {"feature 1", "feature 4"} < set(names)
    single = MixtureDisplay.from_estimator(mixture, X, features=4)
    np.testing.assert_array_equal(
        single.totals_[0].get_ydata(), display.totals_[names.index("feature 4")].get_ydata()
    )


# ---------------------------------------------------------------------------------- side by side


@pytest.mark.parametrize("as_sparse", [False, True])
def test_probabilities_of_counts_are_beside_their_shares(as_sparse):
    X = np.random.default_rng(0).multinomial(20, [0.1, 0.2, 0.3, 0.4], 200).astype(float)
    mixture = MultinomialMixture(2, random_state=0).fit(X)
    rows = sparse.csr_array(X) if as_sparse else X
    display = MixtureDisplay.from_estimator(mixture, rows)
    heights = [bar.get_height() for bar in display.bars_[0]]
    np.testing.assert_allclose(heights, X.sum(axis=0) / X.sum())
    lines = np.array([line.get_ydata() for line in display.curves_[0]])
    np.testing.assert_allclose(lines, mixture.probabilities_)
    # At a maximum the mixture has the shares of the rows.
    np.testing.assert_allclose(display.totals_[0].get_ydata(), heights, rtol=1e-2)


def test_probabilities_of_ones_are_beside_their_shares():
    X = (np.random.default_rng(0).random((300, 50)) < 0.3).astype(float)
    X[:100, 7] = 1.0
    mixture = BernoulliMixture(3, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    chosen = [int(text.get_text()) for text in display.ax_.get_xticklabels()]
    assert len(chosen) == 30 and 7 in chosen
    heights = [bar.get_height() for bar in display.bars_[0]]
    np.testing.assert_allclose(heights, X[:, chosen].mean(axis=0))
    without_rows = MixtureDisplay.from_estimator(mixture)
    assert without_rows.bars_ == [None]
    for drawn in (display, without_rows):
        lines = np.array([line.get_ydata() for line in drawn.curves_[0]])
        np.testing.assert_allclose(lines, mixture.probabilities_[:, chosen])


@pytest.mark.parametrize("family", [None, {"smokes": "categorical", "age": "poisson"}])
def test_categories_have_their_names(family):
    rng = np.random.default_rng(0)
    table = {"age": rng.poisson(30, size=100), "smokes": rng.choice(["never", "often"], size=100)}
    table = pd.DataFrame(table)
    mixture = CategoricalMixture(2, random_state=0).fit(table[["smokes"]])
    if family is not None:
        mixture = Mixture(2, family=family, random_state=0).fit(table)
    display = MixtureDisplay.from_estimator(mixture, table[mixture.feature_names_in_])
    ax = np.ravel(display.ax_)[-1]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["never", "often"]
    share = np.mean(table["smokes"] == "never")
    np.testing.assert_allclose(display.bars_[-1][0].get_height(), share)


@pytest.mark.parametrize("kind", [rival.GaussianMixture, GaussianMixture])
def test_single_columns_have_histograms(kind):
    X = np.random.default_rng(0).normal(size=(200, 1))
    display = MixtureDisplay.from_estimator(kind(1).fit(X), X)
    edges = [bar.get_x() for bar in display.bars_[0]]
    assert len(edges) > 5 and -4.0 < edges[0] < edges[-1] < 4.0


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "estimator, draw",
    [
        (CategoricalMixture(2, random_state=0), lambda rng: rng.integers(3, size=(200, 2))),
        (PoissonMixture(2, random_state=0), lambda rng: rng.poisson(4.0, size=(200, 2))),
        (GammaMixture(2, random_state=0), lambda rng: rng.gamma(4.0, size=(200, 2))),
        (BernoulliMixture(2, random_state=0), lambda rng: rng.integers(2, size=(200, 2))),
    ],
    ids=named,
)
def test_missing_values_have_no_bars(estimator, draw):
    rng = np.random.default_rng(0)
    X = draw(rng).astype(float)
    gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    estimator = clone(estimator).fit(gaps)
    display = MixtureDisplay.from_estimator(estimator, gaps)
    heights = np.array([bar.get_height() for bar in display.bars_[0]])
    if isinstance(estimator, BernoulliMixture):
        np.testing.assert_allclose(heights, np.nanmean(gaps, axis=0))
        one = MixtureDisplay.from_estimator(estimator, [[np.nan, 1.0]])
        assert [bar.get_height() for bar in one.bars_[0]] == [0.0, 1.0]
    else:
        seen = gaps[~np.isnan(gaps[:, 0]), :1]
        alone = type(estimator)(2, random_state=0).fit(seen)
        widths = np.array([bar.get_width() for bar in display.bars_[0]])
        others = MixtureDisplay.from_estimator(alone, seen).bars_[0]
        area = sum(bar.get_width() * bar.get_height() for bar in others)
        np.testing.assert_allclose(widths @ heights, area, rtol=0.02)


def test_many_components_side_by_side_are_dashes_with_one_name():
    X = np.random.default_rng(0).multinomial(20, np.full(5, 0.2), 200).astype(float)
    mixture = CompoundDirichletMixture(50, random_state=0, max_iter=2, tol=1.0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X)
    assert {line.get_linestyle() for line in display.curves_[0]} == {"None"}
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["components", "mixture", "data"]


def test_lines_of_a_few_components_differ_without_colours():
    X = counts(np.random.default_rng(0))
    display = MixtureDisplay.from_estimator(PoissonMixture(4, random_state=0).fit(X), X)
    assert len({str(line.get_linestyle()) for line in display.curves_[0]}) == 4


# ----------------------------------------------------------------------------------- conventions


def test_names_of_features_are_on_the_axes():
    X = load_iris(as_frame=True).data
    mixture = GaussianMixture(2, random_state=0).fit(X)
    display = MixtureDisplay.from_estimator(mixture, X, features=["petal width (cm)", 0])
    assert display.ax_.get_xlabel() == "petal width (cm)"
    assert display.ax_.get_ylabel() == "sepal length (cm)"


def test_the_style_is_the_users():
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=["#123456", "#abcdef"])}):
        display = MixtureDisplay.from_estimator(fitted(n_components=2))
    assert plt.matplotlib.colors.to_hex(display.ellipses_[1, 0].get_edgecolor()) == "#abcdef"


def test_looks_can_be_changed():
    keywords = {"scatter_kw": {"s": 99.0}, "line_kw": {"linestyle": ":"}}
    display = MixtureDisplay.from_estimator(fitted(), IRIS.data, **keywords)
    assert display.scatter_.get_sizes() == [99.0]
    assert {patch.get_linestyle() for patch in display.ellipses_.flat} == {":"}


def test_pixels_of_an_ellipse_are_about_its_area():
    """Of what a file has in the end: filled pixels, by the area of the ellipse."""
    X = np.random.default_rng(0).standard_normal((200, 2))
    look = {"masses": 0.9, "line_kw": {"linewidth": 0.0}}
    display = MixtureDisplay.from_estimator(GaussianMixture(1).fit(X), **look)
    display.ax_.set(xlim=(-4.0, 4.0), ylim=(-4.0, 4.0))
    canvas = FigureCanvasAgg(display.figure_)
    canvas.draw()
    inside = display.ax_.get_window_extent()
    pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3]
    panel = pixels[int(inside.y0) : int(inside.y1), int(inside.x0) : int(inside.x1)]
    (ellipse,) = display.ellipses_[0]
    area = np.pi * ellipse.width * ellipse.height / 4.0 / 64.0
    assert abs((panel.min(axis=2) < 250).mean() / area - 1.0) < 0.05
