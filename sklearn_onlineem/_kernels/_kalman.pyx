"""Kalman filter and Rauch-Tung-Striebel smoother of sequences, any of whose values may be missing.

Rows of all sequences lie one after the other; `offsets` says where each begins, and NaN stands for
what is missing. Arrays of the system are padded: k states to W (see `width`). Sequences without
missing values share covariances and gains.
"""

cdef extern from *:
    # Before the headers below, which would take half as many: two vectors hide each other's waits.
    """
    #define LANES 16
    """

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport NPY_FLOAT, ndarray

from ._arena cimport (
    Arena, allocate, allocate_doubles, arena_of, counting_arena, free, take, take_arenas,
)
from ._arrays cimport (
    extent, longest_of, optional_readable, optional_writable, readable, readable_integers,
    readable_reals, real_type, require, writable,
)
from ._openmp cimport (
    MOST_SLABS, Slabs, busy_threads, first_block, is_interrupted, lay_out_slabs,
    omp_get_thread_num, raise_waiting, slabs_of, walk_blocks,
)

from _kalman_batches_h cimport (
    BatchSpace, border_size, clear_batch, expect_batch, finish_batches, lay_out_batch, most_batched,
    start_batches,
)
from _kalman_gains_h cimport (
    MOST_FORGETTING, GainTables, Occupancy, Tabulation, add_covariances,
    add_occupancy, lay_out_occupancy, lay_out_tabulation,
    steps_until_forgotten, sum_log_dets, tabulate,
)
from _kalman_h cimport Outputs, Workspace, clear_workspace, kalman_sequence, lay_out_workspace
from _kalman_shared_h cimport (
    MOST_STATES, Shared, Slab, SlabSpace, count_stretches, cut_stretch,
    expect_slab, lay_out_slab,
)
from _kalman_steps_h cimport System, Watch, state_size, take_all_gap_sums
from _kalman_sums_h cimport (
    N_SUMS, Evidence, Moments, add_evidence, add_unpadded, clear_moments, finish_sums,
    lay_out_evidence, moments_at, moments_size, start_sums,
)
from _simd_h cimport padded_width
from _small_matrices_h cimport LANES, pad, pad_square, transpose_square

# Sequences of which a batch is made.
SEQUENCES_PER_BATCH = LANES
# Largest number of padded states where gains are shared.
WIDEST = MOST_STATES


def width(Py_ssize_t k):
    """What k states are padded to."""
    return padded_width(k)


# OUT: weight, mean (n,) and scatter (n, n), one after the other; set to 0.
cdef Moments no_moments(ndarray array, Py_ssize_t n) except *:
    cdef Moments moments = moments_at(writable(array, moments_size(n)), n)
    clear_moments(&moments)
    return moments


# OUT: moments of first states, of states and those after them, and of states and rows that are not
# all missing.
cdef Evidence no_evidence(tuple sums, Py_ssize_t k, Py_ssize_t d) except *:
    cdef Evidence evidence
    initial, transitions, emissions = sums
    evidence.initial, evidence.transitions = no_moments(initial, k), no_moments(transitions, 2 * k)
    evidence.emissions = no_moments(emissions, k + d)
    return evidence


# Any value missing
# -----------------

# Sequences, or segments of them in an order of falling length; and what is wanted of them.
cdef struct Task:
    System system
    const double* X
    Py_ssize_t n, S, longest, start_step
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
    memory.slabs = lay_out_evidence(n_sums, task.system.k, task.system.d, arena)
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
    task.X, task.start = readable(X, task.n * d), of_rows(start, state_size(W), S, &task.start_step)
    task.log_likelihoods = writable(log_likelihoods, S)
    return 0


cdef bint varies(const System* system) noexcept nogil:
    """Whether rows have systems of their own, of which nothing is summed."""
    return (system.A_step or system.b_step or system.C_step or system.offset_step) != 0


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
        memcpy(space.predicted, task.start + s * task.start_step,
               state_size(system.W) * sizeof(double))
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


