"""Sequences as kernels of linear dynamical systems take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats

__all__ = ["Prepared", "prepared", "row_moments", "split_by_gaps"]

_BLOCK_ROWS = 1 << 13


@dataclass(frozen=True)
class Prepared:
    """Sequences whose first states have one distribution.

    Parameters
    ----------
    X : ndarray of shape (n_rows, d)
        float64; NaN is missing.
    offsets : ndarray of shape (n_sequences + 1,)
    first : tuple
        Mean and covariance of the states of the sequences' first rows.
    n_lead : int, default=0
        1 if the only sequence continues another: then there is a row in front, without any
        value, that stands for the state before, and is no part of the data.
    """

    X: Floats
    offsets: Floats
    first: tuple
    n_lead: int = 0

    def __len__(self):
        return len(self.offsets) - 1


def prepared(data, first):
    """The sequence that continues another one, if there is one, and the others."""
    if data.before is None:
        return [Prepared(np.ascontiguousarray(data.X, dtype=np.float64), data.offsets, first)]
    gap = np.full((1, data.X.shape[1]), np.nan)
    X = np.concatenate([gap, data.X[: data.offsets[1]]]).astype(np.float64, copy=False)
    continued = Prepared(X, np.array([0, len(X)]), data.before, n_lead=1)
    rest = data[1:]
    return [continued, *(prepared(rest, first) if len(rest) else ())]


def split_by_gaps(data):
    """Sequences without missing values, and the others; None if there are none.

    A sequence that continues another one is among the others.
    """
    if data.before is None and data.observed is None:
        return data, None
    has_gaps = np.logical_or.reduceat(np.isnan(data.X).any(axis=1), data.offsets[:-1])
    has_gaps[0] |= data.before is not None
    if has_gaps.all():
        return None, data
    return data[np.flatnonzero(~has_gaps)], data[np.flatnonzero(has_gaps)]


def row_moments(rows):
    """Mean of the rows, and scatter about it; remembered, as all iterations need them."""
    return rows.remember("moments", lambda: _row_moments(rows.X))


def _row_moments(X):
    n, d = X.shape
    blocks = [X[i : i + _BLOCK_ROWS] for i in range(0, n, _BLOCK_ROWS)]
    mean = sum(np.ones(len(block)) @ block for block in blocks) / n
    scatter = np.zeros((d, d))
    for block in blocks:
        deviations = block - mean
        scatter += deviations.T @ deviations
    return mean, scatter
