"""Rows as users hand them over."""

from cython cimport floating
from libc.math cimport isfinite
from numpy cimport (
    NPY_ARRAY_CARRAY_RO,
    NPY_DOUBLE,
    NPY_FLOAT,
    PyArray_CHKFLAGS,
    PyArray_DATA,
    PyArray_DIM,
    PyArray_ISNOTSWAPPED,
    PyArray_NDIM,
    PyArray_TYPE,
    ndarray,
)

from ._simd cimport PARTIAL_SUMS, add_squares, largest_magnitude_float


cdef bint has_finite_squares(const floating* x, Py_ssize_t n) noexcept nogil:
    cdef floating partial[PARTIAL_SUMS]
    cdef floating total = 0
    cdef Py_ssize_t i
    for i in range(PARTIAL_SUMS):
        partial[i] = 0
    add_squares(x, n, partial)
    for i in range(PARTIAL_SUMS):
        total += partial[i]
    return isfinite(total)


def are_ready(object X, Py_ssize_t n_features):
    """Whether X can be taken as it is.

    That is, as an array of some C-ordered rows of floats or doubles, `n_features` wide, whose sum
    of squares is finite; and so none of them is infinite or not a number.
    """
    if type(X) is not ndarray or PyArray_NDIM(X) != 2:
        return False
    cdef ndarray rows = X
    cdef Py_ssize_t n = PyArray_DIM(rows, 0)
    if (n == 0 or PyArray_DIM(rows, 1) != n_features or not PyArray_ISNOTSWAPPED(rows)
            or not PyArray_CHKFLAGS(rows, NPY_ARRAY_CARRAY_RO)):
        return False
    if PyArray_TYPE(rows) == NPY_DOUBLE:
        return has_finite_squares(<const double*> PyArray_DATA(rows), n * n_features)
    if PyArray_TYPE(rows) == NPY_FLOAT:
        return has_finite_squares(<const float*> PyArray_DATA(rows), n * n_features)
    return False


def largest_magnitude(const float[::1] x):
    """max |x_i|, 0 of nothing; what is not a number is larger than all numbers."""
    return largest_magnitude_float(&x[0], x.shape[0]) if x.shape[0] > 0 else 0.0
