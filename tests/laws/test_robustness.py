"""What bad input and faults get: one law for each, over all estimators of rows and of sequences.

Ctrl-C, threads and forks are in `test_faults.py`, clusters of machines in
`distributed/test_dask.py`.
"""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.collapsed_cases import GIBBS
from cases.comparing import arrays, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.family_cases import IMPROPER, LIMITS, hyperparameters
from cases.merged_cases import WAYS
from cases.refusals import assert_refused_by, error_of, fits_unless_refused
from cases.sequence_cases import KALMAN_FILTERS, N_STATES, SEQUENCE_ESTIMATORS, SequenceCase
from cases.states import state_of
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_onlineem import (
    HMM,
    BernoulliMixture,
    CategoricalHMM,
    CompoundDirichletMixture,
    GammaMixture,
    KalmanFilter,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    WishartMixture,
)
from sklearn_onlineem.em import Batch
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.families import Categorical
from sklearn_onlineem.families.capabilities import Marginals

# Nothing may overflow or divide by zero on the way to a result or an error.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

MIXTURES = [*ESTIMATORS, *GIBBS[:2]]
ALL = [*MIXTURES, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]
all_mixtures = pytest.mark.parametrize("case", MIXTURES, ids=repr)
all_hmms = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS, ids=repr)
all_sequences = pytest.mark.parametrize("case", SEQUENCE_ESTIMATORS + KALMAN_FILTERS, ids=repr)
all_estimators = pytest.mark.parametrize("case", ALL, ids=repr)
with_components = pytest.mark.parametrize("case", [*MIXTURES, *SEQUENCE_ESTIMATORS], ids=repr)
# All estimators read data, parameters and pickles in these ways.
ROW_READERS = [*(c for c in ESTIMATORS if repr(c) in {*WAYS, "WishartMixture"}), GIBBS[0]]
row_readers = pytest.mark.parametrize("case", ROW_READERS, ids=repr)
SEQUENCE_READERS = [c for c in SEQUENCE_ESTIMATORS + KALMAN_FILTERS if repr(c) in WAYS]
sequence_readers = pytest.mark.parametrize("case", SEQUENCE_READERS, ids=repr)
all_readers = pytest.mark.parametrize("case", [*ROW_READERS, *SEQUENCE_READERS], ids=repr)
by_em = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
# The first data say how many codes there are.
UNCOUNTED = [
    replace(case, arguments={}, name=f"{case!r}, uncounted")
    for case in [*ESTIMATORS, *SEQUENCE_ESTIMATORS]
    if repr(case) in ("CategoricalMixture", "CategoricalHMM")
]


def where(holds):
    return cases_where(holds, [*ESTIMATORS, *SEQUENCE_ESTIMATORS])


def mixtures_where(holds):
    return cases_where(holds, ESTIMATORS)


FEW_PASSES = {"solver": Batch(acceleration=None), "tol": 1e-3}
gaussians = where(lambda case: case.is_gaussian)
scalable = where(lambda case: case.is_scalable)


def of_sequences(case):
    return isinstance(case, SequenceCase)


def takes_gaps(case):
    """Whether some values of a row may be missing."""
    if of_sequences(case):
        return case().__sklearn_tags__().input_tags.allow_nan
    return isinstance(case()._family(), Marginals)


def each(function, X):
    """A function of the rows, or of the rows of each sequence."""
    return [function(part) for part in X] if isinstance(X, list) else function(X)


def changed(X, change, which=3):
    """The data with a copy of the rows, or of those of one sequence, changed."""
    X = each(np.copy, X)
    if not isinstance(X, list):
        return change(X)
    X[which] = change(X[which])
    return X


def with_value(value, row=1, column=0):
    def change(rows):
        rows[row, column] = value
        return rows

    return change


def few(X):
    return X[: 5 if isinstance(X, list) else 50]


def assert_refused(case, *data, predicted=True, **arguments):
    """Bad data, after a case and good ones, are an error everywhere."""
    methods = ("predict", "predict_proba", "score_samples") if predicted else ()
    if predicted and of_sequences(case):
        methods = (*case.inference, "filter")
    assert_refused_by(methods, case, *data, **arguments)


def assert_finite(estimator, X):
    assert all(np.isfinite(array).all() for array in arrays(estimator.model_))
    assert np.isfinite(estimator.score_samples(X)).all()
    if isinstance(estimator, KalmanFilter):
        assert all(np.isfinite(rows).all() for rows in estimator.transform(X) + estimator.impute(X))
        for part in (estimator.model_.transitions, estimator.model_.emissions):
            assert np.linalg.eigvalsh(part.covariance).min() > 0.0
        return
    posterior = estimator.predict_proba(X)
    for part in posterior if isinstance(posterior, list) else [posterior]:
        assert_allclose(part.sum(axis=1), 1.0, rtol=1e-6)
    if hasattr(estimator.model_, "transmat"):
        assert_allclose(estimator.startprob_.sum(), 1.0)
        assert_allclose(estimator.model_.transmat.sum(axis=1), 1.0)


