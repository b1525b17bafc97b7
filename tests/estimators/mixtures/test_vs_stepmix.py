"""Mixtures of columns of several kinds against StepMix; `make test-rivals` installs it."""

from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.datasets import load_iris

from sklearn_onlineem import Mixture

pytestmark = pytest.mark.rivals


def rival():
    return import_module("benchmarks.rivals.stepmix_mixture")


def examples():
    """Of StepMix's documentation: rows, groups of columns in order, and numbers of classes."""
    data = import_module("stepmix.datasets")
    X, _, _ = data.data_bakk_response(2000, sep_level=0.8, random_state=0)
    yield X, [("bernoulli", 6)], 3
    X, Y, _ = data.data_gaussian_binary(2000, random_state=0)
    yield np.hstack([X, Y]), [("gaussian_full", 2), ("bernoulli", 2)], 4
    X, Y, _ = data.data_gaussian_categorical(2000, random_state=0)
    yield np.hstack([X, Y]), [("gaussian_full", 2), ("categorical", 2)], 4
    X, Y, _ = data.data_gaussian_diag(2000, sep_level=0.8, random_state=0)
    yield np.hstack([Y, X]), [("gaussian_diag", 2), ("bernoulli", 6)], 3
    iris = load_iris().data
    codes = [np.digitize(iris[:, j], np.quantile(iris[:, j], q)) for j, q in _CUTS]
    yield np.column_stack([iris[:, :2], *codes]), [("gaussian_diag", 2), ("categorical", 2)], 3


_CUTS = [(2, [1 / 3, 2 / 3]), (3, [1 / 4, 1 / 2, 3 / 4])]


def fitted(X, groups, n_classes):
    family, start = {}, 0
    for name, n in groups:
        family[tuple(range(start, start + n))] = name
        start += n
    return Mixture(n_classes, family=family, prior=None, random_state=0).fit(X)


def test_likelihoods_and_numbers_of_parameters_are_stepmixs():
    for X, groups, n_classes in examples():
        X = X.astype(float)
        mixture = fitted(X, groups, n_classes)
        score, n_parameters = rival().score(mixture, groups, X)
        assert_allclose(mixture.score(X), score, rtol=1e-12)
        assert mixture.model_.n_parameters() == n_parameters


def test_likelihoods_with_missing_values_are_stepmixs(rng):
    for X, groups, n_classes in examples():
        if groups[0][0] == "gaussian_full":  # For which StepMix has no missing values.
            continue
        X = X.astype(float)
        mixture = fitted(X, groups, n_classes)
        gaps = np.where(rng.random(X.shape) < 0.3, np.nan, X)
        score, _ = rival().score(mixture, groups, gaps, has_gaps=True)
        model = mixture.model_
        log_densities = model.family.marginal_log_density(model.parameters, gaps)
        found = logsumexp(log_densities + model.log_weights, axis=1).mean()
        assert_allclose(found, score, rtol=1e-12)


def test_fits_are_as_good_as_stepmixs():
    for X, groups, n_classes in examples():
        X = X.astype(float)
        theirs = max(
            rival().fits(X, groups, n_classes, seed=seed)(2000).score(X) for seed in range(3)
        )
        family = fitted(X, groups, n_classes).family
        ours = Mixture(
            n_classes, family=family, prior=None, n_init=5, tol=1e-7, random_state=0
        ).fit(X)
        assert ours.score(X) > theirs - 1e-3
