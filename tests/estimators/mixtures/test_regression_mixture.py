"""Mixtures of regressions: against least squares, by definition, and in streams."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import Mixture, PrequentialSearch, RegressionMixture, StreamPipeline
from sklearn_onlineem.diagnostics import EarlyStopping
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Online
from sklearn_onlineem.families import GaussianRegression

SLOPES, INTERCEPT, NOISE = np.array([-2.0, 2.0]), 1.0, 0.3


def crossing(rng, n):
    """Rows of two lines that cross where the rows are densest."""
    X = rng.normal(size=(n, 1))
    y = SLOPES[rng.integers(0, 2, n)] * X[:, 0] + INTERCEPT + NOISE * rng.normal(size=n)
    return X, y


def assert_crossing(mixture, tolerance=0.1):
    order = np.argsort(mixture.coef_[:, 0, 0])
    assert_allclose(mixture.coef_[order, 0, 0], SLOPES, atol=tolerance)
    assert_allclose(mixture.intercept_, INTERCEPT, atol=tolerance)
    assert_allclose(mixture.weights_, 0.5, atol=tolerance)
    assert_allclose(np.sqrt(mixture.covariances_), NOISE, atol=tolerance)


def two_targets(rng, n=300):
    X = rng.normal(5.0, 2.0, (n, 3))
    Y = X @ rng.normal(size=(3, 2)) + [1.0, -2.0]
    return X, Y + rng.normal(size=(n, 2)) @ [[1.0, 0.5], [0.0, 1.0]]


def assert_least_squares(mixture, expected):
    assert_allclose(mixture.coef_, np.atleast_2d(expected.coef_)[None], rtol=1e-8)
    assert_allclose(mixture.intercept_, np.atleast_1d(expected.intercept_)[None], rtol=1e-8)


# --------------------------------------------------------------------------- one regression


@pytest.mark.parametrize("solver", ["auto", "batch", "bayesian"])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_regression_is_that_of_least_squares(solver, weighted, rng):
    X, Y = two_targets(rng)
    weight = rng.uniform(0.5, 3.0, len(X)) if weighted else None
    expected = LinearRegression().fit(X, Y, weight)
    mixture = RegressionMixture(solver=solver, reg_covar=0.0).fit(X, Y, weight)
    assert_least_squares(mixture, expected)
    residual = Y - expected.predict(X)
    covariance = np.average(residual[:, :, None] * residual[:, None], axis=0, weights=weight)
    assert_allclose(mixture.covariances_[0], covariance, rtol=1e-8)
    assert_allclose(mixture.predict(X), expected.predict(X), rtol=1e-8)
    assert mixture.score(X, Y) == pytest.approx(expected.score(X, Y), rel=1e-9)


def test_batches_at_harmonic_rates_are_least_squares_of_all_rows(rng):
    """A batch of a k-th of the rows so far weighs a k-th: eta = 1 / (k - 1)."""
    X, Y = two_targets(rng)
    for solver in ("auto", "online", Online(start_rows=0)):
        mixture = RegressionMixture(reg_covar=0.0, schedule="harmonic", eta0=1e12, solver=solver)
        for rows in np.split(np.arange(300), 6):
            mixture.partial_fit(X[rows], Y[rows])
        assert_least_squares(mixture, LinearRegression().fit(X, Y))
        assert mixture.n_samples_seen_ == 300


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_covariances_of_the_noise(covariance_type, rng):
    X, Y = two_targets(rng)
    residual = Y - LinearRegression().fit(X, Y).predict(X)
    mixture = RegressionMixture(covariance_type=covariance_type, reg_covar=0.0).fit(X, Y)
    covariance = residual.T @ residual / len(X)
    expected = {
        "full": covariance[None],
        "diag": np.diag(covariance)[None],
        "spherical": np.array([np.trace(covariance) / 2.0]),
    }
    assert_allclose(mixture.covariances_, expected[covariance_type], rtol=1e-8)
    n_coefficients, n_variances = 8, {"full": 3, "diag": 2, "spherical": 1}[covariance_type]
    assert mixture.model_.n_parameters() == n_coefficients + n_variances


# --------------------------------------------------------------------------- lines that cross


@pytest.mark.parametrize("seed", range(10))
def test_lines_that_cross_are_found(seed):
    X, y = crossing(np.random.default_rng(seed), 600)
    assert_crossing(RegressionMixture(2, random_state=seed).fit(X, y))


@pytest.mark.parametrize("batch_size", [1, 20, 500])
def test_a_stream_of_lines_that_cross(batch_size, rng):
    mixture = RegressionMixture(2, random_state=0)
    for _ in range(2000 // batch_size):
        mixture.partial_fit(*crossing(rng, batch_size))
    assert_crossing(mixture)
    assert mixture.n_samples_seen_ == 2000 and mixture.n_rows_kept_ == 0


@pytest.mark.parametrize(
    "solver", ["online", "batch", "stochastic", "adaptive", "componentwise", Online(sample=200)]
)
def test_all_solvers_find_them(solver, rng):
    mixture = RegressionMixture(2, solver=solver, random_state=0).fit(*crossing(rng, 2000))
    assert_crossing(mixture)
    for _ in range(10):
        if not isinstance(solver, Online):  # a sample begins with a stream
            mixture.partial_fit(*crossing(rng, 100))
    assert_crossing(mixture)


def test_a_sample_of_a_stream_has_inputs_and_targets(rng):
    mixture = RegressionMixture(2, solver=Online(sample=200), random_state=0)
    for _ in range(20):
        mixture.partial_fit(*crossing(rng, 100))
    assert_crossing(mixture)
    assert mixture.sample_.shape == (200, 2)


def test_clusters_of_rows_do_not_tell_lines_that_cross(rng):
    """Why the default start is not k-means, from which other mixtures start."""
    centres = np.array([[-2.0, 0.0, 3.0], [1.0, 2.0, 0.5], [0.5, -1.5, -2.0], [3.0, 0.0, 1.0]])
    X, slopes = rng.normal(size=(1000, 3)), centres[rng.integers(0, 4, 1000)]
    y = (slopes * X).sum(axis=1) + 0.2 * rng.normal(size=1000)
    scores = {}
    for init in ("short-em", "k-means"):
        start = RegressionMixture(4, init=init, max_iter=0, random_state=0).fit(X, y)
        scores[init] = start.log_density(X, y).mean()
    assert scores["short-em"] > scores["k-means"] + 0.5


def test_starts_depend_neither_on_units_nor_on_the_order_of_rows(rng):
    X, slopes = rng.normal(size=(300, 2)), rng.normal(size=(3, 2))
    y = (slopes[rng.integers(0, 3, 300)] * X).sum(axis=1) + 0.1 * rng.normal(size=300)
    order, units = rng.permutation(300), np.array([1024.0, 0.125])
    start = {"max_iter": 0, "random_state": 0}
    expected = RegressionMixture(3, **start).fit(X, y)
    shuffled = RegressionMixture(3, **start).fit(X[order], y[order])
    assert_allclose(shuffled.coef_, expected.coef_, rtol=1e-6)
    scaled = RegressionMixture(3, **start).fit(X * units, 64.0 * y)
    assert_allclose(scaled.coef_ * units / 64.0, expected.coef_, rtol=1e-6)
    assert_allclose(scaled.weights_, expected.weights_, rtol=1e-6)


def test_responsibilities_to_start_from(rng):
    X, y = crossing(rng, 200)
    shares = np.where((y > INTERCEPT)[:, None] == (X > 0.0), [0.0, 1.0], [1.0, 0.0])
    mixture = RegressionMixture(2, init=shares, weights_init=[0.3, 0.7], max_iter=0).fit(X, y)
    assert (np.sign(mixture.coef_.ravel()) == [-1.0, 1.0]).all()
    assert_allclose(mixture.weights_, [0.3, 0.7])
    for wrong in (shares[:5], np.ones((2, 2)), -shares):
        with pytest.raises(ValueError, match="^init of RegressionMixture must "):
            RegressionMixture(2, init=wrong).fit(X, y)


def test_a_criterion_tells_how_many_lines_there_are(rng):
    X, y = crossing(rng, 800)
    fits = [RegressionMixture(n, random_state=0).fit(X, y) for n in range(1, 5)]
    assert np.argmin([mixture.bic(X, y) for mixture in fits]) == 1
    log_densities, n_parameters = fits[1].log_density(X, y), 2 * 3 + 1
    assert fits[1].bic(X, y) == pytest.approx(n_parameters * np.log(800) - 2 * log_densities.sum())
    assert fits[1].aic(X, y) == pytest.approx(n_parameters * 2.0 - 2 * log_densities.sum())


# --------------------------------------------------------------------------------- inference


def fitted(rng, n_targets=2):
    X, Y = two_targets(rng)
    Y[:150] = -Y[:150]
    Y = Y[:, 0] if n_targets == 0 else Y[:, :n_targets]
    return RegressionMixture(2, random_state=0).fit(X, Y), X, Y


def test_predictions_and_densities_are_those_of_the_definition(rng):
    mixture, X, Y = fitted(rng)
    of_each = np.einsum("kpq,nq->nkp", mixture.coef_, X) + mixture.intercept_
    mean = np.einsum("k,nkp->np", mixture.weights_, of_each)
    second = of_each**2 + np.einsum("kpp->kp", mixture.covariances_)
    std = np.sqrt(np.einsum("k,nkp->np", mixture.weights_, second) - mean**2)
    found_mean, found_std = mixture.predict(X, return_std=True)
    assert_allclose(found_mean, mean, rtol=1e-9, atol=1e-9)
    assert_allclose(found_std, std, rtol=1e-9)
    assert_array_equal(mixture.predict(X), found_mean)
    densities = np.stack(
        [
            w * stats.multivariate_normal(np.zeros(2), R).pdf(Y - of_each[:, k])
            for k, (w, R) in enumerate(zip(mixture.weights_, mixture.covariances_, strict=True))
        ],
        axis=1,
    )
    assert_allclose(mixture.log_density(X, Y), np.log(densities.sum(axis=1)), rtol=1e-9)
    expected = densities / densities.sum(axis=1, keepdims=True)
    assert_allclose(mixture.responsibilities(X, Y), expected, rtol=1e-8, atol=1e-12)
    assert mixture.score(X, Y) == pytest.approx(r2_score(Y, mean))
    weight = rng.integers(0, 3, len(X))
    expected = r2_score(Y, mean, sample_weight=weight)
    assert mixture.score(X, Y, weight) == pytest.approx(expected)


@pytest.mark.parametrize("n_targets", [0, 1, 2])
def test_predictions_have_the_shape_of_targets(n_targets, rng):
    mixture, X, Y = fitted(rng, n_targets)
    y, components = mixture.sample(X)
    for values in (mixture.predict(X), *mixture.predict(X, return_std=True), y):
        assert values.shape == Y.shape
    assert components.shape == (300,)
    assert mixture.coef_.shape == (2, max(1, n_targets), 3)


def test_samples_are_those_of_the_model(rng):
    mixture, X, _ = fitted(rng)
    row = np.tile(X[:1], (50_000, 1))
    y, components = mixture.sample(row)
    mean, std = mixture.predict(X[:1], return_std=True)
    assert_allclose(y.mean(axis=0), mean[0], atol=5.0 * std.max() / np.sqrt(50_000))
    assert_allclose(y.std(axis=0), std[0], rtol=0.02)
    assert_allclose(np.bincount(components) / 50_000, mixture.weights_, atol=0.01)


def test_scores_of_solvers_with_several_models_are_those_of_their_mixture(rng):
    mixture = RegressionMixture(2, solver="adaptive", random_state=0)
    for _ in range(20):
        mixture.partial_fit(*crossing(rng, 100))
    X, y = crossing(rng, 10)
    models = mixture._fitted.state.carry["memories"]
    rows = mixture._input().read(X, y)
    expected = sum(
        w * np.exp(model.log_likelihood(rows))
        for w, model in zip(models.weights, models.models, strict=True)
    )
    assert_allclose(mixture.log_density(X, y), np.log(expected))
    means = [
        model.weights @ (model.parameters.matrix[:, 0] * x + model.parameters.offset)
        for model in models.models
        for x in X
    ]
    expected = models.weights @ np.reshape(means, (len(models.models), len(X)))
    assert_allclose(mixture.predict(X), expected, rtol=1e-9)


def test_float32_is_preserved(rng):
    mixture, X, Y = fitted(rng)
    single = RegressionMixture(2, random_state=0).fit(X.astype("f4"), Y)
    outputs = single.predict(X.astype("f4")), single.coef_, single.sample(X.astype("f4"))[0]
    assert {values.dtype for values in outputs} == {np.dtype("f4")}
    order = [0, 1] if abs(single.coef_[0] - mixture.coef_[0]).max() < 0.1 else [1, 0]
    assert_allclose(single.coef_[order], mixture.coef_, atol=1e-2)


# ---------------------------------------------------------------------------------- streams


def test_lines_that_move_are_followed(rng):
    mixture = RegressionMixture(2, random_state=0, schedule="constant", eta0=0.05)
    for t in range(200):
        X, y = crossing(rng, 50)
        mixture.partial_fit(X, y + 0.02 * t)
    assert_allclose(mixture.intercept_, INTERCEPT + 4.0, atol=0.6)


def test_a_prior_shrinks_coefficients_in_fit_and_in_streams(rng):
    X, y = crossing(rng, 400)
    prior = {"matrix_precision": 1e6}
    for mixture in (
        RegressionMixture(prior=prior).fit(X, y),
        RegressionMixture(prior=prior).partial_fit(X, y),
    ):
        assert abs(mixture.coef_).max() < 0.01


def test_shards_of_rows(rng):
    X, y = crossing(rng, 800)
    with_shards = DistributedEM(RegressionMixture(2, random_state=0), n_shards=3)
    with_shards.fit(X, y, validation=(X, y))
    assert_crossing(with_shards.estimator_)
    score = with_shards.estimator_.score(X, y)
    assert with_shards.history_[-1].validation == pytest.approx(score, rel=1e-6)


def test_searches_pipelines_and_callbacks(rng):
    X, y = crossing(rng, 300)
    y = y + 3.0 * X[:, 0]
    search = GridSearchCV(RegressionMixture(random_state=0), {"n_components": [1, 2]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.5
    assert cross_val_score(RegressionMixture(), X, y).min() > 0.4
    stream = StreamPipeline(
        [("scale", StandardScaler()), ("learn", RegressionMixture(2, random_state=0))]
    )
    chunks = [(X[part], y[part]) for part in np.split(np.arange(300), 6)]
    assert stream.fit_stream(chunks).prequential_score_ > 0.4
    grid = {"covariance_type": ["full", "diag"]}
    assert PrequentialSearch(RegressionMixture(), grid).fit_stream(chunks).best_score_ > 0.4
    stopping = EarlyStopping(X, patience=2, y=y)
    RegressionMixture(2, solver="batch", callbacks=[stopping], random_state=0).fit(X, y)
    assert stopping.best_estimator.score(X, y) > 0.5
    frame = pd.DataFrame({"a": X[:, 0]})
    by_name = RegressionMixture().fit(frame, pd.Series(y))
    assert by_name.feature_names_in_.tolist() == ["a"]
    assert by_name.score(frame, pd.Series(y)) == pytest.approx(r2_score(y, by_name.predict(frame)))
    several = MultiOutputRegressor(RegressionMixture()).fit(X, np.column_stack([y, -y]))
    assert_allclose(several.predict(X).sum(axis=1), 0.0, atol=1e-9)


def test_the_family_serves_other_mixtures(rng):
    X, y = crossing(rng, 600)
    rows = np.column_stack([X, y])
    family = GaussianRegression(n_inputs=1)
    found = Mixture(2, family=family, init="random", n_init=3, random_state=0).fit(rows)
    expected = RegressionMixture(2, random_state=0).fit(X, y)
    assert found.score(rows) == pytest.approx(expected.log_density(X, y).mean(), abs=2e-3)


# ----------------------------------------------------------------------------------- refusals


def test_few_rows(rng):
    X, y = crossing(rng, 3)
    mixture = RegressionMixture(2, random_state=0).partial_fit(X[:1], y[:1])
    assert np.isfinite(mixture.predict(X)).all()
    assert np.isfinite(RegressionMixture(3, random_state=0).fit(X, y).predict(X)).all()


def test_targets_without_noise(rng):
    X = rng.normal(size=(100, 2))
    y = X @ [1.0, 2.0]
    for n_components in (1, 2):
        mixture = RegressionMixture(n_components, random_state=0).fit(X, y)
        assert_allclose(mixture.predict(X), y, atol=1e-6)
        assert np.isfinite(mixture.log_density(X, y)).all()


# --------------------------------------------------------------------------------- known models

all_noises = pytest.mark.parametrize("noise", ["full", "diag", "spherical"])
ATTRIBUTES = ("weights_", "coef_", "intercept_", "covariances_")


def fitted_to_two_targets(rng, noise, **arguments):
    """A fit of two lines, in two targets, and its data."""
    X, y = crossing(rng, 400)
    Y = np.column_stack([y, 3.0 - y + rng.normal(size=400)])
    mixture = RegressionMixture(2, covariance_type=noise, random_state=0, **arguments)
    return mixture.fit(X, Y), X, Y


@all_noises
def test_a_known_model_learns_with_the_inputs_of_its_first_data(noise, rng):
    fitted, X, Y = fitted_to_two_targets(rng, noise)
    known = RegressionMixture.from_parameters(
        covariance_type=noise, eta0=0.5, beta=0.0,
        **{name[:-1]: getattr(fitted, name) for name in ATTRIBUTES},
    )  # fmt: skip
    batch = X[:50] + 1.0, Y[:50]
    known.partial_fit(*batch)
    # One step from a model that carries the moments of this batch.
    weights = np.full((50, 2), 0.5)
    seen = GaussianRegression(1, fitted.model_.family.noise, 0.0)
    inputs = seen.m_step(seen.expected_statistics(np.hstack(batch), weights))
    model = known._bound(fitted.model_, known._input().read(*batch))
    assert_allclose(model.parameters.input_covariance, inputs.input_covariance, rtol=1e-9)
    assert_allclose(model.parameters.mean[:, 0], inputs.mean[:, 0], rtol=1e-12)
    assert_allclose(model.parameters.offset, fitted.intercept_, rtol=1e-9)
    evidence, _ = model.e_step(known._input().read(*batch))
    expected = model.m_step(evidence + model.own_statistics().scale(2.0))
    assert_allclose(known.coef_, expected.parameters.matrix, rtol=1e-7)
    assert_allclose(known.intercept_, expected.parameters.offset, rtol=1e-7)
