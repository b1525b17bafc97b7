"""Threads: one learns at a time, over blocks of rows in several, each with single-threaded BLAS."""

import os
import threading
from contextlib import nullcontext
from functools import cache
from weakref import WeakValueDictionary

from threadpoolctl import OpenBLASController, ThreadpoolController

from sklearn_onlineem._kernels._openmp import effective_n_threads

# Below so many values times components a second thread does not pay.
_LEAST_WORK = 200_000
# Below so many rows, or rows times numbers of a model, BLAS uses one thread anyway.
_FEWEST_ROWS_FOR_BLAS, _LEAST_WORK_FOR_BLAS = 16, 1 << 13
_NO_LIMIT = nullcontext()


def _renew_lock():
    """Drop the lock of a forked process: the thread that holds it is in the parent."""
    # From threadpoolctl 3.8 on.
    if hasattr(OpenBLASController, "_SHARED_STATE"):
        OpenBLASController._SHARED_STATE.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def threads_for(n_jobs, work):
    """Return the number of threads for work in values times components; None is 1."""
    return 1 if work < _LEAST_WORK else effective_n_threads(n_jobs)


def single_threaded_blas(n_rows, n_numbers=_LEAST_WORK_FOR_BLAS):
    """Return a context of single-threaded BLAS, which costs nothing for little work."""
    is_small = n_rows < _FEWEST_ROWS_FOR_BLAS or n_rows * n_numbers < _LEAST_WORK_FOR_BLAS
    return _NO_LIMIT if is_small else _BlasLimit()


def single_threaded_openmp():
    """Return a context of single-threaded OpenMP, for scikit-learn's k-means.

    Its sums depend on the number of threads, and its OpenMP hangs in a forked process.
    """
    return _controller().limit(limits=1, user_api="openmp")


@cache
def _controller():
    return ThreadpoolController()


@cache
def _blas_libraries():
    return _controller().select(user_api="blas").lib_controllers


class _BlasLimit:
    """A single thread in each BLAS; threadpoolctl's own context takes as long as a small batch."""

    def __enter__(self):
        self.limited = []
        for library in _blas_libraries():
            if (n_threads := library.get_num_threads()) > 1:
                self.limited.append((library, n_threads))
                library.set_num_threads(1)

    def __exit__(self, *error):
        for library, n_threads in self.limited:
            library.set_num_threads(n_threads)
            # From threadpoolctl 3.8 on, one thread at a time may set limits.
            getattr(library, "clear_controlling_thread", lambda: None)()


class Locked:
    """Mixin of estimators that one thread at a time may teach."""

    def _lock(self):
        """Return the lock of the estimator, held while it learns; a thread takes it once."""
        try:
            lock = self.__dict__["_mutex"]
        except KeyError:
            _LOCKED[id(self)] = self
            return self.__dict__.setdefault("_mutex", threading.RLock())
        if lock._is_owned():
            raise RuntimeError(
                f"{type(self).__name__} is learning: a callback must not call its fit or"
                " partial_fit. A callback with two arguments gets a copy, which may learn."
            )
        return lock


# Estimators that have a lock, by id, as subclasses of users need not be hashable.
_LOCKED = WeakValueDictionary()


def _drop_locks():
    """Drop the locks that threads of the parent hold, in a forked process."""
    for learner in [*_LOCKED.values()]:
        if "_mutex" in vars(learner) and not vars(learner)["_mutex"]._is_owned():
            for name in learner._transient:
                vars(learner).pop(name, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_locks)
