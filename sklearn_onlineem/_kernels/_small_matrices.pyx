"""The K small matrices of a Gaussian mixture: inverted, packed, merged, compared.

An online step on one row spends its time here, not on the data, so each function does all the
components in one call and touches each array once.

Shapes: K components, d features; a shared ("tied") covariance is a stack of one matrix. Weights,
means and scatters are *centred* statistics: scatter = sum of weight (x - mean)(x - mean)'.
"""

from libc.math cimport isfinite, log, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove, memset
from scipy.linalg.cython_lapack cimport dlauum, dpotrf, dtrtri

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
    for lane in range(LANES):
        for i in range(d):
            for j in range(i, d):
                lanes[(i * d + j) * LANES + lane] = (
                    matrices[(lane * d + i) * d + j] if lane < n_lanes else i == j
                )


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
        memset(matrix + i * d, 0, i * sizeof(double))
        for j in range(i, d):
            matrix[i * d + j] = lanes[(j * d + i) * LANES + lane]


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
        gather_lanes(covariances + k * d * d, K - k, d, work)
        factorise_lanes(work, precision, d)
        for lane in range(min(LANES, K - k)):
            log_dets[k] = log_det_from_factor(work + lane, d, LANES)
            scatter_symmetric(precision, lane, d, precisions + k * d * d)
            if factors != NULL:
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
        if factors != NULL:
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
    const double[:, :, ::1] covariances,  # IN   (K, d, d)
    double[:, :, ::1] precisions,         # OUT  (K, d, d)
    double[:, :, ::1] factors,            # OUT  (K, d, d) upper triangular, or empty if not wanted
    double[::1] log_dets,                 # OUT  (K,), of the covariances
):
    """Invert covariances S = U'U: precision = P P' with the upper triangular factor P = inv(U).

    Returns -1, or the index of the first component that is not positive definite or not finite;
    what the outputs hold from there on is undefined.
    """
    cdef Py_ssize_t K = covariances.shape[0], d = covariances.shape[1]
    cdef double* wanted = &factors[0, 0, 0] if factors.shape[0] > 0 else NULL
    # Beyond, lanes stand empty or the matrices fall out of L2, and LAPACK's blocks are faster.
    cdef bint small = d <= min(16 * K, 64)
    cdef void* memory = allocate(2 * d * d * LANES if small else 0, sizeof(double))
    cdef Py_ssize_t failed
    with nogil:
        if small:
            failed = factorise_small(&covariances[0, 0, 0], &precisions[0, 0, 0], wanted,
                                     &log_dets[0], K, d, <double*> aligned(memory))
        else:
            failed = factorise_large(&covariances[0, 0, 0], &precisions[0, 0, 0], wanted,
                                     &log_dets[0], K, d)
    free(memory)
    return failed


# Sums about a centre <-> about the mean
# --------------------------------------

