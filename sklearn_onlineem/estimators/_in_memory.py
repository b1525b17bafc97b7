"""Data that are not in this process: refused, rather than gathered without a word."""

from __future__ import annotations

import sys

import numpy as np

__all__ = ["check_in_memory"]


def check_in_memory(name, values):
    """Raise TypeError if data are a Dask collection, a future, or a list with some of these.

    Parameters
    ----------
    name : str
        Of the argument.
    values : object
    """
    if type(values) is np.ndarray or "dask" not in sys.modules:
        return
    parts = values if isinstance(values, list | tuple) else (values,)
    for part in parts:
        if type(part) is not np.ndarray and _is_remote(part):
            kind = f"{type(part).__module__.partition('.')[0]} {type(part).__name__}"
            raise TypeError(
                f"{name} is a {kind}, or has one, and all of it would be loaded into this process."
                " Pass what its compute() or result() returns if that fits into memory. To learn"
                " from it where it is, use sklearn_onlineem.distributed.DistributedEM; to predict,"
                " map blocks of rows: X.map_blocks(estimator.predict, dtype=int, drop_axis=1)."
            )


def _is_remote(values):
    from dask.base import is_dask_collection

    distributed = sys.modules.get("distributed")
    is_future = distributed is not None and isinstance(values, distributed.Future)
    return is_future or is_dask_collection(values)
