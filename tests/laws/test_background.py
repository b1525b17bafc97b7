"""A wide background in scores: its density, its moments, and that learning does not use it."""

import pickle

import numpy as np
import pytest
from cases.enumeration import all_paths, log_prior_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from sklearn_onlineem import GaussianHMM, GaussianMixture, LaplaceMixture, combine_estimators
from sklearn_onlineem._values import checksum
from sklearn_onlineem.distributed import DistributedEM

SHARE = 0.1
every_class = pytest.mark.parametrize("kind", [GaussianMixture, LaplaceMixture, GaussianHMM])
every_mixture = pytest.mark.parametrize("kind", [GaussianMixture, LaplaceMixture])


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + [100.0, 0.0, -5.0]
    X[::10] *= 3.0
    return X


def estimator(kind, background=SHARE, **parameters):
    return kind(2, background=background, random_state=0, **parameters)


def moments_of(fitted):
    moments = fitted._fitted.state.moments
    n = moments.weight[0]
    return n, moments.mean[0], moments.scatter[0] / n


def log_background(X, of):
    """Log t density of the present values of rows, about the moments of the rows `of`."""
    (n, d), covariance = of.shape, np.cov(of.T, bias=True)
    scale = (1.0 - 1e-6) * covariance * n / (n + d)
    np.fill_diagonal(scale, np.diagonal(covariance))
    found = np.zeros(len(X))
    for i, row in enumerate(X):
        present = np.flatnonzero(~np.isnan(row))
        if len(present):
            t = multivariate_t(of.mean(axis=0)[present], scale[np.ix_(present, present)], df=3)
            found[i] = t.logpdf(row[present])
    return found


def mixed(log_densities, background):
    return np.logaddexp(np.log1p(-SHARE) + log_densities, np.log(SHARE) + background[:, None])


@every_mixture
def test_mixtures_have_it_in_each_component(kind):
    X, new = rows(), np.concatenate([rows(seed=1), [[1e5, 0.0, 0.0]]])
    fitted = estimator(kind).fit(X)
    model = fitted.model_
    log_densities = model.family.log_density(model.parameters, new)
    joint = mixed(log_densities, log_background(new, X)) + np.log(model.weights)
    totals = logsumexp(joint, axis=1)
    assert_allclose(fitted.score_samples(new), totals, rtol=1e-9)
    assert_allclose(fitted.score(new), totals.mean(), rtol=1e-9)
    assert_allclose(fitted.predict_proba(new), np.exp(joint - totals[:, None]), atol=1e-9)
    # A row that no component explains does not tell which one it is of.
    assert_allclose(fitted.predict_proba(new)[-1], fitted.weights_)


def test_chains_have_it_in_each_state():
    X = rows()
    X[3, 1] = X[4, 2] = X[7] = np.nan
    fitted = estimator(GaussianHMM, covariance_type="full").fit(X)
    new = X[2:9]
    log_densities = np.zeros((len(new), 2))
    for i, row in enumerate(new):
        present = np.flatnonzero(~np.isnan(row))
        for k in range(2):
            cov = fitted.covars_[k][np.ix_(present, present)]
            deviation = (row - fitted.means_[k])[present]
            square = deviation @ np.linalg.solve(cov, deviation) if len(present) else 0.0
            log_det = np.linalg.slogdet(2 * np.pi * cov)[1] if len(present) else 0.0
            log_densities[i, k] = -0.5 * (square + log_det)
    complete = X[~np.isnan(X).any(axis=1)]
    emitted = mixed(log_densities, log_background(new, complete))
    paths = all_paths(2, len(new))
    joint = log_prior_of(fitted.model_, paths) + emitted[np.arange(len(new)), paths].sum(axis=1)
    total = logsumexp(joint)
    assert_allclose(fitted.score(new), total, rtol=1e-9)
    is_first = paths == 0
    posterior = [np.exp(logsumexp(joint[is_first[:, t]]) - total) for t in range(len(new))]
    assert_allclose(fitted.predict_proba(new)[:, 0], posterior, atol=1e-9)
    assert_allclose(fitted.decode(new)[0], joint.max(), rtol=1e-9)
    live = pickle.loads(pickle.dumps(fitted.live_filter()))
    assert_allclose([live.update(row) for row in new], fitted.filter(new), atol=1e-12)


@every_class
def test_learning_does_not_use_it(kind):
    fits = [estimator(kind, background).fit(rows()) for background in (0.0, SHARE)]
    for i in range(0, 60, 7):
        for fitted in fits:
            fitted.partial_fit(rows(seed=2)[i : i + 7])
    without, with_it = fits
    assert checksum(with_it.model_) == checksum(without.model_)
    assert with_it.history_ == without.history_
    assert without._fitted.state.moments is None
    assert with_it.score(rows()) != without.score(rows())


