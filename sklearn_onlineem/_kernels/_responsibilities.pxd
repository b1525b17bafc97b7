from cython cimport floating
from libc.string cimport memset
from numpy cimport ndarray

from ._arrays cimport optional_labels, optional_readable, optional_writable

# Arrays that are given of n rows, and that a pass over them fills; NULL if there are none.
cdef struct Task:
    const double* base              # (n,): the part of log p(k, x) that all components share
    const double* sample_weight     # (n,)
    const int* labels               # (n,); -1 = unlabelled
    const double* uniforms          # (n,); to sample the assignments
    const void* given               # (n, K), responsibilities
    bint normalised                 # else what is written is the log joint density
    double* log_likelihoods         # OUT (n,): log p(x), unweighted
    void* out                       # OUT (n, K)


cdef inline Task empty_task() noexcept nogil:
    cdef Task task
    memset(&task, 0, sizeof(Task))
    return task


# The task of a kernel for n rows; arrays without elements are left out.
cdef inline Task task_of(
    ndarray sample_weight, ndarray labels, ndarray uniforms, ndarray log_likelihoods, Py_ssize_t n
) except *:
    cdef Task task = empty_task()
    task.sample_weight = optional_readable(sample_weight, n)
    task.labels = optional_labels(labels, n)
    task.uniforms = optional_readable(uniforms, n)
    task.log_likelihoods = optional_writable(log_likelihoods, n)
    task.normalised = True
    return task


# joint (K, B), rows `stride` apart: log joint densities, unless shares are given -> what the task
# asks for, which is written out, too; returns sum_n s_n log p(x_n), or 0.
cdef double finish_block(
    floating* joint, Py_ssize_t K, Py_ssize_t B, Py_ssize_t stride, const Task* task,
    Py_ssize_t start,       # the block's first row among those of the task
    floating* scratch,      # (2 * B,)
) noexcept nogil
