"""What bad input and faults get, over all estimators of sequences.

Lengths and groups that are none are in `estimators/test_sequences.py`, Ctrl-C in `test_faults.py`.
"""

import warnings

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.comparing import arrays, assert_identical
from cases.merged_cases import WAYS
from cases.refusals import assert_refused_by, error_of, fits_unless_refused
from cases.sequence_cases import KALMAN_FILTERS, N_STATES, SEQUENCE_ESTIMATORS
from cases.states import state_of
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_onlineem import (
    HMM,
    CategoricalHMM,
    GaussianHMM,
    KalmanFilter,
    MultinomialHMM,
    PoissonHMM,
)

pytestmark = [
    # Nothing may overflow or divide by zero on the way to a result or an error.
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def where(holds):
    return cases_where(holds, SEQUENCE_ESTIMATORS)


all_estimators = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)
all_models = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS + KALMAN_FILTERS, ids=repr)
# What reads sequences is the same for all: rows of numbers, symbols, and a model of its own.
READERS = [c for c in SEQUENCE_ESTIMATORS + KALMAN_FILTERS if repr(c) in WAYS]
all_readers = pytest.mark.parametrize("case", READERS, ids=repr)
gaussians = where(lambda case: case.is_gaussian)
scalable = where(lambda case: case.is_scalable)


def assert_refused(case, *data, **arguments):
    """Bad sequences, after good ones, are an error everywhere."""
    assert_refused_by((*case.inference, "filter"), case, *data, **arguments)


def assert_finite(hmm, X):
    assert all(np.isfinite(array).all() for array in arrays(hmm.model_))
    assert np.isfinite(hmm.score_samples(X)).all()
    if isinstance(hmm, KalmanFilter):
        assert all(np.isfinite(rows).all() for rows in hmm.transform(X) + hmm.impute(X))
        for covariance in (hmm.model_.transitions.covariance, hmm.model_.emissions.covariance):
            assert np.linalg.eigvalsh(covariance).min() > 0.0
        return
    for posterior in hmm.predict_proba(X):
        assert_allclose(posterior.sum(axis=1), 1.0, rtol=1e-6)
    assert_allclose(hmm.startprob_.sum(), 1.0)
    assert_allclose(hmm.model_.transmat.sum(axis=1), 1.0)


def assert_refused_or_finite(case, X):
    for estimator in fits_unless_refused(case, X):
        assert_finite(estimator, X)


def assert_same_fit(case, X, expected):
    """Both data give the same bits, in `fit`, `partial_fit` and `predict_proba`."""
    found, wanted = case(max_iter=2).fit(X), case(max_iter=2).fit(expected)
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    found.partial_fit(X[:5]), wanted.partial_fit(expected[:5])
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    assert_identical(found.transform(X), wanted.transform(expected))


def changed(X, change, which=3):
    """The sequences with a copy of one of them changed."""
    X = [sequence.copy() for sequence in X]
    X[which] = change(X[which])
    return X


def with_value(value, row=1, column=0):
    def change(sequence):
        sequence[row, column] = value
        return sequence

    return change


# --------------------------------------------------------------------------------------- values


def takes_gaps(case):
    """Whether some values of a row may be missing."""
    return case().__sklearn_tags__().input_tags.allow_nan


@all_models
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.7e308, -1.7e308])
def test_values_that_are_infinite_or_too_large(case, value, rng):
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(value)))


@where(lambda case: not takes_gaps(case))
def test_nan_beside_other_values(case, rng):
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(np.nan)))


@all_models
def test_nan_is_a_missing_value(case, rng):
    X, _ = case.data(rng)
    gaps = changed(X, with_value(np.nan, column=slice(None)))
    if takes_gaps(case):
        gaps = changed(gaps, with_value(np.nan), which=5)
    assert_finite(case().fit(gaps), gaps)
    assert_finite(case().partial_fit(X).partial_fit(gaps), gaps)
    nothing = changed(X, lambda sequence: np.full_like(sequence, np.nan))
    assert_finite(case().fit(nothing), nothing)


@all_models
def test_a_constant_column(case, rng):
    X, _ = case.data(rng)
    most = np.concatenate(X).max()
    for sequence in X:
        sequence[:, 0] = most
    for hmm in (case().fit(X), case(solver="batch").fit(X), case().partial_fit(X)):
        assert_finite(hmm, X)
        if hasattr(hmm, "covars_"):
            assert np.linalg.eigvalsh(hmm.covars_).min() > 0


