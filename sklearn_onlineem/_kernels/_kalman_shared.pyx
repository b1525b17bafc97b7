"""Kalman filter and smoother of sequences without gaps, which share covariances and gains.

Arrays of the system are padded, as in `_kalman`.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memset
from numpy cimport ndarray

from ._arrays cimport extent, readable, writable
from ._memory cimport aligned, allocate

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
    bint tabulate(
        const System* system, const double* G, double* covariance, Py_ssize_t n, Update* update,
        double* work, double* now_memory, double* next_memory, Tables* tables)
    void add_covariances(
        const Tables* tables, Py_ssize_t T, double count, Py_ssize_t k, Py_ssize_t W,
        double* work, double* sums)
    ctypedef struct Sight:
        Py_ssize_t d, D
        const double* offset
        const double* weights
        const double* emission
        const double* whitening
        const double* G
    double smooth_means(
        const System* system, const Tables* tables, const Sight* sight, const double* start,
        const double* X, const int64_t* begins, const int64_t* lengths, Py_ssize_t S,
        double* predicted, double* means)


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
    ndarray sums,                   # INOUT (5, W, W): as in `_kalman.expected`
):
    """Adds the sums over all rows of smoothed covariances."""
    cdef Py_ssize_t W = extent(sums, 1), i
    cdef Tables tables
    read_tables(&tables, arrays, W)
    cdef double* out = writable(sums, N_SUMS * W * W)
    cdef void* memory = allocate((N_SUMS + 3) * W * W, sizeof(double))
    with nogil:
        for i in range(lengths.shape[0]):
            add_covariances(
                &tables, lengths[i], <double> counts[i], k, W, <double*> aligned(memory), out)
        free(memory)


def means(
    Py_ssize_t k,
    tuple moves,                    # IN A, A' (W, W), b (W,), Q (W, W)
    tuple arrays,                   # IN (n, W, W) filtered, root, gain, rest; (n,) log_det
    tuple sight,                    # IN offset (d,), R^-1 C (D, W), C' (W, D), L'^-1 (D, D) where
                                    #  R = L L', C' R^-1 C (W, W); d is padded to D
    ndarray start,                  # IN (W,): mean of the first state
    ndarray X,                      # IN (n_rows, d)
    const int64_t[::1] begins,      # IN (S,): first rows of sequences, in order of falling length
    const int64_t[::1] lengths,     # IN (S,)
    ndarray predicted,              # OUT (n_rows, W): scratch
    ndarray smoothed,               # OUT (n_rows, W)
):
    """Smoothed means; returns the sum of squared innovations."""
    cdef System system
    cdef Tables tables
    cdef Sight seen
    cdef Py_ssize_t n = extent(X, 0), d = extent(X, 1), W = extent(smoothed, 1)
    offset, weights, emission, whitening, G = sight
    cdef Py_ssize_t D = extent(whitening, 0)
    read_moves(&system, k, moves)
    read_tables(&tables, arrays, W)
    seen.d, seen.D = d, D
    seen.offset, seen.weights = readable(offset, d), readable(weights, D * W)
    seen.emission, seen.whitening = readable(emission, W * D), readable(whitening, D * D)
    seen.G = readable(G, W * W)
    cdef const double* first = readable(start, W)
    cdef const double* rows = readable(X, n * d)
    cdef double* before = writable(predicted, n * W)
    cdef double* out = writable(smoothed, n * W)
    cdef double squares
    with nogil:
        squares = smooth_means(
            &system, &tables, &seen, first, rows, &begins[0], &lengths[0], lengths.shape[0],
            before, out)
    return squares
