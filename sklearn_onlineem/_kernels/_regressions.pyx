"""Regressions with Gaussian noise: M-step, expected moments, divergences and coordinates.

Those of a linear dynamical system are learnt in each step of a stream, from a few rows, so that
calls of LAPACK from Python would take longer than all that they compute.

Shapes: K regressions of p outputs y on q inputs x, and n = q + p; moments are of z = (x, y).
"""

from libc.math cimport INFINITY, NAN, exp, fabs, isfinite, isnan, log, sqrt
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dtrsm
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs, dsyev

from ._arena cimport (
    Arena, allocate, allocate_doubles, counting_arena, free, take_doubles, take_each,
)
from ._arrays cimport extent, ndarray, optional_readable, readable, require, writable
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
    void* all           # to be freed


cdef Memory lay_out(Py_ssize_t q, Py_ssize_t p, Arena* arena) noexcept nogil:
    cdef Memory memory
    cdef Py_ssize_t n = q + p
    take_each(arena, q * q, &memory.xx, &memory.factor)
    take_each(arena, p * q, &memory.change, &memory.turned)
    memory.contrast = take_doubles(arena, p * n)
    take_each(arena, p * p, &memory.yy, &memory.square)
    take_each(arena, n, &memory.vector, &memory.values)
    memory.work = take_doubles(arena, 3 * n)
    return memory


cdef Memory memory_of(Py_ssize_t q, Py_ssize_t p) except *:
    cdef Arena arena = counting_arena()
    lay_out(q, p, &arena)
    cdef void* all = allocate(&arena)
    cdef Memory memory = lay_out(q, p, &arena)
    memory.all = all
    return memory


# K regressions of p outputs on q inputs, one after the other.
cdef struct Regressions:
    Py_ssize_t K
    Py_ssize_t q
    Py_ssize_t p
    double* B               # (K, p, q)
    double* c               # (K, p)
    double* S               # (K, p, p)


# Moments of n variables, likewise.
cdef struct Moments:
    const double* weight    # (K,)
    const double* degrees   # (K,)
    const double* mean      # (K, n)
    const double* scatter   # (K, n, n)


cdef Regressions regressions_of(tuple arrays, bint writes=False) except *:
    """Of matrices, offsets and covariances."""
    cdef Regressions r
    matrix, offset, covariance = arrays
    cdef Py_ssize_t K = extent(matrix, 0), p = extent(matrix, 1), q = extent(matrix, 2)
    require(p > 0, "outputs")
    r.K, r.p, r.q = K, p, q
    r.B = writable(matrix, K * p * q) if writes else <double*> readable(matrix, K * p * q)
    r.c = writable(offset, K * p) if writes else <double*> readable(offset, K * p)
    r.S = writable(covariance, K * p * p) if writes else <double*> readable(covariance, K * p * p)
    return r


cdef Moments moments_of(tuple arrays, Py_ssize_t K, Py_ssize_t n) except *:
    """Of weights, perhaps degrees, means and scatters."""
    cdef Moments z
    weight, *degrees, mean, scatter = arrays
    z.weight, z.mean = readable(weight, K), readable(mean, K * n)
    z.degrees = readable(degrees[0], K) if degrees else NULL
    z.scatter = readable(scatter, K * n * n)
    return z


cdef void take_next(Regressions* r, Moments* z, Py_ssize_t n) noexcept nogil:
    """Those of the next component, with moments of n variables."""
    r.B, r.c, r.S = r.B + r.p * r.q, r.c + r.p, r.S + r.p * r.p
    z.weight, z.mean, z.scatter = z.weight + 1, z.mean + n, z.scatter + n * n
    z.degrees = z.degrees + 1 if z.degrees != NULL else NULL


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
                xx[i * q + j] += z.weight[0] * z.mean[i] * z.mean[j]
            for i in range(p):
                change[i * q + j] += (z.mean[q + i] - known_offset[i]) * (z.weight[0] * z.mean[j])
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
                0.5 * (yy[i * p + j] + yy[j * p + i]) + z.weight[0] * mean[i] * mean[j])


