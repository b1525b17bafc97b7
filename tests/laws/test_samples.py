"""Challengers: a sample of a stream's rows, and models of it that may take over."""

import math
import pickle

import numpy as np
import pytest
from cases.comparing import assert_identical
from scipy import sparse, stats

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    MultinomialMixture,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Online, Restart
from sklearn_onlineem.em.stages.sample import Sample

SAMPLED = Online(sample=60)


def sorted_clusters(rng, n_rows=600):
    """Three clusters, one after the other."""
    return rng.normal(size=(3 * n_rows, 2)) + np.repeat([-6.0, 0.0, 6.0], n_rows)[:, None]


def counts(rng, n_rows=1500):
    topics = rng.dirichlet(np.full(6, 0.5), 3)
    return rng.multinomial(40, topics[rng.integers(3, size=n_rows)]).astype(float)


CASES = {
    "normal": (GaussianMixture(3), sorted_clusters),
    "float32": (GaussianMixture(3), lambda rng: sorted_clusters(rng).astype(np.float32)),
    "Poisson": (PoissonMixture(3), counts),
    "CSR": (MultinomialMixture(3), lambda rng: sparse.csr_array(counts(rng))),
    "topics": (LatentDirichletAllocation(3), lambda rng: counts(rng, 600)),
}
all_cases = pytest.mark.parametrize("case", CASES)


def made(case, rng, solver=SAMPLED):
    estimator, draw = CASES[case]
    estimator = estimator.__class__(**estimator.get_params())
    return estimator.set_params(random_state=0, solver=solver), draw(rng)


def streamed(estimator, X, size=50):
    for begin in range(0, X.shape[0], size):
        estimator.partial_fit(X[begin : begin + size])
    return estimator


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


# ------------------------------------------------------------------------------------- the sample


def sampled(X, weights=None, size=50, cuts=(), seed=0):
    sample = Sample(size, (seed,))
    for begin, end in zip([0, *cuts], [*cuts, len(X)], strict=True):
        of_part = None if weights is None else weights[begin:end]
        sample = sample.after(Rows(X[begin:end], of_part))
    return sample


@pytest.mark.parametrize("cuts", [[1], [49, 50, 51], [*range(1, 1000)], [*range(30, 1000, 30)]])
def test_how_a_stream_is_cut_does_not_change_the_sample(cuts):
    X = np.arange(1000.0)[:, None]
    for size in (50, 2000):
        assert_identical(sampled(X, size=size, cuts=cuts), sampled(X, size=size))


