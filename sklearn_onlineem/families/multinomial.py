"""Multinomial counts of any length."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, stats

from sklearn_onlineem._checks import LEAST, above, check_setting, shares_as_given
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._e_step import log_of
from sklearn_onlineem.families._family import (
    ExponentialFamily,
    linear_e_step,
    linear_log_density,
    promoted,
)
from sklearn_onlineem.families._start_coordinates import hellinger, unchanged
from sklearn_onlineem.families._word_tables import (
    WordSum,
    WordSums,
    WordTable,
    few_words,
    word_divergences,
)
from sklearn_onlineem.families.capabilities import ColumnDistributions, Distribution
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.poisson import Poisson, log_factorial_sums
from sklearn_onlineem.families.tangents import Shares, ShareTangents
from sklearn_onlineem.statistics import Sums

# So that shares of it are normal numbers.
_LEAST_SUM = np.finfo(float).tiny / 1e-16


@dataclass(frozen=True)
class GroupedCounts(ExponentialFamily[Floats, Sums], _collapsed.CollapsedCounts):
    """Base of families of counts in groups, in each of which probabilities add up to 1.

    Parameters are *unnormalised* means of shape (K, n_features). By default there is one group.

    Parameters
    ----------
    min_probability : float, default=1e-12
        Floor of the probabilities, from 1e-100 to 1.
    mean_total : ndarray of shape (1,), default=None
        Mean sum of the first rows, from `bind`: pseudo-counts of priors are in so long rows.
    """

    min_probability: float = 1e-12
    mean_total: Floats | None = None

    support_is_convex = True
    takes_sparse = True
    start_maps = hellinger, unchanged

    def __post_init__(self):
        check_setting("min_probability", self.min_probability, LEAST, 1.0)

    bind, check = Poisson.bind, Poisson.check

    def with_mean_length(
        self, parameters: Floats, X: FloatsOrSparse, sample_weight: Floats | None = None
    ) -> Floats:
        """Return parameters with the same probabilities, and the mean sum of the rows."""
        length = _collapsed.mean_total(X, sample_weight)
        means = self.regularise(parameters * (length / parameters.sum(axis=1, keepdims=True)))
        return np.where(parameters > 0.0, means, 0.0)

    def to_natural(self, parameters: Floats) -> Floats:
        # Probabilities that are fixed may be 0.
        return log_of(self.probabilities(parameters))

    def from_natural(self, natural: Floats) -> Floats:
        # Means for sums of 1: natural parameters do not depend on the sums of groups.
        return self.probabilities(np.exp(natural))

    def _groups(self, flat):
        """Return columns by their groups, (n_rows, n_groups, size)."""
        return flat[:, None]

    def _terms(self, parameters, n_statistics):
        # The log-partition of probabilities is 0.
        return self.to_natural(parameters), np.zeros(len(parameters))

    def log_partition(self, natural: Floats) -> Floats:
        # For one draw of each group; 0 for normalised probabilities.
        return np.log(self._groups(np.exp(natural)).sum(axis=2)).sum(axis=1)

    def regularise(self, mean: Floats) -> Floats:
        groups = self._groups(mean)
        sums = np.maximum(np.add.reduce(groups, axis=2, keepdims=True), _LEAST_SUM)
        return np.maximum(groups, self.min_probability * sums).reshape(mean.shape)

    def n_parameters(self, parameters: Floats) -> int:
        n_components, n_groups, size = self._groups(parameters).shape
        return n_components * n_groups * (size - 1)

    def predictive_log_density(
        self, statistics: Sums, X: FloatsOrSparse, n_threads: int = 1
    ) -> Floats:
        concentration = _collapsed.concentration_of(self, statistics)
        log_density = _collapsed.log_rising_sums(X, concentration)
        of_groups = self._groups(concentration)
        membership = np.repeat(np.eye(of_groups.shape[1]), of_groups.shape[2], axis=0)
        for totals, sums in zip(of_groups.sum(axis=2).T, (X @ membership).T, strict=True):
            log_density -= _collapsed.log_rising(totals, sums[:, None])
        base = self.log_base_measure(X, n_threads)
        return log_density + base[:, None] if len(base) else log_density

    def _swept(self, prior, X):
        if sparse.issparse(X) and not X.has_sorted_indices:
            X = X.sorted_indices()
        alpha = _collapsed.concentration_of(self, prior)
        group = {"group": self._groups(alpha).shape[2]}
        return _collapsed_counts.MULTINOMIAL, X, alpha, group

    def _pseudo_counts(self, total):
        # In rows of the mean length, so that priors do not change the lengths of components.
        return Sums(_collapsed.rows_of(total.sum(axis=1), self.mean_total), total)

    def mean_form(self, prior: Sums) -> Sums:
        return prior + self._pseudo_counts(np.ones_like(prior.total))

    @abstractmethod
    def probabilities(self, parameters: Floats) -> Floats:
        """Return the probabilities, means divided by the sums of their groups, (K, n_features)."""

    def kl_divergence(self, p: Floats, q: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratios = np.log(self.probabilities(p) / self.probabilities(q))
            divergences = np.einsum("kp,kp->k", p, log_ratios)
        if math.isnan(divergences.sum()):  # 0 log 0 is 0.
            divergences = np.einsum("kp,kp->k", p, np.where(p > 0.0, log_ratios, 0.0))
        return divergences


def _probabilities(name):
    def get(family, parameters):
        return family.probabilities(parameters)

    def put(family, parameters, values):
        return shares_as_given(f"{name}_", values) * parameters.sum(axis=1, keepdims=True)

    return Part(name, "probability", "kd", get, put, has_floor=True)


class CountTangents(ShareTangents):
    """Tangents of probabilities of counts, each of which is an observation of its group."""

    @cached_property
    def _shares(self):
        size = self.family._groups(self.parameters).shape[2]
        return Shares(self.family.probabilities(self.parameters).reshape(-1, size))

    def _sums(self, counts):
        """Return the sums of groups, for each of their entries, (K, n_features)."""
        groups = self.family._groups(counts)
        return np.repeat(groups.sum(axis=2), groups.shape[2], axis=1)

    def effective_counts(self, statistics):
        return self._sums(statistics.total)

    def _with(self, rows):
        return self._sums(self.parameters) * self._flat(rows)


@dataclass(frozen=True)
class Multinomial(GroupedCounts, ColumnDistributions[Floats]):
    r"""Counts of n categories in documents whose lengths are given, not modelled.

    .. math:: p(x \mid \text{length}, p) = \frac{(\sum_j x_j)!}{\prod_j x_j!} \prod_j p_j^{x_j}

    Parameters are *unnormalised* means :math:`\mu = L p` of shape (K, n_features). Their sum
    :math:`L = E[\text{length} \mid k]` is part of the inertia of online EM; normalised, they are
    the probabilities. :math:`\theta = \log p`, at which the log-partition is 0. Dense and CSR data.
    Counts need not be whole: :math:`x!` is :math:`\Gamma(x + 1)`.

    Parameters
    ----------
    min_probability : float, default=1e-12
        Floor of the probabilities in M-steps, from 1e-100 to 1, so that all symbols have a
        probability.
    mean_total : ndarray of shape (1,), default=None
        Mean sum of the first rows, from `bind`: pseudo-counts of priors are in so long rows.

    References
    ----------
    Brochu, de Freitas & Bao, "Owed to a Martingale", 2004; Amid & Warmuth, UAI 2020, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Multinomial
    >>> np.exp(Multinomial().log_density(np.array([[1.0, 3.0]]), np.array([[1.0, 1.0]])))
    array([[0.375]])
    """

    is_whole = True
    tangents = CountTangents

    parts = (means_part(), _probabilities("probabilities"), _probabilities("emissionprob"))

    def probabilities(self, parameters: Floats) -> Floats:
        return parameters / parameters.sum(axis=1, keepdims=True)

    def log_base_measure(self, X: FloatsOrSparse, n_threads: int = 1) -> Floats:
        return log_factorial_sums(X, n_threads, minus_that_of_the_sum=True)

    # The methods below also take parameters as a `WordTable`.

    def log_density(
        self, parameters: Floats | WordTable, X: FloatsOrSparse, n_threads: int = 1
    ) -> Floats:
        X = _without_zeros(parameters, X)
        few = few_words(X, len(parameters))
        if few is None:
            return super().log_density(_as_array(parameters), X, n_threads)
        phi, base = promoted(few[1]), self.log_base_measure(X, n_threads)
        natural = _log_probabilities(parameters, few[0])
        return linear_log_density(phi, base, natural, np.zeros(len(natural)), n_threads)

    def e_step(
        self,
        parameters: Floats | WordTable,
        log_weights: Floats,
        rows: Rows,
        wanted: Wanted = PLAIN,
    ) -> tuple[Floats, Sums, float]:
        X = _without_zeros(parameters, rows.X)
        if X is not rows.X:
            rows = replace(rows, X=X)
        few = rows.remember("few words", lambda: few_words(rows.X, len(log_weights)))
        if few is None:
            return super().e_step(_as_array(parameters), log_weights, rows, wanted)
        words, X = few
        phi, base = promoted(X), self.log_base_measure(rows.X, rows.n_threads)
        counts, sums, log_likelihood = linear_e_step(
            phi, base, _log_probabilities(parameters, words), log_weights, rows, wanted
        )
        values = np.ascontiguousarray(sums.total.T)
        total = WordSum.of_words(rows.X.shape[1], words, values)
        return counts, WordSums(sums.weight, total), log_likelihood

    def own_statistics(self, parameters: Floats | WordTable, weights: Floats) -> Sums:
        if isinstance(parameters, WordTable):
            return WordSums(weights, WordSum.of_table(parameters, weights))
        return super().own_statistics(parameters, weights)

    def m_step(
        self, statistics: Sums, previous: Floats | WordTable | None = None
    ) -> Floats | WordTable:
        total = statistics.sum if isinstance(statistics, WordSums) else None
        if isinstance(total, WordSum) and (statistics.weight > 0.0).all():
            table = total.divided(statistics.weight)
            # None of its numbers is below the shift.
            if table is not None and (table.shift > self.min_probability * table.sums).all():
                return table
        return super().m_step(statistics, None if previous is None else _as_array(previous))

    def kl_divergence(self, p: Floats | WordTable, q: Floats | WordTable) -> Floats:
        if isinstance(p, WordTable) and isinstance(q, WordTable):
            return word_divergences(p, q) - p.sums * np.log(p.sums / q.sums)
        return super().kl_divergence(_as_array(p), _as_array(q))

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        # Documents of the component's mean length, rounded.
        lengths = np.rint(parameters.sum(axis=1)).astype(np.int64)
        probabilities = self.probabilities(parameters)
        return rng.multinomial(lengths[components], probabilities[components]).astype(np.float64)

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        # Rows have the component's mean length, as samples have.
        lengths = np.rint(parameters.sum(axis=1))
        return stats.binom(lengths, self.probabilities(parameters)[:, column])

    def covariances(self, parameters: Floats) -> Floats:
        return multinomial_covariances(
            np.rint(parameters.sum(axis=1)), self.probabilities(parameters)
        )

    def effective_counts(self, statistics: Sums) -> Floats:
        # Numbers of words of each component.
        return statistics.total.sum(axis=1)

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        return {"concentration": 1.5}

    def prior_statistics(
        self, n_components: int, *, n_features: int, concentration: ArrayLike = 1.0
    ) -> Sums:
        """Return a Dirichlet prior on the probabilities.

        Parameters
        ----------
        concentration : array broadcasting to (n_components, n_features), default=1.0
            Above 0; pseudo-counts of the categories are one less.
        """
        alpha = above("concentration", concentration, 0.0, (n_components, n_features))
        if alpha.strides[1]:
            return self._pseudo_counts(alpha - 1.0)
        # One number for all words: no array of all of them is made.
        total = WordSum.of_constants(n_features, alpha[:, 0] - 1.0)
        return WordSums(_collapsed.rows_of(total.sums, self.mean_total), total)

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        # Lengths have no prior: they are those of the statistics.
        alpha = _collapsed.concentration_of(self, statistics)
        probabilities = _collapsed.drawn_proportions(alpha, rng)
        weight, sums = statistics.weight, np.maximum(statistics.total.sum(axis=1), 0.0)
        mean = sums.sum() / weight.sum() if weight.sum() > 0.0 else 1.0
        length = np.divide(sums, weight, out=np.full(len(sums), mean), where=weight > 0.0)
        return self.regularise(length[:, None] * probabilities)


def multinomial_covariances(scales, probabilities):
    """Return scales_k (diag(p_k) - p_k p_k'), of shape (K, n_features, n_features)."""
    products = probabilities[:, :, None] * probabilities[:, None]
    diagonals = probabilities[:, :, None] * np.eye(probabilities.shape[1])
    return scales[:, None, None] * (diagonals - products)


def _as_array(parameters):
    """Return parameters as an array, (K, n_features)."""
    return parameters if isinstance(parameters, np.ndarray) else parameters.array_T


def _without_zeros(parameters, X):
    """Return X as CSR without zeros, whose products with -inf are NaN, unless none may be so."""
    if isinstance(parameters, WordTable) or np.count_nonzero(parameters) == parameters.size:
        return X
    if sparse.issparse(X) and np.count_nonzero(X.data) == X.nnz:
        return X
    X = sparse.csr_array(X, copy=True)
    X.eliminate_zeros()
    return X


def _log_probabilities(parameters, words):
    """Return the natural parameters of some words, (K, n)."""
    if isinstance(parameters, np.ndarray):
        return log_of(parameters[:, words] / parameters.sum(axis=1, keepdims=True))
    return np.log(parameters.at(words) / parameters.sums).T
