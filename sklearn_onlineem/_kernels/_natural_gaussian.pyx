"""Gaussians in natural form: one call from moments to moments.

The features of `_natural` are taken about a centre c in the middle of the data, y = x - c:

    log w_k N(x | m_k, S_k) = offset_k + (P_k s_k)' y - y' P_k y / 2,  P_k = inv(S_k), s_k = m_k - c
    offset_k = log w_k - (s_k' P_k s_k + log |2 pi S_k|) / 2

Statistics come back as sums of y and y y', and leave as moments about their means. Components that
are so narrow, or so far from the centre, that this loses digits are taken about their own means, as
`_gaussian` does, if they are no more than half of all. Variances along the axes, or one of all
features, take the squares of y instead of y y'; the bits of their results are those of the formulas
in NumPy.
"""

from libc.math cimport M_PI, NAN, log, sqrt
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport PyArray_NDIM, ndarray

from ._arena cimport Arena, allocate, allocate_doubles, counting_arena, padded, take_doubles
from ._arrays cimport (
    extent, optional_readable, readable, readable_reals, real_size, real_type, require, writable,
)
from ._gaussian cimport DIAGONAL, FULL, Centred, lay_out_centred, locate
from ._gaussian cimport Shape as CentredShape, shape_of as centred_shape_of
from ._natural cimport PRODUCTS, SQUARE_SUM, SQUARES, Shape, pass_over, shape_of
from ._pairwise cimport pairwise_sum
from ._responsibilities cimport Task, task_of

# Below this weight, sums divided by it may overflow: such a component has seen nothing.
cdef double NEGLIGIBLE = 1e-290


cdef double pack(
    const double* mean, const double* precision, const double* centre, const double* spread,
    Py_ssize_t d, double* shift, double* natural, double* quadratic,
) noexcept nogil:
    """natural <- (P s, -P/2 as the upper triangle of features y_i y_j); quadratic <- s' P s.

    Returns sum_i P_ii (spread_i + s_i^2), the size of the terms of natural . features, and so the
    digits that the sum loses when the log density itself is of order one.
    """
    cdef double* products = natural + d
    cdef double terms = 0.0
    cdef Py_ssize_t i, j
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
    double count, const double* totals, const double* centre, double share, Py_ssize_t d,
    double* mean, double* scatter,
) noexcept nogil:
    """mean, share * scatter about it <- sums of (y, y_i y_j); nothing at all lies at the centre."""
    cdef const double* products = totals + d
    cdef double shift
    cdef Py_ssize_t i, j
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


cdef double pack_variances(
    const double* mean, const double* precision, const double* centre, const double* spread,
    Py_ssize_t d, Py_ssize_t width, double* shift, double* natural, double* quadratic,
) noexcept nogil:
    """As `pack`, of precisions of all features, or of one (width 1)."""
    cdef double terms = 0.0, p
    cdef Py_ssize_t i
    for i in range(d):
        p = precision[i if width == d else 0]
        shift[i] = mean[i] - centre[i]
        natural[i] = shift[i] * p
        terms += p * (spread[i] + shift[i] * shift[i])
        shift[i] = p * (shift[i] * shift[i])
    for i in range(width):
        natural[d + i] = -0.5 * precision[i]
    quadratic[0] = pairwise_sum(shift, d)
    return terms


cdef void unpack_variances(
    double count, const double* totals, const double* centre, double share, Py_ssize_t d,
    Py_ssize_t width, double* products, double* mean, double* scatter,
) noexcept nogil:
    """As `unpack`; the scatter has a value for each feature, or one (width 1)."""
    cdef double shift, square
    cdef Py_ssize_t i
    for i in range(d):
        shift = totals[i] / count if count > NEGLIGIBLE else 0.0
        mean[i] = centre[i] + shift
        products[i] = totals[i] * shift
    if width < d:
        products[0] = pairwise_sum(products, d)
    for i in range(width):
        square = totals[d + i] - products[i]
        scatter[i] = share * (0.0 if square < 0.0 else square)


# Memory of `moments_of`.
cdef struct Memory:
    double* natural     # (K, p)
    double* totals      # (K, p)
    double* offset      # (K,)
    double* centre      # (d,)
    double* spread      # (d,)
    double* shift       # (d,)
    double* terms       # (K,)


