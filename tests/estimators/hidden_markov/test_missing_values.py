"""Rows that were not observed, and rows of which only some values were."""

import numpy as np
import pytest
from cases.comparing import assert_close
from cases.enumeration import Enumeration
from cases.random_rows import count_rows, normal_rows
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone

from sklearn_onlineem import HMM, CategoricalHMM, GaussianHMM, MultinomialHMM, PoissonHMM

KINDS = ["full", "tied", "diag", "spherical"]
LENGTHS = [4, 1, 5, 3, 6]
N_ROWS = sum(LENGTHS)
all_kinds = pytest.mark.parametrize("kind", KINDS)
others = pytest.mark.parametrize(
    "hmm",
    [PoissonHMM(2), MultinomialHMM(2), CategoricalHMM(2), HMM(2, family="exponential")],
    ids=lambda hmm: type(hmm).__name__,
)


def gaussian_data(rng, n_rows=N_ROWS, share=0.3):
    """Correlated rows, with gaps, of which some are whole rows."""
    X = normal_rows(rng, n_rows, 3) @ rng.standard_normal((3, 3))
    X[rng.random(X.shape) < share] = np.nan
    X[rng.random(n_rows) < 0.15] = np.nan
    return X


def marginal_log_densities(hmm, X):
    """By scipy, of the sub-vectors that were observed."""
    out = np.zeros((len(X), hmm.n_components))
    for t, row in enumerate(X):
        o = np.flatnonzero(~np.isnan(row))
        for k in range(hmm.n_components) if len(o) else ():
            density = stats.multivariate_normal(hmm.means_[k][o], hmm.covars_[k][np.ix_(o, o)])
            out[t, k] = density.logpdf(row[o])
    return out


def completed(hmm, X, posterior):
    """Expected means and scatters (K, d, d), state by state and row by row, by their definition."""
    n_states, d = hmm.means_.shape
    first, second = np.zeros((n_states, d)), np.zeros((n_states, d, d))
    weight = np.zeros(n_states)
    for row, shares in zip(X, posterior, strict=True):
        o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        for k in range(n_states) if len(o) else ():
            mean, covariance = hmm.means_[k], hmm.covars_[k]
            gain = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
            filled, spread = row.copy(), np.zeros((d, d))
            filled[m] = mean[m] + gain @ (row[o] - mean[o])
            spread[np.ix_(m, m)] = covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)]
            weight[k] += shares[k]
            first[k] += shares[k] * filled
            second[k] += shares[k] * (np.outer(filled, filled) + spread)
    means = first / weight[:, None]
    return weight, means, second - weight[:, None, None] * means[:, :, None] * means[:, None, :]


def covariances(kind, weight, scatters):
    """What each type of covariance makes of scatter matrices, as matrices."""
    d = scatters.shape[1]
    matrices = scatters / weight[:, None, None]
    if kind == "tied":
        return np.broadcast_to(scatters.sum(axis=0) / weight.sum(), scatters.shape)
    if kind == "full":
        return matrices
    diagonals = np.einsum("kii->ki", matrices)
    if kind == "spherical":
        diagonals = np.broadcast_to(diagonals.mean(axis=1, keepdims=True), diagonals.shape)
    return diagonals[:, :, None] * np.eye(d)


def fitted(kind, rng, **arguments):
    """A model of three states, with covariances of its type."""
    X = normal_rows(rng, 200, 3) @ rng.standard_normal((3, 3))
    hmm = GaussianHMM(
        3, covariance_type=kind, reg_covar=0.0, solver="batch", max_iter=3, tol=0.0, random_state=0
    )
    return hmm.set_params(**arguments).fit(X)


@all_kinds
def test_rows_with_gaps_have_the_density_of_what_they_have(kind, rng):
    hmm, X = fitted(kind, rng), gaussian_data(rng)
    log_densities = marginal_log_densities(hmm, X)
    parts = np.split(log_densities, np.cumsum(LENGTHS)[:-1])
    expected = [Enumeration(hmm.model_, part) for part in parts]
    found = hmm.score_samples(X, lengths=LENGTHS)
    assert_allclose(found, [one.log_likelihood for one in expected], rtol=1e-10)
    posterior = np.concatenate([one.posterior() for one in expected])
    assert_allclose(hmm.predict_proba(X, lengths=LENGTHS), posterior, rtol=1e-9, atol=1e-12)
    best = sum(one.log_joint.max() for one in expected)
    assert_allclose(hmm.decode(X, lengths=LENGTHS)[0], best, rtol=1e-10)


