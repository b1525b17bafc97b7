"""Rows as users hand them over."""

from cython cimport floating
from libc.math cimport floor, isfinite
from libc.stdint cimport int32_t, int64_t
from numpy cimport (
    NPY_ARRAY_CARRAY_RO, NPY_DOUBLE, NPY_FLOAT, PyArray_CHKFLAGS, PyArray_DATA, PyArray_DIM,
    PyArray_ISNOTSWAPPED, PyArray_NDIM, PyArray_TYPE, ndarray,
)

from ._arrays cimport readable, readable_reals, real_type
from ._simd cimport simd_void

from _simd_h cimport PARTIAL_SUMS, add_squares, largest_magnitude_float

ctypedef fused index:
    int32_t
    int64_t


cdef bint has_finite_squares(const floating* x, Py_ssize_t n, bint allow_nan) noexcept nogil:
    cdef floating partial[PARTIAL_SUMS]
    cdef floating total = 0
    cdef Py_ssize_t i
    for i in range(PARTIAL_SUMS):
        partial[i] = 0
    add_squares(x, n, allow_nan, partial)
    for i in range(PARTIAL_SUMS):
        total += partial[i]
    return isfinite(total)


def are_ready(object X, Py_ssize_t n_features, bint allow_nan=False):
    """Whether X can be taken as it is.

    That is, as an array of some C-ordered rows of floats or doubles, `n_features` wide, whose sum
    of squares is finite; and so none of them is infinite or not a number. With `allow_nan`, those
    that are not a number do not count.
    """
    if type(X) is not ndarray or PyArray_NDIM(X) != 2:
        return False
    cdef ndarray rows = X
    cdef Py_ssize_t n = PyArray_DIM(rows, 0)
    if (n == 0 or PyArray_DIM(rows, 1) != n_features or not PyArray_ISNOTSWAPPED(rows)
            or not PyArray_CHKFLAGS(rows, NPY_ARRAY_CARRAY_RO)):
        return False
    if PyArray_TYPE(rows) == NPY_DOUBLE:
        return has_finite_squares(<const double*> PyArray_DATA(rows), n * n_features, allow_nan)
    if PyArray_TYPE(rows) == NPY_FLOAT:
        return has_finite_squares(<const float*> PyArray_DATA(rows), n * n_features, allow_nan)
    return False


def are_finite(*arrays):
    """Whether all elements of C-ordered arrays of doubles are finite."""
    cdef Py_ssize_t i, n
    cdef const double* x
    for array in arrays:
        n = (<ndarray?> array).size
        x = readable(array, n)
        if has_finite_squares(x, n, False):
            continue
        for i in range(n):
            if not isfinite(x[i]):
                return False
    return True


cdef bint are_whole_below(const floating* x, Py_ssize_t n, Py_ssize_t bound) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if not (0 <= x[i] < bound and x[i] == floor(x[i])):
            return False
    return True


def are_codes(ndarray X, Py_ssize_t n_codes):
    """Whether all elements of C-ordered floats or doubles are whole numbers from 0 to n_codes - 1.

    A ValueError if they are of another type or order.
    """
    cdef Py_ssize_t n = X.size
    cdef const void* x = readable_reals(X, n, real_type(X))
    if PyArray_TYPE(X) == NPY_DOUBLE:
        return are_whole_below(<const double*> x, n, n_codes)
    return are_whole_below(<const float*> x, n, n_codes)


def largest_magnitude(const float[::1] x):
    """max |x_i|, 0 of nothing; what is not a number is larger than all numbers."""
    return largest_magnitude_float(&x[0], x.shape[0]) if x.shape[0] > 0 else 0.0


# Structures of CSR matrices that `csr_form` tells apart.
cpdef enum:
    CANONICAL           # rows are sorted, and without duplicates
    UNSORTED            # valid, but not so
    POINTERS_START      # the first pointer is not 0
    POINTERS_FALL       # a pointer is below the one before it
    POINTERS_END        # the last pointer is not the number of values
    OUT_OF_RANGE        # an index is no column


cdef simd_void count_falls(const index* x, Py_ssize_t n, index* n_falls) noexcept nogil:
    """How many elements are not above the one before them."""
    cdef Py_ssize_t e
    cdef index found = 0
    for e in range(1, n):
        found += x[e] <= x[e - 1]
    n_falls[0] = found


cdef int form_of(
    const index[::1] indices, const index[::1] indptr, Py_ssize_t n_columns
) noexcept nogil:
    cdef Py_ssize_t n = indptr.shape[0] - 1, i, e, n_out = 0
    cdef index n_falls = 0
    if n < 0 or indptr[0] != 0:
        return POINTERS_START
    for i in range(n):
        if indptr[i + 1] < indptr[i]:
            return POINTERS_FALL
    if indptr[n] != indices.shape[0]:
        return POINTERS_END
    if indptr[n] == 0:
        return CANONICAL
    count_falls(&indices[0], indptr[n], &n_falls)
    for i in range(n):
        # The ends of sorted rows tell all.
        if indptr[i] < indptr[i + 1]:
            n_falls -= indptr[i] > 0 and indices[indptr[i]] <= indices[indptr[i] - 1]
            n_out += indices[indptr[i]] < 0 or indices[indptr[i + 1] - 1] >= n_columns
    if n_falls > 0:
        for e in range(indptr[n]):
            n_out += indices[e] < 0 or indices[e] >= n_columns
    if n_out > 0:
        return OUT_OF_RANGE
    return UNSORTED if n_falls > 0 else CANONICAL


def csr_form(
    const index[::1] indices,   # IN (n_non_zeros,)
    const index[::1] indptr,    # IN (n + 1,)
    Py_ssize_t n_columns,
):
    """Form or fault of a CSR matrix; indices are looked at where all pointers are valid."""
    cdef int form
    with nogil:
        form = form_of(indices, indptr, n_columns)
    return form
