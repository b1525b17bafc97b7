"""Coordinates in which distances between rows make sense, for the k-means of a start.

Maps of counts are fixed. Functions of dense rows and their weights return maps.
"""

from functools import cache

import numpy as np
from scipy import sparse

# Eigenvalues of a correlation matrix that are rounding, by the largest one.
_RANK_TOLERANCE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}
_ROTATIONS = 30


def hellinger(X):
    """Return square roots of the shares in each row of counts, CSR or dense.

    Distances of these are Hellinger distances: neither long rows nor common words outweigh others.
    """
    sums = np.asarray(X.sum(axis=1), dtype=np.float64).reshape(-1)
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0.0)
    if not sparse.issparse(X):
        return np.sqrt(X * inverse[:, None]).astype(X.dtype)
    shares = np.sqrt(X.data * np.repeat(inverse, np.diff(X.indptr))).astype(X.dtype)
    return sparse.csr_array((shares, X.indices, X.indptr), shape=X.shape)


def square_roots(X):
    """Return square roots of counts, whose variances as Poisson variables are all about 1/4."""
    return X.sqrt() if sparse.issparse(X) else np.sqrt(X)


def unchanged(X):
    return X


def standardised(X, sample_weight, one_unit=False):
    """Return the map to columns of mean 0 and variance 1, or of mean variance 1 with `one_unit`.

    The unit of constant columns is 1. Scaling a column by a power of two changes no bit.
    """
    # From a row, so that neither an offset nor the squares of large numbers lose digits.
    origin = X[0].astype(np.float64)
    deviation = X - origin
    largest = np.abs(deviation).max(axis=0)
    varies = largest > 4.0 * np.finfo(X.dtype).eps * np.abs(X).max(axis=0)
    if one_unit:
        largest = np.full(len(largest), largest.max())
    largest = np.where(varies, largest, 1.0)
    deviation /= largest
    mean = np.average(deviation, axis=0, weights=sample_weight)
    variance = np.average((deviation - mean) ** 2, axis=0, weights=sample_weight)
    if one_unit:
        variance[varies] = variance[varies].mean() if varies.any() else 1.0
    scale = np.where(varies & (variance > 0.0), largest * np.sqrt(variance), 1.0)
    shift = mean * largest
    return lambda rows: ((rows - origin - shift) / scale).astype(X.dtype)


def logarithmic(X, sample_weight):
    """Return the map to logarithms of x / mean + 0.01, of columns from 0 up.

    The scales of gamma distributions are shifts there. Scaling a column by a power of two changes
    no bit.
    """
    largest = X.max(axis=0).astype(np.float64)
    largest[largest == 0.0] = 1.0
    mean = np.average(X / largest, axis=0, weights=sample_weight)
    mean[mean == 0.0] = 1.0
    return lambda rows: np.log(rows / largest / mean + 0.01).astype(X.dtype)


def whitened(X, sample_weight):
    """Return the map to uncorrelated coordinates of variance 1, as many as the rank of X."""
    standardise = standardised(X, sample_weight)
    Z = standardise(X).astype(np.float64)
    values, vectors = np.linalg.eigh((Z * _shares(X, sample_weight)).T @ Z)
    kept = values > _RANK_TOLERANCE[X.dtype] * values[-1]
    axes = vectors[:, kept] / np.sqrt(values[kept])
    return lambda rows: standardise(rows) @ axes


def independent(X, sample_weight):
    r"""Return the map to independent coordinates, each times the gap of its kurtosis below 3.

    Coordinates along which rows form clusters have a small kurtosis; normal ones have a gap of 0,
    so that they do not hide the clusters. The rotation of `whitened` rows is a fixed point of
    :math:`R \propto E[z (R'z)^3] - 3 R` with orthonormal columns.

    References
    ----------
    Hyvarinen & Oja, "A fast fixed-point algorithm for independent component analysis", Neural
    Computation 1997; Pena & Prieto, "Cluster identification using projections", JASA 2001.
    """
    whiten = whitened(X, sample_weight)

    @cache
    def axes():
        Z = whiten(X)
        share = _shares(X, sample_weight)
        rotation = np.eye(Z.shape[1])
        for _ in range(_ROTATIONS):
            S = Z @ rotation
            left, _, right = np.linalg.svd(Z.T @ (share * S * S * S) - 3.0 * rotation)
            rotation = left @ right
        gap = np.clip(3.0 - (share * (Z @ rotation) ** 4).sum(axis=0), 0.0, None)
        return rotation * gap

    return lambda rows: whiten(rows) @ axes()


def _shares(X, sample_weight):
    weight = np.ones(len(X)) if sample_weight is None else sample_weight
    return weight[:, None] / weight.sum()
