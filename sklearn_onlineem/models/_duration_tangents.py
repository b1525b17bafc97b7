"""Directions in which tables of durations move, in units of their information."""

import numpy as np

from sklearn_onlineem._python import cached_property
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families.tangents import Directions, Shares, inverse

# Logarithms of the shapes of negative binomial distributions, whose limits are a logarithmic series
# and the Poisson distribution; a shape as near as that to one of them is held there.
LEAST_LOG_SHAPE, MOST_LOG_SHAPE = np.log(1e-2), np.log(1e6)
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
        return np.abs(self._shares.logarithms(self._turned(v))).max()

    def raised(self, after, share):
        return Shares(self.table).raised(Shares(after.table), share)


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
            np.abs(logs - 0.5 * (LEAST_LOG_SHAPE + MOST_LOG_SHAPE))
            < 0.5 * (MOST_LOG_SHAPE - LEAST_LOG_SHAPE) - _AT_LIMIT
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
            limits = np.array([[LEAST_LOG_SHAPE, MOST_LOG_SHAPE]]) - np.log(self._shape)
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
    slopes, shapes = np.ones((len(table), 1)), np.full((len(table), 1), np.exp(MOST_LOG_SHAPE))
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
                shapes[k] = np.clip(found, *np.exp([LEAST_LOG_SHAPE, MOST_LOG_SHAPE]))
            slopes[k] = last / (high - 1.0 + shapes[k])
    return slopes, shapes
