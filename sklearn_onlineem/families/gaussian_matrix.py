"""Gaussians whose covariances are matrices: one each (full), or one for all (tied)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._kernels import (
    _centred_moments,
    _collapsed_gaussian,
    _gaussian,
    _natural,
    _natural_gaussian,
    _small_matrices,
)
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._checks import above, at_least, finite, positive_semidefinite
from sklearn_onlineem.families._family import optional, per_row, unwanted
from sklearn_onlineem.families._gaussian import (
    LARGEST_GUARD,
    NEGLIGIBLE,
    Gaussian,
    kept_where_empty,
    location,
    weighted_means,
)
from sklearn_onlineem.families._gaussian_posteriors import inverse_wishart
from sklearn_onlineem.statistics import Moments

__all__ = ["FullGaussian", "MatrixGaussians", "MatrixMoments", "TiedGaussian"]

# With so many features, or so many for each component, the Cholesky way overtakes the natural one:
# its triangles stay in cache where natural parameters no longer do. Where products of features must
# be stored, it does so earlier.
_MOST_FEATURES, _MOST_FEATURES_PER_COMPONENT = (128, 32) if _natural.FUSED_PRODUCTS else (64, 3)


class MatrixMoments(Moments):
    """Moments with scatters of shape (K, d, d), or (1, d, d) summed over the components."""

    merge_centred = staticmethod(_centred_moments.merge_centred)


@dataclass(frozen=True, eq=False)
class MatrixGaussians:
    """Means (K, d) and covariance matrices (K, d, d) or (1, d, d), with what follows from these.

    Attributes
    ----------
    precision : ndarray
        Inverse covariances, shaped like `covariance`.
    precision_factor : ndarray
        Upper triangular P with P P' = precision, scikit-learn's `precisions_cholesky_`.
    log_det : ndarray of shape (K,) or (1,)
        Log-determinants of the covariances.

    Raises
    ------
    ValueError
        If a covariance is not positive definite.
    """

    mean: Floats
    covariance: Floats

    def __post_init__(self):
        covariance = self.covariance
        precision, factor = np.empty_like(covariance), np.empty_like(covariance)
        log_det = np.empty(len(covariance))
        failed = _small_matrices.factorise(covariance, precision, factor, log_det)
        if failed >= 0:
            raise ValueError(
                f"The covariance of component {failed} is not positive definite: its data are too"
                " few or too much alike. Decrease n_components or increase reg_covar."
            )
        self.__dict__.update(precision=precision, precision_factor=factor, log_det=log_det)

    def __reduce__(self):
        # What follows from the covariances would be three quarters of what is sent.
        return MatrixGaussians, (self.mean, self.covariance)


class _MatrixGaussian(Gaussian[MatrixGaussians, MatrixMoments]):
    """Full and tied: covariances are matrices."""

    moments = MatrixMoments
    gaussians = MatrixGaussians
    features = _natural.PRODUCTS
    _prior_settings = ("mean_precision", "degrees_of_freedom", "covariance")
    _sweep = staticmethod(_collapsed_gaussian.matrix_sweep)

    def to_natural(self, parameters: MatrixGaussians) -> Floats:
        precision = np.broadcast_to(
            parameters.precision, (len(parameters.mean), *parameters.precision.shape[1:])
        )
        linear = np.einsum("kij,kj->ki", precision, parameters.mean)
        return np.concatenate([linear, -0.5 * precision.reshape(len(linear), -1)], axis=1)

    def from_natural(self, natural: Floats) -> MatrixGaussians:
        # p = d + d * d
        d = (math.isqrt(4 * natural.shape[1] + 1) - 1) // 2
        covariance = np.linalg.inv(-2.0 * natural[:, d:].reshape(-1, d, d))
        mean = np.einsum("kij,kj->ki", covariance, natural[:, :d])
        return self.gaussians(mean, np.ascontiguousarray(covariance[: self._n_covariances(mean)]))

    def widened(self, parameters: MatrixGaussians) -> MatrixGaussians:
        diagonals = np.einsum("kii->ki", parameters.covariance)
        return self.gaussians(parameters.mean, diagonals[:, :, None] * np.eye(diagonals.shape[1]))

    def sufficient_statistics(self, X: Floats) -> Floats:
        products = X[:, :, None] * X[:, None, :]
        return np.concatenate([X, products.reshape(len(X), -1)], axis=1)

    def mean_statistics(self, parameters: MatrixGaussians) -> Floats:
        mean = parameters.mean
        second = parameters.covariance + mean[:, :, None] * mean[:, None, :]
        return np.concatenate([mean, second.reshape(len(mean), -1)], axis=1)

    def _centred_log_density(self, parameters, X, offset, n_threads):
        out = np.empty((len(X), len(parameters.mean)), dtype=X.dtype)
        factors = parameters.precision_factor
        _gaussian.log_density(X, parameters.mean, factors, offset, out, n_threads)
        return out

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> MatrixMoments:
        responsibilities = np.ascontiguousarray(responsibilities, dtype=X.dtype)
        counts, means = weighted_means(X, responsibilities)
        first, second = np.empty_like(means), self._empty_scatter(means)
        _gaussian.statistics(X, means, responsibilities, counts, first, second, n_threads)
        return self._recentred(first, second, means, 1.0, counts)

    def _maximiser(self, statistics, previous):
        covariance = np.empty_like(statistics.scatter)
        floor = self._floor(statistics.mean.shape[1])
        _centred_moments.covariances_from_scatter(
            statistics.scatter,
            statistics.degrees,
            floor,
            covariance if previous is None else previous.covariance,
            covariance,
        )
        mean = kept_where_empty(statistics, previous)
        try:
            return self.gaussians(mean, covariance)
        except ValueError:
            # In single precision a scatter about a few rows may be further below 0 than the floor
            # is above.
            scale = np.sqrt(np.outer(floor, floor))
            with np.errstate(all="ignore"):
                relative = covariance / scale
            if not np.isfinite(relative).all():
                raise
            values, vectors = np.linalg.eigh(relative)
            roots = vectors * np.sqrt(np.maximum(values, 1.0))[:, None]
            return self.gaussians(mean, scale * (roots @ roots.mT))

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        mean: ArrayLike = 0.0,
        mean_precision: float = 0.0,
        covariance: ArrayLike = 0.0,
        degrees_of_freedom: float | None = None,
    ) -> MatrixMoments:
        """Normal-inverse-Wishart prior, whose joint mode over mean and covariance is taken.

        Where `mean_precision` is 0, the mean has no prior: the covariance alone has one.

        Parameters
        ----------
        n_components, n_features : int
            How many components have the prior, and columns of a row.
        mean : array broadcasting to (n_components, n_features)
            Where the prior has the means.
        mean_precision : float
            Pseudo-observations of the mean, not below 0.
        covariance : float or array of shape (n_features, n_features)
            Scale matrix of the inverse Wishart distribution, positive semidefinite; a number stands
            for a multiple of the unit matrix.
        degrees_of_freedom : float, default=None
            Of the inverse Wishart distribution, above n_features - 1; None: no prior on the
            covariance.

        Examples
        --------
        The joint mode of d = 2 features: covariance / (degrees_of_freedom + d + 2).

        >>> from sklearn_onlineem.families import FullGaussian
        >>> family = FullGaussian()
        >>> prior = family.prior_statistics(
        ...     1, n_features=2, mean_precision=1.0, covariance=16.0, degrees_of_freedom=4.0
        ... )
        >>> family.m_step(prior).covariance
        array([[[2., 0.],
                [0., 2.]]])
        """
        mean = finite("mean", mean, (n_components, n_features)).copy()
        scatter = self._empty_scatter(mean)
        scatter[:] = positive_semidefinite("covariance", covariance, n_features)
        weight = np.full(n_components, at_least("mean_precision", mean_precision, 0.0))
        mode = 0.0
        if degrees_of_freedom is not None:
            mode = above("degrees_of_freedom", degrees_of_freedom, n_features - 1.0)
            mode = mode + n_features + 1.0 + (weight[0] > 0.0) * n_components / len(scatter)
        return self.moments(weight, np.full(len(scatter), mode), mean, scatter)

    def _student_degrees(self, statistics, n_integrated):
        return statistics.degrees - 2.0 * statistics.mean.shape[1] - n_integrated

    def _least_scatter(self, scatter):
        return np.linalg.eigvalsh(scatter)[:, 0]

    def _squares(self, posterior, X):
        roots = np.linalg.cholesky(posterior.scatter)
        log_det = 2.0 * np.log(np.einsum("kii->ki", roots)).sum(axis=1)
        shared = (len(posterior.mean) // len(roots)) * list(roots)
        squares = (
            (np.linalg.solve(root, (X - mean).T) ** 2).sum(axis=0)[:, None]
            for root, mean in zip(shared, posterior.mean, strict=True)
        )
        return squares, log_det, 1

    def _drawn_scatter(self, posterior, rng):
        scatter = posterior.scatter
        degrees = posterior.degrees[: len(scatter)] + posterior.mean.shape[1] - 1.0
        return inverse_wishart(degrees, scatter, rng)

    def _n_covariance_parameters(self, parameters):
        n_covariances, d, _ = parameters.covariance.shape
        return n_covariances * (d * (d + 1) // 2)

    def _quadratic(self, precision, covariance, deviation):
        traces = np.einsum("kij,kij->k", precision, covariance)
        return traces + np.einsum("ki,kij,kj->k", deviation, precision, deviation)

    def _coloured(self, parameters, components, deviations):
        roots = np.linalg.cholesky(parameters.covariance)
        chosen = components if len(roots) > 1 else np.zeros_like(components)
        out = np.empty_like(deviations)
        for k, root in enumerate(roots):
            out[chosen == k] = deviations[chosen == k] @ root.T
        return out

    def _own_scatter(self, degrees, parameters):
        scatter, floor = np.empty_like(parameters.covariance), self._floor(parameters.mean.shape[1])
        _centred_moments.scatters_from_covariances(parameters.covariance, degrees, floor, scatter)
        return scatter

    def covariance_matrices(self, parameters: MatrixGaussians) -> Floats:
        shape = (len(parameters.mean), *parameters.covariance.shape[1:])
        return np.broadcast_to(parameters.covariance, shape)

    def from_matrices(self, matrices: Floats) -> Floats:
        return matrices

    def _about(self, parameters, X):
        if _prefers_factors(*parameters.mean.shape):
            return None
        centre, spread = location(X)
        deviation = parameters.mean - centre
        precision = np.broadcast_to(parameters.precision, (*deviation.shape, len(centre)))
        guard = np.einsum("kii,ki->k", precision, spread + deviation**2).max()
        if not guard < LARGEST_GUARD[X.dtype]:
            return None
        linear = np.einsum("kij,kj->ki", precision, deviation)
        upper, twice = _triangle(X.shape[1])
        products = precision[:, upper[0], upper[1]] * (-0.5 * twice)
        natural = np.concatenate([linear, products], axis=1)
        return centre, natural, (linear * deviation).sum(axis=1)

    def _moments_about(self, centre, counts, totals):
        d, weight = len(centre), counts[:, None]
        first, (i, j) = totals[:, :d], _triangle(d)[0]
        shift = np.divide(first, weight, out=np.zeros_like(first), where=weight > NEGLIGIBLE)
        scatter = np.empty((len(counts), d, d))
        scatter[:, i, j] = totals[:, d:]
        scatter[:, j, i] = totals[:, d:]
        scatter -= first[:, :, None] * shift[:, None, :]
        scatter = self.from_matrices(scatter)
        return self.moments(counts, self._pooled(counts), centre + shift, scatter)

    def _n_covariances(self, mean):
        return len(mean)

    def _empty_scatter(self, mean):
        d = mean.shape[1]
        return np.empty((self._n_covariances(mean), d, d))

    def _recentred(self, first, second, means, share, counts):
        new_means, scatter = np.empty_like(means), np.empty_like(second)
        _centred_moments.recentre(first, second, means, share, counts, new_means, scatter)
        return self.moments(counts, self._pooled(counts), new_means, scatter)

    def e_step(
        self,
        parameters: MatrixGaussians,
        log_weights: Floats,
        rows: Rows,
        uniforms: Floats | None = None,
    ) -> tuple[Floats, MatrixMoments, float]:
        # About the components' own means ("the Cholesky way"), which never loses digits.
        counts = np.empty(len(parameters.mean))
        first, second = np.empty_like(parameters.mean), self._empty_scatter(parameters.mean)
        log_likelihood = _gaussian.e_step(
            rows.X,
            parameters.mean,
            parameters.precision_factor,
            self._offset(parameters, log_weights),
            *per_row(rows),
            optional(uniforms),
            counts,
            first,
            second,
            *unwanted(rows.X),
            rows.n_threads,
        )
        share = 1.0 / rows.total_weight
        moments = self._recentred(first, second, parameters.mean, share, counts)
        return counts, moments, share * log_likelihood


class FullGaussian(_MatrixGaussian):
    r"""Gaussians with a covariance matrix each.

    .. math:: p(x \mid m, S) = |2 \pi S|^{-1/2} e^{-(x - m)' S^{-1} (x - m) / 2}

    :math:`\phi(x) = (x, x x')`, :math:`\theta = (S^{-1} m, -S^{-1}/2)`,
    :math:`G = (m' S^{-1} m + \log |2 \pi S|) / 2`. Parameters are means of shape (K, d) and
    covariances of shape (K, d, d); statistics are centred (`Moments`).

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

    References
    ----------
    Amid & Warmuth, UAI 2020, section 4 (Gaussian mixtures).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import FullGaussian
    >>> family = FullGaussian()
    >>> parameters = family.gaussians(np.zeros((1, 2)), np.eye(2)[None])
    >>> family.log_density(parameters, np.zeros((1, 2)))
    array([[-1.83787707]])
    """

    def e_step(
        self,
        parameters: MatrixGaussians,
        log_weights: Floats,
        rows: Rows,
        uniforms: Floats | None = None,
    ) -> tuple[Floats, MatrixMoments, float]:
        if _prefers_factors(*parameters.mean.shape):
            return super().e_step(parameters, log_weights, rows, uniforms)
        mean, scatter = np.empty_like(parameters.mean), np.empty_like(parameters.covariance)
        counts = np.empty(len(mean))
        log_likelihood = _natural_gaussian.e_step(
            rows.X, parameters.mean, parameters.precision, parameters.log_det, log_weights,
            *per_row(rows), optional(uniforms), rows.total_weight, LARGEST_GUARD[rows.X.dtype],
            counts, mean, scatter, rows.n_threads,
        )  # fmt: skip
        if math.isnan(log_likelihood):
            return super().e_step(parameters, log_weights, rows, uniforms)
        return counts, self.moments(counts, counts, mean, scatter), log_likelihood

    def kl_divergence(self, p: MatrixGaussians, q: MatrixGaussians) -> Floats:
        out = np.empty(len(p.mean))
        _small_matrices.kl_divergences(
            p.mean, p.covariance, p.log_det, q.mean, q.precision, q.log_det, out
        )
        return out


def _prefers_factors(n_components, n_features):
    """Whether the Cholesky way is the faster one."""
    most = min(_MOST_FEATURES, _MOST_FEATURES_PER_COMPONENT * n_components)
    return n_features > most


@cache
def _triangle(d):
    """Indices of the upper triangle of a d x d matrix, and how often each entry occurs in it."""
    i, j = np.triu_indices(d)
    return (i, j), np.where(i == j, 1.0, 2.0)


class TiedGaussian(_MatrixGaussian):
    """Gaussians that share one covariance matrix, of shape (1, d, d).

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

    See Also
    --------
    FullGaussian : Formulas.
    """

    _is_pooled = True

    def _pooled(self, weights):
        return weights.sum(keepdims=True)

    def from_matrices(self, matrices: Floats) -> Floats:
        return matrices.sum(axis=0, keepdims=True)

    def _n_covariances(self, mean):
        return 1
