"""Products of Laplace distributions: long tails, and medians for means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sklearn_onlineem._checks import MOST, above, at_least, check_setting, finite
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families._independent_columns import IndependentColumns
from sklearn_onlineem.families._medians import Pull, minimisers, objective, observed_weights
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
    Means,
)
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import Tangents
from sklearn_onlineem.statistics import Listed, Statistics

_RELATIVE_FLOOR = 1e-3
_BLOCK = 1024
# Replaces scales of 0 in a prior.
_TINY = 1e-290


class Laplaces(NamedTuple):
    """The parameters of K components.

    Parameters
    ----------
    location : ndarray of shape (K, n_features)
        Medians, which are the means.
    scale : ndarray of shape (K, n_features)
        Mean distances from the medians, above 0.
    """

    location: Floats
    scale: Floats


@dataclass(frozen=True)
class LaplaceStatistics(Statistics):
    """Sufficient statistics of Laplace components: the rows themselves, and previous components.

    Parameters
    ----------
    points : Listed
        Rows, and their responsibilities. NaN counts for nothing.
    past : Listed
        `Laplaces` (with one more dimension, in front), and their weights, one for each feature. The
        components stand for missing values, too.
    """

    points: Listed
    past: Listed

    @property
    def weight(self) -> Floats:
        """Weight behind each component, of rows and of previous components."""
        # All features have the same weight, of values that are observed and of those that are not.
        observed = observed_weights(self.points.values, self.points.weights)
        return (observed + self.past.weights.sum(axis=0)).mean(axis=1)

    def components(self, index: slice | Integers, n: int) -> LaplaceStatistics:
        old = self.past.values
        if isinstance(old, Laplaces):
            old = Laplaces(*(values[:, index] for values in old))
        points = Listed(self.points.weights[:, index], self.points.values)
        return LaplaceStatistics(points, Listed(self.past.weights[:, index], old))


class LaplaceTangents(Tangents):
    r"""Tangents of locations m and scales b, which are orthogonal.

    .. math:: s_m = \operatorname{sign}(x - m), \quad s_b = |x - m| / b - 1

    Both have variance 1 under the component. No density has a second derivative at its median; its
    expectation under the component is the information of complete data, 1 / b^2 (Huber, "The
    behavior of maximum likelihood estimates under nonstandard conditions", 1967). The sandwich
    takes the data's squares of scores, and from the component only the density at its median.
    """

    is_smooth = False

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._n_features = parameters.location.shape[1]

    @property
    def parts(self):
        d = self._n_features
        return {"locations": slice(0, d), "scales": slice(d, 2 * d)}

    @property
    def n_own(self):
        return 2 * self._n_features

    @property
    def is_free(self):
        floor = 0.0 if self.family.floor is None else self.family.floor
        above = self.parameters.scale > 2.0 * floor
        return np.concatenate([np.ones_like(above), above], axis=1)

    def score(self, statistics):
        shares, X = statistics.points.weights, statistics.points.values
        scores = []
        for share, m, b in zip(shares.T, *self.parameters, strict=True):
            own = np.hstack([np.sign(X - m), np.abs(X - m) / b - 1.0])
            scores.append(share @ np.nan_to_num(own, nan=0.0))
        scores = np.array(scores)
        if len(statistics.past.weights):
            # Expectations under components of a prior.
            old = statistics.past.values
            gap = (old.location - self.parameters.location) / old.scale
            left = np.exp(-np.abs(gap))
            distance = old.scale * (np.abs(gap) + left) / self.parameters.scale
            past = np.concatenate([np.sign(gap) * (1.0 - left), distance - 1.0], axis=2)
            weights = statistics.past.weights
            scores += (np.concatenate([weights, weights], axis=2) * past).sum(axis=0)
        return scores

    def moved(self, v):
        locations, scales = np.split(v, 2, axis=1)
        location, scale = self.parameters
        return type(self.parameters)(location + scale * locations, scale * np.exp(scales))


def _put_scales(family, parameters, scales):
    return parameters._replace(scale=above("scales_", scales, 0.0, scales.shape))


@dataclass(frozen=True, eq=False)
class Laplace(
    Family[Laplaces, LaplaceStatistics],
    Means[Laplaces],
    IndependentColumns[Laplaces, LaplaceStatistics],
    ColumnDistributions[Laplaces],
    ConjugatePriors[Laplaces, LaplaceStatistics],
):
    r"""Independent features around medians, with tails longer than Gaussians'.

    .. math:: p(x \mid m, b) = \prod_j \frac{1}{2 b_j} e^{-|x_j - m_j| / b_j}

    This is not an exponential family: no sums suffice for the M-step, so statistics list the rows.
    The M-step, an exact weighted median pulled towards previous components, is derived in
    :ref:`own_families` (Amid & Warmuth, UAI 2020, eq. 3). Parameters are `Laplaces`.

    Parameters
    ----------
    min_scale : float, default=None
        Floor of the scales, from 0 to 1e100, at least 1e-290. None: 1e-3 times the mean absolute
        deviation of each feature in the first data, and never below the resolution of the numbers
        themselves.
    floor : ndarray of shape (n_features,), default=None
        Computed from `min_scale` by `bind`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Laplace
    >>> rows = np.array([[0.0], [1.0], [50.0]])
    >>> Laplace().m_step(Laplace().expected_statistics(rows, np.ones((3, 1))))
    Laplaces(location=array([[1.]]), scale=array([[16.66666667]]))
    """

    tangents = LaplaceTangents

    min_scale: float | None = None
    floor: Floats | None = None

    support_is_convex = True
    is_conjugate = False
    parts = (
        means_part("real", "locations"),
        means_part("real"),
        Part("scales", "positive", "kd", lambda family, parameters: parameters.scale, _put_scales),
    )

    def __post_init__(self):
        if self.min_scale is not None:
            check_setting("min_scale", self.min_scale, 0.0, MOST)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        if self.floor is not None:
            return self
        if self.min_scale is not None:
            return replace(self, floor=np.full(X.shape[1], max(_TINY, float(self.min_scale))))
        # About a row of the data, from which a constant feature differs by exactly 0.
        deviation = X - X[0].astype(np.float64)
        deviation -= np.average(deviation, axis=0, weights=sample_weight)
        spread = np.average(np.abs(deviation), axis=0, weights=sample_weight)
        resolution = 4.0 * np.finfo(X.dtype).eps * np.abs(X).max(axis=0).astype(np.float64)
        varies = spread > resolution
        typical = spread[varies].mean() if varies.any() else 1.0
        floor = np.maximum(_RELATIVE_FLOOR * np.where(varies, spread, typical), resolution)
        return replace(self, floor=floor)

    def log_density(self, parameters: Laplaces, X: Floats, n_threads: int = 1) -> Floats:
        return _log_density(parameters, X, has_gaps=False)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> LaplaceStatistics:
        shape = 0, responsibilities.shape[1], X.shape[1]
        nothing = Listed(np.empty(shape), Laplaces(np.empty(shape), np.empty(shape)))
        in_double = (array.astype(np.float64, copy=False) for array in (responsibilities, X))
        return LaplaceStatistics(Listed(*in_double), nothing)

    def own_statistics(self, parameters: Laplaces, weights: Floats) -> LaplaceStatistics:
        n_components, n_features = parameters.location.shape
        nothing = Listed(np.empty((0, n_components)), np.empty((0, n_features)))
        of_features = np.repeat(np.asarray(weights, dtype=float)[:, None], n_features, axis=1)
        return LaplaceStatistics(nothing, _listed(parameters, of_features))

    def m_step(self, statistics: LaplaceStatistics, previous: Laplaces | None = None) -> Laplaces:
        X, shares = statistics.points.values, statistics.points.weights
        pull = _pull_of(statistics.past)
        location = minimisers(X, shares, pull)
        weight = observed_weights(X, shares) + pull.total_weight
        scale = np.ones_like(location)
        np.divide(objective(X, shares, pull, location), weight, out=scale, where=weight > 0.0)
        floor = max(_TINY, self.min_scale or 0.0) if self.floor is None else self.floor
        new = Laplaces(location, np.maximum(scale, floor))
        if previous is None or (weight > 0.0).all():
            return new
        return Laplaces(
            *(np.where(weight > 0.0, *both) for both in zip(new, previous, strict=True))
        )

    def expected_log_density(self, parameters: Laplaces, statistics: LaplaceStatistics) -> float:
        X, shares = statistics.points.values, statistics.points.weights
        pull, (location, scale) = _pull_of(statistics.past), parameters
        weight = observed_weights(X, shares) + pull.total_weight
        distance = objective(X, shares, pull, location)
        return -float((weight * np.log(scale) + distance / scale).sum())

    def kl_divergence(self, p: Laplaces, q: Laplaces) -> Floats:
        gap = np.abs(p.location - q.location)
        distance = gap + p.scale * np.exp(-gap / p.scale)
        return (np.log(q.scale / p.scale) + (distance - q.scale) / q.scale).sum(axis=1)

    def sample(self, parameters: Laplaces, components: Integers, rng: Generator) -> Floats:
        return rng.laplace(parameters.location[components], parameters.scale[components])

    def marginal_log_density(self, parameters: Laplaces, X: Floats, n_threads: int = 1) -> Floats:
        return _log_density(parameters, X, has_gaps=True)

    def marginal_statistics(
        self, parameters: Laplaces, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> LaplaceStatistics:
        # The list grows by rows, not by gaps: a component stands for all missing values of a
        # feature together.
        points = self.expected_statistics(X, posterior).points
        missing = points.weights.T @ np.isnan(X)
        return LaplaceStatistics(points, _listed(parameters, missing))

    def _of_values(self, parameters, components, columns, n_features):
        return Laplaces(*(values[components, columns, None] for values in parameters))

    def means(self, parameters: Laplaces) -> Floats:
        return parameters.location

    def with_means(self, parameters: Laplaces, means: Floats) -> Laplaces:
        return Laplaces(means, parameters.scale)

    def distribution(self, parameters: Laplaces, column: int) -> Distribution:
        return stats.laplace(parameters.location[:, column], parameters.scale[:, column])

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        pseudo_count: ArrayLike = 0.0,
        location: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
    ) -> LaplaceStatistics:
        r"""Return a prior worth `pseudo_count` rows of a given component, in expectation.

        .. math:: \log p(m, b) = -c\, \mathrm{KL}(m_0, b_0 \,\|\, m, b) + \text{const}

        Parameters
        ----------
        pseudo_count : float, default=0.0
            Pseudo-rows c, not below 0.
        location : array broadcasting to (n_components, n_features), default=0.0
            Medians of the given component.
        scale : array broadcasting to (n_components, n_features), default=1.0
            Its scales, not below 0.
        """
        count = at_least("pseudo_count", pseudo_count, 0.0)
        shape = n_components, n_features
        given = Laplaces(
            finite("location", location, shape),
            np.maximum(at_least("scale", scale, 0.0, shape), _TINY),
        )
        return self.own_statistics(given, np.full(n_components, count))


def _log_density(parameters, X, has_gaps):
    rates, out = 1.0 / parameters.scale, np.empty((len(X), len(parameters.scale)), X.dtype)
    logs = np.log(0.5 * rates)
    for start in range(0, len(X), _BLOCK):
        block = X[start : start + _BLOCK].astype(np.float64, copy=False)
        missing = np.isnan(block) if has_gaps else False
        offsets = ~missing @ logs.T if has_gaps else logs.sum(axis=1)
        for k, (location, rate) in enumerate(zip(parameters.location, rates, strict=True)):
            distances = np.abs(block - location)
            np.copyto(distances, 0.0, where=missing)
            out[start : start + _BLOCK, k] = offsets[..., k] - np.einsum("nd,d->n", distances, rate)
    return out


def _listed(parameters, weights):
    """Return components as previous ones, with weights of shape (K, n_features)."""
    return Listed(weights[None], Laplaces(*(values[None] for values in parameters)))


def _pull_of(past):
    """Return previous components as `minimisers` takes them, each once, if they have a weight."""
    kept = past.weights.any(axis=(1, 2))
    weights, values = past.weights[kept], [value[kept] for value in past.values]
    if len(weights) > 1:
        flat = np.concatenate([value.reshape(len(weights), -1) for value in values], axis=1)
        _, first, index = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        joint = np.zeros((len(first), *weights.shape[1:]))
        np.add.at(joint, index.reshape(-1), weights)
        order = np.argsort(first)
        weights, values = joint[order], [value[first[order]] for value in values]
    return Pull(weights, *values)
