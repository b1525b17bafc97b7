"""Sequences as kernels of linear dynamical systems take them, and what an E-step makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.statistics import Statistics

__all__ = [
    "LinearDynamicalStatistics",
    "parts",
    "row_moments",
    "split_by_gaps",
    "statistics_of",
]

_BLOCK_ROWS = 1 << 13


@dataclass(frozen=True)
class LinearDynamicalStatistics(Statistics):
    """Expected statistics of a linear dynamical system, for each sequence.

    Parameters
    ----------
    initial : MatrixMoments
        Of the first states of sequences.
    transitions : MatrixMoments
        Of successive states, (h_t-1, h_t).
    emissions : MatrixMoments
        Of states and rows, (h_t, v_t).
    """

    initial: MatrixMoments
    transitions: MatrixMoments
    emissions: MatrixMoments


@dataclass(frozen=True)
class Part:
    """Rows of some sequences.

    Parameters
    ----------
    X : ndarray of shape (n_rows, d)
        float64; NaN is missing.
    offsets : ndarray of shape (n_sequences + 1,)
    start : tuple
        Moments of the states of the sequences' first rows.
    n_lead : int, default=0
        1 if the only sequence goes on from another: then there is a row in front, without any
        value, that stands for the state before, and is no part of the data.
    """

    X: np.ndarray
    offsets: np.ndarray
    start: tuple
    n_lead: int = 0

    def __len__(self):
        return len(self.offsets) - 1


def parts(data, start):
    """The sequence that goes on from another one, if there is one, and the others."""
    if data.before is None:
        return [Part(np.ascontiguousarray(data.X, dtype=np.float64), data.offsets, start)]
    gap = np.full((1, data.X.shape[1]), np.nan)
    first = np.concatenate([gap, data.X[: data.offsets[1]]]).astype(np.float64, copy=False)
    continued = Part(first, np.array([0, len(first)]), data.before, n_lead=1)
    rest = data[1:]
    return [continued, *(parts(rest, start) if len(rest) else ())]


def split_by_gaps(data):
    """Sequences without missing values, and the others; None if there are none.

    A sequence that goes on from another one is among the others.
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


def statistics_of(sums, fresh=True):
    """Statistics from what a kernel has found; of first states only if sequences are fresh."""
    initial, transitions, emissions = map(_moments, sums)
    return LinearDynamicalStatistics(
        initial if fresh else initial.scale(0.0), transitions, emissions
    )


def _moments(sums):
    n = math.isqrt(len(sums))
    scatter = sums[n + 1 :].reshape(1, n, n)
    return MatrixMoments(sums[:1], sums[:1], sums[None, 1 : n + 1], scatter)
