"""How many threads a kernel may use; calls of many kernels that threads share."""

import os
from contextvars import copy_context
from functools import cache

from cython.parallel cimport prange
from libc.limits cimport INT_MAX
from libc.string cimport memset

from ._arena cimport Arena, arena_of, take_arenas, take_doubles

from joblib import cpu_count, effective_n_jobs

_is_forked = False


def _note_fork():
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@cache
def _usable_cpus():
    """Count CPUs by affinity and container limits; cached, as this reads a handful of files."""
    return cpu_count(only_physical_cores=False)


def effective_n_threads(n_jobs=None):
    """Number of threads that `n_jobs` stands for.

    Parameters
    ----------
    n_jobs : int or None
        None means 1, or within `joblib.parallel_config` the number there; -1 means all usable CPUs,
        -2 all but one, and so on. A number that OMP_NUM_THREADS or threadpoolctl sets is the most
        that "all", or a context of joblib, can mean.

    Returns
    -------
    n_threads : int
        At least 1. Always 1 in a forked process, where GNU's OpenMP would wait forever for the
        threads of the parent.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning")
    if _is_forked:
        return 1
    if n_jobs is not None and n_jobs > 0:
        return min(n_jobs, INT_MAX)
    most = omp_get_max_threads()
    if "OMP_NUM_THREADS" not in os.environ:
        most = min(most, _usable_cpus())
    if n_jobs is None:
        return max(1, min(most, effective_n_jobs(None)))
    return max(1, most + 1 + n_jobs)


cdef Slabs slabs_of(Py_ssize_t n, Py_ssize_t B, Py_ssize_t n_slabs, int n_threads) noexcept nogil:
    cdef Slabs slabs
    slabs.n, slabs.B, slabs.n_slabs = n, B, n_slabs
    slabs.n_threads = <int> min(n_threads, n_slabs)
    return slabs


cdef Slabs lay_out_slabs(
    const Slabs* slabs, const Arena* counted, Py_ssize_t n_sums, Arena* arena
) noexcept nogil:
    cdef Slabs placed = slabs[0]
    placed.counted, placed.n_sums = counted[0], n_sums
    placed.threads = take_arenas(arena, slabs.n_threads, counted)
    placed.sums = take_doubles(arena, slabs.n_slabs * n_sums)
    placed.log_likelihoods = take_doubles(arena, slabs.n_slabs)
    return placed


cdef double walk_blocks(const Slabs* slabs, OfBlock of_block, const void* problem) noexcept nogil:
    cdef Py_ssize_t n_blocks = (slabs.n + slabs.B - 1) // slabs.B, slab, block
    memset(slabs.sums, 0, slabs.n_slabs * slabs.n_sums * sizeof(double))
    for slab in prange(slabs.n_slabs, schedule="dynamic", num_threads=slabs.n_threads,
                       use_threads_if=slabs.n_threads > 1):
        slabs.log_likelihoods[slab] = 0
        for block in range(first_block(slab, slabs.n_slabs, n_blocks),
                           first_block(slab + 1, slabs.n_slabs, n_blocks)):
            slabs.log_likelihoods[slab] += of_block(
                problem, arena_of(slabs.threads, omp_get_thread_num(), &slabs.counted),
                block * slabs.B, min(slabs.B, slabs.n - block * slabs.B),
                slabs.sums + slab * slabs.n_sums if slabs.n_sums > 0 else NULL,
            )
    if slabs.n_sums > 0:
        add_up(slabs.sums, slabs.n_slabs, slabs.n_sums)
    return add_up(slabs.log_likelihoods, slabs.n_slabs, 1)


def walk(function, int n_threads, *columns):
    """Return ``list(map(function, *columns))``, by threads that meet once, at the end.

    Each call is one thread's, from its first kernel to its last; threads take calls as they come.
    They run at the same time only while they are in kernels, or in NumPy, that release the GIL.

    Parameters
    ----------
    function : callable
        What it returns must not depend on the order of calls; kernels that it calls may not be
        told of more than one thread.
    n_threads : int
    *columns : iterable
        Of as many arguments as there are calls.
    """
    cdef list calls = list(zip(*columns, strict=True))
    cdef Py_ssize_t i, n = len(calls)
    if n_threads == 1 or n <= 1:
        return [function(*call) for call in calls]
    # Each in a copy of the caller's context, which says how NumPy handles errors.
    cdef list contexts = [copy_context() for _ in calls], results = [None] * n
    for i in prange(n, nogil=True, schedule="dynamic", num_threads=<int> min(n_threads, n)):
        with gil:
            results[i] = contexts[i].run(function, *calls[i])
    return results
