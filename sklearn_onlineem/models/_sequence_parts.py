"""Sequences in parts that a thread walks, and what an E-step makes of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.families.linear_gaussian import joined
from sklearn_onlineem.statistics import Statistics

__all__ = [
    "LinearDynamicalStatistics",
    "moments",
    "parts",
    "row_moments",
    "split_by_gaps",
]

# Rows of a part, a sequence at least.
_PART_ROWS = 1 << 13


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

    @cached_property
    def has_gaps(self):
        return bool(np.isnan(np.sum(self.X)))

    def statistics(self, means, filled, covariances):
        """Sums over the sequences of this part.

        Parameters
        ----------
        means : ndarray of shape (n_rows, k)
            Of the states.
        filled : ndarray of shape (n_rows, d)
            Rows without gaps; where nothing is seen it does not matter.
        covariances : Covariances
        """
        begins, ends = self.offsets[:-1], self.offsets[1:]
        fresh = means[:0] if self.n_lead else means[begins]
        return LinearDynamicalStatistics(
            moments(fresh, np.zeros_like(covariances.first) if self.n_lead else covariances.first),
            moments(
                np.hstack([np.delete(means, ends - 1, axis=0), np.delete(means, begins, axis=0)]),
                joined(covariances.departing, covariances.lagged, covariances.arriving),
            ),
            moments(
                self._seen(np.hstack([means, filled])),
                joined(covariances.emitting, covariances.across, covariances.within),
            ),
        )

    def _seen(self, rows):
        if not self.has_gaps:
            return rows
        return rows[~np.isnan(self.X).all(axis=1)]


def parts(data, start):
    """Cut data into parts, in the order of the data."""
    if data.before is None:
        chunks = data.rows.remember(_chunk_key(data), lambda: data.chunks(_PART_ROWS))
        return [_part(chunk, start) for chunk in chunks]
    gap = np.full((1, data.X.shape[1]), np.nan)
    first = np.concatenate([gap, data.X[: data.offsets[1]]]).astype(np.float64, copy=False)
    continued = Part(first, np.array([0, len(first)]), data.before, n_lead=1)
    rest = data[1:]
    return [continued, *(parts(rest, start) if len(rest) else ())]


def _chunk_key(data):
    """Equal for data with the same rows and the same offsets."""
    return "sequences", data.offsets.tobytes()


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


def _part(chunk, start):
    return Part(np.ascontiguousarray(chunk.X, dtype=np.float64), chunk.offsets, start)


def row_moments(rows):
    """Mean of the rows, and scatter about it; remembered, as all iterations need them."""
    return rows.remember("moments", lambda: _row_moments(rows.X))


def _row_moments(X):
    n, d = X.shape
    blocks = [X[i : i + _PART_ROWS] for i in range(0, n, _PART_ROWS)]
    mean = sum(np.ones(len(block)) @ block for block in blocks) / n
    scatter = np.zeros((d, d))
    for block in blocks:
        deviations = block - mean
        scatter += deviations.T @ deviations
    return mean, scatter


def moments(rows, covariance):
    """Moments of rows of expectations, with the sum of their covariances."""
    n = np.array([float(len(rows))])
    mean = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    deviations = rows - mean
    return MatrixMoments(n, n, mean[None], (deviations.T @ deviations + covariance)[None])
