"""Smoothed noise of linear systems whose variables are independent, from exact diffuse starts.

The noise is all that has to be known of states where its variances alone are learnt; with its
products with states, coefficients of transitions are learnt as well. Sequences have the same gaps,
and share covariances; values of a row are read one by one. So a climb to the likeliest values is a
few passes of this kernel.
"""

from ._arena cimport Arena, allocate, counting_arena, free
from ._arrays cimport extent, ndarray, readable, readable_integers, require, writable

from _disturbances_h cimport (
    Climb, NoiseSpace, NoiseTask, add_squares_of_noise, climb_noise, copy_pairs, expect_noise,
    lay_out_climb, lay_out_noise,
)
from _simd_h cimport padded_width


cdef NoiseTask task_of(ndarray X, tuple system, tuple first, ndarray diffuse, int keeps) except *:
    """Return the task of the kernels below, without variances."""
    cdef NoiseTask task
    task.keeps = keeps
    A, b, C, offset = system
    task.T, task.d, task.S = extent(X, 0), extent(X, 1), extent(X, 2)
    task.k, task.q = extent(b, 0), extent(diffuse, 0)
    require(task.T > 0 and task.d > 0 and task.S > 0 and task.k > 0, "rows; columns; states")
    task.W, task.M = padded_width(task.k), padded_width(task.q + task.S)
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
    ndarray origin,                 # OUT (k,): a state that is subtracted from all others; None:
                                    #  pairs are not wanted
    ndarray pairs,                  # OUT (k, 2 k + 2): sums over transitions of E[e h'], E[h h'],
                                    #  E[h] and E[e], for states h before them and noise e in
                                    #  units of its variances
):
    """Add expected squares of independent noise given all rows, and log-likelihoods."""
    cdef NoiseTask task = task_of(X, system, first, diffuse, 0 if pairs is None else 2)
    task.Q = readable(variances, task.k + task.d)
    task.R = task.Q + task.k
    cdef double* found = writable(squares, task.k + task.d)
    cdef double* totals = writable(log_likelihoods, task.S)
    cdef double* centre = NULL if pairs is None else writable(origin, task.k)
    cdef double* wanted = NULL if pairs is None else writable(pairs, task.k * (2 * task.k + 2))
    cdef Arena arena = counting_arena()
    lay_out_noise(&task, &arena)
    cdef void* scratch = allocate(&arena)
    cdef NoiseSpace space = lay_out_noise(&task, &arena)
    with nogil:
        space.origin = space.origin if centre == NULL else centre
        expect_noise(&task, &space, totals)
        add_squares_of_noise(&task, space.slopes, found)
        if wanted != NULL:
            copy_pairs(&task, &space, wanted)
    free(scratch)


def likeliest_noise(
    ndarray X,                      # IN, like the next three, as of smoothed_noise
    tuple system,
    tuple first,
    ndarray diffuse,
    ndarray variances,              # INOUT (k + d,): those at a maximum replace the learnt ones
    ndarray places,                 # IN (k + d,): which of p learnt ones each is, or -1
    tuple learnt,                   # IN (p,): their counts of noise, and what M-steps add to each;
                                    #  directions (m, k, k) in which A changes, and the covariance
                                    #  (m, m) of these coefficients given complete data
    ndarray values,                 # INOUT (p + m,): roots of learnt variances, and coefficients
    ndarray derivatives,            # OUT (p + m, p + m): of slopes, in rows, by logarithms of
                                    #  variances and by coefficients. Slopes are derivatives of the
                                    #  log-likelihood, by variances times 2
    Py_ssize_t most,                # IN: evaluations of the climb
):
    """Return how often the rows were read, and the gain that is still promised, in nats."""
    counts, added, directions, covariance = learnt
    cdef NoiseTask task = task_of(X, system, first, diffuse, 1 if extent(directions, 0) > 0 else 0)
    cdef Climb climb
    climb.p, climb.most = extent(counts, 0), most
    climb.n = climb.p + extent(directions, 0)
    climb.variances = writable(variances, task.k + task.d)
    task.Q, task.R = climb.variances, climb.variances + task.k
    climb.places = readable_integers(places, task.k + task.d)
    climb.counts, climb.added = readable(counts, climb.p), readable(added, climb.p)
    for i in range(task.k + task.d):
        require(-1 <= climb.places[i] < climb.p, "places")
    climb.start = task.A
    climb.directions = readable(directions, (climb.n - climb.p) * task.k**2)
    climb.covariance = readable(covariance, (climb.n - climb.p)**2)
    climb.values = writable(values, climb.n)
    climb.derivatives = writable(derivatives, climb.n**2)
    cdef Arena arena = counting_arena()
    lay_out_noise(&task, &arena)
    lay_out_climb(&task, &climb, &arena)
    cdef void* scratch = allocate(&arena)
    cdef NoiseSpace space = lay_out_noise(&task, &arena)
    lay_out_climb(&task, &climb, &arena)
    climb.task, climb.space, task.A = &task, &space, climb.A
    with nogil:
        climb_noise(&climb)
    free(scratch)
    return climb.n_read, climb.promised
