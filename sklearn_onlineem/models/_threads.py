"""Threads over chunks of data, for models whose kernels run on one thread each."""

from concurrent.futures import ThreadPoolExecutor

__all__ = ["thread_map"]


def thread_map(function, *arguments, n_threads):
    """Return ``[function(*a) for a in zip(*arguments)]``, in this order, from several threads.

    Parameters
    ----------
    function : callable
        Spends its time in kernels that release the GIL.
    *arguments : sequence
        Of equal lengths.
    n_threads : int
    """
    if n_threads == 1 or len(arguments[0]) == 1:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(min(n_threads, len(arguments[0]))) as pool:
        return list(pool.map(function, *arguments))