def filter_pass(
    ndarray X,                      # IN (n, d)
    const int64_t[::1] offsets,     # IN (S + 1,)
    tuple system,                   # IN A, A', b, Q, C, d, R: padded; or one a row, but Q and R
    Py_ssize_t k,                   # states
    ndarray start,                  # IN (W + W * W,): moments that sequences start from; or
                                    #  (S, W + W * W), those of each
    tuple rows,                     # OUT of each row, None or empty where not wanted: predicted
                                    #  (n, k), their covariances (n, k, k); filtered, theirs;
                                    #  log p(v_t | past) (n,); smoothed, theirs; INOUT lag-one
                                    #  covariances (n, k, k) of all but the sequences' first rows;
                                    #  rows (n, d) whose missing values are imputed
    ndarray noise,                  # IN (n, k) to draw states with, or None to average over them
    tuple sums,                     # OUT as of `no_evidence`, with one system; or None
    ndarray log_likelihoods,        # OUT (S,)
    int n_threads,
):
    """Moments of the states given the rows before, up to and beyond each; sums over rows of these.
    """
    cdef Task task
    cdef Outputs* outputs = &task.outputs
    cdef Evidence total
    cdef Py_ssize_t n = extent(X, 0)
    predicted, predicted_covariances, filtered, filtered_covariances, *others = rows
    log_densities, smoothed, covariances, lags, filled = others
    read_task(&task, X, system, k, start, log_likelihoods, offsets.shape[0] - 1)
    task.offsets = &offsets[0]
    task.longest = longest_of(task.offsets, offsets.shape[0], task.S, n)
    outputs.predicted = optional_writable(predicted, n * k)
    outputs.predicted_covariances = optional_writable(predicted_covariances, n * k * k)
    outputs.filtered = optional_writable(filtered, n * k)
    outputs.filtered_covariances = optional_writable(filtered_covariances, n * k * k)
    outputs.log_densities = optional_writable(log_densities, n)
    outputs.smoothed = optional_writable(smoothed, n * k)
    outputs.covariances = optional_writable(covariances, n * k * k)
    outputs.lags = optional_writable(lags, n * k * k)
    outputs.filled = optional_writable(filled, n * task.system.d)
    outputs.noise = optional_readable(noise, n * k)
    if sums is not None:
        require(not varies(&task.system), "one system")
        total = no_evidence(sums, k, task.system.d)
    pass_over(&task, NULL if sums is None else &total, n_threads)


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
    tuple sums,                     # OUT as of `no_evidence`
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
    require(parts.shape[0] == 4 and not varies(&task.system) and not task.start_step,
            "segments of rows; one system; one start")
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
    cdef Evidence total = no_evidence(sums, k, task.system.d)
    pass_over(&task, &total, n_threads)


# No value missing: covariances and gains are tabulated
# ----------------------------------------------------

cdef int read_tables(GainTables* tables, tuple arrays, Py_ssize_t W) except -1:
    filtered, move, root, gain, rest, log_det = arrays
    cdef Py_ssize_t n = extent(log_det, 0)
    require(n > 0, "steps of a table")
    tables.n = n
    tables.filtered, tables.move = writable(filtered, n * W * W), writable(move, n * W * W)
    tables.root = writable(root, n * W * W)
    tables.gain, tables.rest = writable(gain, n * W * W), writable(rest, n * W * W)
    tables.log_det = writable(log_det, n)
    return 0


cdef int read_moves(System* system, Py_ssize_t k, tuple moves) except -1:
    A, At, b, Q = moves
    cdef Py_ssize_t W = extent(A, 0)
    require(0 < k <= W, "states are padded to whole vectors")
    memset(system, 0, sizeof(System))
    system.k, system.W = k, W
    system.A, system.At = readable(A, W * W), readable(At, W * W)
    system.b, system.Q = readable(b, W), readable(Q, W * W)
    return 0


