"""Base of the Gaussians of all shapes: floors, means, centres, and formulas that broadcast."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._kernels import _natural
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.families._checks import MOST, above, check_setting
from sklearn_onlineem.families._family import NOTHING, Evidence, ExponentialFamily, Parameters
from sklearn_onlineem.families._gaussian_posteriors import posterior, student_log_density
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
class Gaussian(ExponentialFamily[Parameters, Evidence]):
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
    known : parameters, default=None
        Those that are not learnt, where none come with a call: what `knowing` says.

    Raises
    ------
    ValueError
        If `reg_covar` is out of its range.
    """

    reg_covar: float | None = None
    floor: Floats | None = None
    learns_means: bool = True
    learns_covariances: bool = True
    known: Parameters | None = None

    determined_by_means = False
    handles_missing = True

    def __post_init__(self):
        if self.reg_covar is not None:
            check_setting("reg_covar", self.reg_covar, 0.0, MOST)

    moments = None
    gaussians = None

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        if self.floor is not None:
            return self
        return replace(self, floor=variance_floor(X, sample_weight, self.reg_covar))

    def n_parameters(self, parameters: Parameters) -> int:
        return (
            self.learns_means * parameters.mean.size
            + self.learns_covariances * self._n_covariance_parameters(parameters)
        )

    def n_shared_parameters(self, parameters: Parameters) -> int:
        if not (self._is_pooled and self.learns_covariances):
            return 0
        return self._n_covariance_parameters(parameters)

    def means(self, parameters: Parameters) -> Floats:
        return parameters.mean

    def with_means(self, parameters: Parameters, means: Floats) -> Parameters:
        return self.gaussians(means, parameters.covariance)

    def expected_log_density(self, parameters: Parameters, statistics: Evidence) -> float:
        precision, degrees = parameters.precision, statistics.degrees
        # Less the model's own, which the floor is a part of.
        excess = statistics.scatter - self._own_scatter(degrees, parameters)
        trace = self._quadratic(precision, excess, np.zeros(precision.shape[:2]))
        shift = statistics.mean - parameters.mean
        squares = self._quadratic(precision, np.zeros_like(precision), shift)
        spread = trace.sum() + degrees @ parameters.log_det + statistics.weight @ squares
        return -0.5 * float(spread)

    def kl_divergence(self, p: Parameters, q: Parameters) -> Floats:
        difference = p.mean - q.mean
        quadratic = self._quadratic(q.precision, p.covariance, difference)
        return 0.5 * (quadratic - p.mean.shape[1] + q.log_det - p.log_det)

    def log_partition(self, natural: Floats) -> Floats:
        gaussians = self.from_natural(natural)
        quadratic = np.einsum("kd,kd->k", gaussians.mean, natural[:, : gaussians.mean.shape[1]])
        return 0.5 * (quadratic + gaussians.log_det + gaussians.mean.shape[1] * _LOG_2_PI)

    # The feature map of `_natural` that the natural form about a centre takes.
    features = None

    def log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
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

    def posterior_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        about = self._about(parameters, X)
        if about is None:
            return self.expected_statistics(X, posterior, n_threads)
        centre, natural, _ = about
        posterior = np.ascontiguousarray(posterior, dtype=X.dtype)
        counts, totals = np.empty(len(natural)), np.empty_like(natural)
        _natural.statistics(X, centre, self.features, posterior, counts, totals, n_threads)
        return self._moments_about(centre, counts, totals)

    def own_statistics(self, parameters: Parameters, weights: Floats) -> Evidence:
        degrees = self._pooled(weights)
        scatter = self._own_scatter(degrees, parameters)
        return self.moments(weights, degrees, parameters.mean, scatter)

    def m_step(self, statistics: Evidence, previous: Parameters | None = None) -> Parameters:
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

    def sample(
        self, parameters: Parameters, components: Integers, rng: np.random.Generator
    ) -> Floats:
        deviations = rng.standard_normal((len(components), parameters.mean.shape[1]))
        return parameters.mean[components] + self._coloured(parameters, components, deviations)

    def marginal_log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return `log_density` of what each row has; NaN is missing, but not in all of a row.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : ndarray of shape (n_rows, n_features)
            Rows; NaN is missing.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import FullGaussian
        >>> family = FullGaussian()
        >>> gaussians = family.from_natural(np.array([[0.0, 0.0, -1.0, 0.5, 0.5, -1.0]]))
        >>> X = np.array([[1.0, np.nan]])
        >>> variance = family.covariance_matrices(gaussians)[0, 0, 0]
        >>> density = np.exp(-0.5 / variance) / np.sqrt(2 * np.pi * variance)
        >>> bool(np.isclose(np.exp(family.marginal_log_density(gaussians, X)), density)[0, 0])
        True
        """
        covariances = self.covariance_matrices(parameters)
        return marginal_log_density(parameters.mean, covariances, X)

    def marginal_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return `expected_statistics`, also in expectation over what is missing.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : ndarray of shape (n_rows, n_features)
            Rows; NaN is missing.
        posterior : ndarray of shape (n_rows, K)
            Shares of the components in each row.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import FullGaussian
        >>> family = FullGaussian()
        >>> gaussians = family.from_natural(np.array([[0.0, 0.0, -1.0, 0.5, 0.5, -1.0]]))
        >>> X = np.array([[1.0, np.nan]])
        >>> family.marginal_statistics(gaussians, X, np.ones((1, 1))).mean
        array([[1. , 0.5]])
        """
        counts, mean = posterior.sum(axis=0, dtype=np.float64), parameters.mean
        covariances = self.covariance_matrices(parameters)
        first, second = marginal_sums(mean, covariances, X, posterior.astype(np.float64))
        weight = counts[:, None]
        shift = np.divide(first, weight, out=np.zeros_like(first), where=weight > NEGLIGIBLE)
        scatter = self.from_matrices(second - first[:, :, None] * shift[:, None, :])
        return self.moments(counts, self._pooled(counts), mean + shift, scatter)

    def pseudo_moments(
        self,
        n_components: int,
        n_features: int,
        *,
        mean: ArrayLike,
        mean_weight: float,
        scatter: ArrayLike,
        degrees: float,
    ) -> Evidence:
        """Return pseudo-statistics: of the means, and of the covariances.

        Parameters
        ----------
        n_components, n_features : int
            How many components, and columns of a row.
        mean : array broadcasting to (n_components, n_features)
            Of the pseudo-rows.
        mean_weight : float
            Pseudo-rows of the means.
        scatter : float or array of shape (n_features, n_features)
            Pseudo-sum of squares; a number stands for a multiple of the unit matrix.
        degrees : float
            What the pseudo-sum is divided by.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import DiagonalGaussian
        >>> family = DiagonalGaussian(reg_covar=0.0)
        >>> prior = family.pseudo_moments(
        ...     1, 2, mean=3.0, mean_weight=1.0, scatter=8.0, degrees=4.0
        ... )
        >>> family.m_step(prior).mean, family.m_step(prior).covariance
        (array([[3., 3.]]), array([[2., 2.]]))
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

    def knowing(self, parameters: Parameters) -> Self:
        """Return this family, told the means or covariances that it does not learn.

        Parameters
        ----------
        parameters : object
            Gaussians, of which those values are taken that are not learnt.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import DiagonalGaussian
        >>> gaussians = DiagonalGaussian().from_natural(np.array([[0.0, -0.5]]))
        >>> family = DiagonalGaussian(learns_covariances=False).knowing(gaussians)
        >>> evidence = family.expected_statistics(np.array([[1.0], [3.0]]), np.ones((2, 1)))
        >>> family.predictive_log_density(evidence, np.array([[2.0]])).round(3)
        array([[-1.122]])
        """
        return replace(self, known=parameters)

    def mean_form(self, prior: Evidence) -> Evidence:
        # Degrees of the mean covariance are two less than Student's t has.
        n_integrated = self.learns_means * (len(prior.mean) // len(prior.scatter))
        degrees = self._student_degrees(prior, n_integrated) - 2.0
        if not (degrees > 0.0).all():
            name = self._prior_settings[1]
            raise ValueError(
                f"The covariance has no mean under this prior, unless {name} is larger;"
                " estimate='mode' needs less."
            )
        per_value = prior.mean.shape[1] // prior.scatter.shape[1]
        return replace(prior, degrees=degrees / per_value)

    def predictive_log_density(self, statistics: Evidence, X: Floats, n_threads: int = 1) -> Floats:
        r"""Return log p(x_n | statistics_k), of Student's t distributions.

        .. math:: t_{\nu - d + 1}(x \mid m, \Psi (k + 1) / (k (\nu - d + 1)))

        for the normal-inverse-Wishart distribution (m, k, Psi, nu) that the statistics stand for;
        along the axes, for normal-inverse-gamma ones, a product of one for each variance. Where
        covariances S are known, a normal distribution with S (1 + 1/k). Floors (`reg_covar`) are
        the M-step's, and not in here.

        Parameters
        ----------
        statistics : Moments
            Pseudo-statistics of the prior plus evidence as sums over rows.
        X : ndarray of shape (n_rows, n_features)
            Rows.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Returns
        -------
        log_density : ndarray of shape (n_rows, K)
            In nats.

        Raises
        ------
        ValueError
            If values are missing, the statistics make no proper posterior, or the family does not
            learn means or covariances and has not been told which: see `knowing`.

        References
        ----------
        Murphy, "Conjugate Bayesian analysis of the Gaussian distribution", 2007, section 9.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import FullGaussian
        >>> family = FullGaussian()
        >>> prior = family.prior_statistics(
        ...     1, n_features=1, mean_precision=1.0, covariance=2.0, degrees_of_freedom=1.0
        ... )
        >>> np.exp(family.predictive_log_density(prior, np.array([[0.0], [2.0]])))
        array([[0.15915494],
               [0.07957747]])
        """
        given = posterior(self, statistics)
        squares, log_det, n_blocks = self._squares(given, without_gaps(X).astype(float, copy=False))
        return student_log_density(given, squares, log_det, n_blocks).astype(X.dtype, copy=False)

    def draw_from_posterior(self, statistics: Evidence, rng: np.random.Generator) -> Parameters:
        given = posterior(self, statistics)
        covariance = given.scatter
        if self.learns_covariances:
            covariance = self._drawn_scatter(given, rng)
        about_zero = self.gaussians(np.zeros_like(given.mean), covariance)
        noise = self.sample(about_zero, np.arange(len(given.mean)), rng)
        return self.gaussians(given.mean + noise / np.sqrt(given.weight)[:, None], covariance)

    def collapsed_sweep(
        self, prior: Evidence, X: Floats, labels: Integers, concentration: Floats, uniforms: Floats
    ) -> float:
        given, X = posterior(self, prior), without_gaps(X)
        concentration = above("concentration", concentration, 0.0, prior.weight.shape).copy()
        origin, drawn = location(X)[0], labels.copy()
        value = self._sweep(
            X, origin, given.weight, given.degrees, given.mean - origin, given.scatter,
            concentration, uniforms, drawn,
        )  # fmt: skip
        labels[:] = drawn
        return value

    # Whether all components have one covariance.
    _is_pooled = False
    # What the prior calls its weight of means, its degrees and its scatter.
    _prior_settings = None
    # The kernel that makes a sweep of collapsed Gibbs sampling.
    _sweep = None

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
    def covariance_matrices(self, parameters: Parameters) -> Floats:
        """Return the covariance matrices, an ndarray of shape (K, d, d).

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import DiagonalGaussian
        >>> family = DiagonalGaussian()
        >>> family.covariance_matrices(family.from_natural(np.array([[0.0, 0.0, -0.5, -0.25]])))
        array([[[1., 0.],
                [0., 2.]]])
        """

    @abstractmethod
    def from_matrices(self, matrices: Floats) -> Floats:
        """Turn K matrices, of shape (K, d, d), into the shape of the scatters.

        Parameters
        ----------
        matrices : ndarray of shape (K, d, d)
            One for each component.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import DiagonalGaussian
        >>> DiagonalGaussian().from_matrices(np.array([[[2.0, 1.0], [1.0, 3.0]]]))
        array([[2., 3.]])
        """

    @abstractmethod
    def _own_scatter(self, degrees, parameters):
        """Scatters from which the M-step makes the covariances."""

    @abstractmethod
    def _student_degrees(self, statistics, n_integrated):
        """Degrees of the predictive distribution, if so many means to a scatter are unknown."""

    @abstractmethod
    def _least_scatter(self, scatter):
        """The least eigenvalue of each scatter."""

    @abstractmethod
    def _squares(self, posterior, X):
        """Squared distances, log-determinants and blocks, as `student_log_density` takes them."""

    @abstractmethod
    def _drawn_scatter(self, posterior, rng):
        """Covariances drawn from their posterior."""

    @abstractmethod
    def _quadratic(self, precision, covariance, deviation):
        """tr(precision covariance) + deviation' precision deviation, of shape (K,)."""

    @abstractmethod
    def _coloured(self, parameters, components, deviations):
        """Turn standard normal deviations into ones with the components' covariances."""


def without_gaps(X):
    """Rows as kernels take them; ValueError if values are missing or infinite."""
    X = np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    if not np.isfinite(X).all():
        raise ValueError("The posterior predictive of Gaussians takes no missing values (NaN).")
    return X


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
