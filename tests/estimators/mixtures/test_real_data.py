"""Streams of real data; slow, and skipped where the data are neither at hand nor to be fetched."""

import numpy as np
import pytest
from cases.fitted_cases import Still, numerical_errors
from cases.mixture_cases import MIXTURES
from sklearn.preprocessing import StandardScaler
from sklearn.utils import gen_batches

from benchmarks import datasets
from sklearn_onlineem import GaussianMixture, MultinomialMixture
from sklearn_onlineem.diagnostics import standard_errors

pytestmark = pytest.mark.slow


def load_or_skip(loader):
    try:
        return loader()
    except (OSError, ValueError) as error:
        pytest.skip(f"no data: {error}")


def test_covertype_improves_batch_by_batch():
    X = StandardScaler().fit_transform(load_or_skip(datasets.load_covertype))
    X = X[np.random.default_rng(0).permutation(len(X))]
    stream, held_out = X[:100_000], X[100_000:120_000]
    mixture = GaussianMixture(20, random_state=0).partial_fit(stream[:1000])
    first = mixture.score(held_out)
    for batch in gen_batches(len(stream), 1000):
        mixture.partial_fit(stream[batch])
    halves = np.array_split([step.log_likelihood for step in mixture.history_[1:]], 2)
    assert mixture.score(held_out) > first + 1.0
    assert halves[1].mean() > halves[0].mean()


def test_kos_clusters_beat_one_cluster_on_held_out_documents():
    X = load_or_skip(datasets.load_kos)
    X = X[np.random.default_rng(0).permutation(X.shape[0])]
    train, held_out = X[:3000], X[3000:]
    # Words that a cluster has not seen: the prior gives them what a hundredth of a word is worth.
    scores = [
        MultinomialMixture(k, prior={"concentration": 1.01}, random_state=0)
        .fit(train)
        .score(held_out)
        for k in (1, 10)
    ]
    assert scores[1] > scores[0]


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_errors_of_old_faithful_are_those_of_the_numerical_hessian(covariance_type):
    X = load_or_skip(datasets.load_old_faithful)
    mixture = GaussianMixture(
        2, covariance_type=covariance_type, means_init=[[2.0, 55.0], [4.3, 80.0]],
        solver="batch", reg_covar=0.0, tol=1e-15, max_iter=2000,
    ).fit(X)  # fmt: skip
    (case,) = (case for case in MIXTURES if type(case.case.family) is type(mixture.model_.family))
    found = Still(case, mixture, X)
    errors = standard_errors(mixture, X).errors
    for name, expected, _ in numerical_errors(found, errors):
        np.testing.assert_allclose(errors[name], expected, rtol=1e-4, err_msg=name)
