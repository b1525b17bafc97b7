"""Base of the Gaussians of all shapes: floors, means, centres, and formulas that broadcast."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem._kernels import _natural
from sklearn_onlineem.families._family import NOTHING, ExponentialFamily
from sklearn_onlineem.families._marginals import marginal_log_density, marginal_sums

__all__ = ["LARGEST_GUARD", "NEGLIGIBLE", "Gaussian", "averages", "kept_where_empty", "location"]

# Sums of weights below this are noise of the subnormal range.
NEGLIGIBLE = 1e-290

_LOG_2_PI = math.log(2.0 * math.pi)
_RELATIVE_FLOOR = 1e-6
_LOCATION_ROWS = 256
_FLOOR_ROWS = 1 << 16
# The natural way loses log10(guard) digits of a log density of order one.
LARGEST_GUARD = {np.dtype(np.float64): 1e6, np.dtype(np.float32): 1e4}


@dataclass(frozen=True, eq=False)
class Gaussian(ExponentialFamily):
    """Base of the four Gaussian families.

    Parameters
    ----------
    reg_covar : float, default=None
        What the M-step adds to the variances. A number is taken as it is; None is 1e-6
        times the variance of each feature in the first data, and never below the resolution of
        the numbers themselves.
    floor : ndarray of shape (n_features,), default=None
        What `bind` makes of `reg_covar`.
    learns_means, learns_covariances : bool, default=True
        Whether the M-step changes them, once there are some.
    """

    reg_covar: float | None = None
    floor: np.ndarray | None = None
    learns_means: bool = True
    learns_covariances: bool = True

    determined_by_means = False
    handles_missing = True
    moments = None
    gaussians = None

    def bind(self, X, sample_weight=None):
        if self.floor is not None:
            return self
        return replace(self, floor=variance_floor(X, sample_weight, self.reg_covar))

    def n_parameters(self, parameters):
        return (
            self.learns_means * parameters.mean.size
            + self.learns_covariances * self._n_covariance_parameters(parameters)
        )

    def means(self, parameters):
        return parameters.mean

    def with_means(self, parameters, means):
        return self.gaussians(means, parameters.covariance)

    def kl_divergence(self, p, q):
        difference = p.mean - q.mean
        quadratic = self._quadratic(q.precision, p.covariance, difference)
        return 0.5 * (quadratic - p.mean.shape[1] + q.log_det - p.log_det)

    def log_partition(self, natural):
        gaussians = self.from_natural(natural)
        quadratic = np.einsum("kd,kd->k", gaussians.mean, natural[:, : gaussians.mean.shape[1]])
        return 0.5 * (quadratic + gaussians.log_det + gaussians.mean.shape[1] * _LOG_2_PI)

    # The feature map of `_natural` that the natural form about a centre takes.
    features = None

    def log_density(self, parameters, X, n_threads=1):
        offset = self._offset(parameters, np.zeros(len(parameters.mean)))
        about = self._about(parameters, X)
        if about is None:
            return self._centred_log_density(parameters, X, offset, n_threads)
        centre, natural, quadratic = about
        out = np.empty((len(X), len(offset)), dtype=X.dtype)
        _natural.log_density(
            X, centre, self.features, natural, offset - 0.5 * quadratic, NOTHING, out, n_threads
        )
        return out

    def posterior_statistics(self, parameters, X, posterior, n_threads=1):
        about = self._about(parameters, X)
        if about is None:
            return self.expected_statistics(X, posterior, n_threads)
        centre, natural, _ = about
        posterior = np.ascontiguousarray(posterior, dtype=X.dtype)
        counts, totals = np.empty(len(natural)), np.empty_like(natural)
        _natural.statistics(X, centre, self.features, posterior, counts, totals, n_threads)
        return self._moments_about(centre, counts, totals)

    def own_statistics(self, parameters, weights):
        degrees = self._pooled(weights)
        scatter = self._own_scatter(degrees, parameters)
        return self.moments(weights, degrees, parameters.mean, scatter)

    def m_step(self, statistics, previous=None):
        if previous is None or (self.learns_means and self.learns_covariances):
            return self._maximiser(statistics, previous)
        if not self.learns_covariances:
            return self.gaussians(self._new_means(statistics, previous), previous.covariance)
        about_known = self._about_means(statistics, previous.mean)
        return self.gaussians(previous.mean, self._maximiser(about_known, previous).covariance)

    def _new_means(self, statistics, previous):
        return kept_where_empty(statistics, previous) if self.learns_means else previous.mean

    def _about_means(self, statistics, means):
        """Moments with scatters about given means."""
        shift = statistics.mean - means
        outer = np.einsum("k,ki,kj->kij", statistics.weight, shift, shift)
        return replace(
            statistics, mean=means, scatter=statistics.scatter + self.from_matrices(outer)
        )

    def sample(self, parameters, components, rng):
        deviations = rng.standard_normal((len(components), parameters.mean.shape[1]))
        return parameters.mean[components] + self._coloured(parameters, components, deviations)

    def marginal_log_density(self, parameters, X, n_threads=1):
        """Return `log_density` of what each row has; NaN is missing, but not in all of a row."""
        covariances = self.covariance_matrices(parameters)
        return marginal_log_density(parameters.mean, covariances, X)

    def marginal_statistics(self, parameters, X, posterior, n_threads=1):
        """Return `expected_statistics`, also in expectation over what is missing."""
        counts, mean = posterior.sum(axis=0, dtype=np.float64), parameters.mean
        covariances = self.covariance_matrices(parameters)
        first, second = marginal_sums(mean, covariances, X, posterior.astype(np.float64))
        weight = counts[:, None]
        shift = np.divide(first, weight, out=np.zeros_like(first), where=weight > NEGLIGIBLE)
        scatter = self.from_matrices(second - first[:, :, None] * shift[:, None, :])
        return self.moments(counts, self._pooled(counts), mean + shift, scatter)

    def pseudo_moments(self, n_components, n_features, *, mean, mean_weight, scatter, degrees):
        """Return pseudo-statistics: of the means, and of the covariances.

        Parameters
        ----------
        n_components, n_features : int
        mean : array broadcasting to (n_components, n_features)
        mean_weight : float
            Pseudo-rows of the means.
        scatter : float or array of shape (n_features, n_features)
            Pseudo-sum of squares; a number stands for a multiple of the unit matrix.
        degrees : float
            What the pseudo-sum is divided by.
        """
        mean = np.broadcast_to(np.asarray(mean, dtype=float), (n_components, n_features)).copy()
        scatter = np.asarray(scatter, dtype=float)
        if scatter.ndim == 0:
            scatter = scatter * np.eye(n_features)
        matrices = np.broadcast_to(scatter, (n_components, n_features, n_features)).copy()
        # Where components share a covariance, they share its prior.
        matrices = self.from_matrices(matrices / n_components if self._is_pooled else matrices)
        weight = np.full(n_components, float(mean_weight))
        n_covariances = 1 if self._is_pooled else n_components
        return self.moments(weight, np.full(n_covariances, float(degrees)), mean, matrices)

    # Whether all components have one covariance.
    _is_pooled = False

    def _floor(self, n_features):
        if self.floor is not None:
            return self.floor
        return np.full(n_features, 0.0 if self.reg_covar is None else self.reg_covar)

    def _pooled(self, weights):
        """Weights behind each scatter."""
        return weights

    def _offset(self, parameters, log_weights):
        """Log weight plus log of the density's normaliser."""
        d = parameters.mean.shape[1]
        return log_weights - 0.5 * (parameters.log_det + d * _LOG_2_PI)

    def _about(self, parameters, X):
        """The natural form about a centre in the middle of X, or None if it would lose digits.

        Returns
        -------
        centre : ndarray of shape (d,)
        natural : ndarray of shape (K, n_statistics)
            Natural parameters of x - centre.
        quadratic : ndarray of shape (K,)
            (m - centre)' precision (m - centre).
        """
        return None

    @abstractmethod
    def _centred_log_density(self, parameters, X, offset, n_threads):
        """Log densities about the components' own means, which never lose digits."""

    @abstractmethod
    def _maximiser(self, statistics, previous):
        """The M-step for both means and covariances."""

    @abstractmethod
    def _n_covariance_parameters(self, parameters):
        """Number of different entries of all covariances."""

    @abstractmethod
    def covariance_matrices(self, parameters):
        """Return the covariance matrices, an ndarray of shape (K, d, d)."""

    @abstractmethod
    def from_matrices(self, matrices):
        """Turn K matrices, of shape (K, d, d), into the shape of the scatters."""

    @abstractmethod
    def _own_scatter(self, degrees, parameters):
        """Scatters from which the M-step makes the covariances."""

    @abstractmethod
    def _quadratic(self, precision, covariance, deviation):
        """tr(precision covariance) + deviation' precision deviation, of shape (K,)."""

    @abstractmethod
    def _coloured(self, parameters, components, deviations):
        """Turn standard normal deviations into ones with the components' covariances."""


