"""The K small matrices of a Gaussian mixture: inverted, packed, merged, compared.

An online step on one row spends its time here, not on the data, so each function does all the
components in one call and touches each array once.

Shapes: K components, d features; a shared ("tied") covariance is a stack of one matrix. Weights,
means and scatters are *centred* statistics: scatter = sum of weight (x - mean)(x - mean)'.
"""

from libc.math cimport isfinite, log, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset
from numpy cimport ndarray
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

from ._arrays cimport extent, readable, writable
from ._memory cimport aligned, allocate


cdef extern from "_simd.h":
    # Cython copies the name of a return type to the C code, attribute and all.
    ctypedef void simd_void "SIMD_CLONES void"
    # Nothing else points to what these do: without that promise each vector is checked for overlap.
    ctypedef double* lanes_t "double* __restrict"

cdef enum:
    LANES = 8  # matrices factorised side by side: the doubles of an AVX-512 register

# Below this weight, sums divided by it may overflow: such a component has seen nothing.
cdef double NEGLIGIBLE = 1e-290


# Inverses
# --------
#
# For matrices this small LAPACK's calls cost more than its arithmetic. Instead LANES matrices are
# stored with the lane innermost, (d, d, LANES), and every scalar of the textbook algorithm becomes
# a vector of lanes. All loops run along rows, so that they have no sums across iterations.

cdef inline void add_product(
    lanes_t target, const double* factor, const double* source, Py_ssize_t n, double sign
) noexcept nogil:
    """target_j += sign factor source_j for n entries j: the inner loop of all that follows."""
    cdef Py_ssize_t j, lane
    for j in range(n):
        for lane in range(LANES):
            target[j * LANES + lane] += sign * (factor[lane] * source[j * LANES + lane])