cdef void learn_covariance(
    const Moments* z, Py_ssize_t q, Py_ssize_t p, const double* floor, const Memory* memory,
    double* S,
) noexcept nogil:
    """S (p, p) <- yy / degrees + floor, positive semidefinite."""
    cdef Py_ssize_t i
    cdef double added
    for i in range(p * p):
        S[i] = memory.yy[i] / z.degrees[0]
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
            added = z.scatter[(q + i) * (q + p + 1)] / z.degrees[0]
            S[i * (p + 1)] += 8.0 * p * ROUNDING * added


def maximise(
    tuple moments,          # IN weights and degrees (K,), means (K, n), scatters (K, n, n)
    ndarray floor,          # IN (p,), added to variances, or (0,)
    bint learns_matrix,
    bint learns_offset,
    bint learns_covariance,
    tuple regressions,      # INOUT matrices (K, p, q), offsets (K, p), covariances (K, p, p)
):
    """Replace what is learnt by what maximises the moments, given the rest."""
    cdef Regressions r = regressions_of(regressions, True)
    cdef Py_ssize_t q = r.q, p = r.p, n = q + p, _k, i, j
    cdef Moments z = moments_of(moments, r.K, n)
    cdef const double* added = optional_readable(floor, p)
    cdef Memory memory = memory_of(q, p)
    with nogil:
        for _k in range(r.K):
            if learns_matrix and q > 0:
                learn_matrix(&z, q, p, NULL if learns_offset else r.c, &memory, r.B)
            if learns_offset and z.weight[0] > 0.0:
                for i in range(p):
                    r.c[i] = z.mean[q + i]
                    for j in range(q):
                        r.c[i] -= r.B[i * q + j] * z.mean[j]
            if learns_covariance and z.degrees[0] > NEGLIGIBLE:
                residual(&z, q, p, r.B, r.c, &memory)
                learn_covariance(&z, q, p, added, &memory, r.S)
            take_next(&r, &z, n)
        free(memory.all)


def expected_moments(
    tuple regressions,      # IN as of `maximise`
    ndarray floor,          # IN (p,), taken off variances, or (0,)
    tuple inputs,           # IN their weights (K,), means (K, q), scatters (K, q, q)
    ndarray mean,           # OUT (K, n)
    ndarray scatter,        # OUT (K, n, n)
):
    """Moments of inputs with outputs."""
    cdef Regressions r = regressions_of(regressions)
    cdef Py_ssize_t q = r.q, p = r.p, n = q + p, _k, i, j
    cdef Moments x = moments_of(inputs, r.K, q)
    cdef const double* taken = optional_readable(floor, p)
    cdef double* out = writable(mean, r.K * n)
    cdef double* zz = writable(scatter, r.K * n * n)
    cdef double noise
    with nogil:
        for _k in range(r.K):
            memcpy(out, x.mean, q * sizeof(double))
            for i in range(p):
                out[q + i] = r.c[i]
                for j in range(q):
                    out[q + i] += r.B[i * q + j] * x.mean[j]
            for i in range(q):
                memcpy(zz + i * n, x.scatter + i * q, q * sizeof(double))
            for i in range(p):
                for j in range(q):
                    zz[(q + i) * n + j] = 0.0
                for j in range(p):
                    noise = r.S[i * p + j]
                    if i == j and taken != NULL:
                        noise -= taken[i]
                    zz[(q + i) * n + q + j] = x.weight[0] * noise
            add_product(1.0, r.B, q, x.scatter, q, False, p, q, q, zz + q * n, n)
            add_product(1.0, zz + q * n, n, r.B, q, True, p, p, q, zz + q * (n + 1), n)
            for i in range(p):
                for j in range(q):
                    zz[j * n + q + i] = zz[(q + i) * n + j]
                for j in range(i):
                    zz[(q + i) * n + q + j] = zz[(q + j) * n + q + i]
            take_next(&r, &x, q)
            out, zz = out + n, zz + n * n


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
    tuple regressions,      # IN as of `maximise`
    tuple others,           # IN likewise
    tuple inputs,           # IN as of `expected_moments`
    ndarray divergences,    # OUT (K,)
):
    """KL to other regressions, in expectation over inputs; NaN where a covariance is singular."""
    cdef Regressions r = regressions_of(regressions), other = regressions_of(others)
    cdef Py_ssize_t q = r.q, p = r.p, k, i, j
    require(other.K == r.K and other.p == p and other.q == q, "regressions of one shape")
    cdef Moments x = moments_of(inputs, r.K, q), unused = x
    cdef double* out = writable(divergences, r.K)
    cdef Memory memory = memory_of(q, p)
    cdef double* spread = memory.yy
    cdef double* shift = memory.vector
    cdef double log_ratio, trace
    cdef int size = <int> p, info
    with nogil:
        for k in range(r.K):
            log_ratio = -log_det_of(r.S, p, memory.square)
            log_ratio += log_det_of(other.S, p, memory.square)
            for i in range(p):
                shift[i] = r.c[i] - other.c[i]
                for j in range(i * q, i * q + q):
                    memory.change[j] = r.B[j] - other.B[j]
                    memory.turned[j] = 0.0
                    shift[i] += memory.change[j] * x.mean[j - i * q]
            for i in range(p):
                for j in range(p):
                    spread[i * p + j] = x.weight[0] * (r.S[i * p + j] + shift[i] * shift[j])
            add_product(1.0, memory.change, q, x.scatter, q, False, p, q, q, memory.turned, q)
            add_product(1.0, memory.turned, q, memory.change, q, True, p, p, q, spread, p)
            dpotrs(b"L", &size, &size, memory.square, &size, spread, &size, &info)
            trace = 0.0
            for i in range(p):
                trace += spread[i * (p + 1)]
            out[k] = 0.5 * (trace + x.weight[0] * (log_ratio - p))
            take_next(&r, &x, q)
            take_next(&other, &unused, q)
        free(memory.all)