def assert_refused_or_finite(case, X):
    for estimator in fits_unless_refused(case, X):
        assert_finite(estimator, X)


def assert_same_fit(case, X, expected):
    """Both data give the same bits, in `fit`, `partial_fit` and `transform`."""
    found, wanted = case(max_iter=2).fit(X), case(max_iter=2).fit(expected)
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    found.partial_fit(few(X)), wanted.partial_fit(few(expected))
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    assert_identical(found.transform(X), wanted.transform(expected))


def whole_numbers(case, rng):
    """Data of the estimator that are whole numbers from 0 (from 1 if it needs them) to 100."""
    X, _ = case.data(rng) if of_sequences(case) else case.data(rng, 200)
    if case.is_matrix:
        off_diagonal = np.rint(40.0 * rng.integers(0, 3, 200) + 10.0 * rng.random(200))
        hundred = np.full(200, 100.0)
        return np.column_stack([hundred, off_diagonal, off_diagonal, hundred])
    if case.is_binary or case.is_nominal:
        return X
    rows = np.concatenate(X) if isinstance(X, list) else X
    lowest, least = min(0.0, rows.min()), 0.0 if case.takes_zeros else 1.0
    factor = min(1.0, 100.0 / np.ceil(rows - lowest).max())
    return each(lambda x: np.clip(np.ceil(np.ceil(x - lowest) * factor), least, 100), X)


def means_of(estimator):
    return estimator.model_.family.means(estimator.model_.parameters)


def covariances(estimator):
    parameters, d = estimator.model_.parameters, estimator.n_features_in_
    parameters = getattr(parameters, "inner", parameters)
    covariance = getattr(parameters, "gaussians", parameters).covariance
    return covariance if covariance.ndim == 3 else covariance[:, None, :] * np.eye(d)


# --------------------------------------------------------------------------------------- values


@all_estimators
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308])
def test_values_that_are_no_numbers_or_too_large(case, value, rng):
    good, _ = case.data(rng)
    column = 0 if of_sequences(case) else 1
    bad = changed(good, with_value(value, column=column))
    if np.isnan(value) and takes_gaps(case):  # missing, see test_gaps.py
        bad = changed(bad, with_value(np.inf, row=0, column=column))
    assert_refused(case, good, bad)


def test_numbers_that_overflow_to_both_sides_are_refused_without_warnings():
    X = np.tile([[1.7e308], [-1.7e308]], (200, 1))
    with pytest.raises(ValueError, match="KalmanFilter: .* overflow"):
        KalmanFilter(1).fit(X)


def test_sequences_that_cannot_end_are_refused_without_warnings(rng):
    ends = {"termination": "absorbing_states", "absorbing_states": [1]}
    hmm = HMM(2, family="laplace", startprob_init=[1, 0], transmat_init=np.eye(2), **ends)
    with pytest.raises(ValueError, match="HMM: Some sequences are impossible"):
        hmm.fit([rng.normal(size=(10, 1))] * 3)


@all_sequences
def test_nan_is_a_missing_value(case, rng):
    X, _ = case.data(rng)
    gaps = changed(X, with_value(np.nan, column=slice(None)))
    if takes_gaps(case):
        gaps = changed(gaps, with_value(np.nan), which=5)
    assert_finite(case().fit(gaps), gaps)
    assert_finite(case().partial_fit(X).partial_fit(gaps), gaps)
    nothing = changed(X, lambda sequence: np.full_like(sequence, np.nan))
    if case.is_diffuse:
        with pytest.raises(ValueError, match=f"{case.make.__name__}: .* do not determine"):
            case().fit(nothing)
        return
    assert_finite(case().fit(nothing), nothing)


@all_estimators
def test_a_constant_column(case, rng):
    X, _ = case.data(rng)
    most = np.concatenate(X).max() if of_sequences(case) else X.max()
    X = each(lambda rows: np.hstack([np.full((len(rows), 1), most), rows[:, 1:]]), X)
    for estimator in (case().fit(X), case(solver="batch").fit(X), case().partial_fit(X)):
        assert_finite(estimator, X)
        if case.is_gaussian and not isinstance(estimator, KalmanFilter):
            assert np.linalg.eigvalsh(covariances(estimator)).min() > 0


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_identical_rows(case, solver, rng):
    X, _ = case.data(rng)
    if of_sequences(case):
        X, batch_size = [np.repeat(X[1][:1], 10, axis=0)] * 12, 4
    else:
        X, batch_size = np.repeat(X[:1], 60, axis=0), 20
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = case(solver=solver, batch_size=batch_size).fit(X)
    assert {warning.category for warning in caught} == {ConvergenceWarning}
    # Online EM from a start that is given is on its way to variances of 0 when passes end.
    assert len(caught) == 1 or (case.starts_are_given and solver == "online")
    assert_finite(estimator, X)
    assert_finite(case().partial_fit(X).partial_fit(X[:2]), X)


