"""How rows are shared among threads, and whether Ctrl-C has come.

Rows are cut into blocks and blocks are grouped in slabs. A slab has sums of its own and is walked
by one thread; the slabs' sums are added up in order. As slabs depend on the shapes alone, results
do not depend on the number of threads.
"""

from ._arena cimport Arena

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #else
    static inline int omp_get_max_threads(void) { return 1; }
    static inline int omp_get_thread_num(void) { return 0; }
    static inline int omp_get_num_procs(void) { return 1; }
    #endif
    """
    int omp_get_max_threads() noexcept nogil
    int omp_get_thread_num() noexcept nogil
    int omp_get_num_procs() noexcept nogil

cdef extern from "Python.h":
    int PyErr_CheckSignals()

cdef enum:
    MOST_SLABS = 32
    MOST_SLAB_BYTES = 3 << 23


# Two blocks at least to a slab, and the sums of all slabs (of `n_sums` doubles each) in 24 MB.
cdef inline Py_ssize_t count_slabs(Py_ssize_t n_blocks, Py_ssize_t n_sums) noexcept nogil:
    cdef Py_ssize_t affordable = MOST_SLAB_BYTES // (sizeof(double) * (n_sums + 1))
    return max(1, min(MOST_SLABS, n_blocks // 2, affordable))


cdef inline Py_ssize_t first_block(
    Py_ssize_t slab, Py_ssize_t n_slabs, Py_ssize_t n_blocks
) noexcept nogil:
    return slab * n_blocks // n_slabs


# The sums of the first slab <- those of all, added up in order; return the first of them.
cdef inline double add_up(double* sums, Py_ssize_t n_slabs, Py_ssize_t n_sums) noexcept nogil:
    cdef Py_ssize_t slab, i
    for slab in range(1, n_slabs):
        for i in range(n_sums):
            sums[i] += sums[slab * n_sums + i]
    return sums[0]


# Threads that have something to do, no more than slabs or processors: OpenMP ends the
# process where it cannot start them.
cdef inline int busy_threads(int n_threads, Py_ssize_t n_tasks) noexcept nogil:
    return <int> max(1, min(n_threads, n_tasks, max(MOST_SLABS, omp_get_num_procs())))


# Whether Ctrl-C, or another signal, has come and its handler has raised, with the GIL or without:
# Python itself calls handlers between its own instructions only. The exception waits for
# `raise_waiting`, which has to follow soon, by the same thread. Threads other than Python's main
# one see none.
cdef inline bint is_interrupted() noexcept nogil:
    with gil:
        return PyErr_CheckSignals() != 0


cdef inline int raise_waiting() except -1:
    return -1


# n rows, or other items, in blocks of B, and these in slabs; the memory of a pass over them.
cdef struct Slabs:
    Py_ssize_t n
    Py_ssize_t B
    Py_ssize_t n_slabs
    int n_threads
    Arena counted               # what a thread needs
    char* threads
    Py_ssize_t n_sums           # 0: none are wanted
    double* sums                # (n_slabs, n_sums)
    double* log_likelihoods     # (n_slabs,)


# Slabs without memory, and with it.
cdef Slabs slabs_of(Py_ssize_t n, Py_ssize_t B, Py_ssize_t n_slabs, int n_threads) noexcept nogil

cdef Slabs lay_out_slabs(
    const Slabs* slabs, const Arena* counted, Py_ssize_t n_sums, Arena* arena
) noexcept nogil


# What B rows from `start` on add to the sums (NULL: not wanted), and to the log-likelihood, which
# is returned. Scratch memory is all that a thread has.
ctypedef double (*OfBlock)(
    const void* problem, Arena scratch, Py_ssize_t start, Py_ssize_t B, double* sums
) noexcept nogil


# A pass over all blocks: the sums of the first slab become those of all, added up in order. Return
# the log-likelihood.
cdef double walk_blocks(const Slabs* slabs, OfBlock of_block, const void* problem) noexcept nogil
