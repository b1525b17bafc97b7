"""Threads for the methods of families that know how to use them."""

from functools import partial
from inspect import signature

__all__ = ["threaded"]


def threaded(method, n_threads):
    """The method with `n_threads`, if that is among its parameters; it need not be."""
    if n_threads > 1 and "n_threads" in signature(method).parameters:
        return partial(method, n_threads=n_threads)
    return method