cdef inline void scale(lanes_t target, const double* factor, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j, lane
    for j in range(n):
        for lane in range(LANES):
            target[j * LANES + lane] *= factor[lane]


cdef simd_void factorise_lanes(double* work, double* precision, Py_ssize_t d) noexcept nogil:
    """Invert LANES covariances given by the upper triangle of `work` = S, with S = U'U.

    OUT: `work` holds inv(U)' below, and on, the diagonal (what is above it is spent);
    `precision` holds inv(S) below, and on, the diagonal. Not positive definite: NaN or inf.
    """
    cdef Py_ssize_t i, p, lane, row = d * LANES
    cdef double* pivot
    cdef double* source

    # Right-looking Cholesky; 1 / U_ii stays on the diagonal, where it is also inv(U)_ii.
    for i in range(d):
        pivot = work + i * row + i * LANES
        for lane in range(LANES):
            pivot[lane] = 1.0 / sqrt(pivot[lane])
        scale(pivot + LANES, pivot, d - i - 1)
        for p in range(i + 1, d):
            source = work + i * row + p * LANES
            add_product(work + p * row + p * LANES, source, source, d - p, -1.0)

    # inv(U)' by forward substitution, row by row.
    for i in range(1, d):
        memset(work + i * row, 0, i * LANES * sizeof(double))
        for p in range(i):
            add_product(work + i * row, work + p * row + i * LANES, work + p * row, p + 1, -1.0)
        scale(work + i * row, work + i * row + i * LANES, i)

    # inv(S) = inv(U) inv(U)'.
    memset(precision, 0, d * row * sizeof(double))
    for p in range(d):
        source = work + p * row
        for i in range(p + 1):
            add_product(precision + i * row, source + i * LANES, source, i + 1, 1.0)


cdef void gather_lanes(
    const double* matrices, Py_ssize_t n_lanes, Py_ssize_t d, double* lanes
) noexcept nogil:
    """Interleave the upper triangles of matrices; identities fill the lanes from n_lanes on."""
    cdef Py_ssize_t i, j, lane
    cdef double* entry
    for i in range(d):
        for j in range(i, d):
            entry = lanes + (i * d + j) * LANES
            for lane in range(n_lanes):
                entry[lane] = matrices[(lane * d + i) * d + j]
            for lane in range(n_lanes, LANES):
                entry[lane] = i == j


cdef void scatter_symmetric(
    const double* lanes, Py_ssize_t lane, Py_ssize_t d, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(i + 1):
            matrix[i * d + j] = matrix[j * d + i] = lanes[(i * d + j) * LANES + lane]


cdef void scatter_transposed(
    const double* lanes, Py_ssize_t lane, Py_ssize_t d, double* matrix
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(i + 1):
            matrix[i * d + j] = 0.0
            matrix[j * d + i] = lanes[(i * d + j) * LANES + lane]


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


cdef Py_ssize_t factorise_small(
    const double* covariances, double* precisions, double* factors, double* log_dets,
    Py_ssize_t K, Py_ssize_t d, double* work,
) noexcept nogil:
    cdef double* precision = work + d * d * LANES
    cdef Py_ssize_t group, lane, k
    for group in range((K + LANES - 1) // LANES):
        k = group * LANES
        gather_lanes(covariances + k * d * d, min(LANES, K - k), d, work)
        factorise_lanes(work, precision, d)
        for lane in range(min(LANES, K - k)):
            log_dets[k] = log_det_from_factor(work + lane, d, LANES)
            scatter_symmetric(precision, lane, d, precisions + k * d * d)
            scatter_transposed(work, lane, d, factors + k * d * d)
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
    # Beyond, lanes stand empty or the matrices fall out of L2, and LAPACK's blocks are faster.
    cdef bint small = d <= min(16 * K, 64)
    cdef void* memory = allocate(2 * d * d * LANES if small else 0, sizeof(double))
    with nogil:
        if small:
            failed = factorise_small(covariance, precision, factor, log_det, K, d,
                                     <double*> aligned(memory))
        else:
            failed = factorise_large(covariance, precision, factor, log_det, K, d)
    free(memory)
    return failed


# Sums about a centre <-> about the mean
# --------------------------------------

cdef simd_void multiply(
    const double* x, double factor, Py_ssize_t n, lanes_t out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = factor * x[i]


cdef simd_void add_outer(
    double* matrix, const double* vector, double scale, Py_ssize_t d
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(d):
            # This order of the products keeps the matrix symmetric to the last bit.
            matrix[i * d + j] += scale * (vector[i] * vector[j])


def recentre(
    ndarray first,          # IN    (K, d), sums of x - mean_k
    ndarray second,         # IN    (K, d, d), or (1, d, d) summed over k
    ndarray means,          # IN    (K, d)
    double share,           # of each row
    ndarray counts,         # INOUT (K,), multiplied by the share
    ndarray new_means,      # OUT   (K, d)
    ndarray scatters,       # OUT   shape of second, about the new means
):
    """Centred statistics from sums about each component's old mean; an empty one stays there."""
    cdef Py_ssize_t K = extent(means, 0), d = extent(means, 1), M = extent(second, 0), k, i
    cdef const double* sums = readable(first, K * d)
    cdef const double* products = readable(second, M * d * d)
    cdef const double* mean = readable(means, K * d)
    cdef double* count = writable(counts, K)
    cdef double* new_mean = writable(new_means, K * d)
    cdef double* scatter = writable(scatters, M * d * d)
    with nogil:
        multiply(products, share, M * d * d, scatter)
        for k in range(K):
            if count[k] > NEGLIGIBLE:
                for i in range(d):
                    new_mean[i] = mean[i] + sums[i] / count[k]
                add_outer(scatter, sums, -share / count[k], d)
            else:
                memcpy(new_mean, mean, d * sizeof(double))
                if M == K:
                    memset(scatter, 0, d * d * sizeof(double))
            count[k] *= share
            sums += d
            mean += d
            new_mean += d
            if M == K:
                scatter += d * d


# Centred statistics: sums
# ------------------------

cdef struct Moments:
    const double* weight
    const double* degrees
    const double* mean
    const double* scatter


cdef Moments moments(
    ndarray weight, ndarray degrees, ndarray mean, ndarray scatter,
    Py_ssize_t K, Py_ssize_t d, Py_ssize_t n_degrees, Py_ssize_t n_scatter,
) except *:
    cdef Moments A
    A.weight, A.degrees = readable(weight, K), readable(degrees, n_degrees)
    A.mean, A.scatter = readable(mean, K * d), readable(scatter, n_scatter)
    return A


cdef simd_void add_scaled(
    double a, const double* x, double b, const double* y, Py_ssize_t n, lanes_t out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = a * x[i] + b * y[i]


cdef double merge_means(
    double left, const double* mean_a, double right, const double* mean_b,
    double* mean, double* difference, Py_ssize_t d,
) noexcept nogil:
    """Mean of two means; returns the weight that their difference has in the joint scatter."""
    cdef Py_ssize_t j
    cdef double total = left + right
    cdef double fraction = right / total if total > 0.0 else 0.0
    cdef bint b_is_heavier = fraction > 0.5
    # Starting from the heavier mean, a partner of weight zero is exactly without effect.
    cdef const double* base = mean_b if b_is_heavier else mean_a
    cdef double step = fraction - 1.0 if b_is_heavier else fraction
    for j in range(d):
        difference[j] = mean_b[j] - mean_a[j]
        mean[j] = base[j] + step * difference[j]
    return left * fraction


def merge_centred(
    double a,
    ndarray weight_a,       # IN   (K,)
    ndarray degrees_a,      # IN   (K,), or (1,) for a shared scatter
    ndarray mean_a,         # IN   (K, d)
    ndarray scatter_a,      # IN   (K, d, d), or (1, d, d) summed over k
    double b,
    ndarray weight_b,       # IN   (K,)
    ndarray degrees_b,      # IN   shape of degrees_a
    ndarray mean_b,         # IN   (K, d)
    ndarray scatter_b,      # IN   shape of scatter_a
    ndarray weight,         # OUT  (K,)
    ndarray degrees,        # OUT  shape of degrees_a
    ndarray mean,           # OUT  (K, d)
    ndarray scatter,        # OUT  shape of scatter_a
):
    """a A + b B by the parallel-axis formula (Chan, Golub and LeVeque 1979).

    Weights, degrees and scatters scale by a and b, means do not. Weight zero on both sides keeps
    mean_a.
    """
    cdef Py_ssize_t K = extent(mean, 0), d = extent(mean, 1), M = extent(scatter, 0), k
    cdef Moments A = moments(weight_a, degrees_a, mean_a, scatter_a, K, d, M, M * d * d)
    cdef Moments B = moments(weight_b, degrees_b, mean_b, scatter_b, K, d, M, M * d * d)
    cdef double* new_weight = writable(weight, K)
    cdef double* new_degrees = writable(degrees, M)
    cdef double* new_mean = writable(mean, K * d)
    cdef double* new_scatter = writable(scatter, M * d * d)
    cdef double* difference = <double*> allocate(d, sizeof(double))
    cdef double coupling
    with nogil:
        add_scaled(a, A.weight, b, B.weight, K, new_weight)
        add_scaled(a, A.degrees, b, B.degrees, M, new_degrees)
        add_scaled(a, A.scatter, b, B.scatter, M * d * d, new_scatter)
        for k in range(K):
            coupling = merge_means(
                a * A.weight[k], A.mean + k * d, b * B.weight[k], B.mean + k * d,
                new_mean + k * d, difference, d,
            )
            if coupling > 0.0:
                add_outer(new_scatter + (k * d * d if M == K else 0), difference, coupling, d)
        free(difference)


def merge_centred_diagonal(
    double a,
    ndarray weight_a,       # IN   (K,)
    ndarray degrees_a,      # IN   (K,)
    ndarray mean_a,         # IN   (K, d)
    ndarray scatter_a,      # IN   (K, d), or (K, 1) summed over the features
    double b,
    ndarray weight_b,       # IN   (K,)
    ndarray degrees_b,      # IN   (K,)
    ndarray mean_b,         # IN   (K, d)
    ndarray scatter_b,      # IN   shape of scatter_a
    ndarray weight,         # OUT  (K,)
    ndarray degrees,        # OUT  (K,)
    ndarray mean,           # OUT  (K, d)
    ndarray scatter,        # OUT  shape of scatter_a
):
    """`merge_centred` for diagonal and for spherical scatters."""
    cdef Py_ssize_t K = extent(mean, 0), d = extent(mean, 1), width = extent(scatter, 1), k, j
    cdef Moments A = moments(weight_a, degrees_a, mean_a, scatter_a, K, d, K, K * width)
    cdef Moments B = moments(weight_b, degrees_b, mean_b, scatter_b, K, d, K, K * width)
    cdef double* new_weight = writable(weight, K)
    cdef double* new_degrees = writable(degrees, K)
    cdef double* new_mean = writable(mean, K * d)
    cdef double* new_scatter = writable(scatter, K * width)
    cdef double* difference = <double*> allocate(d, sizeof(double))
    cdef double coupling
    with nogil:
        add_scaled(a, A.weight, b, B.weight, K, new_weight)
        add_scaled(a, A.degrees, b, B.degrees, K, new_degrees)
        add_scaled(a, A.scatter, b, B.scatter, K * width, new_scatter)
        for k in range(K):
            coupling = merge_means(
                a * A.weight[k], A.mean + k * d, b * B.weight[k], B.mean + k * d,
                new_mean + k * d, difference, d,
            )
            for j in range(d):
                new_scatter[k * width + (j if width == d else 0)] += (
                    coupling * (difference[j] * difference[j])
                )
        free(difference)


# Covariances
# -----------

def covariances_from_scatter(
    ndarray scatters,       # IN   (K, d, d)
    ndarray dof,            # IN   (K,), what to divide each scatter by
    ndarray floor,          # IN   (d,), added to the diagonal
    ndarray previous,       # IN   (K, d, d), kept where dof is not positive
    ndarray covariances,    # OUT  (K, d, d)
):
    """Covariances of the M-step: scatter / dof + diag(floor)."""
    cdef Py_ssize_t K = extent(scatters, 0), d = extent(scatters, 1), k, i
    cdef const double* scatter = readable(scatters, K * d * d)
    cdef const double* degrees = readable(dof, K)
    cdef const double* ridge = readable(floor, d)
    cdef const double* kept = readable(previous, K * d * d)
    cdef double* covariance = writable(covariances, K * d * d)
    with nogil:
        for k in range(K):
            if degrees[k] > NEGLIGIBLE:
                multiply(scatter + k * d * d, 1.0 / degrees[k], d * d, covariance)
                for i in range(d):
                    covariance[i * (d + 1)] += ridge[i]
            else:
                memmove(covariance, kept + k * d * d, d * d * sizeof(double))
            covariance += d * d


def scatters_from_covariances(
    ndarray covariances,    # IN   (K, d, d)
    ndarray dof,            # IN   (K,)
    ndarray floor,          # IN   (d,), taken from the diagonal
    ndarray scatters,       # OUT  (K, d, d)
):
    """What the M-step makes covariances of: dof (covariance - diag(floor))."""
    cdef Py_ssize_t K = extent(covariances, 0), d = extent(covariances, 1), k, i
    cdef const double* covariance = readable(covariances, K * d * d)
    cdef const double* degrees = readable(dof, K)
    cdef const double* ridge = readable(floor, d)
    cdef double* scatter = writable(scatters, K * d * d)
    with nogil:
        for k in range(K):
            multiply(covariance, degrees[k], d * d, scatter)
            for i in range(d):
                scatter[i * (d + 1)] = degrees[k] * (covariance[i * (d + 1)] - ridge[i])
            covariance += d * d
            scatter += d * d


# Divergences
# -----------

cdef simd_void add_traces(
    const double* precision, const double* covariance, const double* difference, Py_ssize_t d,
    lanes_t sums,
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
    cdef double* difference = <double*> allocate(2 * d, sizeof(double))
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
