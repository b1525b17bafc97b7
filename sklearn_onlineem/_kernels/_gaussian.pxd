"""The loops of `_gaussian.h`, one name for float and double."""

from cython cimport floating


cdef extern from "_gaussian.h" nogil:
    void subtract_float(const float* x, Py_ssize_t B, Py_ssize_t d, const double* mean, float* out)
    void subtract_double(
        const double* x, Py_ssize_t B, Py_ssize_t d, const double* mean, double* out)
    void half_squared_norms_float(
        const float* y, Py_ssize_t B, Py_ssize_t d, double offset, float* out)
    void half_squared_norms_double(
        const double* y, Py_ssize_t B, Py_ssize_t d, double offset, double* out)
    Py_ssize_t weigh_float(
        const float* x, Py_ssize_t B, Py_ssize_t d, const float* shares, const double* mean,
        float* out, float* first)
    Py_ssize_t weigh_double(
        const double* x, Py_ssize_t B, Py_ssize_t d, const double* shares, const double* mean,
        double* out, double* first)
    void scaled_log_joint_float(
        const float* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
        const float* scales, double offset, float* out)
    void scaled_log_joint_double(
        const double* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
        const double* scales, double offset, double* out)
    void add_scaled_moments_float(
        const float* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const float* shares,
        const double* mean, double* first, double* second)
    void add_scaled_moments_double(
        const double* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* shares,
        const double* mean, double* first, double* second)


cdef inline void subtract(
    const floating* x, Py_ssize_t B, Py_ssize_t d, const double* mean, floating* out
) noexcept nogil:
    if floating is float:
        subtract_float(x, B, d, mean, out)
    else:
        subtract_double(x, B, d, mean, out)


cdef inline void half_squared_norms(
    const floating* y, Py_ssize_t B, Py_ssize_t d, double offset, floating* out
) noexcept nogil:
    if floating is float:
        half_squared_norms_float(y, B, d, offset, out)
    else:
        half_squared_norms_double(y, B, d, offset, out)


cdef inline Py_ssize_t weigh(
    const floating* x, Py_ssize_t B, Py_ssize_t d, const floating* shares, const double* mean,
    floating* out, floating* first,
) noexcept nogil:
    if floating is float:
        return weigh_float(x, B, d, shares, mean, out, first)
    else:
        return weigh_double(x, B, d, shares, mean, out, first)


cdef inline void scaled_log_joint(
    const floating* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const double* mean,
    const floating* scales, double offset, floating* out,
) noexcept nogil:
    if floating is float:
        scaled_log_joint_float(x, B, d, stride, mean, scales, offset, out)
    else:
        scaled_log_joint_double(x, B, d, stride, mean, scales, offset, out)


cdef inline void add_scaled_moments(
    const floating* x, Py_ssize_t B, Py_ssize_t d, Py_ssize_t stride, const floating* shares,
    const double* mean, double* first, double* second,
) noexcept nogil:
    if floating is float:
        add_scaled_moments_float(x, B, d, stride, shares, mean, first, second)
    else:
        add_scaled_moments_double(x, B, d, stride, shares, mean, first, second)