def fill_tables(
    ndarray Ht,             # IN (W, W): as of the maps of `expected_by_tables`
    tuple moves,            # IN A, A' (W, W), b (W,), Q (W, W)
    Py_ssize_t k,           # states
    ndarray covariance,     # INOUT (W, W): before the first row; overwritten
    tuple tables,           # OUT (n, W, W) filtered, move, root, gain, rest; (n,) log_det
):
    """Number of steps that are tabulated, and whether the last one stands for all that follow."""
    cdef System system
    cdef GainTables out
    cdef Py_ssize_t W = extent(Ht, 0)
    cdef const double* observation = readable(Ht, W * W)
    cdef double* state = writable(covariance, W * W)
    cdef bint is_steady
    read_moves(&system, k, moves)
    require(system.W == W, "the moves have the width of Ht")
    read_tables(&out, tables, W)
    cdef Arena arena = counting_arena()
    lay_out_tabulation(W, &arena)
    cdef void* memory = allocate(&arena)
    cdef Tabulation scratch = lay_out_tabulation(W, &arena)
    with nogil:
        is_steady = tabulate(&system, observation, out.n, &scratch, state, &out)
        free(memory)
    return out.n, is_steady


def covariances(
    const int64_t[::1] lengths,     # IN (L,), distinct
    const int64_t[::1] counts,      # IN (L,), numbers of sequences
    tuple tables,                   # IN (n, W, W) filtered, move, root, gain, rest; (n,) log_det
    Py_ssize_t k,                   # states
    ndarray sums,                   # INOUT (5, W, W): of first, departing, arriving and emitting
                                    #  states, and of an arriving with its departing one
):
    """Adds the sums over all rows of smoothed covariances; returns that of log-determinants."""
    cdef Py_ssize_t W = extent(sums, 1), i
    cdef double log_det = 0.0
    cdef GainTables gains
    read_tables(&gains, tables, W)
    require(0 < k <= W and counts.shape[0] == lengths.shape[0], "a count for each length")
    cdef double* out = writable(sums, N_SUMS * W * W)
    cdef double* work = allocate_doubles((N_SUMS + 3) * W * W)
    with nogil:
        for i in range(lengths.shape[0]):
            log_det += counts[i] * sum_log_dets(&gains, lengths[i])
            add_covariances(&gains, lengths[i], <double> counts[i], k, W, work, out)
        free(work)
    return log_det


cdef struct Pass:
    const Shared* shared
    const Slab* slabs
    Evidence* evidence      # (n_slabs,)


cdef Arena count_slab(const Shared* shared, const Slab* slabs, Py_ssize_t n_slabs) noexcept nogil:
    """What a thread needs for the largest slab."""
    cdef Arena most = counting_arena(), arena
    cdef Py_ssize_t i
    for i in range(n_slabs):
        arena = counting_arena()
        lay_out_slab(shared, slabs + i, &arena)
        most.used = max(most.used, arena.used)
    return most


cdef Py_ssize_t cut_slabs(
    const int64_t[::1] begins, const int64_t[::1] lengths, const int64_t[::1] order,
    const int64_t[::1] bounds, Py_ssize_t n_tables, Py_ssize_t reach, Slab* slabs,
) noexcept nogil:
    """slabs <- those within bounds, long sequences cut; returns their number, also for NULL."""
    cdef Py_ssize_t n = 0, i, j, n_stretches
    cdef Slab slab
    memset(&slab, 0, sizeof(Slab))
    slab.begins, slab.lengths = &begins[0], &lengths[0]
    for i in range(bounds.shape[0] - 1):
        slab.S, slab.order = bounds[i + 1] - bounds[i], &order[bounds[i]]
        n_stretches = 0
        if slab.S == 1:
            n_stretches = count_stretches(lengths[slab.order[0]], n_tables, reach)
        for j in range(n_stretches + 1):
            if slabs != NULL:
                slabs[n + j] = slab
                if n_stretches > 0:
                    slabs[n + j] = cut_stretch(slab, j, n_stretches, n_tables, reach)
        n += n_stretches + 1
    return n


cdef double expect_by_tables(
    const void* of, Arena arena, Py_ssize_t i, Py_ssize_t _n, double* _sums
) noexcept nogil:
    cdef const Pass* all = <const Pass*> of
    cdef SlabSpace space = lay_out_slab(all.shared, all.slabs + i, &arena)
    return expect_slab(all.shared, all.slabs + i, &space, all.evidence + i)


