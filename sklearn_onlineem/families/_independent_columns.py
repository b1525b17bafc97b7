"""Families of independent columns: a missing value leaves its factor out."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np
from scipy import sparse

from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.families._family import (
    ExponentialFamily,
    LinearForm,
    linear_log_density,
    linear_statistics,
    promoted,
)
from sklearn_onlineem.families.capabilities import Marginals
from sklearn_onlineem.statistics import Statistics, Sums

Parameters = TypeVar("Parameters")
Evidence = TypeVar("Evidence", bound=Statistics)


class IndependentColumns(Marginals[Parameters, Evidence]):
    """Families of independent columns, in which observed values say nothing of the missing ones."""

    @abstractmethod
    def _of_values(self, parameters, components, columns, n_features):
        """Return parameters of components of one column, one for each pair of these numbers."""

    def _drawn_values(self, parameters, components, columns, n_features, rng):
        """Draw a value for each pair of these numbers."""
        of_values = self._of_values(parameters, components, columns, n_features)
        return self.sample(of_values, np.arange(len(columns)), rng)[:, 0]

    def _typical(self, parameters, column, posterior):
        """Return the expectation of a column, or its most probable symbol, for each posterior."""
        return posterior @ self.means(parameters)[:, column]

    def completed(
        self, parameters: Parameters, X: FloatsOrSparse, posterior: Floats
    ) -> FloatsOrSparse:
        rows, columns = _gaps(X)
        values = np.empty(len(rows))
        for column in np.unique(columns):
            own = columns == column
            values[own] = self._typical(parameters, column, posterior[rows[own]])
        return filled(X, values)

    def drawn(
        self, parameters: Parameters, X: FloatsOrSparse, components: Integers, rng: Generator
    ) -> FloatsOrSparse:
        rows, columns = _gaps(X)
        return filled(X, self._drawn_values(parameters, components[rows], columns, X.shape[1], rng))


class ExponentialColumns(ExponentialFamily[Floats, Sums], IndependentColumns[Floats, Sums]):
    r"""Exponential families of independent columns.

    With a column :math:`o_j` for each column of a row, 1 if it is observed and else 0,

    .. math:: \log p(x_o) = (\phi(x_o), o) \cdot (\theta, -G(\theta)) + \log h(x_o)

    where statistics of missing values are 0. So log densities and statistics with missing values
    are those of rows with twice as many columns. Missing values get the expected statistics of
    their component.
    """

    # A value in the support of each column, which stands for missing ones.
    _stand_in = 0.0

    @abstractmethod
    def log_partitions(self, natural: Floats) -> Floats:
        """Return log-partition functions of columns, (K, n_features), from natural parameters."""

    def log_partition(self, natural: Floats) -> Floats:
        return self.log_partitions(natural).sum(axis=1)

    def _columns(self, n_statistics, n_features):
        """Return the column of each statistic; columns have equally many."""
        return np.tile(np.arange(n_features), n_statistics // n_features)

    def _of_values(self, parameters, components, columns, n_features):
        places = np.argsort(self._columns(parameters.shape[1], n_features), kind="stable")
        return parameters[components[:, None], places.reshape(n_features, -1)[columns]]

    def marginal_log_density(
        self, parameters: Floats, X: FloatsOrSparse, n_threads: int = 1
    ) -> Floats:
        form = ObservedForm(self, X, n_threads)
        return linear_log_density(form.features, form.base, *form.terms(parameters), n_threads)

    def marginal_statistics(
        self, parameters: Floats, X: FloatsOrSparse, posterior: Floats, n_threads: int = 1
    ) -> Sums:
        form = ObservedForm(self, X, n_threads)
        return form.evidence(parameters, linear_statistics(form.features, posterior, n_threads))

    def _form(self, rows):
        return (ObservedForm if rows.has_gaps else LinearForm)(self, rows.X, rows.n_threads)


class ObservedForm(LinearForm):
    """Rows with missing values: statistics, and a mask beside."""

    # Statistics of missing values are 0. The mask is of observed values, or of missing ones if
    # statistics are sparse.
    def __init__(self, family, X, n_threads=1):
        self._family, missing, rows = family, _missing(X), filled(X, family._stand_in)
        phi = promoted(family.sufficient_statistics(rows))
        self.base = family.log_base_measure(rows, n_threads)
        if len(self.base):
            of_stand_in = family.log_base_measure(np.full((1, 1), family._stand_in))[0]
            self.base = self.base - of_stand_in * np.asarray(missing.sum(axis=1)).reshape(-1)
        self._is_sparse = sparse.issparse(phi)
        if not self._is_sparse:
            columns = family._columns(phi.shape[1], X.shape[1])
            phi = np.where(missing[:, columns], phi.dtype.type(0.0), phi)
            self.features = np.concatenate([phi, ~missing], axis=1, dtype=phi.dtype)
            return
        if not sparse.issparse(X):  # One-hot: it has one number for each value.
            phi.data[missing.ravel()] = 0.0
            phi.eliminate_zeros()  # 0 * -inf would be NaN.
            missing = sparse.csr_array(missing)
        self.features = sparse.hstack([phi, missing.astype(phi.dtype)], format="csr")

    def terms(self, parameters):
        natural = self._family.to_natural(parameters)
        constants = self._family.log_partitions(natural)
        if self._is_sparse:
            return np.concatenate([natural, constants], axis=1), -constants.sum(axis=1)
        return np.concatenate([natural, -constants], axis=1), np.zeros(len(natural))

    def evidence(self, parameters, sums):
        mean = self._family.mean_statistics(parameters)
        total, missing = np.split(sums.total, [mean.shape[1]], axis=1)
        if not self._is_sparse:
            missing = np.maximum(sums.weight[:, None] - missing, 0.0)
        columns = self._family._columns(mean.shape[1], missing.shape[1])
        return Sums(sums.weight, total + missing[:, columns] * mean)


def _missing(X):
    """Return which values are missing, an array of bool, CSR if X is."""
    if not sparse.issparse(X):
        return np.isnan(X)
    missing = sparse.csr_array((np.isnan(X.data), X.indices, X.indptr), shape=X.shape, copy=True)
    missing.eliminate_zeros()
    return missing


def _gaps(X):
    """Return rows and columns of missing values, in the order of `filled`."""
    if not sparse.issparse(X):
        return np.nonzero(np.isnan(X))
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    missing = np.isnan(X.data)
    return rows[missing], X.indices[missing]


def filled(X, values):
    """Return a copy of X with these values for the missing ones."""
    out = X.copy()
    numbers = out.data if sparse.issparse(X) else out
    numbers[np.isnan(numbers)] = values
    return out
