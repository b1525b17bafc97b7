"""Covariances of Gaussians and of noise: full, tied, diagonal or spherical."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._checks import above, at_least, check_has_mode, positive_semidefinite
from sklearn_onlineem._kernels import (
    _centred_moments,
    _gaussian,
    _natural,
    _small_matrices,
)
from sklearn_onlineem._python import cached_property, ours
from sklearn_onlineem._typing import Floats, Maps
from sklearn_onlineem._values import Rebuilt, components, quick
from sklearn_onlineem.data.rows import task
from sklearn_onlineem.families._e_step import NOTHING
from sklearn_onlineem.families._gaussian_posteriors import inverse_wishart
from sklearn_onlineem.families._start_coordinates import independent, standardised, whitened
from sklearn_onlineem.statistics import Moments

# Sums of weights below this are rounding errors of the subnormal range.
NEGLIGIBLE = 1e-290
# Precisions of smaller variances would not be finite, nor their products with distances.
_LEAST_VARIANCE = 1e-290
# The natural way loses log10(guard) digits of a log density of order one.
LARGEST_GUARD = _gaussian.LARGEST_GUARD
# With so many features, or so many for each component, the centred way is the faster one:
# its triangles stay in cache where natural parameters no longer do. Where products of features must
# be stored, it does so earlier.
_MOST_FEATURES, _MOST_FEATURES_PER_COMPONENT = (128, 32) if _natural.FUSED_PRODUCTS else (64, 3)
_LOCATION_ROWS = 256
# Most columns that are whitened for k-means, for each row.
_WHITENED_SHARE = 0.25
LOG_2_PI = math.log(2.0 * math.pi)


@quick
@dataclass(frozen=True, eq=False)
class Gaussians(Rebuilt):
    """Means and covariances of K Gaussians, and arrays computed from these once.

    Parameters
    ----------
    mean : ndarray of shape (K, d)
        Means.
    covariance : ndarray
        Matrices (K, d, d) full or (1, d, d) tied, or variances (K, d) diagonal or (K, 1) spherical;
        ValueError if a matrix is not positive definite.

    Attributes
    ----------
    precision : ndarray
        Inverse covariances, shaped like `covariance`.
    precision_factor : ndarray
        Upper triangular P with P P' = precision, scikit-learn's `precisions_cholesky_`; inverse
        standard deviations of variances.
    log_det : ndarray of shape (K,) or (1,)
        Log-determinants of the covariances.
    covariance_matrices : ndarray of shape (K, d, d)
        The covariance of each component as a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussians
    >>> Gaussians(mean=np.zeros((1, 2)), covariance=np.array([[1.0, 2.0]])).covariance_matrices
    array([[[1., 0.],
            [0., 2.]]])
    """

    mean: Floats
    covariance: Floats

    def __post_init__(self):
        covariance, values = self.covariance, vars(self)
        precision, log_det = np.empty(covariance.shape), np.empty(len(covariance))
        values["precision"], values["log_det"] = precision, log_det
        if covariance.ndim == 2:
            width = self.mean.shape[1]
            _small_matrices.invert_variances(covariance, width, precision, log_det)
            return
        values["precision_factor"] = factor = np.empty(covariance.shape)
        failed = _small_matrices.factorise(covariance, precision, factor, log_det)
        if failed >= 0:
            raise ValueError(
                f"The covariance of component {failed} is not positive definite: its data are too"
                " few or too similar. Decrease n_components or increase reg_covar."
            )

    @cached_property
    def precision_factor(self) -> Floats:
        return np.sqrt(self.precision)

    @property
    def covariance_matrices(self) -> Floats:
        if self.covariance.ndim == 3:
            return np.broadcast_to(self.covariance, (len(self.mean), *self.covariance.shape[1:]))
        variances = np.broadcast_to(self.covariance, self.mean.shape)
        return variances[:, :, None] * np.eye(variances.shape[1])

    def _offset(self, log_weights):
        """Return log weights plus the logs of the densities' normalisers."""
        d = self.mean.shape[1]
        return log_weights - 0.5 * (self.log_det + d * LOG_2_PI)


