"""What bad input and faults get: one law for each, over all mixture estimators.

Ctrl-C, threads and forks are in `test_faults.py`, clusters of machines in
`distributed/test_dask.py`.
"""

import re
import warnings

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.collapsed_cases import GIBBS
from cases.comparing import arrays, assert_close, assert_identical
from cases.estimator_cases import ESTIMATORS
from cases.family_cases import IMPROPER, LIMITS, hyperparameters
from cases.merged_cases import WAYS
from cases.refusals import assert_refused_by, error_of, fits_unless_refused
from cases.states import state_of
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_onlineem import (
    BernoulliMixture,
    CompoundDirichletMixture,
    GammaMixture,
    Mixture,
    MultinomialMixture,
    WishartMixture,
)
from sklearn_onlineem.em import Batch
from sklearn_onlineem.estimators._start import STARTS
from sklearn_onlineem.families import Categorical
from sklearn_onlineem.families.capabilities import Marginals

pytestmark = [
    # Nothing may overflow or divide by zero on the way to a result or an error.
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def where(holds):
    return cases_where(holds, ESTIMATORS)


all_estimators = pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS[:2]], ids=repr)
# What reads rows, parameters and pickles is the same for all.
READERS = [case for case in ESTIMATORS if repr(case) in {*WAYS, "WishartMixture"}]
all_readers = pytest.mark.parametrize("case", [*READERS, GIBBS[0]], ids=repr)
by_em = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)
gaussians = where(lambda case: case.is_gaussian)
scalable = where(lambda case: case.is_scalable)


def assert_refused(*data, predicted=True, **arguments):
    """Bad rows, after a case and good ones, are an error everywhere."""
    methods = ("predict", "predict_proba", "score_samples") if predicted else ()
    assert_refused_by(methods, *data, **arguments)


def assert_finite(mixture, X):
    assert all(np.isfinite(array).all() for array in arrays(mixture.model_))
    assert np.isfinite(mixture.score_samples(X)).all()
    assert np.isfinite(mixture.predict_proba(X)).all()
    assert_allclose(mixture.predict_proba(X).sum(axis=1), 1.0, rtol=1e-6)


def assert_refused_or_finite(case, X):
    for estimator in fits_unless_refused(case, X):
        assert_finite(estimator, X)


def assert_same_fit(case, X, expected, **arguments):
    """Both data give the same bits, in `fit`, `partial_fit` and `predict_proba`."""
    arguments = {"max_iter": 2, **arguments}
    found, wanted = case(**arguments).fit(X), case(**arguments).fit(expected)
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    found.partial_fit(X[:50]), wanted.partial_fit(expected[:50])
    assert_identical(arrays(found.model_), arrays(wanted.model_))
    assert_array_equal(found.predict_proba(X), wanted.predict_proba(expected))


def whole_numbers(case, rng, n=200):
    """Data of the estimator that are whole numbers from 0 (from 1 if it needs them) to 100."""
    X, _ = case.data(rng, n)
    if case.is_matrix:
        off_diagonal = np.rint(40.0 * rng.integers(0, 3, n) + 10.0 * rng.random(n))
        hundred = np.full(n, 100.0)
        return np.column_stack([hundred, off_diagonal, off_diagonal, hundred])
    if case.is_binary or case.is_nominal:
        return X
    X = np.ceil(X - min(0.0, X.min()))
    least = 0.0 if case.takes_zeros else 1.0
    return np.clip(np.ceil(X * min(1.0, 100.0 / X.max())), least, 100)


# --------------------------------------------------------------------------------------- values


@all_estimators
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.7e308, -1.7e308])
def test_values_that_are_no_numbers_or_too_large(case, value, rng):
    good, _ = case.data(rng)
    bad = good.copy()
    bad[7, 1] = value
    if np.isnan(value) and isinstance(case()._family(), Marginals):  # missing, see test_gaps.py
        bad[8, 1] = np.inf
    assert_refused(case, good, bad)


@all_estimators
def test_a_constant_column(case, rng):
    X, _ = case.data(rng)
    X[:, 0] = X.max()
    for mixture in (case().fit(X), case(solver="batch").fit(X), case().partial_fit(X)):
        assert_finite(mixture, X)
        if case.is_gaussian:
            assert np.min(np.linalg.eigvalsh(np.atleast_2d(_matrices(mixture)))) > 0