@with_components
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_two_repeated_points(case, solver, rng):
    draw, y = case.rows if of_sequences(case) else case.clusters, np.repeat([0, 1], 20)
    points = draw(rng, np.array([0, 1]))
    X, y = points[y], y == 0
    if of_sequences(case):
        parts = np.repeat([0, 1], 8), np.repeat([1, 0], [5, 9])
        X, y = [points[part] for part in parts] * 8, parts[0] == 0
    estimator = case(n_components=2, solver=solver).fit(X)
    assert_finite(estimator, X)
    # Beside the row before them, points tell no states.
    if not np.array_equal(*points) and not getattr(case, "n_before", 0):
        found = estimator.predict(X)
        found = found[0] if of_sequences(case) else found
        assert_array_equal(found == found[0], y)


@all_estimators
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_scales_of_extreme_numbers(case, scale, rng):
    X, _ = case.data(rng)
    assert_refused_or_finite(case, each(lambda rows: rows * scale, X))


@scalable
@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e50, 1e100])
def test_a_small_or_large_scale_changes_nothing(case, scale, rng):
    X, _ = case.data(rng)
    scaled = each(lambda rows: rows * scale, X)
    here, there = case().fit(X), case().fit(scaled)
    assert_identical(there.predict(scaled), here.predict(X))
    if of_sequences(case):
        assert_allclose(there.transmat_, here.transmat_, rtol=1e-5, atol=1e-9)
    else:
        assert_allclose(there.means_, here.means_ * scale, rtol=1e-6)
        assert_allclose(there.weights_, here.weights_, rtol=1e-6)


@mixtures_where(lambda case: case.is_scalable)
def test_a_scale_of_1e_minus_200_changes_no_label(case, rng):
    X, _ = case.data(rng)
    mixture = case()
    try:
        mixture.fit(X * 1e-200)
    except ValueError as error:
        assert type(mixture).__name__ in str(error)
    else:
        assert_array_equal(mixture.predict(X * 1e-200), case().fit(X).predict(X))


@mixtures_where(lambda case: case.is_gaussian)
@pytest.mark.parametrize("init", [*STARTS, "centres", "responsibilities"])
def test_an_offset_of_1e8(case, init, rng):
    X, _ = case.data(rng, n_clusters=1)  # of which other starts make other fits
    X = np.round(X * 2**20) / 2**20  # as exact at 1e8 as at 0
    shares = rng.random((len(X), 3))
    starts = {"centres": (X[:3], X[:3] + 1e8), "responsibilities": (shares, shares)}
    # Few passes, in which the last digits do not grow.
    here, there = (case(init=start, **FEW_PASSES) for start in starts.get(init, (init, init)))
    here.fit(X), there.fit(X + 1e8)
    assert_allclose(there.weights_, here.weights_, rtol=1e-6)
    assert_same_at(1e8, here, there, X)


@cases_where(lambda case: case.is_gaussian, SEQUENCE_ESTIMATORS)
def test_an_offset_of_1e8_of_sequences(case, rng):
    X = [np.round(sequence * 2**20) / 2**20 for sequence in case.data(rng)[0]]
    # At the promised distance from the maximum, last digits have grown. Shared parts have maxima
    # nearly as high, between which these digits choose after many passes.
    settings = FEW_PASSES if str(case) == "HMM(shared parts)" else {"tol": 1e-12}
    here, there = (case(**settings).fit(rows) for rows in (X, [sequence + 1e8 for sequence in X]))
    assert_allclose(there.transmat_, here.transmat_, rtol=1e-5, atol=1e-8)
    assert_same_at(1e8, here, there, X)


def assert_same_at(offset, here, there, X):
    far = each(lambda rows: rows + offset, X)
    assert_identical(there.predict(far), here.predict(X))
    assert_allclose(there.score(far), here.score(X), rtol=1e-6)
    means = [
        estimator.model_.family.means(estimator.model_.parameters) for estimator in (here, there)
    ]
    assert_allclose(means[1] - offset, means[0], atol=1e-5)
    here.partial_fit(few(X)), there.partial_fit(few(far))
    assert_allclose(covariances(there), covariances(here), rtol=1e-5, atol=1e-5)


@gaussians
def test_float32_at_an_offset_of_1e4(case, rng):
    X = each(lambda rows: (rows + 1e4).astype(np.float32), case.data(rng)[0])
    exact = each(lambda rows: rows.astype(float), X)
    # Learnt degrees of freedom of rows of Gaussians grow, and with spherical covariances single
    # precision tells too little of how far.
    is_vague = repr(case) == "StudentTMixture(spherical, each)"
    given = {"degrees_of_freedom": 20.0} if is_vague else {}
    if str(case) in ("HMM(shared parts)", "RegressionHMM(lags)"):
        given = FEW_PASSES  # Maxima are nearly as high.
    single, double = case(**given).fit(X), case(**given).fit(exact)
    for _ in range(5 if of_sequences(case) else 10):
        single.partial_fit(few(X)), double.partial_fit(few(exact))
    assert_allclose(means_of(single), means_of(double), rtol=1e-6)
    tolerance = 2e-3 if of_sequences(case) else 1e-3
    assert_allclose(covariances(single), covariances(double), rtol=tolerance, atol=tolerance)
    if of_sequences(case):
        assert_allclose(single.transmat_, double.transmat_, atol=1e-3)
    else:
        assert single.means_.dtype == np.float32