class Covariance(ABC):
    """Shape of the covariances of Gaussians, or of the noise of regressions.

    E-steps, statistics and log densities are computed in one of two ways. The *natural* one takes
    features about a single centre, as matrix products; where a component is narrow and far from the
    centre it would lose digits, and `_about` returns None. The *centred* one takes features about
    the mean of each component, and never loses digits.

    Notes
    -----
    Methods take these:

    covariance, matrices : ndarray of shape (d, d), (K, d, d)
        Any covariance, and those of K components.
    n_features : int
        d.
    X, sample_weight : ndarray of shape (n_rows, d), (n_rows,) or None
        Rows and their weights; None: all are 1.
    """

    # Whether all components have one covariance, or so many in succession have.
    is_shared = False
    n_sharing = 1
    # The feature map of `_natural` for the natural way.
    features: int
    # Names of the weight of means, the degrees and the scatter in `Gaussian.prior_statistics`.
    prior_settings: tuple[str, str, str]
    # Hyper-parameters of the covariances alone.
    prior_keys: tuple[str, ...]
    # Range and axes of the values, as of a `Part`.
    kind = "positive"
    axes = "kd"
    # Indices that leave out axes of length 1, as users know covariances, and that put them back.
    shown, stored = ..., ...

    @abstractmethod
    def nearest(self, covariance: Floats) -> Floats:
        """Return the covariance of this shape that is likeliest for a full one, (d, d)."""

    @abstractmethod
    def n_parameters(self, n_features: int) -> int:
        """Return the number of free parameters of one covariance of `n_features`."""

    def degrees_of_mean(self, n_features: int) -> float:
        """Return by how many the degrees of a posterior's mean are below those of its mode."""
        return 4.0 * self.n_parameters(n_features) / n_features

    @abstractmethod
    def from_matrices(self, matrices: Floats) -> Floats:
        """Turn matrices of shape (K, d, d) into the shape of the scatters."""

    @abstractmethod
    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        """Return maps to coordinates that make clusters of such covariances round, as a family."""

    def _pooled(self, weights):
        """Return the weight behind each scatter."""
        return weights.sum(keepdims=True) if self.is_shared else weights

    def _prefers_factors(self, n_components, n_features):
        """Return whether the centred way is the faster one."""
        return False

    def _about(self, gaussians, X, log_det=NOTHING):
        """Return centre, natural parameters about it and offsets of log densities, or None."""
        # Without log-determinants, offsets lack the normalisers. None: digits would be lost.
        n_components, d = gaussians.mean.shape
        if self._prefers_factors(n_components, d):
            return None
        centre, natural = np.empty(d), np.empty((n_components, d + self.n_parameters(d)))
        offset = np.empty(n_components)
        guard = _natural.natural_form(
            X, gaussians.mean, gaussians.precision, log_det, centre, natural, offset
        )
        return (centre, natural, offset) if guard < LARGEST_GUARD[X.dtype] else None

    def _centred_statistics(self, X, responsibilities, n_threads):
        responsibilities = np.ascontiguousarray(responsibilities, dtype=X.dtype)
        counts, centre = responsibilities.sum(axis=0, dtype=np.float64), location(X)
        weights = np.zeros(responsibilities.shape)
        np.divide(responsibilities, counts, out=weights, where=counts > NEGLIGIBLE)
        means = centre + weights.T @ (X - centre)
        first, second = np.empty_like(means), self._empty(*means.shape)
        given = task(responsibilities=responsibilities)
        _gaussian.mixture_pass(X, means, None, None, given, counts, first, second, n_threads)
        return self._recentred(first, second, means, 1.0, counts)


