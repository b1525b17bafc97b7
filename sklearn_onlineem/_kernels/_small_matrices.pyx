"""The K covariances of a Gaussian mixture: inverted, compared.

An online step on one row spends its time here and in `_centred_moments`, not on the data, so each
function does all the components in one call and touches each array once.

Shapes: K components, d features; a shared ("tied") covariance is a stack of one matrix.
"""

from libc.math cimport isfinite, log, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport ndarray
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

from ._arena cimport (
    Arena,
    allocate,
    allocate_doubles,
    arena_in,
    counting_arena,
    take_doubles,
)
from ._arrays cimport extent, readable, writable
from ._simd cimport restricted, simd_void

cdef enum:
    INTERLEAVED = 8  # matrices factorised side by side: the doubles of an AVX-512 register

# Inverses
# --------
#
# For matrices this small LAPACK's calls cost more than its arithmetic. Instead some matrices are
# stored interleaved, (d, d, INTERLEAVED), and every scalar of the textbook algorithm becomes a
# vector. All loops run along rows, so that they have no sums across iterations.

cdef inline void add_product(
    restricted target, const double* factor, const double* source, Py_ssize_t n, double sign
) noexcept nogil:
    """target_j += sign factor source_j for n entries j: the inner loop of all that follows."""
    cdef Py_ssize_t j, m
    for j in range(n):
        for m in range(INTERLEAVED):
            target[j * INTERLEAVED + m] += sign * (factor[m] * source[j * INTERLEAVED + m])


