from cython cimport floating

from ._arena cimport Arena
from ._openmp cimport Slabs

# Forms of P_k.
cdef enum:
    FULL        # an upper triangle for each component
    SHARED      # one upper triangle for all; second moments are summed over components
    DIAGONAL    # a diagonal for each component; so are the second moments

cdef struct Shape:
    Slabs slabs
    Py_ssize_t d            # columns
    Py_ssize_t K            # components
    int factors             # FULL, SHARED or DIAGONAL
    bint transposed         # blocks are (d, B) to begin with: DIAGONAL, or few features
    bint whitened           # log densities are distances between whitened rows and means
    bint pooled             # second moments are those about the centre of all rows
    Py_ssize_t n_factors    # elements of all P_k, and of all second moments
    Py_ssize_t n_sums       # elements of counts, first and second moments
    Py_ssize_t stride       # from one component to the next in a block's log joint
    size_t itemsize

# The scratch memory of a thread; floats or doubles.
cdef struct Workspace:
    void* joint         # (K, stride)
    void* softmax       # (2 * stride,)
    void* rows          # (d, stride), and a vector that `small_products` reads past the end
    void* whitened      # (d, stride)
    void* ones          # (d,)
    void* partial       # (d,)
    void* products      # (d, d), or (K, d) if that is larger

# Components of a pass of `_natural` whose digits it would lose.
cdef struct Centred:
    Shape shape             # of these components
    Py_ssize_t* numbers     # (K,), among all
    double* means           # (K, d)
    double* offset          # (K,)
    void* factors           # (n_factors,), floats or doubles
    double* sums            # OUT (n_sums,), of first and second moments


cdef Shape shape_of(
    Py_ssize_t n, Py_ssize_t d, Py_ssize_t K, int factors, Py_ssize_t itemsize, int n_threads
) except *


cdef Workspace lay_out_workspace(const Shape* shape, Arena* arena) noexcept nogil


cdef Centred lay_out_centred(const Shape* shape, Arena* arena) noexcept nogil


cdef void replace_log_joint(
    Centred* centred, const floating* x, Py_ssize_t B, Workspace* space, floating* joint,
    Py_ssize_t stride,
) noexcept nogil


cdef void add_centred_moments(
    Centred* centred, const floating* x, Py_ssize_t B, const floating* shares, Py_ssize_t stride,
    Workspace* space, double* sums,
) noexcept nogil


cdef void locate(
    const void* X,          # IN (n, d), floats or doubles
    size_t itemsize,
    Py_ssize_t n,
    Py_ssize_t d,
    double* centre,         # OUT (d,)
    double* spread,         # OUT (d,)
) noexcept nogil
