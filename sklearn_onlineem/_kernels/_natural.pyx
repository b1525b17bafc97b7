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
from libc.math cimport M_PI, NAN, log, sqrt
from libc.string cimport memcpy, memset
from numpy cimport PyArray_NDIM, ndarray

from ._arena cimport (
    Arena, allocate, allocate_doubles, counting_arena, free, padded, take, take_each,
)
from ._arrays cimport (
    extent, optional_readable, readable, readable_digits, readable_reals, real_size, real_type,
    require, writable,
)
from ._blas cimport gemm
from ._gaussian cimport (
    DIAGONAL, FULL, Centred, add_centred_moments, lay_out_centred, locate, replace_log_joint,
)
from ._gaussian cimport Shape as CentredShape, shape_of as centred_shape_of
from ._gaussian cimport Workspace as CentredSpace, lay_out_workspace as lay_out_centred_space
from ._openmp cimport Slabs, count_slabs, lay_out_slabs, slabs_of, walk_blocks
from ._pairwise cimport pairwise_sum
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

# Below this weight, sums divided by it may overflow: such a component has seen nothing.
cdef double NEGLIGIBLE = 1e-290

# The feature maps: phi(x) is x itself, followed by
cpdef enum:
    LINEAR          # nothing
    SQUARES         # x_i^2
    SQUARE_SUM      # sum_i x_i^2
    PRODUCTS        # x_i x_j for i <= j, the upper triangle row by row

cdef struct Shape:
    Slabs slabs
    Py_ssize_t d            # columns of reals
    Py_ssize_t n_digits     # ... of digits
    Py_ssize_t K            # components
    Py_ssize_t p            # features with the constant one
    Py_ssize_t stored       # ... of which a block has a row of values each
    Py_ssize_t stride       # from one row of a block's matrices to the next
    size_t itemsize
    int features
    bint fused              # products are formed as they are summed,
    Py_ssize_t n_left       # ... from so many left factors


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


cdef Pass lay_out(Shape* shape, Centred* centred, Py_ssize_t n_sums, Arena* arena) noexcept nogil:
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


# Gaussians: one call from moments to moments
# -------------------------------------------
#
# Features are taken about a centre c in the middle of the data, y = x - c:
#
#   log w_k N(x | m_k, S_k) = offset_k + (P_k s_k)' y - y' P_k y / 2,  P_k = inv(S_k), s_k = m_k - c
#   offset_k = log w_k - (s_k' P_k s_k + log |2 pi S_k|) / 2
#
# Statistics come back as sums of y and y y', and leave as moments about their means. Components
# that are so narrow, or so far from the centre, that this loses digits are taken about their own
# means, as `_gaussian` does, if they are no more than half of all. Variances along the axes, or one
# of all features, take the squares of y instead of y y'; the bits of their results are those of the
# formulas in NumPy.

# The form of a component's precision.
cdef struct Form:
    Py_ssize_t d
    Py_ssize_t width    # precisions along axes: d, or 1 of all; 0: a matrix
    Py_ssize_t size     # its elements,
    Py_ssize_t p        # ... and those of natural parameters


