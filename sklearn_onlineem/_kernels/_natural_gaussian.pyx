"""Gaussians in natural form: one call from moments to moments.

The features of `_natural` are taken about a centre c in the middle of the data, y = x - c:

    log w_k N(x | m_k, S_k) = offset_k + (P_k s_k)' y - y' P_k y / 2,  P_k = inv(S_k), s_k = m_k - c
    offset_k = log w_k - (s_k' P_k s_k + log |2 pi S_k|) / 2

Statistics come back as sums of y and y y', and leave as moments about their means. Variances along
the axes, or one of all features, take the squares of y instead of y y'; the bits of their results
are those of the formulas in NumPy.
"""

from cython cimport floating
from libc.math cimport M_PI, NAN, log
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport NPY_DOUBLE, PyArray_NDIM, ndarray

from ._arena cimport Arena, allocate, allocate_doubles, counting_arena, take_doubles
from ._arrays cimport (
    extent,
    optional_labels,
    optional_readable,
    optional_writable,
    readable,
    readable_reals,
    real_size,
    real_type,
    require,
    writable,
)
from ._gaussian cimport locate
from ._natural cimport PRODUCTS, SQUARE_SUM, SQUARES, Shape, pass_over, shape_of
from ._pairwise cimport pairwise_sum

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


# What `moments_of` has in its memory.
cdef struct Memory:
    double* natural     # (K, p)
    double* totals      # (K, p)
    double* offset      # (K,)
    double* centre      # (d,)
    double* spread      # (d,)
    double* shift       # (d,)


cdef Memory lay_out(const Shape* shape, Arena* arena) noexcept nogil:
    cdef Memory memory
    cdef Py_ssize_t d = shape.d, p = shape.p - 1
    memory.natural = take_doubles(arena, shape.K * p)
    memory.totals = take_doubles(arena, shape.K * p)
    memory.offset = take_doubles(arena, shape.K)
    memory.centre = take_doubles(arena, d)
    memory.spread = take_doubles(arena, d)
    memory.shift = take_doubles(arena, d)
    return memory


cdef double moments_of(
    Shape* shape, const floating* X, const double* means, const double* precisions,
    const double* log_dets, const double* log_weights, const double* sample_weight,
    const int* labels, const double* uniforms, double total_weight, double most_terms,
    double* weight, double* mean, double* scatter, double* log_likelihoods,
) except? -1.0:
    """The E-step below, on pointers."""
    cdef Py_ssize_t K = shape.K, d = shape.d, p = shape.p - 1, k
    cdef bint has_matrices = shape.features == PRODUCTS
    cdef Py_ssize_t width = p - d, size = d * d if has_matrices else width
    cdef Arena arena = counting_arena()
    lay_out(shape, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(shape, &arena)
    cdef double* natural = memory.natural
    cdef double* totals = memory.totals
    cdef double* offset = memory.offset
    cdef double* centre = memory.centre
    cdef double terms = 0.0, quadratic = 0.0, normaliser = d * log(2.0 * M_PI), log_likelihood
    try:
        with nogil:
            locate(X, shape.n, d, centre, memory.spread)
            for k in range(K):
                if has_matrices:
                    terms = max(terms, pack(means + k * d, precisions + k * size, centre,
                                            memory.spread, d, memory.shift, natural + k * p,
                                            &quadratic))
                    offset[k] = log_weights[k] - 0.5 * (quadratic + log_dets[k] + normaliser)
                else:
                    terms = max(terms, pack_variances(
                        means + k * d, precisions + k * size, centre, memory.spread, d, width,
                        memory.shift, natural + k * p, &quadratic))
                    offset[k] = log_weights[k] - 0.5 * (log_dets[k] + normaliser)
                    offset[k] -= 0.5 * quadratic
        if not terms < most_terms:
            return NAN
        log_likelihood = pass_over(
            shape, X, centre, natural, offset, <const double*> NULL, sample_weight, labels,
            uniforms, <const floating*> NULL, True, weight, totals, log_likelihoods,
            <floating*> NULL,
        )
        with nogil:
            for k in range(K):
                if has_matrices:
                    unpack(weight[k], totals + k * p, centre, 1.0 / total_weight, d,
                           mean + k * d, scatter + k * size)
                    weight[k] /= total_weight
                else:
                    unpack_variances(weight[k], totals + k * p, centre, 1.0 / total_weight, d,
                                     width, memory.shift, mean + k * d, scatter + k * size)
                    weight[k] *= 1.0 / total_weight
    finally:
        free(scratch)
    return log_likelihood / total_weight


def e_step(
    ndarray X,              # IN (n, d), float or double
    ndarray means,          # IN (K, d)
    ndarray precisions,     # IN (K, d, d), (K, d) along the axes, or (K, 1) of all features
    ndarray log_dets,       # IN (K,), of the covariances
    ndarray log_weights,    # IN (K,)
    ndarray sample_weight,  # IN (n,) or (0,)
    ndarray labels,         # IN (n,) or (0,); -1 = unlabelled
    ndarray uniforms,       # IN (n,) or (0,); to sample the assignments
    double total_weight,    # of all rows
    double most_terms,      # what `pack` and `pack_variances` may return
    ndarray weight,         # OUT (K,)
    ndarray mean,           # OUT (K, d)
    ndarray scatter,        # OUT shape of precisions, about the means
    ndarray log_likelihoods,    # OUT (n,) or (0,)
    int n_threads,
):
    """Moments of rows, averaged by sample weights; return their mean log-likelihood.

    Returns NaN, and leaves the outputs as they are, where the natural form would lose digits.
    """
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0)
    cdef Py_ssize_t size = extent(precisions, 1)
    cdef int type = real_type(X), features = SQUARES if size == d else SQUARE_SUM
    if PyArray_NDIM(precisions) == 3:
        size, features = d * d, PRODUCTS
    elif features == SQUARE_SUM:
        require(size == 1, "there is a precision for each column, or one")
    cdef const void* x = readable_reals(X, n * d, type)
    cdef const double* m = readable(means, K * d)
    cdef const double* P = readable(precisions, K * size)
    cdef const double* log_det = readable(log_dets, K)
    cdef const double* log_weight = readable(log_weights, K)
    cdef const double* s = optional_readable(sample_weight, n)
    cdef const int* label = optional_labels(labels, n)
    cdef const double* uniform = optional_readable(uniforms, n)
    cdef double* w = writable(weight, K)
    cdef double* new_mean = writable(mean, K * d)
    cdef double* S = writable(scatter, K * size)
    cdef double* of_rows = optional_writable(log_likelihoods, n)
    cdef Shape shape = shape_of(n, d, K, features, real_size(X), n_threads)
    if type == NPY_DOUBLE:
        return moments_of(
            &shape, <const double*> x, m, P, log_det, log_weight, s, label, uniform, total_weight,
            most_terms, w, new_mean, S, of_rows,
        )
    return moments_of(
        &shape, <const float*> x, m, P, log_det, log_weight, s, label, uniform, total_weight,
        most_terms, w, new_mean, S, of_rows,
    )


