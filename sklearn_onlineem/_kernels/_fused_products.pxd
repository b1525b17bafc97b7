"""The products of `_fused_products.h`, one name for float and double."""

from cython cimport floating


cdef extern from "_fused_products.h" nogil:
    enum:
        FUSED_STEP
    bint can_fuse()
    void fused_forms_float(
        const float* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
        const float* parameters, Py_ssize_t K, float* out)
    void fused_forms_double(
        const double* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
        const double* parameters, Py_ssize_t K, double* out)
    void fused_sums_float(
        const float* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
        const float* r, Py_ssize_t K, double* sums)
    void fused_sums_double(
        const double* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
        const double* r, Py_ssize_t K, double* sums)


cdef inline void fused_forms(
    const floating* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
    const floating* parameters, Py_ssize_t K, floating* out,
) noexcept nogil:
    if floating is float:
        fused_forms_float(x, d, n_left, B, stride, parameters, K, out)
    else:
        fused_forms_double(x, d, n_left, B, stride, parameters, K, out)


cdef inline void fused_sums(
    const floating* x, Py_ssize_t d, Py_ssize_t n_left, Py_ssize_t B, Py_ssize_t stride,
    const floating* r, Py_ssize_t K, double* sums,
) noexcept nogil:
    if floating is float:
        fused_sums_float(x, d, n_left, B, stride, r, K, sums)
    else:
        fused_sums_double(x, d, n_left, B, stride, r, K, sums)
