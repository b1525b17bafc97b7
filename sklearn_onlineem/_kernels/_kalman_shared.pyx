"""Kalman filter and smoother of sequences without gaps, which share covariances and gains.

Arrays of the system are padded, as in `_kalman`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from numpy cimport NPY_FLOAT, ndarray

from ._arrays cimport extent, readable, readable_reals, real_type, writable
from ._kalman_evidence cimport (
    Evidence,
    Moments,
    add_evidence,
    evidence_at,
    evidence_size,
    moments_at,
    moments_size,
    no_evidence,
)
from ._memory cimport aligned, allocate, padded
from ._openmp cimport omp_get_thread_num

cdef extern from "_kalman_shared.h" nogil:
    ctypedef struct System:
        Py_ssize_t k, W
        const double* At
        const double* A
        const double* b
        const double* Q
    ctypedef struct Update:
        double* X
        double* M_upper
        double* M_inverse
        double* work
    ctypedef struct Tables:
        Py_ssize_t n
        double* filtered
        double* root
        double* gain
        double* rest
        double* log_det
    enum: N_SUMS
    Py_ssize_t row_size(Py_ssize_t W)
    void add_usage(
        const System* system, const double* weights, Py_ssize_t T, Py_ssize_t n, double* state,
        double* next, double* moved, Moments* totals)
    bint tabulate(
        const System* system, const double* G, double* covariance, Py_ssize_t n, Update* update,
        double* work, double* now_memory, double* next_memory, Tables* tables)
    double sum_log_dets(const Tables* tables, Py_ssize_t T)
    void add_covariances(
        const Tables* tables, Py_ssize_t T, double count, Py_ssize_t k, Py_ssize_t W,
        double* work, double* sums)
    ctypedef struct Sight:
        Py_ssize_t d
        const double* offset
        const double* whitening
        const double* seen
        const double* seen_t
        const double* G
    ctypedef struct Shared:
        const System* system
        const Tables* tables
        const Sight* sight
        const double* start
        const void* X
        int is_float
        const double* centre
    ctypedef struct Part:
        Py_ssize_t S
        const int64_t* begins
        const int64_t* lengths
        const int64_t* order
    Py_ssize_t work_size(
        const Part* part, Py_ssize_t n_tables, Py_ssize_t k, Py_ssize_t W, Py_ssize_t d)
    void expect_part(
        const Shared* shared, const Part* part, double* work, double* squares, Evidence* evidence)


cdef int read_tables(Tables* tables, tuple arrays, Py_ssize_t W) except -1:
    filtered, root, gain, rest, log_det = arrays
    cdef Py_ssize_t n = extent(log_det, 0)
    tables.n = n
    tables.filtered, tables.root = writable(filtered, n * W * W), writable(root, n * W * W)
    tables.gain, tables.rest = writable(gain, n * W * W), writable(rest, n * W * W)
    tables.log_det = writable(log_det, n)
    return 0


cdef int read_moves(System* system, Py_ssize_t k, tuple moves) except -1:
    A, At, b, Q = moves
    cdef Py_ssize_t W = extent(A, 0)
    memset(system, 0, sizeof(System))
    system.k, system.W = k, W
    system.A, system.At = readable(A, W * W), readable(At, W * W)
    system.b, system.Q = readable(b, W), readable(Q, W * W)
    return 0


def fill_tables(
    Py_ssize_t k,
    tuple moves,            # IN A, A' (W, W), b (W,), Q (W, W)
    ndarray G,              # IN (W, W): C' R^-1 C
    ndarray covariance,     # INOUT (W, W): before the first row; overwritten
    tuple arrays,           # OUT (n, W, W) filtered, root, gain, rest; (n,) log_det
):
    """Number of steps that are tabulated, and whether the last one stands for all that follow."""
    cdef System system
    cdef Tables tables
    cdef Update update
    cdef Py_ssize_t W = extent(G, 0)
    cdef const double* precision = readable(G, W * W)
    cdef double* state = writable(covariance, W * W)
    cdef bint at_rest
    read_moves(&system, k, moves)
    read_tables(&tables, arrays, W)
    cdef Py_ssize_t n_scratch = 2 * row_size(W) + 11 * W * W + W
    cdef void* memory = allocate(n_scratch, sizeof(double))
    cdef double* rows = <double*> aligned(memory)
    memset(rows, 0, n_scratch * sizeof(double))
    update.work = rows + 2 * row_size(W)
    update.X = update.work + 2 * W * W
    update.M_upper = update.X + W * W
    update.M_inverse = update.M_upper + W * W
    with nogil:
        at_rest = tabulate(
            &system, precision, state, tables.n, &update, update.M_inverse + W, rows,
            rows + row_size(W), &tables)
        free(memory)
    return tables.n, at_rest


def covariances(
    Py_ssize_t k,
    tuple arrays,                   # IN (n, W, W) filtered, root, gain, rest; (n,) log_det
    const int64_t[::1] lengths,     # IN (L,), distinct
    const int64_t[::1] counts,      # IN (L,), numbers of sequences
    ndarray sums,                   # INOUT (5, W, W): of first, departing, arriving and seen
                                    #  states, and of an arriving with its departing one
):
    """Adds the sums over all rows of smoothed covariances; returns that of log-determinants."""
    cdef Py_ssize_t W = extent(sums, 1), i
    cdef double log_det = 0.0
    cdef Tables tables
    read_tables(&tables, arrays, W)
    cdef double* out = writable(sums, N_SUMS * W * W)
    cdef void* memory = allocate((N_SUMS + 3) * W * W, sizeof(double))
    with nogil:
        for i in range(lengths.shape[0]):
            log_det += counts[i] * sum_log_dets(&tables, lengths[i])
            add_covariances(
                &tables, lengths[i], <double> counts[i], k, W, <double*> aligned(memory), out)
        free(memory)
    return log_det


def expected(
    Py_ssize_t k,
    tuple moves,                    # IN A, A' (W, W), b (W,), Q (W, W)
    tuple arrays,                   # IN (n, W, W) filtered, root, gain, rest; (n,) log_det
    tuple sight,                    # IN offset (d,), L'^-1 (d, d) where R = L L', H = L^-1 C
                                    #  (d, W), H' (W, d), H' H (W, W)
    ndarray start,                  # IN (W,): mean of the first state
    ndarray X,                      # IN (n_rows, d): floats or doubles
    const int64_t[::1] begins,      # IN (S,): first rows of sequences
    const int64_t[::1] lengths,     # IN (S,)
    const int64_t[::1] order,       # IN (S,): sequences by part, and by falling length in each
    const int64_t[::1] bounds,      # IN (P + 1,): where parts begin in `order`
    ndarray centre,                 # IN (d,): what deviations of rows are from
    ndarray initial,                # OUT weight, mean (k,), scatter (k, k): of first states;
    ndarray transitions,            # OUT of states and those after them, 2 k variables;
    ndarray emissions,              # OUT of states and rows, k + d; but what their scatter says of
                                    #  the rows alone has no meaning
    int n_threads,                  # IN
):
    """Moments of smoothed means; returns the sum of squared innovations."""
    cdef System system
    cdef Tables tables
    cdef Sight seen
    cdef Shared shared
    cdef Py_ssize_t W = extent(start, 0), d = extent(X, 1), P = bounds.shape[0] - 1, p
    cdef Py_ssize_t n_sums = 1 + evidence_size(k, d), n_work = 0
    cdef int type = real_type(X)
    offset, whitening, H, Ht, G = sight
    read_moves(&system, k, moves)
    read_tables(&tables, arrays, W)
    seen.d, seen.offset, seen.whitening = d, readable(offset, d), readable(whitening, d * d)
    seen.seen, seen.seen_t = readable(H, d * W), readable(Ht, W * d)
    seen.G = readable(G, W * W)
    shared.system, shared.tables, shared.sight = &system, &tables, &seen
    shared.start, shared.centre = readable(start, W), readable(centre, d)
    shared.X, shared.is_float = readable_reals(X, extent(X, 0) * d, type), type == NPY_FLOAT
    cdef double squares = 0.0
    cdef Evidence total = no_evidence(initial, transitions, emissions, k, d), one
    cdef Part part
    for p in range(P):
        part = part_at(begins, lengths, order, bounds, p)
        n_work = max(n_work, padded(work_size(&part, tables.n, k, W, d), sizeof(double)))
    cdef void* memory = allocate(n_threads * n_work + P * n_sums, sizeof(double))
    cdef double* work = <double*> aligned(memory)
    cdef double* sums = work + n_threads * n_work
    for p in prange(P, nogil=True, schedule="dynamic", num_threads=n_threads,
                    use_threads_if=n_threads > 1):
        expect_one(
            &shared, part_at(begins, lengths, order, bounds, p),
            work + omp_get_thread_num() * n_work, sums + p * n_sums, d)
    for p in range(P):
        squares += sums[p * n_sums]
        one = evidence_at(sums + p * n_sums + 1, k, d)
        add_evidence(&total, &one)
    free(memory)
    return squares


cdef Part part_at(
    const int64_t[::1] begins, const int64_t[::1] lengths, const int64_t[::1] order,
    const int64_t[::1] bounds, Py_ssize_t p
) noexcept nogil:
    cdef Part part
    part.S = bounds[p + 1] - bounds[p]
    part.begins, part.lengths, part.order = &begins[0], &lengths[0], &order[bounds[p]]
    return part


cdef void expect_one(
    const Shared* shared, Part part, double* work, double* sums, Py_ssize_t d
) noexcept nogil:
    cdef Evidence evidence = evidence_at(sums + 1, shared.system.k, d)
    expect_part(shared, &part, work, sums, &evidence)


def usage(
    Py_ssize_t k,
    tuple moves,            # IN A, A' (W, W), b (W,), Q (W, W)
    ndarray start,          # IN (W + W * W,): moments of the first state
    ndarray weights,        # IN (n, T)
    ndarray totals,         # OUT (n, 1 + W + W * W): of each, weight, mean and scatter
):
    """Sums over steps of the moments of states under the model, with weights."""
    cdef System system
    read_moves(&system, k, moves)
    cdef Py_ssize_t W = system.W, n = extent(weights, 0), T = extent(weights, 1), i
    cdef Py_ssize_t n_state = W + W * W, n_total = moments_size(W)
    cdef const double* first = readable(start, n_state)
    cdef const double* weight = readable(weights, n * T)
    cdef double* out = writable(totals, n * n_total)
    cdef void* memory = allocate(2 * n_state + W * W + n * sizeof(Moments), sizeof(double))
    cdef double* state = <double*> aligned(memory)
    cdef Moments* sums = <Moments*> (state + 2 * n_state + W * W)
    memset(out, 0, n * n_total * sizeof(double))
    memcpy(state, first, n_state * sizeof(double))
    for i in range(n):
        sums[i] = moments_at(out + i * n_total, W)
    with nogil:
        add_usage(
            &system, weight, T, n, state, state + n_state, state + 2 * n_state, sums)
        free(memory)
