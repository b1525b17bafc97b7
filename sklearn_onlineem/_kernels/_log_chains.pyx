"""Hidden chains with logarithms: the most probable path, and what scaled recursions cannot do.

    log alpha_t(j) = log sum_i exp(log alpha_t-1(i) + log a_ij) + log p(v_t | j)

costs an exponential for each pair of states, and loses nothing however unlikely a row is.
"""

import numpy as np

from cython cimport floating
from cython.parallel cimport prange
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t

from ._arrays cimport longest_of, require
from ._openmp cimport busy_threads, omp_get_thread_num

from _chains_h cimport CHAIN_ROWS, best_paths, draw

cdef enum:
    SEQUENCES_AT_ONCE = 8

cdef double NOTHING = 0.0


cdef int check_chain(
    Py_ssize_t n, Py_ssize_t K, const double[::1] start, const double[:, ::1] transmat,
    const double[::1] final,
) except -1:
    require(n > 0 and K > 0, "rows, states")
    return require(start.shape[0] == K and transmat.shape[0] == K and transmat.shape[1] == K
                   and final.shape[0] == K, "probabilities of K states")


cdef double log_sum(const double* a, Py_ssize_t step_a, const double* b, Py_ssize_t step_b,
                    Py_ssize_t K) noexcept nogil:
    """log sum_k exp(a_k + b_k)"""
    cdef double most = -INFINITY, total = 0.0
    cdef Py_ssize_t k
    for k in range(K):
        most = max(most, a[k * step_a] + b[k * step_b])
    if most == -INFINITY:
        return most
    for k in range(K):
        total += exp(a[k * step_a] + b[k * step_b] - most)
    return most + log(total)


cdef void forward_rows(
    const floating* x, Py_ssize_t T, Py_ssize_t K, const double* log_start,
    const double* log_table, double* alpha,
) noexcept nogil:
    cdef Py_ssize_t t, j
    for j in range(K):
        alpha[j] = log_start[j] + x[j]
    for t in range(1, T):
        for j in range(K):
            alpha[K + j] = log_sum(alpha, 1, log_table + j, K, K) + x[t * K + j]
        alpha += K


cdef void backward_rows(
    floating* x, Py_ssize_t T, Py_ssize_t K, const double* log_table, const double* alpha,
    double* beta, double* onward, double* transitions,
) noexcept nogil:
    """x <- posteriors; transitions += expected ones, those to the row after the last among them.

    beta and onward, log (a w) and log w of the row after, become those of the first row.
    """
    cdef Py_ssize_t t, i, j
    for t in range(T - 1, -1, -1):
        for i in range(K):
            for j in range(K):
                transitions[i * K + j] += exp(alpha[t * K + i] + log_table[i * K + j] + onward[j])
        for j in range(K):
            onward[j] = x[t * K + j] + beta[j]
            x[t * K + j] = <floating> exp(alpha[t * K + j] + beta[j])
        for i in range(K):
            beta[i] = log_sum(log_table + i * K, 1, onward, 1, K)


