"""The K covariances of a Gaussian mixture: inverted, compared; the inverse of quasi-Newton steps.

An online step on one row spends its time here and in `_centred_moments`, not on the data, so each
function does all the components in one call and touches each array once.

Shapes: K components, d features; a shared ("tied") covariance is a stack of one matrix.
"""

from libc.math cimport isfinite, log
from libc.string cimport memcpy, memset
from numpy cimport PyArray_NDIM, ndarray
from scipy.linalg.cython_blas cimport daxpy, ddot, dscal
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

from ._arena cimport Arena, allocate, allocate_doubles, counting_arena, free, take_doubles
from ._arrays cimport extent, readable, require, writable
from ._pairwise cimport pairwise_sum
from ._simd cimport restricted, simd_void

from _small_matrices_h cimport LANES, invert_lanes

# Inverses
# --------
#
# For matrices this small LAPACK's calls cost more than its arithmetic.

cdef void interleave(
    const double* matrices, Py_ssize_t n_matrices, Py_ssize_t d, double* interleaved
) noexcept nogil:
    """Interleave the upper triangles of matrices; identities stand for missing ones."""
    cdef Py_ssize_t i, j, m
    cdef double* entry
    for i in range(d):
        for j in range(i, d):
            entry = interleaved + (i * d + j) * LANES
            for m in range(n_matrices):
                entry[m] = matrices[(m * d + i) * d + j]
            for m in range(n_matrices, LANES):
                entry[m] = i == j


cdef void scatter(
    const double* roots, const double* inverses, Py_ssize_t m, Py_ssize_t d, double* precision,
    double* factor,
) noexcept nogil:
    """precision <- the m-th inverse, factor <- its upper triangular root."""
    cdef Py_ssize_t i, j, at
    for i in range(d):
        for j in range(i + 1):
            at = (i * d + j) * LANES + m
            precision[i * d + j] = precision[j * d + i] = inverses[at]
            factor[i * d + j] = 0.0
            factor[j * d + i] = roots[at]


cdef double log_of_product(const double* x, Py_ssize_t n, Py_ssize_t stride) noexcept nogil:
    """sum_i log x_i; a logarithm costs as much as ten products."""
    cdef Py_ssize_t i
    cdef double product = 1.0, total = 0.0
    for i in range(n):
        product *= x[i * stride]
        if not 1e-100 < product < 1e100:
            total += log(product)
            product = 1.0
    return total + log(product)


cdef double log_det_from_factor(
    const double* factor, Py_ssize_t d, Py_ssize_t stride
) noexcept nogil:
    """log det S from the diagonal of inv(U)"""
    return -2.0 * log_of_product(factor, d, (d + 1) * stride)


cdef bint is_regular(const double* precision, double log_det, Py_ssize_t d) noexcept nogil:
    cdef Py_ssize_t i
    cdef double trace = 0.0
    for i in range(d):
        trace += precision[i * (d + 1)]
    return isfinite(log_det) and isfinite(trace)


