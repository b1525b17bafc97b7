"""The few BLAS calls, for float and double. Matrices are column-major, as in Fortran.

The routines are those that SciPy links to. The Python caller holds them to one thread: ours run
over blocks of rows.
"""

from cython cimport floating
from scipy.linalg.cython_blas cimport dgemm, dsyrk, dtrmm, sgemm, ssyrk, strmm


# C <- alpha op(A) op(B) + beta C, op(A) (m, k), op(B) (k, n)
cdef inline void gemm(
    char trans_a, char trans_b, int m, int n, int k, floating alpha,
    const floating* A, int lda, const floating* B, int ldb, floating beta, floating* C, int ldc,
) noexcept nogil:
    if floating is float:
        sgemm(&trans_a, &trans_b, &m, &n, &k, &alpha, <float*> A, &lda, <float*> B, &ldb,
              &beta, C, &ldc)
    else:
        dgemm(&trans_a, &trans_b, &m, &n, &k, &alpha, <double*> A, &lda, <double*> B, &ldb,
              &beta, C, &ldc)


# C <- alpha op(A) op(A)' + beta C in the triangle `uplo`, op(A) (n, k)
cdef inline void syrk(
    char uplo, char trans, int n, int k, floating alpha, const floating* A, int lda,
    floating beta, floating* C, int ldc,
) noexcept nogil:
    if floating is float:
        ssyrk(&uplo, &trans, &n, &k, &alpha, <float*> A, &lda, &beta, C, &ldc)
    else:
        dsyrk(&uplo, &trans, &n, &k, &alpha, <double*> A, &lda, &beta, C, &ldc)


# B <- alpha op(A) B (side "L") or alpha B op(A) (side "R"), A triangular, B (m, n)
cdef inline void trmm(
    char side, char uplo, char trans, char diag, int m, int n, floating alpha,
    const floating* A, int lda, floating* B, int ldb,
) noexcept nogil:
    if floating is float:
        strmm(&side, &uplo, &trans, &diag, &m, &n, &alpha, <float*> A, &lda, B, &ldb)
    else:
        dtrmm(&side, &uplo, &trans, &diag, &m, &n, &alpha, <double*> A, &lda, B, &ldb)
