"""Statistics in coordinates in which they add: what averages of them are averages of."""

from dataclasses import fields

import numpy as np

from sklearn_onlineem.families.responses import Origin
from sklearn_onlineem.statistics import Listed, Moments, Statistics


def linear(value):
    """Return arrays; those of a sum of statistics are the sums of theirs."""
    if isinstance(value, Moments):
        return _raw_moments(value)
    if isinstance(value, Origin):
        return []  # Where working responses were made is the same in all terms.
    if isinstance(value, Listed):
        return _sums(value)
    if isinstance(value, tuple):
        return [array for part in value for array in linear(part)]
    if isinstance(value, Statistics):
        return [array for f in fields(value) for array in linear(getattr(value, f.name))]
    return [np.asarray(value)]


def _raw_moments(moments):
    """Weights, sums and sums of products, as far as these are told apart."""
    weight, mean = moments.weight, moments.mean
    if moments.scatter.ndim == 3:
        products = np.einsum("k,ki,kj->kij", weight, mean, mean)
    else:
        products = weight[:, None] * mean**2
    scatter = moments.scatter
    if len(scatter) < len(products):  # one covariance for all
        products = products.sum(axis=0, keepdims=True)
    if scatter.shape[1] < products.shape[1]:  # one variance for all features
        products = products.sum(axis=1, keepdims=True)
    return [weight, moments.degrees, weight[:, None] * mean, scatter + products]


def _sums(listed):
    """Sums of functions of the values: of themselves, and of distances from some places."""
    values = listed.values if isinstance(listed.values, tuple) else (listed.values,)
    sums, weights = [listed.weights.sum(axis=0)], listed.weights
    weights = weights[:, :, None] if weights.ndim == 2 else weights
    for part in values:
        for place in (None, -2.0, 0.0, 1.5):
            shown = part if place is None else np.abs(part - place)
            # A missing value weighs nothing.
            shown = np.nan_to_num(shown[:, None] if shown.ndim < 3 else shown)
            sums.append((weights * shown).sum(axis=0))
    return sums
