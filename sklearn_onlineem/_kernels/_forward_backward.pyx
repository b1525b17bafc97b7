"""Hidden chains: posteriors and expected transitions (Baum-Welch), and filtering.

Rows of all sequences lie one after the other; `offsets` says where each begins. Log densities
log p(v_t | h) come in, and posteriors p(h_t | v) take their place:

    alpha_t(j) = sum_i alpha_t-1(i) a_ij p(v_t | j) / scale_t
    beta_t-1(i) = sum_j a_ij  p(v_t | j) beta_t(j) / scale_t
    xi_t(i, j) = alpha_t-1(i) a_ij p(v_t | j) beta_t(j) / scale_t

The scaled recursions never underflow, as each row's densities are divided by the largest. They may
lose a state for good only where transitions are 0 (or nearly), and then a sequence is done again
with logarithms, in `_log_chains`.
"""

from cython cimport floating
from libc.math cimport NAN, isnan, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from ._blas cimport gemm
from ._memory cimport aligned, allocate
from ._simd cimport add_log

from . import _log_chains

cdef extern from "_chains.h" nogil:
    int forward_recursion(
        const double* density, Py_ssize_t T, const double* start, const double* table,
        int has_zeros, Py_ssize_t W, double* alpha, double* total, double* scale)
    void backward_recursion(
        double* density, Py_ssize_t T, const double* table, Py_ssize_t W, const double* total,
        const double* scale, double* beta, double* alpha, double* filtered)
    void add_transitions(
        const double* filtered, const double* later, Py_ssize_t T, Py_ssize_t W, double* sums)
    void emissions_float(
        const float* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)
    void emissions_double(
        const double* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)
    double sum_of(const double* x, Py_ssize_t n)

# Rows of a block, whose arrays stay in an L2 cache. Of a longer sequence, only the predicted state
# at the start of each block is kept, and its forward pass is done again on the way back.
cdef enum:
    BLOCK = 256
    WIDEST_UNROLLED = 8

# A transition above this brings back what the scaled recursions lose.
cdef double SMALLEST_TRANSITION = 1e-100
cdef double SMALLEST_SHARE = 1e-150


cdef struct Chain:
    Py_ssize_t K, W
    bint has_zeros
    double* final       # (W,)
    double* beta        # (2, W)
    double* table       # (W, W)
    double* transposed  # (W, W)
    double* sums        # (W, W)
    double* density     # (BLOCK + 1, W)
    double* alpha       # (BLOCK, W)
    double* filtered    # (BLOCK, W)
    double* total       # (BLOCK,)
    double* scale       # (BLOCK,)
    double* largest     # (BLOCK,)
    double* predicted   # (most blocks of a sequence + 1, W): p(h_t | v_1..t-1), t the first row


cdef Py_ssize_t width(Py_ssize_t K) noexcept nogil:
    return 4 if K <= 4 else (K + 7) // 8 * 8


cdef void* chain_of(
    const double[:, ::1] transmat, const double[::1] final, const int64_t[::1] offsets, Chain* chain
) except NULL:
    """Allocate the scratch memory of a chain, and fill in its tables; free what is returned."""
    cdef Py_ssize_t K = final.shape[0], W = width(K), most_blocks = longest(offsets) // BLOCK + 2
    cdef Py_ssize_t i, j, n_zeroed = 3 * W + 3 * W * W
    cdef void* memory = allocate(
        n_zeroed + (3 * BLOCK + 1 + most_blocks) * W + 3 * BLOCK, sizeof(double))
    chain.K, chain.W = K, W
    chain.table = <double*> aligned(memory)
    chain.transposed = chain.table + W * W
    chain.sums = chain.transposed + W * W
    chain.final = chain.sums + W * W
    chain.beta = chain.final + W
    chain.density = chain.beta + 2 * W
    chain.alpha = chain.density + (BLOCK + 1) * W
    chain.filtered = chain.alpha + BLOCK * W
    chain.predicted = chain.filtered + BLOCK * W
    chain.total = chain.predicted + most_blocks * W
    chain.scale = chain.total + BLOCK
    chain.largest = chain.scale + BLOCK
    memset(chain.table, 0, n_zeroed * sizeof(double))
    chain.has_zeros = False
    for i in range(K):
        chain.final[i] = final[i]
        for j in range(K):
            chain.table[i * W + j] = transmat[i, j]
            chain.transposed[j * W + i] = transmat[i, j]
            chain.has_zeros |= transmat[i, j] < SMALLEST_TRANSITION
    return memory


cdef Py_ssize_t longest(const int64_t[::1] offsets) noexcept nogil:
    cdef Py_ssize_t s, most = 0
    for s in range(offsets.shape[0] - 1):
        most = max(most, offsets[s + 1] - offsets[s])
    return most


cdef void start_at(const double* start, Chain* chain) noexcept nogil:
    memset(chain.predicted, 0, chain.W * sizeof(double))
    memcpy(chain.predicted, start, chain.K * sizeof(double))


cdef bint forward(
    const floating* x, Py_ssize_t B, const double* predicted, Chain* chain
) noexcept nogil:
    """Fill density, alpha, total and scale of a block; return whether digits may be lost."""
    if floating is float:
        emissions_float(x, B, chain.K, chain.W, chain.density, chain.largest)
    else:
        emissions_double(x, B, chain.K, chain.W, chain.density, chain.largest)
    return forward_recursion(chain.density, B, predicted, chain.table, chain.has_zeros, chain.W,
                             chain.alpha, chain.total, chain.scale)


cdef double log_likelihood_of(Py_ssize_t B, Chain* chain) noexcept nogil:
    """log p(v_t of a block | past)"""
    add_log(chain.largest, chain.scale, B)
    return sum_of(chain.largest, B)


