"""Kalman filter and Rauch-Tung-Striebel smoother of sequences, any of whose values may be missing.

Rows of all sequences lie one after the other; `offsets` says where each begins, and NaN stands for
what is missing. Arrays of the system are padded: k states to W (see `width`).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport ndarray

from ._arrays cimport extent, optional_readable, optional_writable, readable, writable
from ._kalman_evidence cimport Evidence, add_evidence, evidence_at, evidence_size, no_evidence
from ._memory cimport aligned, allocate, padded
from ._openmp cimport MOST_SLABS, first_block, omp_get_thread_num

cdef extern from "_kalman.h" nogil:
    ctypedef struct System:
        Py_ssize_t k, W, d
        const double* A
        const double* At
        const double* b
        const double* Q
        const double* C
        const double* offset
        const double* R
    ctypedef struct Seen:
        Py_ssize_t n
        Py_ssize_t* seen
        double* upper
        double* inverse
        double* H
        double* G
    ctypedef struct Row:
        double* inverse
        double* upper
        double* covariance
    ctypedef struct Update:
        double* X
        double* M_upper
        double* M_inverse
        double log_det
        double* work
    ctypedef struct Sums:
        pass
    Py_ssize_t sums_size(Py_ssize_t k, Py_ssize_t W, Py_ssize_t d)
    Sums sums_at(
        double* memory, Py_ssize_t k, Py_ssize_t W, Py_ssize_t d, const Evidence* total)
    void finish_sums(Sums* sums, Py_ssize_t k, Py_ssize_t W, Py_ssize_t d)
    ctypedef struct Wanted:
        double* predicted
        double* predicted_covariances
        double* filtered
        double* filtered_covariances
        double* log_densities
        double* smoothed
        double* covariances
        double* lags
        double* filled
        const double* noise
        Sums* sums
    ctypedef struct Workspace:
        Py_ssize_t B, n_seen
        Seen* seen
        Update update
        double* rows
        double* starts
        double* state
        double* later
        double* work
        double* vector
        double* gaps
        double* sums
    enum: MOST_SEEN
    Py_ssize_t row_size(Py_ssize_t W)
    double kalman_sequence(
        const System* system, const double* X, Py_ssize_t T, Workspace* space,
        const Wanted* wanted)

cdef enum:
    MOST_ROWS = 1 << 15
    FEWEST_ROWS = 16
    MOST_BLOCK_BYTES = 1 << 25
    MOST_SEEN_BYTES = 1 << 19


def width(Py_ssize_t k):
    """What k states are padded to."""
    return 4 if k <= 4 else (k + 7) // 8 * 8


cdef int read_system(System* system, Py_ssize_t k, tuple arrays) except -1:
    A, At, b, Q, C, offset, R = arrays
    cdef Py_ssize_t W = extent(A, 0), d = extent(offset, 0)
    system.k, system.W, system.d = k, W, d
    system.A, system.At = readable(A, W * W), readable(At, W * W)
    system.b, system.Q = readable(b, W), readable(Q, W * W)
    system.C, system.R = readable(C, d * W), readable(R, d * d)
    system.offset = readable(offset, d)
    return 0


cdef Py_ssize_t seen_size(Py_ssize_t W, Py_ssize_t d) noexcept nogil:
    return 2 * d + 2 * d * d + d * W + W * W


cdef void place_seen(Seen* seen, double* memory, Py_ssize_t W, Py_ssize_t d) noexcept nogil:
    seen.n = -1
    seen.H = memory
    seen.G = seen.H + d * W
    seen.upper = seen.G + W * W
    seen.inverse = seen.upper + 2 * d * d
    seen.seen = <Py_ssize_t*> (seen.inverse + d)


cdef void choose_blocks(
    const System* system, Py_ssize_t longest, Workspace* space
) noexcept nogil:
    """Rows of a block, and patterns of gaps that are remembered."""
    cdef Py_ssize_t n_row = row_size(system.W) * <Py_ssize_t> sizeof(double)
    cdef Py_ssize_t n_seen = seen_size(system.W, system.d) * <Py_ssize_t> sizeof(double)
    space.B = min(max(FEWEST_ROWS, min(MOST_ROWS, MOST_BLOCK_BYTES // n_row)), longest)
    space.n_seen = min(MOST_SEEN, max(2, MOST_SEEN_BYTES // n_seen))


cdef Py_ssize_t space_size(
    const System* system, Py_ssize_t longest, const Workspace* space
) noexcept nogil:
    cdef Py_ssize_t W = system.W, d = system.d, n_state = W + W * W
    cdef Py_ssize_t n_blocks = longest // space.B + 1
    return padded((space.B + 1) * row_size(W) + n_blocks * n_state + 2 * n_state + 11 * W * W
                  + 6 * W + d + 2 * d * d + d * W + space.n_seen * seen_size(W, d)
                  + sums_size(system.k, W, d), sizeof(double))


cdef void place(
    const System* system, Py_ssize_t longest, double* memory, Workspace* space
) noexcept nogil:
    cdef Py_ssize_t W = system.W, d = system.d, n_row = row_size(W), n_state = W + W * W, i
    cdef Py_ssize_t n_blocks = longest // space.B + 1
    space.rows = memory
    space.starts = space.rows + (space.B + 1) * n_row
    space.state = space.starts + n_blocks * n_state
    space.later = space.state + n_state
    space.work = space.later + n_state
    space.update.X = space.work + 6 * W * W
    space.update.M_upper = space.update.X + W * W
    space.update.work = space.update.M_upper + W * W
    space.update.M_inverse = space.update.work + 2 * W * W
    space.vector = space.update.M_inverse + W
    space.gaps = space.vector + 3 * W + d
    space.sums = space.gaps + 2 * d * d + d * W + W
    for i in range(space.n_seen):
        place_seen(
            &space.seen[i], space.sums + sums_size(system.k, W, d) + i * seen_size(W, d), W, d)
    memset(space.rows, 0, ((space.B + 1) * n_row) * sizeof(double))
    memset(space.update.X, 0, (2 * W * W) * sizeof(double))
    memset(space.update.M_inverse, 0, W * sizeof(double))


cdef Wanted of_sequence(
    const Wanted* all_rows, Py_ssize_t begin, Py_ssize_t k, Py_ssize_t d
) noexcept nogil:
    """What is wanted of the sequence that begins there."""
    cdef Wanted wanted = all_rows[0]
    if wanted.predicted != NULL:
        wanted.predicted += begin * k
        wanted.predicted_covariances += begin * k * k
    if wanted.filtered != NULL:
        wanted.filtered += begin * k
        wanted.filtered_covariances += begin * k * k
    if wanted.log_densities != NULL:
        wanted.log_densities += begin
    if wanted.smoothed != NULL:
        wanted.smoothed += begin * k
    if wanted.covariances != NULL:
        wanted.covariances += begin * k * k
        wanted.lags += begin * k * k
    if wanted.filled != NULL:
        wanted.filled += begin * d
    if wanted.noise != NULL:
        wanted.noise += begin * k
    return wanted


cdef void walk(
    const System* system, const double* X, const int64_t* offsets, Py_ssize_t begin,
    Py_ssize_t stop, const double* start, Workspace* space, const Wanted* wanted,
    double* log_likelihoods, double* sums,
) noexcept nogil:
    """Sequences from begin to stop; `sums` of them, if these are wanted."""
    cdef Py_ssize_t s, first, k = system.k, W = system.W, d = system.d
    cdef Wanted here
    cdef Sums own
    cdef Evidence evidence
    if sums != NULL:
        evidence = evidence_at(sums, k, d)
        own = sums_at(space.sums, k, W, d, &evidence)
    for s in range(begin, stop):
        first = offsets[s]
        memcpy(space.state, start, (W + W * W) * sizeof(double))
        here = of_sequence(wanted, first, k, d)
        here.sums = NULL if sums == NULL else &own
        log_likelihoods[s] = kalman_sequence(
            system, X + first * d, offsets[s + 1] - first, space, &here)
    if sums != NULL:
        finish_sums(&own, k, W, d)


cdef Py_ssize_t longest(const int64_t* offsets, Py_ssize_t S) noexcept nogil:
    cdef Py_ssize_t s, most = 1
    for s in range(S):
        most = max(most, offsets[s + 1] - offsets[s])
    return most


cdef int run(
    tuple system_arrays, Py_ssize_t k, ndarray X, const int64_t[::1] offsets, ndarray start,
    const Wanted* wanted, ndarray log_likelihoods, Evidence* total, int n_threads,
) except -1:
    """`total` <- sums over slabs of sequences, in order; NULL if not wanted."""
    cdef System system
    read_system(&system, k, system_arrays)
    cdef Py_ssize_t S = offsets.shape[0] - 1, d = system.d, n_slabs = min(MOST_SLABS, S), slab
    cdef const double* rows = readable(X, offsets[S] * d)
    cdef const double* start_state = readable(start, system.W + system.W * system.W)
    cdef double* out = writable(log_likelihoods, S)
    cdef Workspace plan
    cdef Py_ssize_t most = longest(&offsets[0], S)
    choose_blocks(&system, most, &plan)
    n_threads = min(n_threads, n_slabs)
    cdef Py_ssize_t n_space = space_size(&system, most, &plan)
    cdef Py_ssize_t n_sums = 0 if total == NULL else evidence_size(k, d)
    cdef Py_ssize_t n_doubles = n_threads * n_space + n_slabs * n_sums
    cdef void* memory = allocate(
        n_doubles * sizeof(double) + n_threads * sizeof(Workspace), 1)
    cdef double* scratch = <double*> aligned(memory)
    cdef double* sums = scratch + n_threads * n_space
    cdef Workspace* spaces = <Workspace*> (scratch + n_doubles)
    cdef Evidence part
    for slab in range(n_threads):
        spaces[slab] = plan
        place(&system, most, scratch + slab * n_space, spaces + slab)
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        walk(
            &system, rows, &offsets[0], first_block(slab, n_slabs, S),
            first_block(slab + 1, n_slabs, S), start_state, spaces + omp_get_thread_num(), wanted,
            out, NULL if total == NULL else sums + slab * n_sums)
    if total != NULL:
        for slab in range(n_slabs):
            part = evidence_at(sums + slab * n_sums, k, d)
            add_evidence(total, &part)
    free(memory)
    return 0


def filtered(
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    ndarray predicted,              # OUT (n, k), or empty; and so all that follows
    ndarray predicted_covariances,  # OUT (n, k, k)
    ndarray means,                  # OUT (n, k)
    ndarray covariances,            # OUT (n, k, k)
    ndarray log_densities,          # OUT (n,)
    ndarray log_likelihoods,        # OUT (S,), never empty
    int n_threads,
):
    """Moments of the states given the rows before, and up to, each; log p(v_t | past)."""
    cdef Wanted wanted
    cdef Py_ssize_t n = extent(X, 0)
    memset(&wanted, 0, sizeof(Wanted))
    wanted.predicted = optional_writable(predicted, n * k)
    wanted.predicted_covariances = optional_writable(predicted_covariances, n * k * k)
    wanted.filtered = optional_writable(means, n * k)
    wanted.filtered_covariances = optional_writable(covariances, n * k * k)
    wanted.log_densities = optional_writable(log_densities, n)
    run(system, k, X, offsets, start, &wanted, log_likelihoods, NULL, n_threads)


def smoothed(
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    ndarray means,                  # OUT (n, k)
    ndarray covariances,            # OUT (n, k, k), or empty
    ndarray lags,                   # INOUT (n, k, k), or empty: all but the sequences' first rows
    ndarray filled,                 # OUT (n, d), or empty: gaps filled by expectation
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Moments of the states given all rows."""
    cdef Wanted wanted
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1)
    memset(&wanted, 0, sizeof(Wanted))
    wanted.smoothed = writable(means, n * k)
    wanted.covariances = optional_writable(covariances, n * k * k)
    wanted.lags = optional_writable(lags, n * k * k)
    wanted.filled = optional_writable(filled, n * d)
    run(system, k, X, offsets, start, &wanted, log_likelihoods, NULL, n_threads)


def expected(
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    ndarray noise,                  # IN (n, k) to draw states with, or empty to average over them
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows of which something is seen, k + d
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Sums over rows of expected moments."""
    cdef Wanted wanted
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1)
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d)
    memset(&wanted, 0, sizeof(Wanted))
    wanted.noise = optional_readable(noise, n * k)
    run(system, k, X, offsets, start, &wanted, log_likelihoods, &total, n_threads)