cdef inline void scale(restricted target, const double* factor, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j, m
    for j in range(n):
        for m in range(INTERLEAVED):
            target[j * INTERLEAVED + m] *= factor[m]


cdef simd_void factorise_interleaved(double* work, double* precision, Py_ssize_t d) noexcept nogil:
    """Invert INTERLEAVED covariances given by the upper triangle of `work` = S, with S = U'U.

    OUT: `work` holds inv(U)' below, and on, the diagonal (what is above it is spent);
    `precision` holds inv(S) below, and on, the diagonal. Not positive definite: NaN or inf.
    """
    cdef Py_ssize_t i, p, m, row = d * INTERLEAVED
    cdef double* pivot
    cdef double* source

    # Right-looking Cholesky; 1 / U_ii stays on the diagonal, where it is also inv(U)_ii.
    for i in range(d):
        pivot = work + i * row + i * INTERLEAVED
        for m in range(INTERLEAVED):
            pivot[m] = 1.0 / sqrt(pivot[m])
        scale(pivot + INTERLEAVED, pivot, d - i - 1)
        for p in range(i + 1, d):
            source = work + i * row + p * INTERLEAVED
            add_product(work + p * row + p * INTERLEAVED, source, source, d - p, -1.0)

    # inv(U)' by forward substitution, row by row.
    for i in range(1, d):
        memset(work + i * row, 0, i * INTERLEAVED * sizeof(double))
        for p in range(i):
            add_product(
                work + i * row, work + p * row + i * INTERLEAVED, work + p * row, p + 1, -1.0)
        scale(work + i * row, work + i * row + i * INTERLEAVED, i)

    # inv(S) = inv(U) inv(U)'.
    memset(precision, 0, d * row * sizeof(double))
    for p in range(d):
        source = work + p * row
        for i in range(p + 1):
            add_product(precision + i * row, source + i * INTERLEAVED, source, i + 1, 1.0)


cdef void interleave(
    const double* matrices, Py_ssize_t n_matrices, Py_ssize_t d, double* interleaved
) noexcept nogil:
    """Interleave the upper triangles of matrices; identities stand for missing ones."""
    cdef Py_ssize_t i, j, m
    cdef double* entry
    for i in range(d):
        for j in range(i, d):
            entry = interleaved + (i * d + j) * INTERLEAVED
            for m in range(n_matrices):
                entry[m] = matrices[(m * d + i) * d + j]
            for m in range(n_matrices, INTERLEAVED):
                entry[m] = i == j


cdef void scatter_symmetric(
    const double* interleaved, Py_ssize_t m, Py_ssize_t d, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(i + 1):
            matrix[i * d + j] = matrix[j * d + i] = interleaved[(i * d + j) * INTERLEAVED + m]


cdef void scatter_transposed(
    const double* interleaved, Py_ssize_t m, Py_ssize_t d, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(i + 1):
            matrix[i * d + j] = 0.0
            matrix[j * d + i] = interleaved[(i * d + j) * INTERLEAVED + m]


cdef double log_det_from_factor(
    const double* factor, Py_ssize_t d, Py_ssize_t stride
) noexcept nogil:
    """log det S from the diagonal of inv(U); a logarithm costs as much as ten products."""
    cdef Py_ssize_t i
    cdef double product = 1.0, total = 0.0
    for i in range(d):
        product *= factor[i * (d + 1) * stride]
        if not 1e-100 < product < 1e100:
            total -= log(product)
            product = 1.0
    return 2.0 * (total - log(product))


cdef bint is_regular(const double* precision, double log_det, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i
    cdef double trace = 0.0
    for i in range(d):
        trace += precision[i * (d + 1)]
    return isfinite(log_det) and isfinite(trace)


# Scratch memory of `factorise_small`, (d, d, INTERLEAVED) each.
cdef struct Interleaved:
    double* factors
    double* precisions


cdef Interleaved lay_out(Py_ssize_t d, Arena* arena) noexcept nogil:
    cdef Interleaved scratch
    scratch.factors = take_doubles(arena, d * d * INTERLEAVED)
    scratch.precisions = take_doubles(arena, d * d * INTERLEAVED)
    return scratch


cdef Py_ssize_t factorise_small(
    const double* covariances, double* precisions, double* factors, double* log_dets,
    Py_ssize_t K, Py_ssize_t d, const Interleaved* scratch,
) noexcept nogil:
    cdef double* work = scratch.factors
    cdef double* precision = scratch.precisions
    cdef Py_ssize_t group, m, k
    for group in range((K + INTERLEAVED - 1) // INTERLEAVED):
        k = group * INTERLEAVED
        interleave(covariances + k * d * d, min(INTERLEAVED, K - k), d, work)
        factorise_interleaved(work, precision, d)
        for m in range(min(INTERLEAVED, K - k)):
            log_dets[k] = log_det_from_factor(work + m, d, INTERLEAVED)
            scatter_symmetric(precision, m, d, precisions + k * d * d)
            scatter_transposed(work, m, d, factors + k * d * d)
            if not is_regular(precisions + k * d * d, log_dets[k], d):
                return k
            k += 1
    return -1


cdef Py_ssize_t factorise_large(
    const double* covariances, double* precisions, double* factors, double* log_dets,
    Py_ssize_t K, Py_ssize_t d,
) noexcept nogil:
    cdef Py_ssize_t k, i, j
    cdef int n = <int> d, info
    cdef double* precision
    cdef double* factor
    for k in range(K):
        precision = precisions + k * d * d
        memcpy(precision, covariances + k * d * d, d * d * sizeof(double))
        # LAPACK counts by columns: its lower triangle is our upper one, its L our U = L'.
        dpotrf(b"L", &n, precision, &n, &info)
        if info != 0:
            return k
        dtrtri(b"L", b"N", &n, precision, &n, &info)
        log_dets[k] = log_det_from_factor(precision, d, 1)
        factor = factors + k * d * d
        for i in range(d):
            memset(factor + i * d, 0, i * sizeof(double))
            memcpy(factor + i * (d + 1), precision + i * (d + 1), (d - i) * sizeof(double))
        dlauum(b"L", &n, precision, &n, &info)
        for i in range(d):
            for j in range(i):
                precision[i * d + j] = precision[j * d + i]
        if not is_regular(precision, log_dets[k], d):
            return k
    return -1


def factorise(
    ndarray covariances,    # IN   (K, d, d)
    ndarray precisions,     # OUT  (K, d, d)
    ndarray factors,        # OUT  (K, d, d) upper triangular
    ndarray log_dets,       # OUT  (K,), of the covariances
):
    """Invert covariances S = U'U: precision = P P' with the upper triangular factor P = inv(U).

    Returns -1, or the index of the first component that is not positive definite or not finite;
    what the outputs hold from there on is undefined.
    """
    cdef Py_ssize_t K = extent(covariances, 0), d = extent(covariances, 1), failed
    cdef const double* covariance = readable(covariances, K * d * d)
    cdef double* precision = writable(precisions, K * d * d)
    cdef double* factor = writable(factors, K * d * d)
    cdef double* log_det = writable(log_dets, K)
    # Beyond, places stand empty or the matrices fall out of L2, and LAPACK's blocks are faster.
    cdef bint small = d <= min(16 * K, 64)
    cdef Arena arena = counting_arena()
    if small:
        lay_out(d, &arena)
    cdef void* memory = allocate(&arena)
    cdef Interleaved scratch
    with nogil:
        if small:
            arena = arena_in(memory)
            scratch = lay_out(d, &arena)
            failed = factorise_small(covariance, precision, factor, log_det, K, d, &scratch)
        else:
            failed = factorise_large(covariance, precision, factor, log_det, K, d)
    free(memory)
    return failed


# Divergences
# -----------

cdef simd_void add_traces(
    const double* precision, const double* covariance, const double* difference, Py_ssize_t d,
    restricted sums,
) noexcept nogil:
    """sums_j <- sum_i precision_ij (covariance + difference difference')_ij"""
    cdef Py_ssize_t i, j
    for j in range(d):
        sums[j] = 0.0
    for i in range(d):
        for j in range(d):
            sums[j] += precision[i * d + j] * (
                covariance[i * d + j] + difference[i] * difference[j]
            )


def kl_divergences(
    ndarray mean_p,         # IN   (K, d)
    ndarray covariance_p,   # IN   (K, d, d)
    ndarray log_det_p,      # IN   (K,), of the covariances
    ndarray mean_q,         # IN   (K, d)
    ndarray precision_q,    # IN   (K, d, d)
    ndarray log_det_q,      # IN   (K,), of the covariances
    ndarray divergences,    # OUT  (K,)
):
    """KL(p_k || q_k) of Gaussians, component by component.

    (tr(precision_q (covariance_p + D D')) - d + log_det_q - log_det_p) / 2, D = mean_p - mean_q.
    """
    cdef Py_ssize_t K = extent(mean_p, 0), d = extent(mean_p, 1), k, j
    cdef const double* left = readable(mean_p, K * d)
    cdef const double* right = readable(mean_q, K * d)
    cdef const double* covariance = readable(covariance_p, K * d * d)
    cdef const double* precision = readable(precision_q, K * d * d)
    cdef const double* log_dets = readable(log_det_p, K)
    cdef const double* other_log_dets = readable(log_det_q, K)
    cdef double* out = writable(divergences, K)
    cdef double* difference = allocate_doubles(2 * d)
    cdef double* sums = difference + d
    cdef double trace
    with nogil:
        for k in range(K):
            for j in range(d):
                difference[j] = left[k * d + j] - right[k * d + j]
            add_traces(precision + k * d * d, covariance + k * d * d, difference, d, sums)
            trace = 0.0
            for j in range(d):
                trace += sums[j]
            out[k] = 0.5 * (trace - d + other_log_dets[k] - log_dets[k])
        free(difference)
