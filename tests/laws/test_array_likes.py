"""Objects that NumPy takes for arrays, and that say they have other rows than they give.

What counts is the array, which is asked for once: all that is read agrees with it.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from cases.array_likes import CLAIMS, Shrinking
from cases.comparing import arrays, assert_identical
from cases.estimator_cases import ESTIMATORS, document_clusters, normal_clusters, sequence_clusters
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import (
    CompoundDirichlet,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    MarkovChainMixture,
    PerSequence,
)
from sklearn_onlineem.distributed import DistributedEM

N = 18


@dataclass(frozen=True)
class Subject:
    """An estimator that takes rows, those of sequences too, and what it takes with them."""

    name: str
    make: object
    X: object
    where: dict

    def __repr__(self):
        return self.name


def subjects():
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    quick = {"max_iter": 2, "random_state": 0}
    weights = {"sample_weight": np.linspace(0.5, 1.0, N)}
    lengths, groups = {"lengths": [6, 5, 7]}, {"groups": np.arange(N) % 3}
    for case in ESTIMATORS:
        yield Subject(repr(case), partial(case, 2, max_iter=2), case.data(rng, N)[0], weights)
    for case in [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]:
        X = np.concatenate(case.data(rng, 9)[0])[:N]
        for name, where in {"one": {}, "lengths": lengths, "groups": groups}.items():
            yield Subject(f"{case}({name})", partial(case, 2, max_iter=2), X, where)
    clicks = np.concatenate(sequence_clusters(rng, y))[:N].astype(float)
    chains = partial(MarkovChainMixture, 2, **quick)
    for name, where in {"lengths": lengths, "groups": groups}.items():
        yield Subject(f"MarkovChainMixture({name})", chains, clicks, where)
    words, rows = document_clusters(rng, y), normal_clusters(rng, y)
    labelled = {"semi_supervised": True, "solver": "batch"}
    topics = partial(LatentDirichletAllocation, 3, e_step="map", **labelled, **quick)
    yield Subject("LatentDirichletAllocation", topics, words, {"y": np.eye(3)[y], **weights})
    yield Subject("CompoundDirichlet", partial(CompoundDirichlet, **quick), words, weights)
    labelled = {"semi_supervised": True, **quick}
    mixture, hmm = partial(GaussianMixture, 3, **labelled), partial(GaussianHMM, 3, **labelled)
    yield Subject("GaussianMixture(labels)", mixture, rows, {"y": y, **weights})
    yield Subject("GaussianHMM(labels)", hmm, rows, {"y": y, **groups})
    yield Subject("PerSequence", partial(PerSequence, StandardScaler()), rows, {})
    for estimator in (GaussianMixture(2, **quick), KalmanFilter(2, **quick)):
        where = weights if isinstance(estimator, GaussianMixture) else {}
        name = f"DistributedEM({type(estimator).__name__})"
        yield Subject(name, partial(DistributedEM, estimator, n_shards=3), rows, where)


SUBJECTS = list(subjects())
METHODS = ("transform", "predict", "predict_proba", "score_samples", "score", "bic", "filter",
           "smooth", "forecast", "decode", "impute", "score_rows")  # fmt: skip
by_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=repr)


def claimed(kind, n_rows, values):
    """... of an array, with as many columns more than it has."""
    values = np.asarray(values)
    return kind(values, (n_rows, *(size + n_rows for size in values.shape[1:])))


def learnt(estimator):
    """All that a fit has left behind."""
    if hasattr(estimator, "transformer_"):
        return [estimator.transformer_.mean_, estimator.transformer_.scale_]
    return arrays(getattr(estimator, "estimator_", estimator).model_)


def answers(estimator, X, where):
    """What methods say of X, by name, with what they take besides."""
    where = {name: values for name, values in where.items() if name in ("lengths", "groups")}
    return [
        getattr(estimator, name)(X, **where)
        for name in METHODS
        if hasattr(estimator, name) and not (name == "transform" and "transform" in vars(estimator))
    ]


# All claims are made of a few subjects, and of the others those that lead out of bounds.
READ_APART = ("GaussianMixture(full)", "GaussianHMM(labels)", "KalmanFilter(one)", "PerSequence")
CLAIMED = [
    pytest.param(subject, kind, n_rows, id=f"{subject}-{kind.__name__}-{n_rows}")
    for subject in SUBJECTS
    for kind in CLAIMS
    for n_rows in (0, N - 1, 10**6)
    if repr(subject) in READ_APART or (kind is CLAIMS[0] and n_rows > N)
]


@pytest.mark.parametrize(("subject", "kind", "n_rows"), CLAIMED)
def test_what_counts_is_the_array(subject, kind, n_rows):
    X = claimed(kind, n_rows, subject.X)
    where = {name: claimed(kind, n_rows, values) for name, values in subject.where.items()}
    for method in ("fit", "partial_fit"):
        if not hasattr(subject.make(), method):
            continue
        found, wanted = subject.make(), subject.make()
        getattr(found, method)(X, **where), getattr(wanted, method)(subject.X, **subject.where)
        assert_identical(learnt(found), learnt(wanted))
    assert_identical(answers(found, X, where), answers(wanted, subject.X, subject.where))


@by_subject
def test_an_array_is_asked_for_once(subject):
    """An array that is another each time is read as it was when it was asked for first."""
    X = Shrinking(np.concatenate([subject.X, subject.X[-1:]]), (N + 1, *subject.X.shape[1:]))
    found, wanted = subject.make(), subject.make()
    assert_identical(
        learnt(found.fit(X, **subject.where)), learnt(wanted.fit(subject.X, **subject.where))
    )


@pytest.mark.parametrize("length", [0, 1, 5, 10**6])
@pytest.mark.parametrize("kind", CLAIMS[:2])
@pytest.mark.parametrize("estimator", [GaussianHMM(2), KalmanFilter(2)], ids=repr)
def test_lists_of_sequences_have_what_they_give(estimator, kind, length):
    class List(list):
        def __len__(self):
            return length

    parts = np.split(normal_clusters(np.random.default_rng(0), np.arange(N) % 3), [6, 11])
    estimator.set_params(max_iter=2, random_state=0)
    claims = List(claimed(kind, 10**6, part) for part in parts)
    found, wanted = clone(estimator).fit(claims), clone(estimator).fit(parts)
    assert_identical(learnt(found), learnt(wanted))


def test_a_kalman_filter_that_is_fitted_again_to_an_array_that_changes(rng):
    """What ``make fuzz SEED=777001 CASE=22113`` was when it read out of bounds."""
    X, covariance = normal_clusters(rng, np.arange(N) % 3), np.array([[1.6, 0.0], [0.0, 4.0]])
    kalman = KalmanFilter(2, max_iter=2, tol=0.0, random_state=0).partial_fit([X])
    kalman.impute([X])
    kalman.set_params(initial_state_covariance=covariance)
    found = clone(kalman).fit_transform(Shrinking(X, X.shape))
    assert_identical(found, kalman.fit(X[:-1]).transform(X[:-2]))
