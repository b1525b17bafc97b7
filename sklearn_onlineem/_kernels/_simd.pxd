"""The loops of `_simd.h`, one name for float and double."""

from cython cimport floating
from libc.stdint cimport int32_t


cdef extern from "_simd.h" nogil:
    # A loop of doubles in Cython is compiled for several instruction sets if it returns this:
    # Cython copies the name of the type to the C code, attribute and all.
    ctypedef void simd_void "SIMD_CLONES void"
    # Nothing else points to where this does: without that promise each vector is checked for
    # overlap.
    ctypedef double* restricted "double* __restrict"
    enum:
        PARTIAL_SUMS
    float largest_magnitude_float(const float* x, Py_ssize_t n)
    void add_squares_float(const float* x, Py_ssize_t n, float* partial)
    void add_squares_double(const double* x, Py_ssize_t n, double* partial)
    void exp_columns_float(
        float* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, float* maximum, float* total)
    void exp_columns_double(
        double* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, double* maximum, double* total)
    void add_log_float(float* x, const float* total, Py_ssize_t B)
    void add_log_double(double* x, const double* total, Py_ssize_t B)
    void scale_columns_float(
        float* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const float* scale)
    void scale_columns_double(
        double* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const double* scale)
    void transpose_float(
        const float* x, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t stride,
        float* out, Py_ssize_t out_stride)
    void transpose_double(
        const double* x, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t stride,
        double* out, Py_ssize_t out_stride)
    void centred_transpose_float(
        const float* x, Py_ssize_t rows, Py_ssize_t columns, const double* centre,
        float* out, Py_ssize_t out_stride)
    void centred_transpose_double(
        const double* x, Py_ssize_t rows, Py_ssize_t columns, const double* centre,
        double* out, Py_ssize_t out_stride)
    void multiply_float(const float* x, const float* y, Py_ssize_t B, float* out)
    void multiply_double(const double* x, const double* y, Py_ssize_t B, double* out)
    void square_sum_float(
        const float* x, Py_ssize_t d, Py_ssize_t B, Py_ssize_t stride, float* out)
    void square_sum_double(
        const double* x, Py_ssize_t d, Py_ssize_t B, Py_ssize_t stride, double* out)
    int small_counts_float(const float* x, Py_ssize_t n, int32_t largest, int32_t* out)
    int small_counts_double(const double* x, Py_ssize_t n, int32_t largest, int32_t* out)


cdef inline void exp_columns(
    floating* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, floating* maximum, floating* total
) noexcept nogil:
    if floating is float:
        exp_columns_float(x, K, B, stride, maximum, total)
    else:
        exp_columns_double(x, K, B, stride, maximum, total)


cdef inline void add_log(floating* x, const floating* total, Py_ssize_t B) noexcept nogil:
    if floating is float:
        add_log_float(x, total, B)
    else:
        add_log_double(x, total, B)


cdef inline void scale_columns(
    floating* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const floating* scale
) noexcept nogil:
    if floating is float:
        scale_columns_float(x, K, B, stride, scale)
    else:
        scale_columns_double(x, K, B, stride, scale)


cdef inline void transpose(
    const floating* x, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t stride,
    floating* out, Py_ssize_t out_stride,
) noexcept nogil:
    if floating is float:
        transpose_float(x, rows, columns, stride, out, out_stride)
    else:
        transpose_double(x, rows, columns, stride, out, out_stride)


cdef inline void centred_transpose(
    const floating* x, Py_ssize_t rows, Py_ssize_t columns, const double* centre,
    floating* out, Py_ssize_t out_stride,
) noexcept nogil:
    if floating is float:
        centred_transpose_float(x, rows, columns, centre, out, out_stride)
    else:
        centred_transpose_double(x, rows, columns, centre, out, out_stride)


cdef inline void multiply(
    const floating* x, const floating* y, Py_ssize_t B, floating* out
) noexcept nogil:
    if floating is float:
        multiply_float(x, y, B, out)
    else:
        multiply_double(x, y, B, out)


cdef inline void square_sum(
    const floating* x, Py_ssize_t d, Py_ssize_t B, Py_ssize_t stride, floating* out
) noexcept nogil:
    if floating is float:
        square_sum_float(x, d, B, stride, out)
    else:
        square_sum_double(x, d, B, stride, out)


cdef inline void add_squares(
    const floating* x, Py_ssize_t n, floating* partial
) noexcept nogil:
    if floating is float:
        add_squares_float(x, n, partial)
    else:
        add_squares_double(x, n, partial)


cdef inline bint small_counts(
    const floating* x, Py_ssize_t n, int32_t largest, int32_t* out
) noexcept nogil:
    if floating is float:
        return small_counts_float(x, n, largest, out)
    else:
        return small_counts_double(x, n, largest, out)
