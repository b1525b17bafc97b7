"""Gaussians centred on each component: log densities and weighted moments of dense rows.

    log p(k, x) = offset_k - |P_k' (x - mean_k)|^2 / 2,    precision_k = P_k P_k'

The natural form (`_natural.pyx`) expands the square, which is faster for few features but loses
digits where a component's spread is far below its distance to the common centre. Here x - mean_k is
taken first, as a Cholesky-based log density does, and nothing is lost. With many features this is
also the faster way, as products with a triangle, or of a symmetric result, cost half.

A block of rows passes three stages, each optional, and stays in cache from one to the next:

    log joint (K, B)  ->  responsibilities (K, B)  ->  sums of r, r (x - mean_k) and
                                                       r (x - mean_k)(x - mean_k)'

A factor that all components share whitens rows about a common centre c once, and log densities are
squared distances between z = P'(x - c) and P'(mean_k - c). That loses log10 |z| digits where the
components are |z| apart, and the second moments, summed about c, lose log10 |z|^2 when they are
moved to the means. Where |z| is too large for one or both, what is done is what other factors need.

With float32 rows differences are taken in double, blocks computed in float, and the sums of blocks
added in double.
"""

import numpy as np

from cython cimport floating
from libc.string cimport memcpy, memset
from numpy cimport NPY_DOUBLE, PyArray_NDIM, ndarray

from ._arena cimport (
    ARENA_LINE, Arena, allocate, counting_arena, free, padded, take, take_doubles, take_each,
)
from ._arrays cimport (
    extent, optional_readable, readable, readable_reals, real_size, real_type, require, writable,
)
from ._blas cimport gemm, syrk, trmm
from ._openmp cimport Slabs, count_slabs, lay_out_slabs, slabs_of, walk_blocks
from ._responsibilities cimport Task, finish_block, task_of
from ._simd cimport restricted, simd_void

from _gaussian_h cimport (
    MOST_SMALL, add_scaled_moments, half_squared_norms, scaled_log_joint,
    small_forms, small_products, subtract, weigh,
)
from _simd_h cimport transpose

cdef enum:
    MOST_ROWS = 512
    FEWEST_ROWS = 64
    BLOCK_BYTES = 1 << 19
    LOCATION_ROWS = 256

# An expansion about a common centre loses log10 of so much, digits of log densities of order 1.
cdef double LARGEST_OF_DOUBLES = 1e6
cdef double LARGEST_OF_FLOATS = 1e4
LARGEST_GUARD = {
    np.dtype(np.float64): LARGEST_OF_DOUBLES, np.dtype(np.float32): LARGEST_OF_FLOATS,
}

# A pass, with its scratch memory.
cdef struct Pass:
    Shape* shape
    const Task* task
    const void* X               # (n, d), floats or doubles, as factors
    const double* means         # (K, d)
    const void* factors         # (n_factors,)
    const double* offset        # (K,)
    float* rounded              # (n_factors,), factors for rows of floats
    double* centre              # (d,)
    double* spread              # (d,)
    double* white_means         # (K, d)
    Slabs slabs


