"""Batch EM against scikit-learn's, from the same start."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import mixture

from sklearn_onlineem import GaussianMixture

KINDS = ["full", "tied", "diag", "spherical"]
N_COMPONENTS = 4

all_kinds = pytest.mark.parametrize("covariance_type", KINDS)


def blobs(rng, n=500, d=3, separation=3.0):
    centres = separation * rng.standard_normal((N_COMPONENTS, d))
    mixing = rng.standard_normal((N_COMPONENTS, d, d))
    labels = rng.integers(0, N_COMPONENTS, n)
    return centres[labels] + np.einsum("nij,nj->ni", mixing[labels], rng.standard_normal((n, d)))


def start(rng, X, covariance_type):
    """Weights, rows as means, and precisions that are right for no component."""
    d = X.shape[1]
    roots = rng.standard_normal((N_COMPONENTS, d, d + 2))
    precisions = roots @ roots.transpose(0, 2, 1) / (d + 2)
    return {
        "n_components": N_COMPONENTS,
        "covariance_type": covariance_type,
        "weights_init": rng.dirichlet(np.full(N_COMPONENTS, 3.0)),
        "means_init": X[rng.choice(len(X), N_COMPONENTS, replace=False)],
        "precisions_init": {
            "full": precisions,
            "tied": precisions[0],
            "diag": rng.uniform(0.3, 2.0, (N_COMPONENTS, d)),
            "spherical": rng.uniform(0.3, 2.0, N_COMPONENTS),
        }[covariance_type],
        "reg_covar": 1e-6,
        "tol": 0.0,
    }


@all_kinds
@pytest.mark.parametrize("max_iter", [1, 2, 5, 20])
def test_batch_em_equals_scikit_learns_iteration_for_iteration(covariance_type, max_iter, rng):
    X = blobs(rng)
    arguments = {**start(rng, X, covariance_type), "max_iter": max_iter}
    ours = GaussianMixture(**arguments, solver="batch").fit(X)
    theirs = mixture.GaussianMixture(**arguments).fit(X)
    assert ours.n_iter_ == theirs.n_iter_ == max_iter
    assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=1e-8)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-8, atol=1e-8)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=name)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-8)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), rel=1e-8)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), rel=1e-8)


@all_kinds
def test_the_regularisation_is_scikit_learns(covariance_type, rng):
    X = blobs(rng)
    arguments = {**start(rng, X, covariance_type), "max_iter": 7, "reg_covar": 0.5}
    ours = GaussianMixture(**arguments, solver="batch").fit(X)
    theirs = mixture.GaussianMixture(**arguments).fit(X)
    assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-8, atol=1e-8)
    assert_allclose(ours.lower_bound_, theirs.lower_bound_, rtol=1e-8)


@all_kinds
def test_changing_the_import_is_enough(covariance_type, rng):
    """The arguments and attributes of scikit-learn's documentation, and clusters hard to miss."""
    X = blobs(rng, separation=20.0)
    arguments = {
        "n_components": N_COMPONENTS, "covariance_type": covariance_type, "tol": 1e-3,
        "reg_covar": 1e-6, "max_iter": 100, "n_init": 2, "init_params": "kmeans",
        "weights_init": None, "means_init": None, "precisions_init": None,
        "random_state": 0, "warm_start": False,
        "verbose": 0, "verbose_interval": 10,
    }  # fmt: skip
    ours = GaussianMixture(**arguments).fit(X)
    theirs = mixture.GaussianMixture(**arguments).fit(X)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=0.01)
    for name in vars(theirs):
        if name.endswith("_") and name != "lower_bounds_":  # one for each pass
            assert np.shape(getattr(ours, name)) == np.shape(getattr(theirs, name)), name


@all_kinds
def test_a_mixture_of_scikit_learn_predicts_the_same(covariance_type, rng):
    X = blobs(rng)
    frame = pd.DataFrame(X.astype(np.float32), columns=["a", "b", "c"])
    ours = GaussianMixture(4, covariance_type=covariance_type, random_state=0).fit(frame)
    theirs = ours.to_sklearn()
    assert type(theirs) is mixture.GaussianMixture
    assert_array_equal(theirs.feature_names_in_, ["a", "b", "c"])
    for name in set(vars(mixture.GaussianMixture(4).fit(X))) - set(theirs.get_params()):
        assert hasattr(theirs, name), name
    frame = frame.astype(np.float64)
    assert_array_equal(theirs.predict(frame), ours.predict(frame))
    for method in ("predict_proba", "score_samples"):
        found, expected = getattr(theirs, method)(frame), getattr(ours, method)(frame)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert theirs.bic(frame) == pytest.approx(ours.bic(frame), rel=1e-9)
    theirs.means_[:] = 0.0
    assert ours.model_.parameters.mean.any()
