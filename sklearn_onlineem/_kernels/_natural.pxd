from ._gaussian cimport Centred
from ._openmp cimport Slabs
from ._responsibilities cimport Task

# The feature maps: phi(x) is x itself, followed by
cpdef enum:
    LINEAR          # nothing
    SQUARES         # x_i^2
    SQUARE_SUM      # sum_i x_i^2
    PRODUCTS        # x_i x_j for i <= j, the upper triangle row by row

cdef struct Shape:
    Slabs slabs
    Py_ssize_t d            # columns of reals
    Py_ssize_t n_digits     # ... of digits
    Py_ssize_t K            # components
    Py_ssize_t p            # features with the constant one
    Py_ssize_t stored       # ... of which a block has a row of values each
    Py_ssize_t stride       # from one row of a block's matrices to the next
    size_t itemsize
    int features
    bint fused              # products are formed as they are summed,
    Py_ssize_t n_left       # ... from so many left factors


cdef Shape shape_of(Py_ssize_t n, Py_ssize_t d, Py_ssize_t n_digits, Py_ssize_t K, int features,
                    Py_ssize_t itemsize, int n_threads) except *


cdef double pass_over(
    Shape* shape,
    const void* X,                  # IN (n, d), floats or doubles
    const unsigned char* digits,    # IN (n_digits, n) or NULL
    const double* centre,           # IN (d,)
    const double* natural,          # IN (K, p); NULL: responsibilities are given
    const double* offset,           # IN (K,)
    const Task* task,
    double* counts,                 # OUT (K,) or NULL
    double* totals,                 # OUT (K, p) or NULL
    Centred* centred,               # INOUT components that lose digits otherwise, or NULL
) except? -1
