"""Kalman filter and Rauch-Tung-Striebel smoother of sequences, any of whose values may be missing.

Rows of all sequences lie one after the other; `offsets` says where each begins, and NaN stands for
what is missing. Arrays of the system are padded: k states to W (see `width`).
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport ndarray

from ._arena cimport Arena, allocate, arena_of, counting_arena, take, take_arenas
from ._arrays cimport extent, optional_readable, optional_writable, readable, require, writable
from ._kalman_sums cimport Evidence, add_evidence, lay_out_evidence, no_evidence
from ._openmp cimport MOST_SLABS, first_block, is_interrupted, omp_get_thread_num, raise_waiting

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
    ctypedef struct Sums:
        pass
    ctypedef struct Outputs:
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
        Py_ssize_t first
    ctypedef struct Workspace:
        double* predicted
        Sums sums
        int (*look)() noexcept
        volatile int* is_over
    Py_ssize_t padded_width(Py_ssize_t k)
    Py_ssize_t state_size(Py_ssize_t W)
    void start_sums(
        Py_ssize_t k, Py_ssize_t W, Py_ssize_t d, const Evidence* total, Sums* sums)
    void finish_sums(Py_ssize_t k, Py_ssize_t W, Py_ssize_t d, Sums* sums)
    Workspace* lay_out_workspace(const System* system, Py_ssize_t longest, Arena* arena)
    void clear_workspace(const System* system, Workspace* space)
    double kalman_sequence(
        const System* system, const double* X, Py_ssize_t T, Workspace* space,
        const Outputs* outputs)

cdef extern from "_kalman_batches.h" nogil:
    enum:
        LANES
    ctypedef struct BatchSpace:
        Py_ssize_t T
        const double** rows
        Py_ssize_t* lengths
    bint fit_batches(Py_ssize_t k, Py_ssize_t d, Py_ssize_t longest, Py_ssize_t n)
    BatchSpace* lay_out_batch(
        const System* system, Py_ssize_t longest, Py_ssize_t n, Arena* arena)
    void clear_batch(const System* system, BatchSpace* space)
    void start_batches(const System* system, const Evidence* total, BatchSpace* space)
    void expect_batch(
        const System* system, const double* start, bint smooths, BatchSpace* space,
        double** log_densities, double* log_likelihoods)
    void finish_batches(const System* system, BatchSpace* space)


def width(Py_ssize_t k):
    """What k states are padded to."""
    return padded_width(k)


# What a pass over all sequences has in its memory.
cdef struct Memory:
    Arena counted           # what a thread needs
    char* threads
    Workspace** spaces      # (n_threads,)
    Evidence* slabs         # (n_slabs,): the sums of each; no array if they are not wanted


cdef Memory lay_out(
    const System* system, Py_ssize_t longest, int n_threads, Py_ssize_t n_slabs, Arena* arena
) noexcept nogil:
    cdef Memory memory
    cdef Evidence evidence
    cdef Arena own
    cdef Py_ssize_t i
    memory.counted = counting_arena()
    lay_out_workspace(system, longest, &memory.counted)
    memory.threads = take_arenas(arena, n_threads, &memory.counted)
    memory.spaces = <Workspace**> take(arena, n_threads, sizeof(Workspace*))
    memory.slabs = <Evidence*> take(arena, n_slabs, sizeof(Evidence))
    for i in range(n_slabs):
        evidence = lay_out_evidence(system.k, system.d, arena)
        if memory.slabs != NULL:
            memory.slabs[i] = evidence
    if memory.threads != NULL:
        for i in range(n_threads):
            own = arena_of(memory.threads, i, &memory.counted)
            memory.spaces[i] = lay_out_workspace(system, longest, &own)
            clear_workspace(system, memory.spaces[i])
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
    lay_out(&system, most, n_threads, n_sums, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Memory memory = lay_out(&system, most, n_threads, n_sums, &arena)
    cdef volatile int is_over = False
    for slab in range(n_threads):
        memory.spaces[slab].look, memory.spaces[slab].is_over = look, &is_over
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_slab(
            &system, rows, &offsets[0], first_block(slab, n_slabs, S),
            first_block(slab + 1, n_slabs, S), start_state, memory.spaces[omp_get_thread_num()],
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

# What a pass over batches has in its memory.
cdef struct BatchMemory:
    char* threads
    BatchSpace** spaces     # (n_threads,)
    Evidence* slabs         # (n_slabs,)


cdef BatchMemory lay_out_batches(
    const System* system, Py_ssize_t longest, Py_ssize_t n, int n_threads, Py_ssize_t n_slabs,
    Arena* arena,
) noexcept nogil:
    cdef BatchMemory memory
    cdef Evidence evidence
    cdef Arena counted = counting_arena(), own
    cdef Py_ssize_t i
    lay_out_batch(system, longest, n, &counted)
    memory.threads = take_arenas(arena, n_threads, &counted)
    memory.spaces = <BatchSpace**> take(arena, n_threads, sizeof(BatchSpace*))
    memory.slabs = <Evidence*> take(arena, n_slabs, sizeof(Evidence))
    for i in range(n_slabs):
        evidence = lay_out_evidence(system.k, system.d, arena)
        if memory.slabs != NULL:
            memory.slabs[i] = evidence
    if memory.threads != NULL:
        for i in range(n_threads):
            own = arena_of(memory.threads, i, &counted)
            memory.spaces[i] = lay_out_batch(system, longest, n, &own)
            clear_batch(system, memory.spaces[i])
    return memory


cdef void pass_over_batches(
    const System* system, const double* X, const int64_t* offsets, const int64_t* order,
    Py_ssize_t S, Py_ssize_t begin, Py_ssize_t stop, const double* start, BatchSpace* space,
    bint smooths, double* log_densities, double* log_likelihoods, const Evidence* evidence,
) noexcept nogil:
    """Batches from begin to stop, of sequences in an order of falling length."""
    cdef double* of_rows[LANES]
    cdef double of_sequences[LANES]
    cdef Py_ssize_t batch, lane, n, s
    start_batches(system, evidence, space)
    for batch in range(begin, stop):
        n = min(LANES, S - batch * LANES)
        for lane in range(LANES):
            s = order[batch * LANES + (lane if lane < n else 0)]
            space.rows[lane] = X + offsets[s] * system.d
            space.lengths[lane] = offsets[s + 1] - offsets[s] if lane < n else 0
            of_rows[lane] = log_densities + offsets[s] if log_densities != NULL else NULL
        space.T = space.lengths[0]
        expect_batch(
            system, start, smooths, space, NULL if log_densities == NULL else of_rows,
            of_sequences)
        for lane in range(n):
            log_likelihoods[order[batch * LANES + lane]] = of_sequences[lane]
    finish_batches(system, space)


def are_batched(Py_ssize_t k, Py_ssize_t d, const int64_t[::1] offsets):
    """Whether sequences are to be passed to `expected_in_batches`."""
    cdef Py_ssize_t S = offsets.shape[0] - 1
    return fit_batches(k, d, longest(&offsets[0], S), S)


def expected_in_batches(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    const int64_t[::1] order,       # IN (S,): sequences by falling length
    tuple system,                   # IN A, A', b, Q, C, d, R: padded
    Py_ssize_t k,                   # states
    ndarray start,                  # IN (W + W * W,): moments that sequences start from
    bint smooths,                   # whether moments are wanted
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows that are not all missing, k + d
    ndarray log_densities,          # OUT (n,), or empty: log p(v_t | past)
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Sums over rows of expected moments, of sequences that are elements of vectors."""
    cdef System arrays
    cdef Py_ssize_t n = extent(X, 0), S = offsets.shape[0] - 1, slab, s
    read_system(&arrays, k, system)
    cdef Py_ssize_t d = arrays.d, most = longest(&offsets[0], S)
    require(n == offsets[S] and extent(X, 1) == d and n_threads > 0, "rows of the system; threads")
    require(order.shape[0] == S and fit_batches(k, d, most, S), "sequences in an order")
    for s in range(S):
        require(0 <= order[s] < S, "the order is of the sequences")
        require(s == 0 or offsets[order[s] + 1] - offsets[order[s]]
                <= offsets[order[s - 1] + 1] - offsets[order[s - 1]], "lengths fall")
    cdef const double* rows = readable(X, n * d)
    cdef const double* first = readable(start, state_size(arrays.W))
    cdef double* of_rows = optional_writable(log_densities, n)
    cdef double* out = writable(log_likelihoods, S)
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d)
    cdef Py_ssize_t n_batches = (S + LANES - 1) // LANES, n_slabs = min(MOST_SLABS, n_batches)
    n_threads = min(n_threads, n_slabs)
    cdef Arena arena = counting_arena()
    lay_out_batches(&arrays, most, n, n_threads, n_slabs, &arena)
    cdef void* scratch = allocate(&arena)
    cdef BatchMemory memory = lay_out_batches(&arrays, most, n, n_threads, n_slabs, &arena)
    for slab in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                       use_threads_if=n_threads > 1):
        pass_over_batches(
            &arrays, rows, &offsets[0], &order[0], S, first_block(slab, n_slabs, n_batches),
            first_block(slab + 1, n_slabs, n_batches), first,
            memory.spaces[omp_get_thread_num()], smooths, of_rows, out, memory.slabs + slab)
    for slab in range(n_slabs):
        add_evidence(memory.slabs + slab, &total)
    free(scratch)