cdef Memory lay_out(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Memory memory
    cdef Py_ssize_t d = shape.d, p = shape.p - 1
    memory.natural = take_doubles(arena, shape.K * p)
    memory.totals = take_doubles(arena, shape.K * p)
    memory.offset = take_doubles(arena, shape.K)
    memory.centre = take_doubles(arena, d)
    memory.spread = take_doubles(arena, d)
    memory.shift = take_doubles(arena, d)
    memory.terms = take_doubles(arena, shape.K)
    return memory


cdef Py_ssize_t fill(
    const Shape* shape, Memory* memory, const void* X, const double* means,
    const double* precisions, const double* log_weights, const double* log_dets,
    double most_terms,
) noexcept nogil:
    """Natural parameters of components about the centre; return how many are narrow."""
    cdef Py_ssize_t d = shape.d, p = shape.p - 1, width = p - d, n_narrow = 0, k
    cdef double* offset = memory.offset
    cdef double quadratic = 0.0, normaliser = d * log(2.0 * M_PI)
    locate(X, shape.itemsize, shape.slabs.n, d, memory.centre, memory.spread)
    for k in range(shape.K):
        if shape.features == PRODUCTS:
            memory.terms[k] = pack(
                means + k * d, precisions + k * d * d, memory.centre, memory.spread, d,
                memory.shift, memory.natural + k * p, &quadratic)
            offset[k] = log_weights[k] - 0.5 * (quadratic + log_dets[k] + normaliser)
        else:
            memory.terms[k] = pack_variances(
                means + k * d, precisions + k * width, memory.centre, memory.spread, d, width,
                memory.shift, memory.natural + k * p, &quadratic)
            offset[k] = log_weights[k] - 0.5 * (log_dets[k] + normaliser)
            offset[k] -= 0.5 * quadratic
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


def e_step(
    ndarray X,              # IN (n, d), float or double
    ndarray means,          # IN (K, d)
    ndarray precisions,     # IN (K, d, d), (K, d) along the axes, or (K, 1) of all features
    ndarray factors,        # IN (K, d, d), upper triangles P of P P' = precision; else (0,)
    ndarray log_dets,       # IN (K,), of the covariances
    ndarray log_weights,    # IN (K,)
    tuple task,             # IN, OUT: see `_responsibilities.Task`
    double total_weight,    # of all rows
    double most_terms,      # what `pack` and `pack_variances` may return
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
    cdef Py_ssize_t size = extent(precisions, 1)
    cdef int type = real_type(X), features = SQUARES if size == d else SQUARE_SUM
    if PyArray_NDIM(precisions) == 3:
        size, features = d * d, PRODUCTS
        require(extent(factors, 0) == K, "matrices come with their factors")
    elif features == SQUARE_SUM:
        require(size == 1, "there is a precision for each column, or one")
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
    cdef Py_ssize_t p = shape.p - 1, width = p - d
    cdef bint has_matrices = features == PRODUCTS
    cdef Arena arena = counting_arena()
    lay_out(&shape, &arena)
    cdef void* scratch = allocate(&arena)
    cdef void* of_narrow = NULL
    cdef Memory memory = lay_out(&shape, &arena)
    cdef double* totals = memory.totals
    cdef const double* about
    cdef CentredShape centred_shape
    cdef Centred narrow
    cdef double log_likelihood
    try:
        n_narrow = fill(&shape, &memory, x, m, P, log_weight, log_det, most_terms)
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
                if has_matrices:
                    unpack(w[k], totals + k * p, about, 1.0 / total_weight, d,
                           new_mean + k * d, S + k * size)
                    w[k] /= total_weight
                else:
                    unpack_variances(w[k], totals + k * p, about, 1.0 / total_weight, d,
                                     width, memory.shift, new_mean + k * d, S + k * size)
                    w[k] *= 1.0 / total_weight
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
    cdef bint has_matrices = PyArray_NDIM(precisions) == 3
    cdef Py_ssize_t width = extent(precisions, 1), size = d * d if has_matrices else width
    cdef Py_ssize_t p = d + (d * (d + 1) // 2 if has_matrices else width)
    cdef bint is_shared = has_matrices and extent(precisions, 0) == 1
    require(n > 0 and d > 0 and (width == d or width == 1), "rows; precisions of columns, or one")
    cdef const void* x = readable_reals(X, n * d, real_type(X))
    cdef size_t itemsize = real_size(X)
    cdef const double* m = readable(means, K * d)
    cdef const double* P = readable(precisions, size if is_shared else K * size)
    cdef double* c = writable(centre, d)
    cdef double* eta = writable(natural, K * p)
    cdef double* constant = writable(offset, K)
    cdef Py_ssize_t M = 1 if is_shared else K
    cdef const double* log_det = optional_readable(log_dets, M)
    cdef double* spread = allocate_doubles(2 * d)
    cdef double terms = 0.0, quadratic = 0.0, normaliser = d * log(2.0 * M_PI)
    with nogil:
        locate(x, itemsize, n, d, c, spread)
        for k in range(K):
            if has_matrices:
                terms = max(terms, pack(
                    m + k * d, P if is_shared else P + k * size, c, spread, d, spread + d,
                    eta + k * p, &quadratic))
            else:
                terms = max(terms, pack_variances(
                    m + k * d, P + k * width, c, spread, d, width, spread + d, eta + k * p,
                    &quadratic))
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
    cdef Py_ssize_t d = extent(centre, 0), K = extent(counts, 0), width = extent(scatter, 1), k
    cdef bint has_matrices = PyArray_NDIM(scatter) == 3
    cdef Py_ssize_t size = d * d if has_matrices else width
    cdef Py_ssize_t p = d + (d * (d + 1) // 2 if has_matrices else width)
    require(width == d or width == 1, "squares are of all columns, or one")
    cdef const double* c = readable(centre, d)
    cdef const double* count = readable(counts, K)
    cdef const double* sums = readable(totals, K * p)
    cdef double* m = writable(mean, K * d)
    cdef double* S = writable(scatter, K * size)
    cdef double* products = allocate_doubles(d)
    with nogil:
        for k in range(K):
            if has_matrices:
                unpack(count[k], sums + k * p, c, 1.0, d, m + k * d, S + k * size)
            else:
                unpack_variances(count[k], sums + k * p, c, 1.0, d, width, products, m + k * d,
                                 S + k * size)
        free(products)