def forward(
    const floating[:, ::1] log_densities,   # IN (n, K): log p(v_t | h)
    const int64_t[::1] offsets,             # IN (R + 1,), rows of each run
    const double[:, ::1] log_transmat,      # IN (K, K)
    double[:, ::1] log_predicted,           # INOUT (R + blocks of CHAIN_ROWS, K): of each run, that
    #                                         of the first row of each block, and of the row after
    double[:, ::1] log_filtered,            # OUT (R, K), of the last rows
    double[::1] log_likelihoods,            # OUT (R,)
    bint is_reversed,                       # whether the last run goes with transposed transitions
):
    """The forward passes of runs of rows, each in the middle of a sequence; no run is in doubt.

    The first of `log_predicted` comes in.
    """
    cdef Py_ssize_t K = log_transmat.shape[0], R = log_likelihoods.shape[0], i = 0, r, b, k, row, T
    _check_middle(log_densities.shape[0], log_densities.shape[1], offsets, log_transmat,
                  log_predicted)
    require(R == offsets.shape[0] - 1 and log_filtered.shape[0] == R
            and log_filtered.shape[1] == K, "filtered states")
    cdef double[:, ::1] alpha = np.empty((CHAIN_ROWS, K))
    cdef const double[:, ::1] log_table
    cdef double total
    for r in range(R):
        log_table = _oriented(log_transmat, r == R - 1 and is_reversed)
        log_likelihoods[r] = 0.0
        with nogil:
            for b in range(n_blocks_of(offsets[r + 1] - offsets[r])):
                row = offsets[r] + b * CHAIN_ROWS
                T = min(CHAIN_ROWS, offsets[r + 1] - row)
                forward_rows(&log_densities[row, 0], T, K, &log_predicted[i + b, 0],
                             &log_table[0, 0], &alpha[0, 0])
                total = log_sum(&alpha[T - 1, 0], 1, &NOTHING, 0, K)
                log_likelihoods[r] += total
                if total == -INFINITY:
                    break
                # Relative to the rows so far, so that no digits are lost in long sequences.
                for k in range(K):
                    log_filtered[r, k] = alpha[T - 1, k] - total
                for k in range(K):
                    log_predicted[i + b + 1, k] = log_sum(&log_filtered[r, 0], 1, &log_table[0, k],
                                                          K, K)
            i += n_blocks_of(offsets[r + 1] - offsets[r]) + 1
    return [False] * R


def backward(
    floating[:, ::1] log_densities,         # INOUT (n, K): log p(v_t | h) -> p(h_t | v)
    const int64_t[::1] offsets,             # IN (R + 1,), rows of each run
    const double[:, ::1] log_transmat,      # IN (K, K)
    const double[:, ::1] log_predicted,     # IN (R + blocks of CHAIN_ROWS, K), as `forward` leaves
    double[:, :, ::1] log_later,            # INOUT (R, 2, K): log beta of the last row and log w of
    #                                         the row after -> of the row before and the first
    double[:, :, ::1] transitions,          # INOUT (R, K, K), in the order of time of each run
    bint is_reversed,                       # whether the last run goes with transposed transitions
    bint is_certain=True,                   # whether no forward pass is in doubt, as none is
):
    """The backward passes of runs of rows, each in the middle of a sequence.

    Adds expected transitions within, and to the row after if its w is not 0.
    """
    cdef Py_ssize_t K = log_transmat.shape[0], R = transitions.shape[0], i = 0, r, k, row, T, b
    _check_middle(log_densities.shape[0], log_densities.shape[1], offsets, log_transmat,
                  log_predicted)
    require(R == offsets.shape[0] - 1 and transitions.shape[1] == K and transitions.shape[2] == K,
            "transitions are (R, K, K)")
    require(log_later.shape[0] == R and log_later.shape[1] == 2 and log_later.shape[2] == K,
            "beta and w")
    cdef double[:, ::1] alpha = np.empty((CHAIN_ROWS, K))
    cdef const double[:, ::1] log_table
    cdef double total
    for r in range(R):
        log_table = _oriented(log_transmat, r == R - 1 and is_reversed)
        with nogil:
            for b in range(n_blocks_of(offsets[r + 1] - offsets[r]) - 1, -1, -1):
                row = offsets[r] + b * CHAIN_ROWS
                T = min(CHAIN_ROWS, offsets[r + 1] - row)
                forward_rows(&log_densities[row, 0], T, K, &log_predicted[i + b, 0],
                             &log_table[0, 0], &alpha[0, 0])
                total = log_sum(&alpha[T - 1, 0], 1, &NOTHING, 0, K)
                for k in range(K):
                    log_later[r, 0, k] -= total
                    log_later[r, 1, k] -= total
                backward_rows(&log_densities[row, 0], T, K, &log_table[0, 0], &alpha[0, 0],
                              &log_later[r, 0, 0], &log_later[r, 1, 0], &transitions[r, 0, 0])
            i += n_blocks_of(offsets[r + 1] - offsets[r]) + 1
    return [False] * R


