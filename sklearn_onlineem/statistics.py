"""Expected complete-data statistics: values that can be added and scaled.

Batch EM, online EM, MAP, stochastic EM and the merging of models differ only in *which* statistics
they add and with what weights; :func:`combine` is that sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

from sklearn_onlineem._kernels import _centred_moments
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem._values import Loaded, components, like, quick

Kind = TypeVar("Kind", bound="Statistics")

__all__ = ["Listed", "Moments", "Statistics", "Sums", "combine", "pooled"]


# So many terms are added in pairs, the fastest way if statistics do not grow.
_FEW = 3


@dataclass(frozen=True)
class Statistics(Loaded):
    """Sufficient statistics, jointly over hidden and visible variables, averaged per observation.

    A subclass is a frozen dataclass with fields that are arrays, numbers, statistics, or tuples of
    these. Sums are taken field by field; a subclass whose fields do not add (such as means)
    overrides `merge` and `scale`, and one that grows with each addition `sum_of`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.statistics import Sums
    >>> a = Sums(weight=np.array([1.0, 3.0]), total=np.array([[6.0], [2.0]]))
    >>> a.merge(1.0, a, 2.0).weight, a.scale(0.5).total.ravel(), a.components(slice(1, 2), 2).total
    (array([3., 9.]), array([3., 1.]), array([[2.]]))
    """

    def merge(self, a: float, other: Self, b: float) -> Self:
        """Return ``a * self + b * other``.

        Parameters
        ----------
        a, b : float
            Non-negative weights, or a negative `b` that takes a part of self away.
        other : Statistics
            Statistics of the same class and shapes.
        """
        parts = []
        for name in self.__match_args__:
            parts.append(_merge(a, getattr(self, name), b, getattr(other, name)))
        return type(self)(*parts)

    def scale(self, a: float) -> Self:
        """Return ``a * self``.

        Parameters
        ----------
        a : float
            A weight, not below 0.
        """
        parts = []
        for name in self.__match_args__:
            parts.append(_scale(a, getattr(self, name)))
        return type(self)(*parts)

    def components(self, index: slice | Integers, n: int) -> Self:
        """Return the statistics of some components alone.

        Parameters
        ----------
        index : slice or ndarray of int
            Which components.
        n : int
            How many there are.
        """
        return components(self, index, n)

    @classmethod
    def sum_of(cls, terms: Sequence[tuple[float, Self]]) -> Self:
        """Return the weighted sum of statistics of this class, the same bits as `merge` in order.

        Parameters
        ----------
        terms : list of (float, Statistics)
            Weights above 0, and statistics; at least one term.
        """
        if cls.merge is not Statistics.merge:
            total = []
            for term in terms:
                total = [(1.0, combine([*total, term]))]
            return total[0][1]
        weights = [a for a, _ in terms]
        columns = (
            [getattr(statistics, name) for _, statistics in terms] for name in cls.__match_args__
        )
        return cls(*[_total(weights, column) for column in columns])

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return self.merge(1.0, other, 1.0)

    def __mul__(self, a: float) -> Self:
        return self.scale(a)

    __rmul__ = __mul__


def _merge(a, x, b, y):
    if isinstance(x, Statistics):
        return x.merge(a, y, b)
    if isinstance(x, tuple):
        return like(x, [_merge(a, u, b, v) for u, v in zip(x, y, strict=True)])
    return _centred_moments.merge(a, x, b, y)


def _scale(a, x):
    if isinstance(x, Statistics):
        return x.scale(a)
    return like(x, [_scale(a, u) for u in x]) if isinstance(x, tuple) else float(a) * x


def _total(weights, values):
    first, terms = values[0], list(zip(weights, values, strict=True))
    if isinstance(first, Statistics):
        return first.sum_of(terms)
    if isinstance(first, tuple):
        return like(first, [_total(weights, part) for part in zip(*values, strict=True)])
    return sum((float(a) * x for a, x in terms[1:]), start=float(weights[0]) * first)


def combine(terms: Iterable[tuple[float, Kind]]) -> Kind:
    """Return the weighted sum of statistics, added from left to right, without terms of weight 0.

    All updates are such sums: those of batches, priors, shards and previous models.

    Parameters
    ----------
    terms : iterable of (float, Statistics)
        Weights and statistics; ValueError if no weight is above 0.

    References
    ----------
    Amid & Warmuth, "Divergence-Based Motivation for Online EM and Combining Hidden Variable
    Models", UAI 2020, eq. (5) (the new statistics are a weighted sum of old and new).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.statistics import Sums, combine
    >>> evidence = Sums(weight=np.array([1.0]), total=np.array([[6.0]]))
    >>> inertia = Sums(weight=np.array([1.0]), total=np.array([[2.0]]))
    >>> combine([(1.0, evidence), (3.0, inertia)])
    Sums(weight=array([4.]), total=array([[12.]]))
    """
    if not isinstance(terms, list) or len(terms) > _FEW:
        terms = [term for term in terms if term[0] > 0]
        if len(terms) > _FEW:
            return terms[0][1].sum_of(terms)
    total, a = None, 1.0
    for b, statistics in terms:
        if not b > 0:
            continue
        total, a = (statistics, b) if total is None else (total.merge(a, statistics, b), 1.0)
    if total is None:
        raise ValueError("combine needs at least one term with a weight above 0.")
    return total if a == 1.0 else total.scale(a)


def pooled(terms: Sequence[tuple[float, Kind]]) -> Kind:
    """Return the average of statistics, weighted by the numbers of observations behind them.

    Parameters
    ----------
    terms : list of (float, Statistics)
        Numbers of observations, and their statistics per observation.
    """
    # A power of two, so that sums are finite and no digits are lost.
    numbers, statistics = zip(*terms, strict=True)
    exponent = math.frexp(max(numbers))[1]
    scaled = [math.ldexp(n, -exponent) for n in numbers]
    total = sum(scaled)
    return combine([(n / total, part) for n, part in zip(scaled, statistics, strict=True)])


@quick
@dataclass(frozen=True)
class Sums(Statistics):
    """Weights and weighted sums of a sufficient statistic, one row per component.

    Parameters
    ----------
    weight : ndarray of shape (n_components,)
        Expected share of each component in the observations: its mean responsibility.
    total : ndarray of shape (n_components, n_statistics)
        Weight times mean of the sufficient statistic.
    """

    weight: Floats
    total: Floats


@dataclass(frozen=True)
class Listed(Statistics):
    """Weighted values in a list, to which addition appends, if no sums suffice.

    Parameters
    ----------
    weights : ndarray of shape (n_values, n_components)
        Share of each value in each component, times its weight.
    values : ndarray, or tuple of ndarrays, of shape (n_values, ...)
        The values, along the first axis.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.statistics import Listed, combine
    >>> new = Listed(weights=np.array([[1.0]]), values=np.array([5.0]))
    >>> old = Listed(weights=np.array([[0.5], [0.5]]), values=np.array([1.0, 2.0]))
    >>> combine([(1.0, new), (4.0, old)])
    Listed(weights=array([[1.],
           [2.],
           [2.]]), values=array([5., 1., 2.]))
    """

    weights: Floats
    values: Floats | tuple[Floats, ...]

    def merge(self, a: float, other: Self, b: float) -> Self:
        return Listed.sum_of([(a, self), (b, other)])

    def scale(self, a: float) -> Self:
        return Listed(float(a) * self.weights, self.values)

    @classmethod
    def sum_of(cls, terms: Sequence[tuple[float, Self]]) -> Self:
        weights = np.concatenate([float(a) * term.weights for a, term in terms])
        return cls(weights, _concatenated([term.values for _, term in terms]))


def _concatenated(values):
    """Return the concatenation of arrays, or of tuples of arrays place by place."""
    if not isinstance(values[0], tuple):
        return np.concatenate(values)
    return like(values[0], [_concatenated(part) for part in zip(*values, strict=True)])


@quick
@dataclass(frozen=True)
class Moments(Statistics):
    """Weights, means and scatters *about these means*, so that large offsets cost no digits.

    Sums follow the parallel-axis theorem (Chan, Golub & LeVeque 1979).

    Parameters
    ----------
    weight : ndarray of shape (n_components,)
        Weight behind each mean.
    degrees : ndarray of shape (n_components,) or float
        Weight behind each scatter: equal to `weight` for data, but not for conjugate priors.
    mean : ndarray of shape (n_components, n_features)
        Weighted means.
    scatter : ndarray
        Weighted sums of outer products of deviations from the mean, of shape
        (n_components, n_features, n_features), or (1, n_features, n_features) summed over the
        components; or of squares, of shape (n_components, n_features), or (n_components, 1) summed
        over the features.
    """

    weight: Floats
    degrees: Floats
    mean: Floats
    scatter: Floats

    def merge(self, a: float, other: Self, b: float) -> Self:
        # `empty_like` takes longer, here and in other updates of single rows.
        weight, degrees = np.empty(self.weight.shape), np.empty(self.degrees.shape)
        mean, scatter = np.empty(self.mean.shape), np.empty(self.scatter.shape)
        _centred_moments.merge_centred(
            a, (self.weight, self.degrees, self.mean, self.scatter),
            b, (other.weight, other.degrees, other.mean, other.scatter),
            weight, degrees, mean, scatter,
        )  # fmt: skip
        return Moments(weight, degrees, mean, scatter)

    def scale(self, a: float) -> Self:
        a = float(a)
        return Moments(a * self.weight, a * self.degrees, self.mean, a * self.scatter)
