"""Kalman filter and smoother of sequences without missing values: covariances and gains are shared.

Arrays of the system are padded, as in `_kalman`.
"""

cdef extern from *:
    # Before the headers below, which would take half as many: fewer steps, of more work each.
    """
    #define LANES 16
    """

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memset
from numpy cimport NPY_FLOAT, ndarray

from ._arena cimport (
    Arena, allocate, allocate_doubles, arena_of, counting_arena, take, take_arenas, take_doubles,
)
from ._arrays cimport (
    extent, optional_writable, readable, readable_integers, readable_reals, real_type, require,
    writable,
)
from ._kalman_sums cimport (
    Evidence, Moments, add_evidence, clear_moments, lay_out_slabs, moments_at, moments_size,
    no_evidence,
)
from ._openmp cimport busy_threads, omp_get_thread_num

from _kalman_gains_h cimport (
    MOST_FORGETTING, CovarianceSums, GainTables, Occupancy, Tabulation, add_covariances,
    add_occupancy, lay_out_covariance_sums, lay_out_occupancy, lay_out_tabulation,
    steps_until_forgotten, sum_log_dets, tabulate,
)
from _kalman_shared_h cimport (
    MOST_STATES, ObservationMaps, Shared, Slab, SlabSpace, count_stretches, cut_stretch,
    expect_slab, lay_out_slab,
)
from _kalman_steps_h cimport System, padded_width
from _kalman_sums_h cimport N_SUMS, add_unpadded
from _small_matrices_h cimport LANES, pad, pad_square, transpose_square

# Sequences of which a batch is made.
SEQUENCES_PER_BATCH = LANES
# Largest number of padded states.
WIDEST = MOST_STATES


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


cdef int read_maps(ObservationMaps* maps, tuple arrays, Py_ssize_t k, Py_ssize_t W) except -1:
    offset, whitening, Ht, G = arrays
    cdef Py_ssize_t d = extent(offset, 0), n = extent(whitening, 1)
    require(min(k, d) <= n <= d, "whitened values that depend on the state, at least")
    maps.d, maps.offset = d, readable(offset, d)
    maps.n_whitened, maps.whitening = n, readable(whitening, d * n)
    maps.Ht, maps.G = readable(Ht, W * W), readable(G, W * W)
    return 0


