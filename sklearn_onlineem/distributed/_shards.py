"""How data come in shards: whose cuts they are, and where they live."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples

__all__ = ["cut", "is_future", "remote_shards"]


def remote_shards(X):
    """Shards of a Dask collection, or of a list of delayed objects or futures; None for others.

    Parameters
    ----------
    X : object

    Returns
    -------
    shards : list of Delayed or Future, or None
    """
    if "dask" not in sys.modules:
        return None
    from dask.base import is_dask_collection
    from dask.delayed import Delayed

    if isinstance(X, list | tuple) and X:
        return list(X) if all(isinstance(x, Delayed) or is_future(x) for x in X) else None
    if isinstance(X, Delayed) or is_future(X):
        return [X]
    if not is_dask_collection(X):
        return None
    if getattr(X, "ndim", 1) == 2 and hasattr(X, "numblocks") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return np.ravel(X.to_delayed()).tolist()


def is_future(x):
    """Whether x is a future of dask.distributed, which need not be installed."""
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(x, distributed.Future)


def cut(X, n_shards, estimator):
    """Cut local data into shards of about equal numbers of rows, or of sequences.

    One long sequence is never cut.
    """
    tags, is_list = get_tags(estimator).input_tags, isinstance(X, list | tuple)
    if tags.string:
        is_nested = is_list
    else:
        is_nested = is_list and len(X) > 0 and np.ndim(X[0]) == 2
        is_nested = is_nested or getattr(X, "ndim", 2) == 3
    if tags.three_d_array and not is_nested:
        return [X]
    if isinstance(X, list | tuple) and not is_nested:
        X = np.asarray(X)
    n = _num_samples(X)
    bounds = np.linspace(0, n, min(n_shards, max(1, n)) + 1).astype(int)
    slices = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    return [X[part] if is_nested else _safe_indexing(X, part) for part in slices]