cdef int check_slabs(
    const int64_t[::1] begins, const int64_t[::1] lengths, const int64_t[::1] order,
    const int64_t[::1] bounds, Py_ssize_t n_rows,
) except -1:
    cdef Py_ssize_t S = lengths.shape[0], n_slabs = bounds.shape[0] - 1, s
    cdef int64_t end = 0
    require(n_slabs > 0 and begins.shape[0] == S and order.shape[0] == S
            and bounds[0] == 0 and bounds[n_slabs] == S, "slabs of all sequences")
    for s in range(n_slabs):
        require(bounds[s] < bounds[s + 1], "slabs have sequences")
    for s in range(S):
        require(0 <= order[s] < S, "the order is of the sequences")
        require(begins[s] == end and 0 < lengths[s] <= n_rows - end, "sequences are of rows of X")
        end += lengths[s]
    return require(end == n_rows, "sequences have all rows of X")


def expected_by_tables(
    ndarray X,                      # IN (n_rows, d): floats or doubles
    const int64_t[::1] begins,      # IN (S,): first rows of sequences
    const int64_t[::1] lengths,     # IN (S,)
    const int64_t[::1] order,       # IN (S,): sequences by slab, and by falling length in each
    const int64_t[::1] bounds,      # IN (n_slabs + 1,): where slabs begin in `order`
    ndarray centre,                 # IN (d,): what deviations of rows are from
    tuple moves,                    # IN A, A' (W, W), b (W,), Q (W, W)
    Py_ssize_t k,                   # states
    tuple tables,                   # IN (n, W, W) filtered, move, root, gain, rest; (n,) log_det
    tuple maps,                     # IN offset (d,), L'^-1 O (d, d) where R = L L' and O is a
                                    #  rotation, or its first k columns, H' (W, W) where H is
                                    #  O' L^-1 C, 0 after k rows, and H' H (W, W)
    ndarray start,                  # IN (W,): mean of the first state; or (S, W), that of each
    Py_ssize_t reach,               # rows after which a pass in the steady state has forgotten its
                                    #  start; 0: none
    double log_det,                 # of 2 pi R
    bint smooths,                   # whether moments are wanted
    tuple sums,                     # OUT as of `no_evidence`; but what the scatter of emissions
                                    #  says of the rows alone has no meaning
    ndarray firsts,                 # OUT (S, k), or empty: smoothed means of the first states
    ndarray log_densities,          # OUT (n_rows,), or empty: log p(row | past)
    int n_threads,
):
    """Moments of smoothed means; returns the sum of squares of innovations, as far as whitened."""
    cdef Shared shared
    cdef Py_ssize_t W = extent(start, start.ndim - 1), d = extent(X, 1), n_slabs, i
    cdef int type = real_type(X)
    cdef double squares
    read_moves(&shared.system, k, moves)
    require(shared.system.W == W <= MOST_STATES and n_threads > 0,
            "the moves have the width of the start; threads")
    check_slabs(begins, lengths, order, bounds, extent(X, 0))
    read_tables(&shared.tables, tables, W)
    offset, whitening, Ht, G = maps
    shared.d, shared.n_whitened = d, extent(whitening, 1)
    require(min(k, d) <= shared.n_whitened <= d,
            "whitened values that depend on the state, at least")
    shared.offset, shared.Ht = readable(offset, d), readable(Ht, W * W)
    shared.whitening, shared.G = readable(whitening, d * shared.n_whitened), readable(G, W * W)
    shared.start_step = W if start.ndim > 1 else 0
    shared.start = readable(start, W * begins.shape[0] if shared.start_step else W)
    shared.centre = readable(centre, d)
    shared.firsts = optional_writable(firsts, k * begins.shape[0])
    shared.log_det, shared.smooths = log_det, smooths
    shared.log_densities = optional_writable(log_densities, extent(X, 0))
    shared.X, shared.is_float = readable_reals(X, extent(X, 0) * d, type), type == NPY_FLOAT
    cdef Evidence total = no_evidence(sums, k, d)
    require(reach >= 0, "a reach of rows")
    n_slabs = cut_slabs(begins, lengths, order, bounds, shared.tables.n, reach, NULL)
    cdef char[::1] memory = bytearray(n_slabs * sizeof(Slab))
    cdef Slab* slabs = <Slab*> &memory[0]
    cut_slabs(begins, lengths, order, bounds, shared.tables.n, reach, slabs)
    cdef Slabs walked = slabs_of(n_slabs, 1, n_slabs, busy_threads(n_threads, n_slabs))
    cdef Arena counted = count_slab(&shared, slabs, n_slabs), arena = counting_arena()
    lay_out_slabs(&walked, &counted, 0, &arena)
    lay_out_evidence(n_slabs, k, d, &arena)
    cdef void* scratch = allocate(&arena)
    cdef Pass all
    walked = lay_out_slabs(&walked, &counted, 0, &arena)
    all.shared, all.slabs = &shared, slabs
    all.evidence = lay_out_evidence(n_slabs, k, d, &arena)
    with nogil:
        squares = walk_blocks(&walked, expect_by_tables, &all)
        for i in range(n_slabs if smooths else 0):
            add_evidence(all.evidence + i, &total)
        free(scratch)
    return squares


