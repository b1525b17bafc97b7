"""Sequences in parts that a thread walks, and what an E-step makes of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_onlineem.families import Rows
from sklearn_onlineem.families.gaussian_matrix import MatrixMoments
from sklearn_onlineem.statistics import Statistics

__all__ = ["LinearDynamicalStatistics", "gaps_last", "joined", "moments", "parts"]

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
    rows : Rows, default=None
        Where X comes from; remembers what does not change.
    """

    X: np.ndarray
    offsets: np.ndarray
    start: tuple
    n_lead: int = 0
    rows: Rows | None = None

    @cached_property
    def has_gaps(self):
        return bool(np.isnan(np.sum(self.X)))

    @property
    def row_moments(self):
        """Mean of the rows, and scatter about it; remembered, as all iterations need them."""
        return self.rows.remember("moments", self._row_moments)

    def _row_moments(self):
        mean = self.X.mean(axis=0)
        deviations = self.X - mean
        return mean, deviations.T @ deviations

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


def gaps_last(data):
    """The same sequences, those with missing values at the end."""
    if data.observed is None:
        return data
    has_gaps = np.logical_or.reduceat(np.isnan(data.X).any(axis=1), data.offsets[:-1])
    has_gaps[0] &= data.before is None  # what goes on from another stays first
    is_sorted = (has_gaps[1:] >= has_gaps[:-1]).all()
    return data if is_sorted else data[np.argsort(has_gaps, kind="stable")]


def _part(chunk, start):
    return Part(
        np.ascontiguousarray(chunk.X, dtype=np.float64), chunk.offsets, start, rows=chunk.rows
    )


def moments(rows, covariance):
    """Moments of rows of expectations, with the sum of their covariances."""
    n = np.array([float(len(rows))])
    mean = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    deviations = rows - mean
    return MatrixMoments(n, n, mean[None], (deviations.T @ deviations + covariance)[None])


def joined(first, across, second):
    """Covariance of (x, y), from those of x, of y with x, and of y."""
    return np.block([[first, across.T], [across, second]])
