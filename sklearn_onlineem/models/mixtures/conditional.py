"""Mixtures of what a row lacks, given what is observed of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr, ndtri

from sklearn_onlineem._checks import check_number
from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem.data.rows import task
from sklearn_onlineem.families import Gaussian
from sklearn_onlineem.families._e_step import drawn_from, log_of
from sklearn_onlineem.models.mixtures.mixture import MixtureModel

# Numbers in a block of deviations of rows from the means of all components.
_BLOCK_VALUES = 1 << 20
_LOG_ROOT_2_PI = 0.5 * math.log(2.0 * math.pi)
_DENSITY_AT_0 = math.exp(-_LOG_ROOT_2_PI)
# Errors of quantiles and their probabilities that are due to rounding.
_ROUNDING = 1e-14
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class ConditionalMixture:
    r"""For each row a Gaussian mixture of its missing values, given its observed values.

    With o the observed and m the missing features of a row,

    .. math::
        p(x_m \mid x_o) = \sum_k w_k \, N(x_m; \, m_k + G_k (x_o - o_k), \,
        S_k^{mm} - G_k S_k^{om}), \qquad G_k = S_k^{mo} (S_k^{oo})^{-1}

    where :math:`w_k` is the probability of component k given :math:`x_o`. Observed features are
    part of it: they have their values as means, and rows and columns of zeros as covariances. So
    all rows have arrays of the same shape, whichever features they lack.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, K)
        Probabilities of the components, given the observed values of each row.
    means : ndarray of shape (n_rows, K, n_features)
        Means of each component.
    patterns : ndarray of int of shape (n_rows,)
        Number of the pattern of each row: rows that lack the same features have the same one.
    covariances_of_patterns : ndarray of shape (n_patterns, K, n_features, n_features)
        Covariances of each component. They depend on which features are missing, and not on the
        values of the others, so rows with the same pattern share them.
    log_likelihoods : ndarray of shape (n_rows,)
        Log densities of the observed values of each row, in nats; 0 where there are none.

    Attributes
    ----------
    covariances : ndarray of shape (n_rows, K, n_features, n_features)
        Covariances of each row, `covariances_of_patterns` repeated; made on demand.

    References
    ----------
    Ghahramani & Jordan, "Supervised learning from incomplete data via an EM approach", NIPS 1994.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.families import Gaussian, Gaussians
    >>> from sklearn_onlineem.models.mixtures.conditional import conditional
    >>> from sklearn_onlineem.models.mixtures.mixture import MixtureModel
    >>> gaussian = Gaussians(np.array([[1.0, 2.0]]), np.array([[[4.0, 2.0], [2.0, 3.0]]]))
    >>> model = MixtureModel(Gaussian(), np.ones(1), gaussian)
    >>> given = conditional(model, np.array([[5.0, np.nan]]))
    >>> given.mean(), given.covariance()[0]
    (array([[5., 4.]]), array([[0., 0.],
           [0., 2.]]))
    """

    weights: Floats
    means: Floats
    patterns: Integers
    covariances_of_patterns: Floats
    log_likelihoods: Floats

    @property
    def covariances(self) -> Floats:
        return self.covariances_of_patterns[self.patterns]

    @cached_property
    def _variances(self):
        """Variances of the features, of shape (n_patterns, K, n_features)."""
        return np.einsum("pkff->pkf", self.covariances_of_patterns)

    @cached_property
    def _missing(self):
        """Which features are missing, of shape (n_patterns, n_features)."""
        return self._variances[:, 0] > 0.0

    @cached_property
    def _factors(self):
        """Cholesky factors, with ones on the diagonal for observed features."""
        observed = ~self._missing[:, None, :, None] * np.eye(self.means.shape[2])
        return np.linalg.cholesky(self.covariances_of_patterns + observed)

    def _by_pattern(self) -> Iterator[tuple[int, Integers]]:
        return enumerate(_rows_of(self.patterns, len(self.covariances_of_patterns)))

    def mean(self) -> Floats:
        """Return the expectation of each row, an ndarray of shape (n_rows, n_features)."""
        return np.einsum("nk,nkf->nf", self.weights, self.means)

    def covariance(self) -> Floats:
        """Return the covariance of each row, an ndarray of shape (n_rows, n_features, n_features).

        It includes that between components.
        """
        deviation = self.means - self.mean()[:, None]
        out = np.einsum("nk,nki,nkj->nij", self.weights, deviation, deviation, optimize=True)
        for pattern, rows in self._by_pattern():
            within = self.covariances_of_patterns[pattern]
            out[rows] += np.tensordot(self.weights[rows], within, axes=1)
        return out

    def sample(self, rng: Generator | int | None = None) -> Floats:
        """Draw each row once, an ndarray of shape (n_rows, n_features).

        Parameters
        ----------
        rng : numpy.random.Generator or int, default=None
            Source of random numbers, or its seed; None: another one each time.
        """
        rng, n_rows = np.random.default_rng(rng), len(self.means)
        components = drawn_from(np.cumsum(self.weights, axis=1), rng)
        noise = rng.standard_normal((n_rows, self.means.shape[2]))
        out = self.means[np.arange(n_rows), components]
        for pattern, rows in self._by_pattern():
            factors = self._factors[pattern][components[rows]]
            deviation = np.einsum("nij,nj->ni", factors, noise[rows])
            out[rows] += np.where(self._missing[pattern], deviation, 0.0)
        return out

    def log_density(self, X: ArrayLike) -> Floats:
        """Return log p(missing values | observed values) of each row, in nats, (n_rows,).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Complete rows. ValueError if a value is NaN, or an observed one is another than it was.
        """
        X = np.asarray(X, dtype=self.means.dtype)
        n_rows, _, n_features = self.means.shape
        if X.shape != (n_rows, n_features):
            raise ValueError(f"X must be of shape {(n_rows, n_features)}, got {X.shape}.")
        if np.isnan(X).any():
            raise ValueError("X has NaN, but a density is one of complete rows.")
        missing = self._missing[self.patterns]
        if ((X != self.means[:, 0]) & ~missing).any():
            raise ValueError("X has other values than those that are given.")
        out, diagonals = np.empty(n_rows), np.einsum("pkff->pkf", self._factors)
        log_weights = log_of(self.weights)
        for pattern, rows in self._by_pattern():
            deviation = (X[rows, None] - self.means[rows]).transpose(1, 2, 0)
            white = np.linalg.solve(self._factors[pattern], deviation)
            log_density = -0.5 * (white**2).sum(axis=1).T - np.log(diagonals[pattern]).sum(axis=1)
            constant = _LOG_ROOT_2_PI * np.count_nonzero(self._missing[pattern])
            out[rows] = logsumexp(log_weights[rows] + log_density, axis=1) - constant
        return out

    def quantile(self, q: float) -> Floats:
        """Return the quantile of each feature alone, an ndarray of shape (n_rows, n_features).

        Parameters
        ----------
        q : float
            Probability of a smaller value, above 0 and below 1, otherwise a ValueError.
        """
        check_number("q", q, 0.0, 1.0)
        out = self.means[:, 0].copy()
        rows, features = np.nonzero(self._missing[self.patterns])
        weights, variances = self.weights[rows], self._variances[self.patterns[rows], :, features]
        # Digits of small probabilities are not lost, so the upper tail is mirrored.
        sign = 1.0 if q <= 0.5 else -1.0
        found = _quantiles_of_mixtures(
            min(q, 1.0 - q), weights, sign * self.means[rows, :, features], np.sqrt(variances)
        )
        out[rows, features] = sign * found
        return out

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return the ends of central intervals of each feature alone.

        Each end is an ndarray of shape (n_rows, n_features). A value is below the interval as
        probably as above it.

        Parameters
        ----------
        level : float, default=0.9
            Probability of the interval, above 0 and below 1, otherwise a ValueError.
        """
        check_number("level", level, 0.0, 1.0)
        return self.quantile(0.5 - 0.5 * level), self.quantile(0.5 + 0.5 * level)