def _oriented(log_transmat, is_reversed):
    return np.ascontiguousarray(np.asarray(log_transmat).T) if is_reversed else log_transmat


cdef Py_ssize_t n_blocks_of(Py_ssize_t T) noexcept nogil:
    return (T + CHAIN_ROWS - 1) // CHAIN_ROWS


cpdef Py_ssize_t _check_middle(
    Py_ssize_t n, Py_ssize_t n_columns, const int64_t[::1] offsets, const double[:, ::1] transmat,
    const double[:, ::1] predicted,
) except -1:
    """Raise unless the arrays of `forward` and `backward`, as logarithms or not, fit each other.

    Return the length of the longest run.
    """
    cdef Py_ssize_t K = transmat.shape[0], R = offsets.shape[0] - 1, n_blocks = 0, r
    cdef Py_ssize_t most = longest_of(&offsets[0], R + 1, R, n)
    require(K > 0 and n_columns == K and transmat.shape[1] == K, "rows of K states")
    for r in range(R):
        n_blocks += n_blocks_of(offsets[r + 1] - offsets[r])
    require(predicted.shape[0] == n_blocks + R and predicted.shape[1] == K,
            "predicted states of all blocks")
    return most


def forward_backward(
    floating[:, ::1] log_densities,     # INOUT (T, K): log p(v_t | h) -> p(h_t | v)
    const double[::1] start,            # IN (K,)
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,)
    double[:, ::1] transitions,         # INOUT (K, K)
    double weight=1.0,                  # of its transitions
):
    """Posteriors of one sequence; add its expected transitions; return its log-likelihood."""
    cdef Py_ssize_t T = log_densities.shape[0], K = log_densities.shape[1]
    check_chain(T, K, start, transmat, final)
    log_later, log_likelihoods = np.full((1, 2, K), -np.inf), np.empty(1)
    log_predicted, log_filtered = np.empty((1 + n_blocks_of(T), K)), np.empty((1, K))
    log_predicted[0], log_later[0, 0] = _log(start), _log(final)
    run = log_densities, np.array([0, T]), _log(transmat), log_predicted
    forward(*run, log_filtered, log_likelihoods, False)
    log_likelihood = log_likelihoods[0]
    if log_likelihood > -INFINITY:
        ending = np.logaddexp.reduce(log_filtered[0] + log_later[0, 0])
        log_later[0, 0] -= ending if ending > -INFINITY else 0.0
        log_likelihood += ending
    if log_likelihood == -INFINITY:
        log_densities[:, :] = 0
    elif weight == 1.0:
        backward(*run, log_later, np.asarray(transitions)[None], False)
    else:
        own = np.zeros((1, K, K))
        backward(*run, log_later, own, False)
        np.asarray(transitions)[:] += weight * own[0]
    return log_likelihood


def filtered(
    floating[:, ::1] log_densities,     # INOUT (T, K): log p(v_t | h) -> p(h_t | v_1..t)
    const double[::1] start,            # IN (K,)
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,)
):
    """Filtered probabilities of one sequence, 0 from where it is impossible; its log-likelihood."""
    cdef Py_ssize_t T = log_densities.shape[0], K = log_densities.shape[1], t, k
    check_chain(T, K, start, transmat, final)
    cdef const double[::1] log_start = _log(start), log_final = _log(final)
    cdef const double[:, ::1] log_table = _log(transmat)
    cdef double[:, ::1] alpha = np.empty((T, K))
    cdef double total
    with nogil:
        forward_rows(&log_densities[0, 0], T, K, &log_start[0], &log_table[0, 0], &alpha[0, 0])
        for t in range(T):
            total = log_sum(&alpha[t, 0], 1, &NOTHING, 0, K)
            for k in range(K):
                log_densities[t, k] = <floating> (
                    0.0 if total == -INFINITY else exp(alpha[t, k] - total))
        total = log_sum(&alpha[T - 1, 0], 1, &log_final[0], 1, K)
    return total