def _matrices(mixture):
    parameters, d = mixture.model_.parameters, mixture.n_features_in_
    covariance = getattr(parameters, "gaussians", parameters).covariance
    return covariance if covariance.ndim == 3 else covariance[:, None, :] * np.eye(d)


@all_estimators
def test_identical_rows(case, rng):
    X, _ = case.data(rng)
    X = np.repeat(X[:1], 60, axis=0)
    for solver in ("online", "batch"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mixture = case(solver=solver, batch_size=20).fit(X)
        assert [warning.category for warning in caught] == [ConvergenceWarning]
        assert_finite(mixture, X)
    assert_finite(case().partial_fit(X).partial_fit(X[:5]), X)


@all_estimators
def test_two_repeated_points(case, rng):
    X, y = case.data(rng)
    points = np.array([X[y == k][0] for k in range(2)])
    X, y = np.repeat(points, 20, axis=0), np.repeat([0, 1], 20)
    for solver in ("online", "batch"):
        mixture = case(n_components=2, solver=solver).fit(X)
        assert_finite(mixture, X)
        found = mixture.predict(X)
        assert_array_equal(found == found[0], y == 0)


@all_estimators
def test_a_scale_of_1e200(case, rng):
    X, _ = case.data(rng)
    assert_refused_or_finite(case, X * 1e200)


@scalable
@pytest.mark.parametrize("scale", [1e-100, 1e-50, 1e50, 1e100])
def test_a_small_or_large_scale_changes_nothing(case, scale, rng):
    X, y = case.data(rng)
    here, there = case().fit(X), case().fit(X * scale)
    assert_array_equal(there.predict(X * scale), here.predict(X))
    assert_allclose(there.means_, here.means_ * scale, rtol=1e-6)
    assert_allclose(there.weights_, here.weights_, rtol=1e-6)


@scalable
def test_a_scale_of_1e_minus_200(case, rng):
    X, _ = case.data(rng)
    mixture = case()
    try:
        mixture.fit(X * 1e-200)
    except ValueError as error:
        assert type(mixture).__name__ in str(error)
    else:
        assert_array_equal(mixture.predict(X * 1e-200), case().fit(X).predict(X))


@gaussians
@pytest.mark.parametrize("init", [*STARTS, "centres", "responsibilities"])
def test_an_offset_of_1e8(case, init, rng):
    X, _ = case.data(rng, n_clusters=1)  # of which other starts make other fits
    X = np.round(X * 2**20) / 2**20  # as exact at 1e8 as at 0
    shares = rng.random((len(X), 3))
    starts = {"centres": (X[:3], X[:3] + 1e8), "responsibilities": (shares, shares)}
    # Few passes, in which the last digits do not grow.
    plain = {"solver": Batch(acceleration=None), "tol": 1e-3}
    here, there = (case(init=start, **plain) for start in starts.get(init, (init, init)))
    here.fit(X), there.fit(X + 1e8)
    assert_array_equal(there.predict(X + 1e8), here.predict(X))
    assert_allclose(there.weights_, here.weights_, rtol=1e-6)
    assert_allclose(there.means_ - 1e8, here.means_, atol=1e-5)
    assert_allclose(there.score(X + 1e8), here.score(X), rtol=1e-6)
    here.partial_fit(X[:50]), there.partial_fit(X[:50] + 1e8)
    assert_allclose(_matrices(there), _matrices(here), rtol=1e-5, atol=1e-5)


@gaussians
def test_float32_at_an_offset_of_1e4(case, rng):
    X, _ = case.data(rng)
    X = (X + 1e4).astype(np.float32)
    # Learnt degrees of freedom of rows of Gaussians grow, and with spherical covariances single
    # precision tells too little of how far.
    is_vague = repr(case) == "StudentTMixture(spherical, each)"
    given = {"degrees_of_freedom": 20.0} if is_vague else {}
    single, double = case(**given).fit(X), case(**given).fit(X.astype(float))
    for _ in range(10):
        single.partial_fit(X[:50]), double.partial_fit(X[:50].astype(float))
    assert_allclose(single.means_, double.means_, rtol=1e-6)
    assert_allclose(_matrices(single), _matrices(double), rtol=1e-3, atol=1e-3)
    assert single.means_.dtype == np.float32


# ---------------------------------------------------------------------------------------- amounts


@all_estimators
def test_fits_of_fewer_rows_than_components(case, rng):
    X, _ = case.data(rng)
    mixture = case(n_components=5)
    message = "n_components=5.*n_samples=4.*more rows"
    with pytest.raises(ValueError, match=message) as raised:
        mixture.fit(X[:4])
    assert type(mixture).__name__ in str(raised.value)
    with pytest.raises(NotFittedError):
        mixture.predict(X)


@all_estimators
@pytest.mark.parametrize("in_first_call", [1, 4])
def test_streams_begin_with_fewer_rows_than_components(case, in_first_call, rng):
    """Kept or not, they make a start, from which the stream goes on to the clusters."""
    X, y = case.data(rng, 900)
    for arguments in ({}, {"solver": AT_ONCE}):
        mixture = case(n_components=5, **arguments).partial_fit(X[:in_first_call])
        assert_finite(mixture, X)
        assert_finite(mixture.partial_fit(X[in_first_call:6]), X)
        assert mixture.n_samples_seen_ == 6
    mixture = case().partial_fit(X[:in_first_call]).partial_fit(X[in_first_call:])
    assert mixture.n_rows_kept_ == 0
    found = mixture.predict(X)
    shares = [np.bincount(y[found == k]).max(initial=0) for k in range(3)]
    assert np.sum(shares) > 0.95 * len(X)


def starts_named(error):
    return set(re.findall(r"\w+_init", str(error)))


@all_estimators
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
def test_no_rows(case, rng):
    """They are an error of fits and predictions, and change no stream."""
    X, _ = case.data(rng)
    fresh = case()
    with error_of(fresh):
        fresh.fit(X[:0])
    assert fresh.partial_fit(X[:0]) is fresh
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    for fitted in (case().partial_fit(X[:100]), case().partial_fit(X)):
        before = state_of(fitted)
        assert_identical(state_of(fitted.partial_fit(X[:0])), before)
        with pytest.raises(ValueError, match="features"):
            fitted.partial_fit(X[:0, 1:])
        for method in ("predict", "predict_proba", "score_samples"):
            with error_of(fitted):
                getattr(fitted, method)(X[:0])


@all_estimators
def test_a_batch_of_one_row(case, rng):
    X, _ = case.data(rng)
    assert_finite(case().partial_fit(X).partial_fit(X[:1]), X)
    alone = case(n_components=1).partial_fit(X[:1])
    assert_finite(alone, X[:1])
    assert_finite(alone.partial_fit(X[1:2]).partial_fit(X[2:]), X)


@all_readers
def test_another_number_of_features(case, rng):
    X, _ = case.data(rng)
    mixture = case().partial_fit(X)
    before = state_of(mixture)
    for wrong in (X[:, 1:], np.hstack([X, X]), X[0]):
        for method in ("partial_fit", "predict", "score_samples"):
            with pytest.raises(ValueError, match="features|1D array"):
                getattr(mixture, method)(wrong)
    assert_identical(state_of(mixture), before)


# -------------------------------------------------------------------------------- types and layouts


@all_readers
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", ">f8", ">i4", "object"])
def test_other_types_of_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    assert_same_fit(case, X.astype(dtype), X)


@all_readers
@pytest.mark.parametrize("dtype", ["float16", ">f4"])
def test_other_types_of_short_numbers(case, dtype, rng):
    X = whole_numbers(case, rng)
    found, expected = (case(solver="batch").fit(data) for data in (X.astype(dtype), X))
    assert_allclose(found.weights_, expected.weights_, atol=1e-3)
    assert_allclose(found.means_, expected.means_, rtol=1e-2, atol=1e-2)


# A 0 is no gamma variable, and a matrix of bits is rarely positive definite.
@where(lambda case: case.takes_zeros)
def test_bits(case, rng):
    X = rng.random((200, 6)) < 0.5
    assert_same_fit(case, X, X.astype(float))


@all_readers
def test_strings(case, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, np.full(X.shape, "a"))


@all_readers
def test_complex_numbers(case, rng):
    X, _ = case.data(rng)
    assert_refused(case, X, X + 1j)


@all_readers
def test_read_only_and_memory_mapped_data(case, rng, tmp_path):
    X, _ = case.data(rng)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    frozen = X.copy()
    frozen.flags.writeable = False
    for data in (mapped, frozen):
        assert_same_fit(case, data, X)
    # Nor is anything written to data that could be.
    before = X.copy()
    case().fit(X).partial_fit(X).predict(X)
    assert_array_equal(X, before)


@all_readers
def test_layouts(case, rng):
    X, _ = case.data(rng)
    buffer = np.empty(X.nbytes + 1, dtype=np.uint8)
    misaligned = buffer[1:].view(X.dtype).reshape(X.shape)
    misaligned[...] = X
    assert not misaligned.flags.aligned
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    for data in (np.asfortranarray(X), X[::-1].copy()[::-1], wide[:, ::2], misaligned):
        assert_same_fit(case, data, X)


# ----------------------------------------------------------------------------------- sparse counts


@where(lambda case: case.is_document)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_document_without_words(case, form, rng):
    X, _ = case.data(rng)
    X[5] = 0.0
    mixture = case().fit(form(X))
    assert_finite(mixture, form(X))
    assert_allclose(mixture.predict_proba(form(X[5:6]))[0], mixture.weights_, rtol=1e-12)
    assert_finite(mixture.partial_fit(form(X[5:6])), form(X))


@all_estimators
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
    bad = good.copy()
    bad[3, 1] = -1.0
    assert_refused(case, good, bad)
    if case.sparse:
        assert_refused(case, good, sparse.csr_array(bad))


@pytest.mark.parametrize("value", [-0.5, 1.5])
def test_values_that_are_no_bits(value, rng):
    good = rng.random((50, 4))
    bad = good.copy()
    bad[3, 1] = value
    assert_refused(lambda: BernoulliMixture(2, binarize=None, random_state=0), good, bad)


def test_codes_that_are_not_whole(rng):
    good = rng.integers(0, 4, (50, 3)).astype(float)
    bad = good + np.eye(50, 3) / 2.0
    assert_refused(lambda: Mixture(2, family=Categorical(4), random_state=0), good, bad)


@pytest.mark.parametrize(
    "matrix",
    [[1.0, 2.0, 2.0, 1.0], [-1.0, 0.0, 0.0, 1.0], [1.0, 0.5, 0.4, 1.0], [0.0, 0.0, 0.0, 0.0]],
    ids=["indefinite", "negative", "not symmetric", "zero"],
)
def test_rows_that_are_no_covariances(matrix, rng):
    case = next(case for case in ESTIMATORS if case.make is WishartMixture)
    good, _ = case.data(rng)
    bad = good.copy()
    bad[3] = matrix
    assert_refused(case, good, bad)


def test_rows_that_are_no_matrices(rng):
    with pytest.raises(ValueError, match="WishartMixture.*square"):
        WishartMixture(2).fit(rng.random((50, 5)))


@where(lambda case: case.is_count)
@pytest.mark.parametrize("scale", [1e15, 1e19])
def test_huge_counts(case, scale, rng):
    X, y = case.data(rng)
    huge = X * scale
    for data in (huge, sparse.csr_array(huge)):
        mixture = case().fit(data).partial_fit(data)
        assert_finite(mixture, data)
    if scale == 1e15:
        whole = huge.astype(np.int64)
        assert_array_equal(case().fit(whole).predict(whole), case().fit(huge).predict(huge))


# ---------------------------------------------------------------------------- weights, components


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


@all_estimators
def test_rows_of_weight_0_are_as_none(case, rng):
    X, y = case.data(rng)
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    init = np.array([X[y == k].mean(axis=0) for k in range(3)])
    found = case(init=init).fit(X, sample_weight=weights)
    expected = case(init=init).fit(X[weights > 0])
    assert_close(found.model_, expected.model_, rtol=1e-9)


@all_estimators
@pytest.mark.parametrize("solver", ["online", "batch"])
def test_a_component_without_rows(case, solver, rng):
    """All rows are labelled, none with the last label."""
    X, y = case.data(rng)
    y = np.minimum(y, 1)
    mixture = case(solver=solver, batch_size=100, semi_supervised=True).fit(X, y)
    assert_finite(mixture, X)
    assert mixture.weights_[2] < 0.1
    for start in range(0, 300, 50):
        mixture.partial_fit(X[start : start + 50], y[start : start + 50])
        assert_finite(mixture, X)
    assert_finite(mixture.partial_fit(X), X)
    assert np.isfinite(case.rows_of(mixture.sample(20)[0])).all()


# ---------------------------------------------------------------------------------- other faults


def test_unseen_codes(rng):
    X = rng.integers(0, 3, (100, 2)).astype(float)
    wide = Mixture(2, family=Categorical(n_categories=4), random_state=0).fit(X)
    assert np.isfinite(wide.score_samples([[3.0, 0.0]])).all()
    narrow = Mixture(2, family="categorical", random_state=0).fit(X)
    for code in (3.0, 1e10):
        with error_of(narrow):
            narrow.predict([[code, 0.0]])
        with error_of(narrow):
            narrow.partial_fit([[code, 0.0]])


def test_a_code_of_1e10_allocates_nothing(rng):
    X = rng.integers(0, 3, (100, 2)).astype(float)
    X[3, 1] = 1e10
    with pytest.raises(ValueError, match="Mixture"):
        Mixture(2, family="categorical").fit(X)


def test_unseen_words(rng):
    X = np.hstack([rng.poisson(4.0, (100, 3)), np.zeros((100, 1))])
    mixture = MultinomialMixture(2, prior=None, random_state=0).fit(X)
    # The documented floor of the probabilities.
    assert mixture.score([[0.0, 0.0, 0.0, 1.0]]) == pytest.approx(np.log(1e-12), rel=1e-6)
    # By default it is half a count of hundreds.
    assert MultinomialMixture(2, random_state=0).fit(X).score([[0.0, 0.0, 0.0, 1.0]]) > -10.0


@all_readers
@pytest.mark.parametrize(
    "parameter, value",
    [
        ("eta0", 0.0), ("eta0", -1.0), ("eta0", np.nan), ("beta", -0.1), ("beta", 1.1),
        ("n_components", 0), ("tol", -1.0), ("max_iter", -1), ("batch_size", 0), ("n_init", 0),
        ("solver", "gradient"), ("schedule", "random"), ("init", "nowhere"), ("stopping", "never"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(case, parameter, value, rng):
    X, _ = case.data(rng)
    mixture = case(**{parameter: value})  # no error yet
    for method in (mixture.fit, mixture.partial_fit):
        with pytest.raises(ValueError, match=f"(?s){parameter}.*{type(mixture).__name__}"):
            method(X)
    with pytest.raises(NotFittedError):
        mixture.predict(X)


def assert_no_means(case, X, means):
    mixture = case(means_init=means)
    for method in (mixture.fit, mixture.partial_fit):
        with pytest.raises(ValueError, match=f"means_init of {type(mixture).__name__}"):
            method(X)
    with pytest.raises(NotFittedError):
        mixture.predict(X)


@where(lambda case: case.means_have_bounds)
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


@where(lambda case: case.means_have_bounds and case.takes_zeros)
def test_means_at_the_edge_of_the_support(case, rng):
    X, y = case.data(rng)
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    means[1, 0], means[:, 1] = 0.0, 0.0
    if case.is_binary:
        means[2, 2:4] = 1.0
    for mixture in (case(means_init=means).fit(X), case(means_init=means).partial_fit(X[:5])):
        assert_finite(mixture, X)
        assert_finite(mixture.partial_fit(X[5:10]), X)


@all_estimators
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


@all_readers
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


@all_readers
@pytest.mark.parametrize("parameter, value", [("eta0", 0.0), ("beta", 1.1)])
def test_parameters_set_out_of_range_in_mid_stream(case, parameter, value, rng):
    X, _ = case.data(rng)
    mixture = case().partial_fit(X)
    before = state_of(mixture)
    with pytest.raises(ValueError, match=parameter):
        mixture.set_params(**{parameter: value}).partial_fit(X)
    assert_identical(state_of(mixture), before)


@pytest.mark.parametrize("case", READERS[:1], ids=repr)
@pytest.mark.parametrize("eta", [None, "0.5", -1.0])
def test_schedules_that_give_no_rates(case, eta, rng):
    X, _ = case.data(rng)
    mixture = case(schedule=lambda t: eta, batch_size=100)
    with pytest.raises(ValueError, match=f"{type(mixture).__name__}.*schedule"):
        mixture.fit(X)
    mixture.partial_fit(X)
    before = state_of(mixture)
    with pytest.raises(ValueError, match=f"{type(mixture).__name__}.*schedule"):
        mixture.partial_fit(X)
    assert_identical(state_of(mixture), before)


@all_estimators
def test_a_fit_that_fails_leaves_a_fitted_estimator_usable(case, rng):
    X, _ = case.data(rng)
    mixture = case().fit(X)
    before = state_of(mixture)
    wide = np.hstack([X, X])
    if case.is_matrix:
        wide = np.eye(3).ravel() * np.ones((len(X), 1))
    too_large = wide.copy()
    too_large[0] = 1e300
    for bad in (wide[:2], too_large, wide[:0]):
        with error_of(mixture):
            mixture.fit(bad)
        assert_identical(state_of(mixture), before)
        assert_finite(mixture, X)