def conditional(
    model: MixtureModel, X: Floats, features: Sequence[int] | None = None
) -> ConditionalMixture:
    """Return the mixtures of what rows lack (NaN), given what is observed of them.

    `features` are the columns that are to be part of the mixtures, by default all. ValueError for
    mixtures of others than Gaussians.
    """
    family, parameters = model.family, model.parameters
    if not isinstance(family, Gaussian):
        raise ValueError(f"only mixtures of Gaussians have conditional mixtures, not of {family}.")
    X = np.ascontiguousarray(X, dtype=np.float64)
    n_components, n_features = parameters.mean.shape
    features = np.arange(n_features) if features is None else np.asarray(features, dtype=np.intp)
    weights = np.ascontiguousarray(family.marginal_log_density(parameters, X) + model.log_weights)
    log_likelihoods = np.empty(len(X))
    normalise(weights, task(log_likelihoods=log_likelihoods))
    gaps = np.isnan(X)
    _, first, patterns = np.unique(
        np.packbits(gaps, axis=1), axis=0, return_index=True, return_inverse=True
    )
    patterns, masks = patterns.reshape(-1), gaps[first]
    means = np.empty((len(X), n_components, len(features)))
    covariances = np.zeros((len(masks), n_components, len(features), len(features)))
    matrices, step = parameters.covariance_matrices, max(1, _BLOCK_VALUES // parameters.mean.size)
    for pattern, (missing, rows) in enumerate(
        zip(masks, _rows_of(patterns, len(masks)), strict=True)
    ):
        o, m = np.flatnonzero(~missing), np.flatnonzero(missing)
        columns, fixed = np.flatnonzero(missing[features]), np.flatnonzero(~missing[features])
        # Observed features first: what remains of the factor is that of the conditional covariance.
        order = np.concatenate([o, m])
        factor = np.linalg.cholesky(matrices[:, order[:, None], order])
        wanted = factor[:, len(o) + np.searchsorted(m, features[columns])]
        root, of_observed = wanted[:, :, len(o) :], factor[:, : len(o), : len(o)]
        within = root @ root.transpose(0, 2, 1)
        covariances[pattern][:, columns[:, None], columns] = within
        # S_mo S_oo^-1, transposed.
        gain = np.linalg.solve(
            of_observed.transpose(0, 2, 1), wanted[:, :, : len(o)].transpose(0, 2, 1)
        )
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            deviation = X[np.ix_(some, o)] - parameters.mean[:, None, o]
            expected = parameters.mean[:, None, features[columns]] + deviation @ gain
            block = np.empty((len(some), n_components, len(features)))
            block[:, :, columns] = expected.transpose(1, 0, 2)
            block[:, :, fixed] = X[np.ix_(some, features[fixed])][:, None]
            means[some] = block
    return ConditionalMixture(weights, means, patterns, covariances, log_likelihoods)


def _rows_of(patterns, n_patterns):
    """Return the rows of each pattern."""
    counts = np.bincount(patterns, minlength=n_patterns)
    return np.split(np.argsort(patterns, kind="stable"), np.cumsum(counts)[:-1])


def _quantiles_of_mixtures(q, weights, means, scales):
    """Solve sum_k weights_k Phi((x - means_k) / scales_k) == q for x in each row."""
    # It is between the quantiles of the components that have weight.
    of_components, counts = means + scales * ndtri(q), weights > 0.0
    lower = np.where(counts, of_components, np.inf).min(axis=1)
    upper = np.where(counts, of_components, -np.inf).max(axis=1)
    x, out = np.einsum("nk,nk->n", weights, of_components), np.empty(len(means))
    x, rows = np.clip(x, lower, upper), np.arange(len(means))
    # Newton's method; bisection where that would leave the bounds, or has not halved the error.
    previous = np.full(len(means), np.inf)
    for _ in range(_MOST_STEPS):
        standardised = (x[:, None] - means) / scales
        excess = np.einsum("nk,nk->n", weights, ndtr(standardised)) - q
        lower, upper = np.where(excess < 0.0, x, lower), np.where(excess > 0.0, x, upper)
        out[rows] = x
        left = (np.abs(excess) > _ROUNDING * q) & (upper - lower > _ROUNDING * np.abs(x))
        if not left.any():
            break
        slope = np.einsum("nk,nk->n", weights, np.exp(-0.5 * standardised**2) / scales)
        slope *= _DENSITY_AT_0
        newton = x - np.divide(excess, slope, out=np.full_like(x, np.inf), where=slope > 0.0)
        is_better = (lower < newton) & (newton < upper) & (np.abs(excess) < 0.5 * np.abs(previous))
        x = np.where(is_better, newton, 0.5 * (lower + upper))
        rows, x, lower, upper, previous, weights, means, scales = (
            values[left] for values in (rows, x, lower, upper, excess, weights, means, scales)
        )
    return out