@all_models
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_identical_rows(case, solver, rng):
    X, _ = case.data(rng)
    X = [np.repeat(X[1][:1], 10, axis=0)] * 12
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hmm = case(solver=solver, batch_size=4).fit(X)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert_finite(hmm, X)
    assert_finite(case().partial_fit(X).partial_fit(X[:2]), X)


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_two_repeated_points(case, solver, rng):
    points = case.rows(rng, np.array([0, 1]))
    X = [points[[0] * 8 + [1] * 8], points[[1] * 5 + [0] * 9]] * 8
    hmm = case(n_components=2, solver=solver).fit(X)
    assert_finite(hmm, X)
    if not np.array_equal(*points):
        found = hmm.predict(X)[0]
        assert_array_equal(found == found[0], [True] * 8 + [False] * 8)


@all_models
def test_a_scale_of_1e200(case, rng):
    X, _ = case.data(rng)
    assert_refused_or_finite(case, [sequence * 1e200 for sequence in X])


@scalable
@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e50, 1e100])
def test_a_small_or_large_scale_changes_nothing(case, scale, rng):
    X, _ = case.data(rng)
    scaled = [sequence * scale for sequence in X]
    here, there = case().fit(X), case().fit(scaled)
    assert_identical(there.predict(scaled), here.predict(X))
    assert_allclose(there.transmat_, here.transmat_, rtol=1e-5, atol=1e-9)


@scalable
def test_a_scale_of_1e_minus_200(case, rng):
    X, _ = case.data(rng)
    assert_refused_or_finite(case, [sequence * 1e-200 for sequence in X])


@gaussians
def test_an_offset_of_1e8(case, rng):
    X, _ = case.data(rng)
    X = [np.round(sequence * 2**20) / 2**20 for sequence in X]  # as exact at 1e8 as at 0
    far = [sequence + 1e8 for sequence in X]
    here, there = case().fit(X), case().fit(far)
    assert_identical(there.predict(far), here.predict(X))
    assert_allclose(there.transmat_, here.transmat_, rtol=1e-5, atol=1e-8)
    assert_allclose(there.score(far), here.score(X), rtol=1e-6)
    here.partial_fit(X[:5]), there.partial_fit(far[:5])
    parameters = [hmm.model_.parameters for hmm in (here, there)]
    assert_allclose(parameters[1].mean - 1e8, parameters[0].mean, atol=1e-5)
    assert_allclose(parameters[1].covariance, parameters[0].covariance, rtol=1e-5, atol=1e-5)


@gaussians
def test_float32_at_an_offset_of_1e4(case, rng):
    X, _ = case.data(rng)
    X = [(sequence + 1e4).astype(np.float32) for sequence in X]
    exact = [sequence.astype(float) for sequence in X]
    single, double = case().fit(X), case().fit(exact)
    for _ in range(5):
        single.partial_fit(X[:5]), double.partial_fit(exact[:5])
    found, expected = single.model_.parameters, double.model_.parameters
    assert_allclose(found.mean, expected.mean, rtol=1e-6)
    assert_allclose(found.covariance, expected.covariance, rtol=2e-3, atol=2e-3)
    assert_allclose(single.transmat_, double.transmat_, atol=1e-3)


# ---------------------------------------------------------------------------------------- amounts


@all_models
def test_fits_of_fewer_rows_than_states(case, rng):
    X, _ = case.data(rng)
    hmm = case(n_components=5)
    message = f"{case.size}=5.*n_samples=4.*more rows.*initial"
    with pytest.raises(ValueError, match=message) as raised:
        hmm.fit(X[1][[0, 0, 1, 1]])
    assert type(hmm).__name__ in str(raised.value)
    with pytest.raises(NotFittedError):
        hmm.transform(X)


@all_models
@pytest.mark.parametrize("in_first_call", [1, 4])
def test_streams_begin_with_fewer_rows_than_states(case, in_first_call, rng):
    """Kept or not, they make a start."""
    X, _ = case.data(rng)
    first = X[1][[0, 0, 1, 1]][:in_first_call]
    for arguments in ({}, {"solver": AT_ONCE}):
        hmm = case(n_components=5, **arguments).partial_fit(first)
        assert_finite(hmm, X)
        assert_finite(hmm.partial_fit(X[1][2:4]), X)
        assert_finite(hmm.partial_fit(5 * X), X)
        assert hmm.n_rows_kept_ == 0 and hmm.n_samples_seen_ == 2 + 5 * len(X)