cdef void predict(Py_ssize_t B, double* predicted, Chain* chain) noexcept nogil:
    """predicted <- the distribution of the state after the last row of a block"""
    cdef const double* last = chain.alpha + (B - 1) * chain.W
    cdef double share
    cdef Py_ssize_t i, j
    memset(predicted, 0, chain.W * sizeof(double))
    for i in range(chain.K):
        share = last[i] / chain.total[B - 1]
        for j in range(chain.W):
            predicted[j] += share * chain.table[i * chain.W + j]


cdef double ending_of(Py_ssize_t B, Chain* chain) noexcept nogil:
    """p(the sequence ends after the last row of a block | all rows); beta <- that of this row."""
    cdef const double* last = chain.alpha + (B - 1) * chain.W
    cdef double ending = 0
    cdef Py_ssize_t j
    for j in range(chain.W):
        ending += last[j] / chain.total[B - 1] * chain.final[j]
    for j in range(chain.W):
        chain.beta[j] = chain.final[j] / ending
    return ending


cdef double forward_all(
    const floating* x, Py_ssize_t T, const double* start, Chain* chain
) noexcept nogil:
    """Predicted states of all blocks, and the last block's arrays; return the log-likelihood.

    NaN where logarithms have to be taken.
    """
    cdef Py_ssize_t begin = 0, B = 0
    cdef double log_likelihood = 0, ending
    cdef double* predicted = chain.predicted
    start_at(start, chain)
    while begin < T:
        B = min(BLOCK, T - begin)
        if forward(x + begin * chain.K, B, predicted, chain):
            return NAN
        log_likelihood += log_likelihood_of(B, chain)
        predicted += chain.W
        predict(B, predicted, chain)
        begin += B
    ending = ending_of(B, chain)
    return log_likelihood + log(ending) if ending >= SMALLEST_SHARE else NAN


cdef void backward_all(floating* x, Py_ssize_t T, Chain* chain) noexcept nogil:
    """x <- posteriors; sums += sum_t filtered_t-1 w_t', block by block from the end."""
    cdef Py_ssize_t W = chain.W, K = chain.K, begin = (T - 1) // BLOCK * BLOCK, B = T - begin
    cdef Py_ssize_t n_pairs = B - 1, t, k
    while True:
        backward_recursion(chain.density, B, chain.transposed, W, chain.total, chain.scale,
                           chain.beta, chain.alpha, chain.filtered)
        add_pairs(n_pairs, chain)
        for t in range(B):
            for k in range(K):
                x[(begin + t) * K + k] = <floating> chain.alpha[t * W + k]
        if begin == 0:
            return
        begin -= BLOCK
        B = n_pairs = BLOCK
        # The last row of this block is followed by the first one of the block just done.
        memcpy(chain.density + BLOCK * W, chain.density, W * sizeof(double))
        forward(x + begin * K, B, chain.predicted + begin // BLOCK * W, chain)


cdef void add_pairs(Py_ssize_t n_pairs, Chain* chain) noexcept nogil:
    cdef const double* later = chain.density + chain.W
    cdef int W = <int> chain.W
    if W <= WIDEST_UNROLLED:
        add_transitions(chain.filtered, later, n_pairs, W, chain.sums)
    elif n_pairs > 0:
        gemm(c"N", c"T", W, W, <int> n_pairs, 1.0, later, W, chain.filtered, W, 1.0, chain.sums, W)


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
    cdef double log_likelihood
    cdef floating* x
    cdef Chain chain
    cdef void* memory = chain_of(transmat, final, offsets, &chain)
    transitions[:, :] = 0
    try:
        for s in range(S):
            x, T = &log_densities[offsets[s], 0], offsets[s + 1] - offsets[s]
            with nogil:
                log_likelihood = forward_all(x, T, &first[0] if s == 0 else &start[0], &chain)
                if not isnan(log_likelihood):
                    backward_all(x, T, &chain)
            if isnan(log_likelihood):
                log_likelihood = _log_chains.forward_backward(
                    log_densities[offsets[s]:offsets[s + 1]], first if s == 0 else start,
                    transmat, final, transitions,
                )
            log_likelihoods[s] = log_likelihood
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
    cdef Py_ssize_t S = log_likelihoods.shape[0], s, T
    cdef double log_likelihood
    cdef floating* x
    cdef Chain chain
    cdef void* memory = chain_of(transmat, final, offsets, &chain)
    try:
        for s in range(S):
            x, T = &log_densities[offsets[s], 0], offsets[s + 1] - offsets[s]
            with nogil:
                log_likelihood = forward_all(x, T, &first[0] if s == 0 else &start[0], &chain)
                if not isnan(log_likelihood):
                    write_filtered(x, T, &chain)
            if isnan(log_likelihood):
                log_likelihood = _log_chains.filtered(
                    log_densities[offsets[s]:offsets[s + 1]], first if s == 0 else start,
                    transmat, final,
                )
            log_likelihoods[s] = log_likelihood
    finally:
        free(memory)


cdef void write_filtered(floating* x, Py_ssize_t T, Chain* chain) noexcept nogil:
    """x <- filtered states, block by block from the end, as the last is at hand."""
    cdef Py_ssize_t W = chain.W, K = chain.K, begin = (T - 1) // BLOCK * BLOCK, B = T - begin, t, k
    cdef double share
    while True:
        for t in range(B):
            share = 1.0 / chain.total[t]
            for k in range(K):
                x[(begin + t) * K + k] = <floating> (chain.alpha[t * W + k] * share)
        if begin == 0:
            return
        begin -= BLOCK
        B = BLOCK
        forward(x + begin * K, B, chain.predicted + begin // BLOCK * W, chain)


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
