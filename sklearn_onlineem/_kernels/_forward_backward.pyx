"""Hidden chains: posteriors and expected transitions (Baum-Welch), and filtering.

Rows of all sequences lie one after the other; `offsets` says where each begins. Log densities
log p(v_t | h) come in, and posteriors p(h_t | v) take their place:

    alpha_t(j) = sum_i alpha_t-1(i) a_ij  p(v_t | j) / scale_t
    beta_t-1(i) = sum_j a_ij  p(v_t | j) beta_t(j) / scale_t
    xi_t(i, j) = alpha_t-1(i) a_ij p(v_t | j) beta_t(j) / scale_t

The scaled recursions never underflow, as each row's densities are divided by the largest. They may
lose a state for good only where transitions are 0 (or nearly), and then a sequence is done again
with logarithms, in `_log_chains`.
"""

from cython cimport floating
from libc.math cimport log
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memset

from ._blas cimport gemm
from ._memory cimport aligned, allocate
from ._simd cimport add_log

from . import _log_chains

cdef extern from "_chains.h" nogil:
    int forward_recursion(
        const double* density, Py_ssize_t T, const double* start, const double* table,
        int has_zeros, Py_ssize_t W, double* alpha, double* scale)
    void backward_recursion(
        double* density, Py_ssize_t T, const double* table, Py_ssize_t W, const double* scale,
        double* beta, double* alpha, double* filtered)
    void add_transitions(
        const double* filtered, const double* later, Py_ssize_t T, Py_ssize_t W, double* sums)
    void emissions_float(
        const float* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)
    void emissions_double(
        const double* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)
    double sum_of(const double* x, Py_ssize_t n)

cdef enum:
    BLOCK = 256
    WIDEST_UNROLLED = 8

# A transition above this brings back what the scaled recursions lose.
cdef double SMALLEST_TRANSITION = 1e-100
cdef double SMALLEST_SHARE = 1e-150


cdef struct Chain:
    Py_ssize_t K, W
    bint has_zeros
    double* start       # (W,)
    double* first       # (W,), of the first sequence
    double* final       # (W,)
    double* table       # (W, W)
    double* transposed  # (W, W)
    double* density     # (T, W), T that of the longest sequence
    double* alpha       # (T, W)
    double* filtered    # (BLOCK, W)
    double* scale       # (T,)
    double* largest     # (T,)
    double* beta        # (2, W)
    double* sums        # (W, W)


cdef Py_ssize_t width(Py_ssize_t K) noexcept nogil:
    if K <= 4:
        return 4
    if K <= 8:
        return 8
    return (K + 7) // 8 * 8


cdef void* chain_of(
    const double[::1] start, const double[::1] first, const double[:, ::1] transmat,
    const double[::1] final, Py_ssize_t T, Chain* chain,
) except NULL:
    """Allocate the scratch memory of a chain, and fill in its tables; free what is returned."""
    cdef Py_ssize_t K = start.shape[0], W = width(K), i, j
    cdef void* memory = allocate((5 + BLOCK + 3 * W + 2 * T) * W + 2 * T, sizeof(double))
    chain.K, chain.W = K, W
    chain.start = <double*> aligned(memory)
    chain.first = chain.start + W
    chain.final = chain.first + W
    chain.beta = chain.final + W
    chain.table = chain.beta + 2 * W
    chain.transposed = chain.table + W * W
    chain.sums = chain.transposed + W * W
    chain.density = chain.sums + W * W
    chain.alpha = chain.density + T * W
    chain.filtered = chain.alpha + T * W
    chain.scale = chain.filtered + BLOCK * W
    chain.largest = chain.scale + T
    memset(chain.start, 0, (5 * W + 3 * W * W) * sizeof(double))
    chain.has_zeros = False
    for i in range(K):
        chain.start[i], chain.first[i], chain.final[i] = start[i], first[i], final[i]
        for j in range(K):
            chain.table[i * W + j] = transmat[i, j]
            chain.transposed[j * W + i] = transmat[i, j]
            chain.has_zeros |= transmat[i, j] < SMALLEST_TRANSITION
    return memory


