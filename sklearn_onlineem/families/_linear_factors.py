"""Factors of products whose log densities are linear in features of the rows, side by side.

Log densities of all factors are then one matrix product, and so are their statistics.
"""

from dataclasses import replace

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _natural
from sklearn_onlineem.families._family import ExponentialFamily
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families.categorical import Categorical
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI, location
from sklearn_onlineem.families.gaussian import Gaussian
from sklearn_onlineem.statistics import Sums, combine

# Rows that tell the location of all.
_FEW_ROWS = 256


def linear_factor(family, X, n_threads):
    """Return the factor of a family for rows of its columns, or None if it has none.

    Factors have `features` (n_rows, p), dense or CSR, a log `base` measure, which may be empty,
    `terms` (natural parameters and a constant, or None where digits would be lost), and `evidence`,
    the statistics from sums over rows.
    """
    missing = np.isnan(X)
    if isinstance(family, Gaussian):
        of_axes = family.covariance.features != _natural.PRODUCTS
        if missing.any() and of_axes:
            return _AxesWithGaps(family, X, missing)
        incomplete = missing.any(axis=1)
        return _GaussianFactor(family, X, incomplete) if missing[incomplete].all() else None
    if not missing.any():
        if isinstance(family, Categorical):
            return _CodesFactor(family, X)
        # Others have densities of their own.
        is_plain = isinstance(family, ExponentialFamily) and type(family).log_density is (
            ExponentialFamily.log_density
        )
        return _Factor(family, X, n_threads) if is_plain else None
    return _FactorWithGaps(family, X, n_threads) if isinstance(family, ExponentialColumns) else None


class _Factor:
    """An exponential family, of complete rows."""

    def __init__(self, family, X, n_threads):
        self._family = family
        self.features, self.base = family._observe(X, n_threads)

    def terms(self, parameters):
        natural = self._family.to_natural(parameters)
        return natural, -self._family.log_partition(natural)

    def evidence(self, parameters, counts, totals):
        return Sums(counts, totals)


class _CodesFactor:
    """Categorical columns of complete rows, without the most frequent category of each column."""

    base = np.empty(0)

    def __init__(self, family, X):
        self._family, one_hot = family, family.sufficient_statistics(X)
        counts = np.asarray(one_hot.sum(axis=0)).ravel()
        self._columns = family._columns(len(counts), X.shape[1])
        ends = np.append(np.flatnonzero(np.diff(self._columns)) + 1, len(counts))
        parts = np.split(counts, ends[:-1])
        frequent = ends - [len(part) - part.argmax() for part in parts]
        self._frequent, self._others = frequent, np.delete(np.arange(len(counts)), frequent)
        self.features = one_hot[:, self._others]

    def terms(self, parameters):
        natural = self._family.to_natural(parameters)
        known = natural[:, self._frequent]
        others = natural[:, self._others] - known[:, self._columns[self._others]]
        others = np.ascontiguousarray(others)
        return others, known.sum(axis=1) - self._family.log_partition(natural)

    def evidence(self, parameters, counts, totals):
        out = np.empty((len(counts), len(self._columns)))
        out[:, self._others], out[:, self._frequent] = totals, 0.0
        rest = counts[:, None] - self._family._sums(out)
        out[:, self._frequent] = np.maximum(rest, 0.0)
        return Sums(counts, out)


class _FactorWithGaps:
    """An exponential family of independent columns, of rows with missing values."""

    def __init__(self, family, X, n_threads):
        self._family = family
        self.features, self.base = family._observed(X, n_threads)
        self._is_sparse = sparse.issparse(self.features)

    def terms(self, parameters):
        return self._family._of_observed(parameters, self._is_sparse)

    def evidence(self, parameters, counts, totals):
        return self._family._completed(parameters, self._is_sparse, Sums(counts, totals))


class _GaussianFactor:
    """Gaussians about the location of the rows; in some of these all columns may be missing."""

    base = np.empty(0)

    def __init__(self, family, X, incomplete):
        # The expected scatter of missing values has the floor, as that of the data has.
        self._family = replace(family, floor=np.zeros(X.shape[1]))
        self._known = X[~incomplete] if incomplete.any() else X
        self._has_gaps = len(self._known) < len(X)
        if not len(self._known):
            self._known = np.zeros((1, X.shape[1]), X.dtype)
        y = X - location(self._known)
        y[incomplete] = 0.0
        if family.covariance.features == _natural.PRODUCTS:
            i, j = np.triu_indices(X.shape[1])
            second = y[:, i] * y[:, j]
        else:
            second = _squares(family, y)
        observed = [~incomplete[:, None]] if self._has_gaps else []
        self.features = np.concatenate([y, second, *observed], axis=1, dtype=X.dtype)

    def terms(self, parameters):
        about = self._family.covariance._about(parameters, self._known, parameters.log_det)
        if about is None:
            return None
        self._centre, natural, constant = about
        if not self._has_gaps:
            return natural, constant
        return np.column_stack([natural, constant]), np.zeros(len(constant))

    def evidence(self, parameters, counts, totals):
        family, centre = self._family, self._centre
        if not self._has_gaps:
            return family.covariance._moments_about(centre, counts, totals)
        observed = totals[:, -1].copy()
        known = family.covariance._moments_about(centre, observed, totals[:, :-1].copy())
        own = family.own_statistics(parameters, np.maximum(counts - observed, 0.0))
        return combine([(1.0, known), (1.0, own)])


class _AxesWithGaps:
    """Diagonal or spherical Gaussians, of rows with missing values."""

    base = np.empty(0)

    def __init__(self, family, X, missing):
        self._family, self._d = family, X.shape[1]
        # About observed values of each column.
        first = X[np.argmin(missing, axis=0), np.arange(X.shape[1])]
        few = X[:_FEW_ROWS]
        self._known = np.where(np.isnan(few), np.where(np.isnan(first), 0.0, first), few)
        y = X - location(self._known)
        y[missing] = 0.0
        self.features = np.concatenate([y, _squares(family, y), ~missing], axis=1, dtype=X.dtype)

    def terms(self, parameters):
        about = self._family.covariance._about(parameters, self._known)
        if about is None:
            return None
        self._centre, natural, _ = about
        variances = np.broadcast_to(parameters.covariance, parameters.mean.shape)
        squares = (parameters.mean - self._centre) ** 2 / variances
        constants = -0.5 * (np.log(variances) + LOG_2_PI + squares)
        return np.concatenate([natural, constants], axis=1), np.zeros(len(natural))

    def evidence(self, parameters, counts, totals):
        shape, d = self._family.covariance, self._d
        first, second, observed = np.split(totals, [d, totals.shape[1] - d], axis=1)
        missing = np.maximum(counts[:, None] - observed, 0.0)
        deviation = parameters.mean - self._centre
        own = shape._summed(missing * (parameters.covariance + deviation**2))
        sums = np.concatenate([first + missing * deviation, second + own], axis=1)
        return shape._moments_about(self._centre, counts, sums)


def _squares(family, y):
    squares = y * y
    is_single = family.covariance.features == _natural.SQUARE_SUM
    return squares.sum(axis=1, keepdims=True) if is_single else squares