cdef inline void add_outer(
    double* matrix, const double* vector, double scale, Py_ssize_t d
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(d):
        for j in range(d):
            # This order of the products keeps the matrix symmetric to the last bit.
            matrix[i * d + j] += scale * (vector[i] * vector[j])


def recentre(
    const double[::1] counts,             # IN   (K,)
    const double[:, ::1] first,           # IN   (K, d), sums of x - mean_k
    const double[:, :, ::1] second,       # IN   (K, d, d), or (1, d, d) summed over k
    const double[:, ::1] means,           # IN   (K, d)
    double[:, ::1] new_means,             # OUT  (K, d)
    double[:, :, ::1] scatters,           # OUT  shape of second, about the new means
):
    """Centred statistics from sums about each component's old mean; an empty one stays there."""
    cdef Py_ssize_t K = means.shape[0], d = means.shape[1], k, i
    cdef bint shared = second.shape[0] != K
    with nogil:
        memcpy(&scatters[0, 0, 0], &second[0, 0, 0], second.shape[0] * d * d * sizeof(double))
        for k in range(K):
            if counts[k] > NEGLIGIBLE:
                for i in range(d):
                    new_means[k, i] = means[k, i] + first[k, i] / counts[k]
                add_outer(
                    &scatters[0 if shared else k, 0, 0], &first[k, 0], -1.0 / counts[k], d
                )
            else:
                memcpy(&new_means[k, 0], &means[k, 0], d * sizeof(double))
                if not shared:
                    memset(&scatters[k, 0, 0], 0, d * d * sizeof(double))


# Centred statistics: sums
# ------------------------

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
    const double[::1] weight_a,           # IN   (K,)
    const double[::1] degrees_a,          # IN   (K,), or (1,) for a shared scatter
    const double[:, ::1] mean_a,          # IN   (K, d)
    const double[:, :, ::1] scatter_a,    # IN   (K, d, d), or (1, d, d) summed over k
    double b,
    const double[::1] weight_b,           # IN   (K,)
    const double[::1] degrees_b,          # IN   shape of degrees_a
    const double[:, ::1] mean_b,          # IN   (K, d)
    const double[:, :, ::1] scatter_b,    # IN   shape of scatter_a
    double[::1] weight,                   # OUT  (K,)
    double[::1] degrees,                  # OUT  shape of degrees_a
    double[:, ::1] mean,                  # OUT  (K, d)
    double[:, :, ::1] scatter,            # OUT  shape of scatter_a
):
    """a A + b B by the parallel-axis formula (Chan, Golub and LeVeque 1979).

    Weights, degrees and scatters scale by a and b, means do not. Weight zero on both sides keeps
    mean_a.
    """
    cdef Py_ssize_t K = mean.shape[0], d = mean.shape[1], k, i
    cdef bint shared = scatter.shape[0] != K
    cdef const double* left = &scatter_a[0, 0, 0]
    cdef const double* right = &scatter_b[0, 0, 0]
    cdef double* merged = &scatter[0, 0, 0]
    cdef double* difference = <double*> allocate(d, sizeof(double))
    cdef double coupling
    with nogil:
        for k in range(scatter.shape[0]):
            degrees[k] = a * degrees_a[k] + b * degrees_b[k]
        for i in range(scatter.shape[0] * d * d):
            merged[i] = a * left[i] + b * right[i]
        for k in range(K):
            weight[k] = a * weight_a[k] + b * weight_b[k]
            coupling = merge_means(
                a * weight_a[k], &mean_a[k, 0], b * weight_b[k], &mean_b[k, 0],
                &mean[k, 0], difference, d,
            )
            if coupling > 0.0:
                add_outer(&scatter[0 if shared else k, 0, 0], difference, coupling, d)
        free(difference)


def merge_centred_diagonal(
    double a,
    const double[::1] weight_a,           # IN   (K,)
    const double[::1] degrees_a,          # IN   (K,), or (1,) for a shared scatter
    const double[:, ::1] mean_a,          # IN   (K, d)
    const double[:, ::1] scatter_a,       # IN   (K, d), or (K, 1) summed over the features
    double b,
    const double[::1] weight_b,           # IN   (K,)
    const double[::1] degrees_b,          # IN   shape of degrees_a
    const double[:, ::1] mean_b,          # IN   (K, d)
    const double[:, ::1] scatter_b,       # IN   shape of scatter_a
    double[::1] weight,                   # OUT  (K,)
    double[::1] degrees,                  # OUT  shape of degrees_a
    double[:, ::1] mean,                  # OUT  (K, d)
    double[:, ::1] scatter,               # OUT  shape of scatter_a
):
    """`merge_centred` for diagonal and for spherical scatters."""
    cdef Py_ssize_t K = mean.shape[0], d = mean.shape[1], width = scatter.shape[1], k, j
    cdef double* difference = <double*> allocate(d, sizeof(double))
    cdef double coupling
    with nogil:
        for k in range(K):
            weight[k] = a * weight_a[k] + b * weight_b[k]
            degrees[k] = a * degrees_a[k] + b * degrees_b[k]
            coupling = merge_means(
                a * weight_a[k], &mean_a[k, 0], b * weight_b[k], &mean_b[k, 0],
                &mean[k, 0], difference, d,
            )
            for j in range(width):
                scatter[k, j] = a * scatter_a[k, j] + b * scatter_b[k, j]
            for j in range(d):
                scatter[k, j if width == d else 0] += coupling * (difference[j] * difference[j])
        free(difference)