@all_kinds
def test_a_step_of_em_completes_rows_in_expectation(kind, rng):
    hmm, X = fitted(kind, rng), gaussian_data(rng)
    posterior = hmm.predict_proba(X, lengths=LENGTHS)
    weight, means, scatters = completed(hmm, X, posterior)
    hmm.set_params(warm_start=True, max_iter=1).fit(X, lengths=LENGTHS)
    assert_allclose(hmm.means_, means, rtol=1e-9)
    assert_allclose(hmm.covars_, covariances(kind, weight, scatters), rtol=1e-8, atol=1e-10)


@all_kinds
def test_streams_with_gaps_find_the_states(kind, rng):
    y = np.repeat(rng.integers(0, 2, 120), 10)
    X = rng.standard_normal((1200, 3)) + 6.0 * y[:, None]
    X[rng.random(X.shape) < 0.3] = np.nan
    init = [[0.0] * 3, [6.0] * 3]
    hmm = GaussianHMM(2, covariance_type=kind, init=init, random_state=0)
    for piece in np.array_split(X, 12):
        hmm.partial_fit(piece, continues=True)
    assert np.mean(hmm.predict(X) == y) > 0.97
    assert_allclose(hmm.means_, init, atol=0.5)


@all_kinds
def test_a_gap_is_as_if_the_feature_had_not_been_there(kind, rng):
    """Where a feature is always missing, the others are learnt as if alone."""
    hmm, X = fitted(kind, rng), normal_rows(rng, 60, 3)
    X[:, 2] = np.nan
    narrow = GaussianHMM(
        3, covariance_type="full", reg_covar=0.0, solver="batch", max_iter=1, random_state=0,
        startprob_init=hmm.startprob_, transmat_init=hmm.transmat_, means_init=hmm.means_[:, :2],
        covars_init=hmm.covars_[:, :2, :2],
    ).fit(X[:, :2])  # fmt: skip
    kept = hmm.means_[:, 2]
    hmm.set_params(warm_start=True, max_iter=1).fit(X)
    assert_allclose(hmm.lower_bound_, narrow.lower_bound_, rtol=1e-9)
    assert_allclose(hmm.transmat_, narrow.transmat_, rtol=1e-9)
    assert_allclose(hmm.means_[:, :2], narrow.means_, rtol=1e-9)
    if kind in ("diag", "spherical"):
        assert_allclose(hmm.means_[:, 2], kept, rtol=1e-9)


@all_kinds
def test_a_feature_without_any_value_cannot_start(kind, rng):
    X = normal_rows(rng, 60, 3)
    X[:, 2] = np.nan
    for learn in (GaussianHMM(2, covariance_type=kind).fit, GaussianHMM(2).partial_fit):
        with pytest.raises(ValueError, match="GaussianHMM: Feature 2"):
            learn(X)


# -------------------------------------------------------------------------- whole rows, any family


def other_data(hmm, rng):
    X = count_rows(rng, 120, 2)
    if isinstance(hmm, CategoricalHMM):
        X = rng.integers(0, 4, (120, 1)).astype(float)
    if isinstance(hmm, HMM):
        X = X + 0.5
    X[rng.random(120) < 0.2] = np.nan
    return X


@others
def test_unobserved_rows_count_for_no_emission(hmm, rng):
    hmm = clone(hmm).set_params(random_state=0, solver="batch", max_iter=1, tol=0.0)
    X = other_data(hmm, rng)
    first = clone(hmm).fit(X)
    model, posterior = first.model_, first.predict_proba(X)
    first.set_params(warm_start=True).fit(X)
    observed = ~np.isnan(X[:, 0])
    statistics = model.family.expected_statistics(X[observed], posterior[observed])
    assert_close(first.model_.parameters, model.family.m_step(statistics), rtol=1e-9)


@others
def test_nothing_but_gaps(hmm, rng):
    hmm = clone(hmm).set_params(random_state=0)
    X = other_data(hmm, rng)
    nothing = np.full((5, X.shape[1]), np.nan)
    with pytest.raises(ValueError, match=f"{type(hmm).__name__}.*NaN"):
        clone(hmm).fit(nothing)
    hmm.fit(X)
    # A sequence without any observation, beside others.
    assert_allclose(hmm.score_samples([X, nothing])[1], 0.0, atol=1e-12)
    assert_allclose(hmm.predict_proba([X, nothing])[1][0], hmm.startprob_, rtol=1e-9)
    filtered = hmm.filter([X, nothing])[1]
    assert_allclose(filtered[-1], hmm.startprob_ @ np.linalg.matrix_power(hmm.transmat_, 4))
    hmm.partial_fit([X, nothing])
