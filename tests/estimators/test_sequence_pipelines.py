"""Hidden Markov models in scikit-learn's tools: the same scores for lists and for groups."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import (
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianHMM, PerSequence

# A score that fails is not NaN but an error.
STRICT = {"error_score": "raise"}


@pytest.fixture
def sequences(rng):
    """Sequences of two states that are hard to tell apart, with features of different units."""
    parts = []
    for length in rng.integers(5, 25, 40):
        states = np.repeat(rng.integers(0, 2, 5), 5)[:length]
        parts.append((rng.standard_normal((len(states), 2)) + states[:, None]) * [1.0, 1e4] + 1e3)
    return parts


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def hmm(**arguments):
    return GaussianHMM(2, random_state=0, batch_size=4, max_iter=2, **arguments)


def routed(estimator):
    return estimator.set_fit_request(groups=True).set_score_request(groups=True)


def in_rows(sequences):
    """Rows, the sequence of each, and the folds of GroupKFold in terms of sequences."""
    rows = np.concatenate(sequences)
    groups = np.repeat(np.arange(len(sequences)), [len(part) for part in sequences])
    folds = [
        (np.unique(groups[train]), np.unique(groups[test]))
        for train, test in GroupKFold(4).split(rows, groups=groups)
    ]
    return rows, groups, folds


def test_cross_val_score_is_the_score_of_the_sequences_left_out(sequences):
    found = cross_val_score(hmm(), sequences, cv=4, **STRICT)
    for fold, score in enumerate(found):
        test = slice(10 * fold, 10 * fold + 10)
        train = sequences[: test.start] + sequences[test.stop :]
        assert hmm().fit(train).score(sequences[test]) == pytest.approx(score, rel=1e-12)


def test_a_scaler_in_front_of_lists(sequences):
    found = make_pipeline(PerSequence(StandardScaler()), hmm()).fit(sequences)
    scaled = StandardScaler().fit(np.concatenate(sequences))
    expected = hmm().fit([scaled.transform(part) for part in sequences])
    assert_array_equal(found[-1].means_, expected.means_)
    back = found[0].inverse_transform(found[0].transform(sequences))
    for part, original in zip(back, sequences, strict=True):
        assert_allclose(part, original)
    streamed = PerSequence(StandardScaler())
    for part in sequences:
        streamed.partial_fit([part])
    assert_allclose(streamed.transformer_.mean_, scaled.mean_)
    assert list(found[0].get_feature_names_out(["a", "b"])) == ["a", "b"]


def test_rows_with_groups_give_the_scores_of_lists(sequences, routing):
    rows, groups, folds = in_rows(sequences)
    plain = cross_val_score(hmm(), sequences, cv=folds, **STRICT)
    found = cross_validate(
        routed(hmm()), rows, params={"groups": groups}, cv=GroupKFold(4), **STRICT
    )
    assert_array_equal(found["test_score"], plain)
    pipeline = make_pipeline(StandardScaler(), routed(hmm()))
    found = cross_validate(pipeline, rows, params={"groups": groups}, cv=GroupKFold(4), **STRICT)
    lists = make_pipeline(PerSequence(StandardScaler()), hmm())
    assert_array_equal(found["test_score"], cross_val_score(lists, sequences, cv=folds, **STRICT))
    assert not np.allclose(found["test_score"], plain)


def test_rows_of_groups_come_in_any_order(sequences, routing):
    rows, groups, _ = in_rows(sequences)
    order = np.argsort(np.concatenate([np.arange(len(part)) for part in sequences]), kind="stable")
    rows, groups = rows[order], groups[order]
    folds = [
        (np.unique(groups[train]), np.unique(groups[test]))
        for train, test in GroupKFold(3).split(rows, groups=groups)
    ]
    lists = make_pipeline(PerSequence(StandardScaler()), hmm())
    found = cross_val_score(
        make_pipeline(StandardScaler(), routed(hmm())),
        rows,
        params={"groups": groups},
        cv=GroupKFold(3),
        **STRICT,
    )
    assert_allclose(found, cross_val_score(lists, sequences, cv=folds, **STRICT), rtol=1e-10)


def test_groups_reach_what_asks_for_them_only(sequences, routing):
    rows, groups, _ = in_rows(sequences)
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
        cross_validate(hmm(), rows, params={"groups": groups}, cv=GroupKFold(4))
    model = hmm().set_fit_request(groups=True).set_predict_proba_request(groups=True)
    found = cross_val_predict(
        model, rows, params={"groups": groups}, cv=GroupKFold(4), method="predict_proba"
    )
    assert found.shape == (len(rows), 2)
    assert_allclose(found.sum(axis=1), 1.0)
