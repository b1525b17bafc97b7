"""Smoothed noise of linear systems whose variables are independent, from exact diffuse starts.

The noise is all that has to be known of states where its variances alone are learnt. Sequences have
the same gaps, and share covariances; values of a row are read one by one.
"""

from libc.stdlib cimport free
from numpy cimport ndarray

from ._arena cimport Arena, allocate, counting_arena
from ._arrays cimport extent, readable, readable_integers, require, writable

from _disturbances_h cimport (
    NoiseSpace, NoiseTask, filter_noise, lay_out_noise, smooth_noise, solve_noise, start_noise,
)


cdef Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    return 4 if n <= 4 else (n + 7) // 8 * 8


def smoothed_noise(
    ndarray X,                      # IN (T, d, S): rows of S sequences, with NaN in all or none
    tuple system,                   # IN transitions: A (k, k), offset (k,), variances (k,); rows:
                                    #  C (d, k), offset (d,), variances (d,), above 0
    tuple first,                    # IN mean (k,), covariance (k, k); 0 of diffuse variables
    ndarray diffuse,                # IN (q,): these variables; the rows determine them
    ndarray of_states,              # INOUT (k,): expected squares of noise of the S (T - 1)
                                    #  transitions are added
    ndarray of_rows,                # INOUT (d,): and those of observed values
    ndarray log_likelihoods,        # INOUT (S,): those of the sequences are added
):
    """Add expected squares of independent noise given all rows, and log-likelihoods."""
    cdef NoiseTask task
    A, b, Q, C, offset, R = system
    task.T, task.d, task.S = extent(X, 0), extent(X, 1), extent(X, 2)
    task.k, task.q = extent(of_states, 0), extent(diffuse, 0)
    require(task.T > 0 and task.d > 0 and task.S > 0 and task.k > 0, "rows; columns; states")
    task.W, task.M = padded(task.k), padded(task.q + task.S)
    task.X = readable(X, task.T * task.d * task.S)
    task.A, task.b, task.Q = readable(A, task.k**2), readable(b, task.k), readable(Q, task.k)
    task.C, task.offset = readable(C, task.d * task.k), readable(offset, task.d)
    task.R, task.mean = readable(R, task.d), readable(first[0], task.k)
    task.covariance, task.diffuse = readable(first[1], task.k**2), NULL
    if task.q > 0:
        task.diffuse = readable_integers(diffuse, task.q)
    cdef double* states = writable(of_states, task.k)
    cdef double* rows = writable(of_rows, task.d)
    cdef double* sums = writable(log_likelihoods, task.S)
    cdef Arena arena = counting_arena()
    lay_out_noise(&task, &arena)
    cdef void* scratch = allocate(&arena)
    cdef NoiseSpace space = lay_out_noise(&task, &arena)
    with nogil:
        start_noise(&task, &space)
        filter_noise(&task, &space)
        solve_noise(&task, &space, sums)
        smooth_noise(&task, &space, states, rows)
    free(scratch)
