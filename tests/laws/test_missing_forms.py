"""Masked arrays, and NA of data frames: missing where values may be missing, else an error."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.merged_cases import WAYS
from cases.sequence_cases import (
    KALMAN_FILTERS,
    SEQUENCE_ESTIMATORS,
    all_estimators,
    all_models,
    flat,
)
from cases.states import state_of
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from sklearn_onlineem import GaussianHMM, KalmanFilter, PerSequence, WishartMixture
from sklearn_onlineem.distributed import DistributedEM

READERS = [case for case in [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS] if repr(case) in WAYS]
MIXTURES = [*(case for case in ESTIMATORS if repr(case) in WAYS), GIBBS[0]]
TAKE_GAPS = [case for case in MIXTURES if get_tags(case()).input_tags.allow_nan]
REFUSE_GAPS = [case for case in MIXTURES[:-1] if case not in TAKE_GAPS]
all_mixtures = pytest.mark.parametrize("case", MIXTURES, ids=repr)
readers = pytest.mark.parametrize("case", READERS, ids=repr)
# Values beneath a mask, taken in turn; nobody reads them.
BENEATH = [0.0, -1e300, np.nan, np.inf]


def masked(X, beneath):
    hidden = np.isnan(X)
    values = np.where(hidden, 0.0, X)
    values[hidden] = np.resize(beneath, hidden.sum())
    return np.ma.masked_array(values, mask=hidden)


def names_of(X):
    return [f"x{j}" for j in range(X.shape[1])]


def nullable(X):
    columns = zip(names_of(X), np.where(np.isnan(X), pd.NA, X.astype(object)).T, strict=True)
    return pd.DataFrame({name: pd.array(x, dtype="Float64") for name, x in columns})


def with_na(X):
    values, missing = X.astype(object), np.isnan(X)
    values[missing] = np.resize(np.array([pd.NA, pd.NaT, None], dtype=object), missing.sum())
    return pd.DataFrame(values, columns=names_of(X))


def whole_numbers(X):
    frame = nullable(X)
    return frame.astype("Int64") if (np.nan_to_num(X) % 1 == 0).all() else frame


def nulls(X):
    columns = ([None if np.isnan(x) else x for x in column] for column in X.T.tolist())
    schema = dict.fromkeys(names_of(X), pl.Float64)
    return pl.DataFrame(dict(zip(names_of(X), columns, strict=True)), schema=schema)


def rows_of_masks(X):
    return list(masked(X, 0.0))


FORMS = {
    "masked": lambda X: masked(X, BENEATH),
    "list of masked rows": rows_of_masks,
    "Float64": nullable,
    "Int64": whole_numbers,
    "objects with NA": with_na,
    "array of objects with NA": lambda X: with_na(X).to_numpy(),
    "lists with NA": lambda X: with_na(X).to_numpy().tolist(),
    "polars": nulls,
    "pyarrow": lambda X: nulls(X).to_arrow(),
    "double[pyarrow]": lambda X: nullable(X).astype("double[pyarrow]"),
}
all_forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def with_gaps(case, rng):
    """Sequences of which some rows, and of Gaussians some values, are missing."""
    X, _ = case.data(rng, 8)
    X = [np.array(part, dtype=float) for part in X]
    for part in X[1:]:
        part[len(part) // 2] = np.nan
        if case.is_gaussian:
            part[0, 1] = np.nan
    return X


@readers
@all_forms
def test_missing_values_of_sequences(case, form, rng):
    X = with_gaps(case, rng)
    rows, lengths = flat(X)
    expected = case(max_iter=2).fit(X)
    following = state_of(copy.deepcopy(expected).partial_fit(X))
    found = case(max_iter=2).fit([form(part) for part in X])
    assert_identical(state_of(found), state_of(expected))
    assert_identical(found.score_samples([form(part) for part in X]), expected.score_samples(X))
    assert_identical(state_of(found.partial_fit([form(part) for part in X])), following)
    groups = np.repeat(np.arange(len(X)), lengths)
    order = np.argsort(np.concatenate([np.arange(n) for n in lengths]), kind="stable")
    for data, where in (
        (form(rows), {"lengths": lengths}),
        (form(rows[order]), {"groups": groups[order]}),
    ):
        found = case(max_iter=2).fit(data, **where)
        assert_identical(found.score_samples(data, **where).sum(), found.score_samples(X).sum())
    found = case(max_iter=2).fit(form(rows), lengths=lengths)
    assert_identical(state_of(found), state_of(expected))


@all_models
def test_masked_arrays_of_three_dimensions(case, rng):
    X = np.array([case.rows(rng, rng.integers(3, size=12)) for _ in range(6)], dtype=float)
    X[2:, 5] = np.nan
    found = case(max_iter=2).fit(np.ma.masked_array(np.nan_to_num(X), mask=np.isnan(X)))
    assert_identical(state_of(found), state_of(case(max_iter=2).fit(X)))


@pytest.mark.parametrize("case", TAKE_GAPS, ids=repr)
@all_forms
def test_missing_values_of_rows(case, form, rng):
    X, _ = case.data(rng, 60)
    X = np.array(X, dtype=float)
    X[::7, 0], X[5] = np.nan, np.nan
    expected, found = case(max_iter=2).fit(X), case(max_iter=2).fit(form(X))
    assert_identical(state_of(found), state_of(expected))
    for method in ("predict_proba", "score_samples", "score", "bic", "impute", "sample_missing"):
        values = getattr(found, method)(form(X))
        assert_identical(values, getattr(expected, method)(X))
    assert_identical(state_of(found.partial_fit(form(X))), state_of(expected.partial_fit(X)))


@pytest.mark.parametrize("case", REFUSE_GAPS, ids=repr)
@all_forms
def test_missing_values_of_other_rows_are_an_error(case, form, rng):
    X, _ = case.data(rng, 60)
    mixture = case(max_iter=2).fit(X)
    before = state_of(mixture)
    gap = np.array(X, dtype=float)
    gap[7, 0] = np.nan
    methods = "partial_fit", "predict", "predict_proba", "transform", "score", "score_samples"
    for method in (case().fit, *(getattr(mixture, name) for name in (*methods, "bic", "aic"))):
        with pytest.raises((ValueError, TypeError), match=type(mixture).__name__):
            method(form(gap))
    assert_identical(state_of(mixture), before)
    # Without gaps all forms are as the array, but that a list of arrays may be one of sequences.
    if "symbols" in mixture._takes and form is rows_of_masks:
        return
    assert_identical(state_of(case(max_iter=2).fit(form(np.array(X, dtype=float)))), before)


@all_forms
def test_gibbs_sampling_needs_complete_rows(form, rng):
    case = GIBBS[0]
    X, _ = case.data(rng, 60)
    mixture = case(max_iter=2).fit(X)
    X[7, 0] = np.nan
    with pytest.raises(ValueError, match="GaussianMixture: Gibbs sampling needs rows without"):
        case().fit(form(X))
    assert_identical(mixture.predict_proba(form(X)), mixture.predict_proba(X))


@all_estimators
def test_single_values_where_whole_rows_only_may_be_missing(case, rng):
    if case().__sklearn_tags__().input_tags.allow_nan:
        return
    X = with_gaps(case, rng)
    X[2][0, 0] = np.nan
    with pytest.raises(ValueError, match=type(case()).__name__):
        case().fit([masked(part, 1.0) for part in X])


def test_the_users_data_stay_as_they_are(rng):
    values = rng.standard_normal((40, 2)).astype(np.float32)
    data = np.ma.masked_array(values.copy(), mask=values > 1, hard_mask=True)
    whole = np.ma.masked_array(rng.integers(0, 9, (40, 2)), mask=values > 1)
    frame = pd.DataFrame({"a": [1, pd.NA] * 20, "b": [2.0] * 40}, dtype=object)
    kept = data.copy(), whole.copy(), frame.copy()
    for estimator in (GaussianHMM(2, random_state=0), KalmanFilter(random_state=0)):
        for X in (data, whole, frame):
            estimator.fit([X, X]).partial_fit(X).transform(X)
    assert_identical([data.data, data.mask], [kept[0].data, kept[0].mask])
    assert_identical([whole.data, whole.mask], [kept[1].data, kept[1].mask])
    pd.testing.assert_frame_equal(frame, kept[2])
    assert data.dtype == np.float32 and whole.dtype == int


def test_masked_single_precision_stays_so(rng):
    values = rng.standard_normal((40, 2)).astype(np.float32)
    data = np.ma.masked_array(values, mask=values > 1)
    assert GaussianHMM(2, random_state=0).fit(data).means_.dtype == np.float32
    assert GaussianHMM(2, random_state=0).fit([data, data]).means_.dtype == np.float32


DATES = pd.DataFrame({"heat": np.arange(12.0), "day": pd.date_range("2026-01-01", periods=12)})
DURATIONS = DATES.assign(day=DATES["day"] - DATES["day"][3])
TIMES = [
    (DATES, "in column 'day'"),
    (DURATIONS, "in column 'day'"),
    (pl.from_pandas(DATES), "in column 'day'"),
    (pl.from_pandas(DURATIONS), "in column 'day'"),
    (pa.Table.from_pandas(DATES), "in column 'day'"),
    (DATES.astype({"day": "timestamp[ns][pyarrow]"}), "in column 'day'"),
    (DATES.assign(heat=DATES["day"]).mask(DATES["heat"] == 2.0), "in column 'heat'"),
    (np.array([["2026-01-01", "NaT"]] * 6, dtype="M8[D]"), ""),
    (np.ma.masked_less(np.arange(24).reshape(12, 2).astype("m8[s]"), 1), ""),
    ([[1.0, np.timedelta64(i, "s")] for i in range(12)], ""),
    (np.array([[1.0, np.datetime64(i, "s")] for i in range(12)], dtype=object), ""),
]


@pytest.mark.parametrize("case", [*READERS, *MIXTURES], ids=repr)
def test_dates_and_durations_are_no_numbers(case):
    for X, where in TIMES:
        for method in (case().fit, case().partial_fit):
            with pytest.raises(TypeError, match=f"{case.make.__name__}: X has dates or.*{where}"):
                method(X)


@all_mixtures
def test_masked_weights_and_labels_are_an_error(case, rng):
    X, y = case.data(rng, 60)
    weights = np.ma.masked_array(np.ones(60), mask=np.arange(60) == 5)
    for method in (case().fit, case().partial_fit):
        for given in (weights, list(weights)):
            with pytest.raises(ValueError, match=rf"{case.make.__name__}.*sample_weight"):
                method(X, sample_weight=given)
    with pytest.raises(ValueError, match=f"{case.make.__name__}.*y has masked"):
        case(semi_supervised=True).fit(X, np.ma.masked_array(y, mask=np.arange(60) == 5))
    whole = np.ma.masked_array(np.ones(60))
    assert_identical(
        state_of(case(max_iter=2).fit(X, sample_weight=whole)),
        state_of(case(max_iter=2).fit(X, sample_weight=np.ones(60))),
    )


def test_filters_take_masked_rows_one_by_one(rng):
    X = rng.standard_normal((30, 2))
    kalman = KalmanFilter(2, random_state=0).fit(X)
    gap = np.ma.masked_array([5.0, 1.0], mask=[True, False])
    expected = kalman.filter_update(np.zeros(2), np.eye(2), [np.nan, 1.0])
    assert_identical(kalman.filter_update(np.zeros(2), np.eye(2), gap), expected)


def test_transformers_of_rows_see_what_is_missing(rng):
    X = [rng.standard_normal((10, 2)) for _ in range(3)]
    X[1][4] = np.nan
    expected = make_pipeline(PerSequence(StandardScaler()), GaussianHMM(2, random_state=0)).fit(X)
    for data in ([masked(part, 9.0) for part in X], [nullable(part) for part in X]):
        found = make_pipeline(PerSequence(StandardScaler()), GaussianHMM(2, random_state=0))
        assert_close(found.fit(data)[-1].model_, expected[-1].model_, rtol=1e-9)
    one = PerSequence(StandardScaler()).fit(masked(X[1], 9.0))
    assert_identical(one.transformer_.mean_, StandardScaler().fit(X[1]).mean_)


def test_shards_of_masked_arrays(rng):
    X = rng.standard_normal((40, 2))
    X[3] = np.nan
    hmm = GaussianHMM(2, random_state=0, max_iter=2)
    for data in (X, list(X.reshape(4, 10, 2))):
        hidden = masked(data, 1.0) if data is X else [masked(part, 1.0) for part in data]
        found, expected = (DistributedEM(hmm, n_shards=2).fit(part) for part in (hidden, data))
        assert_identical(found.estimator_.model_, expected.estimator_.model_)
    with pytest.raises(ValueError, match="WishartMixture"):
        DistributedEM(WishartMixture(2)).fit(masked(X, 1.0))
