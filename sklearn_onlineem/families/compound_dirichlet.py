"""Compound Dirichlet (Dirichlet-multinomial, Polya) documents: bursty counts of any length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, stats
from scipy.special import gammaln, logsumexp, polygamma, psi

from sklearn_onlineem._checks import LEAST, MOST_SHAPE, above, at_least, check_setting
from sklearn_onlineem._kernels import _compound_dirichlet, _counts
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted, task
from sklearn_onlineem.data.sparse import check_non_negative
from sklearn_onlineem.families._collapsed import drawn_proportions, log_gammas, mean_total
from sklearn_onlineem.families._events import counted_events, events_of, moments, word_counts
from sklearn_onlineem.families._family import Family, mean_of
from sklearn_onlineem.families._start_coordinates import hellinger
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
    HiddenVariables,
    Means,
)
from sklearn_onlineem.families.multinomial import multinomial_covariances
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import Tangents
from sklearn_onlineem.statistics import Statistics

# Proportions drawn at a time.
_BLOCK_VALUES = 1 << 18


@dataclass(frozen=True)
class Dirichlets:
    """The parameters of K compound Dirichlet components.

    Parameters
    ----------
    alpha : ndarray of shape (K, n_features)
        Above 0. Its sum, which must be finite, is the precision: the smaller, the burstier.
    length : ndarray of shape (K,)
        Mean length of documents, in words. Densities do not depend on it.
    """

    alpha: Floats
    length: Floats

    def __post_init__(self):
        if not isinstance(self.alpha, np.ndarray) or self.alpha.ndim != 2:
            raise ValueError("alpha must be an array of shape (K, n_features).")
        if not self.alpha.min(initial=np.inf) > 0.0 or not self.alpha.sum() < np.inf:
            raise ValueError("alpha must be above 0, and have a finite sum.")

    @property
    def precision(self) -> Floats:
        """Sums of alpha, an ndarray of shape (K, 1)."""
        return self.alpha.sum(axis=1, keepdims=True)

    @property
    def extended(self) -> Floats:
        """Alpha, and its sum at the end, as kernels take them."""
        return np.concatenate([self.alpha, self.precision], axis=1)


@dataclass(frozen=True)
class ExpectedLogs(Statistics):
    r"""Sums of :math:`E[\log h \mid v, \alpha]`, one row per component.

    Parameters
    ----------
    weight : ndarray of shape (K,)
        Number of draws of h behind each total, with the prior's pseudo-documents.
    total : ndarray of shape (K, n_features)
        The sums, in nats.
    documents : ndarray of shape (K,)
        Weight of the documents alone.
    length : ndarray of shape (K,)
        Sums of document lengths.
    """

    weight: Floats
    total: Floats
    documents: Floats
    length: Floats


class CompoundDirichletTangents(Tangents):
    r"""Tangents of alpha, by the symmetric root of the information of proportions.

    .. math:: \operatorname{diag}(\psi'(\alpha)) - \psi'(\alpha_0) 1 1'
        = D^{1/2} (I - c u u') D^{1/2} = L L', \quad L = D^{1/2} (I - \gamma u u')

    Proportions are hidden: statistics have their expectations.
    """

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


def _put_alpha(family, parameters, alpha):
    alpha = above("alpha_", np.atleast_2d(alpha), 0.0, parameters.alpha.shape)
    return family.dirichlets(alpha, parameters.length)


@dataclass(frozen=True)
class CompoundDirichlet(
    HiddenVariables[Dirichlets, ExpectedLogs],
    Family[Dirichlets, ExpectedLogs],
    Means[Dirichlets],
    ConjugatePriors[Dirichlets, ExpectedLogs],
    ColumnDistributions[Dirichlets],
):
    r"""Counts of words in documents, with proportions that each document draws from a Dirichlet.

    .. math::
        & h \sim \mathrm{Dir}(\alpha), \quad v \mid h \sim \mathrm{Mult}(L, h), \\
        & p(v \mid L, \alpha) = \frac{L! \, \Gamma(\alpha_0)}{\Gamma(\alpha_0 + L)}
        \prod_j \frac{\Gamma(\alpha_j + v_j)}{v_j! \, \Gamma(\alpha_j)}

    with :math:`\alpha_0 = \sum_j \alpha_j`. The sufficient statistic is the expectation
    :math:`E[\log h_j \mid v] = \psi(\alpha_j + v_j) - \psi(\alpha_0 + L)` under the *old*
    parameters, and Newton's method solves the M-step. Divergences are those of the Dirichlets, as
    words do not depend on :math:`\alpha` given h. Parameters are `Dirichlets`. Dense and CSR data.
    Counts need not be whole: :math:`v!` is :math:`\Gamma(v + 1)`.

    Parameters
    ----------
    min_alpha : float, default=1e-10
        Floor of alpha, the value for a word that a component never saw; from 1e-100 to 1e15.
    max_precision : float, default=1e6
        Ceiling of the sum of alpha, near which components are multinomial; from 1e-100 to 1e15.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 5; Minka, "Estimating a Dirichlet distribution", 2000.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import CompoundDirichlet
    >>> from sklearn_onlineem.families.compound_dirichlet import Dirichlets
    >>> urn = Dirichlets(alpha=np.array([[1.0, 1.0]]), length=np.array([2.0]))
    >>> np.exp(CompoundDirichlet().log_density(urn, np.array([[2.0, 0.0]]))).round(12)
    array([[0.33333333]])
    """

    is_whole = True
    start_maps = (hellinger,)
    tangents = CompoundDirichletTangents

    min_alpha: float = 1e-10
    max_precision: float = 1e6

    support_is_convex = True
    takes_sparse = True
    parts = (
        means_part(),
        Part("alpha", "positive", "kd", lambda family, parameters: parameters.alpha, _put_alpha),
    )

    def __post_init__(self):
        check_setting("min_alpha", self.min_alpha, LEAST, MOST_SHAPE)
        check_setting("max_precision", self.max_precision, LEAST, MOST_SHAPE)

    def check(self, X: FloatsOrSparse) -> None:
        check_non_negative(X)

    def check_means(self, means: Floats) -> None:
        super().check_means(means)
        if not means.any(axis=1).all():
            raise ValueError("Means must not be all 0: they determine no proportions.")

    def dirichlets(self, alpha: Floats, length: Floats) -> Dirichlets:
        """Return parameters with these values of alpha, moved between floor and ceiling.

        Alpha, (K, n_features), is above 0, and lengths, (K,), are means of documents in words.

        Parameters
        ----------
        alpha : ndarray of shape (K, n_features)
            Above 0.
        length : ndarray of shape (K,)
            Mean lengths of documents, in words.
        """
        alpha = np.ascontiguousarray(np.maximum(alpha, self.min_alpha))
        excess = alpha.sum(axis=1, keepdims=True) / self.max_precision
        return Dirichlets(np.maximum(alpha / np.maximum(excess, 1.0), self.min_alpha), length)

    def with_mean_length(
        self, parameters: Dirichlets, X: FloatsOrSparse, sample_weight: Floats | None = None
    ) -> Dirichlets:
        """Return parameters with the same alpha, and the mean length of the documents X."""
        length = np.full(len(parameters.alpha), mean_total(X, sample_weight))
        return Dirichlets(parameters.alpha, length)

    def log_density(self, parameters: Dirichlets, X: FloatsOrSparse, n_threads: int = 1) -> Floats:
        events = events_of(X)
        out = np.zeros((X.shape[0], len(parameters.alpha)), dtype=events.indicators[0].dtype)
        if len(events.words):
            terms = self._log_terms(parameters, events, n_threads)
            offset = np.zeros(out.shape[1])
            wanted = task(out=out)
            _counts.mixture_pass(*events.indicators, terms, offset, wanted, None, None, n_threads)
        return out

    def expected_statistics(
        self, X: FloatsOrSparse, responsibilities: Floats, n_threads: int = 1
    ) -> ExpectedLogs:
        # No parameters are given, so take those with the moments of the data. EM itself uses
        # `posterior_statistics`.
        events = events_of(X)
        weight, totals = events.totals(responsibilities, n_threads)
        parameters = self.dirichlets(*moments(events, totals, weight, X.shape[1]))
        return self.own_statistics(parameters, weight)

    def posterior_statistics(
        self,
        parameters: Dirichlets,
        X: FloatsOrSparse,
        posterior: Floats,
        n_threads: int = 1,
        rng: Generator | None = None,
    ) -> ExpectedLogs:
        if rng is not None:
            return self._sampled_statistics(parameters, X, posterior, rng)
        events = events_of(X)
        weight, totals = events.totals(posterior, n_threads)
        return self._statistics(parameters, events, weight, totals, n_threads)

    def _sampled_statistics(self, parameters, X, posterior, rng):
        # Draws h ~ Dir(alpha + v).
        total, length = np.zeros(parameters.alpha.shape), np.zeros(len(parameters.alpha))
        step = max(1, _BLOCK_VALUES // X.shape[1])
        for start in range(0, X.shape[0], step):
            shares = np.asarray(posterior[start : start + step], dtype=np.float64)
            counts = X[start : start + step]
            counts = counts.toarray() if sparse.issparse(counts) else counts
            length += counts.sum(axis=1, dtype=np.float64) @ shares
            for k, alpha in enumerate(parameters.alpha):
                rows = np.flatnonzero(shares[:, k])
                logs = log_gammas(alpha + counts[rows], rng)
                logs -= logsumexp(logs, axis=1, keepdims=True)
                total[k] += shares[rows, k] @ logs
        weight = posterior.sum(axis=0, dtype=np.float64)
        return ExpectedLogs(weight, total, weight, length)

    def own_statistics(self, parameters: Dirichlets, weights: Floats) -> ExpectedLogs:
        mean_logs = psi(parameters.alpha) - psi(parameters.precision)
        total, length = weights[:, None] * mean_logs, weights * parameters.length
        return ExpectedLogs(weights, total, weights, length)

    def m_step(self, statistics: ExpectedLogs, previous: Dirichlets | None = None) -> Dirichlets:
        alpha = np.zeros_like(statistics.total) if previous is None else previous.alpha.copy()
        length = np.ones(len(alpha)) if previous is None else previous.length
        seen = statistics.weight > 0
        if seen.any():
            mean_logs = mean_of(statistics, alpha)[seen]
            solution = alpha[seen]
            _compound_dirichlet.solve(np.minimum(mean_logs, -1e-12), solution)
            alpha[seen] = solution
        n, length = statistics.documents, length.copy()
        np.divide(statistics.length, n, out=length, where=n > 0)
        return self.dirichlets(alpha, length)

    def expected_log_density(self, parameters: Dirichlets, statistics: ExpectedLogs) -> float:
        alpha = parameters.alpha
        log_partition = gammaln(alpha).sum(axis=1) - gammaln(parameters.precision)[:, 0]
        inner = np.einsum("kj,kj->", statistics.total, alpha)
        return float(inner - statistics.weight @ log_partition)

    def kl_divergence(self, p: Dirichlets, q: Dirichlets) -> Floats:
        a, b = p.alpha, q.alpha
        mean_logs = psi(a) - psi(p.precision)
        sums = (gammaln(p.precision) - gammaln(q.precision))[:, 0]
        return sums + ((gammaln(b) - gammaln(a)) + (a - b) * mean_logs).sum(axis=1)

    def sample(
        self,
        parameters: Dirichlets,
        components: Integers,
        rng: Generator,
        lengths: Integers | None = None,
    ) -> Floats:
        """Draw documents of given lengths, (n_rows,), or of their components' mean lengths.

        Parameters
        ----------
        parameters, components, rng
            As in `Family.sample`.
        lengths : ndarray of int of shape (n_rows,), default=None
            Words of each document; None: the mean length of its component, rounded.
        """
        if lengths is None:
            lengths = np.rint(parameters.length)[components]
        proportions = self.sample_proportions(parameters, components, rng)
        return rng.multinomial(np.asarray(lengths, np.int64), proportions).astype(np.float64)

    def sample_like(
        self, parameters: Dirichlets, components: Integers, X: FloatsOrSparse, rng: Generator
    ) -> Floats:
        lengths = np.rint(np.asarray(X.sum(axis=1), dtype=np.float64)).ravel()
        return self.sample(parameters, components, rng, rng.choice(lengths, len(components)))

    def sample_proportions(
        self, parameters: Dirichlets, components: Integers, rng: Generator
    ) -> Floats:
        """Draw h, the proportions of words in a document, one row for each component index."""
        return drawn_proportions(parameters.alpha[components], rng)

    def of_moments(self, rows: Rows) -> Dirichlets:
        """Return one component with the moments of `Rows`, by their weights and labels."""
        events, weight, totals = self._counted(rows)
        return self.dirichlets(*moments(events, totals, weight, rows.X.shape[1]))

    def likelihood_step(self, parameters: Dirichlets, rows: Rows) -> tuple[Dirichlets, float, bool]:
        """Take the Newton step of `NewtonSteps` on the likelihood of `Rows`, for one component."""
        events, _, totals = self._counted(rows)
        words, *counts = rows.remember(
            "word counts", lambda: word_counts(events, totals[:, 0], rows.X.shape[1])
        )
        alpha = np.empty(parameters.alpha.size + 1)
        log_likelihood, settled = _compound_dirichlet.ascend(
            *counts, parameters.alpha[0, words], self.min_alpha, self.max_precision, alpha
        )
        new = np.empty_like(parameters.alpha)
        new[0, words] = alpha[:-1]
        return Dirichlets(new, parameters.length), log_likelihood / rows.total_weight, settled

    def posterior_mean(self, parameters: Dirichlets, X: FloatsOrSparse) -> Floats:
        r"""Return :math:`E[h \mid v] = (\alpha + v) / (\alpha_0 + L)` under the first component."""
        counts = X.toarray() if hasattr(X, "toarray") else X
        smoothed = counts + parameters.alpha[0].astype(counts.dtype)
        return smoothed / smoothed.sum(axis=1, keepdims=True)

    def means(self, parameters: Dirichlets) -> Floats:
        return parameters.length[:, None] * parameters.alpha / parameters.precision

    def with_means(self, parameters: Dirichlets, means: Floats) -> Dirichlets:
        # Precisions do not change.
        length = means.sum(axis=1)
        return self.dirichlets(parameters.precision * means / length[:, None], length)

    def distribution(self, parameters: Dirichlets, column: int) -> Distribution:
        # Documents have the component's mean length, as samples have.
        alpha, precision = parameters.alpha[:, column], parameters.precision[:, 0]
        return stats.betabinom(np.rint(parameters.length), alpha, precision - alpha)

    def covariances(self, parameters: Dirichlets) -> Floats:
        lengths, precision = np.rint(parameters.length), parameters.precision
        scales = lengths * (lengths + precision[:, 0]) / (1.0 + precision[:, 0])
        return multinomial_covariances(scales, parameters.alpha / precision)

    def n_parameters(self, parameters: Dirichlets) -> int:
        return parameters.alpha.size

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        pseudo_count: ArrayLike = 0.0,
        concentration: ArrayLike = 1.0,
    ) -> ExpectedLogs:
        """Return a prior worth `pseudo_count` documents of proportions from a symmetric Dirichlet.

        Parameters
        ----------
        pseudo_count : float, default=0.0
            Pseudo-documents, not below 0.
        concentration : float, default=1.0
            Of the Dirichlet, above 0.
        """
        pseudo_count = at_least("pseudo_count", pseudo_count, 0.0)
        concentration = above("concentration", concentration, 0.0)
        mean_log = psi(concentration) - psi(n_features * concentration)
        total = np.full((n_components, n_features), pseudo_count * mean_log)
        weight = np.full(n_components, pseudo_count)
        return ExpectedLogs(weight, total, np.zeros(n_components), np.zeros(n_components))

    def e_step(
        self, parameters: Dirichlets, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, ExpectedLogs, float]:
        is_single = len(log_weights) == 1 and wanted.log_likelihoods is None
        if is_single:
            events, counts, totals = self._counted(rows)
        else:
            events = rows.remember("events", lambda: events_of(rows.X))
        total_weight, n_threads = rows.total_weight, rows.n_threads
        if not len(events.words):
            return super().e_step(parameters, log_weights, rows, wanted)
        terms = self._log_terms(parameters, events, n_threads)
        if is_single:
            log_likelihood = float(totals[:, 0] @ terms[:, 0])
        else:
            counts, totals = np.empty(terms.shape[1]), np.empty_like(terms)
            log_likelihood = _counts.mixture_pass(
                *events.indicators, terms, np.asarray(log_weights, dtype=np.float64),
                task(rows, *wanted), counts, totals, n_threads,
            )  # fmt: skip
            if len(log_weights) == 1:
                # Sums of the same rows have the same bits, however they are asked for.
                found = events, counts, totals
                events, counts, totals = rows.remember("counts of counts", lambda: found)
        statistics = self._statistics(parameters, events, counts, totals, n_threads)
        share = 1.0 / total_weight
        return counts * share, statistics.scale(share), log_likelihood * share

    def _counted(self, rows):
        """Return `counted_events`, the same for all parameters of a single component."""
        return rows.remember("counts of counts", lambda: counted_events(rows.X, rows.sample_weight))

    def _log_terms(self, parameters, events, n_threads):
        terms = np.empty((len(events.words), len(parameters.alpha)))
        _compound_dirichlet.log_terms(
            events.words, events.counts, parameters.extended, terms, n_threads
        )
        return terms

    def _statistics(self, parameters, events, weight, totals, n_threads=1):
        expected = np.empty(parameters.alpha.shape)
        _compound_dirichlet.expected_logs(
            events.words, events.counts, totals, weight, parameters.extended, expected, n_threads
        )
        of_lengths = events.words == expected.shape[1]
        length = events.counts[of_lengths] @ totals[of_lengths]
        return ExpectedLogs(weight, expected, weight, length)
