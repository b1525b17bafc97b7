"""Posterior predictive distributions of counts, bits and durations: shared functions."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from sklearn_onlineem._checks import above, at_least
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._typing import Bools, Floats, FloatsOrSparse, Integers
from sklearn_onlineem._values import components
from sklearn_onlineem.data.sparse import checked_csr
from sklearn_onlineem.families._events import as_csr
from sklearn_onlineem.families.capabilities import PosteriorPredictives
from sklearn_onlineem.statistics import Sums

# From here on Stirling's series has the precision of a double.
_ASYMPTOTIC = 10.0
# Values times components in a block.
_BLOCK_VALUES = 1 << 18


def mean_total(X, sample_weight):
    """Return the mean sum of the rows, an array of one number, as merged models average arrays."""
    totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    return np.average(totals, weights=sample_weight, keepdims=True)


def rows_of(sums, mean_total):
    """Return how many rows have such sums, (K,); none if their mean is not known, or 0."""
    sums = np.maximum(sums, 0.0)
    if mean_total is None or mean_total[0] == 0.0:
        return np.zeros(len(sums))
    return sums / mean_total


def proper(family, name, values):
    """Return hyper-parameters if all are above 0; else raise a ValueError that names the family."""
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise ValueError(
            f"the prior of {type(family).__name__} is improper, as its {name} is"
            f" {np.min(values):.6g}: set prior= to one whose {name} is above 0."
        )
    return values


def concentration_of(family, statistics):
    """Return the alpha = total + 1 of the Dirichlet posteriors with these modes."""
    return proper(family, "concentration", statistics.total + 1.0)


def log_rising(a, x):
    """Return log Gamma(a + x) - log Gamma(a) to full precision, for a above 0 and x from 0 up."""
    a, x = np.broadcast_arrays(np.asarray(a, dtype=float), x)
    large = np.maximum(a, _ASYMPTOTIC)
    above = large + x
    series = (large - 0.5) * np.log1p(x / large) + x * np.log(above) - x
    series += _stirling(1.0 / above) - _stirling(1.0 / large)
    return np.where(a < _ASYMPTOTIC, gammaln(a + x) - gammaln(a), series)


def _stirling(r):
    """Return log Gamma(1 / r) less Stirling's formula."""
    s = r * r
    series = 1 / 1188 - s * (691 / 360360 - s / 156)
    return r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * series))))


def over_values(X, n_components, term):
    """Sum term(values, indices), (n_values, K), over the values of each row that are not 0."""
    X, sums = sparse.csr_array(X), np.empty((X.shape[0], n_components))
    step = max(1, _BLOCK_VALUES * len(sums) // max(1, X.nnz * n_components))
    for start in range(0, len(sums), step):
        rows = X[start : start + step]
        terms = term(rows.data[:, None].astype(float), rows.indices)
        ones, shape = np.ones(len(terms)), (rows.shape[0], len(terms))
        marks = sparse.csr_array((ones, np.arange(len(terms)), rows.indptr), shape=shape)
        sums[start : start + step] = marks @ terms
    return sums


def log_rising_sums(X, a):
    """Return sum_j log Gamma(a_kj + x_nj) - log Gamma(a_kj), an ndarray of shape (n_rows, K)."""
    a_T = np.ascontiguousarray(a.T)
    return over_values(X, len(a), lambda x, j: log_rising(a_T[j], x))


def log_gammas(shapes, rng):
    """Draw logarithms of gamma variables, as those of small shapes underflow."""
    # G(a) has the distribution of G(a + 1) U^(1 / a), and -log U is exponential.
    logs = np.log(rng.standard_gamma(shapes + 1.0))
    logs -= rng.standard_exponential(shapes.shape) / shapes
    return logs


def drawn_proportions(concentration, rng):
    """Draw from Dirichlets along the last axis."""
    logs = log_gammas(concentration, rng)
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


class CollapsedCounts(PosteriorPredictives[Floats, Sums]):
    """Families of counts, bits, codes or durations; one kernel takes the sweeps of all."""

    @abstractmethod
    def _swept(self, prior, X):
        """Return form, rows, prior and further arguments of the kernel, which describes them."""
        # By name: `second_prior`, `weight`, `step`, and `group`, how many columns share a Dirichlet
        # prior, with values of CSR rows sorted by column; by default all columns share one.

    def mean_form(self, prior: Sums) -> Sums:
        return Sums(prior.weight, prior.total + 1.0)

    def collapsed_sweep(
        self,
        prior: Sums,
        X: FloatsOrSparse,
        labels: Integers,
        concentration: Floats,
        uniforms: Floats,
        learns_shares: bool = True,
        fixed: tuple[Bools, Floats] | None = None,
    ) -> float:
        form, rows, first, further = self._swept(prior, X)
        base, known = self.log_base_measure(X), np.empty(0, np.intp)
        log_density = np.empty((len(labels), 0))
        if fixed is not None:
            known = np.flatnonzero(fixed[0])
            parameters = components(fixed[1], known, len(fixed[0]))
            log_density = self.log_density(parameters, X).astype(np.float64)
            log_density -= base[:, None] if len(base) else 0.0
        n_components, d = first.shape
        if rows.shape[1] != d:
            raise ValueError(f"X has {rows.shape[1]} columns, and the prior is of {d}.")
        limit = above if learns_shares else at_least
        concentration = limit("concentration", concentration, 0.0, (n_components,))
        second = further.get("second_prior", np.empty((n_components, 0)))
        weight = further.get("weight", np.ones(n_components))
        arrays = (first.T, second.T, weight, concentration, uniforms)
        first_T, second_T, weight, concentration, uniforms = (
            np.ascontiguousarray(array, dtype=np.float64) for array in arrays
        )
        if sparse.issparse(rows):
            rows = checked_csr(rows)
        else:
            rows = np.asarray(rows, None if rows.dtype == np.float32 else np.float64)
        log_predictive = _collapsed_counts.collapsed_sweep(
            *as_csr(rows), form, further.get("group", d), first_T, second_T, weight,
            further.get("step", 1.0), concentration, uniforms, labels, learns_shares, known,
            log_density,
        )  # fmt: skip
        return log_predictive + base.mean() if len(base) else log_predictive
