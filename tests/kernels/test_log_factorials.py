"""The kernels of log factorials against SciPy."""

import numpy as np
import pytest
from cases.kernel_formulas import DTYPES
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import gammaln

from sklearn_onlineem._kernels._counts import log_factorial_sums


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_log_factorials(dtype, n_threads):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (40, 7)).astype(dtype)
    X[0] = [0, 1, 1023, 1024, 0.5, 1e15, 2**31]
    X[1] = 0
    csr = sparse.csr_array(X)
    csr = csr.data, csr.indptr.astype(np.int64)
    sums = gammaln(X.astype(float) + 1).sum(axis=1)
    coefficients = gammaln(X.sum(axis=1, dtype=float) + 1) - sums
    # Only a difference of sums near 1e16 is left of X[0].
    scale = np.abs(sums) + np.abs(coefficients)
    out = np.empty(len(X))
    for minus_that_of_the_sum, expected in ((False, sums), (True, coefficients)):
        for counts, indptr in ((X.ravel(), np.arange(0, X.size + 1, 7)), csr):
            log_factorial_sums(counts, indptr, minus_that_of_the_sum, out, n_threads)
            assert_allclose(out / (1 + scale), expected / (1 + scale), atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_factorials_of_uneven_rows(dtype):
    rng = np.random.default_rng(0)
    X = rng.poisson(3.0, (300, 5_000)) * (rng.random((300, 5_000)) < 0.002)
    X[7] = rng.poisson(3.0, 5_000)
    X[100, 9], X[200, :3] = 2_000, 1023
    X = X.astype(dtype)
    X[250, 1] = 0.25
    expected = gammaln(X.astype(float) + 1).sum(axis=1)
    csr = sparse.csr_array(X)
    out = np.empty(len(X))
    log_factorial_sums(X.ravel(), np.arange(0, X.size + 1, 5_000), False, out, 2)
    assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
    log_factorial_sums(csr.data, csr.indptr.astype(np.int64), False, out, 2)
    assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
