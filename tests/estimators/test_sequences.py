"""Sequences in their forms, in pipelines, and one by one."""

import copy
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianHMM, KalmanFilter, PerSequence
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em import Online
from sklearn_onlineem.estimators.sequence_forms import sequence_form

X = np.arange(14.0).reshape(7, 2)
LENGTHS = [3, 1, 3]
FORMS = [np.asarray, np.ndarray.tolist, pd.DataFrame, pl.DataFrame]
FORM_NAMES = ["array", "list", "pandas", "polars"]
PARTS = np.split(X, [3, 4])


def assert_form(form, rows=X, offsets=(0, 3, 4, 7)):
    assert_array_equal(np.asarray(form.X), rows)
    assert_array_equal(form.offsets, offsets)
    assert form.offsets.dtype == np.int64


def test_an_object_array_of_sequences():
    nested = np.empty(3, dtype=object)
    nested[:] = PARTS
    assert_form(sequence_form(nested))


@pytest.mark.parametrize("form", FORMS, ids=FORM_NAMES)
def test_two_dimensions_are_one_sequence(form):
    found = sequence_form(form(X))
    assert_form(found, X, [0, 7])
    assert_array_equal(found.restored(np.arange(7)), np.arange(7))


@pytest.mark.parametrize(
    "ids", [[9, 9, 9, 2, 5, 5, 5], list("bbbaccc"), [1.5] * 3 + [0.5, 7, 7, 7]]
)
@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_groups_are_numbered_as_they_appear(ids, make):
    form = sequence_form(X, groups=make(ids))
    assert_form(form)
    assert form.order is None


def test_sparse_rows_are_no_list():
    assert_array_equal(sequence_form(sparse.csr_array(X)).offsets, [0, 7])


# ---------------------------------------------------------------------------- the form inside


@pytest.mark.parametrize("index", [slice(1, 3), slice(0, 0), slice(None, None, 2), [2, 0], [1, 1]])
def test_sequences_are_chosen_whole(index):
    data = Sequences(Rows(X, labels=np.arange(7, dtype=np.int32)), np.array([0, 3, 4, 7]))
    chosen, parts = data[index], [PARTS[i] for i in np.arange(3)[index]]
    assert len(chosen) == len(parts)
    assert_array_equal(chosen.X, np.concatenate([*parts, X[:0]]))
    assert_array_equal(chosen.lengths, [len(part) for part in parts])
    assert_array_equal(chosen.rows.labels, chosen.X[:, 0] // 2)


def test_slices_are_views():
    data = Sequences(Rows(X), np.array([0, 3, 4, 7]))
    assert np.shares_memory(data[1:].X, X) and not np.shares_memory(data[[1, 2]].X, X)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 7, 100])
def test_chunks_are_whole_sequences_in_order(n_rows):
    data = Sequences(Rows(X), np.array([0, 3, 4, 7])).continued(np.array([0.5, 0.5]))
    chunks = data.chunks(n_rows)
    assert_array_equal(np.concatenate([chunk.X for chunk in chunks]), X)
    assert_array_equal(np.concatenate([chunk.lengths for chunk in chunks]), LENGTHS)
    assert [chunk.before is not None for chunk in chunks] == [True] + [False] * (len(chunks) - 1)


def test_survival_is_of_fresh_sequences():
    data = Sequences(Rows(X), np.array([0, 3, 4, 7]))
    for some, shares in ((data, [1.0, 2 / 3]), (data.continued(np.ones(1)), [2 / 3, 1 / 3])):
        assert_array_equal(some.steps, [[1, 3], shares])


@pytest.mark.parametrize("kind", [GaussianHMM, KalmanFilter])
@pytest.mark.parametrize(
    ("n_sequences", "length", "expected"),
    [
        pytest.param(1000, 30, 34, id="a thousand rows, rounded up"),
        pytest.param(600, 3, 30, id="a twentieth"),
        pytest.param(60, 30, 10, id="ten sequences"),
        pytest.param(2000, 50, 40, id="a fiftieth"),
    ],
)
def test_the_default_mini_batch(kind, n_sequences, length, expected, rng):
    X = rng.normal(size=(n_sequences, length, 1))
    default = kind(1, max_iter=1, random_state=0).fit(X)
    assert default.n_steps_ == math.ceil(n_sequences / expected)
    explicit = kind(1, max_iter=1, batch_size=expected, random_state=0).fit(X)
    assert explicit.score(X) == default.score(X)


@pytest.mark.parametrize(("n_sequences", "length"), [(1, 3000), (10, 200), (10, 3)])
def test_data_of_one_mini_batch_are_fitted_by_batch_em(n_sequences, length, rng):
    X = rng.normal(size=(n_sequences, length, 1))
    hmm = GaussianHMM(1, max_iter=2, tol=0.0, random_state=0).fit(X)
    assert [step.eta for step in hmm.history_] == [math.inf, math.inf]


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


SEQUENCES = [np.arange(6.0).reshape(3, 2), np.ones((2, 2))]


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "transformer", [None, "scale", np.ones(3), Online(), BaseEstimator(), StandardScaler]
)
def test_what_transforms_nothing_is_refused(transformer, method):
    with pytest.raises((TypeError, ValueError), match="PerSequence"):
        getattr(PerSequence(transformer), method)(SEQUENCES)


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "get_feature_names_out"])
@pytest.mark.parametrize("transformer", [None, np.ones(3), StandardScaler, StandardScaler()])
def test_what_is_not_fitted_says_so(transformer, method):
    with pytest.raises(NotFittedError):
        getattr(PerSequence(transformer), method)(SEQUENCES)


def test_a_batch_that_is_refused_changes_nothing():
    stream = PerSequence(StandardScaler()).partial_fit(SEQUENCES)
    before = copy.deepcopy(vars(stream.transformer_))
    with pytest.raises(ValueError, match="sparse"):
        stream.partial_fit(sparse.csr_array(SEQUENCES[0]))
    assert vars(stream.transformer_).keys() == before.keys()
    for name, value in before.items():
        assert_array_equal(getattr(stream.transformer_, name), value)


def test_transformers_that_require_targets_get_those_of_rows(rng):
    X = [rng.standard_normal((n, 3)) for n in (9, 5, 30)]
    y = [rng.integers(0, 3, len(part)) for part in X]
    names = [np.array([*"abc"])[part] for part in y]
    expected = LinearDiscriminantAnalysis().fit(np.concatenate(X), np.concatenate(y))
    for labels in (y, names, np.concatenate(names)):
        found = PerSequence(LinearDiscriminantAnalysis()).fit(X, labels).transform(X)
        assert [len(part) for part in found] == [9, 5, 30]
        assert_array_equal(np.concatenate(found), expected.transform(np.concatenate(X)))
    with pytest.raises(ValueError, match=r"PerSequence: y\[0\] has 5 entries"):
        PerSequence(LinearDiscriminantAnalysis()).fit(X, y[::-1][1:] + y[:1])
