"""Sums in the order of NumPy, so that a kernel gives the bits of the formula in NumPy."""

cdef enum:
    PARTIAL = 8
    BLOCK = 128


# The sum of the last axis of a C-ordered array: in order if there are few, else in eight partial
# sums, of halves where there are many.
cdef inline double pairwise_sum(const double* x, Py_ssize_t n) noexcept nogil:
    cdef double partial[PARTIAL]
    cdef double total = 0.0
    cdef Py_ssize_t i, j, whole = n - n % PARTIAL, half
    if n < PARTIAL:
        for i in range(n):
            total += x[i]
        return total
    if n > BLOCK:
        half = n // 2 - n // 2 % PARTIAL
        return pairwise_sum(x, half) + pairwise_sum(x + half, n - half)
    for j in range(PARTIAL):
        partial[j] = x[j]
    for i in range(1, n // PARTIAL):
        for j in range(PARTIAL):
            partial[j] += x[PARTIAL * i + j]
    total = ((partial[0] + partial[1]) + (partial[2] + partial[3])) + (
        (partial[4] + partial[5]) + (partial[6] + partial[7])
    )
    for i in range(whole, n):
        total += x[i]
    return total