cdef enum:
    BLOCK_ROWS = 256


def largest_square(
    ndarray Y,              # IN (n, p); NaN is as expected
    tuple regressions,      # IN as of `maximise`, of K = 1
    tuple inputs,           # IN as of `expected_moments`
):
    """Largest square of the distance of rows from the expected output, by its covariance.

    NaN if that is not positive definite.
    """
    cdef Regressions r = regressions_of(regressions)
    cdef Py_ssize_t n = extent(Y, 0), q = r.q, p = r.p, i, j, t, B, block_number
    require(r.K == 1, "one regression")
    cdef Moments x = moments_of(inputs, 1, q)
    cdef const double* rows = readable(Y, n * p)
    cdef double* expected = allocate_doubles(p * (1 + p + q + BLOCK_ROWS))
    cdef double* factor = expected + p
    cdef double* across = factor + p * p
    cdef double* block = across + p * q
    cdef double one = 1.0, largest = NAN, square
    cdef int size = <int> p, n_right
    with nogil:
        for i in range(p):
            expected[i] = r.c[i]
            for j in range(q):
                across[i * q + j] = 0.0
                expected[i] += r.B[i * q + j] * x.mean[j]
        memcpy(factor, r.S, p * p * sizeof(double))
        add_product(1.0 / x.weight[0], r.B, q, x.scatter, q, False, p, q, q, across, q)
        add_product(1.0, across, q, r.B, q, True, p, p, q, factor, p)
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


