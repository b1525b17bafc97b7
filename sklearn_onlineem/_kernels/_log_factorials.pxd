"""The loop of `_log_factorials.h`, one name for float and double."""

from cython cimport floating
from libc.stdint cimport int32_t


cdef extern from "_log_factorials.h" nogil:
    int small_counts_float(const float* x, Py_ssize_t n, int32_t largest, int32_t* out)
    int small_counts_double(const double* x, Py_ssize_t n, int32_t largest, int32_t* out)


cdef inline bint small_counts(
    const floating* x, Py_ssize_t n, int32_t largest, int32_t* out
) noexcept nogil:
    if floating is float:
        return small_counts_float(x, n, largest, out)
    else:
        return small_counts_double(x, n, largest, out)
