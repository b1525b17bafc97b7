"""Gaussians with variances along the axes: one a feature (diagonal), or one for all (spherical)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels import (
    _centred_moments,
    _collapsed_gaussian,
    _gaussian,
    _natural,
)
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._checks import above, at_least, finite
from sklearn_onlineem.families._family import NOTHING, optional, per_row, unwanted
from sklearn_onlineem.families._gaussian import (
    LARGEST_GUARD,
    NEGLIGIBLE,
    Gaussian,
    averages,
    kept_where_empty,
    location,
    weighted_means,
)
from sklearn_onlineem.statistics import Moments

__all__ = ["AxisGaussians", "AxisMoments", "DiagonalGaussian", "SphericalGaussian"]

# Precisions of smaller variances would not be finite, nor their products with distances.
_LEAST_VARIANCE = 1e-290


class AxisMoments(Moments):
    """Moments with scatters of shape (K, d), or (K, 1) summed over the features."""

    merge_centred = staticmethod(_centred_moments.merge_centred_diagonal)


@dataclass(frozen=True, eq=False)
class AxisGaussians:
    """Means (K, d) and variances (K, d) or (K, 1)."""

    mean: Floats
    covariance: Floats

    @property
    def precision(self) -> Floats:
        """Inverse variances, shaped like `covariance`."""
        return 1.0 / self.covariance

    @cached_property
    def log_det(self) -> Floats:
        """Log-determinants of the covariance matrices, of shape (K,)."""
        repeats = self.mean.shape[1] // self.covariance.shape[1]
        return repeats * np.log(self.covariance).sum(axis=1)

    @property
    def precision_factor(self) -> Floats:
        """Inverse standard deviations, shaped like `covariance`."""
        return np.sqrt(self.precision)


class _AxisGaussian(Gaussian[AxisGaussians, AxisMoments]):
    """Diagonal and spherical: covariances are variances along the axes."""

    moments = AxisMoments
    gaussians = AxisGaussians
    _prior_settings = ("mean_precision", "shape", "scale")
    _sweep = staticmethod(_collapsed_gaussian.axis_sweep)

    def sufficient_statistics(self, X: Floats) -> Floats:
        return np.concatenate([X, self._summed(X * X)], axis=1)

    def to_natural(self, parameters: AxisGaussians) -> Floats:
        linear = parameters.mean * parameters.precision
        return np.concatenate([linear, -0.5 * parameters.precision], axis=1)

    def from_natural(self, natural: Floats) -> AxisGaussians:
        linear, negative_half_precision = self._split(natural)
        variance = -0.5 / negative_half_precision
        return self.gaussians(linear * variance, variance)

    def mean_statistics(self, parameters: AxisGaussians) -> Floats:
        mean, variance = parameters.mean, parameters.covariance
        second = self._summed(np.broadcast_to(variance, mean.shape) + mean**2)
        return np.concatenate([mean, second], axis=1)

    def _centred_log_density(self, parameters, X, offset, n_threads):
        out = np.empty((len(X), len(parameters.mean)), dtype=X.dtype)
        scales = self._per_feature(parameters.precision_factor, parameters.mean)
        _gaussian.scaled_log_density(X, parameters.mean, scales, offset, out, n_threads)
        return out

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> AxisMoments:
        responsibilities = np.ascontiguousarray(responsibilities, dtype=X.dtype)
        counts, means = weighted_means(X, responsibilities)
        first, second = np.empty_like(means), np.empty_like(means)
        _gaussian.scaled_statistics(X, means, responsibilities, counts, first, second, n_threads)
        return self._recentred(counts, first, self._summed(second), means)

    def e_step(
        self,
        parameters: AxisGaussians,
        log_weights: Floats,
        rows: Rows,
        uniforms: Floats | None = None,
    ) -> tuple[Floats, AxisMoments, float]:
        about = self._about(parameters, rows.X)
        if about is not None:
            offset = self._offset(parameters, log_weights)
            return self._natural_e_step(*about, offset, rows, uniforms)
        counts = np.empty(len(log_weights))
        first, second = np.empty_like(parameters.mean), np.empty_like(parameters.mean)
        log_likelihood = _gaussian.scaled_e_step(
            rows.X,
            parameters.mean,
            self._per_feature(parameters.precision_factor, parameters.mean),
            self._offset(parameters, log_weights),
            *per_row(rows),
            optional(uniforms),
            counts,
            first,
            second,
            *unwanted(rows.X),
            rows.n_threads,
        )
        moments = self._recentred(counts, first, self._summed(second), parameters.mean)
        return averages(moments, log_likelihood, rows)

    def _natural_e_step(self, centre, natural, quadratic, offset, rows, uniforms):
        """E-step by matrix products of natural parameters and sufficient statistics."""
        counts, totals = np.empty(len(offset)), np.empty_like(natural)
        log_likelihood = _natural.e_step(
            rows.X, centre, self.features, natural, offset - 0.5 * quadratic, NOTHING,
            *per_row(rows), optional(uniforms), counts, totals, *unwanted(rows.X), rows.n_threads,
        )  # fmt: skip
        return averages(self._moments_about(centre, counts, totals), log_likelihood, rows)

    def _about(self, parameters, X):
        centre, spread = location(X)
        deviation, precision = parameters.mean - centre, parameters.precision
        guard = (precision * (spread + deviation**2)).sum(axis=1).max()
        if not guard < LARGEST_GUARD[X.dtype]:
            return None
        natural = np.concatenate([deviation * precision, -0.5 * precision], axis=1)
        return centre, natural, (precision * deviation**2).sum(axis=1)

    def _moments_about(self, centre, counts, totals):
        first, second = self._split(totals)
        return self._recentred(counts, first, second, np.broadcast_to(centre, first.shape))

    def _maximiser(self, statistics, previous):
        degrees = statistics.degrees[:, None]
        per_value = statistics.mean.shape[1] // statistics.scatter.shape[1]
        kept = np.ones_like(statistics.scatter) if previous is None else previous.covariance
        variance = np.divide(
            statistics.scatter, per_value * degrees, out=kept.copy(), where=degrees > 0
        )
        np.add(variance, self._ridge(statistics.mean.shape[1]), out=variance, where=degrees > 0)
        if not (variance > _LEAST_VARIANCE).all():
            raise ValueError(
                "A variance is not positive: the data of a component are too few or too much"
                " alike. Decrease n_components or increase reg_covar."
            )
        return self.gaussians(kept_where_empty(statistics, previous), variance)

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        mean: ArrayLike = 0.0,
        mean_precision: float = 0.0,
        shape: float | None = None,
        scale: ArrayLike = 0.0,
    ) -> AxisMoments:
        """Normal-inverse-gamma prior, whose joint mode over mean and variance is taken.

        Where `mean_precision` is 0, the mean has no prior: the variance alone has one.

        Parameters
        ----------
        n_components, n_features : int
            How many components have the prior, and columns of a row.
        mean : array broadcasting to (n_components, n_features)
            Where the prior has the means.
        mean_precision : float
            Pseudo-observations of the mean, not below 0.
        shape : float, default=None
            Of the inverse gamma distribution of a variance, above 0; None: no prior on the
            variance.
        scale : array broadcasting to (n_features,), or a float where variances are spherical
            Not below 0.

        Examples
        --------
        The joint mode: variances are 2 scale / (2 shape + 3).

        >>> from sklearn_onlineem.families import DiagonalGaussian
        >>> family = DiagonalGaussian()
        >>> prior = family.prior_statistics(
        ...     1, n_features=2, mean=[1.0, 2.0], mean_precision=4.0, shape=1.0, scale=[5.0, 10.0]
        ... )
        >>> mode = family.m_step(prior)
        >>> mode.mean, mode.covariance
        (array([[1., 2.]]), array([[2., 4.]]))
        """
        mean = finite("mean", mean, (n_components, n_features)).copy()
        width = self._summed(mean).shape[1]
        per_value = n_features // width
        weight = np.full(n_components, at_least("mean_precision", mean_precision, 0.0))
        mode = 0.0
        if shape is not None:
            mode = (2.0 * above("shape", shape, 0.0) + 2.0) / per_value + (weight[0] > 0.0)
        scatter = 2.0 * at_least("scale", scale, 0.0, (n_components, width))
        return self.moments(weight, np.full(n_components, mode), mean, scatter)

    def _student_degrees(self, statistics, n_integrated):
        per_value = statistics.mean.shape[1] // statistics.scatter.shape[1]
        return per_value * (statistics.degrees - n_integrated) - 2.0

    def _least_scatter(self, scatter):
        return scatter.min(axis=1)

    def _squares(self, posterior, X):
        scatter = posterior.scatter
        n_blocks, per_value = scatter.shape[1], posterior.mean.shape[1] // scatter.shape[1]
        log_det = per_value * np.log(scatter).sum(axis=1)
        squares = (
            self._summed((X - mean) ** 2) / row
            for mean, row in zip(posterior.mean, scatter, strict=True)
        )
        return squares, log_det, n_blocks

    def _drawn_scatter(self, posterior, rng):
        scatter = posterior.scatter
        return scatter / rng.chisquare(posterior.degrees[:, None], scatter.shape)

    def _n_covariance_parameters(self, parameters):
        return parameters.covariance.size

    def covariance_matrices(self, parameters: AxisGaussians) -> Floats:
        variances = np.broadcast_to(parameters.covariance, parameters.mean.shape)
        return variances[:, :, None] * np.eye(variances.shape[1])

    def from_matrices(self, matrices: Floats) -> Floats:
        return self._summed(np.einsum("kii->ki", matrices).copy())

    def _quadratic(self, precision, covariance, deviation):
        return (precision * (covariance + deviation**2)).sum(axis=1)

    def _coloured(self, parameters, components, deviations):
        return np.sqrt(parameters.covariance)[components] * deviations

    def _own_scatter(self, degrees, parameters):
        n_features, variance = parameters.mean.shape[1], parameters.covariance
        per_value = n_features // variance.shape[1]
        return per_value * degrees[:, None] * (variance - self._ridge(n_features))

    def _per_feature(self, values, mean):
        return np.ascontiguousarray(np.broadcast_to(values, mean.shape))

    def _recentred(self, counts, first, second, origin):
        """Moments about the new means from sums about an origin."""
        weight = counts[:, None]
        shift = np.divide(first, weight, out=np.zeros_like(first), where=weight > NEGLIGIBLE)
        scatter = np.maximum(second - self._summed(first * shift), 0.0)
        return self.moments(counts, counts, origin + shift, scatter)

    @abstractmethod
    def _ridge(self, n_features):
        """The floor of the variances."""

    @abstractmethod
    def _summed(self, values):
        """Sum (K, d) values over what shares a variance."""

    @abstractmethod
    def _split(self, flat):
        """Split natural parameters or totals into their linear and quadratic parts."""


class DiagonalGaussian(_AxisGaussian):
    r"""Gaussians with independent features, variances of shape (K, d).

    :math:`\phi(x) = (x, x^2)`, :math:`\theta = (m/v, -1/(2v))`,
    :math:`G = \sum_j m_j^2 / (2 v_j) + \log(2 \pi v_j) / 2`.

    Parameters
    ----------
    reg_covar : float, default=None
        What the M-step adds to the variances; None: 1e-6 times the data's.
    floor : ndarray of shape (n_features,), default=None
        What `bind` makes of `reg_covar`: added to the variances of each feature.
    learns_means, learns_covariances : bool, default=True
        Whether the M-step changes them, once there are some.
    known : parameters, default=None
        Those that are not learnt, where none come with a call. None: all are learnt.
    """

    features = _natural.SQUARES

    def _ridge(self, n_features):
        return self._floor(n_features)

    def _summed(self, values):
        return values

    def _split(self, flat):
        return np.split(flat, 2, axis=1)


class SphericalGaussian(_AxisGaussian):
    r"""Gaussians with one variance each, of shape (K, 1).

    :math:`\phi(x) = (x, x'x)`, :math:`\theta = (m/v, -1/(2v))`,
    :math:`G = m'm / (2 v) + d \log(2 \pi v) / 2`.

    Parameters
    ----------
    reg_covar : float, default=None
        What the M-step adds to the variances; None: 1e-6 times the data's.
    floor : ndarray of shape (n_features,), default=None
        What `bind` makes of `reg_covar`: added to the variances of each feature.
    learns_means, learns_covariances : bool, default=True
        Whether the M-step changes them, once there are some.
    known : parameters, default=None
        Those that are not learnt, where none come with a call. None: all are learnt.
    """

    features = _natural.SQUARE_SUM

    def _ridge(self, n_features):
        return self._floor(n_features).mean()

    def _summed(self, values):
        return values.sum(axis=1, keepdims=True)

    def _split(self, flat):
        return flat[:, :-1], flat[:, -1:]
