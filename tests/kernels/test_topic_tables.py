"""Tables of words and topics against their formulas in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import rel_entr

from sklearn_onlineem._kernels._topic_tables import (
    column_divergences,
    inverse_powers,
    normalise_columns,
    pad_rows,
    scale_columns,
    shift_divergences,
)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (600, 50), (40, 129)])
def test_columns_are_normalised(shape, rng):
    counts, out, totals = rng.gamma(0.3, size=shape), np.empty(shape), np.empty(shape[1])
    normalise_columns(counts, 0.25, out, totals)
    assert_allclose(totals, counts.sum(axis=0), rtol=1e-12)
    assert_allclose(out, (counts + 0.25) / (counts + 0.25).sum(axis=0), rtol=1e-12)
    counts[:, 0] = 0.0
    normalise_columns(counts, 0.0, out, totals)
    assert totals[0] == 0.0
    assert_array_equal(out[:, 0], 0.0)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (600, 50)])
def test_columns_are_scaled(shape, n_threads, rng):
    table, factors, out = rng.random(shape), rng.random(shape[1]), np.full(shape, np.nan)
    scale_columns(table, factors, out, n_threads)
    assert_array_equal(out, table * factors)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1500, 50), (40, 129)])
def test_divergences_of_columns(shape, rng):
    p, q = (rng.dirichlet(np.full(shape[0], 0.5), shape[1]).T.copy() for _ in range(2))
    p[0, 0] = 0.0
    found = np.empty((2, shape[1]))
    for n_threads, out in zip((1, 4), found, strict=True):
        column_divergences(p, q, out, n_threads)
    assert_array_equal(*found)
    assert_allclose(found[0], rel_entr(p, q).sum(axis=0), rtol=1e-9, atol=1e-12)
    p[-1, 0], q[-1, 0] = 0.5, 0.0
    column_divergences(p, q, found[0], 1)
    assert found[0, 0] == np.inf


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("shape", [(1, 1), (7, 16), (600, 50), (40, 129)])
def test_rows_are_padded_with_zeros(shape, n_threads, rng):
    table, out = rng.random(shape), np.full((shape[0], -(-shape[1] // 16) * 16), np.nan, np.float32)
    pad_rows(table, out, n_threads)
    assert_array_equal(out[:, : shape[1]], table.astype(np.float32))
    assert_array_equal(out[:, shape[1] :], 0.0)


@pytest.mark.parametrize("factor", [1.0, 0.95, 1.1, 1.2, 1.5, 0.3, 50.0, 1e9])
@pytest.mark.parametrize("n_components", [1, 7])
def test_divergences_of_shifted_rows(factor, n_components):
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.zeros((1, n_components)), rng.gamma(0.3, size=(900, n_components))])
    places = rng.integers(901, size=1000)
    before = rng.uniform(0.01, 1.0, n_components)
    after, x = factor * before, rows[places[places > 0]]
    expected = ((x + after) * np.log((x + after) / (x + before))).sum(axis=0)
    found = [np.empty(n_components) for _ in range(2)]
    for n_threads, out in zip((1, 3), found, strict=True):
        shift_divergences(rows, places, after, before, out, n_threads)
    assert_allclose(found[0], expected, rtol=1e-12)
    assert_array_equal(*found)


@pytest.mark.parametrize("n_components", [1, 7, 70])
def test_sums_of_inverse_powers(n_components):
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.zeros((1, n_components)), rng.gamma(0.3, size=(900, n_components))])
    places, anchor = rng.integers(901, size=1000), rng.uniform(0.01, 1.0, n_components)
    out, ratios = np.empty((6, n_components)), anchor / (rows[places[places > 0]] + anchor)
    inverse_powers(rows, places, anchor, out)
    assert_allclose(out, [(ratios**j).sum(axis=0) for j in range(1, 7)], rtol=1e-12)
