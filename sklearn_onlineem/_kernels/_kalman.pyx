"""Kalman filter and Rauch-Tung-Striebel smoother of sequences, any of whose values may be missing.

Rows of all sequences lie one after the other; `offsets` says where each begins, and NaN stands for
what is missing. Arrays of the system are padded: k states to W (see `width`).
"""

cdef extern from *:
    # Before the headers below, which would take half as many: two vectors hide each other's waits.
    """
    #define LANES 16
    """

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport ndarray

from ._arena cimport Arena, allocate, arena_of, counting_arena, take, take_arenas
from ._arrays cimport extent, optional_readable, optional_writable, readable, require, writable
from ._kalman_sums cimport Evidence, add_evidence, lay_out_slabs, no_evidence
from ._openmp cimport MOST_SLABS, first_block, is_interrupted, omp_get_thread_num, raise_waiting

from _kalman_batches_h cimport (
    BatchSpace, border_size, clear_batch, expect_batch, finish_batches, lay_out_batch,
    most_batched, start_batches,
)
from _kalman_h cimport Outputs, Workspace, clear_workspace, kalman_sequence, lay_out_workspace
from _kalman_steps_h cimport System, padded_width, state_size
from _kalman_sums_h cimport finish_sums, start_sums
from _small_matrices_h cimport LANES


def width(Py_ssize_t k):
    """What k states are padded to."""
    return padded_width(k)


# What a pass has in its memory.
cdef struct Memory:
    void** spaces           # (n_threads,): each a Workspace, or a BatchSpace
    Evidence* slabs         # (n_slabs,): the sums of each; no array if they are not wanted


cdef void* lay_out_space(
    const System* system, Py_ssize_t longest, Py_ssize_t n_batched, Arena* arena
) noexcept nogil:
    """Of a thread: a Workspace, or a BatchSpace for so many rows in batches."""
    if n_batched > 0:
        return lay_out_batch(system, longest, n_batched, arena)
    return lay_out_workspace(system, longest, arena)


cdef Memory lay_out(
    const System* system, Py_ssize_t longest, Py_ssize_t n_batched, int n_threads,
    Py_ssize_t n_slabs, Arena* arena,
) noexcept nogil:
    cdef Memory memory
    cdef Arena counted = counting_arena(), own
    cdef Py_ssize_t i
    lay_out_space(system, longest, n_batched, &counted)
    cdef char* threads = take_arenas(arena, n_threads, &counted)
    memory.spaces = <void**> take(arena, n_threads, sizeof(void*))
    memory.slabs = lay_out_slabs(n_slabs, system.k, system.d, arena)
    for i in range(n_threads if threads != NULL else 0):
        own = arena_of(threads, i, &counted)
        memory.spaces[i] = lay_out_space(system, longest, n_batched, &own)
    return memory


cdef int read_system(System* system, Py_ssize_t k, tuple arrays) except -1:
    A, At, b, Q, C, offset, R = arrays
    cdef Py_ssize_t W = extent(A, 0), d = extent(offset, 0)
    require(0 < k and W == width(k) and d > 0, "states are padded to whole vectors")
    system.k, system.W, system.d = k, W, d
    system.A, system.At = readable(A, W * W), readable(At, W * W)
    system.b, system.Q = readable(b, W), readable(Q, W * W)
    system.C, system.R = readable(C, d * W), readable(R, d * d)
    system.offset = readable(offset, d)
    return 0


cdef void pass_over_slab(
    const System* system, const double* X, const int64_t* offsets, Py_ssize_t begin,
    Py_ssize_t stop, const double* start, Workspace* space, const Outputs* outputs,
    double* log_likelihoods, const Evidence* evidence,
) noexcept nogil:
    """Sequences from begin to stop; evidence <- that of them, unless it is NULL."""
    cdef Py_ssize_t s, k = system.k, W = system.W, d = system.d
    cdef Outputs here = outputs[0]
    if evidence != NULL:
        start_sums(k, W, d, evidence, &space.sums)
        here.sums = &space.sums
    for s in range(begin, stop):
        here.first = offsets[s]
        memcpy(space.predicted, start, state_size(W) * sizeof(double))
        log_likelihoods[s] = kalman_sequence(
            system, X + here.first * d, offsets[s + 1] - here.first, space, &here)
    if evidence != NULL:
        finish_sums(k, W, d, &space.sums)


cdef int look() noexcept nogil:
    """By the thread that Python called, which is the only one that may."""
    return omp_get_thread_num() == 0 and is_interrupted()


