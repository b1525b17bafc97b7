"""Posterior predictives, draws and collapsed sweeps of Gaussians of all shapes."""

from dataclasses import replace

import numpy as np
import pytest
from cases.gaussian_posteriors import SHAPES, Prior, random_rows, sweep
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_onlineem.families import Gaussian, Gaussians, Tied
from sklearn_onlineem.families._gaussian_posteriors import log_rising
from sklearn_onlineem.statistics import combine

all_shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
# Whether means and covariances are learnt; "some": of every other component.
KNOWN = [(True, True), (False, True), (True, False), (False, False), ("some", True), (True, "some")]


def partly_known(shape, learnt, parameters):
    """A family that learns what `learnt` says, and knows the rest."""
    some = np.arange(len(parameters.mean)) % 2 == 0
    means, covariances = (some if part == "some" else part for part in learnt)
    family = Gaussian(
        shape(),
        learns_means=means[:, None] if np.ndim(means) else means,
        learns_covariances=bool(np.all(covariances)) if shape is Tied else covariances,
    )
    assert (family.learns_all(len(some)) == means & (covariances | (shape is Tied))).all()
    return family.with_fixed(parameters)


def posterior_statistics(prior, family, X, labels):
    evidence = family.expected_statistics(X, np.eye(prior.K)[labels])
    return combine([(1.0, prior.statistics()), (1.0, evidence)])


@all_shapes
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_predictive_is_students_t(shape, d, rng):
    prior, family = Prior(shape, 3, d, rng), Gaussian(shape())
    X, labels, _, _ = random_rows(prior, rng)
    for n in (0, 1, len(X)):
        statistics = prior.statistics()
        if n:
            statistics = posterior_statistics(prior, family, X[:n], labels[:n])
        new = rng.normal(size=(6, d))
        found = family.predictive_log_density(statistics, new)
        expected = [prior.log_predictive(X[:n], labels[:n], x) for x in new]
        assert_allclose(found, expected, rtol=1e-10)


def test_a_posterior_without_a_prior_of_means_is_that_of_a_flat_one(rng):
    """p(x | X) of mean_precision -> 0 is that of mean_precision = 0, once there are rows."""
    for shape in SHAPES:
        prior, family = Prior(shape, 2, 2, rng, k0=1e-9), Gaussian(shape())
        X, labels, _, _ = random_rows(prior, rng)
        evidence = family.expected_statistics(X, np.eye(2)[labels])
        new = rng.normal(size=(4, 2))
        found, expected = (
            family.predictive_log_density(combine([(1.0, start), (1.0, evidence)]), new)
            for start in (prior.statistics(mean_precision=0.0), prior.statistics())
        )
        # The limit of proper priors has one degree more than the flat one, |S|^(-1/2).
        richer = prior.statistics(mean_precision=0.0)
        richer = replace(richer, degrees=prior.statistics().degrees)
        again = family.predictive_log_density(combine([(1.0, richer), (1.0, evidence)]), new)
        assert_allclose(again, expected, rtol=1e-6)
        assert np.abs(found - expected).max() > 1e-3


@all_shapes
@pytest.mark.parametrize("learnt", KNOWN, ids=str)
def test_the_predictive_is_the_average_of_draws(shape, learnt, rng):
    prior = Prior(shape, 2, 2, rng, spare=6.0)
    X, labels, _, _ = random_rows(prior, rng, n=20)
    statistics = posterior_statistics(prior, Gaussian(shape()), X, labels)
    mode = Gaussian(shape()).m_step(statistics)
    family = partly_known(shape, learnt, Gaussians(mode.mean + 0.3, 0.7 * mode.covariance))
    expected = np.exp(family.predictive_log_density(statistics, X[:5]))
    drawn = [family.draw_from_posterior(statistics, rng) for _ in range(1000)]
    found = np.exp([family.log_density(parameters, X[:5]) for parameters in drawn])
    error = found.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(found.mean(axis=0) - expected) <= 5.0 * error + 1e-12)
    if learnt == (False, False):
        assert_allclose(found[0], expected, rtol=1e-12)


