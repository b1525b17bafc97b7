"""Distributions of the durations of segments: tables p_j(s), s = 1..D, M-steps, and directions.

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

from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families.tangents import Directions, Shares, inverse

# Bounds of tilts beyond those of any data.
_FAR = 30.0
# Logarithms of the shapes of negative binomial distributions, whose limits are a logarithmic series
# and the Poisson distribution; a shape as near as that to one of them is held there.
_LEAST_LOG_SHAPE, _MOST_LOG_SHAPE = np.log(1e-2), np.log(1e6)
_AT_LIMIT = 1e-6
# Smaller probabilities tell no parameters. Less information than this share is rounding.
_TINY, _ROUNDING = 1e-250, 1e-12


def lasts_one_row(table):
    """Return whether a state can last for one row only, as absorbing states do; it keeps that."""
    return ~table[:, 1:].any(axis=1)


class DurationTangents(Directions):
    """Directions of tables that are known: none. Those of others have the same methods.

    Information is minus the second derivative of what the M-step maximises, at the counts of
    segments, for each of these, so that it is also that of distributions that are no exponential
    family.
    """

    def __init__(self, table, counts):
        counts, running = counts
        self.table, self.counts = table, np.maximum(counts, 0.0)
        self.totals = self.counts.sum(axis=1)
        self._s = np.arange(1.0, table.shape[1] + 1.0)
        # Segments that were running when their sequence began, and what is met of them.
        self._share = np.clip(running * inverse(self.totals), 0.0, 1.0)[:, None]
        self._met = table * self._s / (table @ self._s)[:, None]
        # Which coordinates the M-step changes, of shape (K, n_own).
        self.is_free = np.ones((len(table), 0), dtype=bool)

    def score(self, counts):
        """Return the scores of counts, (K, n_own)."""
        return np.zeros(self.is_free.shape)

    def moved(self, v):
        """Return tables moved along v."""
        return self.table

    def size(self, v):
        """Return how far v changes tables, as `Tangents.size`."""
        return 0.0

    def effective_counts(self, counts):
        return np.broadcast_to(self.totals[:, None], self.is_free.shape)

    def is_proper(self, prior):
        return bool((prior[0] >= 0.0).all())

    @cached_property
    def _expected(self):
        return (1.0 - self._share) * self.table + self._share * self._met

    def _excess(self, counts, running):
        """Return counts less those that tables expect of as many segments."""
        new = counts.sum(axis=1) - running
        return counts - new[:, None] * self.table - running[:, None] * self._met


class ShareTangents(DurationTangents):
    """Directions of any probabilities."""

    def __init__(self, table, counts):
        super().__init__(table, counts)
        self._shares = Shares(self._expected)
        # Two multinomial distributions have less information than one of their mean, along what
        # tells them apart.
        apart = (self.table - self._met) * inverse(self._shares.root)
        square = (apart * apart).sum(axis=1, keepdims=True)
        self._apart = apart * np.sqrt(inverse(square))
        left = 1.0 - self._share * (1.0 - self._share) * square
        self._longer = np.sqrt(inverse(left)) - 1.0
        self.is_free = self._shares.is_free

    def _turned(self, v):
        return v + self._longer * (self._apart * v).sum(axis=1, keepdims=True) * self._apart

    def score(self, counts):
        return self._turned(self._shares.score(self._excess(*counts)))

    def moved(self, v):
        return self._shares.moved(self._turned(v), self.table)

    def size(self, v):
        return self._shares.size(self._turned(v))

    def raised(self, after, rise):
        return Shares(self.table).raised(Shares(after.table), rise)


class TiltTangents(DurationTangents):
    """Directions of tables exp(base + theta (s - 1)) / Z, whose bases may have shapes r.

    Where theta becomes theta + a - b, and r becomes r exp(b), logarithms change by

        a (s - 1) + sum_{i < s - 1} log(1 + (exp(-b) - 1) i / (r + i))
    """

    has_shape = False

    def __init__(self, table, counts):
        super().__init__(table, counts)
        i, s = np.arange(table.shape[1] - 1.0), self._s - 1.0
        slope, self._shape = _parameters(table, self.has_shape)
        factors = (self._shape + i if self.has_shape else 1.0) / (1.0 + i)
        is_one, logs = lasts_one_row(table)[:, None], _sums(np.log(slope * factors))
        self._logs = np.where(is_one, log_of(table), logs)
        basis = [np.broadcast_to(s, table.shape)]
        if self.has_shape:
            self._part = i / (self._shape + i)
            basis.append(_sums(-self._part))
        self._basis = np.stack(basis, axis=1)
        information = (1.0 - self._share[:, None]) * _covariances(self._basis, table)
        information += self._share[:, None] * _covariances(self._basis, self._met)
        self.is_free = np.diagonal(information, axis1=1, axis2=2) > _ROUNDING
        if self.has_shape:
            self._add_shape(information)
        information *= self.is_free[:, :, None] & self.is_free[:, None]
        information += ~self.is_free[:, :, None] * np.eye(len(basis))
        self._roots = np.linalg.cholesky(information)

    def _add_shape(self, information):
        """Put in what counts tell of shapes, or what they are expected to where that is none."""
        excess = self.counts * inverse(self.totals)[:, None] - self._expected
        curvature = (excess * _sums(self._part * (1.0 - self._part))).sum(axis=1)
        of_both = information[:, 0, 1] ** 2 * inverse(information[:, 0, 0])
        alone, logs = information[:, 1, 1] - of_both, np.log(self._shape[:, 0])
        is_inner = (
            np.abs(logs - 0.5 * (_LEAST_LOG_SHAPE + _MOST_LOG_SHAPE))
            < 0.5 * (_MOST_LOG_SHAPE - _LEAST_LOG_SHAPE) - _AT_LIMIT
        )
        self.is_free[:, 1] = is_inner & (alone > _ROUNDING * information[:, 1, 1])
        information[:, 1, 1] -= np.where(curvature < 0.9 * alone, curvature, 0.0)

    def score(self, counts):
        raw = self._basis @ self._excess(*counts)[:, :, None]
        return self.is_free * np.linalg.solve(self._roots, raw)[:, :, 0]

    def _changes(self, v):
        """Return a, and b where there are shapes."""
        return np.linalg.solve(self._roots.mT, (self.is_free * v)[:, :, None])[:, :, 0]

    def moved(self, v):
        changes = self._changes(v)
        logs = self._logs + changes[:, :1] * (self._s - 1.0)
        if self.has_shape:
            limits = np.array([[_LEAST_LOG_SHAPE, _MOST_LOG_SHAPE]]) - np.log(self._shape)
            b = np.clip(changes[:, 1], *limits.T)[:, None]
            logs += _sums(np.log1p(np.expm1(-b) * self._part))
        table = np.exp(logs - logs.max(axis=1, keepdims=True))
        return table / table.sum(axis=1, keepdims=True)

    def size(self, v):
        return max(np.abs(v).max(), np.abs(self._changes(v)[:, 1:]).max(initial=0.0))


class ShapeTangents(TiltTangents):
    """Directions of tables whose bases have shapes."""

    has_shape = True


def _sums(steps):
    """Return sums over i < s - 1 of steps (K, D - 1), for s = 1..D."""
    sums = np.zeros((len(steps), steps.shape[1] + 1))
    np.cumsum(steps, axis=1, out=sums[:, 1:])
    return sums


def _covariances(basis, p):
    """Return covariances (K, m, m) of functions of durations (K, m, D)."""
    centred = basis - basis @ p[:, :, None]
    return (centred * p[:, None]) @ centred.mT


def _parameters(table, has_shape):
    """Return exp(theta) and r, (K, 1) each: s p(s + 1) / p(s) = exp(theta) (s - 1 + r).

    Without a shape the right side is exp(theta).
    """
    slopes, shapes = np.ones((len(table), 1)), np.full((len(table), 1), np.exp(_MOST_LOG_SHAPE))
    for k, p in enumerate(table):
        s = 1 + np.flatnonzero(np.minimum(p[:-1], p[1:]) > _TINY)
        if not len(s):
            continue
        low, high = s[0], s[-1]
        first, last = (at * p[at] / p[at - 1] for at in (low, high))
        slopes[k] = last
        if has_shape:
            if last > first:
                found = first * (high - low) / (last - first) - low + 1.0
                shapes[k] = np.clip(found, *np.exp([_LEAST_LOG_SHAPE, _MOST_LOG_SHAPE]))
            slopes[k] = last / (high - 1.0 + shapes[k])
    return slopes, shapes


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
            base, slope = _sums(np.log((shape + i) / (1.0 + i))), _sums(shape / (shape + i))
            table, expected = _tilted(base, counts, running, tilts)
            return table, (((counts - expected) * slope).sum(axis=1)) / counts.sum(axis=1)

        low, high = np.full(n, _LEAST_LOG_SHAPE), np.full(n, _MOST_LOG_SHAPE)
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
