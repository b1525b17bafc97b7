"""Regressions with Gaussian noise: M-step, expected moments, divergences and coordinates.

Those of a linear dynamical system are learnt in each step of a stream, from a few rows, so that
calls of LAPACK from Python would take longer than all that they compute.

Shapes: K regressions of p outputs y on q inputs x, and n = q + p; moments are of z = (x, y).
"""

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, isnan, log, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy
from numpy cimport ndarray
from scipy.linalg.cython_blas cimport dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs, dsyev

from ._arena cimport Arena, allocate, allocate_doubles, counting_arena, take_doubles
from ._arrays cimport extent, fits, optional_readable, readable, require, writable
from ._blas cimport gemm, syrk, trmm

# Degrees below this are rounding errors of the subnormal range.
cdef double NEGLIGIBLE = 1e-290
cdef double ROUNDING = 2.220446049250313e-16
# Covariances are compared by their Cholesky factors down to this share of the largest variance.
cdef double LEAST_PIVOT = 1e-12


# C (m, n) <- alpha A B + C, row by row; A (m, k), and B (k, n) or (n, k) if transposed
cdef void add_product(
    double alpha, const double* A, Py_ssize_t lda, const double* B, Py_ssize_t ldb,
    bint transposed, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, double* C, Py_ssize_t ldc,
) noexcept nogil:
    if k > 0:
        gemm(c"T" if transposed else c"N", c"N", <int> n, <int> m, <int> k, alpha, B, <int> ldb,
             A, <int> lda, 1.0, C, <int> ldc)


