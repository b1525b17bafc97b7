"""Base measures of the count families, dense and CSR."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _log_factorials

__all__ = ["log_factorial_sums", "log_multinomial_coefficients"]


def log_factorial_sums(X, n_threads=1):
    return _per_row(
        _log_factorials.log_factorial_sums, _log_factorials.log_factorial_sums_csr, X, n_threads
    )


def log_multinomial_coefficients(X, n_threads=1):
    return _per_row(
        _log_factorials.multinomial_log_coefficients,
        _log_factorials.multinomial_log_coefficients_csr,
        X,
        n_threads,
    )


def _per_row(dense_kernel, csr_kernel, X, n_threads):
    out = np.empty(X.shape[0])
    if sparse.issparse(X):
        csr_kernel(X.data, X.indptr, out, n_threads)
    else:
        dense_kernel(X, out, n_threads)
    return out
