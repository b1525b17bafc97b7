from cython cimport floating


cdef double normalise_block(
    floating* log_joint,            # INOUT (K, B), rows `stride` apart -> responsibilities
    Py_ssize_t K,
    Py_ssize_t B,
    Py_ssize_t stride,
    const double* base,             # IN (B,) or NULL
    const double* sample_weight,    # IN (B,) or NULL
    const int* labels,              # IN (B,) or NULL; -1 = unlabelled
    const double* uniforms,         # IN (B,) or NULL
    floating* scratch,              # (2 * B,)
    double* log_likelihoods,        # OUT (B,) or NULL
) noexcept nogil
