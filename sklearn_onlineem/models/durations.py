"""Distributions of the durations of segments: tables p_j(s), s = 1..D, and their M-steps.

Each is a family of tables. Its M-step takes expected numbers of segments by their durations,
n_j(s), and how many of these, N0_j, were running when their sequence began. Such a segment is met
with a probability in proportion to its duration, so that the M-step maximises

    sum_s n(s) log p(s) - N0 log sum_s s p(s)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.models._duration_tangents import (
    LEAST_LOG_SHAPE,
    MOST_LOG_SHAPE,
    DurationTangents,
    ShapeTangents,
    ShareTangents,
    TiltTangents,
    lasts_one_row,
)

# Bounds of tilts beyond those of any data.
_FAR = 30.0


@dataclass(frozen=True)
class SegmentDurations(ABC):
    """Distributions of durations on 1..D, one for each state.

    Parameters
    ----------
    learns : bool, default=True
        Whether the M-step changes them.
    left_censored : bool, default=False
        Whether sequences begin within a segment, at any of its rows, rather than with a new one.
    """

    learns: bool = True
    left_censored: bool = False

    @abstractmethod
    def n_parameters(self, table: Floats) -> int:
        """Return the number of free parameters.

        Parameters
        ----------
        table : ndarray of shape (K, D)
            Durations of K states.
        """

    def m_step(self, counts: Floats, running: Floats, table: Floats) -> Floats:
        """Return the table (K, D) that maximises expected numbers of segments.

        Parameters
        ----------
        counts : ndarray of shape (K, D)
            Numbers of segments by their durations; below 0 counts as 0.
        running : ndarray of shape (K,)
            How many of these were running when their sequence began.
        table : ndarray of shape (K, D)
            The present one, which states without segments keep, and those that last for one row.
        """
        if not self.learns:
            return table
        counts, new = np.maximum(counts, 0.0), table.copy()
        some = (counts.sum(axis=1) > 0.0) & ~lasts_one_row(table)
        if some.any():
            totals = counts[some].sum(axis=1)
            new[some] = self._fitted(counts[some], np.clip(running[some], 0.0, totals))
        return new

    @abstractmethod
    def _fitted(self, counts, running):
        """Return the tables of states with segments."""

    def tangents(self, table: Floats, counts: tuple[Floats, Floats]) -> DurationTangents:
        """Return directions in which tables move.

        Parameters
        ----------
        table : ndarray of shape (K, D)
            The present one.
        counts : tuple of two ndarrays
            As `counts` and `running` of `m_step`.
        """
        kind = self._tangents if self.learns else DurationTangents
        return kind(table, counts)


@dataclass(frozen=True)
class CategoricalDurations(SegmentDurations):
    """Any distribution on 1..D; durations of probability 0 keep it.

    Parameters
    ----------
    learns, left_censored
        Like those of `SegmentDurations`.
    """

    _tangents = ShareTangents

    def n_parameters(self, table: Floats) -> int:
        return int(np.count_nonzero(table) - len(table))

    def _fitted(self, counts, running):
        totals, s = counts.sum(axis=1), np.arange(1.0, counts.shape[1] + 1.0)
        table = counts / totals[:, None]
        if not running.any():
            return table
        # p(s) = n(s) / (N1 + N0 s / m), with N1 new segments, and the m that makes their sum 1. It
        # is the mean duration then.
        new = totals - running
        low, high = np.ones(len(totals)), np.full(len(totals), float(len(s)))
        for _ in range(200):
            m = 0.5 * (low + high)
            table = counts / (new[:, None] + running[:, None] * s / m[:, None])
            is_below = table.sum(axis=1) < 1.0
            low, high = np.where(is_below, m, low), np.where(is_below, high, m)
        return table / table.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class PoissonDurations(SegmentDurations):
    r"""Durations less 1 that are Poisson, truncated at D.

    .. math:: p(s) \propto \lambda^{s - 1} / (s - 1)!

    Parameters
    ----------
    learns, left_censored
        Like those of `SegmentDurations`.
    """

    _tangents = TiltTangents

    def n_parameters(self, table: Floats) -> int:
        return int((~lasts_one_row(table)).sum())

    def _fitted(self, counts, running):
        s = np.arange(1.0, counts.shape[1] + 1.0)
        base = np.broadcast_to(-gammaln(s), counts.shape)
        tilts = np.log(np.maximum(counts @ s / counts.sum(axis=1) - 1.0, 1e-12))
        return _tilted(base, counts, running, tilts)[0]


@dataclass(frozen=True)
class NegativeBinomialDurations(SegmentDurations):
    r"""Durations less 1 that are negative binomial, truncated at D.

    .. math:: p(s) \propto \frac{\Gamma(s - 1 + r)}{\Gamma(r) (s - 1)!} q^{s - 1}

    with a shape r of its own for each state. As r goes to infinity they are Poisson.

    Parameters
    ----------
    learns, left_censored
        Like those of `SegmentDurations`.
    """

    _tangents = ShapeTangents

    def n_parameters(self, table: Floats) -> int:
        return min(2, table.shape[1] - 1) * int((~lasts_one_row(table)).sum())

    def _fitted(self, counts, running):
        n, i = len(counts), np.arange(counts.shape[1] - 1.0)
        tilts = np.zeros(n)

        def at(log_shape):
            """Return the best tables of shapes, and derivatives by the logarithms of these."""
            shape = np.exp(log_shape)[:, None]
            base, slope = np.zeros_like(counts), np.zeros_like(counts)
            np.cumsum(np.log((shape + i) / (1.0 + i)), axis=1, out=base[:, 1:])
            np.cumsum(shape / (shape + i), axis=1, out=slope[:, 1:])
            table, expected = _tilted(base, counts, running, tilts)
            return table, (((counts - expected) * slope).sum(axis=1)) / counts.sum(axis=1)

        low, high = np.full(n, LEAST_LOG_SHAPE), np.full(n, MOST_LOG_SHAPE)
        (of_low, rise), (of_high, fall) = at(low), at(high)
        # The likelihood may grow up to an end.
        is_inner = (rise > 0.0) & (fall < 0.0)
        best = np.where((rise <= 0.0)[:, None], of_low, of_high)
        side, last = np.zeros(n), low
        for step in range(100):
            # The secant, of which an end that stays has half of its value (Illinois). A bisection
            # now and then helps where the likelihood is flat.
            middle = high - fall * (high - low) / np.where(is_inner, fall - rise, 1.0)
            middle = np.where(step % 4 == 0, 0.5 * (low + high), middle)
            is_inner = is_inner & (np.abs(middle - last) > 1e-12) & (rise - fall > 1e-14)
            if not is_inner.any():
                break
            middle = np.where(is_inner, middle, last)
            tables, value = at(middle)
            best, last = np.where(is_inner[:, None], tables, best), middle
            rises = value > 0.0
            rise = np.where(rises, value, np.where(side < 0.0, 0.5 * rise, rise))
            fall = np.where(rises, np.where(side > 0.0, 0.5 * fall, fall), value)
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
            side = np.where(rises, 1.0, -1.0)
        return best


def _tilted(base, counts, running, tilts):
    """Return the tables exp(base + theta (s - 1)) / Z whose means fit, and the counts they expect.

    Newton's method on theta, by states, within bounds that every step narrows; `tilts` has the
    start, and takes the end.
    """
    i = np.arange(float(counts.shape[1]))
    totals = counts.sum(axis=1)
    target, share = (counts @ i) / totals, (running / totals)[:, None]
    low = np.full(len(counts), -_FAR)
    high = _FAR + np.log(len(i)) - np.minimum(base[:, -1] / len(i), 0.0)
    theta = np.clip(tilts, low, high)
    for _ in range(200):
        logs = base + theta[:, None] * i
        table = np.exp(logs - logs.max(axis=1, keepdims=True))
        table /= table.sum(axis=1, keepdims=True)
        expected = table
        if share.any():
            biased = table * (i + 1.0)
            biased /= biased.sum(axis=1, keepdims=True)
            expected = (1.0 - share) * table + share * biased
        mean = expected @ i
        variance = table @ (i * i) - (table @ i) ** 2
        if share.any():
            of_biased = biased @ (i * i) - (biased @ i) ** 2
            variance = (1.0 - share[:, 0]) * variance + share[:, 0] * of_biased
        low, high = np.where(mean < target, theta, low), np.where(mean < target, high, theta)
        step = (target - mean) / np.maximum(variance, 1e-300)
        is_done = np.abs(step) <= 1e-13 * np.maximum(np.abs(theta), 1.0)
        new = theta + np.clip(step, -2.0, 2.0)
        is_outside = (new <= low) | (new >= high)
        theta = np.where(is_outside & ~is_done, 0.5 * (low + high), new)
        if is_done.all():
            break
    tilts[:] = theta
    return table, expected * totals[:, None]


DURATIONS = {
    "poisson": PoissonDurations,
    "negative_binomial": NegativeBinomialDurations,
    "categorical": CategoricalDurations,
}
