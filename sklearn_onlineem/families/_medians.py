r"""Weighted medians, pulled towards previous ones: the locations of Laplace distributions.

For each component and feature, a convex function is minimised:

.. math::

   f(m) = \sum_n r_n |x_n - m|
   + \sum_t W_t \big(|m_t - m| + b_t e^{-|m_t - m| / b_t}\big).

Between two successive points the slope of the first sum is a constant, and that of the second grows
smoothly. Bisection over the sorted points finds the two between which the slope of f changes its
sign; the minimiser is the upper one, or where the slope is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem._typing import Floats

# Sorted values in memory at a time.
_CHUNK_VALUES = 1 << 22
# Slopes below this, relative to the weights, are 0 but for rounding.
_FLAT = 1e-12
_MOST_STEPS = 200


@dataclass(frozen=True)
class Pull:
    """The previous components' part of f: T terms with locations and scales (T, K, d).

    Weights broadcast to these.
    """

    weights: Floats
    locations: Floats
    scales: Floats

    @property
    def total_weight(self):
        return self.weights.sum(axis=0)

    def value(self, m):
        gap = np.abs(m - self.locations)
        return (self.weights * (gap + self.scales * np.exp(-gap / self.scales))).sum(axis=0)

    def slope(self, m):
        side = m - self.locations
        return -(self.weights * np.sign(side) * np.expm1(-np.abs(side) / self.scales)).sum(axis=0)

    def curvature(self, m):
        gap = np.abs(m - self.locations)
        return (self.weights / self.scales * np.exp(-gap / self.scales)).sum(axis=0)

    @property
    def ends(self):
        """Least and greatest location with weight; (inf, -inf) if there is none."""
        there = np.broadcast_to(self.weights > 0.0, self.locations.shape)
        least = self.locations.min(axis=0, initial=np.inf, where=there)
        return least, self.locations.max(axis=0, initial=-np.inf, where=there)

    def where_slope_is(self, slope, low, high):
        """Return where the slope has these values, between given bounds."""
        if len(self.weights) == 1:
            share = np.minimum(np.abs(slope) / self.weights[0], 1.0)
            distance = -self.scales[0] * np.log1p(-share)
            return np.clip(self.locations[0] + np.sign(slope) * distance, low, high)
        # Newton steps, or bisection if a step would leave the bracket or not halve it.
        m, width = 0.5 * low + 0.5 * high, high - low
        for _ in range(_MOST_STEPS):
            excess = self.slope(m) - slope
            low, high = np.where(excess <= 0.0, m, low), np.where(excess >= 0.0, m, high)
            middle = 0.5 * low + 0.5 * high
            new = m - excess / self.curvature(m)
            is_good = (new >= low) & (new <= high) & (2.0 * np.abs(new - m) <= width)
            new = np.where(is_good, new, middle)
            width = np.abs(new - m)
            if ((new == m) | np.isnan(new)).all():
                break
            m = new
        return m


def minimisers(points, shares, pull):
    """Return the minimisers of f, (K, d), for points (n, d) and shares r (n, K) of at least 0.

    Points that are NaN are left out. Where f is flat, it is the middle. Components without any
    weight get 0.
    """
    out = np.zeros((shares.shape[1], points.shape[1]))
    step = max(1, _CHUNK_VALUES // max(1, shares.size))
    for start in range(0, points.shape[1], step):
        index = slice(start, start + step)
        sought = _Sorted(points[:, index], shares)
        parts = pull.weights, pull.locations, pull.scales
        own = Pull(*(np.broadcast_to(part, parts[1].shape)[:, :, index] for part in parts))
        is_pulled = own.total_weight > _FLAT * sought.total_weight
        if not is_pulled.all():
            out[:, index] = sought.medians()
        if is_pulled.any():
            with np.errstate(all="ignore"):  # for components without a pull
                np.copyto(out[:, index], sought.pulled(own), where=is_pulled)
    return out


class _Sorted:
    """Points (n, K, d) in the order of their values, numbered from 1, and the weight up to each."""

    def __init__(self, points, shares):
        order = np.argsort(points, axis=0, kind="stable")
        self.points = np.take_along_axis(points, order, axis=0)
        self.n_points, n_components = shares.shape
        sorted_shares, is_missing = shares[order], np.isnan(self.points)
        if is_missing.any():
            # They come last, where points without a weight change nothing.
            sorted_shares[is_missing] = 0.0
            greatest = self.points.max(axis=0, initial=-np.inf, where=~is_missing)
            stand_in = np.where(is_missing.all(axis=0), 0.0, greatest)
            self.points = np.where(is_missing, stand_in, self.points)
        self.below = np.zeros((self.n_points + 1, n_components, points.shape[1]))
        np.cumsum(sorted_shares.transpose(0, 2, 1), axis=0, out=self.below[1:])

    @property
    def total_weight(self):
        return self.below[-1]

    def point(self, index):
        return np.take_along_axis(self.points, np.clip(index - 1, 0, self.n_points - 1), axis=0)

    def slope_above(self, index):
        """Return the slopes of the first sum between these points and the next ones."""
        return 2.0 * np.take_along_axis(self.below, index[None], axis=0)[0] - self.total_weight

    def medians(self):
        """Return the minimisers of the first sum alone: the middle of where its slope is 0."""
        if not self.n_points:
            return np.zeros_like(self.total_weight)
        slopes, flat = 2.0 * self.below[1:] - self.total_weight, _FLAT * self.total_weight
        first = self.point(1 + (slopes < -flat).sum(axis=0))
        last = self.point(1 + (slopes <= flat).sum(axis=0))
        return np.where(self.total_weight > 0.0, 0.5 * first + 0.5 * last, 0.0)

    def pulled(self, pull):
        least, greatest = pull.ends
        if not self.n_points:
            return pull.where_slope_is(np.zeros_like(least), least, greatest)
        number = self._first_beyond(pull)
        slope, upper = self.slope_above(number - 1), self.point(number)
        low = np.where(number > 1, self.point(number - 1), np.minimum(least, upper))
        high = np.where(number <= self.n_points, upper, np.maximum(greatest, low))
        is_point = (number <= self.n_points) & (slope + pull.slope(upper) <= 0.0)
        return pull.where_slope_is(-slope, np.where(is_point, upper, low), high)

    def _first_beyond(self, pull):
        """Return the numbers of the first points above which f rises, n + 1 if there are none."""
        low = np.ones(self.total_weight.shape, dtype=np.intp)
        high = np.full_like(low, self.n_points + 1)
        for _ in range(self.n_points.bit_length()):
            middle = np.minimum((low + high) // 2, self.n_points)
            rises = self.slope_above(middle) + pull.slope(self.point(middle)) >= 0.0
            is_open = low < high
            high = np.where(is_open & rises, middle, high)
            low = np.where(is_open & ~rises, middle + 1, low)
        return low


def objective(points, shares, pull, m):
    out = pull.value(m)
    for k, centre in enumerate(m):
        distances = np.abs(points - centre)
        np.copyto(distances, 0.0, where=np.isnan(distances))
        out[k] += np.einsum("n,nd->d", shares[:, k], distances)
    return out


def observed_weights(points, shares):
    """Return the sums of shares (n, K) over points (n, d) that are not NaN, (K, d)."""
    return shares.T @ ~np.isnan(points)
