"""Mixtures of exponential families in natural form, over dense rows.

With natural parameters eta_k and sufficient statistics phi of the centred row x - c,

    log p(k, x) = offset_k + eta_k . phi(x - c) + base(x),

so that log joint densities and expected statistics are two matrix products with the same matrix of
features. Rows are handled in blocks that stay in cache, with observations innermost:

    log joint (K, B) = parameters (K, 1 + p) features (1 + p, B)
    sums (1 + p, K) += features (1 + p, B) responsibilities (K, B)'

The first feature is 1. It carries the offsets one way and the counts the other.

With the products y_i y_j, y = x - c, all features together are the products of (1, y) with itself;
other features, where they are few, are those of 1 with themselves. CPUs that fuse multiply and add
form such products on the way (see `_fused_products.h`): of the first kind (1, y) alone is stored,
and parameters are transposed.

Features that are whole numbers below 256 can be given as `digits`, the last ones of phi. They take
an eighth of the memory, whose speed limits passes over many features.
"""

from cython cimport floating
from libc.limits cimport INT_MAX
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport ndarray

from ._arena cimport Arena, allocate, counting_arena, take
from ._arrays cimport (
    extent, readable, readable_digits, readable_reals, real_size, real_type, require, writable,
)
from ._blas cimport gemm
from ._gaussian cimport Centred, add_centred_moments, replace_log_joint
from ._gaussian cimport Workspace as CentredSpace, lay_out_workspace as lay_out_centred_space
from ._openmp cimport Slabs, count_slabs, lay_out_slabs, slabs_of, walk_blocks
from ._responsibilities cimport Task, finish_block, task_of

from _fused_products_h cimport FUSED_STEP, can_fuse, fused_forms, fused_sums
from _simd_h cimport centred_transpose, multiply, square_sum, widen

# The matrices of a block take a quarter of a small L2 cache; no block is so short that BLAS's
# overheads show, or so long that the softmax leaves the cache.
cdef enum:
    BLOCK_BYTES = 1 << 18
    FEWEST_ROWS = 64
    MOST_ROWS = 1024
    # A panel of 12 components, to which fused products return, takes 24 kB of L1.
    FUSED_ROW_BYTES = 1 << 11
    # Columns with which the copies that BLAS makes cost more than it gains.
    MOST_THIN = 64

cdef bint CAN_FUSE = can_fuse()
FUSED_PRODUCTS = CAN_FUSE


cdef inline Py_ssize_t whole_steps(Py_ssize_t B, Py_ssize_t itemsize) noexcept nogil:
    return (B * itemsize + FUSED_STEP - 1) // FUSED_STEP * FUSED_STEP // itemsize


cdef inline void end_with_zeros(
    floating* x, Py_ssize_t rows, Py_ssize_t B, Py_ssize_t stride
) noexcept nogil:
    """x (rows, B): zeros from column B to the end of a step, so that they add nothing to sums"""
    cdef Py_ssize_t i, padding = whole_steps(B, sizeof(floating)) - B
    if padding > 0:
        for i in range(rows):
            memset(x + i * stride + B, 0, padding * sizeof(floating))


