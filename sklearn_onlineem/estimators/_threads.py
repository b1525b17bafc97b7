"""Threads are ours to place: over blocks of rows, with a single-threaded BLAS inside."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

from sklearn_onlineem._kernels._openmp import effective_n_threads

__all__ = ["single_threaded_blas", "single_threaded_openmp", "threads_for"]

# Below this many rows a second thread costs more than it brings.
_FEWEST_ROWS = 512


@cache
def _controller():
    return ThreadpoolController()


def threads_for(n_jobs, n_rows):
    """Number of threads for a batch of rows; None is all that the process may use."""
    return 1 if n_rows < _FEWEST_ROWS else effective_n_threads(n_jobs)


def single_threaded_blas(n_rows):
    """Context in which BLAS keeps to one thread; free for small batches, where it does anyway."""
    if n_rows < _FEWEST_ROWS:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def single_threaded_openmp():
    """Context for scikit-learn's k-means.

    Its sums depend on the number of threads, and its OpenMP hangs in a forked process.
    """
    return _controller().limit(limits=1, user_api="openmp")