# out (m, n) <- rows of a block of a matrix
cdef void copy_block(
    const double* block, Py_ssize_t stride, Py_ssize_t m, Py_ssize_t n, double* out
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(m):
        memcpy(out + i * n, block + i * stride, n * sizeof(double))


cdef bint factorise(int n, double* matrix) noexcept nogil:
    """matrix <- its Cholesky factor; whether it is positive definite."""
    cdef int info
    dpotrf(b"L", &n, matrix, &n, &info)
    return info == 0


cdef bint decompose(int n, double* matrix, double* values, double* work) noexcept nogil:
    """matrix <- its eigenvectors, row by row; values (n,) rise; work: 3 n."""
    cdef int size = 3 * n, info
    cdef Py_ssize_t i
    for i in range(n * n):
        if not isfinite(matrix[i]):
            return False
    dsyev(b"V", b"L", &n, matrix, &n, values, work, &size, &info)
    return info == 0


# The scratch memory of one regression.
cdef struct Memory:
    double* xx          # (q, q)
    double* factor      # (q, q)
    double* change      # (p, q)
    double* turned      # (p, q)
    double* contrast    # (p, n)
    double* yy          # (p, p)
    double* square      # (p, p)
    double* vector      # (n,)
    double* values      # (n,)
    double* work        # (3 n,)


cdef Memory lay_out(Py_ssize_t q, Py_ssize_t p, Arena* arena) noexcept nogil:
    cdef Memory memory
    cdef Py_ssize_t n = q + p
    memory.xx, memory.factor = take_doubles(arena, q * q), take_doubles(arena, q * q)
    memory.change, memory.turned = take_doubles(arena, p * q), take_doubles(arena, p * q)
    memory.contrast = take_doubles(arena, p * n)
    memory.yy, memory.square = take_doubles(arena, p * p), take_doubles(arena, p * p)
    memory.vector, memory.values = take_doubles(arena, n), take_doubles(arena, n)
    memory.work = take_doubles(arena, 3 * n)
    return memory


# Moments of one regression.
cdef struct Moments:
    double weight
    double degrees
    const double* mean      # (n,)
    const double* scatter   # (n, n)


cdef void solve(Py_ssize_t q, Py_ssize_t p, const Memory* memory) noexcept nogil:
    """change <- change xx^-1; 0 where a singular matrix leaves it open."""
    cdef double* xx = memory.xx
    cdef double* change = memory.change
    cdef double* scale = memory.vector
    cdef double most = 0.0, inverse
    cdef Py_ssize_t i, j
    cdef int size = <int> q, n_right = <int> p, info
    memcpy(memory.factor, xx, q * q * sizeof(double))
    if factorise(size, memory.factor):
        dpotrs(b"L", &size, &n_right, memory.factor, &size, change, &size, &info)
        return
    # Which directions are singular depends on the scales.
    for i in range(q):
        scale[i] = 1.0 / sqrt(xx[i * (q + 1)]) if xx[i * (q + 1)] > 0.0 else 0.0
    for i in range(q):
        for j in range(q):
            xx[i * q + j] *= scale[i] * scale[j]
    if not decompose(size, xx, memory.values, memory.work):
        change[0] = NAN
        return
    for j in range(q):
        most = max(most, fabs(memory.values[j]))
    for i in range(p):
        for j in range(q):
            change[i * q + j] *= scale[j]
            memory.turned[i * q + j] = 0.0
    add_product(1.0, change, q, xx, q, True, p, q, q, memory.turned, q)
    for j in range(q):
        inverse = 1.0 / memory.values[j] if fabs(memory.values[j]) > q * ROUNDING * most else 0.0
        for i in range(p):
            memory.turned[i * q + j] *= inverse
            change[i * q + j] = 0.0
    add_product(1.0, memory.turned, q, xx, q, False, p, q, q, change, q)
    for i in range(p):
        for j in range(q):
            change[i * q + j] *= scale[j]


cdef void learn_matrix(
    const Moments* z, Py_ssize_t q, Py_ssize_t p, const double* known_offset,
    const Memory* memory, double* B,
) noexcept nogil:
    """B (p, q) <- the best one for a known offset, or the best one with it for NULL."""
    cdef Py_ssize_t n = q + p, i, j
    cdef double* xx = memory.xx
    cdef double* change = memory.change
    copy_block(z.scatter, n, q, q, xx)
    copy_block(z.scatter + q * n, n, p, q, change)
    if known_offset != NULL:
        for j in range(q):
            for i in range(q):
                xx[i * q + j] += z.weight * z.mean[i] * z.mean[j]
            for i in range(p):
                change[i * q + j] += (z.mean[q + i] - known_offset[i]) * (z.weight * z.mean[j])
    # A correction, so that directions without evidence keep their coefficients.
    add_product(-1.0, B, q, xx, q, False, p, q, q, change, q)
    solve(q, p, memory)
    for i in range(p * q):
        B[i] += change[i]


cdef void residual(
    const Moments* z, Py_ssize_t q, Py_ssize_t p, const double* B, const double* c,
    const Memory* memory,
) noexcept nogil:
    """yy <- sum of the squares of y - B x - c, as a quadratic form of the scatter."""
    cdef Py_ssize_t n = q + p, i, j
    cdef double* contrast = memory.contrast
    cdef double* yy = memory.yy
    cdef double* mean = memory.vector
    memcpy(contrast, z.scatter + q * n, p * n * sizeof(double))
    add_product(-1.0, B, q, z.scatter, n, False, p, n, q, contrast, n)
    copy_block(contrast + q, n, p, p, yy)
    add_product(-1.0, contrast, n, B, q, True, p, p, q, yy, p)
    for i in range(p):
        mean[i] = z.mean[q + i] - c[i]
        for j in range(q):
            mean[i] -= B[i * q + j] * z.mean[j]
    for i in range(p):
        for j in range(i + 1):
            yy[i * p + j] = yy[j * p + i] = (
                0.5 * (yy[i * p + j] + yy[j * p + i]) + z.weight * mean[i] * mean[j])


cdef void learn_covariance(
    const Moments* z, Py_ssize_t q, Py_ssize_t p, const double* floor, const Memory* memory,
    double* S,
) noexcept nogil:
    """S (p, p) <- yy / degrees + floor, positive semidefinite."""
    cdef Py_ssize_t i
    cdef double added
    for i in range(p * p):
        S[i] = memory.yy[i] / z.degrees
    if floor != NULL:
        for i in range(p):
            S[i * (p + 1)] += floor[i]
    memcpy(memory.square, S, p * p * sizeof(double))
    if factorise(<int> p, memory.square):
        return
    memcpy(memory.square, S, p * p * sizeof(double))
    if not decompose(<int> p, memory.square, memory.values, memory.work):
        return
    if memory.values[0] < 0.0:  # by rounding
        for i in range(p):
            added = z.scatter[(q + i) * (q + p + 1)] / z.degrees
            S[i * (p + 1)] += 8.0 * p * ROUNDING * added


def maximise(
    ndarray weight,         # IN (K,)
    ndarray degrees,        # IN (K,)
    ndarray mean,           # IN (K, n)
    ndarray scatter,        # IN (K, n, n)
    ndarray floor,          # IN (p,), added to variances, or (0,)
    bint learns_matrix,
    bint learns_offset,
    bint learns_covariance,
    ndarray matrix,         # INOUT (K, p, q)
    ndarray offset,         # INOUT (K, p)
    ndarray covariance,     # INOUT (K, p, p)
):
    """Replace what is learnt by what maximises the moments, given the rest."""
    cdef Py_ssize_t K = extent(matrix, 0), p = extent(matrix, 1), q = extent(matrix, 2)
    cdef Py_ssize_t n = q + p, k, i, j
    require(p > 0 and fits(extent(floor, 0), p), "outputs; variances of each")
    cdef const double* weights = readable(weight, K)
    cdef const double* all_degrees = readable(degrees, K)
    cdef const double* means = readable(mean, K * n)
    cdef const double* scatters = readable(scatter, K * n * n)
    cdef const double* added = optional_readable(floor, p)
    cdef double* B = writable(matrix, K * p * q)
    cdef double* c = writable(offset, K * p)
    cdef double* S = writable(covariance, K * p * p)
    cdef Moments z
    cdef Arena arena = counting_arena()
    lay_out(q, p, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(q, p, &arena)
    with nogil:
        for k in range(K):
            z.weight, z.degrees = weights[k], all_degrees[k]
            z.mean, z.scatter = means + k * n, scatters + k * n * n
            if learns_matrix and q > 0:
                learn_matrix(&z, q, p, NULL if learns_offset else c, &memory, B)
            if learns_offset and z.weight > 0.0:
                for i in range(p):
                    c[i] = z.mean[q + i]
                    for j in range(q):
                        c[i] -= B[i * q + j] * z.mean[j]
            if learns_covariance and z.degrees > NEGLIGIBLE:
                residual(&z, q, p, B, c, &memory)
                learn_covariance(&z, q, p, added, &memory, S)
            B += p * q
            c += p
            S += p * p
        free(scratch)


def expected_moments(
    ndarray matrix,         # IN (K, p, q)
    ndarray offset,         # IN (K, p)
    ndarray covariance,     # IN (K, p, p)
    ndarray floor,          # IN (p,), taken off variances, or (0,)
    ndarray weight,         # IN (K,): moments of the inputs
    ndarray input_mean,     # IN (K, q)
    ndarray input_scatter,  # IN (K, q, q)
    ndarray mean,           # OUT (K, n)
    ndarray scatter,        # OUT (K, n, n)
):
    """Moments of inputs with outputs."""
    cdef Py_ssize_t K = extent(matrix, 0), p = extent(matrix, 1), q = extent(matrix, 2)
    cdef Py_ssize_t n = q + p, k, i, j
    require(p > 0 and fits(extent(floor, 0), p), "outputs; variances of each")
    cdef const double* B = readable(matrix, K * p * q)
    cdef const double* c = readable(offset, K * p)
    cdef const double* S = readable(covariance, K * p * p)
    cdef const double* taken = optional_readable(floor, p)
    cdef const double* weights = readable(weight, K)
    cdef const double* m = readable(input_mean, K * q)
    cdef const double* xx = readable(input_scatter, K * q * q)
    cdef double* out = writable(mean, K * n)
    cdef double* zz = writable(scatter, K * n * n)
    cdef double noise
    with nogil:
        for k in range(K):
            memcpy(out, m, q * sizeof(double))
            for i in range(p):
                out[q + i] = c[i]
                for j in range(q):
                    out[q + i] += B[i * q + j] * m[j]
            for i in range(q):
                memcpy(zz + i * n, xx + i * q, q * sizeof(double))
            for i in range(p):
                for j in range(q):
                    zz[(q + i) * n + j] = 0.0
                for j in range(p):
                    noise = S[i * p + j]
                    if i == j and taken != NULL:
                        noise -= taken[i]
                    zz[(q + i) * n + q + j] = weights[k] * noise
            add_product(1.0, B, q, xx, q, False, p, q, q, zz + q * n, n)
            add_product(1.0, zz + q * n, n, B, q, True, p, p, q, zz + q * (n + 1), n)
            for i in range(p):
                for j in range(q):
                    zz[j * n + q + i] = zz[(q + i) * n + j]
                for j in range(i):
                    zz[(q + i) * n + q + j] = zz[(q + j) * n + q + i]
            B += p * q
            c += p
            S += p * p
            m += q
            xx += q * q
            out += n
            zz += n * n


cdef double log_det_of(const double* covariance, Py_ssize_t p, double* factor) noexcept nogil:
    """log det, with the Cholesky factor; NaN where that loses digits, as of a singular one."""
    cdef double least = INFINITY, most = 0.0, total = 0.0, pivot
    cdef Py_ssize_t i
    memcpy(factor, covariance, p * p * sizeof(double))
    if not factorise(<int> p, factor):
        return NAN
    for i in range(p):
        pivot = factor[i * (p + 1)]
        least, most = min(least, pivot * pivot), max(most, covariance[i * (p + 1)])
        total += log(pivot)
    return 2.0 * total if least > LEAST_PIVOT * most else NAN


def kl_divergences(
    ndarray matrix,             # IN (K, p, q)
    ndarray offset,             # IN (K, p)
    ndarray covariance,         # IN (K, p, p)
    ndarray other_matrix,       # IN (K, p, q)
    ndarray other_offset,       # IN (K, p)
    ndarray other_covariance,   # IN (K, p, p)
    ndarray weight,             # IN (K,): moments of the inputs
    ndarray input_mean,         # IN (K, q)
    ndarray input_scatter,      # IN (K, q, q)
    ndarray divergences,        # OUT (K,)
):
    """KL to other regressions, in expectation over inputs; NaN where a covariance is singular."""
    cdef Py_ssize_t K = extent(matrix, 0), p = extent(matrix, 1), q = extent(matrix, 2), k, i, j
    require(p > 0, "outputs")
    cdef const double* B = readable(matrix, K * p * q)
    cdef const double* c = readable(offset, K * p)
    cdef const double* S = readable(covariance, K * p * p)
    cdef const double* others = readable(other_matrix, K * p * q)
    cdef const double* other_offsets = readable(other_offset, K * p)
    cdef const double* R = readable(other_covariance, K * p * p)
    cdef const double* weights = readable(weight, K)
    cdef const double* m = readable(input_mean, K * q)
    cdef const double* xx = readable(input_scatter, K * q * q)
    cdef double* out = writable(divergences, K)
    cdef Arena arena = counting_arena()
    lay_out(q, p, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(q, p, &arena)
    cdef double* spread = memory.yy
    cdef double* shift = memory.vector
    cdef double log_ratio, trace
    cdef int size = <int> p, info
    with nogil:
        for k in range(K):
            log_ratio = -log_det_of(S + k * p * p, p, memory.square)
            log_ratio += log_det_of(R + k * p * p, p, memory.square)
            for i in range(p):
                shift[i] = c[k * p + i] - other_offsets[k * p + i]
                for j in range(q):
                    memory.change[i * q + j] = (
                        B[(k * p + i) * q + j] - others[(k * p + i) * q + j])
                    memory.turned[i * q + j] = 0.0
                    shift[i] += memory.change[i * q + j] * m[k * q + j]
            for i in range(p):
                for j in range(p):
                    spread[i * p + j] = weights[k] * (S[(k * p + i) * p + j] + shift[i] * shift[j])
            add_product(1.0, memory.change, q, xx + k * q * q, q, False, p, q, q, memory.turned, q)
            add_product(1.0, memory.turned, q, memory.change, q, True, p, p, q, spread, p)
            dpotrs(b"L", &size, &size, memory.square, &size, spread, &size, &info)
            trace = 0.0
            for i in range(p):
                trace += spread[i * (p + 1)]
            out[k] = 0.5 * (trace + weights[k] * (log_ratio - p))
        free(scratch)


cdef enum:
    BLOCK_ROWS = 256


def largest_square(
    ndarray Y,              # IN (n, p); NaN is as expected
    ndarray matrix,         # IN (1, p, q)
    ndarray offset,         # IN (1, p)
    ndarray covariance,     # IN (1, p, p)
    ndarray weight,         # IN (1,): moments of the inputs
    ndarray input_mean,     # IN (1, q)
    ndarray input_scatter,  # IN (1, q, q)
):
    """Largest square of the distance of rows from the expected output, by its covariance.

    NaN if that is not positive definite.
    """
    cdef Py_ssize_t n = extent(Y, 0), p = extent(matrix, 1), q = extent(matrix, 2)
    cdef Py_ssize_t i, j, t, B, block_number
    require(p > 0, "outputs")
    cdef const double* rows = readable(Y, n * p)
    cdef const double* coefficients = readable(matrix, p * q)
    cdef const double* c = readable(offset, p)
    cdef const double* S = readable(covariance, p * p)
    cdef const double* w = readable(weight, 1)
    cdef const double* m = readable(input_mean, q)
    cdef const double* xx = readable(input_scatter, q * q)
    cdef double* expected = allocate_doubles(p * (1 + p + q + BLOCK_ROWS))
    cdef double* factor = expected + p
    cdef double* across = factor + p * p
    cdef double* block = across + p * q
    cdef double one = 1.0, largest = NAN, square
    cdef int size = <int> p, n_right
    with nogil:
        for i in range(p):
            expected[i] = c[i]
            for j in range(q):
                across[i * q + j] = 0.0
                expected[i] += coefficients[i * q + j] * m[j]
        memcpy(factor, S, p * p * sizeof(double))
        add_product(1.0 / w[0], coefficients, q, xx, q, False, p, q, q, across, q)
        add_product(1.0, across, q, coefficients, q, True, p, p, q, factor, p)
        if factorise(size, factor):
            largest = 0.0
            for block_number in range((n + BLOCK_ROWS - 1) // BLOCK_ROWS):
                t = block_number * BLOCK_ROWS
                B = min(BLOCK_ROWS, n - t)
                for i in range(B):
                    for j in range(p):
                        square = rows[(t + i) * p + j]
                        block[i * p + j] = 0.0 if isnan(square) else square - expected[j]
                n_right = <int> B
                dtrsm(b"L", b"L", b"N", b"N", &size, &n_right, &one, factor, &size, block, &size)
                for i in range(B):
                    square = 0.0
                    for j in range(p):
                        square += block[i * p + j] * block[i * p + j]
                    largest = max(largest, square)
        free(expected)
    return largest


# Coordinates of one regression
# -----------------------------
#
# In units of the information of complete data, those of U by columns, of u and of W, if learnt:
#     B + L U R^-1,  c + L u unit - (L U R^-1) origin,  L exp(W) L'
# L L' is the noise, and R R' has the squares of the inputs about the origin. W has a coordinate for
# each entry below the diagonal and on it, for those on it, or one for all of these.


# Coordinates of W, of n in all.
cdef Py_ssize_t n_of_noise(
    Py_ssize_t n, Py_ssize_t q, Py_ssize_t p, bint learns_matrix, bint learns_offset
) except -1:
    n -= p * (q * learns_matrix + learns_offset)
    require(p > 0 and n in (0, 1, p, p * (p + 1) // 2), "outputs; coordinates")
    return n


# A coordinate adds it to an entry of W and to the one across the diagonal, in units of both.
cdef double entry_of(Py_ssize_t i, Py_ssize_t j, Py_ssize_t p, Py_ssize_t n_noise) noexcept nogil:
    if i == j:
        return 0.5 if n_noise > 1 else 0.5 / sqrt(<double> p)
    return sqrt(0.5) if n_noise > p else 0.0


def unit_score(
    ndarray weight,         # IN (1,)
    ndarray degrees,        # IN (1,)
    ndarray mean,           # IN (1, n)
    ndarray scatter,        # IN (1, n, n)
    ndarray floor,          # IN (p,), added to variances by the M-step, or (0,)
    ndarray matrix,         # IN (1, p, q)
    ndarray offset,         # IN (1, p)
    ndarray covariance,     # IN (1, p, p), positive definite
    ndarray origin,         # IN (q,)
    ndarray inverse_root,   # IN (q, q), R^-1, or (0,) for a known matrix
    double unit,
    double noise_unit,      # of the coordinates of W
    bint learns_offset,
    ndarray score,          # OUT (n_coordinates,)
):
    """Derivatives of the log density of rows of these moments by the coordinates, at 0."""
    cdef Py_ssize_t p = extent(matrix, 1), q = extent(matrix, 2), n = q + p, i, j, e = 0
    cdef bint learns_matrix = extent(inverse_root, 0) > 0
    cdef Py_ssize_t n_noise = n_of_noise(extent(score, 0), q, p, learns_matrix, learns_offset)
    cdef Moments z
    z.weight, z.degrees = readable(weight, 1)[0], readable(degrees, 1)[0]
    z.mean, z.scatter = readable(mean, n), readable(scatter, n * n)
    require(fits(extent(floor, 0), p), "variances of each output")
    cdef const double* added = optional_readable(floor, p)
    cdef const double* B = readable(matrix, p * q)
    cdef const double* c = readable(offset, p)
    cdef const double* S = readable(covariance, p * p)
    cdef const double* centre = readable(origin, q)
    cdef const double* inverse = optional_readable(inverse_root, q * q)
    cdef double* out = writable(score, extent(score, 0))
    cdef Arena arena = counting_arena()
    lay_out(q, p, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(q, p, &arena)
    cdef double* shift = memory.vector
    cdef double* yy = memory.yy
    cdef double one = 1.0, entry
    cdef int size = <int> p, n_columns = <int> (q * learns_matrix + learns_offset)
    with nogil:
        memcpy(memory.square, S, p * p * sizeof(double))
        factorise(size, memory.square)
        residual(&z, q, p, B, c, &memory)
        if learns_matrix:
            for i in range(p):
                for j in range(q):
                    memory.change[i * q + j] = (
                        memory.contrast[i * n + j] + z.weight * shift[i] * (z.mean[j] - centre[j]))
            gemm(c"T", c"N", size, <int> q, <int> q, 1.0, memory.change, <int> q, inverse, <int> q,
                 0.0, out, size)
        if learns_offset:
            for i in range(p):
                out[p * (n_columns - 1) + i] = z.weight * unit * shift[i]
        if n_columns > 0:
            dtrsm(b"L", b"L", b"N", b"N", &size, &n_columns, &one, memory.square, &size, out,
                  &size)
        if n_noise > 0:
            # The M-step adds the floor to the mean of the squares.
            for i in range(p * p):
                yy[i] -= z.degrees * S[i]
            if added != NULL:
                for i in range(p):
                    yy[i * (p + 1)] += z.degrees * added[i]
            dtrsm(b"L", b"L", b"N", b"N", &size, &size, &one, memory.square, &size, yy, &size)
            dtrsm(b"R", b"L", b"T", b"N", &size, &size, &one, memory.square, &size, yy, &size)
            out += p * n_columns
            out[0] = 0.0
            for i in range(p):
                for j in range(i + 1):
                    entry = 0.5 * noise_unit * entry_of(i, j, p, n_noise)
                    if entry > 0.0:
                        entry *= yy[i * p + j] + yy[j * p + i]
                        out[e] = out[e] + entry if n_noise == 1 else entry
                        e += n_noise > 1
        free(scratch)


def move(
    ndarray matrix,         # INOUT (1, p, q)
    ndarray offset,         # INOUT (1, p)
    ndarray covariance,     # INOUT (1, p, p), positive definite
    ndarray origin,         # IN, from here on as of `unit_score`
    ndarray inverse_root,
    double unit,
    double noise_unit,
    bint learns_offset,
    ndarray v,              # IN (n_coordinates,)
):
    """Move a regression along v.

    Returned is how far v moves the mean of an observation, in standard deviations of the noise,
    or entries of W, if that is farther.
    """
    cdef Py_ssize_t p = extent(matrix, 1), q = extent(matrix, 2), i, j
    cdef bint learns_matrix = extent(inverse_root, 0) > 0
    cdef Py_ssize_t n_noise = n_of_noise(extent(v, 0), q, p, learns_matrix, learns_offset)
    cdef double* B = writable(matrix, p * q)
    cdef double* c = writable(offset, p)
    cdef double* S = writable(covariance, p * p)
    cdef const double* centre = readable(origin, q)
    cdef const double* inverse = optional_readable(inverse_root, q * q)
    cdef const double* along = readable(v, extent(v, 0))
    cdef Arena arena = counting_arena()
    lay_out(q, p, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(q, p, &arena)
    cdef double* columns = memory.contrast
    cdef double* W = memory.yy
    cdef double entry, largest = 0.0
    cdef int size = <int> p, n_columns = <int> (q * learns_matrix + learns_offset)
    with nogil:
        memcpy(memory.square, S, p * p * sizeof(double))
        factorise(size, memory.square)
        memcpy(columns, along, p * n_columns * sizeof(double))
        for i in range(p * n_columns):
            largest = max(largest, unit * fabs(along[i]))
        if n_columns > 0:
            trmm(c"L", c"L", c"N", c"N", size, n_columns, 1.0, memory.square, size, columns, size)
        if learns_offset:
            for i in range(p):
                c[i] += unit * columns[p * (n_columns - 1) + i]
        if learns_matrix:
            gemm(c"N", c"T", <int> q, size, <int> q, 1.0, inverse, <int> q, columns, size, 0.0,
                 memory.change, <int> q)
            for i in range(p):
                for j in range(q):
                    B[i * q + j] += memory.change[i * q + j]
                    c[i] -= memory.change[i * q + j] * centre[j]
        if n_noise > 0:
            along += p * n_columns
            for i in range(p):
                for j in range(i + 1):
                    entry = noise_unit * entry_of(i, j, p, n_noise)
                    W[i * p + j] = W[j * p + i] = entry * (1 + (i == j)) * along[0]
                    along += entry > 0.0 and n_noise > 1
                    largest = max(largest, fabs(W[i * p + j]))
            if not decompose(size, W, memory.values, memory.work):
                W[0] = NAN
            for i in range(p):
                for j in range(p):
                    W[i * p + j] *= exp(0.5 * memory.values[i])
            trmm(c"L", c"L", c"N", c"N", size, size, 1.0, memory.square, size, W, size)
            syrk(c"L", c"N", size, size, 1.0, W, size, 0.0, S, size)
            for i in range(p):
                for j in range(i):
                    S[i * p + j] = S[j * p + i]
        free(scratch)
    return largest
