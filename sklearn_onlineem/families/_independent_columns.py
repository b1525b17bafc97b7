"""Families of independent columns: a missing value leaves its factor out."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np
from scipy import sparse

from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted
from sklearn_onlineem.families._family import (
    ExponentialFamily,
    linear_e_step,
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
        """Return the log-partition function of each column, an ndarray of shape (K, n_features).

        Parameters
        ----------
        natural : ndarray of shape (K, n_statistics)
            Natural parameters of K components.
        """

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
        features, base = self._observed(X, n_threads)
        natural, offset = self._of_observed(parameters, sparse.issparse(features))
        return linear_log_density(features, base, natural, offset, n_threads)

    def marginal_statistics(
        self, parameters: Floats, X: FloatsOrSparse, posterior: Floats, n_threads: int = 1
    ) -> Sums:
        features, _ = self._observed(X, n_threads)
        sums = linear_statistics(features, posterior, n_threads)
        return self._completed(parameters, sparse.issparse(features), sums)

    def e_step(
        self, parameters: Floats, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, Sums, float]:
        if not rows.has_gaps:
            return super().e_step(parameters, log_weights, rows, wanted)
        # The family is kept with the values, so that its id cannot be reused.
        _, features, base = rows.remember(
            (id(self), "observed"), lambda: (self, *self._observed(rows.X, rows.n_threads))
        )
        is_sparse = sparse.issparse(features)
        natural, offset = self._of_observed(parameters, is_sparse)
        counts, sums, log_likelihood = linear_e_step(
            features, base, natural, log_weights + offset, rows, wanted
        )
        return counts, self._completed(parameters, is_sparse, sums), log_likelihood

    def _observed(self, X, n_threads):
        """Return statistics, 0 for missing values, with a mask beside, and the log base measure.

        The mask is of observed values, or of missing ones if the statistics are sparse.
        """
        missing, rows = _missing(X), filled(X, self._stand_in)
        phi, base = self.sufficient_statistics(rows), self.log_base_measure(rows, n_threads)
        if len(base):
            of_stand_in = self.log_base_measure(np.full((1, 1), self._stand_in))[0]
            base = base - of_stand_in * np.asarray(missing.sum(axis=1)).reshape(-1)
        if not sparse.issparse(phi):
            columns = self._columns(phi.shape[1], X.shape[1])
            phi = promoted(np.where(missing[:, columns], phi.dtype.type(0.0), phi))
            return np.concatenate([phi, ~missing], axis=1, dtype=phi.dtype), base
        if not sparse.issparse(X):  # One-hot: it has one number for each value.
            phi.data[missing.ravel()] = 0.0
            phi.eliminate_zeros()  # 0 * -inf would be NaN.
            missing = sparse.csr_array(missing)
        phi = promoted(phi)
        return sparse.hstack([phi, missing.astype(phi.dtype)], format="csr"), base

    def _of_observed(self, parameters, is_sparse):
        """Return natural parameters and an offset to which `_observed` are the features."""
        natural = self.to_natural(parameters)
        constants = self.log_partitions(natural)
        if is_sparse:
            return np.concatenate([natural, constants], axis=1), -constants.sum(axis=1)
        return np.concatenate([natural, -constants], axis=1), np.zeros(len(natural))

    def _completed(self, parameters, is_sparse, sums):
        """Return statistics with the expected ones of missing values, from sums of `_observed`."""
        mean = self.mean_statistics(parameters)
        total, missing = np.split(sums.total, [mean.shape[1]], axis=1)
        if not is_sparse:
            missing = np.maximum(sums.weight[:, None] - missing, 0.0)
        columns = self._columns(mean.shape[1], missing.shape[1])
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
