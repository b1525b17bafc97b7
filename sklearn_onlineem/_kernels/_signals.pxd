"""Ctrl-C amid a kernel: Python calls handlers of signals between its own instructions only."""

cdef extern from "Python.h":
    int PyErr_CheckSignals()


# Whether a handler has raised, with the GIL or without it. Its exception waits for `raise_waiting`,
# which has to follow soon, by the same thread. Threads other than Python's main one see none.
cdef inline bint is_interrupted() noexcept nogil:
    with gil:
        return PyErr_CheckSignals() != 0


cdef inline int raise_waiting() except -1:
    return -1