# ---------------------------------------------------------------------------------------- amounts


@cases_where(lambda case: not case.starts_are_given, ALL)
def test_fits_of_fewer_rows_than_components(case, rng):
    X, _ = case.data(rng)
    estimator, size = case(n_components=5), getattr(case, "size", "n_components")
    n_rows = 4 - getattr(case, "n_before", 0)
    with pytest.raises(ValueError, match=f"{size}=5.*n_samples={n_rows}.*more rows") as raised:
        estimator.fit(X[1][[0, 0, 1, 1]] if of_sequences(case) else X[:4])
    assert type(estimator).__name__ in str(raised.value)
    with pytest.raises(NotFittedError):
        estimator.transform(X)


@all_estimators
@pytest.mark.parametrize("in_first_call", [1, 4])
def test_streams_begin_with_fewer_rows_than_components(case, in_first_call, rng):
    """Kept or not, they make a start, from which the stream goes on."""
    X, _ = case.data(rng)
    first, more = X[:in_first_call], X[in_first_call:6]
    if of_sequences(case):
        first, more = X[1][[0, 0, 1, 1]][: in_first_call + case.n_before], X[1][2:4]
    for arguments in ({}, {"solver": AT_ONCE}):
        estimator = case(n_components=5, **arguments).partial_fit(first)
        assert_finite(estimator, X)
        assert_finite(estimator.partial_fit(more), X)
        assert estimator.n_samples_seen_ == (2 if of_sequences(case) else 6)
        if of_sequences(case):
            assert_finite(estimator.partial_fit(8 * X), X)
            assert estimator.n_samples_seen_ == 2 + 8 * len(X)
            assert "first_rows" not in estimator._fitted.state.carry


@all_mixtures
@pytest.mark.parametrize("n_first", [1, 4])
def test_streams_that_begin_with_few_rows_find_the_clusters(case, n_first, rng):
    X, y = case.data(rng, 900)
    mixture = case().partial_fit(X[:n_first]).partial_fit(X[n_first:])
    assert mixture.n_rows_kept_ == 0
    found = mixture.predict(X)
    shares = [np.bincount(y[found == k]).max(initial=0) for k in range(3)]
    assert np.sum(shares) > 0.95 * len(X)


def starts_named(error):
    return set(re.findall(r"\w+_init", str(error)))


@all_mixtures
def test_what_the_message_asks_for_helps(case, rng):
    X, y = case.data(rng)
    with pytest.raises(ValueError, match="more rows") as raised:
        case().fit(X[:1])
    known = case(init=np.array([X[y == k].mean(axis=0) for k in range(3)])).fit(X)
    given = {name: getattr(known, name.replace("init", "")) for name in starts_named(raised.value)}
    if given:
        for method in ("fit", "partial_fit"):
            assert_finite(getattr(case(**given), method)(X[:1]), X)
        return
    means = {"means_init": known.means_, "weights_init": known.weights_}
    with pytest.raises(ValueError, match="more rows") as raised:
        case(**means).fit(X[:1])
    assert not starts_named(raised.value)


@all_readers
def test_no_rows_or_no_sequences(case, rng):
    """They are an error of fits and predictions, and change no stream."""
    X, _ = case.data(rng)
    if of_sequences(case):
        nothings = (X[1][:0], np.empty((0, 3, X[0].shape[1])), [])
        methods = (*case.inference, "filter")
        assert_refused(case, X, changed(X, lambda sequence: sequence[:0]))
    else:
        nothings, methods = (X[:0],), ("predict", "predict_proba", "score_samples")
    for nothing in nothings:
        fresh = case()
        with error_of(fresh):
            fresh.fit(nothing)
        assert fresh.partial_fit(nothing) is fresh
        with pytest.raises(NotFittedError):
            fresh.transform(X)
        for fitted in (case().partial_fit(X[:100]), case().partial_fit(X)):
            before = state_of(fitted)
            for method in methods:
                with error_of(fitted):
                    getattr(fitted, method)(nothing)
            assert_identical(state_of(fitted.partial_fit(nothing)), before)
    if not of_sequences(case):
        with pytest.raises(ValueError, match="features"):
            fitted.partial_fit(X[:0, 1:])