cdef Py_ssize_t longest(const int64_t* offsets, Py_ssize_t S) except -1:
    cdef Py_ssize_t s, most = 1
    require(S > 0 and offsets[0] == 0, "offsets of all rows")
    for s in range(S):
        require(offsets[s] < offsets[s + 1], "sequences have rows")
        most = max(most, offsets[s + 1] - offsets[s])
    return most


cdef int pass_over(
    ndarray X, const int64_t[::1] offsets, tuple system_arrays, Py_ssize_t k, ndarray start,
    const Outputs* outputs, ndarray log_likelihoods, Evidence* total, int n_threads,
) except -1:
    """`total` += sums over slabs of sequences, in order; NULL if not wanted."""
    cdef System system
    read_system(&system, k, system_arrays)
    cdef Py_ssize_t S = offsets.shape[0] - 1, n_slabs = min(MOST_SLABS, S), slab
    cdef Py_ssize_t n_sums = 0 if total == NULL else n_slabs, most = longest(&offsets[0], S)
    require(extent(X, 1) == system.d and n_threads > 0, "columns of the system; threads")
    cdef const double* rows = readable(X, offsets[S] * system.d)
    cdef const double* start_state = readable(start, state_size(system.W))
    cdef double* out = writable(log_likelihoods, S)
    n_threads = min(n_threads, n_slabs)
    cdef Arena arena = counting_arena()
    lay_out(&system, most, 0, n_threads, n_sums, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(&system, most, 0, n_threads, n_sums, &arena)
    cdef Workspace** spaces = <Workspace**> memory.spaces
    cdef volatile int is_over = False
    for slab in range(n_threads):
        clear_workspace(&system, spaces[slab])
        spaces[slab].look, spaces[slab].is_over = look, &is_over
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_slab(
            &system, rows, &offsets[0], first_block(slab, n_slabs, S),
            first_block(slab + 1, n_slabs, S), start_state, spaces[omp_get_thread_num()],
            outputs, out, NULL if total == NULL else memory.slabs + slab)
    for slab in range(n_sums):
        add_evidence(memory.slabs + slab, total)
    free(scratch)
    return raise_waiting() if is_over else 0


def filtered(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,                   # states
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
    cdef Outputs outputs
    cdef Py_ssize_t n = extent(X, 0)
    memset(&outputs, 0, sizeof(Outputs))
    outputs.predicted = optional_writable(predicted, n * k)
    outputs.predicted_covariances = optional_writable(predicted_covariances, n * k * k)
    outputs.filtered = optional_writable(means, n * k)
    outputs.filtered_covariances = optional_writable(covariances, n * k * k)
    outputs.log_densities = optional_writable(log_densities, n)
    pass_over(X, offsets, system, k, start, &outputs, log_likelihoods, NULL, n_threads)


def smoothed(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,                   # states
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    ndarray means,                  # OUT (n, k)
    ndarray covariances,            # OUT (n, k, k), or empty
    ndarray lags,                   # INOUT (n, k, k), or empty: all but the sequences' first rows
    ndarray filled,                 # OUT (n, d), or empty: missing values imputed
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Moments of the states given all rows."""
    cdef Outputs outputs
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1)
    memset(&outputs, 0, sizeof(Outputs))
    outputs.smoothed = writable(means, n * k)
    outputs.covariances = optional_writable(covariances, n * k * k)
    outputs.lags = optional_writable(lags, n * k * k)
    outputs.filled = optional_writable(filled, n * d)
    pass_over(X, offsets, system, k, start, &outputs, log_likelihoods, NULL, n_threads)


def expected(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,                   # states
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    ndarray noise,                  # IN (n, k) to draw states with, or empty to average over them
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows that are not all missing, k + d
    ndarray log_densities,          # OUT (n,), or empty: log p(v_t | past)
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Sums over rows of expected moments."""
    cdef Outputs outputs
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1)
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d)
    memset(&outputs, 0, sizeof(Outputs))
    outputs.noise = optional_readable(noise, n * k)
    outputs.log_densities = optional_writable(log_densities, n)
    pass_over(X, offsets, system, k, start, &outputs, log_likelihoods, &total, n_threads)


# Side by side
# ------------

# Segments of rows, in an order of falling length: whole sequences, or parts of one.
cdef struct Segments:
    Py_ssize_t S
    const int64_t* begins
    const int64_t* lengths
    const int64_t* froms
    const int64_t* untils
    double* borders         # (S, 2, ...), or NULL


cdef void pass_over_batches(
    const System* system, const double* X, Segments segments, Py_ssize_t begin, Py_ssize_t stop,
    const double* start, BatchSpace* space, bint smooths, double* log_densities,
    double* log_likelihoods, const Evidence* evidence,
) noexcept nogil:
    """Batches from begin to stop."""
    cdef double* of_rows[LANES]
    cdef double of_segments[LANES]
    cdef Py_ssize_t batch, lane, n, s, size = 2 * border_size(system.k)
    start_batches(system, evidence, space)
    for batch in range(begin, stop):
        n = min(LANES, segments.S - batch * LANES)
        for lane in range(LANES):
            s = batch * LANES + (lane if lane < n else 0)
            space.rows[lane] = X + segments.begins[s] * system.d
            space.lengths[lane] = segments.lengths[s] if lane < n else 0
            space.since[lane] = segments.froms[s] if lane < n else 0
            space.until[lane] = segments.untils[s] if lane < n else 0
            space.borders[lane] = NULL
            if segments.borders != NULL and lane < n:
                space.borders[lane] = segments.borders + s * size
            of_rows[lane] = log_densities + segments.begins[s] if log_densities != NULL else NULL
        space.T = space.lengths[0]
        expect_batch(
            system, start, smooths, space, NULL if log_densities == NULL else of_rows,
            of_segments)
        for lane in range(n):
            log_likelihoods[batch * LANES + lane] = of_segments[lane]
    finish_batches(system, space)


SEQUENCES_PER_BATCH = LANES


def longest_batched(Py_ssize_t k, Py_ssize_t d):
    """Rows of the longest segments that `expected_in_batches` takes; 0: none."""
    return most_batched(k, d)


def expected_in_batches(
    ndarray X,                      # IN (n, d)
    const int64_t[:, ::1] parts,    # IN (4, S): begins and lengths of segments, first rows of each
                                    #  that count, and the ones after; lengths fall
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,                   # states
    ndarray start,                  # IN (W + W * W,): moments that segments start from
    bint smooths,                   # whether moments are wanted
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows that are not all missing, k + d
    ndarray borders,                # OUT (S, 2, 2, k + k * k), or empty: moments of the first rows
                                    #  that count, and of those after the last: means predicted
                                    #  with roots of covariances, and smoothed with covariances
    ndarray log_densities,          # OUT (n,), or empty: log p(v_t | past)
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Sums over rows of expected moments, of segments that are elements of vectors."""
    cdef System arrays
    cdef Segments segments
    cdef Py_ssize_t n = extent(X, 0), S = parts.shape[1], slab, s, most
    read_system(&arrays, k, system)
    cdef Py_ssize_t d = arrays.d
    require(parts.shape[0] == 4 and S > 0 and extent(X, 1) == d and n_threads > 0,
            "segments of rows of the system; threads")
    most = parts[1, 0]
    require(most <= most_batched(k, d), "segments have room")
    for s in range(S):
        require(0 <= parts[0, s] < n and 0 < parts[1, s] <= n - parts[0, s],
                "segments are of rows of X")
        require(parts[1, s] <= parts[1, max(0, s - 1)], "lengths fall")
        require(0 <= parts[2, s] < parts[3, s] <= parts[1, s], "what counts is of a segment")
    segments.S, segments.begins, segments.lengths = S, &parts[0, 0], &parts[1, 0]
    segments.froms, segments.untils = &parts[2, 0], &parts[3, 0]
    segments.borders = optional_writable(borders, S * 2 * border_size(k))
    cdef const double* rows = readable(X, n * d)
    cdef const double* first = readable(start, state_size(arrays.W))
    cdef double* of_rows = optional_writable(log_densities, n)
    cdef double* out = writable(log_likelihoods, S)
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d)
    cdef Py_ssize_t n_batches = (S + LANES - 1) // LANES, n_slabs = min(MOST_SLABS, n_batches)
    n_threads = min(n_threads, n_slabs)
    cdef Arena arena = counting_arena()
    lay_out(&arrays, most, n, n_threads, n_slabs, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(&arrays, most, n, n_threads, n_slabs, &arena)
    cdef BatchSpace** spaces = <BatchSpace**> memory.spaces
    cdef volatile int is_over = False
    for slab in range(n_threads):
        clear_batch(&arrays, spaces[slab])
        spaces[slab].look, spaces[slab].is_over = look, &is_over
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_batches(
            &arrays, rows, segments, first_block(slab, n_slabs, n_batches),
            first_block(slab + 1, n_slabs, n_batches), first,
            spaces[omp_get_thread_num()], smooths, of_rows, out, memory.slabs + slab)
    for slab in range(n_slabs):
        add_evidence(memory.slabs + slab, &total)
    free(scratch)
    return raise_waiting() if is_over else None
