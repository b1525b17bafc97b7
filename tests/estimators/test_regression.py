"""Regression by mixtures of features and targets."""

import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_identical
from cases.states import state_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils import get_tags

from sklearn_onlineem import (
    AnomalyDetector,
    GaussianMixture,
    MixtureRegressor,
)


def mixture(n_components=4, **parameters):
    return GaussianMixture(n_components, random_state=0, **parameters)


def bent(n=2000, seed=0, n_outputs=1):
    """Targets that are no linear functions of two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    y = np.abs(X[:, :1]) + 0.3 * X[:, 1:] * np.arange(1, n_outputs + 1)
    return X, y + 0.1 * rng.normal(size=(n, n_outputs))


def flat(data):
    X, y = data
    return X, y[:, 0]


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_one_component_is_linear_regression(n_outputs):
    X, y = bent(n_outputs=n_outputs)
    line = LinearRegression().fit(X, y)
    ours = MixtureRegressor(GaussianMixture(1, reg_covar=0.0)).fit(X, y)
    assert_allclose(ours.predict(X), line.predict(X), rtol=1e-9, atol=1e-9)
    assert ours.score(X, y) == pytest.approx(line.score(X, y), rel=1e-9)
    _, std = ours.predict(X, return_std=True)
    residual = y - line.predict(X)
    spread = np.sqrt(np.mean(residual**2, axis=0))
    assert_allclose(std, np.broadcast_to(spread, y.shape), rtol=1e-9)
    for found, rows in ((ours.score_samples(X, y), residual), (ours.score_samples(X), X)):
        normal = stats.multivariate_normal(rows.mean(axis=0), np.cov(rows.T, bias=True))
        assert_allclose(found, normal.logpdf(rows), rtol=1e-8)
    # In one pass over a stream it comes close.
    stream = MixtureRegressor(GaussianMixture(1, beta=1.0))
    for rows in np.split(np.arange(2000), 20):
        stream.partial_fit(X[rows], y[rows])
    assert_allclose(stream.predict(X), line.predict(X), atol=0.05)


def test_predictions_are_better_than_a_line_and_intervals_cover():
    (X, y), (X_new, y_new) = flat(bent()), flat(bent(seed=1))
    regressor = MixtureRegressor(mixture(8)).fit(X, y)
    assert regressor.score(X_new, y_new) > 0.97 > 0.6 > LinearRegression().fit(X, y).score(X, y)
    assert regressor.score(X_new, y_new) == r2_score(y_new, regressor.predict(X_new))
    for level in (0.5, 0.9):
        lower, upper = regressor.predict_interval(X_new, level=level)
        assert lower.shape == upper.shape == (2000,)
        assert np.mean((lower <= y_new) & (y_new <= upper)) == pytest.approx(level, abs=0.05)
    stream = MixtureRegressor(mixture(8))
    for rows in np.split(np.arange(2000), 20):
        assert stream.partial_fit(X[rows], y[rows]) is stream
    assert stream.score(X_new, y_new) > 0.95
    learner = mixture(8)
    for rows in np.split(np.arange(2000), 20):
        learner.partial_fit(np.column_stack([X, y])[rows])
    assert_identical(state_of(stream.mixture_), state_of(learner))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_default_mixture_has_a_weak_prior(weighted):
    X, y = flat(bent(400))
    weight = np.arange(400) % 3 if weighted else None
    default = MixtureRegressor().fit(X, y, sample_weight=weight)
    variances = np.cov(np.column_stack([X, y]).T, aweights=weight, ddof=0).diagonal()
    # The mode of an inverse Wishart distribution of 3 degrees is a 7th of its scale.
    prior = default.mixture_.prior
    assert_allclose(prior["covariance"], np.diag(7.0 * 0.25 * variances), rtol=1e-9)
    assert prior.keys() == {"covariance", "degrees_of_freedom"}
    assert prior["degrees_of_freedom"] == 3.0
    expected = MixtureRegressor(mixture(8, prior=prior)).fit(X, y, sample_weight=weight)
    assert_allclose(default.predict(X), expected.predict(X), rtol=1e-9)
    assert default.mixture is None


def test_the_default_has_fewer_components_for_few_rows():
    X, y = flat(bent(400))
    for n, expected in ((400, 8), (200, 6), (65, 2), (20, 1)):
        default = MixtureRegressor().fit(X[:n], y[:n])
        assert default.mixture_.n_components == expected
    doubled = MixtureRegressor().fit(X[:65], y[:65], sample_weight=np.full(65, 2.0))
    assert doubled.mixture_.n_components == 4
    assert MixtureRegressor().partial_fit(X[:20], y[:20]).mixture_.n_components == 8
    # A part that no rows determine is not fitted to noise.
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(300, 10)), rng.normal(size=(1000, 10))
    y, y_new = X[:, 0] + rng.normal(size=300), X_new[:, 0] + rng.normal(size=1000)
    free = MixtureRegressor(mixture(8, solver="batch")).fit(X, y)
    regressor = MixtureRegressor().fit(X, y)
    assert regressor.score(X_new, y_new) > 0.4 > free.score(X_new, y_new)
    normal = stats.norm(scale=y.std()).logpdf(y_new)
    assert regressor.score_samples(X_new, y_new).mean() > normal.mean() + 0.2
    assert free.score_samples(X_new, y_new).mean() < normal.mean()


@pytest.mark.parametrize(("size", "n"), [(1, 300), (7, 700), (100, 1400)])
def test_the_default_of_a_stream_follows_the_variance_of_its_rows(size, n):
    X, y = flat(bent(n))
    stream, units = MixtureRegressor(), np.array([1e-3, 1e5])
    elsewhere = MixtureRegressor()
    for start in range(0, n, size):
        rows = slice(start, start + size)
        stream.partial_fit(X[rows], y[rows])
        elsewhere.partial_fit(X[rows] * units, 1e4 * y[rows])
    prior = np.diag(stream.mixture_.prior["covariance"]) / (7.0 * 0.25)
    assert_allclose(prior, np.var(np.column_stack([X, y]), axis=0), rtol=0.2)
    assert stream.score(X, y) > 0.9
    assert elsewhere.score(X * units, 1e4 * y) == pytest.approx(stream.score(X, y), abs=0.01)


def test_features_that_are_missing_are_integrated_out():
    X, y = flat(bent())
    regressor = MixtureRegressor(mixture()).fit(X, y)
    gappy = X.copy()
    gappy[::3, 0], gappy[1::3, 1], gappy[5] = np.nan, np.nan, np.nan
    mean, std = regressor.predict(gappy, return_std=True)
    fitted = regressor.mixture_
    # Without features, the moments of the target alone.
    assert mean[5] == pytest.approx(fitted.weights_ @ fitted.means_[:, 2])
    second = fitted.covariances_[:, 2, 2] + (fitted.means_[:, 2] - mean[5]) ** 2
    assert std[5] == pytest.approx(np.sqrt(fitted.weights_ @ second))
    assert regressor.score_samples(gappy)[5] == pytest.approx(0.0, abs=1e-12)
    # Over draws of the missing feature, the mean of predictions.
    draws = fitted.conditional(np.column_stack([gappy, np.full(len(X), np.nan)]))
    means = [regressor.predict(draws.sample(seed)[:, :2]) for seed in range(200)]
    error = np.std(means, axis=0) / np.sqrt(200)
    assert (np.abs(np.mean(means, axis=0) - mean) <= 5.0 * error + 1e-9).all()
    table = pd.DataFrame(X, columns=["a", "b"]).convert_dtypes()
    table.iloc[0, 0] = pd.NA
    named = MixtureRegressor(mixture()).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert_allclose(named.predict(table)[0], mean[0], rtol=1e-9)


@pytest.mark.parametrize("chosen", [mixture(8), None], ids=["given", "default"])
def test_missing_features_are_learnt_from_where_the_mixture_can(chosen):
    X, y = flat(bent())
    gappy = np.where(np.random.default_rng(1).random(X.shape) < 0.2, np.nan, X)
    regressor = MixtureRegressor(chosen)
    assert get_tags(regressor).input_tags.allow_nan == get_tags(mixture()).input_tags.allow_nan
    if not get_tags(regressor).input_tags.allow_nan:
        for learn in (regressor.fit, regressor.partial_fit):
            with pytest.raises(ValueError, match="MixtureRegressor: .*NaN"):
                learn(gappy, y)
        return
    stream = clone(regressor)
    for rows in np.split(np.arange(2000), 20):
        stream.partial_fit(gappy[rows], y[rows])
    assert regressor.fit(gappy, y).score(X, y) > 0.97 and stream.score(X, y) > 0.95


def test_conditionals_of_any_columns():
    """Of `GaussianMixture`, which knows no targets."""
    X, y = bent()
    rows = np.hstack([X, y])
    fitted = mixture().fit(rows)
    given = np.where(np.arange(3) == 0, np.nan, rows)
    assert_allclose(fitted.conditional(given).weights.sum(axis=1), 1.0)
    inverse = MixtureRegressor(fitted).fit(rows[:, [1, 2]], rows[:, 0])
    assert inverse.predict(rows[:, [1, 2]]).shape == (2000,)
    # Two modes, as |x| has two inverses.
    law = fitted.conditional([[np.nan, 0.0, 2.0]], features=[0])
    assert law.means.shape == (1, 4, 1) and law.covariances.shape == (1, 4, 1, 1)
    assert abs(law.mean()[0, 0]) < 0.5 and law.covariance()[0, 0, 0] > 3.0
    single = fitted.conditional(given.astype(np.float32))
    assert single.means.dtype == np.float64
    assert_allclose(single.mean(), fitted.conditional(given).mean(), atol=1e-3)
    for wrong in ([3], [-1], [[0]], [0.5], ["x"], [0, 0], []):
        with pytest.raises(ValueError, match="GaussianMixture.*features must be different columns"):
            fitted.conditional(given, features=wrong)
    with pytest.raises(ValueError, match="GaussianMixture"):
        fitted.conditional(np.full((2, 3), np.inf))
    with pytest.raises(NotFittedError, match="GaussianMixture"):
        mixture().conditional(given)


def test_draws_are_of_the_conditional_law():
    X, y = bent(50, n_outputs=2)
    regressor = MixtureRegressor(mixture(2)).fit(X, y)
    draws = regressor.sample_y(X, 4000, random_state=0)
    assert draws.shape == (50, 2, 4000)
    mean, std = regressor.predict(X, return_std=True)
    assert (np.abs(draws.mean(axis=2) - mean) < 5.0 * std / np.sqrt(4000)).all()
    covariance = regressor.conditional(X).covariance()
    assert_allclose(std**2, np.einsum("nff->nf", covariance), rtol=1e-12)
    assert_array_equal(draws, regressor.sample_y(X, 4000, random_state=0))
    one = MixtureRegressor(mixture(2)).fit(X, y[:, 0])
    assert one.sample_y(X).shape == (50, 1)
    lower, upper = regressor.predict_interval(X, level=0.5)
    is_within = (lower[:, :, None] <= draws) & (draws <= upper[:, :, None])
    assert_allclose(is_within.mean(axis=2), 0.5, atol=5.0 * np.sqrt(0.25 / 4000))


def test_targets_have_the_form_that_they_had():
    X, y = bent(300)
    for form in (y, y[:, 0], pd.Series(y[:, 0]), y[:, 0].tolist(), pd.DataFrame(y)):
        regressor = MixtureRegressor(mixture(2)).fit(X, form)
        expected = np.shape(form)
        for found in (
            regressor.predict(X),
            *regressor.predict(X, True),
            *regressor.predict_interval(X),
        ):
            assert found.shape == expected
        assert regressor.score_samples(X, form).shape == (300,)
        assert regressor.n_outputs_ == 1 and regressor.n_features_in_ == 2


def test_weights_are_repetitions():
    X, y = flat(bent(300))
    weight = np.arange(300) % 3
    weighted = MixtureRegressor(mixture(2, tol=1e-10)).fit(X, y, sample_weight=weight)
    repeated = MixtureRegressor(mixture(2, tol=1e-10)).fit(
        np.repeat(X, weight, 0), np.repeat(y, weight)
    )
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4, atol=1e-4)


def test_it_works_with_what_scikit_learn_has():
    X, y = flat(bent(600))
    assert is_regressor(MixtureRegressor())
    scores = cross_val_score(MixtureRegressor(mixture(8)), X, y, scoring="neg_mean_squared_error")
    assert scores.min() > -0.1
    by_density = GridSearchCV(
        MixtureRegressor(mixture()),
        {"mixture__covariance_type": ["full", "spherical"]},
        scoring=lambda fitted, X, y: fitted.score_samples(X, y).mean(),
    ).fit(X, y)
    assert by_density.best_params_ == {"mixture__covariance_type": "full"}
    detector = AnomalyDetector(MixtureRegressor(mixture())).fit(X, y)
    assert_array_equal(detector.predict([[0.0, 0.0], [9.0, 9.0]]), [1, -1])
