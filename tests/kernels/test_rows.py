"""The kernels that look at rows as they come."""

import numpy as np
import pytest

from sklearn_onlineem._kernels import _rows
from sklearn_onlineem._kernels._rows import are_finite, are_ready, largest_magnitude

SIZES = [(1, 1), (1, 16), (3, 5), (100, 7)]

by_size = pytest.mark.parametrize(("n", "d"), SIZES)
by_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def draw(n, d, dtype=np.float64):
    return np.random.default_rng(0).normal(size=(n, d)).astype(dtype)


@by_size
@by_dtype
def test_rows_are_ready(n, d, dtype):
    X = draw(n, d, dtype)
    assert are_ready(X, d)
    X.flags.writeable = False
    assert are_ready(X, d)


@by_size
@by_dtype
def test_one_bad_value_anywhere_is_found(n, d, dtype):
    too_large = np.sqrt(np.finfo(dtype).max) * 2
    for bad in (np.nan, np.inf, -np.inf, too_large):
        for place in range(n * d):
            X = draw(n, d, dtype)
            X.flat[place] = bad
            assert not are_ready(X, d)
            X.flat[-1 - place] = np.nan
            left = np.isnan(X.flat[place])
            assert are_ready(X, d, allow_nan=True) == left


@by_dtype
def test_squares_that_overflow_together_are_found(dtype):
    assert not are_ready(np.full((10, 3), np.sqrt(np.finfo(dtype).max / 20), dtype), 3)


def test_everything_else_is_left_to_a_closer_look():
    X = draw(6, 4)
    misaligned = np.frombuffer(bytes(1 + X.nbytes), offset=1).reshape(X.shape)
    others = [
        X.astype(">f8"), X.astype(int), X.astype(np.float16), X.astype(complex), X.astype(object),
        X[::2], np.asfortranarray(X), X[:0], X[0], X[None], X.tolist(), None, misaligned,
        X.view(np.recarray), np.ma.array(X),
    ]  # fmt: skip
    assert not any(are_ready(other, 4) for other in others)
    assert not are_ready(X, 3)


@by_size
def test_what_is_not_finite_is_found_anywhere(n, d):
    X, largest = draw(n, d), np.full((n, d), 1e300)
    assert are_finite() and are_finite(X, np.empty((2, 0)), largest)
    for place in np.ndindex(n, d):
        for value in (np.inf, -np.inf, np.nan):
            wrong = largest.copy()
            wrong[place] = value
            assert not are_finite(X, wrong)
    for other in (X.astype(np.float32), np.ones((2, 3), order="F"), np.ones(4)[::2]):
        with pytest.raises(ValueError, match="a kernel needs"):
            are_finite(X, other)


@by_size
@pytest.mark.parametrize("largest", [-7.5, 7.5, 1e38, np.inf, np.nan])
def test_the_largest_magnitude_is_found_anywhere(n, d, largest):
    X = draw(n, d, np.float32).ravel()
    assert largest_magnitude(X) == np.abs(X).max()
    for place in range(len(X)):
        x = X.copy()
        x[place] = largest
        np.testing.assert_equal(largest_magnitude(x), np.abs(x).max())


def test_the_largest_magnitude_of_zeros_and_of_nothing_is_zero():
    assert largest_magnitude(np.array([-0.0, 0.0], np.float32)) == 0.0
    assert largest_magnitude(np.empty(0, np.float32)) == 0.0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_are_sorted_where_each_of_them_is(dtype):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(2000):
        # Some rows are out of order, have duplicates, or are empty.
        rows = [rng.permutation(4)[: rng.integers(4)] for _ in range(3)]
        rows = [np.sort(row) if rng.random() < 0.8 else np.minimum(row, 2) for row in rows]
        pointers, indices = np.cumsum([0, *map(len, rows)]), np.concatenate(rows)
        is_sorted = all((np.diff(row) > 0).all() for row in rows)
        n_columns = rng.integers(3, 5)
        form = _rows.CANONICAL if is_sorted else _rows.UNSORTED
        form = form if (indices < n_columns).all() else _rows.OUT_OF_RANGE
        assert _rows.csr_form(indices.astype(dtype), pointers.astype(dtype), n_columns) == form
        seen.add(form)
    assert len(seen) == 3