@all_estimators
def test_a_batch_of_one_row(case, rng):
    X, _ = case.data(rng)
    first, second = X[:1], X[1:2]
    if of_sequences(case):
        first, second = X[0][: 1 + case.n_before], X[1][:1]
    assert_finite(case().partial_fit(X).partial_fit(first), X)
    alone = case(n_components=1).partial_fit(first)
    assert_finite(alone, X[:1])
    assert_finite(alone.partial_fit(second).partial_fit(X), X)


@pytest.mark.parametrize("case", [*ROW_READERS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr)
def test_another_number_of_features(case, rng):
    X, _ = case.data(rng)
    estimator = case().partial_fit(X)
    before, wide = state_of(estimator), each(lambda rows: np.hstack([rows, rows]), X)
    more = ([X[0], wide[1]], X[0][0]) if of_sequences(case) else (X[:, 1:], X[0])
    for wrong in (wide, *more):
        for method in ("partial_fit", "transform", "score_samples"):
            with error_of(estimator):
                getattr(estimator, method)(wrong)
    assert_identical(state_of(estimator), before)


# -------------------------------------------------------------------------------- types and layouts


@all_readers
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", ">f8", ">i4", "object"])
def test_other_types_of_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    assert_same_fit(case, each(lambda rows: rows.astype(dtype), X), X)


@pytest.mark.parametrize("case", [*ROW_READERS, *SEQUENCE_ESTIMATORS], ids=repr)
@pytest.mark.parametrize("dtype", ["float16", ">f4"])
def test_other_types_of_short_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    short = each(lambda rows: rows.astype(dtype), X)
    found, expected = (case(solver="batch", max_iter=30).fit(data) for data in (short, X))
    if of_sequences(case):
        assert_allclose(found.transmat_, expected.transmat_, atol=5e-3)
        return
    assert_allclose(found.weights_, expected.weights_, atol=1e-3)
    assert_allclose(found.means_, expected.means_, rtol=1e-2, atol=1e-2)


# A 0 is no gamma variable, and a matrix of bits is rarely positive definite.
@where(lambda case: case.takes_zeros)
def test_bits(case, rng):
    X = rng.random((200, 6)) < 0.5
    if of_sequences(case):
        X = np.split(X[:, : 1 if case.is_nominal else 3], np.cumsum(range(2, 20)))[:-1]
    assert_same_fit(case, X, each(lambda rows: rows.astype(float), X))


@pytest.mark.parametrize("case", [*ROW_READERS, *SEQUENCE_READERS, *UNCOUNTED], ids=repr)
def test_strings_and_complex_numbers(case, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, changed(X, lambda rows: rows + 1j))
    if not case.is_nominal:  # letters may be symbols
        assert_refused(case, X, changed(X, lambda rows: np.full(rows.shape, "a")))
        if of_sequences(case):
            assert_refused(case, X, np.full(X[1].shape, "a"))


@all_readers
def test_read_only_and_memory_mapped_data(case, rng, tmp_path):
    X, _ = case.data(rng)
    rows = np.concatenate(X) if of_sequences(case) else X
    np.save(tmp_path / "X.npy", rows)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen = rows.copy()
    frozen.flags.writeable = False
    for data in (mapped, frozen):
        assert_same_fit(case, data, rows)
    if of_sequences(case):
        lengths = [len(sequence) for sequence in X]
        assert_same_fit(case, np.split(frozen, np.cumsum(lengths)[:-1]), X)
        found, expected = (case(max_iter=2).fit(x, lengths=lengths) for x in (mapped, rows))
        assert_identical(arrays(found.model_), arrays(expected.model_))
    # Nor is anything written to data that could be.
    before = rows.copy()
    case(max_iter=2).fit(rows).partial_fit(rows).transform(rows)
    assert_array_equal(rows, before)


@all_readers
def test_layouts(case, rng):
    X, _ = case.data(rng)
    rows = np.concatenate(X) if of_sequences(case) else X
    buffer = np.empty(rows.nbytes + 1, dtype=np.uint8)
    misaligned = buffer[1:].view(rows.dtype).reshape(rows.shape)
    misaligned[...] = rows
    assert not misaligned.flags.aligned
    wide = np.zeros((len(rows), 2 * rows.shape[1]))
    wide[:, ::2] = rows
    for data in (np.asfortranarray(rows), rows[::-1].copy()[::-1], wide[:, ::2], misaligned):
        assert_same_fit(case, data, rows)
        if of_sequences(case):
            assert_same_fit(case, [data], [rows])


@sequence_readers
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_sequences_are_refused(case, form, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, form(X[1]), kinds=(TypeError, ValueError))
    assert_refused(case, X, [form(x) for x in X], kinds=(TypeError, ValueError))


# ---------------------------------------------------------------------------------------- supports


@mixtures_where(lambda case: case.is_document)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_document_without_words(case, form, rng):
    X, _ = case.data(rng)
    X[5] = 0.0
    mixture = case().fit(form(X))
    assert_finite(mixture, form(X))
    assert_allclose(mixture.predict_proba(form(X[5:6]))[0], mixture.weights_, rtol=1e-12)
    assert_finite(mixture.partial_fit(form(X[5:6])), form(X))


def test_a_document_without_words_says_as_much_as_a_row_that_was_not_observed(rng):
    case = next(case for case in SEQUENCE_ESTIMATORS if case.make is MultinomialHMM)
    X, _ = case.data(rng)
    empty, gap = (changed(X, with_value(x, column=slice(None))) for x in (0.0, np.nan))
    hmm = case().fit(empty)
    assert_finite(hmm, empty)
    assert_allclose(hmm.score_samples(empty), hmm.score_samples(gap), rtol=1e-12)
    assert_allclose(hmm.predict_proba(np.zeros((1, 5)))[0], hmm.startprob_, rtol=1e-12)


@all_mixtures
def test_nothing_but_zeros(case, rng):
    X, _ = case.data(rng)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* zeros were replaced by")
        assert_refused_or_finite(case, np.zeros_like(X))
        if case.sparse:
            assert_refused_or_finite(case, sparse.csr_array(X.shape))


# Normal variables may be negative, and `binarize` makes zeros of negative numbers.
@where(lambda case: case.refuses_negative)
def test_negative_values(case, rng):
    good, _ = case.data(rng)
    bad = changed(good, with_value(-1.0))
    assert_refused(case, good, bad)
    if not of_sequences(case) and case.sparse:
        assert_refused(case, good, sparse.csr_array(bad))


@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_values_that_are_no_bits(value, rng):
    good = rng.random((50, 4))
    bad = changed(good, with_value(value))
    assert_refused(lambda: BernoulliMixture(2, binarize=None, random_state=0), good, bad)


@where(lambda case: case.is_nominal)
def test_codes_that_are_not_whole(case, rng):
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(0.5)))


