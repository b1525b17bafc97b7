"""The kernels of sparse counts against their formulas in NumPy."""

import numpy as np
import pytest
from cases.kernel_formulas import DTYPES, NONE, normalise_numpy, options_for, task, tolerance
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_onlineem._kernels._counts import mixture_pass
from sklearn_onlineem.data.sparse import csr_parts

SHAPES = [(1, 1, 1), (1, 50, 10), (7, 3, 1), (300, 40, 9), (2, 5, 40), (3000, 20, 3)]
# K is no multiple of a tile, of a strip, or of a vector; the rows have several slabs, or one.
SHAPES += [(10_000, 6, 5), (10_000, 3, 33), (300, 40, 50), (40, 900, 71)]


def problem(n, d, K, dtype=np.float64):
    rng = np.random.default_rng([n, d, K])
    X = rng.poisson(1.0, (n, d)) * (rng.random((n, d)) < 0.3)
    X[n // 2] = 0
    csr = sparse.csr_array(X.astype(dtype))
    rows = csr_parts(csr)
    natural_T = np.log(rng.dirichlet(np.ones(d), K).T.copy() + 1e-3)
    return X.astype(float), rows, natural_T, rng.standard_normal(K), rng.standard_normal(n)


def run(rows, natural_T, offset, base, *options, n_threads=1):
    n, (d, K) = len(rows[2]) - 1, natural_T.shape
    counts, totals_T = np.full(K, np.nan), np.full((d, K), np.nan)
    log_likelihoods = np.empty(n)
    wanted = task(*options, log_likelihoods=log_likelihoods, base=base)
    total = mixture_pass(*rows, natural_T, offset, wanted, counts, totals_T, n_threads)
    return counts, totals_T, log_likelihoods, total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, d, K", SHAPES)
@pytest.mark.parametrize("with_options", [False, True])
def test_e_step(n, d, K, dtype, with_options):
    X, rows, natural_T, offset, base = problem(n, d, K, dtype)
    weights, labels, uniforms = options_for(n, K)
    if dtype == np.float32:
        uniforms = NONE
    options = (weights, labels, uniforms) if with_options else ()
    counts, totals_T, log_likelihoods, total = run(rows, natural_T, offset, base, *options)
    expected = normalise_numpy(X @ natural_T + offset + base[:, None], *options)
    assert_allclose(log_likelihoods, expected[1], **tolerance(dtype))
    assert_allclose(total, expected[2], **tolerance(dtype, n))
    assert_allclose(counts, expected[0].sum(axis=0), **tolerance(dtype, n))
    assert_allclose(totals_T, X.T @ expected[0], **tolerance(dtype, n))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n, d, K", SHAPES)
def test_log_density_and_statistics(n, d, K, dtype):
    X, rows, natural_T, offset, base = problem(n, d, K, dtype)
    joint = np.empty((n, K), dtype)
    for given in (base, NONE):
        wanted = task(base=given, out=joint)
        mixture_pass(*rows, natural_T, offset, wanted, None, None, 1)
        expected = X @ natural_T + offset + (given[:, None] if given.size else 0)
        assert_allclose(joint, expected, **tolerance(dtype))
    counts, totals_T = np.empty(K), np.empty((d, K))
    mixture_pass(*rows, None, None, task(given=joint), counts, totals_T, 1)
    assert_allclose(counts, joint.sum(axis=0, dtype=float), **tolerance(dtype, n))
    assert_allclose(totals_T, X.T @ joint.astype(float), **tolerance(dtype, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_unsorted_and_repeated_indices(dtype):
    rng = np.random.default_rng(0)
    n, d, K = 400, 9, 20
    lengths = rng.integers(0, 15, n)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = rng.integers(0, d, indptr[-1]).astype(np.int32)
    data = rng.integers(1, 4, indptr[-1]).astype(dtype)
    X = sparse.csr_array((data.astype(float), indices, indptr), (n, d)).toarray()
    natural_T, offset = rng.standard_normal((d, K)), rng.standard_normal(K)
    counts, totals_T, _, _ = run((data, indices, indptr), natural_T, offset, NONE)
    shares = normalise_numpy(X @ natural_T + offset)[0]
    assert_allclose(counts, shares.sum(axis=0), **tolerance(dtype, n))
    assert_allclose(totals_T, X.T @ shares, **tolerance(dtype, n))


# Equal terms are rounded the same way again and again.
@pytest.mark.parametrize("share", [0.05, 1 / 3, 0.7])
@pytest.mark.parametrize("largest", [1, 10**6])
def test_single_precision_keeps_its_digits_in_long_sums(share, largest):
    n, d, K = 100_000, 4, 3
    rng = np.random.default_rng(0)
    X = rng.integers(1, largest, (n, d), endpoint=True).astype(np.float32)
    csr = sparse.csr_array(X)
    counts, totals_T = np.empty(K), np.empty((d, K))
    responsibilities = np.full((n, K), share, np.float32)
    given = task(given=responsibilities)
    mixture_pass(*csr_parts(csr), None, None, given, counts, totals_T, 1)
    assert_allclose(counts, responsibilities.sum(axis=0, dtype=float), rtol=5e-5)
    assert_allclose(totals_T, X.T.astype(float) @ responsibilities.astype(float), rtol=5e-5)
