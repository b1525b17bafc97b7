"""Smoothed noise of linear systems whose variables are independent, from exact diffuse starts.

The noise is all that has to be known of states where its variances alone are learnt. Sequences have
the same gaps, and share covariances; values of a row are read one by one. So a climb over variances
is a few passes of this kernel.
"""

from libc.stdlib cimport free
from numpy cimport ndarray

from ._arena cimport Arena, allocate, counting_arena
from ._arrays cimport extent, readable, readable_integers, require, writable

from _disturbances_h cimport (
    Climb, NoiseSpace, NoiseTask, climb_noise, filter_noise, lay_out_climb, lay_out_noise,
    smooth_noise, solve_noise, start_noise,
)


cdef Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return 4 if n <= 4 else (n + 7) // 8 * 8


cdef NoiseTask task_of(ndarray X, tuple system, tuple first, ndarray diffuse) except *:
    """Return the task of the kernels below, without variances."""
    cdef NoiseTask task
    A, b, C, offset = system
    task.T, task.d, task.S = extent(X, 0), extent(X, 1), extent(X, 2)
    task.k, task.q = extent(b, 0), extent(diffuse, 0)
    require(task.T > 0 and task.d > 0 and task.S > 0 and task.k > 0, "rows; columns; states")
    task.W, task.M = padded(task.k), padded(task.q + task.S)
    task.X = readable(X, task.T * task.d * task.S)
    task.A, task.b = readable(A, task.k**2), readable(b, task.k)
    task.C, task.offset = readable(C, task.d * task.k), readable(offset, task.d)
    task.mean, task.covariance = readable(first[0], task.k), readable(first[1], task.k**2)
    task.diffuse = readable_integers(diffuse, task.q) if task.q > 0 else NULL
    return task


def smoothed_noise(
    ndarray X,                      # IN (T, d, S): rows of S sequences, with NaN in all or none
    tuple system,                   # IN transitions: A (k, k), offset (k,); rows: C (d, k), offset
                                    #  (d,)
    tuple first,                    # IN mean (k,), covariance (k, k); 0 of diffuse variables
    ndarray diffuse,                # IN (q,): these variables; the rows determine them
    ndarray variances,              # IN (k + d,): those of states and of rows, which are above 0
    ndarray squares,                # INOUT (k + d,): expected squares of noise of the S (T - 1)
                                    #  transitions, and of observed values, are added
    ndarray log_likelihoods,        # INOUT (S,): those of the sequences are added
):
    """Add expected squares of independent noise given all rows, and log-likelihoods."""
    cdef NoiseTask task = task_of(X, system, first, diffuse)
    task.Q = readable(variances, task.k + task.d)
    task.R = task.Q + task.k
    cdef double* found = writable(squares, task.k + task.d)
    cdef double* sums = writable(log_likelihoods, task.S)
    cdef Arena arena = counting_arena()
    lay_out_noise(&task, &arena)
    cdef void* scratch = allocate(&arena)
    cdef NoiseSpace space = lay_out_noise(&task, &arena)
    with nogil:
        start_noise(&task, &space)
        filter_noise(&task, &space)
        solve_noise(&task, &space, sums)
        smooth_noise(&task, &space, found, found + task.k)
    free(scratch)


def likeliest_noise(
    ndarray X,                      # IN, like the next three, as of smoothed_noise
    tuple system,
    tuple first,
    ndarray diffuse,
    ndarray variances,              # INOUT (k + d,): those at a maximum replace the learnt ones
    ndarray which,                  # IN (p,): the learnt ones, above 0
    ndarray counts,                 # IN (p,): of noise that has each
    ndarray added,                  # IN (p,): what M-steps add to each
):
    """Return how often the rows were read, and the gain that is still promised, in nats."""
    cdef NoiseTask task = task_of(X, system, first, diffuse)
    cdef Climb climb
    cdef Py_ssize_t n_read
    cdef double promised
    climb.p = extent(which, 0)
    climb.variances = writable(variances, task.k + task.d)
    task.Q, task.R = climb.variances, climb.variances + task.k
    climb.which = readable_integers(which, climb.p)
    climb.counts, climb.added = readable(counts, climb.p), readable(added, climb.p)
    for i in range(climb.p):
        require(0 <= climb.which[i] < task.k + task.d, "variances")
    cdef Arena arena = counting_arena()
    lay_out_noise(&task, &arena)
    lay_out_climb(&task, &climb, &arena)
    cdef void* scratch = allocate(&arena)
    cdef NoiseSpace space = lay_out_noise(&task, &arena)
    lay_out_climb(&task, &climb, &arena)
    with nogil:
        n_read = climb_noise(&task, &space, &climb, &promised)
    free(scratch)
    return n_read, promised