def test_samples_are_uniform():
    """Each tenth of a stream has as many rows in the samples."""
    X = np.arange(1000.0)[:, None]
    kept = np.concatenate([sampled(X, seed=seed).kept.X[:, 0] for seed in range(200)])
    judges = np.concatenate(
        [s.kept.X[s.is_judge, 0] for s in (sampled(X, seed=i) for i in range(200))]
    )
    assert len(kept) == 200 * 50 and len(judges) == 200 * 10
    for rows in (kept, judges):
        tenths = np.bincount((rows // 100).astype(int), minlength=10)
        assert stats.chisquare(tenths).pvalue > 1e-3


def test_weights_stay_with_their_rows():
    X, weights = np.arange(1000.0)[:, None], np.arange(1000.0) % 7
    kept = sampled(X, weights).kept
    np.testing.assert_array_equal(kept.sample_weight, kept.X[:, 0] % 7)


def test_challengers_learn_by_weight():
    """Of two clusters with as many rows, one weighs three times as much; it comes last."""
    rng = np.random.default_rng(0)
    X = np.repeat([-6.0, 6.0], 1500)[:, None] + rng.normal(size=(3000, 1))
    weights = np.repeat([1.0, 3.0], 1500)
    mixture = GaussianMixture(2, solver=Online(start_rows=10, sample=400), random_state=0)
    for begin in range(0, 3000, 50):
        part = slice(begin, begin + 50)
        mixture.partial_fit(X[part], sample_weight=weights[part])
    assert abs(mixture.weights_.max() - 0.75) < 0.03


@all_cases
def test_users_see_and_drop_the_sample(case, rng):
    estimator, X = made(case, rng)
    with pytest.raises(AttributeError, match="sample_"):
        _ = estimator.partial_fit(X[:20]).sample_
    streamed(estimator, X[20:])
    sample = estimator.sample_
    assert sample.shape == (60, X.shape[1]) and sample.dtype == X.dtype
    assert sparse.issparse(sample) == (sparse.issparse(X) or case == "topics")
    rows = {tuple(row) for row in dense(X)}
    assert all(tuple(row) in rows for row in dense(sample))
    assert estimator.n_rows_kept_ == 60
    # Users who change it change nothing else.
    values = sample.data if sparse.issparse(sample) else sample
    values[:] = 0
    assert dense(estimator.sample_).any()
    before = estimator.model_
    assert estimator.drop_sample() is estimator and estimator.n_rows_kept_ == 0
    assert not hasattr(estimator, "sample_") and estimator.model_ is before
    assert estimator.partial_fit(X[:50]).n_rows_kept_ == 0


def test_sequences_are_sampled_whole(rng):
    sequences = [rng.normal(size=(n, 2)) for n in rng.integers(2, 6, size=300)]
    hmm = GaussianHMM(2, solver=SAMPLED, random_state=0)
    for begin in range(0, 300, 20):
        hmm.partial_fit(sequences[begin : begin + 20])
    known = {sequence.tobytes() for sequence in sequences}
    assert len(hmm.sample_) == 60 and all(part.tobytes() in known for part in hmm.sample_)


# ------------------------------------------------------------------------------------- who has it


@all_cases
def test_rows_are_not_passed_on(case, rng):
    estimator, X = made(case, rng)
    copies = []
    estimator.set_params(callbacks=[lambda step, copy: copies.append(copy) and None])
    streamed(estimator, X[:1000])
    assert estimator.n_rows_kept_ == 60
    assert all(copy.n_rows_kept_ == 0 for copy in copies[-3:])
    estimator.set_params(callbacks=None)
    merged = combine_estimators([estimator, estimator])
    # They go on without.
    for other in (merged, copies[-1]):
        assert other.partial_fit(X[:50]).n_rows_kept_ == 0
    assert estimator.fit(X[:200]).n_rows_kept_ == 0


@all_cases
def test_a_saved_stream_goes_on_bit_for_bit(case, rng):
    estimator, X = made(case, rng)
    streamed(estimator, X[:700])
    other = pickle.loads(pickle.dumps(estimator))
    for one in (estimator, other):
        streamed(one, X[700:])
    assert_identical(other.model_, estimator.model_)
    np.testing.assert_array_equal(dense(other.sample_), dense(estimator.sample_))


def test_what_cannot_be_sampled_is_refused(rng):
    X = sorted_clusters(rng)
    begun = streamed(GaussianMixture(2, random_state=0), X)
    before = begun._fitted
    with pytest.raises(ValueError, match="sample=60 needs a stream"):
        begun.set_params(solver=SAMPLED).partial_fit(X)
    assert begun._fitted is before
    sampled = streamed(GaussianMixture(2, solver=SAMPLED, random_state=0), X)
    with pytest.raises(ValueError, match="sample is 60"):
        sampled.set_params(solver=Online(sample=70)).partial_fit(X)
    assert sampled.set_params(solver=Online()).partial_fit(X).n_rows_kept_ == 0
    hmm = GaussianHMM(2, solver=SAMPLED, random_state=0).partial_fit(X, continues=True)
    with pytest.raises(ValueError, match="whole"):
        hmm.partial_fit(X, continues=True)


# ------------------------------------------------------------------------------------ what is won


def test_clusters_one_after_the_other_are_all_found(rng):
    X = sorted_clusters(rng, 1000)
    best = GaussianMixture(3, random_state=0).fit(X).score(X)
    plain, sampled = (
        streamed(GaussianMixture(3, solver=solver, random_state=0), X).score(X)
        for solver in (Online(start_rows=20), Online(start_rows=20, sample=500))
    )
    assert plain < best - 1.0 and sampled > best - 0.2


def test_challengers_of_a_stream_that_stays_change_little(rng):
    X = rng.permutation(sorted_clusters(rng, 1000))
    plain, sampled = (
        streamed(GaussianMixture(3, solver=solver, random_state=0), X)
        for solver in (Online(), Online(sample=500))
    )
    assert sampled.score(X) > plain.score(X) - 0.01
    assert sum(math.isnan(step.kl_divergence) for step in sampled.history_[10:]) <= 2


def test_a_restart_begins_a_new_sample(rng):
    X = sorted_clusters(rng, 1000)
    mixture = streamed(GaussianMixture(3, solver=SAMPLED, random_state=0), X[:2000])
    mixture.set_params(callbacks=[lambda step: Restart()]).partial_fit(X[2000:2050])
    mixture.set_params(callbacks=None)
    assert mixture.n_rows_kept_ == 0
    assert streamed(mixture, X[2050:]).sample_.mean() > 4.0
