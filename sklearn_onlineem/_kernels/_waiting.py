"""Threads that have nothing to do sleep, and leave the processor to others."""

import os
from contextlib import contextmanager

_POLICY = "OMP_WAIT_POLICY"
# Whoever has set one of these has decided.
_DECISIONS = (_POLICY, "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")


def load_openmp():
    """Load OpenMP, before any other kernel does, so that its threads sleep while they wait.

    By default they wait actively, for milliseconds after each parallel loop, and on a busy machine
    that is time which the others need to finish theirs. OpenMP reads its environment once: GNU's
    when the library is loaded, LLVM's when it is first asked something. That of the process is
    then as it was. A copy of the same library that is in use already stays as it is; wheels of
    scikit-learn bring one of their own.
    """
    with _passive():
        from sklearn_onlineem._kernels._openmp import effective_n_threads

        effective_n_threads(-1)


@contextmanager
def _passive():
    if any(name in os.environ for name in _DECISIONS):
        yield
        return
    os.environ[_POLICY] = "PASSIVE"
    try:
        yield
    finally:
        os.environ.pop(_POLICY, None)
