r"""Directions in which the parameters of a family move, in units of their information.

Coordinates v, of shape (K, n_own), move natural parameters of component k by :math:`\nu_k(v_k)`, so
that its rows score :math:`a = \nu_k \cdot (\phi(x) - \mu_k)`, of variance :math:`v_k \cdot v_k`
under the component: the information of complete data is the unit matrix. Coordinates that change
no density, such as a common factor of probabilities, score 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

# Entries near zero, by the mean of their row, and the factor by which an M-step leaves zero.
_NEAR_ZERO, _GROWTH = 1e-3, 1.00001
# Smaller probabilities, and rates relative to the largest component's, are fixed at their bound.
BOUND = 1e-8
_TINY = np.finfo(float).tiny


class Directions:
    """Directions in which the values of a node of a model move, as coordinates need them.

    `shared` is the slice of coordinates in which all components move as one, and `parts` has slices
    by name: none if they have no names of their own.
    """

    shared = slice(0, 0)
    parts = {}
    # Whether densities have derivatives everywhere.
    is_smooth = True

    def floor_penalty(self, statistics):
        """Return the log density of pseudo-data that floors of variances stand for, in nats."""
        return 0.0

    def unsolved(self, statistics):
        """Return the scores that iterations of the M-step have left, or 0 where it has none."""
        return 0.0

    def raised(self, after, rise):
        """Return values with entries near zero raised that an M-step raises.

        `after` are the directions after the M-step. `rise` is whether it is only the entry that
        rises fastest, of several, and the share of its row's mean that it becomes. None: there are
        none.
        """
        return None


@dataclass(frozen=True)
class Shares(Directions):
    """Rows of probabilities, of shape (R, C), and their coordinates of that shape.

    The score of counts n is (n - sum(n) p) / sqrt(p). Probabilities near zero are fixed. With an
    axis of 0, columns add up to 1: each component has a row of one entry.
    """

    p: np.ndarray
    axis: int = -1

    # Small arrays are made anew in each step, so that operations count.
    def __post_init__(self):
        moves = self.p > BOUND
        root, is_alone = np.sqrt(self.p * moves), self._sums(moves) <= 1
        values = {"_moves": moves, "root": root, "_inverse_root": inverse(root)}
        # Which coordinates move: none in rows with a single positive entry.
        vars(self).update(values, is_free=moves & ~is_alone)

    def _sums(self, values):
        return np.add.reduce(values, axis=self.axis, keepdims=True)

    def size(self, v):
        """Return the largest derivative of log p along v."""
        return np.abs(v * self._inverse_root - self._sums(self.root * v)).max()

    def score(self, counts):
        """Return the scores of counts, the adjoint of the derivative of log p."""
        counts = counts.reshape(self.p.shape)
        return counts * self._inverse_root - self.root * self._sums(counts)

    def effective_counts(self, counts):
        return self._sums(counts.reshape(self.p.shape)) + np.zeros(self.p.shape)

    def is_proper(self, prior):
        return bool((prior >= 0.0).all())

    def moved(self, v, p=None):
        """Return probabilities, or others, moved along v; fixed ones stay."""
        p = self.p if p is None else p
        # Rows are normalised, so the term of the derivative that all entries share is left out.
        left = p * self._moves
        moved = left * np.exp(v * self._inverse_root)
        moved *= self._sums(left) * (1.0 / np.maximum(self._sums(moved), _TINY))
        np.copyto(moved, p, where=~self._moves)
        return moved

    def raised(self, after, rise):
        rows = raised_rows(self.p, after.p, rise, self.axis)
        return None if rows is None else rows * self._sums(self.p) * inverse(self._sums(rows))


def symmetric_exponential(matrices):
    """Return exp of symmetric matrices to second order, which is positive definite for all."""
    half = 0.5 * matrices
    root = np.eye(matrices.shape[-1]) + half + 0.5 * (half @ half)
    return root @ root


@lru_cache(maxsize=8)
def upper_triangle(d):
    """Return the indices of the upper triangle, units of its entries, and their places."""
    (i, j), places = np.triu_indices(d), np.empty((d, d), dtype=np.intp)
    places[i, j] = places[j, i] = np.arange(len(i))
    return (i, j), np.where(i == j, np.sqrt(2.0), 1.0), places


def symmetric(v, d):
    """Return symmetric matrices (K, d, d) with entries of the upper triangle v in their units."""
    _, units, places = upper_triangle(d)
    return (v * units).take(places, axis=1)


def upper_entries(matrices):
    """Return v, of `symmetric` matrices: its inverse, and its adjoint by half the trace."""
    upper, units, _ = upper_triangle(matrices.shape[1])
    return matrices[:, *upper] / units


def inverse(x):
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros(x.shape, x.dtype), where=x > 0.0)


def raised_rows(p, after, rise, axis=-1):
    """Return rows of probabilities as `Directions.raised` does. Zeros stay, as in EM."""
    (is_one, share), mean = rise, p.mean(axis=axis, keepdims=True)
    rises = (p > 0.0) & (p < _NEAR_ZERO * mean) & (after > _GROWTH * p)
    if is_one:
        # The quotient of the smallest numbers overflows.
        growth = np.log(np.where(rises, after, 1.0)) - np.log(np.where(rises, p, 1.0))
        rises &= (growth == growth.max()) & (rises.sum() > 1)
    return np.where(rises, share * mean, p) if rises.any() else None


class Tangents(Directions, ABC):
    """Directions of the parameters of a family, with `Sums` as statistics unless overridden.

    `mean`, of shape (K, n_features), is E phi(x), and `n_own` the number of coordinates of a
    component. `whitened` turns sums of phi(x) - mean into scores, unless `score` is overridden.
    """

    parts = {"means": slice(None)}
    # A function of statistics which returns the tangents in units of their information, if
    # parameters do not tell that.
    about = None

    def __init__(self, family, parameters):
        self.family, self.parameters = family, parameters

    @property
    def mean(self):
        return self.parameters

    @property
    def n_own(self):
        return self.mean.shape[1]

    @property
    def is_free(self):
        """Which coordinates the M-step changes, of shape (K, n_own)."""
        return np.ones((len(self.mean), self.n_own), dtype=bool)

    def size(self, v):
        """Return the relative change of log densities along v."""
        return np.abs(v).max()

    def effective_counts(self, statistics):
        """Return the weight of each coordinate's information in statistics, (K, n_own)."""
        return np.repeat(self.family.effective_counts(statistics)[:, None], self.n_own, axis=1)

    def score(self, statistics):
        """Return the scores of statistics, (K, n_own)."""
        return self.whitened(statistics.total - statistics.weight[:, None] * self.mean)

    def _unsolved_by_roots(self, statistics):
        """Return them where parameters are means, and natural ones are found by iterations."""
        found = self.family.from_natural(self.family.to_natural(self.parameters))
        return self.whitened(statistics.weight[:, None] * (self.parameters - found))

    def is_proper(self, prior):
        """Return whether pseudo-statistics leave parameters away from the bounds of their range."""
        return bool((self.effective_counts(prior) >= 0.0).all())

    @abstractmethod
    def moved(self, v):
        """Return parameters moved along v."""