@pytest.mark.parametrize(
    "matrix",
    [[1.0, 2.0, 2.0, 1.0], [-1.0, 0.0, 0.0, 1.0], [1.0, 0.5, 0.4, 1.0], [0.0, 0.0, 0.0, 0.0]],
    ids=["indefinite", "negative", "not symmetric", "zero"],
)
def test_rows_that_are_no_covariances(matrix, rng):
    case = next(case for case in ESTIMATORS if case.make is WishartMixture)
    good, _ = case.data(rng)
    assert_refused(case, good, changed(good, with_value(matrix, column=slice(None))))


@where(lambda case: case.is_count)
@pytest.mark.parametrize("scale", [1e15, 1e19])
def test_huge_counts(case, scale, rng):
    X, _ = case.data(rng)
    huge = each(lambda rows: rows * scale, X)
    for data in (huge,) if of_sequences(case) else (huge, sparse.csr_array(huge)):
        assert_finite(case().fit(data).partial_fit(data), data)
    if scale == 1e15 and not of_sequences(case):
        whole = huge.astype(np.int64)
        assert_array_equal(case().fit(whole).predict(whole), case().fit(huge).predict(huge))


CATEGORICAL = [
    (Mixture(2, family="categorical"), Mixture(2, family=Categorical(n_categories=4))),
    (CategoricalHMM(2), CategoricalHMM(2, n_features=4)),
]


@pytest.mark.parametrize(("narrow", "wide"), CATEGORICAL, ids=["Mixture", "HMM"])
def test_unseen_codes(narrow, wide, rng):
    X = rng.integers(0, 3, (100, 1)).astype(float)
    narrow, wide = (clone(one).set_params(random_state=0) for one in (narrow, wide))
    score = wide.fit(X).score([[3.0]])
    # The documented floor of the probabilities; mixtures have a prior.
    assert score == pytest.approx(np.log(1e-10), rel=1e-6) or score > np.log(1e-3)
    before = state_of(narrow.fit(X))
    for code in (3.0, 1e10):
        for method in (narrow.predict, narrow.partial_fit):
            with error_of(narrow):
                method([[0.0], [code]])
    assert_identical(state_of(narrow), before)
    X[3] = 1e10  # which allocates nothing
    for estimator in (narrow, wide):
        with error_of(estimator):
            clone(estimator).fit(X)


def test_unseen_words(rng):
    X = np.hstack([rng.poisson(4.0, (100, 3)), np.zeros((100, 1))])
    mixture = MultinomialMixture(2, prior=None, random_state=0).fit(X)
    # The documented floor of the probabilities.
    assert mixture.score([[0.0, 0.0, 0.0, 1.0]]) == pytest.approx(np.log(1e-12), rel=1e-6)
    # By default it is half a count of hundreds.
    assert MultinomialMixture(2, random_state=0).fit(X).score([[0.0, 0.0, 0.0, 1.0]]) > -10.0


# ---------------------------------------------------------------- weights, lengths, components


@all_readers
@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, 0.0, "rows"])
def test_weights_that_are_none(case, weight, rng):
    X, _ = case.data(rng)
    if weight == "rows":
        weights = np.ones(len(X) - 1)
    else:
        weights = np.full(len(X), weight) if weight == 0.0 else np.ones(len(X))
        weights[3] = weight
    assert_refused(case, X, X, predicted=False, sample_weight=weights)


