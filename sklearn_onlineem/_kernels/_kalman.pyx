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
    BatchSpace, border_size, clear_batch, expect_batch, finish_batches, lay_out_batch, most_batched,
    start_batches,
)
from _kalman_h cimport Outputs, Workspace, clear_workspace, kalman_sequence, lay_out_workspace
from _kalman_steps_h cimport System, Watch, padded_width, state_size, take_all_gap_sums
from _kalman_sums_h cimport finish_sums, start_sums
from _small_matrices_h cimport LANES


def width(Py_ssize_t k):
    """What k states are padded to."""
    return padded_width(k)


# Sequences, or segments of them in an order of falling length; and what is wanted of them.
cdef struct Task:
    System system
    const double* X
    Py_ssize_t n, S, longest
    const double* start
    Outputs outputs
    double* log_likelihoods
    # For sequences one by one:
    const int64_t* offsets
    # For segments side by side, which are whole sequences or parts of one:
    const int64_t* begins
    const int64_t* lengths
    const int64_t* froms
    const int64_t* untils
    double* borders         # (S, 2, ...), or NULL
    bint smooths


# Memory of a pass.
cdef struct Memory:
    void** spaces           # (n_threads,): each a Workspace, or a BatchSpace
    Evidence* slabs         # (n_slabs,): the sums of each; no array if they are not wanted


cdef void* lay_out_space(const Task* task, Arena* arena) noexcept nogil:
    """Of a thread: a Workspace, or a BatchSpace."""
    if task.offsets == NULL:
        return lay_out_batch(&task.system, task.longest, task.n, arena)
    return lay_out_workspace(&task.system, task.longest, task.n, arena)


cdef Memory lay_out(
    const Task* task, int n_threads, Py_ssize_t n_sums, Arena* arena
) noexcept nogil:
    cdef Memory memory
    cdef Arena counted = counting_arena(), own
    cdef Py_ssize_t i
    lay_out_space(task, &counted)
    cdef char* threads = take_arenas(arena, n_threads, &counted)
    memory.spaces = <void**> take(arena, n_threads, sizeof(void*))
    memory.slabs = lay_out_slabs(n_sums, task.system.k, task.system.d, arena)
    for i in range(n_threads if threads != NULL else 0):
        own = arena_of(threads, i, &counted)
        memory.spaces[i] = lay_out_space(task, &own)
    return memory


cdef const double* of_rows(
    ndarray values, Py_ssize_t size, Py_ssize_t n, Py_ssize_t* step
) except NULL:
    """Values that all n rows share, or those of each, which lie a step apart."""
    step[0] = size if values.size != size else 0
    return readable(values, n * size if step[0] else size)


cdef int read_task(
    Task* task, ndarray X, tuple arrays, Py_ssize_t k, ndarray start, ndarray log_likelihoods,
    Py_ssize_t S,
) except -1:
    A, At, b, Q, C, offset, R = arrays
    cdef Py_ssize_t W = padded_width(k), d = extent(X, 1), n = extent(X, 0)
    cdef System* system = &task.system
    memset(task, 0, sizeof(Task))
    require(0 < k and d > 0 and S > 0, "states; columns; sequences")
    system.k, system.W, system.d = k, W, d
    system.A = of_rows(A, W * W, n, &system.A_step)
    system.At = of_rows(At, W * W, n, &system.A_step)
    system.b, system.Q = of_rows(b, W, n, &system.b_step), readable(Q, W * W)
    system.C, system.R = of_rows(C, d * W, n, &system.C_step), readable(R, d * d)
    system.offset = of_rows(offset, d, n, &system.offset_step)
    task.n, task.S = n, S
    task.X, task.start = readable(X, task.n * d), readable(start, state_size(W))
    task.log_likelihoods = writable(log_likelihoods, S)
    return 0


cdef bint varies(const System* system) noexcept nogil:
    """Whether rows have systems of their own, of which nothing is summed."""
    return (system.A_step or system.b_step or system.C_step or system.offset_step) != 0


