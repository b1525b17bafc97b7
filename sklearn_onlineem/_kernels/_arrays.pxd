"""Arrays as kernels of many small ones take them: pointers, once type, layout and size are checked.

A memoryview costs as much as the arithmetic on a small matrix.
"""

from libc.stdint cimport int64_t
from numpy cimport (
    NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, NPY_DOUBLE, NPY_FLOAT, NPY_INT, NPY_INT64, NPY_UINT8,
    PyArray_CHKFLAGS, PyArray_DATA, PyArray_DIM, PyArray_ISNOTSWAPPED, PyArray_NDIM, PyArray_TYPE,
    ndarray,
)


# A check of more than sizes, at the cost of a comparison.
cdef inline int require(bint holds, str what) except -1:
    if not holds:
        raise ValueError(f"arrays of a kernel do not fit each other: {what}")
    return 0


# Offsets of S sequences, each with some of n rows: returned is the most that one has.
cdef inline Py_ssize_t longest_of(
    const int64_t* offsets, Py_ssize_t n_offsets, Py_ssize_t S, Py_ssize_t n
) except -1:
    cdef Py_ssize_t s, most = 0
    require(S > 0 and n_offsets == S + 1 and offsets[0] == 0 and offsets[S] == n,
            "offsets of all rows")
    for s in range(S):
        require(offsets[s] < offsets[s + 1], "sequences have rows")
        most = max(most, offsets[s + 1] - offsets[s])
    return most


# Whether an array of this length has an element for each of n, or none at all, as it is left out.
cdef inline bint fits(Py_ssize_t length, Py_ssize_t n) noexcept nogil:
    return length == n or length == 0


cdef inline Py_ssize_t extent(ndarray array, int axis) except -1:
    """Length along an axis."""
    if array is None or axis >= PyArray_NDIM(array):
        raise ValueError(f"a kernel needs an array with an axis {axis}")
    return PyArray_DIM(array, axis)


cdef inline void* elements(ndarray array, Py_ssize_t size, int type, int flags) except NULL:
    cdef Py_ssize_t n = 1
    cdef int axis
    if array is not None:
        for axis in range(PyArray_NDIM(array)):
            n *= PyArray_DIM(array, axis)
        if (n == size and PyArray_TYPE(array) == type and PyArray_CHKFLAGS(array, flags)
                and PyArray_ISNOTSWAPPED(array)):
            return PyArray_DATA(array)
    raise ValueError(f"a kernel needs a C-ordered array of {size} numbers of its type")


# IN: `size` doubles to read.
cdef inline const double* readable(ndarray array, Py_ssize_t size) except NULL:
    return <const double*> elements(array, size, NPY_DOUBLE, NPY_ARRAY_CARRAY_RO)


# IN: `size` int64 to read.
cdef inline const int64_t* readable_integers(ndarray array, Py_ssize_t size) except NULL:
    return <const int64_t*> elements(array, size, NPY_INT64, NPY_ARRAY_CARRAY_RO)


# IN: `size` uint8 to read.
cdef inline const unsigned char* readable_digits(ndarray array, Py_ssize_t size) except NULL:
    return <const unsigned char*> elements(array, size, NPY_UINT8, NPY_ARRAY_CARRAY_RO)


# OUT: `size` doubles to write.
cdef inline double* writable(ndarray array, Py_ssize_t size) except NULL:
    return <double*> elements(array, size, NPY_DOUBLE, NPY_ARRAY_CARRAY)


# IN, of the type that `real_type` says.
cdef inline const void* readable_reals(ndarray array, Py_ssize_t size, int type) except NULL:
    return elements(array, size, type, NPY_ARRAY_CARRAY_RO)


cdef inline int real_type(ndarray array) except -1:
    """The type of rows: float or double."""
    if array is None or PyArray_TYPE(array) not in (NPY_FLOAT, NPY_DOUBLE):
        raise ValueError("a kernel needs rows of floats or doubles")
    return PyArray_TYPE(array)


cdef inline Py_ssize_t real_size(ndarray array) except -1:
    return sizeof(double) if real_type(array) == NPY_DOUBLE else sizeof(float)


# Functions below return NULL for None, or an array without elements, which stand for none.

cdef inline void* optional(ndarray array, Py_ssize_t size, int type, int flags) except? NULL:
    if array is None or extent(array, 0) == 0:
        return NULL
    return elements(array, size, type, flags)


cdef inline const double* optional_readable(ndarray array, Py_ssize_t size) except? NULL:
    return <const double*> optional(array, size, NPY_DOUBLE, NPY_ARRAY_CARRAY_RO)


cdef inline double* optional_writable(ndarray array, Py_ssize_t size) except? NULL:
    return <double*> optional(array, size, NPY_DOUBLE, NPY_ARRAY_CARRAY)


cdef inline const int* optional_labels(ndarray array, Py_ssize_t size) except? NULL:
    return <const int*> optional(array, size, NPY_INT, NPY_ARRAY_CARRAY_RO)
