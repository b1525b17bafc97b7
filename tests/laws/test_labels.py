"""`y` is ignored, as scikit-learn has it, unless the user says that it holds labels."""

import copy

import numpy as np
import pandas as pd
import pytest
import sklearn
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS, flat
from cases.states import state_of
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_onlineem import (
    CompoundDirichlet,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
)
from sklearn_onlineem.distributed import DistributedEM

# Tests stop fits on purpose before they converge.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

all_mixtures = pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS], ids=repr)
all_of_sequences = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS + KALMAN_FILTERS, ids=repr)
all_hidden_markov = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)


def targets(y):
    """Targets of classifiers and regressors that have nothing to do with components."""
    yield y
    yield np.where(y, y - 0.5, np.nan)
    yield y.astype(str).tolist()
    yield pd.Series(y, dtype="category")
    yield pd.DataFrame({"a": y, "b": y})
    yield np.ma.masked_equal(y, 1)


# -------------------------------------------------------------------------------------- ignored


@all_mixtures
def test_targets_of_rows_are_ignored(case, rng):
    X, y = case.data(rng, 60)
    fitted = case(max_iter=2).fit(X)
    expected, scored = state_of(fitted), fitted.score(X)
    following = state_of(copy.deepcopy(fitted).partial_fit(X))
    for target in targets(y):
        found = case(max_iter=2).fit(X, target)
        assert_identical(state_of(found), expected)
        assert found.score(X, target) == scored
        assert_identical(state_of(found.partial_fit(X, target)), following)
    assert_identical(case(max_iter=2).fit_predict(X, y + 0.5), fitted.predict(X))


@all_of_sequences
def test_targets_of_sequences_are_ignored(case, rng):
    X, states = case.data(rng, 6)
    fitted = case(max_iter=2).fit(X)
    expected, scored = state_of(fitted), fitted.score(X)
    one_each = list(targets(np.arange(6)))
    for y in (*one_each, states, states[::-1], states[:-1], [], {0: states[0]}, "abc", 0.5):
        found = case(max_iter=2).fit(X, y)
        assert_identical(state_of(found), expected)
        assert found.score(X, y) == scored
    rows, lengths = flat(X)
    for y in targets(np.concatenate(states)):
        found = case(max_iter=2).fit(rows, y, lengths=lengths)
        assert_identical(state_of(found), expected)
        assert found.score(rows, y, lengths=lengths) == scored


def test_estimators_without_labels_ignore_targets(rng):
    y = np.arange(40) % 2
    documents = rng.poisson(3.0, (40, 4)).astype(float)
    pairs = [("abc", "ab"), ("ba", "bca")] * 20
    for estimator, X in ((CompoundDirichlet(max_iter=2), documents), (EditDistance(), pairs)):
        assert "semi_supervised" not in estimator.get_params()
        expected = sklearn.clone(estimator).fit(X)
        for target in targets(y):
            found = sklearn.clone(estimator).fit(X, target)
            assert_identical(state_of(found), state_of(expected))
            assert found.score(X, target) == expected.score(X)
    assert "semi_supervised" not in KalmanFilter().get_params()


def test_mixtures_before_a_classifier(rng):
    X, y = rng.standard_normal((400, 4)), np.arange(400) % 3
    for target in (y, y.astype(str)):
        found = make_pipeline(GaussianMixture(10, random_state=0), LogisticRegression())
        found.fit(X, target)
        alone = GaussianMixture(10, random_state=0).fit(X)
        assert_identical(found[0].model_, alone.model_)
        assert (found[0].weights_ > 1.0 / len(X)).all()


def test_states_before_a_classifier_of_rows(rng):
    X, y = rng.standard_normal((400, 2)), np.repeat(["a", "b"], 200)
    found = make_pipeline(GaussianHMM(3, random_state=0), LogisticRegression()).fit(X, y)
    assert_identical(found[0].model_, GaussianHMM(3, random_state=0).fit(X).model_)
    assert set(found.predict(X)) <= {"a", "b"}


@pytest.mark.parametrize("y", [np.arange(90) % 5, np.linspace(0, 1, 90), ["a", "b", "c"] * 30])
def test_searches_with_targets_score_as_without(y, rng):
    X = rng.standard_normal((90, 2))
    sequences = list(X[:, None, :] + np.zeros((1, 4, 1)))
    for estimator, data in (
        (GaussianMixture(2, random_state=0), X),
        (GaussianHMM(2, random_state=0, max_iter=2), sequences),
        (KalmanFilter(2, random_state=0, max_iter=2), sequences),
    ):
        search = GridSearchCV(estimator, {"max_iter": [1, 2]}, cv=2, error_score="raise")
        scores = search.fit(data).cv_results_["mean_test_score"]
        assert np.isfinite(scores).all()
        assert_identical(search.fit(data, y).cv_results_["mean_test_score"], scores)


def test_targets_of_shards_are_ignored(rng):
    X, y = rng.standard_normal((80, 2)), rng.random(80)
    sequences = list(X.reshape(8, 10, 2))
    for estimator, data, target in (
        (GaussianMixture(2, random_state=0, max_iter=2), X, y),
        (GaussianHMM(2, random_state=0, max_iter=2), sequences, y[:8]),
        (GaussianHMM(2, random_state=0, max_iter=2), X, y),
    ):
        found = DistributedEM(estimator, n_shards=2).fit(data, target)
        expected = DistributedEM(estimator, n_shards=2).fit(data)
        assert_identical(found.estimator_.model_, expected.estimator_.model_)


