from cython cimport floating


cdef void locate(
    const floating* X,      # IN (n, d)
    Py_ssize_t n,
    Py_ssize_t d,
    double* centre,         # OUT (d,)
    double* spread,         # OUT (d,)
) noexcept nogil
