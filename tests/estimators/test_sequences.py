"""The four forms in which sequences come, and the way back."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_onlineem import GaussianHMM, KalmanFilter
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
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