cdef int read_sequences(Task* task, const int64_t[::1] offsets) except -1:
    cdef Py_ssize_t s
    task.offsets = &offsets[0]
    require(offsets[0] == 0 and offsets[task.S] == task.n, "offsets of all rows")
    for s in range(task.S):
        require(offsets[s] < offsets[s + 1], "sequences have rows")
        task.longest = max(task.longest, offsets[s + 1] - offsets[s])
    return 0


cdef void pass_over_slab(
    const Task* task, Py_ssize_t begin, Py_ssize_t stop, Workspace* space, const Evidence* evidence
) noexcept nogil:
    """Sequences from begin to stop; evidence <- that of them, unless it is NULL."""
    cdef const System* system = &task.system
    cdef Py_ssize_t s
    cdef Outputs here = task.outputs
    if evidence != NULL:
        start_sums(system.k, system.W, system.d, evidence, &space.sums)
        here.sums = &space.sums
    for s in range(begin, stop):
        here.first = task.offsets[s]
        memcpy(space.predicted, task.start, state_size(system.W) * sizeof(double))
        task.log_likelihoods[s] = kalman_sequence(
            system, task.X + here.first * system.d, task.offsets[s + 1] - here.first, space, &here)
    if evidence != NULL:
        take_all_gap_sums(system, &space.patterns, &space.sums)
        finish_sums(system.k, system.W, system.d, &space.sums)


cdef void pass_over_batches(
    const Task* task, Py_ssize_t begin, Py_ssize_t stop, BatchSpace* space,
    const Evidence* evidence,
) noexcept nogil:
    """Batches from begin to stop."""
    cdef double* of_rows[LANES]
    cdef double of_segments[LANES]
    cdef double* log_densities = task.outputs.log_densities
    cdef Py_ssize_t batch, lane, n, s
    start_batches(&task.system, evidence, space)
    for batch in range(begin, stop):
        n = min(LANES, task.S - batch * LANES)
        for lane in range(LANES):
            s = batch * LANES + (lane if lane < n else 0)
            space.rows[lane] = task.X + task.begins[s] * task.system.d
            space.lengths[lane] = task.lengths[s] if lane < n else 0
            space.since[lane] = task.froms[s] if lane < n else 0
            space.until[lane] = task.untils[s] if lane < n else 0
            space.borders[lane] = NULL
            if task.borders != NULL and lane < n:
                space.borders[lane] = task.borders + s * 2 * border_size(task.system.k)
            of_rows[lane] = log_densities + task.begins[s] if log_densities != NULL else NULL
        space.T = space.lengths[0]
        expect_batch(
            &task.system, task.start, task.smooths, space,
            NULL if log_densities == NULL else of_rows, of_segments)
        for lane in range(n):
            task.log_likelihoods[batch * LANES + lane] = of_segments[lane]
    finish_batches(&task.system, space)


cdef int look() noexcept nogil:
    """By the thread that Python called, which is the only one that may."""
    return omp_get_thread_num() == 0 and is_interrupted()


cdef void clear_space(const Task* task, void* space, volatile int* is_over) noexcept nogil:
    cdef Watch* watch
    if task.offsets == NULL:
        clear_batch(&task.system, <BatchSpace*> space)
        watch = &(<BatchSpace*> space).watch
    else:
        clear_workspace(&task.system, <Workspace*> space)
        watch = &(<Workspace*> space).watch
    watch.look, watch.is_over = look, is_over


cdef void pass_over_part(
    const Task* task, Py_ssize_t begin, Py_ssize_t stop, void* space, const Evidence* evidence
) noexcept nogil:
    if task.offsets == NULL:
        pass_over_batches(task, begin, stop, <BatchSpace*> space, evidence)
    else:
        pass_over_slab(task, begin, stop, <Workspace*> space, evidence)


