r"""Hidden Markov chains of symbols, learnt by an M-step after each row.

With phi the filter, r(i|k) = phi_i a_ik / sum_m phi_m a_mk the backward kernel, gamma the step size
of a row and s the statistics that it adds if its state is k and the one before was i,

    memory_k <- (1 - gamma) sum_i r(i|k) memory_i + gamma E_r[s | k]

are the expected statistics of all rows so far given the state of the last one; their mean by the
filter is what the M-step takes. A row of the memory has starts (K,), moves (K, K) and symbols
(K, C), one after the other: they are innermost, so that sums over states before run along them.
Rows take their turns, so that there is but one thread.
"""

from libc.math cimport fmax, log
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from ._arrays cimport require
from ._simd cimport restricted, simd_void


cdef struct Learner:
    Py_ssize_t K
    Py_ssize_t C             # codes of all columns
    Py_ssize_t n_categories  # ... and of each
    Py_ssize_t Q             # statistics
    double floor
    bint starts              # what is learnt
    bint moves
    bint symbols
    double* start            # (K,)
    double* transmat         # (K, K)
    double* emissions        # (K, C)
    double* filtered         # (K,)
    double* memory           # (K, Q)
    double* next_memory      # (K, Q)
    double* sums             # (Q,)
    double* backward         # (K, K): r(i|k), k the row
    double* predicted        # (K,)
    const double* prior      # (Q,)


cdef simd_void average(Py_ssize_t n, Py_ssize_t Q, double scale, const double* weights,
                       const double* rows, restricted out) noexcept nogil:
    """Sum of n rows by their weights, times a scale."""
    cdef Py_ssize_t i, q
    cdef double a, b
    cdef const double* row
    a = scale * weights[0]
    for q in range(Q):
        out[q] = a * rows[q]
    # By twos, as sums are read and written as often as rows are.
    for i in range(1, n - 1, 2):
        a, b, row = scale * weights[i], scale * weights[i + 1], rows + i * Q
        for q in range(Q):
            out[q] += a * row[q] + b * row[Q + q]
    if n % 2 == 0:
        a, row = scale * weights[n - 1], rows + (n - 1) * Q
        for q in range(Q):
            out[q] += a * row[q]


cdef void begin(Learner* x, double gamma) noexcept nogil:
    """Predict the first state of a sequence, whatever the last one was of another."""
    cdef Py_ssize_t k
    average(x.K, x.Q, 1.0 - gamma, x.filtered, x.memory, x.sums)
    for k in range(x.K):
        memcpy(x.next_memory + k * x.Q, x.sums, x.Q * sizeof(double))
        x.next_memory[k * x.Q + k] += gamma
        x.predicted[k] = x.start[k]


cdef void move(Learner* x, double gamma) noexcept nogil:
    """Predict the next state of a sequence, and carry the memory over to it."""
    cdef Py_ssize_t i, k, K = x.K
    cdef double total
    cdef double* backward
    cdef double* row
    for k in range(K):
        backward, total = x.backward + k * K, 0.0
        for i in range(K):
            backward[i] = x.filtered[i] * x.transmat[i * K + k]
            total += backward[i]
        x.predicted[k] = total
        for i in range(K):
            # No state leads to one that is impossible, which has no weight.
            backward[i] = backward[i] / total if total > 0.0 else 0.0
        row = x.next_memory + k * x.Q
        average(K, x.Q, 1.0 - gamma, backward, x.memory, row)
        for i in range(K):
            row[K + i * K + k] += gamma * backward[i]


cdef double observe(Learner* x, double gamma, const int64_t* codes, Py_ssize_t n_columns,
                    int64_t known) noexcept nogil:
    """Filter a row; return its log-likelihood given those before, -inf if it is impossible."""
    cdef Py_ssize_t j, k, K = x.K
    cdef double largest, total = 0.0, log_scale = 0.0
    for k in range(K):
        x.filtered[k] = x.predicted[k] if known < 0 or known == k else 0.0
    for j in range(n_columns):
        if codes[j] < 0:
            continue
        largest = 0.0
        for k in range(K):
            x.filtered[k] *= x.emissions[k * x.C + codes[j]]
            largest = fmax(largest, x.filtered[k])
            x.next_memory[k * x.Q + K + K * K + k * x.C + codes[j]] += gamma
        if n_columns > 1 and largest > 0.0:
            # Many columns would underflow.
            log_scale += log(largest)
            for k in range(K):
                x.filtered[k] /= largest
    for k in range(K):
        total += x.filtered[k]
    for k in range(K):
        x.filtered[k] /= total
    return log_scale + log(total)


