"""What an E-step of linear dynamical systems makes of sequences, in arrays of the caller."""

from libc.string cimport memset
from numpy cimport ndarray

from ._arrays cimport writable


cdef extern from "_kalman_evidence.h" nogil:
    ctypedef struct Moments:
        Py_ssize_t n
        double* weight
        double* mean
        double* scatter
    ctypedef struct Evidence:
        Moments initial
        Moments transitions
        Moments emissions
    Py_ssize_t moments_size(Py_ssize_t n)
    Py_ssize_t evidence_size(Py_ssize_t k, Py_ssize_t d)
    Moments moments_at(double* memory, Py_ssize_t n)
    Evidence evidence_at(double* memory, Py_ssize_t k, Py_ssize_t d)
    void add_evidence(Evidence* total, const Evidence* part)


# OUT: weight, mean (n,) and scatter (n, n), one after the other; set to 0.
cdef inline Moments no_moments(ndarray array, Py_ssize_t n) except *:
    cdef double* memory = writable(array, moments_size(n))
    memset(memory, 0, moments_size(n) * sizeof(double))
    return moments_at(memory, n)


cdef inline Evidence no_evidence(
    ndarray initial, ndarray transitions, ndarray emissions, Py_ssize_t k, Py_ssize_t d
) except *:
    cdef Evidence evidence
    evidence.initial = no_moments(initial, k)
    evidence.transitions = no_moments(transitions, 2 * k)
    evidence.emissions = no_moments(emissions, k + d)
    return evidence
