"""Sums of log factorials over rows of counts: what no component changes of their densities."""

from cython cimport floating
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t

from ._arrays cimport require
from ._gamma_functions cimport log_gamma
from ._openmp cimport busy_threads

from _simd_h cimport small_counts

ctypedef fused index:
    int32_t
    int64_t

# Most counts are small integers, and a table spares them the logarithm of the gamma function. The
# rows of a block are looked up together if all their counts are in it.
cdef enum:
    TABLE_SIZE = 1024
    LOOKED_UP = 4096        # counts of a block

cdef double[TABLE_SIZE] LOG_FACTORIALS

cdef int _count
for _count in range(TABLE_SIZE):
    LOG_FACTORIALS[_count] = log_gamma(_count + 1.0)


cdef inline double log_factorial(double x) noexcept nogil:
    if 0 <= x < TABLE_SIZE and x == <int> x:
        return LOG_FACTORIALS[<int> x]
    return log_gamma(x + 1)


cdef inline double sum_looked_up(const int32_t* counts, Py_ssize_t n, double* total) noexcept nogil:
    """sum_j log Gamma(x_j + 1) of small counts; total <- sum_j x_j"""
    cdef double result = 0
    cdef int32_t small_total = 0
    cdef Py_ssize_t j
    for j in range(n):
        result += LOG_FACTORIALS[counts[j]]
        small_total += counts[j]
    total[0] = small_total
    return result


cdef double sum_computed(const floating* counts, Py_ssize_t n, double* total) noexcept nogil:
    """sum_j log Gamma(x_j + 1) of any counts; total <- sum_j x_j"""
    cdef double result = 0
    cdef Py_ssize_t j
    total[0] = 0
    for j in range(n):
        result += log_factorial(counts[j])
        total[0] += counts[j]
    return result


cdef void sum_log_factorials(
    const floating* counts, const index* indptr, Py_ssize_t d, Py_ssize_t first, Py_ssize_t last,
    bint minus_that_of_the_sum, double* out,
) noexcept nogil:
    """Of some CSR rows, or of rows of `d` counts where `indptr` is NULL."""
    cdef Py_ssize_t start = indptr[first] if indptr != NULL else first * d
    cdef Py_ssize_t stop = indptr[last] if indptr != NULL else last * d
    cdef int32_t[LOOKED_UP] small
    cdef bint are_small = stop - start <= LOOKED_UP and small_counts(
        counts + start, stop - start, TABLE_SIZE - 1, small)
    cdef double result, total
    cdef Py_ssize_t i, j = 0, n = d
    for i in range(first, last):
        if indptr != NULL:
            n = indptr[i + 1] - indptr[i]
        if are_small:
            result = sum_looked_up(small + j, n, &total)
        else:
            result = sum_computed(counts + start + j, n, &total)
        j += n
        out[i] = log_factorial(total) - result if minus_that_of_the_sum else result


cdef void log_factorials(
    const floating* counts, const index* indptr, Py_ssize_t d, Py_ssize_t n,
    Py_ssize_t n_counts, bint minus_that_of_the_sum, double* out, int n_threads,
) noexcept nogil:
    # Blocks half full on average, so that few with uneven rows are too full.
    cdef Py_ssize_t B = max(1, min(n, LOOKED_UP // 2 * n // max(1, n_counts)))
    cdef Py_ssize_t block, n_blocks = (n + B - 1) // B
    n_threads = busy_threads(n_threads, n_blocks)
    for block in prange(n_blocks, schedule="static", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
        sum_log_factorials(counts, indptr, d, block * B, min(n, (block + 1) * B),
                           minus_that_of_the_sum, out)


def log_factorial_sums(
    const floating[:, ::1] X,   # IN (n, d)
    bint minus_that_of_the_sum,
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """sum_j log Gamma(x_nj + 1) for every row; or log Gamma(sum_j x_nj + 1) less that."""
    cdef Py_ssize_t n = X.shape[0], d = X.shape[1]
    require(n > 0 and d > 0 and n_threads > 0, "rows, columns, threads")
    require(out.shape[0] == n, "there is a sum for each row")
    with nogil:
        log_factorials(&X[0, 0], <const int64_t*> NULL, d, n, n * d, minus_that_of_the_sum,
                       &out[0], n_threads)


def log_factorial_sums_csr(
    const floating[::1] data,   # IN (n_non_zeros,)
    const index[::1] indptr,    # IN (n + 1,)
    bint minus_that_of_the_sum,
    double[::1] out,            # OUT (n,)
    int n_threads,
):
    """The same for every CSR row; zeros add nothing."""
    cdef const floating* data_or_null = &data[0] if data.shape[0] > 0 else NULL
    cdef Py_ssize_t n = indptr.shape[0] - 1
    require(n > 0 and n_threads > 0, "rows, threads")
    require(out.shape[0] == n, "there is a sum for each row")
    require(indptr[0] == 0 and indptr[n] == data.shape[0], "pointers of all non-zeros")
    with nogil:
        log_factorials(data_or_null, &indptr[0], 0, n, data.shape[0], minus_that_of_the_sum,
                       &out[0], n_threads)