# Variances in two steps, where responsibilities come from elsewhere
# -----------------------------------------------------------------

def natural_form(
    ndarray X,              # IN (n, d), float or double
    ndarray means,          # IN (K, d)
    ndarray precisions,     # IN (K, d) along the axes, or (K, 1) of all features
    ndarray centre,         # OUT (d,)
    ndarray natural,        # OUT (K, d + width of precisions)
    ndarray quadratic,      # OUT (K,), (mean - centre)' precision (mean - centre)
):
    """Natural parameters about the centre of rows; return the largest of `pack_variances`."""
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), K = extent(means, 0), k
    cdef Py_ssize_t width = extent(precisions, 1), p = d + width
    require(n > 0 and d > 0 and (width == d or width == 1), "rows; precisions of columns, or one")
    cdef int type = real_type(X)
    cdef const void* x = readable_reals(X, n * d, type)
    cdef const double* m = readable(means, K * d)
    cdef const double* P = readable(precisions, K * width)
    cdef double* c = writable(centre, d)
    cdef double* eta = writable(natural, K * p)
    cdef double* squares = writable(quadratic, K)
    cdef double* spread = allocate_doubles(2 * d)
    cdef double terms = 0.0
    with nogil:
        if type == NPY_DOUBLE:
            locate(<const double*> x, n, d, c, spread)
        else:
            locate(<const float*> x, n, d, c, spread)
        for k in range(K):
            terms = max(terms, pack_variances(
                m + k * d, P + k * width, c, spread, d, width, spread + d, eta + k * p,
                squares + k))
        free(spread)
    return terms


def moments_about(
    ndarray centre,         # IN (d,)
    ndarray counts,         # IN (K,)
    ndarray totals,         # IN (K, d + width), sums of the features
    ndarray mean,           # OUT (K, d)
    ndarray scatter,        # OUT (K, width), about the means
):
    """Moments of sums about a centre."""
    cdef Py_ssize_t d = extent(centre, 0), K = extent(counts, 0), width = extent(scatter, 1), k
    require(width == d or width == 1, "squares are of all columns, or one")
    cdef const double* c = readable(centre, d)
    cdef const double* count = readable(counts, K)
    cdef const double* sums = readable(totals, K * (d + width))
    cdef double* m = writable(mean, K * d)
    cdef double* S = writable(scatter, K * width)
    cdef double* products = allocate_doubles(d)
    with nogil:
        for k in range(K):
            unpack_variances(count[k], sums + k * (d + width), c, 1.0, d, width, products,
                             m + k * d, S + k * width)
        free(products)
