"""Centred statistics of Gaussian mixtures: made, added, turned into covariances and back.

Shapes: K components, d features; a shared ("tied") covariance is a stack of one matrix. Weights,
means and scatters are *centred* statistics: scatter = sum of weight (x - mean)(x - mean)'. Like
those of `_small_matrices`, each function does all the components in one call.
"""

from numpy import empty as new

from libc.math cimport INFINITY, isinf
from libc.string cimport memcpy, memmove, memset
from numpy cimport (
    NPY_ARRAY_CARRAY_RO, NPY_DOUBLE, PyArray_CHKFLAGS, PyArray_DIM, PyArray_ISNOTSWAPPED,
    PyArray_NDIM, PyArray_TYPE, ndarray,
)

from ._arena cimport allocate_doubles, free
from ._arrays cimport extent, readable, require, writable
from ._pairwise cimport pairwise_sum
from ._simd cimport restricted, simd_void

# Below this weight, sums divided by it may overflow: such a component has seen nothing.
cdef double NEGLIGIBLE = 1e-290


# Sums about a centre <-> about the mean
# --------------------------------------

cdef simd_void multiply(
    const double* x, double factor, Py_ssize_t n, restricted out
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
    tuple arrays, Py_ssize_t K, Py_ssize_t d, Py_ssize_t n_degrees, Py_ssize_t n_scatter
) except *:
    cdef Moments A
    weight, degrees, mean, scatter = arrays
    A.weight, A.degrees = readable(weight, K), readable(degrees, n_degrees)
    A.mean, A.scatter = readable(mean, K * d), readable(scatter, n_scatter)
    return A


cdef simd_void add_scaled(
    double a, const double* x, double b, const double* y, Py_ssize_t n, restricted out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = a * x[i] + b * y[i]


cdef bint is_plain(object A, int ndim) except -1:
    """Whether this is a C-ordered array of doubles with `ndim` axes."""
    return (type(A) is ndarray and PyArray_TYPE(A) == NPY_DOUBLE and PyArray_NDIM(A) == ndim
            and PyArray_CHKFLAGS(A, NPY_ARRAY_CARRAY_RO) and PyArray_ISNOTSWAPPED(A))


# Of a few numbers, products and sums of NumPy take three times as long.

def merge(double a, object A, double b, object B):
    """a A + b B"""
    cdef int axis, ndim = PyArray_NDIM(A) if type(A) is ndarray else 0
    cdef Py_ssize_t n = 1
    if ndim == 0 or not (is_plain(A, ndim) and is_plain(B, ndim)):
        return a * A + b * B
    for axis in range(ndim):
        if PyArray_DIM(A, axis) != PyArray_DIM(B, axis):
            return a * A + b * B
        n *= PyArray_DIM(A, axis)
    out = new(A.shape)
    add_scaled(a, readable(A, n), b, readable(B, n), n, writable(out, n))
    return out


def scaled_rows(ndarray weights, object A):
    """The rows of A (K, p), each times its weight (K,)"""
    cdef Py_ssize_t K = extent(weights, 0), p, k
    if not (is_plain(weights, 1) and is_plain(A, 2) and PyArray_DIM(A, 0) == K):
        return weights[:, None] * A
    p, out = PyArray_DIM(A, 1), new(A.shape)
    cdef const double* weight = readable(weights, K)
    cdef const double* row = readable(A, K * p)
    cdef double* scaled = writable(out, K * p)
    for k in range(K):
        multiply(row + k * p, weight[k], p, scaled + k * p)
    return out


def means_of_sums(
    ndarray totals,     # IN  (K, p)
    ndarray weights,    # IN  (K,)
    ndarray kept,       # IN  (K, p), of components without weight
    ndarray means,      # OUT (K, p)
):
    """Totals divided by weights; return whether none overflows."""
    cdef Py_ssize_t K = extent(totals, 0), p = extent(totals, 1), k, i
    cdef const double* total = readable(totals, K * p)
    cdef const double* weight = readable(weights, K)
    cdef const double* old = readable(kept, K * p)
    cdef double* mean = writable(means, K * p)
    cdef bint overflows = False
    with nogil:
        for k in range(K):
            for i in range(k * p, k * p + p):
                mean[i] = total[i] / weight[k] if weight[k] > 0.0 else old[i]
                if isinf(mean[i]) and weight[k] > 0.0 and not isinf(total[i]):
                    overflows = True
    return not overflows


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
    tuple moments_a,        # IN   weights (K,); degrees (K,), or (1,) for a shared scatter; means
                            #      (K, d); scatters (K, d, d), or (1, d, d) summed over k; of
                            #      squares alone (K, d), or (K, 1) summed over the features
    double b,
    tuple moments_b,        # IN   likewise
    ndarray weight,         # OUT  (K,)
    ndarray degrees,        # OUT  shape of those of A
    ndarray mean,           # OUT  (K, d)
    ndarray scatter,        # OUT  shape of that of A
):
    """a A + b B by the parallel-axis formula (Chan, Golub and LeVeque 1979).

    Weights, degrees and scatters scale by a and b, means do not. Weight zero on both sides keeps
    the means of A.
    """
    cdef Py_ssize_t K = extent(mean, 0), d = extent(mean, 1), width = extent(scatter, 1), k, j
    cdef bint has_squares = PyArray_NDIM(scatter) == 2
    cdef Py_ssize_t M = K if has_squares else extent(scatter, 0)
    cdef Py_ssize_t size = width if has_squares else d * d
    cdef Moments A = moments(moments_a, K, d, M, M * size)
    cdef Moments B = moments(moments_b, K, d, M, M * size)
    cdef double* new_weight = writable(weight, K)
    cdef double* new_degrees = writable(degrees, M)
    cdef double* new_mean = writable(mean, K * d)
    cdef double* new_scatter = writable(scatter, M * size)
    cdef double* difference = allocate_doubles(d)
    cdef double coupling
    with nogil:
        add_scaled(a, A.weight, b, B.weight, K, new_weight)
        add_scaled(a, A.degrees, b, B.degrees, M, new_degrees)
        add_scaled(a, A.scatter, b, B.scatter, M * size, new_scatter)
        for k in range(K):
            coupling = merge_means(
                a * A.weight[k], A.mean + k * d, b * B.weight[k], B.mean + k * d,
                new_mean + k * d, difference, d,
            )
            if has_squares:
                for j in range(d):
                    new_scatter[k * width + (j if width == d else 0)] += (
                        coupling * (difference[j] * difference[j])
                    )
            elif coupling != 0.0:
                add_outer(new_scatter + (k * d * d if M == K else 0), difference, coupling, d)
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