def draw_path(
    floating[:, ::1] log_densities,     # INOUT (T, K): log p(v_t | h) -> one-hot drawn states
    const double[::1] start,            # IN (K,)
    const double[:, ::1] transmat,      # IN (K, K)
    const double[::1] final,            # IN (K,)
    const double[::1] uniforms,         # IN (T,)
    double[:, ::1] transitions,         # INOUT (K, K)
    double weight=1.0,                  # of its moves
):
    """Draw a state path of one sequence; add its moves; return the log-likelihood.

    No states, all 0, if the sequence is impossible.
    """
    cdef Py_ssize_t T = log_densities.shape[0], K = log_densities.shape[1], t, k, state = -1, later
    check_chain(T, K, start, transmat, final)
    require(transitions.shape[0] == K and transitions.shape[1] == K, "transitions are (K, K)")
    require(uniforms.shape[0] == T, "a uniform number for each row")
    cdef const double[::1] log_start = _log(start), log_final = _log(final)
    cdef const double[:, ::1] log_table = _log(transmat)
    cdef double[:, ::1] alpha = np.empty((T, K))
    cdef double log_likelihood, most
    with nogil:
        forward_rows(&log_densities[0, 0], T, K, &log_start[0], &log_table[0, 0], &alpha[0, 0])
        log_likelihood = log_sum(&alpha[T - 1, 0], 1, &log_final[0], 1, K)
        log_densities[:, :] = 0
        for t in range(T - 1, -1, -1):
            if log_likelihood == -INFINITY:
                break
            later, most = state, -INFINITY
            for k in range(K):
                alpha[t, k] += log_final[k] if later < 0 else log_table[k, later]
                most = max(most, alpha[t, k])
            for k in range(K):
                alpha[t, k] = exp(alpha[t, k] - most)
            state = draw(&alpha[t, 0], K, uniforms[t])
            log_densities[t, state] = 1
            if later >= 0:
                transitions[state, later] += weight
    return log_likelihood


def viterbi(
    const floating[:, ::1] log_densities,   # IN (n, K)
    const int64_t[::1] offsets,             # IN (S + 1,)
    const double[::1] start,                # IN (K,)
    const double[::1] first,                # IN (K,), the start of the first sequence
    const double[:, ::1] transmat,          # IN (K, K)
    const double[::1] final,                # IN (K,)
    double[::1] log_probabilities,          # OUT (S,): log p(v, best path)
    int64_t[::1] states,                    # OUT (n,)
    int n_threads,
):
    """The most probable state path of each sequence; the lowest state where two are equal."""
    cdef Py_ssize_t S = log_probabilities.shape[0], K = start.shape[0], s
    check_chain(log_densities.shape[0], log_densities.shape[1], start, transmat, final)
    require(first.shape[0] == K and n_threads > 0, "probabilities of K states, threads")
    require(states.shape[0] == log_densities.shape[0], "states of all rows")
    cdef Py_ssize_t most = longest_of(&offsets[0], offsets.shape[0], S, log_densities.shape[0])
    cdef Py_ssize_t W = width(K)
    cdef const double[::1] log_start = _log(start), log_first = _log(first)
    cdef const double[::1] log_final = _log(final)
    cdef const double[:, ::1] log_table = _padded(_log(transmat))
    n_threads = busy_threads(n_threads, S)
    cdef double[:, :, ::1] best = np.full((n_threads, 2, W), -np.inf)
    cdef int[:, :, ::1] origins = np.empty((n_threads, most, W), dtype=np.intc)
    for s in prange(S, nogil=True, schedule="dynamic", chunksize=SEQUENCES_AT_ONCE,
                    num_threads=n_threads, use_threads_if=n_threads > 1):
        log_probabilities[s] = best_path(
            &log_densities[offsets[s], 0], offsets[s + 1] - offsets[s], K, W,
            &log_first[0] if s == 0 else &log_start[0], &log_table[0, 0], &log_final[0],
            &best[omp_get_thread_num(), 0, 0], &origins[omp_get_thread_num(), 0, 0],
            &states[offsets[s]],
        )


