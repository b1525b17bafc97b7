"""The recursions of `_chains.h`, with one name for float and double."""

from cython cimport floating

from ._arena cimport Arena


cdef extern from "_chains.h" nogil:
    enum:
        CHAIN_ROWS
    ctypedef struct ChainBlock:
        Py_ssize_t B
        double* density
        double* alpha
        double* total
        double* scale
        double* largest
    ChainBlock lay_out_chain_block(Py_ssize_t W, Arena* arena)
    int both_recursions(
        const ChainBlock* back, const ChainBlock* ahead, const double* table,
        const double* transposed, int has_zeros, Py_ssize_t W, double* states, double* filtered)
    void add_transitions(
        const double* filtered, const double* later, Py_ssize_t T, Py_ssize_t W, double* sums)
    double sum_of(const double* x, Py_ssize_t n)
    void emissions_float(
        const float* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)
    void emissions_double(
        const double* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest)


cdef inline void emissions(
    const floating* x, Py_ssize_t T, Py_ssize_t K, Py_ssize_t W, double* density, double* largest
) noexcept nogil:
    if floating is float:
        emissions_float(x, T, K, W, density, largest)
    else:
        emissions_double(x, T, K, W, density, largest)
