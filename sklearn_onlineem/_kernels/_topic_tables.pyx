"""Tables of words and topics, (V, K) with a row for each word: what a step does to them besides."""

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memset

from ._arena cimport allocate_doubles, free
from ._arrays cimport require
from ._openmp cimport busy_threads
from ._simd cimport restricted, simd_void
from ._topics cimport WORDS_AHEAD, check_lanes, fetch_row, log_all, log_ratio

cdef enum:
    BLOCK = 256     # words, whose sums are made by one thread


cdef int check_tables(const double[:, ::1] p, const double[:, ::1] q) except -1:
    require(p.shape[0] > 0 and p.shape[1] > 0, "words and topics")
    require(q.shape[0] == p.shape[0] and q.shape[1] == p.shape[1], "tables of one shape")
    return 0


cdef simd_void sum_columns(
    const double* counts, Py_ssize_t V, Py_ssize_t K, restricted totals
) noexcept nogil:
    """totals (K,) <- sums of counts (V, K), four rows at a time: totals are loaded less often"""
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
        for v in prange(V, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
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
    cdef Py_ssize_t V = p.shape[0], K = p.shape[1], n_blocks = (V + BLOCK - 1) // BLOCK, block
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
        sum_columns(sums, n_blocks, K, &out[0])
        free(sums)


cdef simd_void add_shift_divergences(
    const double* x, const double* after, const double* before, Py_ssize_t K, restricted out
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(K):
        out[k] += (x[k] + after[k]) * log_ratio(x[k] + after[k], x[k] + before[k])


def shift_divergences(
    const double[:, ::1] rows,      # IN (n, K): x, of which row 0 is left out
    const int64_t[::1] places,      # IN (V,): the row of each word
    const double[::1] after,        # IN (K,): a
    const double[::1] before,       # IN (K,): b
    double[::1] out,                # OUT (K,): sum over words of (x + a) log((x + a) / (x + b))
    int n_threads,
):
    cdef Py_ssize_t V = places.shape[0], K = rows.shape[1], v, block
    cdef Py_ssize_t n_blocks = (V + BLOCK - 1) // BLOCK
    require(V > 0 and K > 0 and n_threads > 0, "words, topics, threads")
    require(after.shape[0] == K and before.shape[0] == K and out.shape[0] == K, "are of K topics")
    for v in range(V):
        require(0 <= places[v] < rows.shape[0], "each word has a row")
    n_threads = busy_threads(n_threads, n_blocks)
    cdef double* partial = allocate_doubles(n_blocks * K)
    with nogil:
        memset(partial, 0, n_blocks * K * sizeof(double))
        for block in prange(n_blocks, schedule="static", num_threads=n_threads,
                            use_threads_if=n_threads > 1):
            for v in range(block * BLOCK, min(V, (block + 1) * BLOCK)):
                # Rows are all over the memory.
                fetch_row(&rows[places[min(v + WORDS_AHEAD, V - 1)], 0], K * sizeof(double))
                if places[v] > 0:
                    add_shift_divergences(
                        &rows[places[v], 0], &after[0], &before[0], K, partial + block * K)
        sum_columns(partial, n_blocks, K, &out[0])
        free(partial)


cdef simd_void divide_by_shifted(
    const double* x, const double* anchor, Py_ssize_t K, restricted base, restricted power
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(K):
        power[k] = base[k] = anchor[k] / (x[k] + anchor[k])


cdef simd_void add_three_powers(
    const double* base, Py_ssize_t K, restricted power, restricted first, restricted second,
    restricted third,
) noexcept nogil:
    """Three at a time stay in registers."""
    cdef Py_ssize_t k
    cdef double y
    for k in range(K):
        y = power[k]
        first[k] += y
        y *= base[k]
        second[k] += y
        y *= base[k]
        third[k] += y
        power[k] = y * base[k]


def inverse_powers(
    const double[:, ::1] rows,      # IN (n, K): x, of which row 0 is left out
    const int64_t[::1] places,      # IN (V,): the row of each word
    const double[::1] anchor,       # IN (K,): a > 0
    double[:, ::1] out,             # OUT (3 m, K): sums over words of (a / (x + a))^1, ^2, ...
):
    cdef Py_ssize_t V = places.shape[0], K = rows.shape[1], n_powers = out.shape[0], v, j
    require(K > 0 and n_powers > 0 and n_powers % 3 == 0, "topics, powers by threes")
    require(anchor.shape[0] == K and out.shape[1] == K, "are of K topics")
    for v in range(V):
        require(0 <= places[v] < rows.shape[0], "each word has a row")
    cdef double* base = allocate_doubles(2 * K)
    cdef double* power = base + K
    with nogil:
        memset(&out[0, 0], 0, n_powers * K * sizeof(double))
        for v in range(V):
            fetch_row(&rows[places[min(v + WORDS_AHEAD, V - 1)], 0], K * sizeof(double))
            if places[v] > 0:
                divide_by_shifted(&rows[places[v], 0], &anchor[0], K, base, power)
                for j in range(0, n_powers, 3):
                    add_three_powers(base, K, power, &out[j, 0], &out[j + 1, 0], &out[j + 2, 0])
        free(base)


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
        for v in prange(V, schedule="static", num_threads=n_threads, use_threads_if=n_threads > 1):
            for k in range(K):
                out[v, k] = <float> table[v, k]
            for k in range(K, P):
                out[v, k] = 0