cdef Shape shape_of(
    Py_ssize_t n, Py_ssize_t d, Py_ssize_t K, int factors, Py_ssize_t itemsize, int n_threads
) except *:
    cdef Shape shape
    require(n > 0 and d > 0 and K > 0 and n_threads > 0, "rows, columns, components, threads")
    cdef Py_ssize_t rows = BLOCK_BYTES // (d * itemsize)
    # A shared factor leaves so little to do with a row that threads need more blocks to share.
    cdef Py_ssize_t most = MOST_ROWS // 2 if factors == SHARED else MOST_ROWS
    shape.d, shape.K, shape.factors, shape.itemsize = d, K, factors, itemsize
    shape.transposed = factors == DIAGONAL or d <= MOST_SMALL
    shape.whitened = shape.pooled = False
    shape.n_factors = (1 if factors == SHARED else K) * (1 if factors == DIAGONAL else d) * d
    shape.n_sums = K + K * d + shape.n_factors
    cdef Py_ssize_t B = min(n, max(FEWEST_ROWS, min(most, rows // ARENA_LINE * ARENA_LINE)))
    shape.slabs = slabs_of(n, B, count_slabs((n + B - 1) // B, shape.n_sums), n_threads)
    shape.stride = padded(B, itemsize)
    return shape


cdef Workspace lay_out_workspace(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Workspace space
    space.joint = take(arena, shape.K * shape.stride, shape.itemsize)
    space.softmax = take(arena, 2 * shape.stride, shape.itemsize)
    space.rows = take(arena, shape.d * shape.stride * shape.itemsize + ARENA_LINE, 1)
    cdef Py_ssize_t d_whitened = shape.d if shape.factors == SHARED else 0
    space.whitened = take(arena, d_whitened * shape.stride, shape.itemsize)
    space.ones = take(arena, d_whitened, shape.itemsize)
    space.partial = take(arena, shape.d, shape.itemsize)
    space.products = take(arena, shape.d * max(shape.d, shape.K), shape.itemsize)
    return space


cdef Pass lay_out(Shape* shape, Py_ssize_t n_sums, Arena* arena) noexcept nogil:
    cdef Pass all
    cdef Arena counted = counting_arena()
    lay_out_workspace(shape, &counted)
    all.shape = shape
    all.rounded = <float*> take(arena, shape.n_factors, sizeof(float))
    take_each(arena, shape.d, &all.centre, &all.spread)
    all.white_means = take_doubles(arena, shape.K * shape.d)
    all.slabs = lay_out_slabs(&shape.slabs, &counted, n_sums, arena)
    return all


cdef inline double largest_guard(size_t itemsize) noexcept nogil:
    return LARGEST_OF_DOUBLES if itemsize == sizeof(double) else LARGEST_OF_FLOATS


cdef void locate(
    const void* X, size_t itemsize, Py_ssize_t n, Py_ssize_t d, double* centre, double* spread
) noexcept nogil:
    """Means of the first rows, and variances about them."""
    if itemsize == sizeof(double):
        locate_rows(<const double*> X, min(n, LOCATION_ROWS), d, centre, spread)
    else:
        locate_rows(<const float*> X, min(n, LOCATION_ROWS), d, centre, spread)


cdef void locate_rows(
    const floating* X, Py_ssize_t rows, Py_ssize_t d, double* centre, double* spread
) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double deviation
    memset(centre, 0, d * sizeof(double))
    memset(spread, 0, d * sizeof(double))
    for i in range(rows):
        for j in range(d):
            centre[j] += X[i * d + j]
    for j in range(d):
        centre[j] /= rows
    for i in range(rows):
        for j in range(d):
            deviation = X[i * d + j] - centre[j]
            spread[j] += deviation * deviation
    for j in range(d):
        spread[j] /= rows


cdef inline int kind(ndarray factors, Py_ssize_t K) except -1:
    cdef Py_ssize_t n_factors = extent(factors, 0)
    return DIAGONAL if PyArray_NDIM(factors) == 2 else FULL if n_factors == K else SHARED


# Full covariances: a block is (B, d) as the data are, and BLAS does the work
# ----------------------------------------------------------------------------
#
# With few features `small_forms` does it, from a block (d, B) to begin with. With diagonal
# covariances a block is (d, B), too, and loops run over independent rows (`_gaussian.h`).

cdef void log_joint(
    Shape* shape, const floating* x, Py_ssize_t B, const double* means, const floating* factors,
    const double* offset, floating* block, floating* joint,
) noexcept nogil:
    cdef Py_ssize_t d = shape.d, k
    cdef int columns = <int> d
    if shape.factors == DIAGONAL:
        for k in range(shape.K):
            scaled_log_joint(block, B, d, shape.stride, means + k * d, factors + k * d, offset[k],
                             joint + k * shape.stride)
        return
    if shape.transposed:
        for k in range(shape.K):
            small_forms(
                block, B, d, shape.stride, means + k * d,
                factors if shape.factors == SHARED else factors + k * d * d, offset[k],
                joint + k * shape.stride,
            )
        return
    for k in range(shape.K):
        subtract(x, B, d, means + k * d, block)
        # By columns, the block is (d, B) and the upper triangle P_k is the lower triangle P_k'.
        trmm(c"L", c"L", c"N", c"N", columns, <int> B, <floating> 1.0,
             factors if shape.factors == SHARED else factors + k * d * d, columns, block, columns)
        half_squared_norms(block, B, d, offset[k], joint + k * shape.stride)


cdef void add_products(
    Shape* shape, const floating* block, Py_ssize_t B, floating* products, double* second,
) noexcept nogil:
    """second (d, d) += block (B, d)' block, in the upper triangle"""
    cdef Py_ssize_t d = shape.d, i, j
    cdef int columns = <int> d
    if shape.transposed:
        small_products(block, B, d, second)
    elif floating is double:
        syrk(c"L", c"N", columns, <int> B, 1.0, block, columns, 1.0, second, columns)
    else:
        syrk(c"L", c"N", columns, <int> B, <floating> 1.0, block, columns,
             <floating> 0.0, products, columns)
        for i in range(d):
            for j in range(i, d):
                second[i * d + j] += products[i * d + j]


cdef void add_moments(
    Shape* shape, const floating* x, Py_ssize_t B, const double* means, const floating* shares,
    Workspace* space, double* first, double* second,
) noexcept nogil:
    """Adds to the upper triangles of `second` only."""
    cdef Py_ssize_t d = shape.d, k, j, kept
    cdef floating* block = <floating*> space.rows
    cdef floating* partial = <floating*> space.partial
    cdef floating* products = <floating*> space.products
    if shape.factors == DIAGONAL:
        for k in range(shape.K):
            add_scaled_moments(block, B, d, shape.stride, shares + k * shape.stride,
                               means + k * d, first + k * d, second + k * d)
        return
    for k in range(shape.K):
        kept = weigh(x, B, d, shares + k * shape.stride, means + k * d, block, partial)
        for j in range(d):
            first[j] += partial[j]
        add_products(shape, block, kept, products, second)
        first += d
        if shape.factors != SHARED:
            second += d * d


# A shared factor: the common centre takes the place of the means
# ---------------------------------------------------------------

cdef simd_void whiten(
    const double* factor, const double* deviation, Py_ssize_t d, restricted out
) noexcept nogil:
    """out <- P' deviation"""
    cdef Py_ssize_t i, j
    for i in range(d):
        out[i] = 0.0
    for j in range(d):
        for i in range(j, d):
            out[i] += factor[j * d + i] * deviation[j]


cdef inline double squared_norm(const double* x, Py_ssize_t d) noexcept nogil:
    cdef double square = 0.0
    cdef Py_ssize_t i
    for i in range(d):
        square += x[i] * x[i]
    return square


cdef void whiten_means(
    Shape* shape, const floating* X, const double* means, const double* factor, Pass* all,
) noexcept nogil:
    """The centre and the means about it; decide which digits may be lost."""
    cdef Py_ssize_t d = shape.d, n = min(shape.slabs.n, LOCATION_ROWS), i, j
    cdef double of_rows = 0.0, of_means = 0.0, terms
    cdef double* deviation = all.spread
    cdef double* out = all.white_means
    locate_rows(X, n, d, all.centre, deviation)
    for i in range(n):
        for j in range(d):
            deviation[j] = X[i * d + j] - all.centre[j]
        whiten(factor, deviation, d, out)
        of_rows += squared_norm(out, d) / n
    for i in range(shape.K):
        for j in range(d):
            deviation[j] = means[i * d + j] - all.centre[j]
        whiten(factor, deviation, d, out)
        of_means = max(of_means, squared_norm(out, d))
        out += d
    terms = of_rows + of_means
    shape.pooled = terms < largest_guard(shape.itemsize)
    shape.whitened = terms < largest_guard(shape.itemsize) * largest_guard(shape.itemsize)


cdef void whitened_log_joint(
    Shape* shape, const floating* x, Py_ssize_t B, const double* centre, const double* means,
    const floating* factor, const double* offset, Workspace* space, floating* joint,
) noexcept nogil:
    cdef Py_ssize_t d = shape.d, k
    cdef int columns = <int> d
    cdef floating* block = <floating*> space.rows
    cdef floating* whitened = <floating*> space.whitened
    cdef floating* ones = <floating*> space.ones
    for k in range(d):
        ones[k] = 1
    subtract(x, B, d, centre, block)
    trmm(c"L", c"L", c"N", c"N", columns, <int> B, <floating> 1.0, factor, columns, block, columns)
    transpose(block, B, d, d, whitened, shape.stride)
    for k in range(shape.K):
        scaled_log_joint(whitened, B, d, shape.stride, means + k * d, ones, offset[k],
                         joint + k * shape.stride)


cdef void add_pooled_moments(
    Shape* shape, const floating* x, Py_ssize_t B, const double* centre, const floating* shares,
    Workspace* space, double* first, double* second,
) noexcept nogil:
    """Those about the centre: first moments of each component, second ones of all."""
    cdef Py_ssize_t d = shape.d, K = shape.K, stride = shape.stride, k, b
    cdef floating* block = <floating*> space.rows
    cdef floating* products = <floating*> space.products
    cdef floating* of_all = <floating*> space.softmax
    subtract(x, B, d, centre, block)
    gemm(c"N", c"N", <int> d, <int> K, <int> B, <floating> 1.0, block, <int> d, shares,
         <int> stride, <floating> 0.0, products, <int> d)
    for k in range(K * d):
        first[k] += products[k]
    memset(of_all, 0, B * sizeof(floating))
    for k in range(K):
        for b in range(B):
            of_all[b] += shares[k * stride + b]
    b = weigh(x, B, d, of_all, centre, block, <floating*> space.partial)
    add_products(shape, block, b, products, second)


cdef simd_void move_to_means(
    const double* centre, const double* means, const double* counts, Py_ssize_t K, Py_ssize_t d,
    double* first, double* second,
) noexcept nogil:
    """Moments about the centre become moments about the means; of `second` the upper triangle."""
    cdef Py_ssize_t k, i, j
    cdef double shift, moved
    for k in range(K):
        for i in range(d):
            shift = means[i] - centre[i]
            moved = first[i] - counts[k] * shift
            for j in range(i, d):
                second[i * d + j] -= shift * first[j] + moved * (means[j] - centre[j])
            first[i] = moved
        first += d
        means += d


# The pass
# --------

cdef inline void clear_padding(
    Py_ssize_t d, Py_ssize_t B, Py_ssize_t stride, floating* rows
) noexcept nogil:
    """rows (d, B): zeros to the end of a vector, as subnormal numbers there would be slow."""
    cdef Py_ssize_t j, padding = padded(B, sizeof(floating)) - B
    if padding > 0:
        for j in range(d):
            memset(rows + j * stride + B, 0, padding * sizeof(floating))


cdef double pass_over_rows(
    const Pass* all, Arena* scratch, const floating* x, Py_ssize_t start, Py_ssize_t B,
    double* sums,
) noexcept nogil:
    """Log joint densities; then what the task asks for, and sums."""
    cdef Shape* shape = all.shape
    cdef const floating* factors = <const floating*> all.factors
    cdef Py_ssize_t d = shape.d, K = shape.K, stride = shape.stride, k, b
    cdef Workspace space = lay_out_workspace(shape, scratch)
    cdef floating* joint = <floating*> space.joint
    cdef floating* rows = <floating*> space.rows
    cdef double* first = sums + K
    cdef double* second = first + K * d
    cdef double log_likelihood
    if shape.transposed and not shape.whitened:
        transpose(x, B, d, d, rows, stride)
        clear_padding(d, B, stride, rows)
    if shape.whitened:
        whitened_log_joint(
            shape, x, B, all.centre, all.white_means, factors, all.offset, &space, joint)
    elif all.task.given == NULL:
        log_joint(shape, x, B, all.means, factors, all.offset, rows, joint)
    log_likelihood = finish_block(joint, K, B, stride, all.task, start, <floating*> space.softmax)
    if sums != NULL:
        for k in range(K):
            for b in range(B):
                sums[k] += joint[k * stride + b]
        if shape.pooled:
            add_pooled_moments(shape, x, B, all.centre, joint, &space, first, second)
        else:
            add_moments(shape, x, B, all.means, joint, &space, first, second)
    return log_likelihood


cdef double pass_over_block(
    const void* of, Arena scratch, Py_ssize_t start, Py_ssize_t B, double* sums
) noexcept nogil:
    cdef const Pass* all = <const Pass*> of
    cdef Py_ssize_t first = start * all.shape.d
    if all.shape.itemsize == sizeof(double):
        return pass_over_rows(all, &scratch, <const double*> all.X + first, start, B, sums)
    return pass_over_rows(all, &scratch, <const float*> all.X + first, start, B, sums)


cdef void finish_sums(
    Shape* shape, const double* sums, const double* centre, const double* means, double* counts,
    double* first, double* second,
) noexcept nogil:
    """Sums about the means, with symmetric matrices completed."""
    cdef Py_ssize_t d = shape.d, K = shape.K, m, i, j
    cdef double* matrix
    memcpy(counts, sums, K * sizeof(double))
    memcpy(first, sums + K, K * d * sizeof(double))
    memcpy(second, sums + K + K * d, shape.n_factors * sizeof(double))
    if shape.pooled:
        move_to_means(centre, means, counts, K, d, first, second)
    if shape.factors != DIAGONAL:
        for m in range(shape.n_factors // (d * d)):
            matrix = second + m * d * d
            for i in range(d):
                for j in range(i):
                    matrix[i * d + j] = matrix[j * d + i]


# Some components of a pass of `_natural`, which would lose digits of them
# -----------------------------------------------------------------------

cdef Centred lay_out_centred(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Centred centred
    centred.shape = shape[0]
    centred.numbers = <Py_ssize_t*> take(arena, shape.K, sizeof(Py_ssize_t))
    centred.means = take_doubles(arena, shape.K * shape.d)
    centred.offset = take_doubles(arena, shape.K)
    centred.factors = take(arena, shape.n_factors, shape.itemsize)
    centred.sums = take_doubles(arena, shape.n_sums)
    return centred


cdef void replace_log_joint(
    Centred* centred, const floating* x, Py_ssize_t B, Workspace* space, floating* joint,
    Py_ssize_t stride,
) noexcept nogil:
    """joint (K, B) of all components: the rows of these are computed."""
    cdef Shape* shape = &centred.shape
    cdef floating* own = <floating*> space.joint
    cdef floating* rows = <floating*> space.rows
    cdef Py_ssize_t k
    if shape.transposed:
        transpose(x, B, shape.d, shape.d, rows, shape.stride)
        clear_padding(shape.d, B, shape.stride, rows)
    log_joint(shape, x, B, centred.means, <const floating*> centred.factors, centred.offset, rows,
              own)
    for k in range(shape.K):
        memcpy(joint + centred.numbers[k] * stride, own + k * shape.stride, B * sizeof(floating))


cdef void add_centred_moments(
    Centred* centred, const floating* x, Py_ssize_t B, const floating* shares, Py_ssize_t stride,
    Workspace* space, double* sums,
) noexcept nogil:
    """shares (K, B) of all components, whose block was the last one of `replace_log_joint`"""
    cdef Shape* shape = &centred.shape
    cdef floating* own = <floating*> space.joint
    cdef Py_ssize_t k
    for k in range(shape.K):
        memcpy(own + k * shape.stride, shares + centred.numbers[k] * stride, B * sizeof(floating))
    add_moments(shape, x, B, centred.means, own, space, sums, sums + shape.K * shape.d)


def mixture_pass(
    ndarray X,          # IN   (n, d), float or double
    ndarray means,      # IN   (K, d)
    ndarray factors,    # IN   (K, d, d), or (1, d, d) shared: upper triangles P; (K, d): diagonals
                        #      of P; None: responsibilities are given
    ndarray offset,     # IN   (K,), or None
    tuple task,         # IN, OUT: see `_responsibilities.Task`
    ndarray counts,     # OUT  (K,), or None: no sums
    ndarray first,      # OUT  (K, d)
    ndarray second,     # OUT  shape of factors
    int n_threads,
):
    """Expected moments about the means, as wanted; return sum_n s_n log p(x_n).

    counts_k = sum_n r_nk, first_k = sum_n r_nk (x_n - mean_k) and
    second_k = sum_n r_nk (x_n - mean_k)(x_n - mean_k)', summed over k if the factor is shared, or
    its diagonal. The responsibilities r_nk include the sample weights s_n. Log joint densities are
    offset_k - |P_k' (x_n - mean_k)|^2 / 2.
    """
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0), i
    cdef int type = real_type(X)
    cdef bint is_double = type == NPY_DOUBLE, has_sums = counts is not None
    cdef Task wanted = task_of(task, n, K, type)
    cdef Shape shape = shape_of(
        n, d, K, kind(second if factors is None else factors, K), real_size(X), n_threads)
    require(extent(means, 1) == d and (wanted.given != NULL) == (factors is None),
            "means are (K, d); there are factors or responsibilities")
    cdef const void* rows = readable_reals(X, n * d, type)
    cdef const double* mean = readable(means, K * d)
    cdef const double* factor = optional_readable(factors, shape.n_factors)
    cdef const double* offsets = NULL if factor == NULL else readable(offset, K)
    cdef double* count = writable(counts, K) if has_sums else NULL
    cdef double* sums = writable(first, K * d) if has_sums else NULL
    cdef double* products = writable(second, shape.n_factors) if has_sums else NULL
    cdef Arena arena = counting_arena()
    cdef double log_likelihood
    lay_out(&shape, shape.n_sums if has_sums else 0, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Pass all = lay_out(&shape, shape.n_sums if has_sums else 0, &arena)
    all.task, all.X, all.means, all.factors, all.offset = &wanted, rows, mean, factor, offsets
    with nogil:
        if factor != NULL and not is_double:
            for i in range(shape.n_factors):
                all.rounded[i] = <float> factor[i]
            all.factors = all.rounded
        if factor != NULL and shape.factors == SHARED:
            if is_double:
                whiten_means(&shape, <const double*> rows, mean, factor, &all)
            else:
                whiten_means(&shape, <const float*> rows, mean, factor, &all)
        log_likelihood = walk_blocks(&all.slabs, pass_over_block, &all)
        if has_sums:
            finish_sums(&shape, all.slabs.sums, all.centre, mean, count, sums, products)
        free(scratch)
    return log_likelihood