cdef Shape shape_of(Py_ssize_t n, Py_ssize_t d, Py_ssize_t n_digits, Py_ssize_t K, int features,
                    Py_ssize_t itemsize, int n_threads) except *:
    cdef Shape shape
    require(n > 0 and d > 0 and K > 0 and n_threads > 0, "rows, columns, components, threads")
    require(LINEAR <= features <= PRODUCTS, "features")
    require(n_digits == 0 or features == LINEAR, "digits stand beside linear features")
    shape.d, shape.K, shape.features, shape.itemsize = d, K, features, itemsize
    shape.n_digits = n_digits
    shape.p = 1 + d + n_digits
    if features == SQUARES:
        shape.p += d
    elif features == SQUARE_SUM:
        shape.p += 1
    elif features == PRODUCTS:
        shape.p += d * (d + 1) // 2
    require(shape.p <= INT_MAX and K <= INT_MAX, "BLAS counts features and components in C ints")
    shape.fused = CAN_FUSE and (features == PRODUCTS or shape.p <= 1 + MOST_THIN)
    shape.n_left = 1 + d if features == PRODUCTS else 1
    shape.stored = 1 + d if shape.fused and features == PRODUCTS else shape.p
    cdef Py_ssize_t rows = BLOCK_BYTES // ((shape.p + K) * itemsize), B
    if shape.fused:
        B = min(n, FUSED_ROW_BYTES // itemsize)
    else:
        B = min(n, max(FEWEST_ROWS, min(MOST_ROWS, rows // FEWEST_ROWS * FEWEST_ROWS)))
    shape.slabs = slabs_of(n, B, count_slabs((n + B - 1) // B, K * shape.p), n_threads)
    shape.stride = whole_steps(B, itemsize)
    return shape


# The scratch memory of a thread; floats or doubles.
cdef struct Workspace:
    void* features      # (stored, stride)
    void* joint         # (K, stride)
    void* softmax       # (2 * stride,)
    void* partial       # (p, K), unless products are fused

# A pass, with its scratch memory.
cdef struct Pass:
    Shape* shape
    const Task* task
    const void* X
    const unsigned char* digits
    const double* centre
    Centred* centred
    void* parameters            # (K, p), floats or doubles
    Slabs slabs


cdef Workspace lay_out_workspace(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Workspace space
    space.features = take(arena, shape.stored * shape.stride, shape.itemsize)
    space.joint = take(arena, shape.K * shape.stride, shape.itemsize)
    space.softmax = take(arena, 2 * shape.stride, shape.itemsize)
    space.partial = take(arena, 0 if shape.fused else shape.K * shape.p, shape.itemsize)
    return space


cdef Pass lay_out(
    Shape* shape, Centred* centred, Py_ssize_t n_sums, Arena* arena
) noexcept nogil:
    cdef Pass all
    cdef Arena counted = counting_arena()
    lay_out_workspace(shape, &counted)
    if centred != NULL:
        lay_out_centred_space(&centred.shape, &counted)
    all.shape, all.centred = shape, centred
    all.parameters = take(arena, shape.K * shape.p, shape.itemsize)
    all.slabs = lay_out_slabs(&shape.slabs, &counted, n_sums, arena)
    return all


cdef void fill_features(
    Shape* shape, const floating* x, const unsigned char* digits, Py_ssize_t B,
    const double* centre, floating* out,
) noexcept nogil:
    """out (stored, B) <- 1, x - centre, digits, and, unless fused on the way, second order"""
    cdef Py_ssize_t d = shape.d, stride = shape.stride, b, i, j, row
    cdef floating* centred = out + stride
    for b in range(B):
        out[b] = 1
    centred_transpose(x, B, d, centre, centred, stride)
    for j in range(shape.n_digits):
        widen(centred + (d + j) * stride, digits + j * shape.slabs.n, B)
    if shape.fused:
        end_with_zeros(out, 1 + d + shape.n_digits, B, stride)
        B = whole_steps(B, sizeof(floating))
    out = centred + d * stride
    if shape.features == SQUARES:
        for i in range(d):
            multiply(centred + i * stride, centred + i * stride, B, out + i * stride)
    elif shape.features == SQUARE_SUM:
        square_sum(centred, d, B, stride, out)
    elif shape.features == PRODUCTS and not shape.fused:
        row = 0
        for i in range(d):
            for j in range(i, d):
                multiply(centred + i * stride, centred + j * stride, B, out + row * stride)
                row += 1


cdef void log_joint(
    Shape* shape, const floating* features, const floating* parameters, Py_ssize_t B, floating* out,
) noexcept nogil:
    """out (K, B) <- parameters (K, p) features (p, B)"""
    cdef int p = <int> shape.p, K = <int> shape.K, stride = <int> shape.stride
    if shape.fused:
        fused_forms(features, shape.stored, shape.n_left, B, stride, parameters, K, out)
        return
    gemm(c"N", c"N", <int> B, K, p, <floating> 1.0, features, stride, parameters, p,
         <floating> 0.0, out, stride)


cdef void add_sums(
    Shape* shape, const floating* features, floating* responsibilities, Py_ssize_t B,
    floating* partial, double* sums,
) noexcept nogil:
    """sums (p, K) += features (p, B) responsibilities (K, B)', in double from block to block."""
    cdef int p = <int> shape.p, K = <int> shape.K, stride = <int> shape.stride
    cdef Py_ssize_t i
    if shape.fused:
        end_with_zeros(responsibilities, K, B, stride)
        fused_sums(features, shape.stored, shape.n_left, B, stride, responsibilities, K, sums)
    elif floating is double:
        gemm(c"T", c"N", K, p, <int> B, 1.0, responsibilities, stride, features, stride,
             1.0, sums, K)
    else:
        gemm(c"T", c"N", K, p, <int> B, <floating> 1.0, responsibilities, stride, features, stride,
             <floating> 0.0, partial, K)
        for i in range(shape.K * shape.p):
            sums[i] += partial[i]


cdef double pass_over_rows(
    const Pass* all, Arena* scratch, const floating* x, Py_ssize_t start, Py_ssize_t B,
    double* sums,
) noexcept nogil:
    """Log joint densities; then what the task asks for, and sums."""
    cdef Shape* shape = all.shape
    cdef Centred* centred = all.centred
    cdef Workspace space = lay_out_workspace(shape, scratch)
    cdef CentredSpace centred_space
    cdef floating* features = <floating*> space.features
    cdef floating* joint = <floating*> space.joint
    cdef double log_likelihood
    if centred != NULL:
        centred_space = lay_out_centred_space(&centred.shape, scratch)
    fill_features(shape, x, all.digits + start if all.digits != NULL else NULL, B,
                  all.centre, features)
    if all.task.given == NULL:
        log_joint(shape, features, <const floating*> all.parameters, B, joint)
    if centred != NULL:
        replace_log_joint(centred, x, B, &centred_space, joint, shape.stride)
    log_likelihood = finish_block(
        joint, shape.K, B, shape.stride, all.task, start, <floating*> space.softmax)
    if sums != NULL:
        add_sums(shape, features, joint, B, <floating*> space.partial, sums)
        if centred != NULL:
            add_centred_moments(centred, x, B, joint, shape.stride, &centred_space,
                                sums + shape.K * shape.p)
    return log_likelihood


cdef double pass_over_block(
    const void* of, Arena scratch, Py_ssize_t start, Py_ssize_t B, double* sums
) noexcept nogil:
    cdef const Pass* all = <const Pass*> of
    cdef Py_ssize_t first = start * all.shape.d
    if all.shape.itemsize == sizeof(double):
        return pass_over_rows(all, &scratch, <const double*> all.X + first, start, B, sums)
    return pass_over_rows(all, &scratch, <const float*> all.X + first, start, B, sums)


cdef void join(
    Shape* shape, const double* offset, const double* natural, floating* parameters,
) noexcept nogil:
    """parameters (K, p) <- [offset, natural], or their transpose where products are fused"""
    cdef Py_ssize_t k, j
    cdef Py_ssize_t to_next_component = 1 if shape.fused else shape.p
    cdef Py_ssize_t to_next_feature = shape.K if shape.fused else 1
    for k in range(shape.K):
        parameters[0] = <floating> offset[k]
        for j in range(shape.p - 1):
            parameters[(1 + j) * to_next_feature] = <floating> natural[j]
        parameters += to_next_component
        natural += shape.p - 1


cdef void split(Shape* shape, const double* sums, double* counts, double* totals) noexcept nogil:
    cdef Py_ssize_t k, j, K = shape.K, p = shape.p - 1
    memcpy(counts, sums, K * sizeof(double))
    for k in range(K):
        for j in range(p):
            totals[k * p + j] = sums[(1 + j) * K + k]


cdef double pass_over(
    Shape* shape, const void* X, const unsigned char* digits, const double* centre,
    const double* natural, const double* offset, const Task* task, double* counts, double* totals,
    Centred* centred,
) except? -1:
    """`mixture_pass` on pointers."""
    cdef Py_ssize_t n_own = shape.K * shape.p if counts != NULL else 0
    cdef Py_ssize_t n_sums = n_own + (centred.shape.n_sums if centred != NULL else 0)
    cdef double log_likelihood
    cdef Arena arena = counting_arena()
    lay_out(shape, centred, n_sums, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Pass all = lay_out(shape, centred, n_sums, &arena)
    all.task, all.X, all.digits, all.centre = task, X, digits, centre
    with nogil:
        if natural != NULL and shape.itemsize == sizeof(double):
            join(shape, offset, natural, <double*> all.parameters)
        elif natural != NULL:
            join(shape, offset, natural, <float*> all.parameters)
        log_likelihood = walk_blocks(&all.slabs, pass_over_block, &all)
        if counts != NULL:
            split(shape, all.slabs.sums, counts, totals)
        if centred != NULL:
            memcpy(centred.sums, all.slabs.sums + n_own, (n_sums - n_own) * sizeof(double))
        free(scratch)
    return log_likelihood


def mixture_pass(
    ndarray X,          # IN (n, d), float or double
    ndarray digits,     # IN (q, n), uint8, with LINEAR features; or None
    ndarray centre,     # IN (d,)
    int features,
    ndarray natural,    # IN (K, p); None: responsibilities are given
    ndarray offset,     # IN (K,), or None
    tuple task,         # IN, OUT: see `_responsibilities.Task`
    ndarray counts,     # OUT (K,), or None: no sums
    ndarray totals,     # OUT (K, p)
    int n_threads,
):
    """Expected statistics of rows, as wanted; return sum_n s_n log p(x_n).

    counts_k = sum_n r_nk and totals_k = sum_n r_nk phi(x_n - centre), where r_nk, the
    responsibilities, include the sample weights s_n. Log joint densities are
    offset_k + natural_k . phi(x_n - centre) + base_n. phi ends with the digits; p counts them.
    """
    cdef Py_ssize_t n = extent(X, 0), K = extent(counts if natural is None else natural, 0)
    cdef Py_ssize_t q = 0 if digits is None else extent(digits, 0)
    cdef int type = real_type(X)
    cdef Shape shape = shape_of(n, extent(X, 1), q, K, features, real_size(X), n_threads)
    cdef Py_ssize_t size = K * (shape.p - 1)
    cdef Task wanted = task_of(task, n, K, type)
    require((wanted.given != NULL) == (natural is None), "there are parameters or responsibilities")
    return pass_over(
        &shape, readable_reals(X, n * shape.d, type),
        NULL if q == 0 else readable_digits(digits, q * n), readable(centre, shape.d),
        NULL if natural is None else readable(natural, size),
        NULL if natural is None else readable(offset, K), &wanted,
        NULL if counts is None else writable(counts, K),
        NULL if counts is None else writable(totals, size), NULL,
    )
