"""Comparing parameters, statistics and models, whatever they are made of."""

from dataclasses import fields, is_dataclass

import numpy as np

from sklearn_onlineem.families import Family
from sklearn_onlineem.families.linear_gaussian import LinearGaussian
from sklearn_onlineem.statistics import Listed


def arrays(value):
    """All arrays within parameters, statistics, models, or tuples of these."""
    if isinstance(value, (Family, LinearGaussian, frozenset, str)):
        return []
    if isinstance(value, Listed):
        return canonical(value)
    if is_dataclass(value):
        parts = [getattr(value, f.name) for f in fields(value)]
        return [a for part in parts if part is not None for a in arrays(part)]
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, (tuple, list)):
        return [a for item in value for a in arrays(item)]
    if hasattr(value, "covariance"):
        return [value.mean, value.covariance]
    return [np.asarray(value)]


def canonical(listed):
    """Distinct values in order, and their weights, of those that have any."""
    values = listed.values if isinstance(listed.values, tuple) else (listed.values,)
    sizes = [int(np.prod(part.shape[1:])) for part in values]
    flat = [part.reshape(len(part), size) for part, size in zip(values, sizes, strict=True)]
    flat = np.concatenate(flat, axis=1)
    distinct, index = np.unique(flat, axis=0, return_inverse=True)
    weights = np.zeros((len(distinct), *listed.weights.shape[1:]))
    np.add.at(weights, index.reshape(-1), listed.weights)
    kept = weights.any(axis=tuple(range(1, weights.ndim)))
    return [distinct[kept], weights[kept]]


def assert_close(found, expected, rtol=1e-10, atol=1e-10):
    found, expected = arrays(found), arrays(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def assert_identical(found, expected):
    found, expected = arrays(found), arrays(expected)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