cdef double best_path(
    const floating* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, const double* log_start,
    const double* log_table, const double* log_final, double* best, int* origins, int64_t* states,
) noexcept nogil:
    cdef double through
    cdef Py_ssize_t t, j
    for j in range(K):
        best[j] = log_start[j] + x[j]
    best_paths(x + K, T - 1, K, W, log_table, best + W, best, origins + W)
    states[T - 1] = 0
    through = best[0] + log_final[0]
    for j in range(1, K):
        if best[j] + log_final[j] > through:
            through, states[T - 1] = best[j] + log_final[j], j
    for t in range(T - 1, 0, -1):
        states[t - 1] = origins[t * W + states[t]]
    return through


def best_moves(
    const floating[:, ::1] log_densities,   # IN (T, K)
    const double[:, ::1] log_transmat,      # IN (K, K)
    double[::1] best,                       # INOUT (K,): log p(v, best path to each state), of the
    #                                         row before -> of the last row
):
    """The states before each state of each row on the best paths to it: (T, K or a few more)."""
    cdef Py_ssize_t T = log_densities.shape[0], K = best.shape[0]
    require(T > 0 and K > 0 and log_densities.shape[1] == K and log_transmat.shape[0] == K
            and log_transmat.shape[1] == K, "rows of K states")
    cdef const double[:, ::1] log_table = _padded(log_transmat)
    cdef Py_ssize_t W = log_table.shape[0]
    cdef int[:, ::1] origins = np.empty((T, W), dtype=np.intc)
    cdef double[:, ::1] padded = np.full((2, W), -np.inf)
    with nogil:
        padded[0, :K] = best
        best_paths(&log_densities[0, 0], T, K, W, &log_table[0, 0], &padded[1, 0], &padded[0, 0],
                   &origins[0, 0])
        best[:] = padded[0, :K]
    return origins.base


def common_origin(
    const int[:, ::1] origins,  # IN (T, W)
    const double[::1] best,     # IN (K,), of the last row
):
    """The last row before which all best paths are in the same state, and this state.

    -1 if there is none. Paths of probability 0 do not count.
    """
    cdef Py_ssize_t K = best.shape[0], n = 0, t = origins.shape[0], k
    cdef int[::1] states = np.empty(K, dtype=np.intc)
    cdef bint differ = True, fit = True
    require(0 < K <= origins.shape[1], "states before those of rows")
    with nogil:
        for k in range(K):
            if best[k] > -INFINITY:
                states[n] = <int> k
                n += 1
        while n > 0 and differ and t > 0 and fit:
            t -= 1
            differ = False
            for k in range(n):
                states[k] = origins[t, states[k]]
                differ |= states[k] != states[0]
                fit &= 0 <= states[k] < origins.shape[1]
    require(fit, "states")
    if differ:
        return -1, -1
    return t, states[0]


def trace(
    const int[:, ::1] origins,  # IN (T, W)
    Py_ssize_t state,           # IN, of the last row
    int64_t[::1] states,        # OUT (T,)
):
    """The states of a best path; return that of the row before the first."""
    cdef Py_ssize_t t
    require(states.shape[0] == origins.shape[0] and 0 <= state < origins.shape[1],
            "states of all rows")
    with nogil:
        for t in range(states.shape[0] - 1, -1, -1):
            states[t] = state
            state = origins[t, state]
            if not 0 <= state < origins.shape[1]:
                break
    require(0 <= state < origins.shape[1], "states")
    return state


cdef Py_ssize_t width(Py_ssize_t K) noexcept nogil:
    return 4 if K <= 4 else 8 if K <= 8 else (K + 15) // 16 * 16


def _padded(log_transmat):
    n = width(len(log_transmat)) - len(log_transmat)
    return np.pad(log_transmat, ((0, n), (0, n)), constant_values=-np.inf)


def _log(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
