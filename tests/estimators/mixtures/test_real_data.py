"""Streams of real data; slow, and skipped where the data are neither at hand nor to be fetched."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from sklearn.utils import gen_batches

from benchmarks import datasets
from sklearn_onlineem import GaussianMixture, MultinomialMixture

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
