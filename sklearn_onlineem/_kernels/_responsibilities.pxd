from cython cimport floating
from numpy cimport NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, ndarray

from ._arrays cimport optional, optional_labels, optional_readable, optional_writable

# Arrays that are given of n rows, and that a pass over them fills; NULL if there are none.
cdef struct Task:
    const double* sample_weight     # (n,)
    const int* labels               # (n,); -1 = unlabelled
    const double* uniforms          # (n,); to sample the assignments
    double* log_likelihoods         # OUT (n,): log p(x), unweighted
    const double* base              # (n,): the part of log p(k, x) that all components share
    const void* given               # (n, K), responsibilities
    void* out                       # OUT (n, K)
    bint normalised                 # else what is written is the log joint density


# Of a tuple of the arrays of a `Task`, in its order; those that are left out are None, or empty.
# With `given` or `out`, nothing is normalised.
cdef inline Task task_of(tuple arrays, Py_ssize_t n, Py_ssize_t K, int type) except *:
    cdef Task task
    sample_weight, labels, uniforms, log_likelihoods, base, given, out = arrays
    task.sample_weight = optional_readable(sample_weight, n)
    task.labels = optional_labels(labels, n)
    task.uniforms = optional_readable(uniforms, n)
    task.log_likelihoods = optional_writable(log_likelihoods, n)
    task.base = optional_readable(base, n)
    task.given = optional(given, n * K, type, NPY_ARRAY_CARRAY_RO)
    task.out = optional(out, n * K, type, NPY_ARRAY_CARRAY)
    task.normalised = task.given == NULL and task.out == NULL
    return task


# joint (K, B), rows `stride` apart: log joint densities, unless shares are given -> what the task
# asks for, which is written out, too; returns sum_n s_n log p(x_n), or 0.
cdef double finish_block(
    floating* joint, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const Task* task,
    Py_ssize_t start,       # the block's first row among those of the task
    floating* scratch,      # (2 * B,)
) noexcept nogil