@all_readers
def test_no_rows_or_no_sequences(case, rng):
    """Nothing is an error of fits and predictions, and changes no stream."""
    X, _ = case.data(rng)
    assert_refused(case, X, changed(X, lambda sequence: sequence[:0]))
    for nothing in (X[1][:0], np.empty((0, 3, X[0].shape[1])), []):
        fresh = case()
        with error_of(fresh):
            fresh.fit(nothing)
        assert fresh.partial_fit(nothing) is fresh
        with pytest.raises(NotFittedError):
            fresh.transform(X)
        fitted = case().partial_fit(X[:3])
        before = state_of(fitted)
        for method in (*case.inference, "filter"):
            with error_of(fitted):
                getattr(fitted, method)(nothing)
        assert_identical(state_of(fitted.partial_fit(nothing)), before)


@all_models
def test_a_batch_of_one_row(case, rng):
    X, _ = case.data(rng)
    assert_finite(case().partial_fit(X).partial_fit(X[0][:1]), X)
    alone = case(n_components=1).partial_fit(X[0][:1])
    assert_finite(alone, X[:1])
    assert_finite(alone.partial_fit(X[1][:1]).partial_fit(X), X)


@all_models
def test_another_number_of_features(case, rng):
    X, _ = case.data(rng)
    hmm = case().partial_fit(X)
    before = state_of(hmm)
    wide = [np.hstack([sequence, sequence]) for sequence in X]
    for wrong in (wide, [X[0], wide[1]], X[0][0]):
        for method in ("partial_fit", "transform", "score_samples"):
            with error_of(hmm):
                getattr(hmm, method)(wrong)
    assert_identical(state_of(hmm), before)


# -------------------------------------------------------------------------------- types and layouts


def whole_numbers(case, rng):
    """Data of the estimator that are whole numbers from 0 (from 1 if it needs them) to 100."""
    X, _ = case.data(rng)
    least = min(sequence.min() for sequence in X)
    most = max(sequence.max() for sequence in X)
    if case.is_nominal:
        return X
    above = 0.0 if case.takes_zeros else 1.0
    return [np.clip(np.ceil((x - least) * 100.0 / (most - least)), above, 100) for x in X]


@all_readers
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", ">f8", ">i4", "object"])
def test_other_types_of_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    assert_same_fit(case, [sequence.astype(dtype) for sequence in X], X)


@all_estimators
@pytest.mark.parametrize("dtype", ["float16", ">f4"])
def test_other_types_of_short_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    short = [sequence.astype(dtype) for sequence in X]
    found, expected = (case(solver="batch").fit(data) for data in (short, X))
    assert_allclose(found.transmat_, expected.transmat_, atol=5e-3)


@where(lambda case: case.takes_zeros)
def test_bits(case, rng):
    X = [rng.random((length, 1 if case.is_nominal else 3)) < 0.5 for length in range(2, 20)]
    assert_same_fit(case, X, [sequence.astype(float) for sequence in X])


@all_readers
def test_strings_and_complex_numbers(case, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, changed(X, lambda sequence: np.full(sequence.shape, "a")))
    assert_refused(case, X, np.full(X[1].shape, "a"))
    assert_refused(case, X, changed(X, lambda sequence: sequence + 1j))


@all_readers
def test_read_only_and_memory_mapped_data(case, rng, tmp_path):
    X, _ = case.data(rng)
    rows, lengths = np.concatenate(X), [len(sequence) for sequence in X]
    np.save(tmp_path / "X.npy", rows)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen = rows.copy()
    frozen.flags.writeable = False
    expected = case(max_iter=2).fit(rows, lengths=lengths)
    for data in (mapped, frozen):
        found = case(max_iter=2).fit(data, lengths=lengths)
        assert_identical(arrays(found.model_), arrays(expected.model_))
        found.partial_fit(data, lengths=lengths).transform(data)
    parts = np.split(frozen, np.cumsum(lengths)[:-1])
    assert_same_fit(case, parts, X)
    # Nor is anything written to data that could be.
    before = rows.copy()
    case(max_iter=2).fit(rows, lengths=lengths).partial_fit(rows).transform(rows)
    assert_array_equal(rows, before)


@all_readers
def test_layouts(case, rng):
    X, _ = case.data(rng)
    rows = np.concatenate(X)
    buffer = np.empty(rows.nbytes + 1, dtype=np.uint8)
    misaligned = buffer[1:].view(rows.dtype).reshape(rows.shape)
    misaligned[...] = rows
    assert not misaligned.flags.aligned
    wide = np.zeros((len(rows), 2 * rows.shape[1]))
    wide[:, ::2] = rows
    expected = case(max_iter=2).fit(rows)
    for data in (np.asfortranarray(rows), rows[::-1].copy()[::-1], wide[:, ::2], misaligned):
        for form in (data, [data]):
            found = case(max_iter=2).fit(form)
            assert_identical(arrays(found.model_), arrays(expected.model_))
        assert_array_equal(found.transform(data), expected.transform(rows))