# Variances
# ---------

# Divisors of the components' shares of a scatter, and the numbers added then.
cdef struct Axes:
    Py_ssize_t K
    Py_ssize_t width        # variances of a component: one for each of d features, or one
    double per_value        # features of a variance
    const double* degrees
    const double* floor     # (d,)
    double mean_floor


cdef Axes axes_of(ndarray variances, ndarray dof, ndarray floor) except *:
    cdef Axes axes
    cdef Py_ssize_t d = extent(floor, 0)
    axes.K, axes.width = extent(variances, 0), extent(variances, 1)
    require(axes.width == d or axes.width == 1, "there is a variance for each column, or one")
    axes.per_value = d // axes.width
    axes.degrees, axes.floor = readable(dof, axes.K), readable(floor, d)
    axes.mean_floor = pairwise_sum(axes.floor, d) / d
    return axes


cdef inline double floor_of(const Axes* axes, Py_ssize_t j) noexcept nogil:
    return axes.mean_floor if axes.per_value > 1 else axes.floor[j]


def variances_from_scatter(
    ndarray scatters,       # IN   (K, d), or (K, 1) summed over the features
    ndarray dof,            # IN   (K,), what to divide each scatter by
    ndarray floor,          # IN   (d,), added
    ndarray previous,       # IN   shape of scatters, kept where dof is not positive
    double least,
    ndarray variances,      # OUT  shape of scatters
):
    """Variances of the M-step, scatter / dof + floor; return whether all are finite and above."""
    cdef Axes axes = axes_of(scatters, dof, floor)
    cdef Py_ssize_t k, j, i = 0
    cdef const double* scatter = readable(scatters, axes.K * axes.width)
    cdef const double* kept = readable(previous, axes.K * axes.width)
    cdef double* variance = writable(variances, axes.K * axes.width)
    cdef bint are_above = True
    for k in range(axes.K):
        for j in range(axes.width):
            variance[i] = kept[i]
            if axes.degrees[k] > 0.0:
                variance[i] = scatter[i] / (axes.per_value * axes.degrees[k]) + floor_of(&axes, j)
            are_above &= least < variance[i] < INFINITY
            i += 1
    return are_above


# Scatters
# --------

def scatters_from_covariances(
    ndarray covariances,    # IN   (K, d, d), or variances (K, d) or (K, 1)
    ndarray dof,            # IN   (K,)
    ndarray floor,          # IN   (d,), taken from the diagonal
    ndarray scatters,       # OUT  shape of covariances
):
    """What the M-step makes covariances of: dof (covariance - diag(floor))."""
    cdef Py_ssize_t K = extent(covariances, 0), d = extent(floor, 0), k, i, j
    cdef bint has_matrices = PyArray_NDIM(covariances) == 3
    cdef Py_ssize_t size = d * d if has_matrices else extent(covariances, 1)
    cdef const double* covariance = readable(covariances, K * size)
    cdef const double* degrees = readable(dof, K)
    cdef const double* ridge = readable(floor, d)
    cdef double* scatter = writable(scatters, K * size)
    cdef Axes axes
    if not has_matrices:
        axes = axes_of(covariances, dof, floor)
    for k in range(K):
        if has_matrices:
            multiply(covariance, degrees[k], size, scatter)
            for i in range(d):
                scatter[i * (d + 1)] = degrees[k] * (covariance[i * (d + 1)] - ridge[i])
        else:
            for j in range(size):
                scatter[j] = axes.per_value * degrees[k] * (covariance[j] - floor_of(&axes, j))
        covariance, scatter = covariance + size, scatter + size
