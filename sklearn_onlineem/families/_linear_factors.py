"""Factors of products whose log densities are linear in features of the rows, side by side.

Log densities of all factors are then one matrix product, and so are their statistics.
"""

import numpy as np

from sklearn_onlineem._kernels import _natural
from sklearn_onlineem.families._e_step import NOTHING
from sklearn_onlineem.families._family import ExponentialFamily, LinearForm
from sklearn_onlineem.families._independent_columns import ExponentialColumns, ObservedForm
from sklearn_onlineem.families.categorical import Categorical
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI, location
from sklearn_onlineem.families.gaussian import Gaussian
from sklearn_onlineem.statistics import Sums

# Rows that tell the location of all.
_FEW_ROWS = 256


def linear_factor(family, X, n_threads):
    """Return the `LinearForm` of rows of a family's columns, or None if it has none."""
    # Its terms are None where digits would be lost.
    missing = np.isnan(X)
    if isinstance(family, Gaussian):
        has_products = family.covariance.features == _natural.PRODUCTS
        is_linear = not has_products or missing[missing.any(axis=1)].all()
        return _GaussianFactor(family, X, missing) if is_linear else None
    if not missing.any():
        if isinstance(family, Categorical):
            return _CodesFactor(family, X)
        # Others have densities of their own.
        is_plain = isinstance(family, ExponentialFamily) and type(family).log_density is (
            ExponentialFamily.log_density
        )
        return LinearForm(family, X, n_threads) if is_plain else None
    return ObservedForm(family, X, n_threads) if isinstance(family, ExponentialColumns) else None


class _CodesFactor(LinearForm):
    """Categorical columns of complete rows, without the most frequent category of each column."""

    base = NOTHING

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

    def evidence(self, parameters, sums):
        out = np.empty((len(sums.weight), len(self._columns)))
        out[:, self._others], out[:, self._frequent] = sums.total, 0.0
        rest = sums.weight[:, None] - self._family._sums(out)
        out[:, self._frequent] = np.maximum(rest, 0.0)
        return Sums(sums.weight, out)


class _GaussianFactor(LinearForm):
    """Gaussians about the location of the rows, with a mask beside where values are missing."""

    # Along the axes any may be, and each column has a mask of its own; else, those of whole rows.
    base = NOTHING

    def __init__(self, family, X, missing):
        self._family, d, few = family, X.shape[1], X[:_FEW_ROWS]
        self._has_products = family.covariance.features == _natural.PRODUCTS
        masks = ~(missing[:, :1] if self._has_products else missing)
        self._n_masks = masks.shape[1] if missing.any() else 0
        # Missing values of the rows that tell the location are the first ones of their columns.
        first = X[np.argmin(missing, axis=0), np.arange(d)]
        self._known = np.where(np.isnan(few), np.where(np.isnan(first), 0.0, first), few)
        y = X - location(self._known)
        y[missing] = 0.0
        self._pairs = i, j = np.triu_indices(d) if self._has_products else (slice(d),) * 2
        second = y[:, i] * y[:, j]
        second = second if self._has_products else family.covariance._summed(second)
        arrays = y, second, masks[:, : self._n_masks]
        self.features = np.concatenate(arrays, axis=1, dtype=X.dtype)

    def terms(self, parameters):
        about = self._family.covariance._about(parameters, self._known, parameters.log_det)
        if about is None:
            return None
        self._centre, natural, constants = about
        if not self._n_masks:
            return natural, constants
        constants = constants[:, None]
        if not self._has_products:
            variances = np.broadcast_to(parameters.covariance, parameters.mean.shape)
            squares = (parameters.mean - self._centre) ** 2 / variances
            constants = -0.5 * (np.log(variances) + LOG_2_PI + squares)
        return np.concatenate([natural, constants], axis=1), np.zeros(len(natural))

    def evidence(self, parameters, sums):
        shape, totals, (i, j) = self._family.covariance, sums.total, self._pairs
        if self._n_masks:
            ends = [len(self._centre), totals.shape[1] - self._n_masks]
            first, second, observed = np.split(totals, ends, axis=1)
            missing = np.maximum(sums.weight[:, None] - observed, 0.0)
            deviation, covariance = parameters.mean - self._centre, parameters.covariance
            # The M-step adds the floor.
            floor = self._family._added(len(self._centre))
            if self._has_products:
                covariance, floor = covariance[:, i, j], np.diag(floor)[i, j]
            own = missing * (covariance - floor + deviation[:, i] * deviation[:, j])
            own = own if self._has_products else shape._summed(own)
            totals = np.concatenate([first + missing * deviation, second + own], axis=1)
        return shape._moments_about(self._centre, sums.weight, totals)
