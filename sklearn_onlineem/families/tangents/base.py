r"""Directions in which the parameters of a family move, in units of their information.

Coordinates v, of shape (K, n_own), move natural parameters of component k by :math:`\nu_k(v_k)`, so
that its rows score :math:`a = \nu_k \cdot (\phi(x) - \mu_k)`, of variance :math:`v_k \cdot v_k`
under the component: the information of complete data is the unit matrix. Coordinates that change
no density, such as a common factor of probabilities, score 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.special import polygamma, psi

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._kernels import _counts, _natural
from sklearn_onlineem.data._transitions import has_starts, n_symbols_of
from sklearn_onlineem.families._family import NOTHING

# Entries near zero, by the mean of their row, and the factor by which an M-step leaves zero.
_NEAR_ZERO, _GROWTH = 1e-3, 1.005
# Smaller probabilities, and rates relative to the largest component's, are fixed at their bound.
_BOUND = 1e-8


@dataclass(frozen=True)
class Shares:
    """Rows of probabilities, of shape (R, C), and their coordinates of that shape.

    The score of counts n is (n - sum(n) p) / sqrt(p). Probabilities near zero are fixed.
    """

    p: np.ndarray

    @cached_property
    def root(self):
        return np.where(self.p > _BOUND, np.sqrt(self.p), 0.0)

    @cached_property
    def _inverse_root(self):
        return inverse(self.root)

    @cached_property
    def is_free(self):
        """Which coordinates move: none in rows with a single positive entry."""
        positive = self.p > _BOUND
        return positive & (positive.sum(axis=1, keepdims=True) > 1)

    def logarithms(self, v):
        """Return the derivative of log p along v."""
        return v * self._inverse_root - (self.root * v).sum(axis=-1, keepdims=True)

    def score(self, counts):
        """Return the scores of counts, the adjoint of `logarithms`."""
        return counts * self._inverse_root - self.root * counts.sum(axis=-1, keepdims=True)

    def moved(self, v):
        """Return probabilities moved along v; fixed ones stay."""
        # Rows are normalised, so the term of `logarithms` that all entries share is left out.
        left = np.where(self.root > 0.0, self.p, 0.0)
        moved = left * np.exp(v * self._inverse_root)
        moved *= left.sum(axis=-1, keepdims=True) * inverse(moved.sum(axis=-1, keepdims=True))
        return np.where(left > 0.0, moved, self.p)

    def raised(self, after, share):
        """Return probabilities as `Tangents.raised`; `after` are the `Shares` after an M-step."""
        rows = _raised(self.p, after.p, share)
        if rows is None:
            return None
        return rows * self.p.sum(axis=-1, keepdims=True) * inverse(rows.sum(axis=-1, keepdims=True))


def symmetric_units(d):
    """Return an orthonormal basis of symmetric matrices, (d * (d + 1) / 2, d, d)."""
    i, j = np.tril_indices(d)
    units, entry = np.zeros((len(i), d, d)), np.where(i == j, 1.0, np.sqrt(0.5))
    units[np.arange(len(i)), i, j] = units[np.arange(len(i)), j, i] = entry
    return units


def symmetric_exponential(matrices):
    """Return exp of symmetric matrices to second order, which is positive definite for all."""
    half = 0.5 * matrices
    root = np.eye(matrices.shape[-1]) + half + 0.5 * (half @ half)
    return root @ root


def inverse(x):
    """Return 1 / x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0.0)


def _raised(p, after, share):
    """Return rows whose entries near zero that an M-step raises are a share of the row's mean.

    `after` are the rows after the M-step; None: there are no such entries. Zeros stay, as in EM.
    """
    mean = p.mean(axis=-1, keepdims=True)
    rises = (p > 0.0) & (p < _NEAR_ZERO * mean) & (after > _GROWTH * p)
    return np.where(rises, share * mean, p) if rises.any() else None