cdef bint forward(
    const floating* x, Py_ssize_t T, const double* start, Chain* chain
) noexcept nogil:
    """Fill density, alpha and scale; return whether digits may be lost."""
    if floating is float:
        emissions_float(x, T, chain.K, chain.W, chain.density, chain.largest)
    else:
        emissions_double(x, T, chain.K, chain.W, chain.density, chain.largest)
    return forward_recursion(chain.density, T, start, chain.table, chain.has_zeros, chain.W,
                             chain.alpha, chain.scale)


cdef double log_likelihood_of(Py_ssize_t T, double ending, Chain* chain) noexcept nogil:
    add_log(chain.largest, chain.scale, T)
    return sum_of(chain.largest, T) + log(ending)


cdef double ending_of(Py_ssize_t T, Chain* chain) noexcept nogil:
    """p(the sequence ends after T | its rows); beta <- that of the last row."""
    cdef double* last = chain.alpha + (T - 1) * chain.W
    cdef double ending = 0
    cdef Py_ssize_t j
    for j in range(chain.W):
        ending += last[j] / chain.scale[T - 1] * chain.final[j]
    for j in range(chain.W):
        chain.beta[j] = chain.final[j] / ending
    return ending


cdef void backward(floating* x, Py_ssize_t T, Chain* chain) noexcept nogil:
    """x <- posteriors; sums += sum_t filtered_t-1 w_t', block by block from the end."""
    cdef Py_ssize_t W = chain.W, start, stop, n_pairs, t, k
    stop = T
    while stop > 0:
        start = (stop - 1) // BLOCK * BLOCK
        backward_recursion(chain.density + start * W, stop - start, chain.transposed, W,
                           chain.scale + start, chain.beta, chain.alpha + start * W, chain.filtered)
        n_pairs = min(stop, T - 1) - start
        if n_pairs > 0:
            add_pairs(chain.filtered, chain.density + (start + 1) * W, n_pairs, W, chain.sums)
        for t in range(start, stop):
            for k in range(chain.K):
                x[t * chain.K + k] = <floating> chain.alpha[t * W + k]
        stop = start


cdef void add_pairs(
    const double* filtered, const double* later, Py_ssize_t n_pairs, Py_ssize_t W, double* sums
) noexcept nogil:
    cdef int w = <int> W
    if W <= WIDEST_UNROLLED:
        add_transitions(filtered, later, n_pairs, W, sums)
    else:
        gemm(c"N", c"T", w, w, <int> n_pairs, 1.0, later, w, filtered, w, 1.0, sums, w)


def forward_backward(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v)
    const int64_t[::1] offsets,         # IN (S + 1,)
    const double[::1] start,            # IN (K,)
    const double[::1] first,            # IN (K,), the start of the first sequence
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,): p(end after h); 1 where lengths are given
    double[::1] log_likelihoods,        # OUT (S,)
    double[:, ::1] transitions,         # OUT (K, K): expected numbers, of all sequences
):
    """Posteriors of all rows, and expected transitions.

    Sequences that are impossible have log-likelihood -inf, posteriors of 0 and no transitions.
    """
    cdef Py_ssize_t S = log_likelihoods.shape[0], K = start.shape[0], s, i, j, T
    cdef double ending
    cdef bint done
    cdef floating* x
    cdef Chain chain
    cdef void* memory = chain_of(start, first, transmat, final, longest(offsets), &chain)
    transitions[:, :] = 0
    try:
        for s in range(S):
            x, T = &log_densities[offsets[s], 0], offsets[s + 1] - offsets[s]
            with nogil:
                done = not forward(x, T, chain.first if s == 0 else chain.start, &chain)
                ending = ending_of(T, &chain) if done else 0.0
                done = ending >= SMALLEST_SHARE
                if done:
                    log_likelihoods[s] = log_likelihood_of(T, ending, &chain)
                    backward(x, T, &chain)
            if not done:
                log_likelihoods[s] = _log_chains.forward_backward(
                    log_densities[offsets[s]:offsets[s + 1]], first if s == 0 else start,
                    transmat, final, transitions,
                )
        for i in range(K):
            for j in range(K):
                transitions[i, j] += transmat[i, j] * chain.sums[i * chain.W + j]
    finally:
        free(memory)