@all_readers
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_data_are_refused(case, form, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, form(X[1]), kinds=(TypeError, ValueError))
    assert_refused(case, X, [form(x) for x in X], kinds=(TypeError, ValueError))


# -------------------------------------------------------------------------------------- families


def test_a_document_without_words(rng):
    case = next(case for case in SEQUENCE_ESTIMATORS if case.make is MultinomialHMM)
    X, _ = case.data(rng)
    empty = changed(X, with_value(0.0, column=slice(None)))
    hmm = case().fit(empty)
    assert_finite(hmm, empty)
    # It says as much as a row that was not observed.
    gap = changed(X, with_value(np.nan, column=slice(None)))
    assert_allclose(hmm.score_samples(empty), hmm.score_samples(gap), rtol=1e-12)
    assert_allclose(hmm.predict_proba(np.zeros((1, 5)))[0], hmm.startprob_, rtol=1e-12)


@where(lambda case: case.refuses_negative)
def test_negative_values(case, rng):
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(-1.0)))


def test_codes_that_are_not_whole(rng):
    case = next(case for case in SEQUENCE_ESTIMATORS if case.make is CategoricalHMM)
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(0.5)))


@where(lambda case: case.is_count)
@pytest.mark.parametrize("scale", [1e15, 1e19])
def test_huge_counts(case, scale, rng):
    X, _ = case.data(rng)
    huge = [sequence * scale for sequence in X]
    assert_finite(case().fit(huge).partial_fit(huge), huge)


# ------------------------------------------------------------------------------- states, sequences


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_a_state_without_rows(case, solver, rng):
    """All rows are labelled, none with the last label."""
    X, y = case.data(rng)
    y = [np.minimum(states, 1) for states in y]
    hmm = case(solver=solver, batch_size=5, max_iter=5, semi_supervised=True).fit(X, y)
    assert_finite(hmm, X)
    for start in range(0, len(X), 5):
        hmm.partial_fit(X[start : start + 5], y[start : start + 5])
        assert_finite(hmm, X)
    assert_finite(hmm.partial_fit(X), X)
    assert np.isfinite(hmm.sample(20)[0]).all()


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_sequences_of_one_row(case, solver, rng):
    """Nothing is ever left, so that transitions stay what they were."""
    X = list(case.rows(rng, np.arange(30) % N_STATES)[:, None, :])
    transmat = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    if case.ends_by_itself:
        transmat = 0.5 * transmat
    hmm = case(solver=solver, transmat_init=transmat).fit(X)
    assert_finite(hmm, X)
    if not case.ends_by_itself:
        assert_allclose(hmm.transmat_, transmat, rtol=1e-9)
    assert_finite(hmm.partial_fit(X[:7]).partial_fit(X[7]), X)


@all_estimators
def test_a_state_that_is_never_left(case, rng):
    """Rows of the last state come last, in every sequence."""
    y = np.repeat([0, 1, 2], [5, 5, 1])
    X = [case.rows(rng, y) for _ in range(20)]
    hmm = case(solver="batch").fit(X, [y] * 20)
    assert_finite(hmm, X)
    assert_finite(hmm.partial_fit(X[:5], [y] * 5), X)


@all_estimators
def test_left_to_right_models_stay_so(case, rng):
    transmat = np.array([[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]])
    if case.ends_by_itself:
        transmat = 0.9 * transmat
    y = np.repeat([0, 1, 2], 6)
    X = [case.rows(rng, y) for _ in range(20)]
    hmm = case(
        transmat_init=transmat, startprob_init=[1, 0, 0], transmat_prior=2.0, startprob_prior=2.0,
        init=case.centres(X, [y] * 20),
    ).fit(X)  # fmt: skip
    for _ in range(2):
        assert_finite(hmm, X)
        assert_array_equal(hmm.transmat_[transmat == 0], 0.0)
        assert_array_equal(hmm.startprob_, [1.0, 0.0, 0.0])
        assert np.mean(np.concatenate(hmm.predict(X)) == np.tile(y, 20)) > 0.95
        hmm.partial_fit(X[:4])