# Covariances
# -----------

def covariances_from_scatter(
    const double[:, :, ::1] scatters,     # IN   (K, d, d)
    const double[::1] dof,                # IN   (K,), what to divide each scatter by
    const double[::1] floor,              # IN   (d,), added to the diagonal
    const double[:, :, ::1] previous,     # IN   (K, d, d), kept where dof is not positive
    double[:, :, ::1] covariances,        # OUT  (K, d, d)
):
    """Covariances of the M-step: scatter / dof + diag(floor)."""
    cdef Py_ssize_t K = scatters.shape[0], d = scatters.shape[1], k, i
    cdef const double* scatter
    cdef double* covariance
    cdef double inverse
    with nogil:
        for k in range(K):
            covariance = &covariances[k, 0, 0]
            if dof[k] > NEGLIGIBLE:
                scatter = &scatters[k, 0, 0]
                inverse = 1.0 / dof[k]
                for i in range(d * d):
                    covariance[i] = scatter[i] * inverse
                for i in range(d):
                    covariance[i * (d + 1)] += floor[i]
            else:
                memmove(covariance, &previous[k, 0, 0], d * d * sizeof(double))


def scatters_from_covariances(
    const double[:, :, ::1] covariances,  # IN   (K, d, d)
    const double[::1] dof,                # IN   (K,)
    const double[::1] floor,              # IN   (d,), taken from the diagonal
    double[:, :, ::1] scatters,           # OUT  (K, d, d)
):
    """What the M-step makes covariances of: dof (covariance - diag(floor))."""
    cdef Py_ssize_t K = scatters.shape[0], d = scatters.shape[1], k, i
    cdef const double* covariance
    cdef double* scatter
    with nogil:
        for k in range(K):
            covariance = &covariances[k, 0, 0]
            scatter = &scatters[k, 0, 0]
            for i in range(d * d):
                scatter[i] = dof[k] * covariance[i]
            for i in range(d):
                scatter[i * (d + 1)] = dof[k] * (covariance[i * (d + 1)] - floor[i])


def kl_divergences(
    const double[:, ::1] mean_p,          # IN   (K, d)
    const double[:, :, ::1] covariance_p,  # IN   (K, d, d)
    const double[::1] log_det_p,          # IN   (K,), of the covariances
    const double[:, ::1] mean_q,          # IN   (K, d)
    const double[:, :, ::1] precision_q,  # IN   (K, d, d)
    const double[::1] log_det_q,          # IN   (K,), of the covariances
    double[::1] divergences,              # OUT  (K,)
):
    """KL(p_k || q_k) of Gaussians, component by component.

    (tr(precision_q (covariance_p + D D')) - d + log_det_q - log_det_p) / 2, D = mean_p - mean_q.
    """
    cdef Py_ssize_t K = mean_p.shape[0], d = mean_p.shape[1], k, i, j
    cdef double* difference = <double*> allocate(2 * d, sizeof(double))
    cdef double* sums = difference + d
    cdef const double* covariance
    cdef const double* precision
    cdef double trace
    with nogil:
        for k in range(K):
            for j in range(d):
                difference[j] = mean_p[k, j] - mean_q[k, j]
            memset(sums, 0, d * sizeof(double))
            for i in range(d):
                covariance = &covariance_p[k, i, 0]
                precision = &precision_q[k, i, 0]
                for j in range(d):
                    sums[j] += precision[j] * (covariance[j] + difference[i] * difference[j])
            trace = 0.0
            for j in range(d):
                trace += sums[j]
            divergences[k] = 0.5 * (trace - d + log_det_q[k] - log_det_p[k])
        free(difference)