class Tangents(ABC):
    """Directions of the parameters of a family, with `Sums` as statistics unless overridden.

    `mean`, of shape (K, n_features), is E phi(x), `n_own` the number of coordinates of a component,
    `shared` the slice of them in which all components move as one, and `parts` slices by name.
    """

    shared = slice(0, 0)
    parts = {"means": slice(None)}
    # Whether rows have features, of which statistics are sums.
    has_features = True
    # Whether densities have derivatives everywhere.
    is_smooth = True
    # Whether single precision has enough digits for products.
    takes_single = False
    # How the kernel computes features from rows.
    kernel = _natural.LINEAR

    def __init__(self, family, parameters):
        self.family, self.parameters = family, parameters

    @property
    def mean(self):
        return self.parameters

    @property
    def n_own(self):
        return self.mean.shape[1]

    @property
    def is_free(self):
        """Which coordinates the M-step changes, of shape (K, n_own)."""
        return np.ones((len(self.mean), self.n_own), dtype=bool)

    def features(self, X):
        """Return phi(x) of rows, dense or CSR, of shape (n_rows, n_features)."""
        return self.family.sufficient_statistics(X)

    def rows(self, X):
        """Return rows from which the kernel computes features, dense or CSR."""
        return self.features(X)

    def forms(self, X, natural, offset, n_threads):
        """Return natural_k . phi(x_n) + offset_k, of shape (n_rows, K)."""
        rows = self.rows(X)
        out = np.empty((rows.shape[0], len(natural)), rows.dtype)
        if sparse.issparse(rows):
            csr = rows.data, rows.indices, rows.indptr
            _counts.log_density(*csr, natural.T.copy(), offset, NOTHING, out, n_threads)
        else:
            origin = np.zeros(rows.shape[1])
            _natural.log_density(
                rows, origin, self.kernel, natural, offset, NOTHING, out, n_threads
            )
        return out

    def sums(self, X, weights, n_threads):
        """Return sums over rows of weights of any sign, (K,), and times phi, (K, n_features)."""
        rows, weights = self.rows(X), np.ascontiguousarray(weights)
        counts, totals = np.empty(weights.shape[1]), np.empty(self.mean.shape)
        if sparse.issparse(rows):
            totals = totals.T.copy()
            csr = rows.data, rows.indices, rows.indptr
            _counts.statistics(*csr, weights, counts, totals, n_threads)
            return counts, totals.T
        origin = np.zeros(rows.shape[1])
        _natural.statistics(rows, origin, self.kernel, weights, counts, totals, n_threads)
        return counts, totals

    def size(self, v):
        """Return the relative change of log densities along v."""
        return np.abs(v).max()

    def frames(self):
        """Yield (components, function of rows, tangents), in which no digits are lost."""
        yield slice(None), lambda X: X, self

    def effective_counts(self, statistics):
        """Return the weight of each coordinate's information in statistics, (K, n_own)."""
        return np.repeat(self.family.effective_counts(statistics)[:, None], self.n_own, axis=1)

    def score(self, statistics):
        """Return the scores of statistics, (K, n_own)."""
        return self.whitened(statistics.total - statistics.weight[:, None] * self.mean)

    def unsolved(self, statistics):
        """Return the scores that iterations of the M-step have left, or 0 where it has none."""
        return 0.0

    def _unsolved_by_roots(self, statistics):
        """Return them where parameters are means, and natural ones are found by iterations."""
        found = self.family.from_natural(self.family.to_natural(self.parameters))
        return self.whitened(statistics.weight[:, None] * (self.parameters - found))

    def is_proper(self, prior):
        """Return whether pseudo-statistics leave parameters away from the bounds of their range."""
        return bool((self.effective_counts(prior) >= 0.0).all())

    def floor_penalty(self, statistics):
        """Return the log density of pseudo-data that floors of variances stand for, in nats."""
        return 0.0

    @abstractmethod
    def natural(self, v):
        """Return nu, of shape (K, n_features)."""

    @abstractmethod
    def whitened(self, raw):
        """Return the scores of sums of phi(x) - mu, (K, n_own): the adjoint of `natural`."""

    def moved(self, v):
        """Return parameters moved along v."""
        natural = self.family.to_natural(self.parameters) + self.natural(v)
        return self.family.from_natural(natural)

    def raised(self, after, share):
        """Return parameters with entries near zero raised that an M-step raises.

        `after` are the tangents after the M-step. The entries become a share of their row's mean;
        None: there are none.
        """
        return None


