"""Live filters take the rows that `filter` takes, and refuse the others as they are."""

import copy

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.sequence_cases import all_models
from numpy.testing import assert_array_equal

from sklearn_onlineem import CategoricalHMM, GaussianHMM, KalmanFilter, MultinomialHMM


def live_filter(case, rng):
    """A fitted estimator, its filter after some rows, and the next row."""
    X, _ = case.data(rng)
    fitted = case().fit(X)
    live = fitted.live_filter()
    sequence = max(X, key=len)
    for row in sequence[:3]:
        live.update(row)
    return fitted, live, np.asarray(sequence[3], dtype=float)


def values_of(live):
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in vars(live).items()
        if name in {"probabilities", "mean", "covariance", "n_steps"}
    }


def with_value(row, value):
    row = np.array(row, dtype=float)
    row[0] = value
    return row


def hostile_rows(row):
    """Rows of other shapes, and with values that may lie outside of the support."""
    yield from ([], np.append(row, 0.0), np.tile(row, 2), row[None, None], np.tile(row, (2, 1)))
    yield from (
        "word",
        {},
        [row.tolist(), 1.0],
        1j * row,
        np.full(row.shape, 10**400, dtype=object),
        np.ma.masked_array(np.full(row.shape, 10**400, dtype=object), mask=False),
    )
    for value in (np.inf, -np.inf, 1e308, -1e308, 1e155, 1e10, 1e6, -1.0, 0.5, np.nan):
        yield with_value(row, value)


def is_taken(fitted, hostile, row):
    """Whether `filter` takes the row; one of nothing but NaN is a missing one among others."""
    if hostile.shape != row.shape or hostile.dtype != float:
        return False
    try:
        fitted.filter(hostile[None])
    except ValueError:
        return np.isnan(hostile).all()
    return True


@all_models
def test_a_row_is_refused_where_filter_refuses_it(case, rng):
    fitted, live, row = live_filter(case, rng)
    for hostile in hostile_rows(row):
        before = values_of(live)
        takes = isinstance(hostile, np.ndarray) and is_taken(fitted, hostile, row)
        if takes:
            live.update(hostile)
            assert all(np.isfinite(value).all() for value in values_of(live).values())
            continue
        with pytest.raises((ValueError, TypeError)):
            live.update(hostile)
        for name, value in values_of(live).items():
            assert_array_equal(value, before[name])
    live.update(row)
    assert all(np.isfinite(value).all() for value in values_of(live).values())


@all_models
def test_beneath_a_mask_is_nothing_but_a_number(case, rng):
    """Whole numbers, objects and single floats can be masked as well."""
    _, live, row = live_filter(case, rng)
    twin = copy.deepcopy(live)
    huge = np.full(row.shape, 10**400, dtype=object)
    for beneath in (row.astype(int), row.astype(object), row.astype(np.float32), huge):
        live.update(np.ma.masked_array(beneath, mask=np.ones(len(row), bool)))
        twin.update(np.full(len(row), np.nan))
        assert_identical(list(values_of(live).values()), list(values_of(twin).values()))


@pytest.mark.parametrize("symbol", [4, 1e6, 1e300, np.inf, -1, 0.5])
def test_a_symbol_that_is_none_is_refused(symbol, rng):
    live = CategoricalHMM(2, random_state=0).fit(rng.integers(0, 4, (100, 1))).live_filter()
    with pytest.raises(ValueError, match=r"integer codes|infinite, or too large"):
        live.update([symbol])


def test_a_huge_row_does_not_spoil_a_kalman_filter(rng):
    live = KalmanFilter(2, random_state=0).fit(rng.normal(size=(50, 2))).live_filter()
    live.update([0.0, 0.0])
    with pytest.raises(ValueError, match="too large"):
        live.update([1e308, 0.0])
    assert np.isfinite(live.update([0.0, 0.0])[0]).all()


@pytest.fixture(scope="module")
def live():
    rng = np.random.default_rng(20260)
    return KalmanFilter(2, random_state=0).fit(rng.normal(size=(50, 2))).live_filter()


@pytest.mark.parametrize(
    "mean, covariance",
    [
        ([0.0, np.nan], np.eye(2)),
        ([0.0, np.inf], np.eye(2)),
        ([0.0], np.eye(2)),
        ([0.0, 0.0], np.eye(3)),
        ([0.0, 0.0], np.ones(4)),
        ([0.0, 0.0], np.full((2, 2), np.nan)),
        ([0.0, 0.0], -np.eye(2)),
        ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]),
        (["a", "b"], np.eye(2)),
    ],
)
def test_moments_to_start_from_are_checked(mean, covariance, live):
    live.start_from(np.ones(2), np.eye(2))
    with pytest.raises(ValueError, match="mean|covariance"):
        live.start_from(mean, covariance)
    assert_array_equal(live.mean, np.ones(2))
    assert_array_equal(live.covariance, np.eye(2))


def unstable(rng):
    kalman = KalmanFilter(
        1, transition_matrices=[[1.05]], em_vars=["observation_covariance"], random_state=0
    )
    return kalman.fit(rng.normal(size=(50, 1)))


def test_an_unstable_system_says_so_before_it_overflows(rng):
    live = unstable(rng).live_filter()
    with pytest.raises(ValueError, match="moments of the state overflow"):
        for _ in range(10_000):
            mean, covariance = live.update([np.nan])
            assert np.isfinite(mean).all() and np.isfinite(covariance).all()


def test_some_values_missing(rng):
    X = rng.normal(size=(60, 2))
    assert np.isfinite(
        GaussianHMM(2, random_state=0).fit(X).live_filter().update([np.nan, 1])
    ).all()
    codes = rng.integers(0, 3, (60, 2))
    categorical = CategoricalHMM(2, random_state=0).fit(codes).live_filter()
    assert np.isfinite(categorical.update([np.nan, 1])).all()
    live = MultinomialHMM(2, random_state=0).fit(codes).live_filter()
    with pytest.raises(ValueError, match="some values missing"):
        live.update([np.nan, 1])