def add_occupancies(
    ndarray ends,           # IN (R,), increasing from above 0: steps in runs of equal weights
    ndarray weights,        # IN (R,): of the steps of each run
    ndarray A,              # IN (k, k)
    ndarray b,              # IN (k,)
    ndarray Q,              # IN (k, k)
    ndarray mean,           # IN (k,): of the first state
    ndarray covariance,     # IN (k, k)
    ndarray leaving,        # INOUT weight, mean (k,), scatter (k, k)
    ndarray emitting,       # INOUT likewise
):
    """Add the moments of states under the model.

    Emitting ones have the weights of their steps, and those that are left by a transition that of
    the step after, without the last one.
    """
    cdef Py_ssize_t k = extent(b, 0), R = extent(weights, 0), W
    require(k > 0 and R > 0, "states and steps")
    cdef const int64_t* end = readable_integers(ends, R)
    cdef const double* weight = readable(weights, R)
    cdef const double* matrix = readable(A, k * k)
    cdef const double* offset = readable(b, k)
    cdef const double* noise = readable(Q, k * k)
    cdef const double* first_mean = readable(mean, k)
    cdef const double* first_covariance = readable(covariance, k * k)
    cdef Moments left = moments_at(writable(leaving, moments_size(k)), k)
    cdef Moments emitted = moments_at(writable(emitting, moments_size(k)), k)
    cdef Arena arena = counting_arena()
    lay_out_occupancy(k, &arena)
    cdef void* memory = allocate(&arena)
    cdef Occupancy occupancy = lay_out_occupancy(k, &arena)
    cdef System* system = &occupancy.system
    with nogil:
        W = system.W
        pad_square(matrix, k, W, <double*> system.A)
        transpose_square(system.A, W, <double*> system.At)
        pad(offset, k, W, <double*> system.b)
        pad_square(noise, k, W, <double*> system.Q)
        pad(first_mean, k, W, occupancy.state)
        pad_square(first_covariance, k, W, occupancy.state + W)
        clear_moments(&occupancy.leaving)
        clear_moments(&occupancy.emitting)
        add_occupancy(end, weight, R, &occupancy)
        add_unpadded(&occupancy.leaving, k, &left)
        add_unpadded(&occupancy.emitting, k, &emitted)
        free(memory)


def forgetting_steps(
    ndarray form,   # IN (k, k): what a step makes of an error
):
    """First power of a matrix that is nothing beside 1, or 0 if it is too far."""
    cdef Py_ssize_t k = extent(form, 0), W = padded_width(k), n = MOST_FORGETTING + 1, steps
    cdef const double* matrix = readable(form, k * k)
    cdef double* memory = allocate_doubles((n + 2) * W * W)
    with nogil:
        pad_square(matrix, k, W, memory)
        steps = steps_until_forgotten(k, W, memory, memory + n * W * W, memory + (n + 1) * W * W)
        free(memory)
    return steps