class _ProductTangents(Tangents):
    """Tangents of independent features, each with one natural parameter."""

    @property
    @abstractmethod
    def deviation(self):
        """Standard deviations of the features."""

    @property
    def is_free(self):
        return self.parameters > _BOUND * self.parameters.max(axis=0)

    def natural(self, v):
        return v / self.deviation

    def whitened(self, raw):
        return raw / self.deviation


class PoissonTangents(_ProductTangents):
    """Directions of the rates of Poisson distributions."""

    @property
    def deviation(self):
        return np.sqrt(self.parameters)

    @property
    def is_free(self):
        return super().is_free & (self.parameters > 2.0 * self.family.min_rate)

    def size(self, v):
        return np.maximum(np.abs(v), np.abs(self.natural(v))).max()

    def raised(self, after, share):
        rows = _raised(self.parameters.T, after.parameters.T, share)
        return None if rows is None else rows.T


class BernoulliTangents(_ProductTangents):
    """Directions of probabilities of bits."""

    def is_proper(self, prior):
        return bool(((0.0 <= prior.total) & (prior.total <= prior.weight[:, None])).all())

    @property
    def deviation(self):
        return np.sqrt(self.parameters * (1.0 - self.parameters))

    @property
    def is_free(self):
        return np.minimum(self.parameters, 1.0 - self.parameters) > _BOUND

    def size(self, v):
        return np.abs(self.natural(v)).max()

    @property
    def _shares(self):
        return Shares(np.stack([self.parameters, 1.0 - self.parameters], axis=-1))

    def raised(self, after, share):
        rows = self._shares.raised(after._shares, share)
        return None if rows is None else rows[..., 0]


class DurationTangents(_ProductTangents):
    """Tangents of means of exponential variables, and of gamma variables of a known shape."""

    @property
    def _shape(self):
        return getattr(self.family, "shape", 1.0)

    @property
    def deviation(self):
        return self.parameters / np.sqrt(self._shape)

    def moved(self, v):
        return self.parameters * np.exp(v / np.sqrt(self._shape))


class GammaTangents(Tangents):
    """Tangents of shapes a and rates r, by a Cholesky factor of the covariance of log x and x."""

    parts = {"shapes and rates": slice(None)}
    unsolved = Tangents._unsolved_by_roots

    @cached_property
    def _factor(self):
        shapes, rates = self.family.shapes_and_rates(self.parameters)
        a = np.sqrt(polygamma(1, shapes))
        b = 1.0 / (rates * a)
        return a, b, np.sqrt(shapes / rates**2 - b**2)

    def natural(self, v):
        a, b, c = self._factor
        first, second = np.split(v, 2, axis=1)
        return np.concatenate([(first - b * second / c) / a, second / c], axis=1)

    def whitened(self, raw):
        a, b, c = self._factor
        of_log, of_x = np.split(raw, 2, axis=1)
        return np.concatenate([of_log / a, (of_x - b * of_log / a) / c], axis=1)

    def moved(self, v):
        # Shapes and rates are positive for any v.
        before = np.concatenate(self.family.shapes_and_rates(self.parameters), axis=1)
        of_shapes, negative = np.split(self.natural(v), 2, axis=1)
        change = np.concatenate([of_shapes, -negative], axis=1)
        shapes, rates = np.split(before * np.exp(change / before), 2, axis=1)
        return self.family.from_natural(np.concatenate([shapes - 1.0, -rates], axis=1))


class _ShareTangents(Tangents):
    """Tangents of probabilities of symbols, which sum to 1."""

    parts = {"probabilities": slice(None)}

    @property
    @abstractmethod
    def _shares(self):
        """All rows of probabilities."""

    def is_proper(self, prior):
        return bool((prior.total >= 0.0).all())

    def _rows(self, values):
        return values.reshape(self._shares.p.shape)

    def _by_row(self, function, values):
        return function(self._rows(values)).reshape(values.shape)

    def natural(self, v):
        return self._by_row(self._shares.logarithms, v)

    def whitened(self, raw):
        return self._by_row(self._shares.score, raw)

    @property
    def is_free(self):
        return self._shares.is_free.reshape(self.mean.shape)

    def size(self, v):
        return np.abs(self.natural(v)).max()

    def raised(self, after, share):
        rows = self._shares.raised(after._shares, share)
        return None if rows is None else self._with(rows)

    def moved(self, v):
        return self._with(self._shares.moved(self._rows(v)))

    @abstractmethod
    def _with(self, rows):
        """Return parameters with other probabilities."""