@all_shapes
@pytest.mark.parametrize("learnt", KNOWN, ids=str)
def test_a_sweep_with_known_parameters_is_that_of_its_predictive(shape, learnt, rng):
    prior = Prior(shape, 4, 3, rng)
    X, labels, concentration, uniforms = random_rows(prior, rng)
    mode = Gaussian(shape()).m_step(posterior_statistics(prior, Gaussian(shape()), X, labels))
    family = partly_known(shape, learnt, mode)
    prior.log_predictive = lambda rows, z, x: family.predictive_log_density(
        posterior_statistics(prior, family, rows, z), x[None]
    )[0]
    expected, value = sweep(prior, X, labels, concentration, uniforms)
    found = family.collapsed_sweep(prior.statistics(), X, labels, concentration, uniforms)
    assert_array_equal(labels, expected)
    assert_allclose(found, value, rtol=1e-12)


@all_shapes
@pytest.mark.parametrize("k0", [0.4, 1e-12])
def test_outliers_and_single_rows_lose_no_digits(shape, k0, rng):
    """Rows that make a scatter what it is leave it, components become empty, and come back."""
    prior = Prior(shape, 5, 3, rng, k0=k0)
    X, labels, _, uniforms = random_rows(prior, rng, n=24)
    X[::6] *= [[30.0], [1e2], [1e3], [3e3]]
    labels[:] = np.where(np.arange(24) % 6, np.arange(24) % 2, np.arange(24) // 6 + 1)
    for concentration in (np.full(5, 0.1), np.full(5, 1e3)):
        expected, value = sweep(prior, X, labels, concentration, uniforms)
        found = Gaussian(shape()).collapsed_sweep(
            prior.statistics(), X, labels, concentration, uniforms
        )
        assert_array_equal(labels, expected)
        assert_allclose(found, value, rtol=1e-9)


@all_shapes
def test_an_offset_changes_no_label(shape, rng):
    prior, family = Prior(shape, 4, 3, rng), Gaussian(shape())
    X, labels, concentration, _ = random_rows(prior, rng, n=300)
    X, far = np.round(X, 6), labels.copy()
    moved = prior.statistics(mean=prior.m0 + 1e6)
    for _ in range(10):
        uniforms = rng.random(300)
        at_zero = family.collapsed_sweep(prior.statistics(), X, labels, concentration, uniforms)
        there = family.collapsed_sweep(moved, X + 1e6, far, concentration, uniforms)
        assert_array_equal(labels, far)
        assert_allclose(there, at_zero, atol=1e-7)


@all_shapes
@pytest.mark.parametrize("what", ["mean_precision", "scatter"])
def test_improper_priors_are_refused_by_name(shape, what, rng):
    prior, family = Prior(shape, 2, 3, rng), Gaussian(shape())
    names = {
        "mean_precision": ("mean_precision", 0.0),
        "scatter": ("covariance" if prior.is_matrix else "scale", 0.0),
    }
    name, value = names[what]
    statistics = prior.statistics(**{name: value})
    X, labels, concentration, uniforms = random_rows(prior, rng)
    before = labels.copy()
    for call in (
        lambda: family.predictive_log_density(statistics, X),
        lambda: family.draw_from_posterior(statistics, rng),
        lambda: family.collapsed_sweep(statistics, X, labels, concentration, uniforms),
    ):
        with pytest.raises(ValueError, match=name):
            call()
    assert_array_equal(labels, before)


@all_shapes
@pytest.mark.parametrize("setting", ["learns_means", "learns_covariances"])
def test_parameters_that_are_not_learnt_have_to_be_known(shape, setting, rng):
    family, prior = Gaussian(shape(), **{setting: False}), Prior(shape, 2, 2, rng)
    with pytest.raises(ValueError, match="with_fixed"):
        family.predictive_log_density(prior.statistics(), np.zeros((1, 2)))


@pytest.mark.parametrize("x", [0.3, 5.0, 999.0, 1001.0, 1e6, 1e14])
@pytest.mark.parametrize("h", [0.5, 8.0])
def test_ratios_of_gamma_functions_keep_their_digits(x, h):
    if h == 8.0:
        assert_allclose(log_rising(x, h), np.log(x + np.arange(8)).sum(), rtol=1e-12)
    twice = log_rising(x, h) + log_rising(x + h, h)
    assert_allclose(twice, log_rising(x, 2 * h), rtol=1e-12)
