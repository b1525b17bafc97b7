"""The loops of `_simd.h`."""

from libc.stdint cimport int32_t


cdef extern from "_simd.h" nogil:
    # Floats or doubles: C looks at what a pointer points to, see OF_REAL.
    ctypedef void reals "void"
    # A loop of doubles in Cython is compiled for several instruction sets if it returns this:
    # Cython copies the name of the type to the C code, attribute and all.
    ctypedef void simd_void "SIMD_CLONES void"
    # Nothing else points to where this does: without that promise each vector is checked for
    # overlap.
    ctypedef double* restricted "double* __restrict"
    enum:
        PARTIAL_SUMS
    double log_double(double x)
    double sum_of(const double* x, Py_ssize_t n)
    float largest_magnitude_float(const float* x, Py_ssize_t n)
    void add_squares(const reals* x, Py_ssize_t n, bint skips_nan, reals* partial)
    void exp_columns(
        reals* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, reals* maximum, reals* total)
    void add_log(reals* x, const reals* total, Py_ssize_t B)
    void scale_columns(reals* x, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const reals* scale)
    void transpose(
        const reals* x, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t stride, reals* out,
        Py_ssize_t out_stride)
    void centred_transpose(
        const reals* x, Py_ssize_t rows, Py_ssize_t columns, const double* centre, reals* out,
        Py_ssize_t out_stride)
    void multiply(const reals* x, const reals* y, Py_ssize_t B, reals* out)
    void widen(reals* out, const unsigned char* x, Py_ssize_t B)
    void square_sum(const reals* x, Py_ssize_t d, Py_ssize_t B, Py_ssize_t stride, reals* out)
    bint small_counts(const reals* x, Py_ssize_t n, int32_t largest, int32_t* out)
