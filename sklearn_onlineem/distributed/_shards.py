"""Shards of data: cut here, or chunks and objects on a cluster."""

import sys

import numpy as np
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import _num_samples

from sklearn_onlineem.estimators.validation import countable


def remote_shards(columns, estimator):
    """Return shards of data on a cluster by name; None if all data are local.

    Collections are cut into rows as they are chunked. Sequences are never cut: to an estimator of
    sequences, a 2-D collection or a data frame is one sequence, and one shard.
    """
    takes_sequences = get_tags(estimator).input_tags.three_d_array
    is_one = takes_sequences and getattr(columns["X"], "ndim", 1) == 2
    shards = {name: _remote(name, values, is_one) for name, values in columns.items()}
    _check_alike(shards)
    return None if shards["X"] is None else shards


def _check_alike(shards):
    """Raise ValueError unless all columns have as many shards as X, or all have none."""
    counts = {name: None if parts is None else len(parts) for name, parts in shards.items()}
    for name, count in counts.items():
        if count != counts["X"]:
            raise ValueError(
                f"DistributedEM: {name} must come in shards as X does, one for each of its shards."
            )


def _remote(name, X, is_one):
    """Return shards of a Dask collection, or of a list of delayed objects or futures; else None."""
    if "dask" not in sys.modules:
        return None
    from dask.base import is_dask_collection
    from dask.delayed import Delayed

    def is_shard(x):
        return isinstance(x, Delayed) or is_future(x)

    if isinstance(X, list | tuple):
        n_shards = sum(map(is_shard, X))
        if 0 < n_shards < len(X):
            raise TypeError(
                f"DistributedEM: of the {len(X)} entries of {name}, {n_shards} are delayed objects"
                " or futures; all must be."
            )
        return list(X) if n_shards else None
    if is_shard(X):
        return [X]
    if not is_dask_collection(X):
        return None
    if hasattr(X, "rechunk"):
        X = X.rechunk({axis: -1 for axis in range(0 if is_one else 1, X.ndim)})
    elif is_one:
        X = X.repartition(npartitions=1)
    return np.ravel(X.to_delayed()).tolist()


def is_future(x):
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(x, distributed.Future)


def cut(columns, n_shards, estimator):
    """Return local data cut into shards with about equal numbers of rows, or of sequences.

    A single sequence is never cut. To an estimator of rows, a list of 2-D arrays is shards already.
    """
    X = _collection("X", columns.get("X"))
    tags, is_nested = get_tags(estimator).input_tags, isinstance(X, list | tuple)
    if not tags.string:
        # Whether each entry of X is a sequence; those of strings are.
        is_nested = is_nested and len(X) > 0 and np.ndim(X[0]) == 2
        if is_nested and not (tags.three_d_array or "symbols" in estimator._takes):
            lists = {name: _collection(name, values) for name, values in columns.items()}
            _check_alike(
                {name: x if isinstance(x, list | tuple) else None for name, x in lists.items()}
            )
            return lists
        is_nested = is_nested or getattr(X, "ndim", 2) == 3
    if tags.three_d_array and not is_nested:
        return {name: [_sliceable(values)] for name, values in columns.items()}
    columns = {name: _entries(name, values, is_nested) for name, values in columns.items()}
    n = _num_samples(columns["X"])
    bounds = np.linspace(0, n, min(n_shards, max(1, n)) + 1).astype(int)
    slices = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    for name, values in columns.items():
        if _num_samples(values) != n:
            raise ValueError(
                f"DistributedEM: X has {n} entries, and {name} {_num_samples(values)}."
            )
        columns[name] = [_safe_indexing(values, part) for part in slices]
    return columns


def _collection(name, values):
    """Return the values if they have entries to choose from; else ValueError."""
    is_one_thing = isinstance(values, str | bytes | dict | set | frozenset)
    has_entries = hasattr(values, "__len__") or hasattr(values, "__array__")
    if is_one_thing or not has_entries or getattr(values, "ndim", 1) == 0:
        raise ValueError(
            f"DistributedEM: {name} must be an array, a data frame, a list of sequences or a list"
            f" of shards, got {values!r:.80}."
        )
    return values


def _entries(name, values, is_nested):
    """Return the values as a list of sequences, or as something with countable rows."""
    values = _collection(name, values)
    if is_nested and isinstance(values, list | tuple):
        return list(iter(values))
    return _sliceable(values)


def _sliceable(values):
    try:
        values = countable(values)
        return np.asarray(values) if isinstance(values, list | tuple) else values
    except ValueError as error:
        raise ValueError(f"DistributedEM: {error}") from error