# Coordinates of W, of n in all, of one regression.
cdef Py_ssize_t n_of_noise(
    Py_ssize_t n, const Regressions* r, bint learns_matrix, bint learns_offset
) except -1:
    n -= r.p * (r.q * learns_matrix + learns_offset)
    require(r.K == 1 and n in (0, 1, r.p, r.p * (r.p + 1) // 2), "coordinates of a regression")
    return n


# A coordinate adds it to an entry of W and to the one across the diagonal, in units of both.
cdef double entry_of(Py_ssize_t i, Py_ssize_t j, Py_ssize_t p, Py_ssize_t n_noise) noexcept nogil:
    if i == j:
        return 0.5 if n_noise > 1 else 0.5 / sqrt(<double> p)
    return sqrt(0.5) if n_noise > p else 0.0


def unit_score(
    tuple moments,          # IN as of `maximise`, of K = 1
    ndarray floor,          # IN (p,), added to variances by the M-step, or (0,)
    tuple regressions,      # IN as of `maximise`; positive definite
    ndarray origin,         # IN (q,)
    ndarray inverse_root,   # IN (q, q), R^-1, or (0,) for a known matrix
    double unit,
    double noise_unit,      # of the coordinates of W
    bint learns_offset,
    ndarray score,          # OUT (n_coordinates,)
):
    """Derivatives of the log density of rows of these moments by the coordinates, at 0."""
    cdef Regressions r = regressions_of(regressions)
    cdef Py_ssize_t q = r.q, p = r.p, n = q + p, i, j, e = 0
    cdef bint learns_matrix = extent(inverse_root, 0) > 0
    cdef Py_ssize_t n_noise = n_of_noise(extent(score, 0), &r, learns_matrix, learns_offset)
    cdef Moments z = moments_of(moments, 1, n)
    cdef const double* added = optional_readable(floor, p)
    cdef const double* centre = readable(origin, q)
    cdef const double* inverse = optional_readable(inverse_root, q * q)
    cdef double* out = writable(score, extent(score, 0))
    cdef Memory memory = memory_of(q, p)
    cdef double* shift = memory.vector
    cdef double* yy = memory.yy
    cdef double one = 1.0, entry
    cdef int size = <int> p, n_columns = <int> (q * learns_matrix + learns_offset)
    with nogil:
        memcpy(memory.square, r.S, p * p * sizeof(double))
        factorise(size, memory.square)
        residual(&z, q, p, r.B, r.c, &memory)
        if learns_matrix:
            for i in range(p):
                for j in range(q):
                    memory.change[i * q + j] = (
                        memory.contrast[i * n + j]
                        + z.weight[0] * shift[i] * (z.mean[j] - centre[j]))
            gemm(c"T", c"N", size, <int> q, <int> q, 1.0, memory.change, <int> q, inverse, <int> q,
                 0.0, out, size)
        if learns_offset:
            for i in range(p):
                out[p * (n_columns - 1) + i] = z.weight[0] * unit * shift[i]
        if n_columns > 0:
            dtrsm(b"L", b"L", b"N", b"N", &size, &n_columns, &one, memory.square, &size, out,
                  &size)
        if n_noise > 0:
            # The M-step adds the floor to the mean of the squares.
            for i in range(p * p):
                yy[i] -= z.degrees[0] * r.S[i]
            if added != NULL:
                for i in range(p):
                    yy[i * (p + 1)] += z.degrees[0] * added[i]
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
        free(memory.all)


def move(
    tuple regressions,      # INOUT as of `maximise`, of K = 1; positive definite
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
    cdef Regressions r = regressions_of(regressions, True)
    cdef Py_ssize_t q = r.q, p = r.p, i, j
    cdef bint learns_matrix = extent(inverse_root, 0) > 0
    cdef Py_ssize_t n_noise = n_of_noise(extent(v, 0), &r, learns_matrix, learns_offset)
    cdef const double* centre = readable(origin, q)
    cdef const double* inverse = optional_readable(inverse_root, q * q)
    cdef const double* along = readable(v, extent(v, 0))
    cdef Memory memory = memory_of(q, p)
    cdef double* columns = memory.contrast
    cdef double* W = memory.yy
    cdef double entry, largest = 0.0
    cdef int size = <int> p, n_columns = <int> (q * learns_matrix + learns_offset)
    with nogil:
        memcpy(memory.square, r.S, p * p * sizeof(double))
        factorise(size, memory.square)
        memcpy(columns, along, p * n_columns * sizeof(double))
        for i in range(p * n_columns):
            largest = max(largest, unit * fabs(along[i]))
        if n_columns > 0:
            trmm(c"L", c"L", c"N", c"N", size, n_columns, 1.0, memory.square, size, columns, size)
        if learns_offset:
            for i in range(p):
                r.c[i] += unit * columns[p * (n_columns - 1) + i]
        if learns_matrix:
            gemm(c"N", c"T", <int> q, size, <int> q, 1.0, inverse, <int> q, columns, size, 0.0,
                 memory.change, <int> q)
            for i in range(p):
                for j in range(q):
                    r.B[i * q + j] += memory.change[i * q + j]
                    r.c[i] -= memory.change[i * q + j] * centre[j]
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
            syrk(c"L", c"N", size, size, 1.0, W, size, 0.0, r.S, size)
            for i in range(p):
                for j in range(i):
                    r.S[i * p + j] = r.S[j * p + i]
        free(memory.all)
    return largest
