"""The products of `_counts.h`, one name for float and double, and for indices of 32 and 64 bits."""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t

ctypedef fused index:
    int32_t
    int64_t


cdef extern from "_counts.h" nogil:
    enum:
        COUNTS_TILE
    void gather_rows_32_float(
        const float* data, const int32_t* indices, const int32_t* indptr, Py_ssize_t B,
        const float* table, Py_ssize_t width, float* out)
    void scatter_rows_32_float(
        const float* data, const int32_t* indices, const int32_t* indptr, Py_ssize_t B,
        const float* shares, Py_ssize_t width, double* table)
    void gather_rows_32_double(
        const double* data, const int32_t* indices, const int32_t* indptr, Py_ssize_t B,
        const double* table, Py_ssize_t width, double* out)
    void scatter_rows_32_double(
        const double* data, const int32_t* indices, const int32_t* indptr, Py_ssize_t B,
        const double* shares, Py_ssize_t width, double* table)
    void scatter_rows_single_32_float(
        const float* data, const int32_t* indices, const int32_t* indptr, Py_ssize_t B,
        const float* shares, Py_ssize_t width, float* table)
    void gather_rows_64_float(
        const float* data, const int64_t* indices, const int64_t* indptr, Py_ssize_t B,
        const float* table, Py_ssize_t width, float* out)
    void scatter_rows_64_float(
        const float* data, const int64_t* indices, const int64_t* indptr, Py_ssize_t B,
        const float* shares, Py_ssize_t width, double* table)
    void gather_rows_64_double(
        const double* data, const int64_t* indices, const int64_t* indptr, Py_ssize_t B,
        const double* table, Py_ssize_t width, double* out)
    void scatter_rows_64_double(
        const double* data, const int64_t* indices, const int64_t* indptr, Py_ssize_t B,
        const double* shares, Py_ssize_t width, double* table)
    void scatter_rows_single_64_float(
        const float* data, const int64_t* indices, const int64_t* indptr, Py_ssize_t B,
        const float* shares, Py_ssize_t width, float* table)


cdef inline void gather_rows(
    const floating* data, const index* indices, const index* indptr, Py_ssize_t B,
    const floating* table, Py_ssize_t width, floating* out,
) noexcept nogil:
    if floating is float and index is int32_t:
        gather_rows_32_float(data, indices, indptr, B, table, width, out)
    elif floating is float:
        gather_rows_64_float(data, indices, indptr, B, table, width, out)
    elif index is int32_t:
        gather_rows_32_double(data, indices, indptr, B, table, width, out)
    else:
        gather_rows_64_double(data, indices, indptr, B, table, width, out)


cdef inline void scatter_rows(
    const floating* data, const index* indices, const index* indptr, Py_ssize_t B,
    const floating* shares, Py_ssize_t width, double* table,
) noexcept nogil:
    if floating is float and index is int32_t:
        scatter_rows_32_float(data, indices, indptr, B, shares, width, table)
    elif floating is float:
        scatter_rows_64_float(data, indices, indptr, B, shares, width, table)
    elif index is int32_t:
        scatter_rows_32_double(data, indices, indptr, B, shares, width, table)
    else:
        scatter_rows_64_double(data, indices, indptr, B, shares, width, table)


# Sums in single precision, of rows that are.
cdef inline void scatter_rows_single(
    const float* data, const index* indices, const index* indptr, Py_ssize_t B,
    const float* shares, Py_ssize_t width, float* table,
) noexcept nogil:
    if index is int32_t:
        scatter_rows_single_32_float(data, indices, indptr, B, shares, width, table)
    else:
        scatter_rows_single_64_float(data, indices, indptr, B, shares, width, table)
