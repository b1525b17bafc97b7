"""What an E-step of linear dynamical systems makes of sequences, in arrays of the caller."""

from numpy cimport ndarray

from ._arena cimport Arena
from ._arrays cimport writable

from _kalman_sums_h cimport (
    Evidence, Moments, add_evidence, clear_moments, lay_out_slabs, moments_at, moments_size,
)


# OUT: weight, mean (n,) and scatter (n, n), one after the other; set to 0.
cdef inline Moments no_moments(ndarray array, Py_ssize_t n) except *:
    cdef Moments moments = moments_at(writable(array, moments_size(n)), n)
    clear_moments(&moments)
    return moments


cdef inline Evidence no_evidence(
    ndarray initial, ndarray transitions, ndarray emissions, Py_ssize_t k, Py_ssize_t d
) except *:
    cdef Evidence evidence
    evidence.initial = no_moments(initial, k)
    evidence.transitions = no_moments(transitions, 2 * k)
    evidence.emissions = no_moments(emissions, k + d)
    return evidence
