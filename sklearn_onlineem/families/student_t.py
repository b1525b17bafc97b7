"""Multivariate Student's t distributions: Gaussians whose covariance varies from row to row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.special import gammaln, polygamma, psi, xlogy

from sklearn_onlineem._checks import MOST, above, check_setting, definite
from sklearn_onlineem._kernels import _student_t
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers, Maps
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted, task
from sklearn_onlineem.families._collapsed import log_rising
from sklearn_onlineem.families._e_step import e_step_in_blocks
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
    HiddenVariables,
    Marginals,
    Means,
)
from sklearn_onlineem.families.covariance_shapes import (
    Covariance,
    Full,
    Gaussians,
    check_covariance,
)
from sklearn_onlineem.families.gamma import gamma_shapes
from sklearn_onlineem.families.gaussian import Gaussian, range_of, variance_floor
from sklearn_onlineem.families.gaussian_tangents import gaussian_tangents
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import Tangents
from sklearn_onlineem.statistics import Moments, Statistics, Sums, combine

_LEARNT = ("each", "shared")
# Degrees of freedom of components that are learnt from clusters of rows alone.
_START_DEGREES = 10.0
# So that far rows have a finite density, and weight 0.
_LARGEST_RATIO = 1e290
# For first floors and clusters: columns are clipped so many ranges between their quartiles beyond
# these, and rows are left out whose squares are so many times the median's.
_FENCES, _LARGEST_SQUARE = 3.0, 50.0
_QUANTILE_ROWS = 1 << 14
_BLOCK = 4096


class StudentTs(NamedTuple):
    """The parameters of K components.

    Parameters
    ----------
    gaussians : Gaussians
        Centres, which are the means if degrees of freedom are above 1, and scale matrices in the
        place of the covariances. Above 2, the covariance is the scale matrix times
        ``degrees_of_freedom / (degrees_of_freedom - 2)``.
    degrees_of_freedom : ndarray of shape (K,) or (1,)
        Above 0; (1,) if all components share them, or if they are given.
    """

    gaussians: Gaussians
    degrees_of_freedom: Floats


@dataclass(frozen=True)
class StudentTStatistics(Statistics):
    """Expected statistics of rows x and of their precisions u.

    Parameters
    ----------
    moments : Moments
        Weighted by u; the degrees of the scatters are sums of responsibilities alone.
    precisions : Sums
        Responsibilities, and their sums times u - log u - 1, of shape (K, 1).
    """

    moments: Moments
    precisions: Sums


# Relative distance.
_AT_BOUND = 1e-6


class StudentTTangents(Tangents):
    r"""Tangents of Gaussians given the precisions u, and of half the degrees of freedom, b.

    .. math:: s_b = (\log b - \psi(b)) - (u - \log u - 1), \quad
        \operatorname{Var} s_b = \psi'(b) - 1 / b

    It is uncorrelated with the scores of means and scale matrices.
    """

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._gaussian = gaussian_tangents(family._gaussian, parameters.gaussians)

    @property
    def n_own(self):
        return self._gaussian.n_own + 1

    @property
    def parts(self):
        d, n = self._gaussian.d, self._gaussian.n_own
        return {"means": slice(0, d), "scales": slice(d, n), "degrees of freedom": slice(n, n + 1)}

    @property
    def shared(self):
        d, n = self._gaussian.d, self._gaussian.n_own
        scales_are_shared = self.family.covariance.is_shared
        degrees_are_shared = self.family.degrees_of_freedom == "shared"
        return slice(d if scales_are_shared else n, self.n_own if degrees_are_shared else n)

    @cached_property
    def _halves(self):
        """Half the degrees of freedom, and the root of the variance of their score, (K, 1)."""
        n = len(self.parameters.gaussians.mean)
        b = 0.5 * np.broadcast_to(self.parameters.degrees_of_freedom, n)[:, None]
        return b, np.sqrt(polygamma(1, b) - 1.0 / b)

    @property
    def is_free(self):
        least, most = self._inner_range
        degrees, free = 2.0 * self._halves[0], self._gaussian.is_free
        covariance = self.parameters.gaussians.covariance
        exceeds = self._bounded(covariance, 1.0 + _AT_BOUND) == covariance
        if exceeds.ndim == 3:
            exceeds = exceeds.all(axis=(1, 2))[:, None]
        free[:, self._gaussian.d :] &= exceeds
        are_free = self.family.learns_degrees & (least <= degrees) & (degrees <= most)
        return np.column_stack([free, are_free])

    def _bounded(self, covariance, factor=1.0):
        """Return the nearest covariances that are at least the floor, times a factor."""
        d, shape = self._gaussian.d, self.family.covariance
        shares = np.full(len(covariance), covariance.shape[1] / d)
        return shape._at_least(covariance, shares, factor * self.family._least_variances(d))

    @property
    def _inner_range(self):
        """Degrees of freedom that are not at a bound of their range."""
        least, most = self.family.range_of_degrees
        return least * (1.0 + _AT_BOUND), most * (1.0 - _AT_BOUND)

    def effective_counts(self, statistics):
        counts = self._gaussian.effective_counts(statistics.moments)
        return np.column_stack([counts, statistics.precisions.weight])

    def score(self, statistics):
        (b, root), (counts, totals) = self._halves, vars(statistics.precisions).values()
        of_degrees = counts[:, None] * (np.log(b) - psi(b)) - totals
        return np.column_stack([self._gaussian.score(statistics.moments), of_degrees / root])

    def unsolved(self, statistics):
        score = self.score(statistics)
        score[:, :-1] = 0.0
        return score

    def is_proper(self, prior):
        return self._gaussian.is_proper(prior.moments)

    def floor_penalty(self, statistics):
        return self._gaussian.floor_penalty(statistics.moments)

    def _relative(self, v):
        """Return the relative changes of the degrees of freedom along v, (K, 1)."""
        b, root = self._halves
        return v[:, -1:] / (root * b)

    def size(self, v):
        return max(self._gaussian.size(v[:, :-1]), np.abs(self._relative(v)).max())

    def moved(self, v):
        degrees = self.parameters.degrees_of_freedom
        moved = degrees * np.exp(self._relative(v)[: len(degrees), 0])
        # Degrees at a bound are fixed, so none move there.
        degrees = np.where(moved == degrees, degrees, np.clip(moved, *self._inner_range))
        gaussians = self._gaussian.moved(v[:, :-1])
        gaussians = Gaussians(gaussians.mean, self._bounded(gaussians.covariance))
        return type(self.parameters)(gaussians, degrees)


def _scales(family, parameters):
    return parameters.gaussians.covariance[family.covariance.shown]


def _put_scales(family, parameters, values):
    scales = definite("scales_", values[family.covariance.stored])
    return parameters._replace(gaussians=Gaussians(parameters.gaussians.mean, scales))


def _degrees(family, parameters):
    return np.broadcast_to(parameters.degrees_of_freedom, len(parameters.gaussians.mean))


def _put_degrees(family, parameters, values):
    least, most = family.range_of_degrees
    above("degrees_of_freedom_", values, 0.0, values.shape)
    if not (least <= values.min() and values.max() <= most):
        raise ValueError(f"degrees_of_freedom_ must be from {least:g} to {most:g}.")
    shape = parameters.degrees_of_freedom.shape
    if shape != values.shape and not (values == values[0]).all():
        raise ValueError("degrees_of_freedom_ must be equal, as components share them.")
    if not family.learns_degrees and not np.allclose(values, family.degrees_of_freedom, rtol=1e-6):
        raise ValueError(
            "degrees_of_freedom_ is fixed by the parameter"
            f" degrees_of_freedom={family.degrees_of_freedom}."
        )
    return parameters._replace(degrees_of_freedom=values[: shape[0]].copy())


@dataclass(frozen=True, eq=False)
class StudentT(
    HiddenVariables[StudentTs, StudentTStatistics],
    Family[StudentTs, StudentTStatistics],
    Means[StudentTs],
    ConjugatePriors[StudentTs, StudentTStatistics],
    Marginals[StudentTs, StudentTStatistics],
    ColumnDistributions[StudentTs],
):
    r"""Multivariate Student's t distributions: Gaussians with heavy tails.

    .. math::
        & u \sim \mathrm{Gamma}(\nu / 2, \nu / 2), \quad x \mid u \sim N(m, S / u), \\
        & p(x \mid m, S, \nu) = \frac{\Gamma((\nu + d) / 2)}{\Gamma(\nu / 2) \,
        |\nu \pi S|^{1/2}} \left(1 + D / \nu\right)^{-(\nu + d) / 2}, \quad
        D = (x - m)' S^{-1} (x - m)

    The precision u of each row is hidden, with :math:`E[u \mid x] = (\nu + d) / (\nu + D)`: rows
    far away have little weight. The M-step takes means by the weights r E[u], :math:`S = \sum r
    E[u] (x - m)(x - m)' / \sum r`, and solves :math:`\log(\nu / 2) - \psi(\nu / 2) = \sum r
    E[u - \log u - 1] / \sum r`. Divergences are those of x and u together. All features of a row
    have one u, so that diagonal scale matrices leave them uncorrelated, but not independent.
    Parameters are `StudentTs`; statistics are centred (`StudentTStatistics`). Without parameters,
    as of first clusters, statistics have u independent of the rows, with 10 degrees of freedom, and
    leave out rows far from the median.

    Parameters
    ----------
    covariance : Covariance, default=Full()
        Shape of the scale matrices S: `Full()`, `Tied()`, `Diagonal()` or `Spherical()`.
    degrees_of_freedom : {"each", "shared"} or float, default="each"
        Whether each component learns its own :math:`\nu`, all learn one, or all have this one.
        Learnt and given ones are from 1, Cauchy's distribution, to 1000, near Gaussians.
    reg_covar : float, default=None
        Least variance, from 0 to 1e100: the M-step maximises over matrices S that are at least the
        diagonal one of this number, so that the likelihood never falls. None: 1e-6 times the
        variance of each feature in the first data, without its outliers if that is less, and never
        below the resolution of the numbers themselves.
    floor : ndarray of shape (n_features,), default=None
        Computed from `reg_covar` by `bind`, for each feature.
    spread : tuple (ndarray of shape (n_features,), ndarray of shape ()), default=None
        Pseudo-sums of squares of the default prior, as of `Gaussian`.
    limits : tuple of two ndarrays of shape (n_features,), default=None
        Like those of `Gaussian`.

    References
    ----------
    Lange, Little & Taylor, "Robust statistical modeling using the t distribution", JASA 1989; Liu &
    Rubin, "ML estimation of the t distribution using EM and its extensions, ECM and ECME",
    Statistica Sinica 1995; Peel & McLachlan, "Robust mixture modelling using the t distribution",
    Statistics and Computing 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussians, StudentT
    >>> from sklearn_onlineem.families.student_t import StudentTs
    >>> cauchy = StudentTs(Gaussians(np.zeros((1, 1)), np.ones((1, 1, 1))), np.ones(1))
    >>> np.exp(-StudentT().log_density(cauchy, np.array([[0.0], [1.0]]))) / np.pi
    array([[1.],
           [2.]])
    """

    tangents = StudentTTangents

    covariance: Covariance = Full()
    degrees_of_freedom: str | float = "each"
    reg_covar: float | None = None
    floor: Floats | None = None
    spread: tuple[Floats, Floats] | None = None
    limits: tuple[Floats, Floats] | None = None

    # Below, components soon have a single row; above, they are Gaussians.
    range_of_degrees = 1.0, 1e3

    def __post_init__(self):
        check_covariance("covariance", self.covariance)
        if self.reg_covar is not None:
            check_setting("reg_covar", self.reg_covar, 0.0, MOST)
        if not self.learns_degrees:
            check_setting("degrees_of_freedom", self.degrees_of_freedom, *self.range_of_degrees)

    @property
    def parts(self) -> tuple[Part, ...]:
        shape, degrees = self.covariance, "positive" if self.learns_degrees else None
        return (
            means_part("real"),
            Part("scales", shape.kind, shape.axes, _scales, _put_scales),
            Part("degrees_of_freedom", degrees, "k", _degrees, _put_degrees),
        )

    @property
    def learns_degrees(self) -> bool:
        """Whether degrees of freedom are learnt."""
        return isinstance(self.degrees_of_freedom, str) and self.degrees_of_freedom in _LEARNT

    @property
    def _gaussian(self):
        # Its floor would be added. Scatters shrink with S where a component is left with one row,
        # so that what is added decides there, against the likelihood.
        return Gaussian(self.covariance, 0.0, spread=self.spread, limits=self.limits)

    _least_variances = Gaussian._added

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        if self.floor is not None:
            return self
        limits = range_of(X)
        floor = variance_floor(X, sample_weight, self.reg_covar, limits)
        if self.reg_covar is None:
            # Few outliers may have most of a variance.
            clipped = np.clip(X, *_fences(X, sample_weight))
            floor = np.minimum(floor, variance_floor(clipped, sample_weight, None))
        return replace(self, floor=floor, limits=limits)

    def with_gaps(self, X: Floats, sample_weight: Floats | None, n_components: int) -> Self:
        if np.isnan(X).all(axis=0).any():
            return self
        # Outliers may have most of a variance, as in the floor.
        clipped = X.copy()
        for column, seen in zip(clipped.T, ~np.isnan(X.T), strict=True):
            weight = None if sample_weight is None else sample_weight[seen]
            low, high = _fences(column[seen, None], weight)
            column.clip(low, high, out=column)
        gaussian = self._gaussian.with_gaps(clipped, sample_weight, n_components)
        return replace(self, spread=gaussian.spread)

    def smoothing(self, n_features: int) -> Mapping[str, ArrayLike]:
        return self._gaussian.smoothing(n_features)

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        maps_of, fences = self.covariance.start_coordinates, _fences(X, sample_weight)
        clipped = np.clip(X, *fences)
        if np.array_equal(clipped, X):
            return maps_of(X, sample_weight)
        # To k-means, outliers are clusters: without them it may start better.
        maps = [
            lambda rows, to=to: to(np.clip(rows, *fences)) for to in maps_of(clipped, sample_weight)
        ]
        return (maps_of(X, sample_weight)[0], *maps)

    def log_density(self, parameters: StudentTs, X: Floats, n_threads: int = 1) -> Floats:
        _, ratios = self._ratios(parameters, X, n_threads)
        return _log_density(parameters, ratios, X.shape[1]).astype(X.dtype, copy=False)

    def _ratios(self, parameters, X, n_threads):
        """Return where features of rows are taken, and 1 + D / nu, of shape (n_rows, K)."""
        gaussians = parameters.gaussians
        about, zeros = self.covariance._about(gaussians, X), np.zeros(len(gaussians.mean))
        squares = self._gaussian._less_squares(gaussians, about, X, zeros, n_threads)
        return about, _ratios_of(squares.astype(np.float64, copy=False), parameters)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> StudentTStatistics:
        # No parameters are given, so take u as independent of the rows, but leave out outliers.
        inside = np.transpose([_are_inside(X, weights) for weights in responsibilities.T])
        weights = np.where(inside, responsibilities, 0.0)
        moments = self._gaussian.expected_statistics(X, weights, n_threads)
        counts, gap = weights.sum(axis=0), _mean_gap(self._start_degrees(1))
        return StudentTStatistics(moments, Sums(counts, (counts * gap)[:, None]))

    def posterior_statistics(
        self,
        parameters: StudentTs,
        X: Floats,
        posterior: Floats,
        n_threads: int = 1,
        rng: Generator | None = None,
    ) -> StudentTStatistics:
        about, ratios = self._ratios(parameters, X, n_threads)
        if rng is None:
            u, gaps = _expected(parameters, ratios, X.shape[1])
        else:
            degrees = parameters.degrees_of_freedom
            u = rng.standard_gamma(np.broadcast_to(0.5 * (degrees + X.shape[1]), ratios.shape))
            u *= 2.0 / (degrees * ratios)
            gaps = u - 1.0 - np.log(u)
        moments = self._gaussian._statistics_about(about, X, posterior * u, n_threads)
        return self._joined(moments, *_sums(posterior, gaps))

    def _joined(self, moments, counts, totals):
        degrees = self.covariance._pooled(counts)
        moments = Moments(moments.weight, degrees, moments.mean, moments.scatter)
        return StudentTStatistics(moments, Sums(counts, totals[:, None]))

    def e_step(
        self, parameters: StudentTs, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, StudentTStatistics, float]:
        if rows.has_gaps:
            return self._e_step_with_gaps(parameters, log_weights, rows, wanted)
        # Like `e_step_in_blocks`, but distances are computed once.
        gaussians, n_features = parameters.gaussians, rows.X.shape[1]
        degrees = np.broadcast_to(parameters.degrees_of_freedom, len(log_weights)).copy()
        constants = log_weights + gaussians._offset(0.0) + _log_constant(degrees, n_features)
        gaps, zeros = _mean_gap(degrees + n_features), np.zeros(len(degrees))
        about, terms, log_likelihood = self.covariance._about(gaussians, rows.X), [], 0.0
        all_counts, share = np.zeros(len(degrees)), 1.0 / rows.total_weight
        for start in range(0, len(rows), _BLOCK):
            index = slice(start, start + _BLOCK)
            block, counts, totals = rows[index], np.empty_like(zeros), np.empty_like(zeros)
            weights = self._gaussian._less_squares(gaussians, about, block.X, zeros, rows.n_threads)
            weights = weights.astype(np.float64, copy=False)
            of_block = task(block, *wanted._of(index))
            log_likelihood += _student_t.weigh(
                weights, degrees, n_features, constants, gaps, of_block, counts, totals
            )
            moments = self._gaussian._statistics_about(about, block.X, weights, rows.n_threads)
            terms.append((share, self._joined(moments, counts, totals)))
            all_counts += counts
        return share * all_counts, combine(terms), share * log_likelihood

    def _e_step_with_gaps(self, parameters, log_weights, rows, wanted):
        # Distances of a block are computed once, for its log densities.
        latest = ()

        def log_density(parameters, X, n_threads):
            nonlocal latest
            ratios, n_observed, highest = self._marginal_ratios(parameters, X, n_threads)
            latest = ratios, n_observed
            return _log_density(parameters, ratios, n_observed, highest)

        def statistics_of(X, posterior, n_threads):
            return self._marginal_statistics(parameters, X, posterior, *latest, n_threads)

        return e_step_in_blocks(
            self, parameters, log_weights, rows, wanted, statistics_of, log_density, _BLOCK
        )

    def own_statistics(self, parameters: StudentTs, weights: Floats) -> StudentTStatistics:
        # E[u] = 1.
        moments = self._gaussian.own_statistics(parameters.gaussians, weights)
        gaps = weights * _mean_gap(parameters.degrees_of_freedom)
        return StudentTStatistics(moments, Sums(weights, gaps[:, None]))

    def m_step(
        self, statistics: StudentTStatistics, previous: StudentTs | None = None
    ) -> StudentTs:
        kept, moments = None if previous is None else previous.gaussians, statistics.moments
        least = self._least_variances(moments.mean.shape[1])
        scatter = self.covariance._at_least(moments.scatter, moments.degrees, least)
        gaussians = self._gaussian.m_step(replace(moments, scatter=scatter), kept)
        counts, gaps = statistics.precisions.weight, statistics.precisions.total[:, 0]
        if self.degrees_of_freedom == "shared":
            counts, gaps = counts.sum(keepdims=True), gaps.sum(keepdims=True)
        degrees, seen = self._start_degrees(len(counts)), counts > 0.0
        if previous is not None:
            degrees = previous.degrees_of_freedom.copy()
        if self.learns_degrees and seen.any():
            most, least = _mean_gap(np.array(self.range_of_degrees))
            degrees[seen] = 2.0 * gamma_shapes(np.clip(gaps[seen] / counts[seen], least, most))
        return StudentTs(gaussians, degrees)

    def _start_degrees(self, n):
        if self.learns_degrees:
            return np.full(n, _START_DEGREES)
        return np.full(1, float(self.degrees_of_freedom))

    def expected_log_density(self, parameters: StudentTs, statistics: StudentTStatistics) -> float:
        shape, precisions = 0.5 * parameters.degrees_of_freedom, statistics.precisions
        of_precisions = precisions.weight * (_log_scaled(shape) - shape)
        of_precisions -= precisions.total[:, 0] * shape
        gaussians = parameters.gaussians
        of_rows = self._gaussian.expected_log_density(gaussians, statistics.moments)
        return of_rows + float(of_precisions.sum())

    def kl_divergence(self, p: StudentTs, q: StudentTs) -> Floats:
        a, b = 0.5 * p.degrees_of_freedom, 0.5 * q.degrees_of_freedom
        gap = _mean_gap(p.degrees_of_freedom)
        of_precisions = _log_scaled(a) - _log_scaled(b) - (a - b) * (1.0 + gap)
        return self._gaussian.kl_divergence(p.gaussians, q.gaussians) + of_precisions

    def sample(self, parameters: StudentTs, components: Integers, rng: Generator) -> Floats:
        mean = parameters.gaussians.mean
        shapes = np.broadcast_to(0.5 * parameters.degrees_of_freedom, len(mean))[components]
        u = rng.standard_gamma(shapes) / shapes
        about_zero = Gaussians(np.zeros_like(mean), parameters.gaussians.covariance)
        noise = self._gaussian.sample(about_zero, components, rng)
        return mean[components] + noise / np.sqrt(u)[:, None]

    def means(self, parameters: StudentTs) -> Floats:
        return parameters.gaussians.mean

    def with_means(self, parameters: StudentTs, means: Floats) -> StudentTs:
        gaussians = self._gaussian.with_means(parameters.gaussians, means)
        return StudentTs(gaussians, parameters.degrees_of_freedom)

    def distribution(self, parameters: StudentTs, column: int) -> Distribution:
        gaussians, degrees = parameters
        variances = gaussians.covariance_matrices[:, column, column]
        return stats.t(degrees, gaussians.mean[:, column], np.sqrt(variances))

    def covariances(self, parameters: StudentTs) -> Floats:
        # Infinite up to 2 degrees of freedom.
        scales, degrees = parameters.gaussians.covariance_matrices, parameters.degrees_of_freedom
        numerators = degrees[:, None, None] * scales
        excess = np.maximum(degrees - 2.0, 0.0)[:, None, None]
        with np.errstate(divide="ignore"):
            return np.divide(numerators, excess, out=np.zeros_like(scales), where=scales != 0.0)

    def diagonalised(self, parameters: StudentTs) -> StudentTs:
        gaussians = self._gaussian.diagonalised(parameters.gaussians)
        return StudentTs(gaussians, parameters.degrees_of_freedom)

    def n_parameters(self, parameters: StudentTs) -> int:
        n_degrees = self.learns_degrees * len(parameters.degrees_of_freedom)
        return self._gaussian.n_parameters(parameters.gaussians) + n_degrees

    def n_shared_parameters(self, parameters: StudentTs) -> int:
        n_degrees = int(self.degrees_of_freedom == "shared")
        return self._gaussian.n_shared_parameters(parameters.gaussians) + n_degrees

    def effective_counts(self, statistics: StudentTStatistics) -> Floats:
        return statistics.precisions.weight

    def marginal_log_density(self, parameters: StudentTs, X: Floats, n_threads: int = 1) -> Floats:
        ratios, n_observed, highest = self._marginal_ratios(parameters, X, n_threads)
        found = _log_density(parameters, ratios, n_observed, highest)
        return found.astype(X.dtype, copy=False)

    def _marginal_ratios(self, parameters, X, n_threads=1):
        """Return 1 + D / nu, numbers of observed values, and Gaussian densities at centres."""
        # In double precision, as it takes a difference.
        X = X.astype(np.float64, copy=False)
        starts, lengths = _runs(X)
        highest = self._gaussian.marginal_log_density(*_centred(parameters, X[starts]), n_threads)
        highest = np.repeat(highest, lengths, axis=0)
        found = self._gaussian.marginal_log_density(parameters.gaussians, X, n_threads)
        n_observed = np.repeat(np.count_nonzero(~np.isnan(X[starts]), axis=1), lengths)
        return _ratios_of(found - highest, parameters), n_observed, highest

    def marginal_statistics(
        self, parameters: StudentTs, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> StudentTStatistics:
        of_rows = self._marginal_ratios(parameters, X, n_threads)
        return self._marginal_statistics(parameters, X, posterior, *of_rows[:2], n_threads)

    def _marginal_statistics(self, parameters, X, posterior, ratios, n_observed, n_threads):
        # E[u x x'] of missing values is E[u] times that of their expectations, plus what Gaussians
        # have of their covariance given the observed ones: it is divided by u, so not weighted.
        u, gaps = _expected(parameters, ratios, n_observed)
        weighted, of_gaussian = posterior * u, self._gaussian.marginal_statistics
        moments = of_gaussian(parameters.gaussians, X, weighted, n_threads)
        starts, _ = _runs(X)
        of_runs, sums = _centred(parameters, X[starts]), np.add.reduceat
        given = [of_gaussian(*of_runs, sums(r, starts), n_threads) for r in (posterior, weighted)]
        scatter = moments.scatter + (given[0].scatter - given[1].scatter)
        return self._joined(replace(moments, scatter=scatter), *_sums(posterior, gaps))

    def completed(self, parameters: StudentTs, X: Floats, posterior: Floats) -> Floats:
        return self._gaussian.completed(parameters.gaussians, X, posterior)

    def drawn(
        self, parameters: StudentTs, X: Floats, components: Integers, rng: Generator
    ) -> Floats:
        ratios, n_observed, _ = self._marginal_ratios(parameters, X)
        rows, every = np.arange(len(X)), len(parameters.gaussians.mean)
        degrees = np.broadcast_to(parameters.degrees_of_freedom, every)[components]
        u = rng.standard_gamma(0.5 * (degrees + n_observed))
        u *= 2.0 / (degrees * ratios[rows, components])
        expected = self.completed(parameters, X, np.eye(every)[components])
        noise = self._gaussian.drawn(parameters.gaussians, X, components, rng) - expected
        drawn = expected + noise / np.sqrt(u)[:, None]
        return np.where(np.isnan(X), drawn, X).astype(X.dtype, copy=False)

    def prior_statistics(
        self, n_components: int, *, n_features: int, **of_gaussian: ArrayLike | None
    ) -> StudentTStatistics:
        """Return a prior of centres and scale matrices, that of `Gaussian` of the same covariance.

        It is conjugate given the precisions u. Degrees of freedom have no prior.

        Parameters
        ----------
        **of_gaussian
            As in :meth:`Gaussian.prior_statistics`, with scale matrices for covariances.
        """
        prior = self._gaussian.prior_statistics(n_components, n_features=n_features, **of_gaussian)
        nothing = Sums(np.zeros(n_components), np.zeros((n_components, 1)))
        return StudentTStatistics(prior, nothing)

    @property
    def prior_keys(self) -> list[str]:
        return self._gaussian.prior_keys


def _fences(X, sample_weight):
    """Return bounds of each column, beyond which there are outliers: [low, high]."""
    low, _, high = _quartiles(X, sample_weight)
    beyond = np.where(high > low, _FENCES * (high - low), np.inf)
    return (low - beyond).astype(X.dtype), (high + beyond).astype(X.dtype)


def _quartiles(X, weight):
    step = -(-len(X) // _QUANTILE_ROWS)
    X, weight = X[::step].astype(np.float64, copy=False), None if weight is None else weight[::step]
    return np.quantile(X, [0.25, 0.5, 0.75], axis=0, weights=weight, method="inverted_cdf")


def _are_inside(X, weights):
    """Return which rows of a cluster are no outliers."""
    if not weights[:: -(-len(X) // _QUANTILE_ROWS)].any():
        return np.ones(len(X), dtype=bool)
    low, median, high = _quartiles(X, weights)
    unit = np.where(high > low, high - low, np.inf)
    squares = (((X - median) / unit) ** 2).sum(axis=1)
    typical = _quartiles(squares, weights)[1]
    return (squares <= _LARGEST_SQUARE * typical) | (typical == 0.0)


def _log_scaled(a):
    """Return log(a^a / Gamma(a)), of the density of a Gamma(a, a) variable."""
    return xlogy(a, a) - gammaln(a)


def _mean_gap(degrees):
    """Return E[u - log u - 1] of u ~ Gamma(degrees / 2, degrees / 2)."""
    return np.log(0.5 * degrees) - psi(0.5 * degrees)


def _ratios_of(less_halves, parameters):
    """Return 1 + D / nu from -D / 2, which changes in place."""
    less_halves *= -2.0 / parameters.degrees_of_freedom
    np.clip(less_halves, 0.0, _LARGEST_RATIO, out=less_halves)
    less_halves += 1.0
    return less_halves


def _log_density(parameters, ratios, n_observed, highest=None):
    """Return log densities from 1 + D / nu, and Gaussian log densities at the centres."""
    degrees = parameters.degrees_of_freedom
    if highest is None:
        highest = parameters.gaussians._offset(0.0)
    out = _by_number(lambda d: -0.5 * (degrees + d), n_observed) * np.log(ratios)
    out += highest + _by_number(lambda d: _log_constant(degrees, d), n_observed)
    return out


def _log_constant(degrees, d):
    """Return the log density at the centre, less that of a Gaussian of the same scale."""
    return log_rising(0.5 * degrees, 0.5 * d) + 0.5 * d * np.log(2.0 / degrees)


def _sums(posterior, gaps):
    counts = np.einsum("nk->k", posterior, dtype=np.float64)
    return counts, np.einsum("nk,nk->k", posterior, gaps, dtype=np.float64)


def _expected(parameters, ratios, n_observed):
    """Return E[u | x] and E[u - 1 - log u | x] from 1 + D / nu, (n_rows, K)."""
    degrees = parameters.degrees_of_freedom
    u = _by_number(lambda d: 1.0 + d / degrees, n_observed) / ratios
    gaps = u + np.log(ratios)
    gaps += _by_number(lambda d: _mean_gap(degrees + d) - np.log1p(d / degrees) - 1.0, n_observed)
    return u, gaps


def _by_number(function, n_observed):
    """Return a function of the number of observed values of each row, (n_rows, K) or (K,)."""
    if np.ndim(n_observed) == 0:
        return function(n_observed)
    table = function(np.arange(n_observed.max(initial=0) + 1.0)[:, None])
    return table[n_observed]


def _runs(X):
    """Return first rows, and numbers of rows, of those in succession that lack the same values."""
    missing = np.isnan(np.ascontiguousarray(X.T))
    starts = np.flatnonzero(np.append(True, (missing[:, 1:] != missing[:, :-1]).any(axis=0)))
    return starts, np.diff(starts, append=len(X))


def _centred(parameters, X):
    """Return Gaussians about zero, and rows of zeros with the gaps of X."""
    gaussians = parameters.gaussians
    return Gaussians(np.zeros_like(gaussians.mean), gaussians.covariance), 0.0 * X
