"""Expected complete-data statistics: values that add and scale, and nothing else.

Batch EM, online EM, MAP, stochastic EM and the merging of models differ only in *which* statistics
they add and with what weights; :func:`combine` is that sum.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

__all__ = ["Moments", "Statistics", "Sums", "combine", "pooled"]


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics, jointly over hidden and visible variables, averaged per observation.

    A subclass is a frozen dataclass whose fields are arrays, numbers or further statistics. Sums
    are taken field by field; a subclass whose fields do not add (a mean, say) overrides `merge`.
    """

    def merge(self, a, other, b):
        """Return ``a * self + b * other``.

        Parameters
        ----------
        a, b : float
            Non-negative weights.
        other : Statistics
            Statistics of the same class and shapes.

        Returns
        -------
        merged : Statistics
        """
        return type(self)(
            *(_merge(a, getattr(self, f.name), b, getattr(other, f.name)) for f in fields(self))
        )

    def scale(self, a):
        """Return ``a * self``."""
        return type(self)(*(_scale(a, getattr(self, f.name)) for f in fields(self)))

    def __add__(self, other):
        if type(other) is not type(self):
            return NotImplemented
        return self.merge(1.0, other, 1.0)

    def __mul__(self, a):
        return self.scale(a)

    __rmul__ = __mul__


def _merge(a, x, b, y):
    return x.merge(a, y, b) if isinstance(x, Statistics) else a * x + b * y


def _scale(a, x):
    return x.scale(a) if isinstance(x, Statistics) else a * x


def combine(terms):
    """Return the weighted sum of statistics, the one sum behind every update of this library.

    Parameters
    ----------
    terms : iterable of (float, Statistics)
        Weights and statistics; at least one term. Terms of weight 0 are left out.

    Returns
    -------
    total : Statistics
        ``sum(weight * statistics)``, added from left to right.

    Raises
    ------
    ValueError
        If there is no term with a weight above 0.

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
    total, a = None, 1.0
    for b, statistics in terms:
        if not b > 0:
            continue
        total, a = (statistics, b) if total is None else (total.merge(a, statistics, b), 1.0)
    if total is None:
        raise ValueError("combine needs at least one term with a weight above 0.")
    return total if a == 1.0 else total.scale(a)


def pooled(terms):
    """Return the average of statistics, weighted by the numbers of observations behind them.

    Parameters
    ----------
    terms : list of (float, Statistics)
        Numbers of observations, and their statistics per observation.

    Returns
    -------
    average : Statistics
        Per observation of all together.
    """
    total = sum(n for n, _ in terms)
    return combine([(n / total, statistics) for n, statistics in terms])


@dataclass(frozen=True)
class Sums(Statistics):
    """Weights and weighted sums of a sufficient statistic, one row per component.

    Parameters
    ----------
    weight : ndarray of shape (n_components,)
        Expected number of observations per observation, the responsibility of each component.
    total : ndarray of shape (n_components, n_statistics)
        Weight times mean of the sufficient statistic.
    """

    weight: np.ndarray
    total: np.ndarray


@dataclass(frozen=True)
class Moments(Statistics):
    """Weights, means and scatters *about these means*, so that large offsets cost no digits.

    Sums follow the parallel-axis theorem (Chan, Golub & LeVeque 1979). How outer products are
    stored depends on the shape of the covariances, and is what the subclasses say.

    Parameters
    ----------
    weight : ndarray of shape (n_components,)
        Weight behind each mean.
    degrees : ndarray of shape (n_components,) or float
        Weight behind each scatter: equal to `weight` for data, but not for conjugate priors.
    mean : ndarray of shape (n_components, n_features)
    scatter : ndarray
        Weighted sums of outer products of deviations from the mean.
    """

    weight: np.ndarray
    degrees: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray

    # The kernel that adds arrays of one shape of scatters.
    merge_centred = None

    def merge(self, a, other, b):
        weight, degrees = np.empty_like(self.weight), np.empty_like(self.degrees)
        mean, scatter = np.empty_like(self.mean), np.empty_like(self.scatter)
        self.merge_centred(
            a, self.weight, self.degrees, self.mean, self.scatter,
            b, other.weight, other.degrees, other.mean, other.scatter,
            weight, degrees, mean, scatter,
        )  # fmt: skip
        return type(self)(weight, degrees, mean, scatter)

    def scale(self, a):
        return type(self)(a * self.weight, a * self.degrees, self.mean, a * self.scatter)