class MultinomialTangents(_ShareTangents):
    """Tangents of probabilities of counts, each of which is an observation."""

    @cached_property
    def _shares(self):
        return Shares(self.family.probabilities(self.parameters))

    def _with(self, rows):
        return self.parameters.sum(axis=1, keepdims=True) * rows


class CategoricalTangents(_ShareTangents):
    """Tangents of the probabilities of symbols in each column, which may have several numbers."""

    @cached_property
    def _places(self):
        """Which numbers of a table of columns by the most symbols are of symbols, (d, C)."""
        sizes = np.array([p.shape[1] for p in self.family.probabilities(self.parameters)])
        return np.arange(sizes.max()) < sizes[:, None]

    def _rows(self, flat):
        out = np.zeros((len(flat), *self._places.shape))
        out[:, self._places] = flat
        return out.reshape(-1, out.shape[2])

    @cached_property
    def _shares(self):
        return Shares(self._rows(self.parameters))

    def _by_row(self, function, values):
        return self._with(function(self._rows(values)))

    def _with(self, rows):
        return rows.reshape(-1, *self._places.shape)[:, self._places]

    @property
    def is_free(self):
        return self._with(self._shares.is_free)


class MarkovChainTangents(_ShareTangents):
    """Tangents of first symbols and transitions, given the visits of each symbol in the data."""

    @property
    def _n_symbols(self):
        return n_symbols_of(self.mean.shape[1])

    @cached_property
    def _shares(self):
        return Shares(self.family.probabilities(self.parameters).reshape(-1, self._n_symbols))

    def _visits(self, counts):
        """Return the uses of each row of probabilities, for its entries, (K, n_features)."""
        visits = counts.reshape(len(counts), -1, self._n_symbols).sum(axis=2)
        return np.repeat(visits, self._n_symbols, axis=1)

    def effective_counts(self, statistics):
        return self._visits(statistics.total)

    def _with(self, rows):
        return self._visits(self.parameters) * rows.reshape(self.mean.shape)

    @property
    def parts(self):
        n = self._n_symbols
        moves = {"transitions": slice(-n * n, None)}
        return {"first symbols": slice(0, n), **moves} if self._has_starts else moves

    @property
    def _has_starts(self):
        return has_starts(self.mean.shape[1])


class CompoundDirichletTangents(Tangents):
    r"""Tangents of alpha, by the symmetric root of the information of proportions.

    .. math:: \operatorname{diag}(\psi'(\alpha)) - \psi'(\alpha_0) 1 1'
        = D^{1/2} (I - c u u') D^{1/2} = L L', \quad L = D^{1/2} (I - \gamma u u')

    Proportions are hidden: there are no features of rows, only their expectations.
    """

    has_features = False
    parts = {"alpha": slice(None)}

    unsolved = Tangents.score

    @cached_property
    def mean(self):
        return psi(self.parameters.alpha) - psi(self.parameters.precision)

    @property
    def is_free(self):
        alpha = self.parameters.alpha
        return alpha > 2.0 * self.family.min_alpha

    @cached_property
    def _root(self):
        """Return D^1/2, u, and the d of (I - gamma u u')^-1 = I + d u u'."""
        root = np.sqrt(polygamma(1, self.parameters.alpha))
        u = 1.0 / root
        square = (u**2).sum(axis=1, keepdims=True)
        left = np.sqrt(1.0 - polygamma(1, self.parameters.precision) * square)
        return root, u, (1.0 - left) / (left * square)

    def natural(self, v):
        root, u, d = self._root
        return (v + d * u * (u * v).sum(axis=1, keepdims=True)) / root

    def whitened(self, raw):
        root, u, d = self._root
        raw = raw / root
        return raw + d * u * (u * raw).sum(axis=1, keepdims=True)

    def size(self, v):
        return np.maximum(np.abs(v), np.abs(self.natural(v)) / self.parameters.alpha).max()

    def moved(self, v):
        alpha = self.parameters.alpha * np.exp(self.natural(v) / self.parameters.alpha)
        return self.family.dirichlets(alpha, self.parameters.length)
