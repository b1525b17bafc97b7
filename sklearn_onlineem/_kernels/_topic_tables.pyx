"""Tables of words and topics, (V, K) with a row for each word: what a step does to them besides."""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdlib cimport free
from libc.string cimport memset

from ._arena cimport allocate_doubles
from ._arrays cimport require
from ._openmp cimport busy_threads
from ._simd cimport restricted, simd_void
from ._topics cimport check_lanes, log_all

cdef enum:
    BLOCK = 256     # words, whose sums are made by one thread


cdef int check_tables(const double[:, ::1] p, const double[:, ::1] q) except -1:
    require(p.shape[0] > 0 and p.shape[1] > 0, "words and topics")
    require(q.shape[0] == p.shape[0] and q.shape[1] == p.shape[1], "tables of one shape")
    return 0


cdef simd_void sum_columns(
    const double* counts, Py_ssize_t V, Py_ssize_t K, restricted totals
) noexcept nogil:
    """totals (K,) <- sums of counts (V, K), four words at a time: totals are loaded less often"""
    cdef Py_ssize_t _v, k
    memset(totals, 0, K * sizeof(double))
    for _v in range(V // 4):
        for k in range(K):
            totals[k] += (counts[k] + counts[K + k]) + (counts[2 * K + k] + counts[3 * K + k])
        counts += 4 * K
    for _v in range(V % 4):
        for k in range(K):
            totals[k] += counts[k]
        counts += K


cdef simd_void smooth_columns(
    const double* counts, double smoothing, const double* factors, Py_ssize_t V, Py_ssize_t K,
    restricted out,
) noexcept nogil:
    """out (V, K) <- (counts + smoothing) * factors"""
    cdef Py_ssize_t v, k
    for v in range(V):
        for k in range(K):
            out[v * K + k] = (counts[v * K + k] + smoothing) * factors[k]


def normalise_columns(
    const double[:, ::1] counts,    # IN (V, K)
    double smoothing,
    double[:, ::1] out,             # OUT (V, K): (counts + smoothing) / their sums
    double[::1] totals,             # OUT (K,): sums of counts; where smoothed ones are 0 or less,
):                                  # columns become 0
    cdef Py_ssize_t V = counts.shape[0], K = counts.shape[1], k
    cdef double total
    check_tables(counts, out)
    require(totals.shape[0] == K, "a total for each topic")
    cdef double* inverse = allocate_doubles(K)
    with nogil:
        sum_columns(&counts[0, 0], V, K, &totals[0])
        for k in range(K):
            total = totals[k] + V * smoothing
            inverse[k] = 1 / total if total > 0 else 0
        smooth_columns(&counts[0, 0], smoothing, inverse, V, K, &out[0, 0])
        free(inverse)


def add_tables(
    double a,
    const double[:, ::1] x,     # IN (V, K)
    double b,
    const double[:, ::1] y,     # IN (V, K)
    double[:, ::1] out,         # OUT (V, K): a x + b y
):
    cdef Py_ssize_t V = x.shape[0], K = x.shape[1], v, k
    check_tables(x, y)
    check_tables(x, out)
    with nogil:
        for v in range(V):
            for k in range(K):
                out[v, k] = a * x[v, k] + b * y[v, k]


def scale_columns(
    const double[:, ::1] table,     # IN (V, K)
    const double[::1] factors,      # IN (K,)
    double[:, ::1] out,             # OUT (V, K): table * factors
    int n_threads,
):
    cdef Py_ssize_t V = table.shape[0], K = table.shape[1], v, k
    check_tables(table, out)
    require(factors.shape[0] == K and n_threads > 0, "a factor for each topic; threads")
    n_threads = busy_threads(n_threads, (V + BLOCK - 1) // BLOCK)
    with nogil:
        for v in prange(V, schedule="static", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
            for k in range(K):
                out[v, k] = table[v, k] * factors[k]


cdef void add_divergences(
    const double[:, ::1] p, const double[:, ::1] q, Py_ssize_t first, Py_ssize_t last,
    double* logs, double* sums,
) noexcept nogil:
    """sums (K,) <- sum over words of p log(p / q)"""
    cdef Py_ssize_t K = p.shape[1], v, k
    memset(sums, 0, K * sizeof(double))
    for v in range(first, last):
        for k in range(K):
            logs[k] = p[v, k] / q[v, k] if p[v, k] > 0 and q[v, k] > 0 else 1
        log_all(logs, K)
        for k in range(K):
            sums[k] += p[v, k] * logs[k] if q[v, k] > 0 or p[v, k] == 0 else INFINITY


def column_divergences(
    const double[:, ::1] p,     # IN (V, K): columns add up to 1
    const double[:, ::1] q,     # IN (V, K)
    double[::1] out,            # OUT (K,): sum_v p log(p / q)
    int n_threads,
):
    cdef Py_ssize_t V = p.shape[0], K = p.shape[1], n_blocks = (V + BLOCK - 1) // BLOCK, block, k
    check_tables(p, q)
    require(out.shape[0] == K and n_threads > 0, "a divergence for each topic; threads")
    n_threads = busy_threads(n_threads, n_blocks)
    cdef double* sums = allocate_doubles(2 * n_blocks * K)
    cdef double* logs = sums + n_blocks * K
    with nogil:
        for block in prange(n_blocks, schedule="static", num_threads=n_threads,
                            use_threads_if=n_threads > 1):
            add_divergences(p, q, block * BLOCK, min(V, (block + 1) * BLOCK), logs + block * K,
                            sums + block * K)
        memset(&out[0], 0, K * sizeof(double))
        for block in range(n_blocks):
            for k in range(K):
                out[k] += sums[block * K + k]
        free(sums)


def pad_rows(
    const double[:, ::1] table,     # IN (V, K)
    float[:, ::1] out,              # OUT (V, P): the same, and zeros
    int n_threads,
):
    cdef Py_ssize_t V = table.shape[0], K = table.shape[1], P = out.shape[1], v, k
    require(V > 0 and K > 0 and n_threads > 0, "words, topics, threads")
    require(out.shape[0] == V, "a row for each word")
    check_lanes(K, P)
    n_threads = busy_threads(n_threads, (V + BLOCK - 1) // BLOCK)
    with nogil:
        for v in prange(V, schedule="static", num_threads=n_threads,
                        use_threads_if=n_threads > 1):
            for k in range(K):
                out[v, k] = <float> table[v, k]
            for k in range(K, P):
                out[v, k] = 0
