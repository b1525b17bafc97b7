"""What an E-step of linear dynamical systems makes of sequences, in arrays of the caller."""

from numpy cimport ndarray

from ._arena cimport Arena
from ._arrays cimport writable


cdef extern from "_kalman_sums.h" nogil:
    ctypedef struct Moments:
        pass
    ctypedef struct Evidence:
        Moments initial
        Moments transitions
        Moments emissions
    Py_ssize_t moments_size(Py_ssize_t n)
    Moments moments_at(double* memory, Py_ssize_t n)
    void clear_moments(const Moments* moments)
    Evidence* lay_out_slabs(Py_ssize_t n, Py_ssize_t k, Py_ssize_t d, Arena* arena)
    void add_evidence(const Evidence* part, Evidence* total)


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
