"""The loops of `_small_forms.h`, one name for float and double."""

from cython cimport floating


cdef extern from "_small_forms.h" nogil:
    const Py_ssize_t MOST_SMALL
    void small_forms_float(
        const float* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
        const float* P, double offset, float* out)
    void small_forms_double(
        const double* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
        const double* P, double offset, double* out)
    void small_products_float(const float* x, Py_ssize_t n, Py_ssize_t d, double* sums)
    void small_products_double(const double* x, Py_ssize_t n, Py_ssize_t d, double* sums)


cdef inline void small_forms(
    const floating* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
    const floating* P, double offset, floating* out,
) noexcept nogil:
    if floating is float:
        small_forms_float(x, B, d, stride, mean, P, offset, out)
    else:
        small_forms_double(x, B, d, stride, mean, P, offset, out)


cdef inline void small_products(
    const floating* x, Py_ssize_t n, Py_ssize_t d, double* sums
) noexcept nogil:
    if floating is float:
        small_products_float(x, n, d, sums)
    else:
        small_products_double(x, n, d, sums)