@sequence_readers
@pytest.mark.parametrize("lengths", [[0, 5], [-1, 6], [2.0, 3.0], [2, 2], [], [[2, 3]]], ids=repr)
def test_lengths_that_are_none(case, lengths, rng):
    good, _ = case.data(rng)
    bad = np.concatenate(good)[:5]
    assert_refused(case, good, bad, kinds=(ValueError, TypeError), lengths=lengths)


@with_components
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_a_component_without_rows(case, solver, rng):
    """All rows are labelled, none with the last label."""
    X, y = case.data(rng)
    y = each(lambda labels: np.minimum(labels, 1), y)
    step, arguments = 50, {"batch_size": 100}
    if of_sequences(case):
        step, arguments = 5, {"batch_size": 5, "max_iter": 5}
    estimator = case(solver=solver, semi_supervised=True, **arguments).fit(X, y)
    assert_finite(estimator, X)
    assert of_sequences(case) or estimator.weights_[2] < 0.1
    for start in range(0, len(X), step):
        estimator.partial_fit(X[start : start + step], y[start : start + step])
        assert_finite(estimator, X)
    assert_finite(estimator.partial_fit(X), X)
    drawn = estimator.sample(20)[0]
    assert np.isfinite(drawn if of_sequences(case) else case.rows_of(drawn)).all()


@all_hmms
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_sequences_of_one_row(case, solver, rng):
    """Nothing is ever left, so that transitions stay what they were."""
    if case.n_before:
        return  # These rows say nothing.
    X = list(case.rows(rng, np.arange(30) % N_STATES)[:, None, :])
    transmat = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    if case.ends_by_itself:
        transmat = 0.5 * transmat
    transmat = case.moves(transmat)
    hmm = case(solver=solver, transmat_init=transmat).fit(X)
    assert_finite(hmm, X)
    if not case.ends_by_itself:
        assert_allclose(hmm.transmat_, transmat, rtol=1e-9)
    assert_finite(hmm.partial_fit(X[:7]).partial_fit(X[7]), X)


@all_hmms
def test_a_state_that_is_never_left(case, rng):
    """Rows of the last state come last, in every sequence."""
    y = np.repeat([0, 1, 2], [5, 5, 1])
    X = [case.rows(rng, y) for _ in range(20)]
    hmm = case(solver="batch").fit(X, [y] * 20)
    assert_finite(hmm, X)
    assert_finite(hmm.partial_fit(X[:5], [y] * 5), X)


@all_hmms
def test_left_to_right_models_stay_so(case, rng):
    transmat = np.array([[0.8, 0.2, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]])
    if case.ends_by_itself:
        transmat = 0.9 * transmat
    y, transmat = np.repeat([0, 1, 2], 6), case.moves(transmat)
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


# -------------------------------------------------------------------------------------- parameters


OUT_OF_RANGE = [
    ("eta0", 0.0), ("eta0", -1.0), ("eta0", np.nan), ("beta", -0.1), ("beta", 1.1),
    ("n_components", 0), ("tol", -1.0), ("max_iter", -1), ("batch_size", 0), ("n_init", 0),
    ("solver", "gradient"), ("schedule", "random"), ("init", "nowhere"), ("stopping", "never"),
]  # fmt: skip
OUT_OF_RANGE_OF_CHAINS = [
    ("termination", "infinite"), ("algorithm", "best"), ("params", "stx"),
    ("startprob_init", [1.0, -1.0, 1.0]), ("startprob_init", [0.5, 0.5]),
    ("startprob_init", [0.0, 0.0, 0.0]), ("transmat_init", np.zeros((3, 3))),
    ("transmat_init", np.full((3, 3), np.nan)), ("transmat_init", [0.5, 0.5]),
    ("transmat_prior", 0.0), ("transmat_prior", [[1.0, -1.0, 1.0]]), ("startprob_prior", -2.0),
    ("startprob_prior", [[2.0], [2.0]]), ("transmat_prior", [2.0, 2.0]),
    ("durationprob_prior", 2.0), ("absorbing_states", [3]), ("absorbing_states", [-1]),
]  # fmt: skip
OUT_OF_RANGE_OF_SYSTEMS = [
    ("n_dim_state", 0), ("em_vars", ["transition_matrix"]), ("em_vars", "some"),
    ("transition_matrices", np.ones((2, 3))), ("transition_matrices", np.full((2, 2), np.nan)),
    ("transition_matrices", np.ones((5, 2, 2))), ("observation_matrices", np.ones((2, 2))),
    ("transition_covariance", -np.eye(2)), ("transition_covariance", [[1.0, 0.5], [0.0, 1.0]]),
    ("observation_covariance", np.zeros((4, 4))), ("initial_state_mean", [1.0, 2.0, 3.0]),
    ("transition_covariance_type", "tied"), ("prior", {"emission": {}}), ("init", "k-means"),
    ("eta0", 0.0), ("beta", 1.1), ("reg_covar", -1.0), ("solver", "gradient"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "parameter", "value"),
    [
        *((case, *one) for case in ROW_READERS for one in OUT_OF_RANGE),
        *((SEQUENCE_ESTIMATORS[0], *one) for one in OUT_OF_RANGE + OUT_OF_RANGE_OF_CHAINS),
        *((KALMAN_FILTERS[0], *one) for one in OUT_OF_RANGE_OF_SYSTEMS),
    ],
    ids=str,
)
def test_parameters_out_of_range(case, parameter, value, rng):
    X, _ = case.data(rng)
    estimator = case().set_params(**{parameter: value})  # no error yet
    for method in (estimator.fit, estimator.partial_fit):
        with pytest.raises(ValueError, match=f"(?s){parameter}") as raised:
            method(X)
        assert type(estimator).__name__ in str(raised.value)
    with pytest.raises(NotFittedError):
        estimator.score(X)


