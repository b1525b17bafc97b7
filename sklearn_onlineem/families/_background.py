"""A wide background of rows, for scores of families of real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.capabilities import Marginals, PosteriorPredictives
from sklearn_onlineem.families.covariance_shapes import Gaussians
from sklearn_onlineem.families.gaussian import Gaussian
from sklearn_onlineem.statistics import Moments

__all__ = ["WithBackground", "moments_of"]

_DEGREES = 3.0
# Least variance of a column, in mean variances of all columns, and of a combination of columns.
_RELATIVE_FLOOR = 1e-6


def moments_of(X, sample_weight=None, n_threads=1):
    """Return `Moments` of rows as sums, without those with missing values; None if none is left."""
    complete = ~np.isnan(X).any(axis=1)
    if not complete.all():
        X = X[complete]
        if sample_weight is not None:
            sample_weight = sample_weight[complete]
    if not len(X):
        return None
    # Kernels take weights in the type of X, which may not hold their squares.
    unit = 1.0 if sample_weight is None else sample_weight.max()
    weight = np.ones(len(X)) if sample_weight is None else sample_weight / unit
    return Gaussian().expected_statistics(X, weight[:, None], n_threads).scale(unit)


@dataclass(frozen=True, eq=False)
class WithBackground:
    r"""A family whose densities contain so much of a wide multivariate t density.

    .. math:: (1 - b) \, p(x \mid \theta_k) + b \, t_3(x \mid m, S)

    All else is the family's. Missing values are integrated out of both.

    Parameters
    ----------
    family : Family
        Of rows of real numbers.
    share : float
        :math:`b`, from 0 to below 1.
    rows : Gaussians
        :math:`m` and :math:`S`, as `of_moments` returns them.
    """

    family: Family
    share: float
    rows: Gaussians

    @classmethod
    def of_moments(cls, family, share, moments):
        """Return a family with a background of the moments of rows; itself while all are equal.

        Correlations are shrunk as by d pseudo-rows, and a little more, so that few rows, and
        columns that depend on each other, have a density.
        """
        n, d = moments.weight[0], moments.mean.shape[1]
        covariance = (1.0 - _RELATIVE_FLOOR) / (n + d) * moments.scatter[0]
        variances = moments.scatter[0].diagonal() / n
        if not variances.any():
            return family
        floor = _RELATIVE_FLOOR * variances[variances > 0.0].mean()
        np.fill_diagonal(covariance, np.maximum(variances, floor))
        return cls(family, share, Gaussians(moments.mean, covariance[None]))

    def __getattr__(self, name):
        if name.startswith("__"):  # of copies and pickles, which have no family yet
            raise AttributeError(name)
        return getattr(self.family, name)

    def log_density(self, parameters: object, X: Floats, n_threads: int = 1) -> Floats:
        found = self.family.log_density(parameters, X, n_threads)
        return self._mixed(found, X, Gaussian().log_density, self.rows.mean, n_threads)

    def marginal_log_density(self, parameters: object, X: Floats, n_threads: int = 1) -> Floats:
        found, centre = self.family.marginal_log_density(parameters, X, n_threads), self.rows.mean
        centres = np.where(np.isnan(X), np.nan, centre)
        return self._mixed(found, X, Gaussian().marginal_log_density, centres, n_threads)

    def predictive_log_density(self, statistics: Moments, X: Floats, n_threads: int = 1) -> Floats:
        found = self.family.predictive_log_density(statistics, X, n_threads)
        return self._mixed(found, X, Gaussian().log_density, self.rows.mean, n_threads)

    def _mixed(self, log_densities, X, normal, centres, n_threads):
        """Return log densities with the background, from the normal ones of rows and centres."""
        d = np.count_nonzero(~np.isnan(X), axis=1)
        X = X.astype(np.float64, copy=False)  # whose squares do not overflow
        at_centre = normal(self.rows, centres, n_threads)[:, 0]
        squares = 2.0 * np.maximum(at_centre - normal(self.rows, X, n_threads)[:, 0], 0.0)
        constant = gammaln(0.5 * (_DEGREES + d)) - gammaln(0.5 * _DEGREES)
        constant += 0.5 * d * math.log(2.0 / _DEGREES) + math.log(self.share)
        background = at_centre + constant - 0.5 * (_DEGREES + d) * np.log1p(squares / _DEGREES)
        # As `np.logaddexp`, but by functions that vectorise; the background is finite.
        mixed = log_densities + (math.log1p(-self.share) - background)[:, None]
        mixed = np.maximum(mixed, 0.0) + np.log(1.0 + np.exp(-np.abs(mixed)))
        mixed += background[:, None]
        return mixed.astype(log_densities.dtype, copy=False)


# As far as the family has these capabilities.
Marginals.register(WithBackground)
PosteriorPredictives.register(WithBackground)