def fill_tables(
    ndarray Ht,             # IN (W, W): as of the maps of `expected`
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
    cdef Arena arena = counting_arena()
    lay_out_covariance_sums(W, &arena)
    cdef void* memory = allocate(&arena)
    cdef CovarianceSums scratch = lay_out_covariance_sums(W, &arena)
    with nogil:
        for i in range(lengths.shape[0]):
            log_det += counts[i] * sum_log_dets(&gains, lengths[i])
            add_covariances(&gains, lengths[i], <double> counts[i], k, W, &scratch, out)
        free(memory)
    return log_det


# Memory of a pass over all slabs.
cdef struct Memory:
    char* threads
    double* squares         # (n_slabs,)
    Evidence* evidence      # (n_slabs,)


cdef Memory lay_out(
    Py_ssize_t k, Py_ssize_t d, const Arena* counted, int n_threads, Py_ssize_t n_slabs,
    Arena* arena,
) noexcept nogil:
    cdef Memory memory
    memory.threads = take_arenas(arena, n_threads, counted)
    memory.squares = take_doubles(arena, n_slabs)
    memory.evidence = lay_out_slabs(n_slabs, k, d, arena)
    return memory


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


cdef double pass_over_slab(
    const Shared* shared, Slab slab, Arena arena, const Evidence* evidence
) noexcept nogil:
    cdef SlabSpace space = lay_out_slab(shared, &slab, &arena)
    return expect_slab(shared, &slab, &space, evidence)


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


def expected(
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
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows, k + d; but what their scatter says of
                                    #  the rows alone has no meaning
    ndarray firsts,                 # OUT (S, k), or empty: smoothed means of the first states
    ndarray log_densities,          # OUT (n_rows,), or empty: log p(row | past)
    int n_threads,
):
    """Moments of smoothed means; returns the sum of squares of innovations, as far as whitened."""
    cdef System system
    cdef GainTables gains
    cdef ObservationMaps observation
    cdef Shared shared
    cdef Py_ssize_t W = extent(start, start.ndim - 1), d = extent(X, 1), n_slabs, i
    cdef int type = real_type(X)
    cdef double squares = 0.0
    read_moves(&system, k, moves)
    require(system.W == W <= MOST_STATES and n_threads > 0,
            "the moves have the width of the start; threads")
    check_slabs(begins, lengths, order, bounds, extent(X, 0))
    read_tables(&gains, tables, W)
    read_maps(&observation, maps, k, W)
    require(observation.d == d, "the maps are of the columns of X")
    shared.system, shared.tables, shared.maps = &system, &gains, &observation
    shared.start_step = W if start.ndim > 1 else 0
    shared.start = readable(start, W * begins.shape[0] if shared.start_step else W)
    shared.centre = readable(centre, d)
    shared.firsts = optional_writable(firsts, k * begins.shape[0])
    shared.log_det, shared.smooths = log_det, smooths
    shared.log_densities = optional_writable(log_densities, extent(X, 0))
    shared.X, shared.is_float = readable_reals(X, extent(X, 0) * d, type), type == NPY_FLOAT
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d)
    require(reach >= 0, "a reach of rows")
    n_slabs = cut_slabs(begins, lengths, order, bounds, gains.n, reach, NULL)
    n_threads = busy_threads(n_threads, n_slabs)
    cdef Arena arena = counting_arena()
    take(&arena, n_slabs, sizeof(Slab))
    cdef void* list_of_slabs = allocate(&arena)
    cdef Slab* slabs = <Slab*> take(&arena, n_slabs, sizeof(Slab))
    cut_slabs(begins, lengths, order, bounds, gains.n, reach, slabs)
    cdef Arena counted = count_slab(&shared, slabs, n_slabs)
    arena = counting_arena()
    lay_out(k, d, &counted, n_threads, n_slabs, &arena)
    cdef void* scratch
    try:
        scratch = allocate(&arena)
    except MemoryError:
        free(list_of_slabs)
        raise
    cdef Memory memory = lay_out(k, d, &counted, n_threads, n_slabs, &arena)
    for i in prange(n_slabs, nogil=True, schedule="dynamic", num_threads=n_threads,
                    use_threads_if=n_threads > 1):
        memory.squares[i] = pass_over_slab(
            &shared, slabs[i],
            arena_of(memory.threads, omp_get_thread_num(), &counted), memory.evidence + i)
    for i in range(n_slabs):
        squares += memory.squares[i]
        if smooths:
            add_evidence(memory.evidence + i, &total)
    free(scratch)
    free(list_of_slabs)
    return squares


# A system's transitions and the moments of a state, padded; the rest is scratch memory.
cdef struct Moves:
    System system
    Occupancy occupancy


cdef Moves lay_out_moves(Py_ssize_t k, Arena* arena) noexcept nogil:
    cdef Moves moves
    cdef Py_ssize_t W = padded_width(k)
    memset(&moves.system, 0, sizeof(System))
    moves.system.k, moves.system.W = k, W
    moves.system.A, moves.system.At = take_doubles(arena, W * W), take_doubles(arena, W * W)
    moves.system.b, moves.system.Q = take_doubles(arena, W), take_doubles(arena, W * W)
    moves.occupancy = lay_out_occupancy(W, arena)
    return moves


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
    lay_out_moves(k, &arena)
    cdef void* memory = allocate(&arena)
    cdef Moves moves = lay_out_moves(k, &arena)
    cdef System* system = &moves.system
    cdef Occupancy* occupancy = &moves.occupancy
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
        add_occupancy(system, end, weight, R, occupancy)
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
        steps = steps_until_forgotten(
            k, W, memory, memory + n * W * W, memory + (n + 1) * W * W)
        free(memory)
    return steps