@every_class
def test_moments_are_those_of_all_rows(kind):
    X = rows(900)
    whole = estimator(kind).fit(X)
    stream, first, second = estimator(kind), estimator(kind), estimator(kind)
    for i in range(0, 900, 30):
        stream.partial_fit(X[i : i + 30])
    first.fit(X[:200])
    second.fit(X[200:300]).set_params(warm_start=True).fit(X[300:])
    merged = combine_estimators([first, second])
    for fitted in (whole, stream, merged):
        n, mean, covariance = moments_of(fitted)
        assert n == 900
        assert_allclose(mean, X.mean(axis=0), rtol=1e-12)
        assert_allclose(covariance, np.cov(X.T, bias=True), rtol=1e-12)


@every_mixture
def test_weights_are_numbers_of_rows(kind):
    X, weight = rows(40), np.arange(40)
    weighted = estimator(kind).partial_fit(X, sample_weight=weight)
    repeated = np.repeat(X, weight, axis=0)
    n, mean, covariance = moments_of(weighted)
    assert n == weight.sum()
    assert_allclose(mean, repeated.mean(axis=0), rtol=1e-12)
    assert_allclose(covariance, np.cov(repeated.T, bias=True), rtol=1e-12)
    huge = estimator(kind).partial_fit(X.astype(np.float32), sample_weight=1e30 * weight)
    assert_allclose(moments_of(huge)[2], covariance, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_far_from_zero_no_digits_are_lost(dtype):
    X = (rows(200) * 64.0).round().astype(dtype)  # sums with the offset are exact
    near = estimator(GaussianMixture).partial_fit(X[:50]).partial_fit(X[50:])
    far = estimator(GaussianMixture).partial_fit(X[:50] + dtype(2**20))
    far.partial_fit(X[50:] + dtype(2**20))
    assert far.score_samples(X[:1]).dtype == np.float64
    assert_allclose(moments_of(far)[2], moments_of(near)[2], rtol=1e-5 if dtype == "f4" else 1e-12)


@every_class
def test_a_stream_resumes_bit_for_bit(kind):
    X = rows(600)
    stream = estimator(kind).partial_fit(X[:100]).partial_fit(X[100:300])
    loaded = pickle.loads(pickle.dumps(stream))
    scores = [one.partial_fit(X[300:]).score_samples(X) for one in (stream, loaded)]
    assert_array_equal(*scores)


def test_the_posterior_predictive_has_it_too():
    X, new = rows(), rows(seed=1)
    prior = {"mean_precision": 0.1, "covariance": 1.0, "degrees_of_freedom": 5.0}
    given = {"prior": prior, "solver": "bayesian", "weight_concentration_prior": 1.0}
    without, with_it = (
        GaussianMixture(background=share, **given).partial_fit(X) for share in (0.0, SHARE)
    )
    expected = mixed(without.score_samples(new, True)[:, None], log_background(new, X))
    assert_allclose(with_it.score_samples(new, True), expected[:, 0], rtol=1e-9)


@every_class
def test_few_or_equal_rows_have_scores(kind):
    one = estimator(kind).partial_fit([[1.0, 2.0]])
    without = estimator(kind, 0.0).partial_fit([[1.0, 2.0]])
    assert_array_equal(one.score_samples([[1.0, 3.0]]), without.score_samples([[1.0, 3.0]]))
    # Fewer rows than columns, and a constant column.
    X = np.column_stack([rows(6), rows(6, seed=1), np.full(6, 7.0)])
    few = estimator(kind).partial_fit(X[:3])
    assert np.isfinite(few.score_samples(X[3:])).all()


def test_it_is_no_narrower_than_the_model():
    """Where columns depend on each other, however many rows say so."""
    X, weight = np.repeat(rows()[:, :1], 2, axis=1), np.full(60, 1e12)
    without, with_it = (
        GaussianMixture(background=share).fit(X, sample_weight=weight).score_samples(X)
        for share in (0.0, SHARE)
    )
    assert (with_it < without.max()).all()


@every_class
def test_what_is_wrong_is_named(kind):
    name = kind.__name__
    for share in (1.0, -0.1, "much"):
        with pytest.raises(ValueError, match=f"'background' parameter of {name}"):
            estimator(kind, share).fit(rows())
    fitted = estimator(kind, 0.0).fit(rows()).set_params(background=SHARE)
    with pytest.raises(ValueError, match=f"{name}: background=0.1 needs rows"):
        fitted.score(rows())
    assert np.isfinite(fitted.partial_fit(rows()).score(rows()))
    with pytest.raises(ValueError, match=f"background of {name} must be a number between 0 and 1"):
        fitted.set_params(background=2.0).score(rows())
    with pytest.raises(ValueError, match=f"DistributedEM: {name} must have background=0"):
        DistributedEM(estimator(kind)).fit(rows())