def filtered(
    floating[:, ::1] log_densities,     # INOUT (n, K): log p(v_t | h) -> p(h_t | v_1..t)
    const int64_t[::1] offsets,         # IN (S + 1,)
    const double[::1] start,            # IN (K,)
    const double[::1] first,            # IN (K,), the start of the first sequence
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,): p(end after h); 1 where lengths are given
    double[::1] log_likelihoods,        # OUT (S,)
):
    """Filtered state probabilities and the log-likelihood of each sequence."""
    cdef Py_ssize_t S = log_likelihoods.shape[0], s, t, k, T
    cdef double ending
    cdef bint done
    cdef floating* x
    cdef Chain chain
    cdef void* memory = chain_of(start, first, transmat, final, longest(offsets), &chain)
    try:
        for s in range(S):
            x, T = &log_densities[offsets[s], 0], offsets[s + 1] - offsets[s]
            with nogil:
                done = not forward(x, T, chain.first if s == 0 else chain.start, &chain)
                ending = ending_of(T, &chain) if done else 0.0
                done = ending >= SMALLEST_SHARE
                if done:
                    for t in range(T):
                        for k in range(chain.K):
                            x[t * chain.K + k] = <floating> (
                                chain.alpha[t * chain.W + k] / chain.scale[t])
                    log_likelihoods[s] = log_likelihood_of(T, ending, &chain)
            if not done:
                log_likelihoods[s] = _log_chains.filtered(
                    log_densities[offsets[s]:offsets[s + 1]], first if s == 0 else start,
                    transmat, final,
                )
    finally:
        free(memory)


def draw_paths(
    floating[:, ::1] filtered,          # INOUT (n, K): p(h_t | v_1..t) -> one-hot drawn states
    const int64_t[::1] offsets,         # IN (S + 1,)
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,)
    const double[::1] uniforms,         # IN (n,)
    double[:, ::1] transitions,         # OUT (K, K): numbers of moves
):
    """Draw a state path of each sequence from its posterior, from the last row to the first."""
    cdef Py_ssize_t S = offsets.shape[0] - 1, K = final.shape[0], s, t, k
    cdef Py_ssize_t state, later
    transitions[:, :] = 0
    with nogil:
        for s in range(S):
            later = -1
            for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
                for k in range(K):
                    filtered[t, k] *= <floating> (final[k] if later < 0 else transmat[k, later])
                state = draw(&filtered[t, 0], K, uniforms[t])
                if state < 0:
                    continue
                filtered[t, state] = 1
                if later >= 0:
                    transitions[state, later] += 1
                later = state


cdef Py_ssize_t draw(floating* weights, Py_ssize_t K, double uniform) noexcept nogil:
    """The state that a uniform number chooses, or -1 if all weights are 0; clears the weights."""
    cdef double total = 0, below = 0
    cdef Py_ssize_t k, state = -1
    for k in range(K):
        total += weights[k]
    for k in range(K):
        if weights[k] > 0 and below <= uniform * total:
            state = k
        below += weights[k]
        weights[k] = 0
    return state


cdef Py_ssize_t longest(const int64_t[::1] offsets) noexcept nogil:
    cdef Py_ssize_t s, most = 0
    for s in range(offsets.shape[0] - 1):
        most = max(most, offsets[s + 1] - offsets[s])
    return most
