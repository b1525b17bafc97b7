"""Gaussians of any mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sklearn_onlineem._checks import MOST, above, at_least, check_setting, definite, finite
from sklearn_onlineem._kernels import (
    _centred_moments,
    _collapsed_gaussian,
    _gaps,
    _gaussian,
    _natural,
    _small_matrices,
)
from sklearn_onlineem._typing import Bools, Floats, Generator, Integers, Maps
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted, task
from sklearn_onlineem.families._family import NOTHING, ExponentialFamily
from sklearn_onlineem.families._gaussian_posteriors import posterior, student_log_density
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    Distribution,
    Marginals,
    PosteriorPredictives,
)
from sklearn_onlineem.families.covariance_shapes import (
    LARGEST_GUARD,
    LOG_2_PI,
    NEGLIGIBLE,
    Covariance,
    Full,
    Gaussians,
    Tied,
    check_covariance,
    kept_where_empty,
    location,
)
from sklearn_onlineem.families.gaussian_tangents import gaussian_tangents
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.statistics import Moments

_RELATIVE_FLOOR = 1e-6
_FLOOR_ROWS = 1 << 16
# Columns below which a reduction over rows takes NumPy longer than one of each column.
_SHORT = 32
# Pseudo-squares for missing values, see `Gaussian.with_gaps`, and the mode of their prior, both in
# variances of the data; chosen by benchmarks/real_data/missing_values.py.
_SQUARES_FOR_GAPS, _MODE = 4.0, 4.0


def _of_precisions(name, precisions):
    definite(name, precisions)
    return 1.0 / precisions if precisions.ndim == 2 else np.linalg.inv(precisions)


def _of_factors(name, factors):
    is_diagonal = factors.ndim == 2
    diagonals = factors if is_diagonal else np.einsum("kii->ki", factors)
    if not ((diagonals > 0.0).all() and (is_diagonal or np.array_equal(factors, np.triu(factors)))):
        raise ValueError(f"{name} must be upper triangular, with diagonals above 0.")
    with np.errstate(over="ignore", divide="ignore"):
        if is_diagonal:
            covariances = 1.0 / factors**2
        else:
            inverses = np.linalg.inv(factors)
            covariances = inverses.transpose(0, 2, 1) @ inverses
    if not np.isfinite(covariances).all():
        raise ValueError(f"{name} has values whose squares have no finite inverse.")
    return definite(name, covariances)


def _put_covars(family, parameters, covars):
    shape = family.covariance
    if covars.ndim == 3 and not isinstance(shape, Full):
        stored = shape.from_matrices(covars)
        # Tied ones were added up, and spherical variances, too.
        stored = stored / (len(covars) if shape.is_shared else covars.shape[1] // stored.shape[1])
        given = Gaussians(parameters.mean, stored)
        if not np.allclose(given.covariance_matrices, covars, rtol=1e-6, atol=0.0):
            raise ValueError(f"covars_ must be of the covariance_type {shape!r}.")
    else:
        stored = covars[shape.stored]
    return Gaussians(parameters.mean, definite("covars_", stored))


@cache
def _parts(shape):
    def part(name, kind, source, to_covariances):
        def get(family, parameters):
            return getattr(parameters, source)[shape.shown]

        def put(family, parameters, values):
            return Gaussians(parameters.mean, to_covariances(f"{name}_", values[shape.stored]))

        return Part(name, kind, shape.axes, get, put)

    def axes(covariances):
        # They may be matrices, whatever their shape is.
        return shape.axes if covariances.ndim == len(shape.axes) else "kdd"

    return (
        means_part("real"),
        part("covariances", shape.kind, "covariance", definite),
        part("precisions", None, "precision", _of_precisions),
        part("precisions_cholesky", None, "precision_factor", _of_factors),
        Part("covars", "covariance", axes, lambda _, own: own.covariance_matrices, _put_covars),
    )


@dataclass(frozen=True, eq=False)
class Gaussian(
    ExponentialFamily[Gaussians, Moments],
    PosteriorPredictives[Gaussians, Moments],
    Marginals[Gaussians, Moments],
    ColumnDistributions[Gaussians],
):
    r"""Gaussians.

    .. math:: p(x \mid m, S) = |2 \pi S|^{-1/2} e^{-(x - m)' S^{-1} (x - m) / 2}

    :math:`\phi(x) = (x, x x')`, :math:`\theta = (S^{-1} m, -S^{-1}/2)`, :math:`G = (m' S^{-1} m +
    \log |2 \pi S|) / 2`. For diagonal or spherical covariances, :math:`x^2` or :math:`x'x` replaces
    :math:`x x'`. Parameters are `Gaussians`; statistics are centred (`Moments`). The posterior
    predictive has Student's t distributions :math:`t_{\nu - d + 1}(m, \Psi (k + 1) / (k (\nu - d +
    1)))` for a normal-inverse-Wishart distribution :math:`(m, k, \Psi, \nu)`, one for each variance
    along the axes, and normal ones with :math:`S (1 + 1/k)` if S is fixed. It does not include
    `reg_covar`.

    Parameters
    ----------
    covariance : Covariance, default=Full()
        `Full()`, `Tied()`, `Diagonal()` or `Spherical()`.
    reg_covar : float, default=None
        Added to the variances by the M-step, from 0 to 1e100. None: 1e-6 times the variance of each
        feature in the first data, and never below the resolution of the numbers themselves.
    floor : ndarray of shape (n_features,), default=None
        Computed from `reg_covar` by `bind`, for each feature.
    spread : tuple (ndarray of shape (n_features,), ndarray of shape ()), default=None
        Pseudo-sums of squares of the default prior, and of how many pseudo-rows they are, computed
        by `with_gaps`. None: no prior.
    limits : tuple of two ndarrays of shape (n_features,), default=None
        Least and greatest value of each feature, computed by `bind`: steps that are longer
        than those of EM lead means one range beyond at most, and standard deviations to one range.
    learns_means : bool or ndarray of bool, default=True
        Whether the M-step changes the means, if it is given previous ones: all of them, or masks of
        shape (K, 1), or (K, n_features) with diagonal and spherical covariances.
    learns_covariances : bool or ndarray of bool of shape (K,), default=True
        Whether it changes the covariances.
    known : Gaussians, default=None
        Means or covariances that are not learnt, see `with_fixed`. None: all are learnt.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 4 (Gaussian mixtures); Murphy, "Conjugate Bayesian analysis of
    the Gaussian distribution", 2007, section 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian, Gaussians, Tied
    >>> family = Gaussian(Tied())
    >>> parameters = Gaussians(mean=np.zeros((1, 2)), covariance=np.eye(2)[None])
    >>> family.log_density(parameters, np.zeros((1, 2)))
    array([[-1.83787707]])
    """

    tangents = gaussian_tangents

    covariance: Covariance = Full()
    reg_covar: float | None = None
    floor: Floats | None = None
    spread: tuple[Floats, Floats] | None = None
    limits: tuple[Floats, Floats] | None = None
    learns_means: bool | Bools = True
    learns_covariances: bool | Bools = True
    known: Gaussians | None = None

    determined_by_means = False

    @property
    def parts(self) -> tuple[Part, ...]:
        return _parts(self.covariance)

    def __post_init__(self):
        check_covariance("covariance", self.covariance)
        if self.reg_covar is not None:
            check_setting("reg_covar", self.reg_covar, 0.0, MOST)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        mask = self.learns_means
        if isinstance(mask, np.ndarray) and mask.shape[1] not in (1, X.shape[1]):
            raise ValueError(
                f"the mask of the means has {mask.shape[1]} columns, but X has {X.shape[1]}."
            )
        if self.floor is not None:
            return self
        limits = range_of(X)
        floor = variance_floor(X, sample_weight, self.reg_covar, limits)
        return replace(self, floor=floor, limits=limits)

    def with_gaps(self, X: Floats, sample_weight: Floats | None, n_components: int) -> Self:
        # Few pseudo-rows with a multiple of the variances v of the data: a penalty n (tr(V S^-1) +
        # log |S|) / 2 of each covariance S (Chen & Tan, "Inference for multivariate normal
        # mixtures", JMVA 2009), which vanishes as rows become many. The unit of their squares is
        # the variance of K clusters of equal volume that fill the data. Variances along the axes
        # need none: benchmarks/real_data/missing_values.py.
        if self.learns_covariances is False or not isinstance(self.covariance, Full | Tied):
            return self
        step = -(-len(X) // _FLOOR_ROWS)
        X = X[::step].astype(np.float64, copy=False)
        weight = np.ones(len(X)) if sample_weight is None else sample_weight[::step]
        observed, d = ~np.isnan(X), X.shape[1]
        weight, counts = weight * observed.any(axis=1), weight @ observed
        if not counts.all():
            return self
        deviation = np.where(observed, X - np.nanmedian(X, axis=0), 0.0)
        first, second = weight @ deviation / counts, weight @ deviation**2 / counts
        shape = self.covariance
        n_covariances = 1 if shape.is_shared else n_components
        n_parameters = n_components * d + n_covariances * shape.n_parameters(d)
        needed = min(1.0, n_parameters / (step * counts.sum()))
        missing = 1.0 - counts.mean() / weight.sum()
        n_squares = _SQUARES_FOR_GAPS * missing * needed * n_parameters / (n_components * d)
        n_squares *= n_components ** (-2.0 / d)
        spread = n_squares * (second - first**2), np.array(n_squares / _MODE)
        return replace(self, spread=spread)

    def learning_all(self) -> Self:
        return replace(self, learns_means=True, learns_covariances=True)

    def smoothing(self, n_features: int) -> Mapping[str, ArrayLike]:
        if self.spread is None:
            return {}
        squares, n_rows = self.spread
        return {"covariance": np.diag(squares), "covariance_weight": n_rows}

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        return self.covariance.start_coordinates(X, sample_weight)

    def _added(self, n_features):
        """Return the floor of variances, those of `reg_covar` before `bind`."""
        return np.full(n_features, self.reg_covar or 0.0) if self.floor is None else self.floor

    def n_parameters(self, parameters: Gaussians) -> int:
        own = self._own_counts(parameters, len(parameters.mean))
        return round(own.sum()) + self.n_shared_parameters(parameters)

    def _own_counts(self, parameters, n_components):
        n_of_means = np.broadcast_to(self.learns_means, parameters.mean.shape).sum(axis=1)
        if self.covariance.is_shared:
            return n_of_means
        of_each = self.covariance.n_parameters(parameters.mean.shape[1]) / self.covariance.n_sharing
        return n_of_means + of_each * np.broadcast_to(self.learns_covariances, n_components)

    def n_shared_parameters(self, parameters: Gaussians) -> int:
        # A shared covariance is one matrix.
        is_shared = self.covariance.is_shared and self.learns_covariances
        return is_shared * self.covariance.n_parameters(parameters.mean.shape[1])

    def means(self, parameters: Gaussians) -> Floats:
        return parameters.mean

    def with_means(self, parameters: Gaussians, means: Floats) -> Gaussians:
        return Gaussians(means, parameters.covariance)

    def distribution(self, parameters: Gaussians, column: int) -> Distribution:
        variances = parameters.covariance_matrices[:, column, column]
        return stats.norm(parameters.mean[:, column], np.sqrt(variances))

    def covariances(self, parameters: Gaussians) -> Floats:
        return parameters.covariance_matrices

    def diagonalised(self, parameters: Gaussians) -> Gaussians:
        if parameters.covariance.ndim == 2:
            return parameters
        diagonals = np.einsum("kii->ki", parameters.covariance)
        return Gaussians(parameters.mean, diagonals[:, :, None] * np.eye(diagonals.shape[1]))

    def to_natural(self, parameters: Gaussians) -> Floats:
        mean, precision = parameters.mean, parameters.precision
        precision = np.broadcast_to(precision, (len(mean), *precision.shape[1:]))
        product = "kij,kj->ki" if precision.ndim == 3 else "ki,ki->ki"
        quadratic = -0.5 * precision.reshape(len(mean), -1)
        return np.concatenate([np.einsum(product, precision, mean), quadratic], axis=1)

    def from_natural(self, natural: Floats) -> Gaussians:
        return self.covariance._from_natural(natural)

    def sufficient_statistics(self, X: Floats) -> Floats:
        return np.concatenate([X, self.covariance._second_moments(X)], axis=1)

    def mean_statistics(self, parameters: Gaussians) -> Floats:
        second = self.covariance._second_moments(parameters.mean, parameters.covariance)
        return np.concatenate([parameters.mean, second], axis=1)

    def log_partition(self, natural: Floats) -> Floats:
        gaussians = self.from_natural(natural)
        quadratic = np.einsum("kd,kd->k", gaussians.mean, natural[:, : gaussians.mean.shape[1]])
        return 0.5 * (quadratic + gaussians.log_det + gaussians.mean.shape[1] * LOG_2_PI)

    def expected_log_density(self, parameters: Gaussians, statistics: Moments) -> float:
        shape, precision, degrees = self.covariance, parameters.precision, statistics.degrees
        # Less the scatter of the model itself, which includes the floor.
        excess = statistics.scatter - self.own_statistics(parameters, degrees).scatter
        trace = shape._quadratic(precision, excess, np.zeros(precision.shape[:2]))
        shift = statistics.mean - parameters.mean
        squares = shape._quadratic(precision, np.zeros_like(precision), shift)
        spread = trace.sum() + degrees @ parameters.log_det + statistics.weight @ squares
        return -0.5 * float(spread)

    def kl_divergence(self, p: Gaussians, q: Gaussians) -> Floats:
        out = np.empty(len(p.mean))
        _small_matrices.kl_divergences(
            p.mean, p.covariance, p.log_det, q.mean, q.precision, q.log_det, out
        )
        return out

    def log_density(self, parameters: Gaussians, X: Floats, n_threads: int = 1) -> Floats:
        shape, log_det = self.covariance, parameters.log_det
        # A shared covariance whitens the rows once.
        about = None if shape.is_shared else shape._about(parameters, X, log_det)
        offset = parameters._offset(np.zeros(len(parameters.mean))) if about is None else None
        return self._less_squares(parameters, about, X, offset, n_threads)

    def _less_squares(self, parameters, about, X, offset, n_threads):
        """Return offsets (K,) less half the Mahalanobis squares, of shape (n_rows, K)."""
        # The offsets are those of `about`, or these if it is None.
        shape, out = self.covariance, np.empty((len(X), len(parameters.mean)), dtype=X.dtype)
        if about is None:
            factors = shape._factors(parameters)
            _gaussian.mixture_pass(
                X, parameters.mean, factors, offset, task(out=out), None, None, None, n_threads
            )
            return out
        centre, natural, offset = about
        _natural.mixture_pass(
            X, None, centre, shape.features, natural, offset, task(out=out), None, None, n_threads
        )
        return out

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Moments:
        return self.covariance._centred_statistics(X, responsibilities, n_threads)

    def posterior_statistics(
        self, parameters: Gaussians, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Moments:
        about = self.covariance._about(parameters, X)
        return self._statistics_about(about, X, posterior, n_threads)

    def _statistics_about(self, about, X, posterior, n_threads):
        shape = self.covariance
        if about is None:
            return shape._centred_statistics(X, posterior, n_threads)
        centre, natural, _ = about
        posterior = np.ascontiguousarray(posterior, dtype=X.dtype)
        counts, totals = np.empty(len(natural)), np.empty_like(natural)
        _natural.mixture_pass(
            X, None, centre, shape.features, None, None, task(responsibilities=posterior),
            counts, totals, n_threads,
        )  # fmt: skip
        return shape._moments_about(centre, counts, totals)

    def e_step(
        self, parameters: Gaussians, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, Moments, float]:
        shape, means, counts = self.covariance, parameters.mean, np.empty(len(parameters.mean))
        wanted = task(rows, *wanted)
        # If shared, the natural way would compute the scatters of all components.
        if not (rows.has_gaps or shape.is_shared or shape._prefers_factors(*means.shape)):
            mean, scatter = np.empty(means.shape), np.empty(parameters.covariance.shape)
            factors = parameters.precision_factor if scatter.ndim == 3 else NOTHING
            log_likelihood = _natural.gaussian_e_step(
                rows.X, means, parameters.precision, factors, parameters.log_det, log_weights,
                wanted, rows.total_weight, LARGEST_GUARD[rows.X.dtype], counts, mean, scatter,
                rows.n_threads,
            )  # fmt: skip
            # The kernel computes the guard of `_about`, and returns NaN where the digits of more
            # than half of the components would be lost.
            if not math.isnan(log_likelihood):
                return counts, Moments(counts, counts, mean, scatter), log_likelihood
        first, second = np.empty_like(means), shape._empty(*means.shape)
        if rows.has_gaps:
            entries = shape._per_entry(parameters)
            second = np.empty_like(entries[1])
            log_likelihood = _gaps.mixture_pass(
                rows.X, entries, log_weights, wanted, self._added(rows.n_features), counts, first,
                second, None, rows.n_threads,
            )  # fmt: skip
        else:
            log_likelihood = _gaussian.mixture_pass(
                rows.X, means, shape._factors(parameters), parameters._offset(log_weights), wanted,
                counts, first, second, rows.n_threads,
            )  # fmt: skip
        share = 1.0 / rows.total_weight
        moments = shape._recentred(first, second, means, share, counts)
        return moments.weight, moments, share * log_likelihood

    def own_statistics(self, parameters: Gaussians, weights: Floats) -> Moments:
        mean, covariance = parameters.mean, parameters.covariance
        degrees, scatter = self.covariance._pooled(weights), np.empty(covariance.shape)
        floor = self._added(mean.shape[1])
        _centred_moments.scatters_from_covariances(covariance, degrees, floor, scatter)
        return Moments(weights, degrees, mean, scatter)

    def m_step(self, statistics: Moments, previous: Gaussians | None = None) -> Gaussians:
        maximiser, floor = self.covariance._maximiser, self._added(statistics.mean.shape[1])
        if previous is None or (self.learns_means is True and self.learns_covariances is True):
            return maximiser(statistics, previous, floor)
        learnt, covariance = kept_where_empty(statistics, previous), previous.covariance
        mean = np.where(self.learns_means, learnt, previous.mean)
        if self.learns_covariances is not False:
            about = self._about_means(replace(statistics, mean=learnt), mean)
            changes = np.broadcast_to(self.learns_covariances, len(covariance))
            changes = changes.reshape(-1, *(1,) * (covariance.ndim - 1))
            new = maximiser(about, previous, floor).covariance
            covariance = np.where(changes, new, covariance)
        return Gaussians(mean, covariance)

    def _about_means(self, statistics, means):
        shift = statistics.mean - means
        outer = np.einsum("k,ki,kj->kij", statistics.weight, shift, shift)
        scatter = statistics.scatter + self.covariance.from_matrices(outer)
        return replace(statistics, mean=means, scatter=scatter)

    def sample(self, parameters: Gaussians, components: Integers, rng: Generator) -> Floats:
        deviations = rng.standard_normal((len(components), parameters.mean.shape[1]))
        noise = self.covariance._coloured(parameters.covariance, components, deviations)
        return parameters.mean[components] + noise

    def marginal_log_density(self, parameters: Gaussians, X: Floats, n_threads: int = 1) -> Floats:
        n_components = len(parameters.mean)
        out, entries = np.empty((len(X), n_components)), self.covariance._per_entry(parameters)
        _gaps.mixture_pass(X, entries, None, task(out=out), None, None, None, None, None, n_threads)
        return out

    def marginal_statistics(
        self, parameters: Gaussians, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Moments:
        means, covariances, *_ = entries = self.covariance._per_entry(parameters)
        posterior = np.ascontiguousarray(posterior, dtype=np.float64)
        sums = np.empty(len(means)), np.empty_like(means), np.empty_like(covariances)
        floor, given = self._added(X.shape[1]), task(responsibilities=posterior)
        _gaps.mixture_pass(X, entries, None, given, floor, *sums, None, n_threads)
        counts, first, second = sums
        return self.covariance._recentred(first, second, means, 1.0, counts)

    def completed(self, parameters: Gaussians, X: Floats, posterior: Floats) -> Floats:
        out, posterior = X.astype(np.float64), np.ascontiguousarray(posterior, dtype=np.float64)
        given, entries = task(responsibilities=posterior), self.covariance._per_entry(parameters)
        _gaps.mixture_pass(X, entries, None, given, None, None, None, None, out, 1)
        return out.astype(X.dtype, copy=False)

    def drawn(
        self, parameters: Gaussians, X: Floats, components: Integers, rng: Generator
    ) -> Floats:
        # In a row, x_m | x_o ~ N(m_m + G (x_o - m_o), S_mm - G S_om) with G = S_mo S_oo^-1.
        means, covariances = parameters.mean, parameters.covariance_matrices
        out, noise = X.copy(), rng.standard_normal(X.shape)
        masks, codes = np.unique(np.isnan(X), axis=0, return_inverse=True)
        for code, missing in enumerate(masks):
            o, m = np.flatnonzero(~missing), np.flatnonzero(missing)
            chosen = codes.reshape(-1) == code
            for k in np.unique(components[chosen]):
                rows = np.flatnonzero(chosen & (components == k))
                across = covariances[k][np.ix_(o, m)]
                gain = np.linalg.solve(covariances[k][np.ix_(o, o)], across)
                root = np.linalg.cholesky(covariances[k][np.ix_(m, m)] - across.T @ gain)
                expected = means[k, m] + (X[np.ix_(rows, o)] - means[k, o]) @ gain
                out[np.ix_(rows, m)] = expected + noise[np.ix_(rows, m)] @ root.T
        return out

    def pseudo_moments(
        self,
        n_components: int,
        n_features: int,
        *,
        mean: ArrayLike,
        mean_weight: float,
        scatter: ArrayLike,
        degrees: float,
    ) -> Moments:
        """Return pseudo-statistics of the means and of the covariances.

        Parameters
        ----------
        mean : array broadcasting to (n_components, n_features)
            Mean of the pseudo-rows.
        mean_weight : float
            Number of pseudo-rows of the means.
        scatter : float or array of shape (n_features, n_features)
            Pseudo-sum of squares; a number is a multiple of the unit matrix.
        degrees : float
            Divisor of the pseudo-sum.
        """
        mean = np.broadcast_to(np.asarray(mean, dtype=float), (n_components, n_features)).copy()
        scatter = np.asarray(scatter, dtype=float)
        if scatter.ndim == 0:
            scatter = scatter * np.eye(n_features)
        matrices = np.broadcast_to(scatter, (n_components, n_features, n_features)).copy()
        # Components that share a covariance share its prior.
        shape = self.covariance
        scatters = shape.from_matrices(matrices / n_components if shape.is_shared else matrices)
        weight = np.full(n_components, float(mean_weight))
        return Moments(weight, np.full(len(scatters), float(degrees)), mean, scatters)

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        mean: ArrayLike = 0.0,
        mean_precision: float = 0.0,
        **of_covariance: ArrayLike | None,
    ) -> Moments:
        """Return a prior whose joint mode over means and covariances is the M-step's maximiser.

        It is normal-inverse-Wishart for full and tied covariances, normal-inverse-gamma for
        diagonal and spherical ones. The mode is covariance / (degrees_of_freedom + n_features + 2)
        of a full covariance, and 2 scale / (2 shape + 3) of a diagonal variance. If
        `mean_precision` is 0, means have no prior, and these denominators are one less.

        Parameters
        ----------
        mean : array broadcasting to (n_components, n_features)
            Prior means.
        mean_precision : float
            Pseudo-observations of the mean, not below 0.
        **of_covariance
            Of full and tied covariances: `covariance`, the scale matrix of the inverse Wishart
            distribution, a float (a multiple of the unit matrix) or a positive semidefinite array
            of shape (n_features, n_features), and `degrees_of_freedom`, above n_features - 1, or
            `covariance_weight`, not below 0: the number of pseudo-rows whose squares `covariance`
            adds up. Of diagonal and spherical ones: `shape` of the inverse gamma distribution of a
            variance, above 0, and its `scale`, not below 0, an array broadcasting to (n_features,),
            or a float if spherical. Without these numbers the prior of a single covariance S, or of
            one that all share, is the penalty tr(covariance S^-1) / 2, or scale / S of a variance;
            several would have no mode. With neither, covariances have no prior.
        """
        mean = finite("mean", mean, (n_components, n_features)).copy()
        weight = np.full(n_components, at_least("mean_precision", mean_precision, 0.0))
        degrees, scatter = self.covariance._prior(weight, n_features, **of_covariance)
        return Moments(weight, degrees, mean, scatter)

    @property
    def prior_keys(self) -> list[str]:
        return ["mean", "mean_precision", *self.covariance.prior_keys]

    def with_fixed(self, parameters: Gaussians, components: Bools | None = None) -> Self:
        if components is None:
            return replace(self, known=parameters)
        # Components that share a covariance learn it, unless none does.
        shared = not components.all() if self.covariance.is_shared else ~components
        return replace(
            self,
            learns_means=self.learns_means & ~components[:, None],
            learns_covariances=self.learns_covariances & shared,
            known=parameters,
        )

    def learns_all(self, n_components: int) -> Bools:
        learns_means, learns_covariances = self._learnt(n_components)
        return learns_means & (learns_covariances | self.covariance.is_shared)

    def _learnt(self, n_components):
        """Return which means, (K,), and which covariances are learnt; ValueError if of columns."""
        means = np.atleast_2d(self.learns_means)
        if (means != means[:, :1]).any():
            raise ValueError(
                "params must fix means of whole components, by a mask of shape (n_components,),"
                " where a posterior is needed."
            )
        n_covariances = 1 if self.covariance.is_shared else n_components
        covariances = np.broadcast_to(self.learns_covariances, n_covariances)
        return np.broadcast_to(means[:, 0], n_components), covariances

    def mean_form(self, prior: Moments) -> Moments:
        masks = self.learns_means, self.learns_covariances
        if any(isinstance(mask, np.ndarray) for mask in masks):
            raise ValueError("posteriors need that all components learn the same parameters.")
        # Degrees of the mean covariance are two less than Student's t has.
        n_integrated = self.learns_means * (len(prior.mean) // len(prior.scatter))
        degrees = self.covariance._student_degrees(prior, n_integrated) - 2.0
        if not (degrees > 0.0).all():
            name = self.covariance.prior_settings[1]
            raise ValueError(
                f"The covariance has no posterior mean under this prior: increase {name}, or set"
                " estimate='mode'."
            )
        per_value = prior.mean.shape[1] // prior.scatter.shape[1]
        return replace(prior, degrees=degrees / per_value)

    def predictive_log_density(self, statistics: Moments, X: Floats, n_threads: int = 1) -> Floats:
        given = posterior(self, statistics)
        rows = without_gaps(X).astype(float, copy=False)
        squares, log_det, n_blocks = self.covariance._squares(given, rows)
        return student_log_density(given, squares, log_det, n_blocks).astype(X.dtype, copy=False)

    def draw_from_posterior(self, statistics: Moments, rng: Generator) -> Gaussians:
        given = posterior(self, statistics)
        covariance, is_known = given.scatter, np.isinf(given.degrees)
        if not is_known.all():
            of_learnt = np.where(is_known, given.mean.shape[1] + 1.0, given.degrees)
            drawn = self.covariance._drawn(replace(given, degrees=of_learnt), rng)
            shape = -1, *(1,) * (covariance.ndim - 1)
            covariance = np.where(is_known[: len(drawn)].reshape(shape), covariance, drawn)
        about_zero = Gaussians(np.zeros_like(given.mean), covariance)
        noise = self.sample(about_zero, np.arange(len(given.mean)), rng)
        return Gaussians(given.mean + noise / np.sqrt(given.weight)[:, None], covariance)

    def collapsed_sweep(
        self,
        prior: Moments,
        X: Floats,
        labels: Integers,
        concentration: Floats,
        uniforms: Floats,
        learns_shares: bool = True,
        fixed: tuple[Bools, Gaussians] | None = None,
    ) -> float:
        family = self if fixed is None else self.with_fixed(fixed[1], fixed[0])
        given, X = posterior(family, prior), without_gaps(X)
        limit = above if learns_shares else at_least
        concentration = limit("concentration", concentration, 0.0, prior.weight.shape).copy()
        origin, drawn = location(X), labels.copy()
        value = _collapsed_gaussian.sweep(
            X, origin, given.weight, given.degrees, given.mean - origin, given.scatter,
            concentration, uniforms, drawn, learns_shares,
        )  # fmt: skip
        labels[:] = drawn
        return value


def without_gaps(X):
    """Return rows as kernels take them; ValueError if values are missing or infinite."""
    X = np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)
    if not np.isfinite(X).all():
        raise ValueError("X must not have missing values (NaN) for a posterior predictive.")
    return X


def range_of(X):
    """Return the least and the greatest value of each column of X."""
    if X.shape[1] < _SHORT < len(X) // _SHORT:
        least, greatest = map(np.minimum.reduce, X.T), map(np.maximum.reduce, X.T)
        return np.fromiter(least, np.float64), np.fromiter(greatest, np.float64)
    return X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)


def variances(X, sample_weight):
    """Return deviations of some rows from the first, a line for each column, and variances."""
    step = -(-len(X) // _FLOOR_ROWS)
    X, weight = X[::step], None if sample_weight is None else sample_weight[::step]
    # About a row of the data, from which a constant feature differs by exactly 0.
    # NumPy is slow along columns where rows are short.
    deviation = np.ascontiguousarray((X - X[0].astype(np.float64)).T)
    variance = np.average(deviation**2, axis=1, weights=weight)
    return deviation, variance - np.average(deviation, axis=1, weights=weight) ** 2


def variance_floor(X, sample_weight, reg_covar, limits=None):
    """Return floors of variances, with the known `range_of` X; ValueError if one underflows."""
    if reg_covar is not None:
        return np.full(X.shape[1], float(reg_covar))
    deviation, variance = variances(X, sample_weight)
    largest = np.abs(limits or range_of(X)).max(axis=0)
    resolution = (4.0 * np.finfo(X.dtype).eps * largest) ** 2
    varies = np.abs(deviation).max(axis=1) > 4.0 * np.finfo(X.dtype).eps * largest
    if (varies & (variance < NEGLIGIBLE)).any():
        column = np.flatnonzero(varies & (variance < NEGLIGIBLE))[0]
        raise ValueError(f"The variance of feature {column} underflows; rescale the feature.")
    typical = variance[varies].mean() if varies.any() else 1.0
    return np.maximum(_RELATIVE_FLOOR * np.where(varies, variance, typical), resolution)
