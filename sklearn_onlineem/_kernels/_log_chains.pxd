"""Drawing a state, with logarithms or without."""


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
