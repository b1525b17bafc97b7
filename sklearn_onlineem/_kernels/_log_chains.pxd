"""Drawing a state, with logarithms or without; the loop of `_best_paths.h`."""

from cython cimport floating


cdef extern from "_best_paths.h" nogil:
    void best_paths_float(
        const float* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, const double* table,
        double* next, double* best, int* origins)
    void best_paths_double(
        const double* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, const double* table,
        double* next, double* best, int* origins)


cdef inline void best_paths(
    const floating* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, const double* table,
    double* next, double* best, int* origins,
) noexcept nogil:
    if floating is float:
        best_paths_float(x, T, K, W, table, next, best, origins)
    else:
        best_paths_double(x, T, K, W, table, next, best, origins)


# The state that a uniform number chooses among weights with any sum above 0.
cdef inline Py_ssize_t draw(const double* weights, Py_ssize_t K, double uniform) noexcept nogil:
    cdef double total = 0, below = 0
    cdef Py_ssize_t k, state = 0
    for k in range(K):
        total += weights[k]
    for k in range(K):
        if weights[k] > 0 and below <= uniform * total:
            state = k
        below += weights[k]
    return state
