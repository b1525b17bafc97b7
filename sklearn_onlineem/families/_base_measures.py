"""Base measures of the count families, dense and CSR."""

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _log_factorials


def log_factorial_sums(X, n_threads=1, *, minus_that_of_the_sum=False):
    """Return sums of the log factorials of the entries of each row, (n_rows,)."""
    out = np.empty(X.shape[0])
    if sparse.issparse(X):
        _log_factorials.log_factorial_sums_csr(
            X.data, X.indptr, minus_that_of_the_sum, out, n_threads
        )
    else:
        _log_factorials.log_factorial_sums(X, minus_that_of_the_sum, out, n_threads)
    return out