# --------------------------------------------------------------------------------------- learnt


@all_mixtures
def test_labels_of_rows_that_are_none(case, rng):
    X, y = case.data(rng, 60)
    mixture = case(semi_supervised=True, max_iter=2).fit(X, y)
    before = state_of(mixture)
    for bad in wrong(y):
        for method in (mixture.partial_fit, case(semi_supervised=True).fit):
            with pytest.raises(ValueError, match=type(mixture).__name__):
                method(X, bad)
    assert_identical(state_of(mixture), before)
    unlabelled = case(max_iter=2).fit(X)
    for nothing in (None, np.full(len(y), -1)):
        found = case(semi_supervised=True, max_iter=2).fit(X, nothing)
        assert_identical(state_of(found), state_of(unlabelled))


def wrong(y):
    yield from (y.astype(float), y[:-1], np.append(y, 0), [], {}, dict(enumerate(y)), 0, "abc")
    yield from (np.where(y, y, np.nan), y - 2, y + 1, y.astype(str), y == 1, np.array([y, y]))
    yield from (np.ma.masked_equal(y, 1), [y], [y[:3], y[3:]], pd.Series(y).astype("string"))
    missing = pd.Series(y, dtype="Int64")
    missing[1] = pd.NA
    yield missing


@all_hidden_markov
def test_states_that_are_none(case, rng):
    X, states = case.data(rng)
    hmm = case(semi_supervised=True, max_iter=2).fit(X, states)
    before = state_of(hmm)
    flat_states = np.concatenate(states)
    floats = [part.astype(float) for part in states]
    masked = [np.ma.masked_equal(part, 1) for part in states]
    scalars = [0, *states[1:]]
    shifted = [states[0][:0], np.append(states[0], states[1]), *states[2:]]
    others = (states[:-1], states[::-1], floats, masked, scalars, shifted, [states], [[]])
    for bad in (*wrong(flat_states), *others):
        for method in (hmm.partial_fit, case(semi_supervised=True).fit):
            with pytest.raises(ValueError, match=type(hmm).__name__):
                method(X, bad)
    assert_identical(state_of(hmm), before)
    unlabelled = case(max_iter=2).fit(X)
    for nothing in (None, np.full(len(flat_states), -1), [part * 0 - 1 for part in states]):
        found = case(semi_supervised=True, max_iter=2).fit(X, nothing)
        assert_identical(state_of(found), state_of(unlabelled))


@all_hidden_markov
def test_states_cut_as_the_sequences_or_row_by_row(case, rng):
    X, states = case.data(rng)
    expected = state_of(case(semi_supervised=True, max_iter=2).fit(X, states))
    lists = [part.tolist() for part in states]
    nested = np.empty(len(states), dtype=object)
    nested[:] = states
    for y in (lists, tuple(states), nested, np.concatenate(states), sum(lists, [])):
        assert_identical(state_of(case(semi_supervised=True, max_iter=2).fit(X, y)), expected)
    series = [pd.Series(part, dtype="Int64") for part in states]
    assert_identical(state_of(case(semi_supervised=True, max_iter=2).fit(X, series)), expected)


@pytest.mark.parametrize("y", [[0, 1], [[0, 1, 1], [0, 1]]])
def test_cuts_that_differ_are_told(y, rng):
    X = [rng.standard_normal((2, 1)), rng.standard_normal((3, 1))]
    match = r"GaussianHMM: (X has 5 rows, and y 2|y\[0\] has 3 entries, and sequence 0 of X has 2)"
    with pytest.raises(ValueError, match=match):
        GaussianHMM(2, semi_supervised=True).fit(X, y)


@pytest.mark.parametrize("make", [GaussianMixture, GaussianHMM])
def test_labels_are_learnt_from_the_batch_on_that_follows_the_change(make, rng):
    X, y = rng.standard_normal((60, 2)), np.arange(60) % 2
    plain = make(2, random_state=0).partial_fit(X)
    switched = copy.deepcopy(plain).partial_fit(X, y)
    assert_identical(state_of(switched), state_of(copy.deepcopy(plain).partial_fit(X)))
    learnt = copy.deepcopy(plain).set_params(semi_supervised=True).partial_fit(X, y)
    assert np.abs(learnt.means_ - switched.means_).max() > 1e-3
    back = copy.deepcopy(learnt).set_params(semi_supervised=False).partial_fit(X, y)
    assert_identical(state_of(back), state_of(copy.deepcopy(learnt).partial_fit(X)))


def test_whether_labels_are_learnt_is_a_parameter_as_any_other(rng):
    X, y = rng.standard_normal((90, 2)), np.arange(90) % 2
    for make in (GaussianMixture, GaussianHMM):
        assert sklearn.clone(make(2, semi_supervised=True)).semi_supervised is True
        with pytest.raises(ValueError, match="semi_supervised"):
            make(2, semi_supervised="yes").fit(X)
    pipeline = make_pipeline(GaussianMixture(2, random_state=0), LogisticRegression())
    pipeline.set_params(gaussianmixture__semi_supervised=True).fit(X, y)
    expected = GaussianMixture(2, random_state=0, semi_supervised=True).fit(X, y)
    assert_identical(pipeline[0].model_, expected.model_)