cdef Py_ssize_t factorise_small(
    const double* covariances, double* precisions, double* factors, double* log_dets,
    Py_ssize_t K, Py_ssize_t d, double* work, double* inverses,
) noexcept nogil:
    """By LANES matrices at a time; work, inverses (d, d, LANES) are scratch."""
    cdef Py_ssize_t group, m, first, k
    for group in range((K + LANES - 1) // LANES):
        first = group * LANES
        interleave(covariances + first * d * d, min(LANES, K - first), d, work)
        invert_lanes(work, inverses, d)
        for m in range(min(LANES, K - first)):
            k = first + m
            log_dets[k] = log_det_from_factor(work + m, d, LANES)
            scatter(work, inverses, m, d, precisions + k * d * d, factors + k * d * d)
            if not is_regular(precisions + k * d * d, log_dets[k], d):
                return k
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
    cdef Py_ssize_t size = d * d * LANES if small else 0
    cdef Arena arena = counting_arena()
    take_doubles(&arena, 2 * size)
    cdef void* memory = allocate(&arena)
    cdef double* work = take_doubles(&arena, 2 * size)
    with nogil:
        if small:
            failed = factorise_small(
                covariance, precision, factor, log_det, K, d, work, work + size)
        else:
            failed = factorise_large(covariance, precision, factor, log_det, K, d)
        free(memory)
    return failed


def invert_variances(
    ndarray variances,      # IN   (K, d), or (K, 1) of d columns
    Py_ssize_t d,
    ndarray precisions,     # OUT  shape of variances
    ndarray log_dets,       # OUT  (K,)
):
    """What `factorise` makes of matrices, of variances along the axes."""
    cdef Py_ssize_t K = extent(variances, 0), width = extent(variances, 1), k, i
    require(width == d or width == 1, "variances are of all columns, or one")
    cdef const double* variance = readable(variances, K * width)
    cdef double* precision = writable(precisions, K * width)
    cdef double* log_det = writable(log_dets, K)
    with nogil:
        for k in range(K):
            for i in range(width):
                precision[i] = 1.0 / variance[i]
            log_det[k] = (d if width == 1 else 1) * log_of_product(variance, width, 1)
            variance, precision = variance + width, precision + width


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
    ndarray covariance_p,   # IN   (K, d, d), or (1, d, d) shared, or variances (K, d) or (K, 1)
    ndarray log_det_p,      # IN   (K,) or (1,), of the covariances
    ndarray mean_q,         # IN   (K, d)
    ndarray precision_q,    # IN   shape of covariance_p
    ndarray log_det_q,      # IN   shape of log_det_p
    ndarray divergences,    # OUT  (K,)
):
    """KL(p_k || q_k) of Gaussians, component by component.

    (tr(precision_q (covariance_p + D D')) - d + log_det_q - log_det_p) / 2, D = mean_p - mean_q.
    """
    cdef Py_ssize_t K = extent(mean_p, 0), d = extent(mean_p, 1), k, m, j, i
    cdef const double* left = readable(mean_p, K * d)
    cdef const double* right = readable(mean_q, K * d)
    cdef bint has_matrices = PyArray_NDIM(covariance_p) == 3
    cdef Py_ssize_t width = extent(covariance_p, 1)
    cdef Py_ssize_t size = d * d if has_matrices else width
    require(width == d or width == 1 and not has_matrices, "variances are of all columns, or one")
    cdef Py_ssize_t M = 1 if has_matrices and extent(covariance_p, 0) == 1 else K
    cdef Py_ssize_t to_next = size if M == K else 0
    cdef const double* covariance = readable(covariance_p, M * size)
    cdef const double* precision = readable(precision_q, M * size)
    cdef const double* log_dets = readable(log_det_p, M)
    cdef const double* other_log_dets = readable(log_det_q, M)
    cdef double* out = writable(divergences, K)
    cdef double* difference = allocate_doubles(2 * d)
    cdef double* sums = difference + d
    cdef double trace
    with nogil:
        for k in range(K):
            for j in range(d):
                difference[j] = left[k * d + j] - right[k * d + j]
            if has_matrices:
                add_traces(precision, covariance, difference, d, sums)
                trace = 0.0
                for j in range(d):
                    trace += sums[j]
            else:
                for j in range(d):
                    i = j if width == d else 0
                    sums[j] = precision[i] * (covariance[i] + difference[j] * difference[j])
                trace = pairwise_sum(sums, d)
            m = k if M == K else 0
            out[k] = 0.5 * (trace - d + other_log_dets[m] - log_dets[m])
            covariance += to_next
            precision += to_next
        free(difference)


# The inverse of quasi-Newton steps
# ---------------------------------


def multiply_by_inverse(
    tuple steps,        # IN, some (n,), the oldest first
    tuple changes,      # IN, as many (n,): by how much the gradient falls with each
    bint scales,
    ndarray direction,  # INOUT (n,): gradient
):
    """direction <- its product with the inverse of the information that the steps tell.

    It is complete in other directions; with `scales` they lack what the latest step did, if any.
    """
    cdef int n = <int> extent(direction, 0), one = 1
    cdef Py_ssize_t m = len(steps), i
    cdef double* out = writable(direction, n)
    cdef double* step
    cdef double* change
    cdef double share, product, scale = 1.0
    cdef list shares = []
    require(m > 0 and len(changes) == m, "steps and changes")
    for i in range(m - 1, -1, -1):
        step, change = <double*> readable(steps[i], n), <double*> readable(changes[i], n)
        product = ddot(&n, step, &one, change, &one)
        if scales and i == m - 1:
            scale = max(1.0, product / ddot(&n, change, &one, change, &one))
        share = -ddot(&n, step, &one, out, &one) / product
        daxpy(&n, &share, change, &one, out, &one)
        shares.append(share)
    dscal(&n, &scale, out, &one)
    for i in range(m):
        step, change = <double*> readable(steps[i], n), <double*> readable(changes[i], n)
        product = ddot(&n, step, &one, change, &one)
        share = -<double> shares.pop() - ddot(&n, change, &one, out, &one) / product
        daxpy(&n, &share, step, &one, out, &one)