class _Matrices(Covariance):
    """Full and tied: covariances are matrices."""

    kind, axes = "covariance", "kdd"
    features = _natural.PRODUCTS
    prior_settings = ("mean_precision", "degrees_of_freedom", "covariance")
    prior_keys = ("covariance", "degrees_of_freedom", "covariance_weight")

    def nearest(self, covariance: Floats) -> Floats:
        return 0.5 * (covariance + covariance.T)

    def n_parameters(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        maps = [standardised]
        # Whitened rows as few as columns have equal distances, and a few times as many nearly so.
        if 1 < X.shape[1] <= _WHITENED_SHARE * len(X):
            maps.append(whitened)
            # Kurtoses of fewer rows are mostly noise.
            if X.shape[1] ** 2 <= len(X):
                maps.append(independent)
        return tuple(to(X, sample_weight) for to in maps)

    def from_matrices(self, matrices: Floats) -> Floats:
        return matrices.sum(axis=0, keepdims=True) if self.is_shared else matrices

    def _prefers_factors(self, n_components, n_features):
        most = _MOST_FEATURES_PER_COMPONENT * n_components
        return n_features > most or n_features > _MOST_FEATURES

    def _factors(self, gaussians):
        """Return inverse roots of the covariances, or of the variances of all features."""
        return gaussians.precision_factor

    def _empty(self, n_components, d):
        """Return an array for sums of products, or of squares, about means."""
        return np.empty((1 if self.is_shared else n_components, d, d))

    def _moments_about(self, centre, counts, totals):
        """Return moments from the sums of the features about a centre."""
        n_components, d = len(counts), len(centre)
        mean, scatters = np.empty((n_components, d)), np.empty((n_components, d, d))
        _natural.moments_about(centre, counts, totals, mean, scatters)
        return Moments(counts, self._pooled(counts), mean, self.from_matrices(scatters))

    def _per_entry(self, gaussians):
        """Return means, covariances and what follows from these, as `_gaps` takes them."""
        g = gaussians
        return g.mean, g.covariance, g.precision, g.precision_factor, g.log_det

    def _recentred(self, first, second, means, share, counts):
        """Return moments about the new means, times a share, from sums about the old ones."""
        new_means, scatter = np.empty_like(means), np.empty_like(second)
        _centred_moments.recentre(first, second, means, share, counts, new_means, scatter)
        return Moments(counts, self._pooled(counts), new_means, scatter)

    def _maximiser(self, statistics, previous, floor):
        """Return the M-step for both means and covariances."""
        covariance = np.empty(statistics.scatter.shape)
        kept = covariance if previous is None else previous.covariance
        _centred_moments.covariances_from_scatter(
            statistics.scatter, statistics.degrees, floor, kept, covariance
        )
        mean = kept_where_empty(statistics, previous)
        try:
            return Gaussians(mean, covariance)
        except ours(ValueError):
            # In single precision a scatter about a few rows may be further below 0 than the floor
            # is above.
            return Gaussians(mean, self._at_least(covariance, np.ones(len(covariance)), floor))

    def _at_least(self, scatter, degrees, floor):
        """Return the scatters of likeliest covariances that are the diagonal floor or more."""
        degrees = degrees[: len(scatter), None, None]
        try:
            np.linalg.cholesky(scatter - degrees * np.diag(floor))
            return scatter
        except np.linalg.LinAlgError:
            seen, roots = degrees[:, 0, 0] > 0.0, np.sqrt(floor)
        with np.errstate(all="ignore"):
            unit = degrees[seen] * (roots[:, None] * roots)
            relative = scatter[seen] / unit
        if not np.isfinite(relative).all():
            return scatter
        values, vectors = np.linalg.eigh(relative)
        roots = vectors * np.sqrt(np.maximum(values, 1.0))[:, None]
        bounded, out = unit * (roots @ roots.mT), scatter.copy()
        out[seen] = np.where(values[:, :1, None] < 1.0, bounded, scatter[seen])
        return out

    def _quadratic(self, precision, covariance, deviation):
        """Return traces of precision (covariance + deviation deviation'), of shape (K,)."""
        traces = np.einsum("kij,kij->k", precision, covariance)
        return traces + np.einsum("ki,kij,kj->k", deviation, precision, deviation)

    def _coloured(self, covariance, components, deviations):
        """Turn standard normal deviations into deviations of the components."""
        roots = np.linalg.cholesky(covariance)
        chosen = components if len(roots) > 1 else np.zeros_like(components)
        out = np.empty_like(deviations)
        for k, root in enumerate(roots):
            out[chosen == k] = deviations[chosen == k] @ root.T
        return out

    def _second_moments(self, rows, covariances=0.0):
        """Return covariances plus x x' of each row x, as statistics have them."""
        return (covariances + rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)

    def _from_natural(self, natural):
        # p = d + d * d
        d = (math.isqrt(4 * natural.shape[1] + 1) - 1) // 2
        covariance = np.linalg.inv(-2.0 * natural[:, d:].reshape(-1, d, d))
        mean = np.einsum("kij,kj->ki", covariance, natural[:, :d])
        if self.is_shared:
            covariance = covariance[:1]
        return Gaussians(mean, np.ascontiguousarray(covariance))

    def _prior(
        self,
        weight: Floats,
        n_features: int,
        covariance: ArrayLike = 0.0,
        degrees_of_freedom: float | None = None,
        covariance_weight: float = 0.0,
    ) -> tuple[Floats, Floats]:
        """Return degrees and scatters of the covariances' prior, for weights (K,) of the means."""
        mode = at_least("covariance_weight", covariance_weight, 0.0)
        scatter = self._empty(len(weight), n_features)
        scatter[:] = positive_semidefinite("covariance", covariance, n_features)
        if degrees_of_freedom is not None:
            mode = above("degrees_of_freedom", degrees_of_freedom, n_features - 1.0)
            mode = mode + n_features + 1.0 + (weight[0] > 0.0) * len(weight) / len(scatter)
        check_has_mode("covariance", scatter, mode, "degrees_of_freedom")
        return np.full(len(scatter), mode), scatter

    def _student_degrees(self, statistics, n_integrated):
        """Return the degrees of Student's t distribution of a new row."""
        return statistics.degrees - 2.0 * statistics.mean.shape[1] - n_integrated

    def _least_scatter(self, scatter):
        """Return values that are above 0 for a proper scatter."""
        return np.linalg.eigvalsh(scatter)[:, 0]

    def _squares(self, posterior, X):
        """Return Mahalanobis squares (n_rows, n_blocks) for each k, log-determinants, n_blocks."""
        roots = np.linalg.cholesky(posterior.scatter)
        log_det = 2.0 * np.log(np.einsum("kii->ki", roots)).sum(axis=1)
        shared = (len(posterior.mean) // len(roots)) * list(roots)
        squares = (
            (np.linalg.solve(root, (X - mean).T) ** 2).sum(axis=0)[:, None]
            for root, mean in zip(shared, posterior.mean, strict=True)
        )
        return squares, log_det, 1

    def _drawn(self, posterior, rng):
        scatter = posterior.scatter
        degrees = posterior.degrees[: len(scatter)] + posterior.mean.shape[1] - 1.0
        return inverse_wishart(degrees, scatter, rng)


@dataclass(frozen=True)
class Full(_Matrices):
    """Any covariance, and each component its own: matrices of shape (K, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Full, Gaussian
    >>> family, X = Gaussian(Full(), reg_covar=0.5), np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> family.m_step(family.expected_statistics(X, np.ones((2, 1)))).covariance
    array([[[1.5, 2. ],
            [2. , 4.5]]])
    """


@dataclass(frozen=True)
class Tied(_Matrices):
    """Any covariance, one for all components: a matrix of shape (1, d, d).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian, Tied
    >>> family, X = Gaussian(Tied(), reg_covar=0.5), np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> family.m_step(family.expected_statistics(X, np.ones((2, 1)))).covariance
    array([[[1.5, 2. ],
            [2. , 4.5]]])
    """

    is_shared = True
    axes, shown, stored = "dd", 0, None


@dataclass(frozen=True)
class TiedInGroups(_Matrices):
    """Any covariance, one for `n_sharing` components in succession: matrices (K, d, d), alike.

    Parameters
    ----------
    n_sharing : int
        How many components of a group share their covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian
    >>> from sklearn_onlineem.families.covariance_shapes import TiedInGroups
    >>> family, X = Gaussian(TiedInGroups(2), reg_covar=0.5), np.array([[0.0], [2.0], [7.0]])
    >>> one_hot = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> family.m_step(family.expected_statistics(X, one_hot)).covariance.round(3).ravel()
    array([1.167, 1.167])
    """

    n_sharing: int

    def _maximiser(self, statistics, previous, floor):
        n, scatter = self.n_sharing, statistics.scatter
        degrees = statistics.degrees.reshape(-1, n).sum(axis=1)
        scatter = scatter.reshape(-1, n, *scatter.shape[1:]).sum(axis=1)
        first = Moments(degrees, degrees, statistics.mean[::n], scatter)
        firsts, n_all = np.arange(0, len(statistics.mean), n), len(statistics.mean)
        kept = previous and components(previous, firsts, n_all)
        covariance = super()._maximiser(first, kept, floor).covariance
        mean = kept_where_empty(statistics, previous)
        return Gaussians(mean, np.repeat(covariance, n, axis=0))


class _Variances(Covariance):
    """Diagonal and spherical: covariances are variances along the axes."""

    prior_settings = ("mean_precision", "shape", "scale")
    prior_keys = ("shape", "scale")
    # Whether the features of a component have one variance.
    _is_single = False

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        return (standardised(X, sample_weight, one_unit=self._is_single),)

    def from_matrices(self, matrices: Floats) -> Floats:
        return self._summed(np.einsum("kii->ki", matrices).copy())

    def _factors(self, gaussians):
        factors = gaussians.precision_factor
        return np.ascontiguousarray(np.broadcast_to(factors, gaussians.mean.shape))

    def _empty(self, n_components, d):
        return np.empty((n_components, d))

    def _summed(self, values):
        """Sum values over the features that share a variance."""
        return values.sum(axis=1, keepdims=True) if self._is_single else values

    def _moments_about(self, centre, counts, totals):
        mean, d = np.empty((len(counts), len(centre))), len(centre)
        scatter = np.empty((len(counts), totals.shape[1] - d))
        _natural.moments_about(centre, counts, totals, mean, scatter)
        return Moments(counts, counts, mean, scatter)

    def _per_entry(self, gaussians):
        means, variances = gaussians.mean, gaussians.covariance
        every = np.ascontiguousarray(np.broadcast_to(variances, means.shape))
        return means, every, NOTHING, self._factors(gaussians), gaussians.log_det

    def _recentred(self, first, second, origin, share, counts):
        weight = counts[:, None]
        shift = np.divide(first, weight, out=np.zeros_like(first), where=weight > NEGLIGIBLE)
        scatter = np.maximum(self._summed(second) - self._summed(first * shift), 0.0)
        return Moments(counts, counts, origin + shift, scatter).scale(share)

    def _maximiser(self, statistics, previous, floor):
        variance = np.empty_like(statistics.scatter)
        kept = np.ones_like(variance) if previous is None else previous.covariance
        if not _centred_moments.variances_from_scatter(
            statistics.scatter, statistics.degrees, floor, kept, _LEAST_VARIANCE, variance
        ):
            raise ValueError(
                "A variance is not positive, or overflows: data of a component are too few or too"
                " similar. Decrease n_components or increase reg_covar."
            )
        return Gaussians(kept_where_empty(statistics, previous), variance)

    def _at_least(self, scatter, degrees, floor):
        n_values = self.n_parameters(len(floor))
        least = floor.reshape(n_values, -1).sum(axis=1)
        return np.maximum(scatter, degrees[:, None] * least)

    def _quadratic(self, precision, covariance, deviation):
        return (precision * (covariance + deviation**2)).sum(axis=1)

    def _coloured(self, covariance, components, deviations):
        return np.sqrt(covariance)[components] * deviations

    def _second_moments(self, rows, covariances=0.0):
        return self._summed(covariances + rows * rows)

    def _from_natural(self, natural):
        d = natural.shape[1] - 1 if self._is_single else natural.shape[1] // 2
        linear, negative_half_precision = natural[:, :d], natural[:, d:]
        variance = -0.5 / negative_half_precision
        return Gaussians(linear * variance, variance)

    def _prior(
        self, weight: Floats, n_features: int, shape: float | None = None, scale: ArrayLike = 0.0
    ) -> tuple[Floats, Floats]:
        width, mode = self.n_parameters(n_features), 0.0
        if shape is not None:
            per_value = n_features // width
            mode = (2.0 * above("shape", shape, 0.0) + 2.0) / per_value + (weight[0] > 0.0)
        scatter = 2.0 * at_least("scale", scale, 0.0, (len(weight), width))
        check_has_mode("scale", scatter, mode, "shape")
        return np.full(len(weight), mode), scatter

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

    def _drawn(self, posterior, rng):
        scatter = posterior.scatter
        return scatter / rng.chisquare(posterior.degrees[:, None], scatter.shape)


@dataclass(frozen=True)
class Diagonal(_Variances):
    """Independent features, with one variance each: variances of shape (K, d).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Diagonal, Gaussian
    >>> family, X = Gaussian(Diagonal(), reg_covar=0.5), np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> family.m_step(family.expected_statistics(X, np.ones((2, 1)))).covariance
    array([[1.5, 4.5]])
    """

    features = _natural.SQUARES

    def nearest(self, covariance: Floats) -> Floats:
        return np.diag(np.diag(covariance))

    def n_parameters(self, n_features: int) -> int:
        return n_features


@dataclass(frozen=True)
class Spherical(_Variances):
    """Independent features of one variance: variances of shape (K, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian, Spherical
    >>> family, X = Gaussian(Spherical(), reg_covar=0.5), np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> family.m_step(family.expected_statistics(X, np.ones((2, 1)))).covariance
    array([[3.]])
    """

    features = _natural.SQUARE_SUM
    _is_single = True
    axes, shown, stored = "k", (slice(None), 0), (slice(None), None)

    def nearest(self, covariance: Floats) -> Floats:
        return np.eye(len(covariance)) * (np.trace(covariance) / max(1, len(covariance)))

    def n_parameters(self, n_features: int) -> int:
        return 1


# By the names of the parameter `covariance_type` of estimators.
COVARIANCES = {"full": Full(), "tied": Tied(), "diag": Diagonal(), "spherical": Spherical()}


def check_covariance(name, value):
    """Raise ValueError if the shape of covariances is none."""
    if not isinstance(value, Covariance):
        raise ValueError(
            f"{name} must be Full(), Tied(), Diagonal() or Spherical(), got {value!r:.60}."
        )


def location(X):
    """Return the centre of the first rows, added in order: the same bits as that of kernels."""
    block = X[:_LOCATION_ROWS].astype(np.float64, copy=False)
    return block.cumsum(axis=0)[-1:].sum(axis=0) / len(block)


def kept_where_empty(statistics, previous):
    """Return the means of the statistics; components without weight keep their previous mean."""
    weight = statistics.weight
    if previous is None or weight[weight.argmin()] > 0.0:
        return statistics.mean
    return np.where(weight[:, None] > 0, statistics.mean, previous.mean)