def assert_no_means(case, X, means):
    mixture = case(means_init=means)
    for method in (mixture.fit, mixture.partial_fit):
        with pytest.raises(ValueError, match=f"means_init of {type(mixture).__name__}"):
            method(X)
    with pytest.raises(NotFittedError):
        mixture.predict(X)


@mixtures_where(lambda case: case.means_have_bounds)
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_means_outside_of_the_support(case, value, rng):
    X, y = case.data(rng)
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    means[1, 0] = value
    assert_no_means(case, X, means)


@pytest.mark.parametrize(
    "kind, mean",
    [
        (GammaMixture, np.zeros(3)),
        (BernoulliMixture, np.full(12, 2.0)),
        (WishartMixture, np.zeros(4)),
        (WishartMixture, [1.0, 2.0, 2.0, 1.0]),
        (WishartMixture, [1e-310, 0.0, 0.0, 1e-310]),
        (WishartMixture, [1e-200, 0.0, 0.0, 1.0]),
        (WishartMixture, [1.0, 0.5, 0.0, 1.0]),
        (CompoundDirichletMixture, np.zeros(5)),
    ],
)
def test_means_that_are_none(kind, mean, rng):
    for case in (case for case in ESTIMATORS if case.make is kind):
        X, y = case.data(rng)
        means = np.array([X[y == k].mean(axis=0) for k in range(3)])
        means[1] = mean
        assert_no_means(case, X, means)


@mixtures_where(lambda case: case.means_have_bounds and case.takes_zeros)
def test_means_at_the_edge_of_the_support(case, rng):
    X, y = case.data(rng)
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    means[1, 0], means[:, 1] = 0.0, 0.0
    if case.is_binary:
        means[2, 2:4] = 1.0
    for mixture in (case(means_init=means).fit(X), case(means_init=means).partial_fit(X[:5])):
        assert_finite(mixture, X)
        assert_finite(mixture.partial_fit(X[5:10]), X)


@all_mixtures
def test_priors_that_are_none(case, rng):
    X, _ = case.data(rng)
    for name in hyperparameters(case().fit(X).model_.family):
        for value in (np.nan, *IMPROPER.get(name, [])):
            mixture = case(prior={name: value})
            words = f"^prior of {type(mixture).__name__}: {name} must be .*, got "
            for method in (mixture.fit, mixture.partial_fit):
                with pytest.raises(ValueError, match=words) as raised:
                    method(X)
                assert str(raised.value).endswith(f"got {value!r}.")
            with pytest.raises(NotFittedError):
                mixture.predict(X)


@row_readers
def test_hyper_parameters_that_there_are_not(case, rng):
    X, _ = case.data(rng)
    allowed = hyperparameters(case().fit(X).model_.family)
    mixture = case(prior={"spread": 1.0})
    words = f"prior of {type(mixture).__name__} has the key 'spread'.*" + ".*".join(allowed)
    for method in (mixture.fit, mixture.partial_fit):
        with pytest.raises(ValueError, match=words):
            method(X)


@by_em
def test_priors_at_their_limits(case, rng):
    X, _ = case.data(rng)
    for name in hyperparameters(case().fit(X).model_.family):
        for value in LIMITS.get(name, []):
            if np.ndim(value) == 0 or len(value) == X.shape[1]:
                mixture = case(prior={name: value}).fit(X)
                assert_finite(mixture.partial_fit(X[:5]), X)
                assert_finite(case(prior={name: value}).partial_fit(X[:5]), X)


@row_readers
@pytest.mark.parametrize("parameter, value", [("eta0", 0.0), ("beta", 1.1)])
def test_parameters_set_out_of_range_in_mid_stream(case, parameter, value, rng):
    X, _ = case.data(rng)
    mixture = case().partial_fit(X)
    before = state_of(mixture)
    with pytest.raises(ValueError, match=parameter):
        mixture.set_params(**{parameter: value}).partial_fit(X)
    assert_identical(state_of(mixture), before)