class ProductTangents(Tangents):
    """Tangents of independent features, each with one natural parameter."""

    @property
    @abstractmethod
    def deviation(self):
        """Standard deviations of the features."""

    @property
    def is_free(self):
        return self.parameters > BOUND * self.parameters.max(axis=0)

    def natural(self, v):
        """Return moves of the natural parameters along v."""
        return v / self.deviation

    def whitened(self, raw):
        return raw / self.deviation

    def moved(self, v):
        natural = self.family.to_natural(self.parameters) + self.natural(v)
        return self.family.from_natural(natural)


class ShareTangents(Tangents):
    """Tangents of probabilities of symbols, which sum to 1."""

    parts = {"probabilities": slice(None)}

    @property
    @abstractmethod
    def _shares(self):
        """All rows of probabilities."""

    def is_proper(self, prior):
        return bool((prior.total >= 0.0).all())

    def _rows(self, values):
        return values.reshape(self._shares.p.shape)

    def _flat(self, rows):
        return rows.reshape(self.mean.shape)

    def whitened(self, raw):
        return self._flat(self._shares.score(self._rows(raw)))

    @property
    def is_free(self):
        return self._flat(self._shares.is_free)

    def size(self, v):
        return self._shares.size(self._rows(v))

    def raised(self, after, rise):
        rows = self._shares.raised(after._shares, rise)
        return None if rows is None else self._with(rows)

    def moved(self, v):
        return self._with(self._shares.moved(self._rows(v)))

    def _with(self, rows):
        """Return parameters with other probabilities."""
        return self._flat(rows)


def tangents_of(family):
    """Return what makes the tangents of a family, or None; a subclass may be another family."""
    of_parts = getattr(family, "family", None)
    if of_parts is not None and tangents_of(of_parts) is None:
        return None
    return vars(type(family)).get("tangents")
