"""Hidden precisions of rows with Student's t components, from Mahalanobis squares.

Given a row at the squared distance D from component k, of d features, its precision u has

    p(x_n | k) ~ (1 + D / nu)^-(nu + d)/2,   E[u] = (1 + d / nu) / (1 + D / nu),
    E[u - 1 - log u] = E[u] - 1 - log E[u] + g,   g = log (nu + d)/2 - psi((nu + d)/2)

Squares come in, and weights r E[u] go out, by which `_gaussian` or `_natural` make moments.
"""

from libc.string cimport memset
from numpy cimport NPY_DOUBLE, ndarray

from ._arena cimport allocate_doubles, free
from ._arrays cimport extent, readable, require, writable
from ._responsibilities cimport Task, finish_block, task_of
from ._simd cimport restricted, simd_void

from _simd_h cimport log_double, transpose

cdef enum:
    BLOCK = 256

# So that far rows have a finite density, and weight 0.
cdef double LARGEST_RATIO = 1e290


cdef simd_void of_component(
    double nu, Py_ssize_t d, double constant, double gap, Py_ssize_t B, restricted squares,
    restricted joint, restricted gaps,
) noexcept nogil:
    """-D / 2 -> E[u]; log joint densities; E[u - 1 - log u]."""
    cdef double scale = -2 / nu, highest = 1 + d / nu, exponent = -0.5 * (nu + d)
    cdef double constant_gap = gap - 1 - log_double(highest), most = LARGEST_RATIO
    cdef double ratio, logarithm
    cdef Py_ssize_t b
    for b in range(B):
        ratio = scale * squares[b]
        # A value that is not a number becomes the largest, too.
        ratio = ratio if ratio < most else most
        ratio = 1 + (ratio if ratio > 0 else 0)
        logarithm = log_double(ratio)
        joint[b] = constant + exponent * logarithm
        squares[b] = highest / ratio
        gaps[b] = squares[b] + (logarithm + constant_gap)


cdef simd_void weigh_component(
    const double* shares, const double* gaps, Py_ssize_t B, restricted weights, restricted counts,
    restricted totals,
) noexcept nogil:
    """Weights <- shares * weights; counts and totals (B,) grow by shares and shares * gaps."""
    cdef Py_ssize_t b
    for b in range(B):
        weights[b] *= shares[b]
        counts[b] += shares[b]
        totals[b] += shares[b] * gaps[b]


def weigh(
    ndarray squares,            # INOUT (n, K): -D / 2 -> r E[u]
    ndarray degrees,            # IN    (K,), nu
    Py_ssize_t n_features,      # d
    ndarray constants,          # IN    (K,), log joint densities at the centres
    ndarray gaps,               # IN    (K,), g
    tuple task,                 # IN, OUT: see `_responsibilities.Task`
    ndarray counts,             # OUT   (K,), sums of r
    ndarray totals,             # OUT   (K,), sums of r E[u - 1 - log u]
):
    """Responsibilities and expected precisions; return sum_n s_n log p(x_n)."""
    cdef Py_ssize_t n = extent(squares, 0), K = extent(squares, 1), start, B, i, k, b
    require(K > 0 and n_features > 0, "components, features")
    cdef double* values = writable(squares, n * K)
    cdef const double* nu = readable(degrees, K)
    cdef const double* constant = readable(constants, K)
    cdef const double* gap = readable(gaps, K)
    cdef Task wanted = task_of(task, n, K, NPY_DOUBLE)
    cdef double* count = writable(counts, K)
    cdef double* total = writable(totals, K)
    cdef double* block = allocate_doubles((5 * K + 2) * BLOCK)
    cdef double* joint = block + K * BLOCK
    cdef double* expected = joint + K * BLOCK
    cdef double* sums = expected + K * BLOCK
    cdef double* scratch = sums + 2 * K * BLOCK
    cdef double log_likelihood = 0
    with nogil:
        memset(sums, 0, 2 * K * BLOCK * sizeof(double))
        for i in range((n + BLOCK - 1) // BLOCK):
            start = i * BLOCK
            B = min(n - start, BLOCK)
            transpose(values + start * K, B, K, K, block, BLOCK)
            for k in range(K):
                of_component(nu[k], n_features, constant[k], gap[k], B, block + k * BLOCK,
                             joint + k * BLOCK, expected + k * BLOCK)
            log_likelihood += finish_block(joint, K, B, BLOCK, &wanted, start, scratch)
            for k in range(K):
                weigh_component(joint + k * BLOCK, expected + k * BLOCK, B, block + k * BLOCK,
                                sums + k * BLOCK, sums + (K + k) * BLOCK)
            transpose(block, K, B, BLOCK, values + start * K, K)
        for k in range(K):
            count[k] = total[k] = 0
            for b in range(BLOCK):
                count[k] += sums[k * BLOCK + b]
                total[k] += sums[(K + k) * BLOCK + b]
        free(block)
    return log_likelihood