@all_readers
@pytest.mark.parametrize("lengths", [[0, 5], [-1, 6], [2.0, 3.0], [2, 2], [], [[2, 3]]], ids=repr)
def test_lengths_that_are_none(case, lengths, rng):
    good, _ = case.data(rng)
    bad = np.concatenate(good)[:5]
    assert_refused(case, good, bad, kinds=(ValueError, TypeError), lengths=lengths)


def test_unseen_symbols(rng):
    X = rng.integers(0, 3, (100, 1))
    wide = CategoricalHMM(2, n_features=4, random_state=0).fit(X)
    # The documented floor of the probabilities.
    assert wide.score([[3]]) == pytest.approx(np.log(1e-10), rel=1e-6)
    narrow = CategoricalHMM(2, random_state=0).fit(X)
    before = state_of(narrow)
    for symbol in (3, 1e10):
        for method in (narrow.predict, narrow.partial_fit):
            with error_of(narrow):
                method([[0.0], [symbol]])
    assert_identical(state_of(narrow), before)


def test_a_symbol_of_1e10_allocates_nothing(rng):
    X = rng.integers(0, 3, (100, 1)).astype(float)
    X[3] = 1e10
    for hmm in (CategoricalHMM(2), CategoricalHMM(2, n_features=4)):
        with error_of(hmm):
            hmm.fit(X)


@pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS[:1], ids=repr)
@pytest.mark.parametrize(
    "parameter, value",
    [
        ("eta0", 0.0), ("eta0", np.nan), ("beta", -0.1), ("beta", 1.1), ("n_components", 0),
        ("max_iter", -1), ("batch_size", 0), ("solver", "gradient"), ("init", "nowhere"),
        ("termination", "infinite"), ("algorithm", "best"), ("params", "stx"),
        ("startprob_init", [1.0, -1.0, 1.0]), ("startprob_init", [0.5, 0.5]),
        ("startprob_init", [0.0, 0.0, 0.0]), ("transmat_init", np.zeros((3, 3))),
        ("transmat_init", np.full((3, 3), np.nan)), ("transmat_init", [0.5, 0.5]),
        ("transmat_prior", 0.0), ("transmat_prior", [[1.0, -1.0, 1.0]]), ("startprob_prior", -2.0),
        ("absorbing_states", [3]), ("absorbing_states", [-1]),
    ],
)  # fmt: skip
def test_parameters_out_of_range(case, parameter, value, rng):
    X, _ = case.data(rng)
    hmm = case(**{parameter: value})  # no error yet
    for method in (hmm.fit, hmm.partial_fit):
        with pytest.raises(ValueError, match=rf"(?s){parameter}") as raised:
            method(X)
        assert type(hmm).__name__ in str(raised.value)
    with pytest.raises(NotFittedError):
        hmm.score(X)


@pytest.mark.parametrize(
    "hmm",
    [
        GaussianHMM(2, means_init=np.zeros((2, 3))),
        GaussianHMM(2, covars_init=np.zeros((2, 2))),
        GaussianHMM(2, covars_init=np.ones((2, 3))),
        GaussianHMM(2, covariance_type="full", covars_init=[np.ones((2, 2))] * 2),
        PoissonHMM(2, lambdas_init=[[-1.0, 1.0], [1.0, 1.0]]),
        PoissonHMM(2, lambdas_init=[[1.0], [1.0]]),
        MultinomialHMM(2, emissionprob_init=[[-1.0, 2.0], [0.5, 0.5]]),
        PoissonHMM(2, prior={"shape": np.nan}),
        HMM(2, family="exponential", prior={"rate": -1.0}),
        HMM(2, family="exponential", prior={"spread": 1.0}),
        GaussianHMM(2, prior={"mean_precision": np.nan}),
        GaussianHMM(2, covariance_type="full", prior={"degrees_of_freedom": -50.0}),
        GaussianHMM(2, means_prior=[0.0, np.nan], means_weight=1.0),
        GaussianHMM(2, covars_prior=-np.eye(2)),
        GaussianHMM(2, startprob_prior=[np.inf, 1.0]),
        MultinomialHMM(2, emissionprob_prior=[0.0, 1.0]),
        MultinomialHMM(2, emissionprob_prior=[np.nan, 1.0]),
        MultinomialHMM(2, emissionprob_prior=[1.0, 1.0, 1.0]),
        CategoricalHMM(2, n_features=3, emissionprob_init=np.ones((2, 4))),
    ],
    ids=repr,
)
def test_start_values_that_are_none(hmm, rng):
    X = rng.integers(0, 2, (30, 1 if isinstance(hmm, CategoricalHMM) else 2))
    for method in (hmm.fit, hmm.partial_fit):
        with error_of(hmm):
            method(X)