cdef Form form_of(ndarray array, Py_ssize_t d) except *:
    cdef Form form
    form.d, form.width = d, 0 if PyArray_NDIM(array) == 3 else extent(array, 1)
    require(form.width == d or form.width <= 1, "there is a value for each column, or one")
    form.size = form.width if form.width else d * d
    form.p = d + (form.width if form.width else d * (d + 1) // 2)
    return form


cdef double pack(
    const Form* form, const double* mean, const double* precision, const double* centre,
    const double* spread, double* shift, double* natural, double* quadratic,
) noexcept nogil:
    """natural <- (P s, -P/2 of the features of second order); quadratic <- s' P s; shift is spent.

    Returns sum_i P_ii (spread_i + s_i^2), the size of the terms of natural . features, and so the
    digits that the sum loses when the log density itself is of order one.
    """
    cdef Py_ssize_t d = form.d, i, j
    cdef double* products = natural + d
    cdef double terms = 0.0, p
    if form.width:
        for i in range(d):
            p = precision[i if form.width == d else 0]
            shift[i] = mean[i] - centre[i]
            natural[i] = shift[i] * p
            terms += p * (spread[i] + shift[i] * shift[i])
            shift[i] = p * (shift[i] * shift[i])
        for i in range(form.width):
            products[i] = -0.5 * precision[i]
        quadratic[0] = pairwise_sum(shift, d)
        return terms
    memset(natural, 0, d * sizeof(double))
    for i in range(d):
        shift[i] = mean[i] - centre[i]
        for j in range(d):
            natural[j] += precision[j] * shift[i]
        products[0] = -0.5 * precision[i]
        for j in range(i + 1, d):
            products[j - i] = -precision[j]
        terms += precision[i] * (spread[i] + shift[i] * shift[i])
        products += d - i
        precision += d
    quadratic[0] = 0.0
    for i in range(d):
        quadratic[0] += natural[i] * shift[i]
    return terms


cdef void unpack(
    const Form* form, double count, const double* totals, const double* centre, double share,
    double* work, double* mean, double* scatter,
) noexcept nogil:
    """mean, share * scatter about it <- sums of features; nothing at all lies at the centre."""
    cdef Py_ssize_t d = form.d, i, j
    cdef const double* products = totals + d
    cdef double shift, square
    if form.width:
        for i in range(d):
            shift = totals[i] / count if count > NEGLIGIBLE else 0.0
            mean[i] = centre[i] + shift
            work[i] = totals[i] * shift
        if form.width < d:
            work[0] = pairwise_sum(work, d)
        for i in range(form.width):
            square = products[i] - work[i]
            scatter[i] = share * (0.0 if square < 0.0 else square)
        return
    if count <= NEGLIGIBLE:
        memcpy(mean, centre, d * sizeof(double))
        memset(scatter, 0, d * d * sizeof(double))
        return
    for i in range(d):
        shift = totals[i] / count
        mean[i] = centre[i] + shift
        for j in range(i, d):
            scatter[i * d + j] = share * (products[j - i] - shift * totals[j])
            scatter[j * d + i] = scatter[i * d + j]
        products += d - i


# Memory of `moments_of`.
cdef struct Memory:
    double* natural     # (K, p)
    double* totals      # (K, p)
    double* offset      # (K,)
    double* centre      # (d,)
    double* spread      # (d,)
    double* shift       # (d,)
    double* terms       # (K,)


cdef Memory lay_out_memory(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Memory memory
    cdef Py_ssize_t d = shape.d, p = shape.p - 1
    take_each(arena, shape.K * p, &memory.natural, &memory.totals)
    take_each(arena, shape.K, &memory.offset, &memory.terms)
    take_each(arena, d, &memory.centre, &memory.spread, &memory.shift)
    return memory


cdef Py_ssize_t fill(
    const Shape* shape, const Form* form, Memory* memory, const void* X, const double* means,
    const double* precisions, const double* log_weights, const double* log_dets,
    double most_terms,
) noexcept nogil:
    """Natural parameters of components about the centre; return how many are narrow."""
    cdef Py_ssize_t d = shape.d, n_narrow = 0, k
    cdef double* offset = memory.offset
    cdef double quadratic = 0.0, normaliser = d * log(2.0 * M_PI)
    locate(X, shape.itemsize, shape.slabs.n, d, memory.centre, memory.spread)
    for k in range(shape.K):
        memory.terms[k] = pack(
            form, means + k * d, precisions + k * form.size, memory.centre, memory.spread,
            memory.shift, memory.natural + k * form.p, &quadratic)
        if form.width:
            offset[k] = log_weights[k] - 0.5 * (log_dets[k] + normaliser)
            offset[k] -= 0.5 * quadratic
        else:
            offset[k] = log_weights[k] - 0.5 * (quadratic + log_dets[k] + normaliser)
        n_narrow += not memory.terms[k] < most_terms
    return n_narrow


cdef CentredShape narrow_shape(const Shape* shape, Py_ssize_t n_narrow) except *:
    cdef CentredShape narrow = centred_shape_of(
        shape.slabs.n, shape.d, n_narrow, FULL if shape.features == PRODUCTS else DIAGONAL,
        shape.itemsize, 1)
    narrow.stride = padded(shape.slabs.B, narrow.itemsize)
    return narrow


cdef void take_out(
    const Shape* shape, Memory* memory, double most_terms, const double* means,
    const double* precisions, const double* factors, const double* log_weights,
    const double* log_dets, Centred* narrow,
) noexcept nogil:
    """Narrow components leave the natural parameters, and become parameters about their means."""
    cdef Py_ssize_t d = shape.d, p = shape.p - 1, n = 0, k, i, width = p - d
    cdef Py_ssize_t size = narrow.shape.n_factors // narrow.shape.K
    cdef double entry
    for k in range(shape.K):
        if memory.terms[k] < most_terms:
            continue
        memset(memory.natural + k * p, 0, p * sizeof(double))
        memory.offset[k] = 0.0
        narrow.numbers[n] = k
        narrow.offset[n] = log_weights[k] - 0.5 * (log_dets[k] + d * log(2.0 * M_PI))
        memcpy(narrow.means + n * d, means + k * d, d * sizeof(double))
        for i in range(size):
            if shape.features == PRODUCTS:
                entry = factors[k * size + i]
            else:
                entry = sqrt(precisions[k * width + (i if width == d else 0)])
            if shape.itemsize == sizeof(double):
                (<double*> narrow.factors)[n * size + i] = entry
            else:
                (<float*> narrow.factors)[n * size + i] = <float> entry
        n += 1


cdef void put_back(const Shape* shape, const Centred* narrow, double* totals) noexcept nogil:
    """totals (K, p) of narrow components <- their sums about their means"""
    cdef Py_ssize_t d = shape.d, p = shape.p - 1, n, i
    cdef double* first = narrow.sums
    cdef double* second = first + narrow.shape.K * d
    cdef double* out
    for n in range(narrow.shape.K):
        out = totals + narrow.numbers[n] * p
        memcpy(out, first + n * d, d * sizeof(double))
        out += d
        if shape.features == PRODUCTS:
            for i in range(d):
                memcpy(out, second + i * d + i, (d - i) * sizeof(double))
                out += d - i
            second += d * d
        else:
            if p == 2 * d:
                memcpy(out, second, d * sizeof(double))
            else:
                out[0] = pairwise_sum(second, d)
            second += d


def gaussian_e_step(
    ndarray X,              # IN (n, d), float or double
    ndarray means,          # IN (K, d)
    ndarray precisions,     # IN (K, d, d), (K, d) along the axes, or (K, 1) of all features
    ndarray factors,        # IN (K, d, d), upper triangles P of P P' = precision; else (0,)
    ndarray log_dets,       # IN (K,), of the covariances
    ndarray log_weights,    # IN (K,)
    tuple task,             # IN, OUT: see `_responsibilities.Task`
    double total_weight,    # of all rows
    double most_terms,      # what `pack` may return
    ndarray weight,         # OUT (K,)
    ndarray mean,           # OUT (K, d)
    ndarray scatter,        # OUT shape of precisions, about the means
    int n_threads,
):
    """Moments of rows, averaged by sample weights; return their mean log-likelihood.

    Returns NaN, and leaves the outputs as they are, where the natural form would lose digits of
    more than half of the components.
    """
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0), k, n_narrow = 0
    cdef Form form = form_of(precisions, d)
    cdef Py_ssize_t size = form.size, p = form.p
    cdef int type = real_type(X), features = SQUARES if form.width == d else SQUARE_SUM
    if form.width == 0:
        features = PRODUCTS
        require(extent(factors, 0) == K, "matrices come with their factors")
    cdef const void* x = readable_reals(X, n * d, type)
    cdef const double* m = readable(means, K * d)
    cdef const double* P = readable(precisions, K * size)
    cdef const double* factor = optional_readable(factors, K * size)
    cdef const double* log_det = readable(log_dets, K)
    cdef const double* log_weight = readable(log_weights, K)
    cdef Task wanted = task_of(task, n, K, type)
    cdef double* w = writable(weight, K)
    cdef double* new_mean = writable(mean, K * d)
    cdef double* S = writable(scatter, K * size)
    cdef Shape shape = shape_of(n, d, 0, K, features, real_size(X), n_threads)
    cdef Arena arena = counting_arena()
    lay_out_memory(&shape, &arena)
    cdef void* scratch = allocate(&arena)
    cdef void* of_narrow = NULL
    cdef Memory memory = lay_out_memory(&shape, &arena)
    cdef double* totals = memory.totals
    cdef const double* about
    cdef CentredShape centred_shape
    cdef Centred narrow
    cdef double log_likelihood
    try:
        n_narrow = fill(&shape, &form, &memory, x, m, P, log_weight, log_det, most_terms)
        if 2 * n_narrow > K:
            return NAN
        if n_narrow > 0:
            centred_shape = narrow_shape(&shape, n_narrow)
            arena = counting_arena()
            lay_out_centred(&centred_shape, &arena)
            of_narrow = allocate(&arena)
            narrow = lay_out_centred(&centred_shape, &arena)
            take_out(&shape, &memory, most_terms, m, P, factor, log_weight, log_det, &narrow)
        log_likelihood = pass_over(
            &shape, x, NULL, memory.centre, memory.natural, memory.offset, &wanted, w, totals,
            &narrow if n_narrow > 0 else NULL,
        )
        with nogil:
            if n_narrow > 0:
                put_back(&shape, &narrow, totals)
            for k in range(K):
                about = m + k * d
                if memory.terms[k] < most_terms:
                    about = memory.centre
                unpack(&form, w[k], totals + k * p, about, 1.0 / total_weight, memory.shift,
                       new_mean + k * d, S + k * size)
                w[k] = w[k] * (1.0 / total_weight) if form.width else w[k] / total_weight
    finally:
        free(scratch)
        free(of_narrow)
    return log_likelihood / total_weight


# In two steps, where responsibilities come from elsewhere
# -------------------------------------------------------

def natural_form(
    ndarray X,              # IN (n, d), float or double
    ndarray means,          # IN (K, d)
    ndarray precisions,     # IN (K, d, d), or one for all; (K, d) along the axes, or (K, 1) of all
    ndarray log_dets,       # IN (K,) or (1,), of the covariances; (0,): densities lack these
    ndarray centre,         # OUT (d,)
    ndarray natural,        # OUT (K, p)
    ndarray offset,         # OUT (K,), log densities at the centre
):
    """Natural parameters about the centre of rows; return the largest of `pack`'s terms."""
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0), k
    cdef Form form = form_of(precisions, d)
    cdef Py_ssize_t M = 1 if form.width == 0 and extent(precisions, 0) == 1 else K
    require(n > 0 and d > 0, "rows and columns")
    cdef const void* x = readable_reals(X, n * d, real_type(X))
    cdef size_t itemsize = real_size(X)
    cdef const double* m = readable(means, K * d)
    cdef const double* P = readable(precisions, M * form.size)
    cdef double* c = writable(centre, d)
    cdef double* eta = writable(natural, K * form.p)
    cdef double* constant = writable(offset, K)
    cdef const double* log_det = optional_readable(log_dets, M)
    cdef double* spread = allocate_doubles(2 * d)
    cdef double terms = 0.0, quadratic = 0.0, normaliser = d * log(2.0 * M_PI)
    with nogil:
        locate(x, itemsize, n, d, c, spread)
        for k in range(K):
            terms = max(terms, pack(
                &form, m + k * d, P if M < K else P + k * form.size, c, spread, spread + d,
                eta + k * form.p, &quadratic))
            constant[k] = 0.0
            if log_det != NULL:
                constant[k] -= 0.5 * (log_det[k if M == K else 0] + normaliser)
            constant[k] -= 0.5 * quadratic
        free(spread)
    return terms


def moments_about(
    ndarray centre,         # IN (d,)
    ndarray counts,         # IN (K,)
    ndarray totals,         # IN (K, p), sums of the features
    ndarray mean,           # OUT (K, d)
    ndarray scatter,        # OUT (K, d, d), or (K, d) or (K, 1) along the axes, about the means
):
    """Moments of sums about a centre."""
    cdef Py_ssize_t d = extent(centre, 0), K = extent(counts, 0), k
    cdef Form form = form_of(scatter, d)
    cdef const double* c = readable(centre, d)
    cdef const double* count = readable(counts, K)
    cdef const double* sums = readable(totals, K * form.p)
    cdef double* m = writable(mean, K * d)
    cdef double* S = writable(scatter, K * form.size)
    cdef double* products = allocate_doubles(d)
    with nogil:
        for k in range(K):
            unpack(&form, count[k], sums + k * form.p, c, 1.0, products, m + k * d,
                   S + k * form.size)
        free(products)