def location(X):
    """Centre of the first rows and their variances about it: where features are taken about."""
    block = X[:_LOCATION_ROWS].astype(np.float64, copy=False)
    centre = np.add.reduce(block, axis=0) / len(block)
    deviation = block - centre
    return centre, np.einsum("nd,nd->d", deviation, deviation) / len(block)


def averages(moments, log_likelihood, rows):
    """Results of an E-step from sums over rows."""
    moments = moments.scale(1.0 / rows.total_weight)
    return moments.weight, moments, log_likelihood / rows.total_weight


def weighted_means(X, responsibilities):
    """Counts (K,) and responsibility-weighted means (K, d), about a centre near the data."""
    counts = responsibilities.sum(axis=0, dtype=np.float64)
    centre = location(X)[0]
    weights = np.divide(
        responsibilities, counts, out=np.zeros(responsibilities.shape), where=counts > NEGLIGIBLE
    )
    return counts, centre + weights.T @ (X - centre)


def kept_where_empty(statistics, previous):
    """The means of the statistics; components without weight keep their previous one."""
    weight = statistics.weight
    if previous is None or np.count_nonzero(weight) == len(weight):
        return statistics.mean
    return np.where(weight[:, None] > 0, statistics.mean, previous.mean)


def variance_floor(X, sample_weight, reg_covar):
    """Floor that the M-step adds to the variance of each feature.

    Raises
    ------
    ValueError
        If a feature varies by so little that its variance is below the smallest number.
    """
    if reg_covar is not None:
        return np.full(X.shape[1], float(reg_covar))
    step = -(-len(X) // _FLOOR_ROWS)
    X, weight = X[::step], None if sample_weight is None else sample_weight[::step]
    # About a row of the data, from which a constant feature differs by exactly 0.
    deviation = X - X[0].astype(np.float64)
    variance = np.average(deviation**2, axis=0, weights=weight)
    variance -= np.average(deviation, axis=0, weights=weight) ** 2
    largest = np.abs(X).max(axis=0).astype(np.float64)
    resolution = (4.0 * np.finfo(X.dtype).eps * largest) ** 2
    varies = np.abs(deviation).max(axis=0) > 4.0 * np.finfo(X.dtype).eps * largest
    if (varies & (variance < NEGLIGIBLE)).any():
        column = np.flatnonzero(varies & (variance < NEGLIGIBLE))[0]
        raise ValueError(
            f"Feature {column} varies by less than can be squared in floating point; rescale it."
        )
    return np.maximum(_RELATIVE_FLOOR * _filled(variance, varies), resolution)


def _filled(variance, varies):
    """Variances, where constant features get the mean of the others, or 1 if all are constant."""
    if varies.all():
        return variance
    return np.where(varies, variance, variance[varies].mean() if varies.any() else 1.0)