cdef void normalise(Py_ssize_t n, const double* weights, double floor, double* out) noexcept nogil:
    """Weights as probabilities, not below a floor; as they were, if there is no weight."""
    cdef Py_ssize_t i
    cdef double total = 0.0, floored = 0.0
    for i in range(n):
        total += fmax(weights[i], 0.0)
    if not total > 0.0:
        return
    for i in range(n):
        out[i] = fmax(fmax(weights[i], 0.0) / total, floor)
        floored += out[i]
    for i in range(n):
        out[i] /= floored


cdef void maximise(Learner* x) noexcept nogil:
    """The M-step."""
    cdef Py_ssize_t i, q, K = x.K
    average(K, x.Q, 1.0, x.filtered, x.memory, x.sums)
    for q in range(x.Q):
        x.sums[q] += x.prior[q]
    if x.starts:
        normalise(K, x.sums, 0.0, x.start)
    if x.moves:
        for i in range(K):
            normalise(K, x.sums + K + i * K, 0.0, x.transmat + i * K)
    if x.symbols:
        for i in range(K * x.C // x.n_categories):
            q = i * x.n_categories
            normalise(x.n_categories, x.sums + K + K * K + q, x.floor, x.emissions + q)


def learn(const int64_t[:, ::1] codes, const int64_t[::1] known, const int64_t[::1] begins,
          const double[::1] step_sizes, const double[::1] prior, Py_ssize_t n_categories,
          Py_ssize_t first_step, double floor, str learnt, double[::1] start,
          double[:, ::1] transmat, double[:, ::1] emissions, double[::1] filtered,
          double[:, ::1] memory, double[::1] log_likelihoods):
    """Learn rows, one after the other.

    Parameters
    ----------
    codes : (n, n_columns)
        Columns of `emissions`, below 0 where nothing was observed; trusted not to be beyond.
    known : (n,) or (0,)
        States, below 0 where they are not known; empty: none is.
    begins : (n,)
        Other than 0 where a row begins a sequence.
    step_sizes : (n,)
        In [0, 1].
    prior : (Q,)
        Pseudo-statistics of each M-step.
    n_categories : int
        Codes of a column.
    first_step : int
        Row with the first M-step.
    floor : float
        Of probabilities of symbols.
    learnt : str
        Which of start (s), transitions (t) and emissions (e) M-steps change.
    start, transmat, emissions, filtered, memory : (K,), (K, K), (K, C), (K,), (K, Q)
        Of the last row before, and then of the last one.
    log_likelihoods : (n,)
        OUT: of each row given those before, by the parameters that these led to.

    Returns
    -------
    impossible : int
        The row that no state can make, where learning ended, or -1.
    """
    cdef Py_ssize_t t, n = codes.shape[0], K = start.shape[0], C = emissions.shape[1]
    cdef Py_ssize_t n_columns = codes.shape[1], Q = K + K * K + K * C
    cdef bint all_unknown = known.shape[0] == 0
    cdef Learner x
    cdef double* swapped
    require(K > 0 and C > 0 and n_columns > 0, "no states, or no symbols")
    require(all_unknown or known.shape[0] == n, "known states of rows")
    require(begins.shape[0] == n and step_sizes.shape[0] == n, "rows")
    require(log_likelihoods.shape[0] == n, "log-likelihoods of rows")
    require(transmat.shape[0] == K and transmat.shape[1] == K, "transitions of states")
    require(emissions.shape[0] == K and filtered.shape[0] == K, "states")
    require(memory.shape[0] == K and memory.shape[1] == Q and prior.shape[0] == Q, "statistics")
    require(C == n_columns * n_categories, "codes of columns")
    cdef double[:, ::1] other = np.empty((K, Q))
    cdef double[::1] scratch = np.empty(Q + K * K + K)
    x.K, x.C, x.n_categories, x.Q, x.floor = K, C, n_categories, Q, floor
    x.starts, x.moves, x.symbols = "s" in learnt, "t" in learnt, "e" in learnt
    x.start, x.transmat, x.emissions = &start[0], &transmat[0, 0], &emissions[0, 0]
    x.filtered, x.memory, x.next_memory = &filtered[0], &memory[0, 0], &other[0, 0]
    x.sums, x.backward, x.predicted = &scratch[0], &scratch[Q], &scratch[Q + K * K]
    x.prior = &prior[0]
    with nogil:
        for t in range(n):
            if begins[t]:
                begin(&x, step_sizes[t])
            else:
                move(&x, step_sizes[t])
            log_likelihoods[t] = observe(
                &x, step_sizes[t], &codes[t, 0], n_columns, -1 if all_unknown else known[t]
            )
            if not log_likelihoods[t] > -1e308:
                break
            swapped = x.memory
            x.memory, x.next_memory = x.next_memory, swapped
            if t >= first_step:
                maximise(&x)
        else:
            t = -1
        if x.memory != &memory[0, 0]:
            memcpy(&memory[0, 0], x.memory, K * Q * sizeof(double))
    return t