cdef int pass_over(const Task* task, Evidence* total, int n_threads) except -1:
    """`total` += sums over slabs, in order; NULL if not wanted."""
    cdef Py_ssize_t n = task.S if task.offsets != NULL else (task.S + LANES - 1) // LANES
    cdef Py_ssize_t n_slabs = min(MOST_SLABS, n), n_sums = 0 if total == NULL else n_slabs, slab
    require(n_threads > 0, "threads")
    n_threads = min(n_threads, n_slabs)
    cdef Arena arena = counting_arena()
    lay_out(task, n_threads, n_sums, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(task, n_threads, n_sums, &arena)
    cdef volatile int is_over = False
    for slab in range(n_threads):
        clear_space(task, memory.spaces[slab], &is_over)
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_part(
            task, first_block(slab, n_slabs, n), first_block(slab + 1, n_slabs, n),
            memory.spaces[omp_get_thread_num()], NULL if total == NULL else memory.slabs + slab)
    for slab in range(n_sums):
        add_evidence(memory.slabs + slab, total)
    free(scratch)
    return raise_waiting() if is_over else 0


def filtered(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded; or one a row, but Q and R
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
    cdef Task task
    cdef Outputs* outputs = &task.outputs
    cdef Py_ssize_t n = extent(X, 0)
    read_task(&task, X, system, k, start, log_likelihoods, offsets.shape[0] - 1)
    read_sequences(&task, offsets)
    outputs.predicted = optional_writable(predicted, n * k)
    outputs.predicted_covariances = optional_writable(predicted_covariances, n * k * k)
    outputs.filtered = optional_writable(means, n * k)
    outputs.filtered_covariances = optional_writable(covariances, n * k * k)
    outputs.log_densities = optional_writable(log_densities, n)
    pass_over(&task, NULL, n_threads)


def smoothed(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded; as of `filtered`
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
    cdef Task task
    cdef Outputs* outputs = &task.outputs
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1)
    read_task(&task, X, system, k, start, log_likelihoods, offsets.shape[0] - 1)
    read_sequences(&task, offsets)
    outputs.smoothed = writable(means, n * k)
    outputs.covariances = optional_writable(covariances, n * k * k)
    outputs.lags = optional_writable(lags, n * k * k)
    outputs.filled = optional_writable(filled, n * d)
    pass_over(&task, NULL, n_threads)


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
    cdef Task task
    cdef Py_ssize_t n = extent(X, 0)
    read_task(&task, X, system, k, start, log_likelihoods, offsets.shape[0] - 1)
    read_sequences(&task, offsets)
    require(not varies(&task.system), "one system")
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, task.system.d)
    task.outputs.noise = optional_readable(noise, n * k)
    task.outputs.log_densities = optional_writable(log_densities, n)
    pass_over(&task, &total, n_threads)


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
    cdef Task task
    cdef Py_ssize_t n = extent(X, 0), S = parts.shape[1], s
    read_task(&task, X, system, k, start, log_likelihoods, S)
    require(parts.shape[0] == 4 and not varies(&task.system), "segments of rows; one system")
    task.longest, task.smooths = parts[1, 0], smooths
    require(task.longest <= most_batched(k, task.system.d), "segments have room")
    for s in range(S):
        require(0 <= parts[0, s] < n and 0 < parts[1, s] <= n - parts[0, s],
                "segments are of rows of X")
        require(parts[1, s] <= parts[1, max(0, s - 1)], "lengths fall")
        require(0 <= parts[2, s] < parts[3, s] <= parts[1, s], "what counts is of a segment")
    task.begins, task.lengths = &parts[0, 0], &parts[1, 0]
    task.froms, task.untils = &parts[2, 0], &parts[3, 0]
    task.borders = optional_writable(borders, S * 2 * border_size(k))
    task.outputs.log_densities = optional_writable(log_densities, n)
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, task.system.d)
    pass_over(&task, &total, n_threads)
