"""Mixtures as components: each has parts of a family of its own, one of which is hidden a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from scipy.special import rel_entr, xlogy

from sklearn_onlineem._checks import above, check_count, shares_as_given
from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Bools, Floats, FloatsOrSparse, Generator, Integers, Maps
from sklearn_onlineem._values import Nested, components, take
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._e_step import NOTHING, drawn_from, log_of
from sklearn_onlineem.families._family import Family
from sklearn_onlineem.families.capabilities import (
    ColumnDistributions,
    ConjugatePriors,
    Distribution,
    HiddenVariables,
    Marginals,
    Means,
    PosteriorMeans,
    mixture_quantiles,
    require,
)
from sklearn_onlineem.families.gaussian import variances
from sklearn_onlineem.families.parts import Part
from sklearn_onlineem.families.tangents import Shares, Tangents, tangents_of
from sklearn_onlineem.statistics import Statistics

# Share of each row of a first cluster that all parts of its component get alike: parts of a few
# equal rows have a variance, and all symbols. Passes of k-means that find the parts.
_ALIKE, _PASSES = 0.1, 20


@dataclass(frozen=True, eq=False)
class Submixtures(Nested):
    """The parameters of K mixtures of J parts.

    Parameters
    ----------
    weights : ndarray of shape (K, J)
        Weights of the parts, rows adding up to 1.
    inner : object
        Parameters of the family of the parts, of all K J: those of the first component first.
    """

    weights: Floats
    inner: object


@dataclass(frozen=True)
class SubmixtureStatistics(Nested, Statistics):
    """Expected statistics of K mixtures of J parts.

    Parameters
    ----------
    counts : ndarray of shape (K, J)
        Expected share of each part in the observations.
    inner : Statistics
        Statistics of the family of the parts, of all K J.
    """

    counts: Floats
    inner: Statistics


class SubmixtureTangents(Tangents):
    """Tangents of weights of parts, and of parameters of parts, which move as one where shared."""

    def __init__(self, family, parameters):
        super().__init__(family, parameters)
        self._inner = tangents_of(family.family)(family.family, parameters.inner)
        self._weights, n = Shares(parameters.weights), parameters.weights.shape[1]
        self._n, self._n_weights = n, n if n > 1 else 0

    @property
    def is_smooth(self):
        return self._inner.is_smooth

    @cached_property
    def _places(self):
        """Columns of the family that are each part's own, and those that parts share."""
        columns, inner = np.arange(self._inner.n_own), self._inner
        of_states = self.family._n_sharing > 1
        shared = columns[inner.parts["covariances"] if of_states else inner.shared]
        return np.setdiff1d(columns, shared), shared

    @property
    def n_own(self):
        own, shared = self._places
        return self._n_weights + self._n * len(own) + len(shared)

    @property
    def shared(self):
        if self.family.tied:
            return slice(self._n_weights, self.n_own)
        is_of_all = self._inner.shared.start != self._inner.shared.stop
        return slice(self.n_own - len(self._places[1]) if is_of_all else self.n_own, self.n_own)

    @property
    def parts(self):
        sizes, start = np.full(self._inner.n_own, self._n), self._n_weights
        sizes[self._places[1]] = 1
        found = {"weights": slice(0, start)} if start else {}
        for name, columns in self._inner.parts.items():
            stop = start + int(sizes[columns].sum())
            found[name], start = slice(start, stop), stop
        return found

    def _joined(self, weights, inner, total=np.sum):
        """Return the columns of a component, from those of weights and of parts; shared ones add.

        Columns of one part of the parameters are side by side.
        """
        own, shared = self._places
        inner = inner.reshape(*weights.shape, -1)
        of_each = inner[:, :, own].transpose(0, 2, 1).reshape(len(weights), -1)
        weights, shared = weights[:, : self._n_weights], total(inner[:, :, shared], axis=1)
        return np.concatenate([weights, of_each, shared], axis=1)

    def _inner_of(self, v):
        """Return the columns of all parts."""
        (own, shared), n, start = self._places, self._n, self._n_weights
        inner, end = np.empty((len(v), n, self._inner.n_own)), start + n * len(own)
        inner[:, :, own] = v[:, start:end].reshape(len(v), -1, n).transpose(0, 2, 1)
        inner[:, :, shared] = v[:, None, end:]
        return inner.reshape(len(v) * n, -1)

    def _weights_of(self, v):
        return v[:, :1] * 0.0 if self._n == 1 else v[:, : self._n]

    @property
    def is_free(self):
        free = self._weights.is_free & np.atleast_1d(self.family.learns_weights)[:, None]
        return self._joined(free, self._inner.is_free, np.all)

    def effective_counts(self, statistics):
        counts = statistics.counts
        every = np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)
        return self._joined(every, self._inner.effective_counts(statistics.inner))

    def score(self, statistics):
        of_weights = self._weights.score(statistics.counts)
        return self._joined(of_weights, self._inner.score(statistics.inner))

    def unsolved(self, statistics):
        nothing = np.zeros_like(statistics.counts)
        inner = np.zeros((nothing.size, self._inner.n_own))
        return self._joined(nothing, inner + self._inner.unsolved(statistics.inner))

    def is_proper(self, prior):
        return bool((prior.counts >= 0.0).all()) and self._inner.is_proper(prior.inner)

    def floor_penalty(self, statistics):
        return self._inner.floor_penalty(statistics.inner)

    def size(self, v):
        return max(self._weights.size(self._weights_of(v)), self._inner.size(self._inner_of(v)))

    def moved(self, v):
        weights = self._weights.moved(self._weights_of(v))
        return Submixtures(weights, self._inner.moved(self._inner_of(v)))

    def raised(self, after, rise):
        weights = self._weights.raised(after._weights, rise)
        found = {"weights": weights, "inner": self._inner.raised(after._inner, rise)}
        raised = {name: values for name, values in found.items() if values is not None}
        return replace(self.parameters, **raised) if raised else None


def _put_weights(family, parameters, values):
    return replace(parameters, weights=shares_as_given("weights_", values))


@lru_cache(maxsize=64)
def _parts_of(inner, n_parts, n_sharing, is_tied):
    """Return the weights, and the parts of a family's parameters as those of K J components."""
    found = [Part("weights", "probability", "kj", lambda _, own: own.weights, _put_weights)]
    covariances = next((part for part in inner if part.name == "covariances"), None)
    for part in inner:
        if part.name == "covars" and covariances is not None:
            part = covariances._replace(name="covars")  # as in hmmlearn's GMMHMM
        is_shared = n_sharing > 1 and part.name not in ("means", "weights")
        found.append(_of_all(part, n_parts, "j" if is_tied else "k" if is_shared else "kj"))
    return tuple(found)


def _of_all(part, n_parts, letters):
    """Return a part of the parameters of all K J components, with these axes in place of theirs."""
    # "j" are parts that all components share, and "k" values that the parts of each share.
    axes, kind = part.axes, part.kind
    is_shared_by_all = axes is not None and not axes.startswith("k")

    def get(family, parameters):
        values = part.get(family.family, parameters.inner)
        if is_shared_by_all:
            return values
        if letters == "kj":
            return values.reshape(-1, n_parts, *values.shape[1:])
        return values[:n_parts] if letters == "j" else values[::n_parts]

    def put(family, parameters, values):
        if not is_shared_by_all:
            if letters == "kj":
                values = values.reshape(-1, *values.shape[2:])
            elif letters == "j":
                values = np.concatenate([values] * len(parameters.weights))
            else:
                values = np.repeat(values, n_parts, axis=0)
        return replace(parameters, inner=part.put(family.family, parameters.inner, values))

    return part._replace(
        axes=axes and axes.replace("k", letters),
        kind=(lambda own: kind(own.inner)) if callable(kind) else kind,
        get=get,
        put=part.put and put,
    )


@dataclass(frozen=True, eq=False)
class MixtureOf(
    HiddenVariables[Submixtures, SubmixtureStatistics],
    Family[Submixtures, SubmixtureStatistics],
    Means[Submixtures],
    PosteriorMeans[Submixtures, SubmixtureStatistics],
    Marginals[Submixtures, SubmixtureStatistics],
    ColumnDistributions[Submixtures],
):
    r"""Mixtures of a family, one for each component or hidden state.

    .. math:: p(x \mid \theta_k) = \sum_j c_{kj} \, p(x \mid \theta_{kj})

    The part j of each row is hidden, beside the component k of the model. Statistics are those of
    K J parts, with responsibilities :math:`\gamma_n(k) r_n(j \mid k)`, and divergences are jointly
    of rows and parts:

    .. math:: r_n(j \mid k) \propto c_{kj} p(x_n \mid \theta_{kj}), \qquad
        \mathrm{KL}_k = \sum_j c_{kj} \left(\log (c_{kj} / c'_{kj}) + \mathrm{KL}_{kj}\right)

    With ``tied=True`` all components share the parts, and each has weights of its own, as in
    semi-continuous hidden Markov models [3]_. Parameters and statistics then repeat the parts for
    each component, with equal shares of what all components say of them.

    Parameters are `Submixtures`. What all components of the family share, such as a tied
    covariance, all parts of all components share. Without parameters, as of first clusters, rows of
    a component are divided at means of the coordinates that tell most of them apart, similar to
    [2]_, followed by k-means: neither units nor the order of rows matter.

    Parameters
    ----------
    family : Family
        Family of the parts.
    n_mix : int, default=2
        Number J of the parts of each component.
    learns_weights : bool or ndarray of bool of shape (K,), default=True
        Whether the M-step changes the weights, if it is given previous ones, of all components or
        of some.
    spread : ndarray of shape (n_features,), default=None
        Variances of the columns of the first data, computed by `bind`, if they are dense.
    tied : bool, default=False
        Whether all components share the parts.

    References
    ----------
    .. [1] Rabiner, "A tutorial on hidden Markov models and selected applications in speech
       recognition", Proc. IEEE 1989, section IV.A, eqs. 49 to 54.
    .. [2] Su & Dy, "In search of deterministic methods for initializing k-means and Gaussian
       mixture clustering", Intelligent Data Analysis 2007 (Var-Part).
    .. [3] Huang & Jack, "Semi-continuous hidden Markov models for speech signals", Computer Speech
       and Language 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import MixtureOf, Poisson
    >>> from sklearn_onlineem.families.mixture_emissions import Submixtures
    >>> family = MixtureOf(Poisson(), 2)
    >>> parameters = Submixtures(np.array([[0.25, 0.75]]), np.array([[1.0], [9.0]]))
    >>> family.means(parameters), family.m_step(family.own_statistics(parameters, np.ones(1))).inner
    (array([[7.]]), array([[1.],
           [9.]]))
    """

    tangents = SubmixtureTangents

    family: Family
    n_mix: int = 2
    learns_weights: bool | Bools = True
    spread: Floats | None = None
    tied: bool = False

    def __post_init__(self):
        if not isinstance(self.family, Family):
            raise ValueError(f"family must be a Family, got {self.family!r:.60}.")
        check_count("n_mix", self.n_mix)
        if self.tied and (self.n_mix == 1 or self._n_sharing > 1):
            raise ValueError("tied parts must be 2 or more, and share no covariances in groups.")
        if not self.family.is_conjugate:
            raise ValueError(
                f"{type(self.family).__name__} has statistics that grow, so that it has no mixtures"
                " as components."
            )

    # ----------------------------------------------------------------------------------- settings

    @property
    def parts(self) -> tuple[Part, ...]:
        return _parts_of(tuple(self.family.parts), self.n_mix, self._n_sharing, self.tied)

    @property
    def _n_sharing(self):
        return getattr(getattr(self.family, "covariance", None), "n_sharing", 1)

    @property
    def is_nominal(self) -> bool:
        return self.family.is_nominal

    @property
    def takes_sparse(self) -> bool:
        return self.family.takes_sparse

    @property
    def has_symbols(self) -> bool:
        return self.family.has_symbols

    def _with(self, family):
        return self if family is self.family else replace(self, family=family)

    def with_symbols_of(self, X: Floats) -> Self:
        return self._with(self.family.with_symbols_of(X))

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        bound = self._with(self.family.bind(X, sample_weight))
        if self.spread is not None or sparse.issparse(X):
            return bound
        return replace(bound, spread=variances(X, sample_weight)[1])

    def with_gaps(self, X: Floats, sample_weight: Floats | None, n_components: int) -> Self:
        return self._with(self.family.with_gaps(X, sample_weight, n_components * self.n_mix))

    def learning_all(self) -> Self:
        return replace(self, family=self.family.learning_all(), learns_weights=True)

    def check(self, X: Floats) -> None:
        if not sparse.issparse(X) and np.isnan(X).any():
            require(self.family, Marginals)
        self.family.check(X)

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        return self.family.start_coordinates(X, sample_weight)

    def sufficient_statistics(self, X: Floats) -> FloatsOrSparse:
        """Return the one-hot coding of all columns, if the family is nominal."""
        return self.family.sufficient_statistics(X)

    # ------------------------------------------------------------------------------- shared parts

    def _parts(self, value, n_components):
        """Return parameters of parts, those of the first component if all share them."""
        own = slice(0, self.n_mix)
        return components(value, own, n_components * self.n_mix) if self.tied else value

    def _pooled(self, statistics, n_components):
        """Return statistics of parts, those of all components together if they share them."""
        own = self._parts(statistics, n_components)
        return own.scale(float(n_components)) if self.tied else own

    def _repeated(self, parts, n_components):
        """Return parameters for each component of parts that they may share."""
        order = np.tile(np.arange(self.n_mix), n_components)
        return components(parts, order, self.n_mix) if self.tied else parts

    def _divided_equally(self, statistics, n_components):
        """Return statistics for each component of parts that they may share."""
        if self.tied:
            statistics = statistics.scale(1.0 / n_components)
        return self._repeated(statistics, n_components)

    def _evidence(self, statistics_of, parameters, X, of_parts, n_threads):
        """Return statistics of rows, given responsibilities of parts, of shape (n_rows, K J)."""
        counts = of_parts.sum(axis=0, dtype=np.float64).reshape(-1, self.n_mix)
        n = len(counts)
        if self.tied:
            of_parts = of_parts.reshape(len(of_parts), n, -1).sum(axis=1)
        known = () if parameters is None else (self._parts(parameters.inner, n),)
        inner = statistics_of(*known, X, of_parts, n_threads=n_threads)
        return SubmixtureStatistics(counts, self._divided_equally(inner, n))

    # ---------------------------------------------------------------------------- hidden parts

    def log_density(self, parameters: Submixtures, X: Floats, n_threads: int = 1) -> Floats:
        return self._log_density(self.family.log_density, parameters, X, n_threads)

    def _log_density(self, log_density, parameters, X, n_threads):
        joint = self._log_joint(log_density, parameters, X, n_threads)
        out = np.empty(joint.shape[:2])
        _normalise(joint, NOTHING, NOTHING, out)
        return out.astype(X.dtype, copy=False)

    def _log_joint(self, log_density, parameters, X, n_threads):
        """Return log densities of rows and parts, of shape (n_rows, K, J)."""
        n_components = len(parameters.weights)
        joint = log_density(self._parts(parameters.inner, n_components), X, n_threads)
        if self.tied:
            joint = np.tile(joint, n_components)
        joint += log_of(parameters.weights).ravel()
        return joint.reshape(len(joint), *parameters.weights.shape)

    def _posterior(self, log_density, parameters, X, posterior, n_threads=1, uniforms=NOTHING):
        """Return responsibilities of parts, (n_rows, K J), given those of components."""
        joint = self._log_joint(log_density, parameters, X, n_threads)
        _normalise(joint, np.asarray(posterior, np.float64), uniforms, NOTHING)
        return joint.reshape(len(joint), -1)

    def posterior_statistics(
        self,
        parameters: Submixtures,
        X: Floats,
        posterior: Floats,
        n_threads: int = 1,
        rng: Generator | None = None,
    ) -> SubmixtureStatistics:
        uniforms = NOTHING if rng is None else rng.random(posterior.size)
        log_density, statistics = self.family.log_density, self.family._statistics_given(rng)
        of_parts = self._posterior(log_density, parameters, X, posterior, n_threads, uniforms)
        return self._evidence(statistics, parameters, X, of_parts, n_threads)

    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> SubmixtureStatistics:
        if self.tied:
            of_all = responsibilities.sum(axis=1, keepdims=True)
            shares = self._divided(X, of_all) / np.where(of_all > 0.0, of_all, 1.0)
            of_parts = (responsibilities[:, :, None] * shares[:, None]).reshape(len(shares), -1)
        else:
            of_parts = self._divided(X, responsibilities)
        return self._evidence(self.family.expected_statistics, None, X, of_parts, n_threads)

    def _divided(self, X, responsibilities):
        """Return responsibilities of parts that cluster the rows of each component."""
        n_parts, shape = self.n_mix, responsibilities.shape
        of_parts = np.zeros((*shape, n_parts), responsibilities.dtype)
        for k, weight in enumerate(responsibilities.T):
            if k and np.array_equal(weight, responsibilities[:, k - 1]):
                of_parts[:, k] = of_parts[:, k - 1]
                continue
            rows = np.flatnonzero(weight > 0.0)
            if len(rows):
                weight = weight[rows].astype(np.float64)
                to = self.family.start_coordinates(X[rows], weight)[0]
                shares = np.full((len(rows), n_parts), _ALIKE / n_parts)
                shares[np.arange(len(rows)), _clusters(to(X[rows]), weight, n_parts)] += 1 - _ALIKE
                of_parts[rows, k] = weight[:, None] * shares
        return of_parts.reshape(shape[0], -1)

    def own_statistics(self, parameters: Submixtures, weights: Floats) -> SubmixtureStatistics:
        counts = weights[:, None] * parameters.weights
        n = len(weights)
        of_parts = counts.sum(axis=0) if self.tied else counts.ravel()
        inner = self.family.own_statistics(self._parts(parameters.inner, n), of_parts)
        return SubmixtureStatistics(counts, self._divided_equally(inner, n))

    def m_step(
        self, statistics: SubmixtureStatistics, previous: Submixtures | None = None
    ) -> Submixtures:
        counts = statistics.counts
        totals = counts.sum(axis=1, keepdims=True)
        kept = np.full(counts.shape, 1.0 / self.n_mix) if previous is None else previous.weights
        learnt = totals > 0.0
        if previous is not None:
            learnt = learnt & np.atleast_1d(self.learns_weights)[:, None]
        weights = np.divide(counts, totals, out=kept.copy(), where=learnt)
        n = len(counts)
        before = None if previous is None else self._parts(previous.inner, n)
        inner = self.family.m_step(self._pooled(statistics.inner, n), before)
        return Submixtures(weights, self._repeated(inner, n))

    def kl_divergence(self, p: Submixtures, q: Submixtures) -> Floats:
        inner = self.family.kl_divergence(p.inner, q.inner).reshape(p.weights.shape)
        inner = np.where(p.weights > 0.0, p.weights * inner, 0.0)
        return (rel_entr(p.weights, q.weights) + inner).sum(axis=1)

    def expected_log_density(
        self, parameters: Submixtures, statistics: SubmixtureStatistics
    ) -> float:
        of_parts = xlogy(statistics.counts, parameters.weights).sum()
        inner = self.family.expected_log_density(parameters.inner, statistics.inner)
        return float(of_parts + inner)

    def aligned(self, parameters: Submixtures, reference: Submixtures) -> Submixtures:
        weights, n, of_all = parameters.weights, self.n_mix, len(parameters.weights) * self.n_mix
        first, cost = np.arange(of_all).reshape(-1, n), np.empty((*weights.shape, n))
        for shift in range(n):
            j = (np.arange(n) + shift) % n
            other = take(reference.inner, first[:, j].ravel())
            inner = self.family.kl_divergence(parameters.inner, other).reshape(weights.shape)
            terms = np.where(weights > 0.0, weights * inner, 0.0)
            cost[:, np.arange(n), j] = rel_entr(weights, reference.weights[:, j]) + terms
        if self.tied:
            cost[:] = cost.sum(axis=0)
        most = 1.0 + 2.0 * n * np.abs(cost[np.isfinite(cost)]).max(initial=1.0)
        cost = np.where(np.isfinite(cost), cost, most)
        order = np.array([linear_sum_assignment(of_state.T)[1] for of_state in cost])
        if (order == np.arange(n)).all():
            return parameters
        index = np.take_along_axis(first, order, axis=1).ravel()
        return Submixtures(
            np.take_along_axis(weights, order, axis=1), take(parameters.inner, index)
        )

    # ------------------------------------------------------------------------------------- draws

    def _drawn_parts(self, weights, rng):
        """Return a part for each row of weights, in proportion to them."""
        if self.n_mix == 1:
            return np.zeros(len(weights), dtype=np.intp)
        return drawn_from(np.cumsum(weights, axis=1), rng)

    def _chosen(self, parameters, components, rng):
        parts = self._drawn_parts(parameters.weights[components], rng)
        return components * self.n_mix + parts

    def sample(self, parameters: Submixtures, components: Integers, rng: Generator) -> Floats:
        return self.family.sample(parameters.inner, self._chosen(parameters, components, rng), rng)

    def sample_like(
        self, parameters: Submixtures, components: Integers, X: Floats, rng: Generator
    ) -> Floats:
        chosen = self._chosen(parameters, components, rng)
        return self.family.sample_like(parameters.inner, chosen, X, rng)

    # ------------------------------------------------------------------------------ capabilities

    def n_parameters(self, parameters: Submixtures) -> int:
        n_learnt = np.broadcast_to(self.learns_weights, len(parameters.weights)).sum()
        inner = self._parts(parameters.inner, len(parameters.weights))
        return int(n_learnt * (self.n_mix - 1)) + self.family.n_parameters(inner)

    def _own_counts(self, parameters, n_components):
        n_of_weights = np.broadcast_to(self.learns_weights, n_components) * (self.n_mix - 1)
        if self.tied:
            return n_of_weights
        inner = self.family._own_counts(parameters.inner, n_components * self.n_mix)
        return n_of_weights + inner.reshape(n_components, -1).sum(axis=1)

    def n_shared_parameters(self, parameters: Submixtures) -> int:
        if self.tied:
            inner = self._parts(parameters.inner, len(parameters.weights))
            return self.family.n_parameters(inner)
        return self.family.n_shared_parameters(parameters.inner)

    def with_shared(self, parameters: Submixtures, shared: Submixtures) -> Submixtures:
        if self.tied:
            parts = self._parts(shared.inner, len(shared.weights))
            return replace(parameters, inner=self._repeated(parts, len(parameters.weights)))
        inner = self.family.with_shared(parameters.inner, shared.inner)
        return Submixtures(parameters.weights, inner)

    def effective_counts(self, statistics: SubmixtureStatistics) -> Floats:
        if self.tied:
            return statistics.counts.sum(axis=1)
        counts = self.family.effective_counts(statistics.inner)
        return counts.reshape(statistics.counts.shape).sum(axis=1)

    def n_values(self, rows: Rows) -> float:
        return self.family.n_values(rows)

    def diagonalised(self, parameters: Submixtures) -> Submixtures:
        return replace(parameters, inner=self.family.diagonalised(parameters.inner))

    def check_means(self, means: Floats) -> None:
        if self.tied:
            raise ValueError("components that share their parts have no means of their own.")
        require(self.family, Means).check_means(means)

    def means(self, parameters: Submixtures) -> Floats:
        of_parts = require(self.family, Means).means(parameters.inner)
        of_parts = of_parts.reshape(*parameters.weights.shape, -1)
        return np.einsum("kj,kjd->kd", parameters.weights, of_parts)

    def distribution(self, parameters: Submixtures, column: int) -> Distribution:
        parts = require(self.family, ColumnDistributions).distribution(parameters.inner, column)
        if self.n_mix == 1:
            return parts
        is_whole = hasattr(parts, "pmf")
        return (_WholeNumbers if is_whole else _Numbers)(parts, parameters.weights)

    def covariances(self, parameters: Submixtures) -> Floats:
        within = require(self.family, ColumnDistributions).covariances(parameters.inner)
        weights, means = parameters.weights, self.family.means(parameters.inner)
        deviations = means - np.repeat(self.means(parameters), self.n_mix, axis=0)
        every = within + deviations[:, :, None] * deviations[:, None]
        return np.einsum("kj,kjab->kab", weights, every.reshape(*weights.shape, *every.shape[1:]))

    def with_means(self, parameters: Submixtures, means: Floats) -> Submixtures:
        # Parts move together; they become one where they would leave the range.
        shift = np.repeat(means - self.means(parameters), self.n_mix, axis=0)
        moved = self.family.means(parameters.inner) + shift
        alike = np.repeat(means, self.n_mix, axis=0)
        for k in range(len(means)):
            of_state = slice(k * self.n_mix, (k + 1) * self.n_mix)
            try:
                self.family.check_means(moved[of_state])
            except ValueError:
                moved[of_state] = alike[of_state]
        return replace(parameters, inner=self.family.with_means(parameters.inner, moved))

    @property
    def prior_keys(self) -> list[str] | None:
        if not isinstance(self.family, ConjugatePriors):
            return ["weight_concentration"]
        inner = self.family.prior_keys
        return None if inner is None else ["weight_concentration", *inner]

    def smoothing(self, n_features: int) -> Mapping[str, object]:
        family = self.family
        return family.smoothing(n_features) if isinstance(family, ConjugatePriors) else {}

    def prior_statistics(
        self,
        n_components: int,
        *,
        n_features: int,
        weight_concentration: ArrayLike = 1.0,
        **of_parts: object,
    ) -> SubmixtureStatistics:
        """Return Dirichlet priors of the weights, and the family's prior of each part.

        Parameters
        ----------
        weight_concentration : float or array broadcasting to (n_components, n_mix), default=1.0
            Concentrations of the weights, above 0; 1: no prior.
        **of_parts
            Arguments of the family's `prior_statistics`.
        """
        family, shape = require(self.family, ConjugatePriors), (n_components, self.n_mix)
        concentration = above("weight_concentration", weight_concentration, 0.0, shape)
        n_parts = self.n_mix if self.tied else n_components * self.n_mix
        inner = family.prior_statistics(n_parts, n_features=n_features, **of_parts)
        return SubmixtureStatistics(concentration - 1.0, self._divided_equally(inner, n_components))

    def mean_form(self, prior: SubmixtureStatistics) -> SubmixtureStatistics:
        n = len(prior.counts)
        inner = require(self.family, PosteriorMeans).mean_form(self._pooled(prior.inner, n))
        return SubmixtureStatistics(prior.counts + 1.0, self._divided_equally(inner, n))

    # ---------------------------------------------------------------------------- missing values

    def marginal_log_density(
        self, parameters: Submixtures, X: Floats, n_threads: int = 1
    ) -> Floats:
        log_density = require(self.family, Marginals).marginal_log_density
        out = self._log_density(log_density, parameters, X, n_threads)
        out[np.isnan(X).all(axis=1)] = 0.0  # Weights add up to 1 but for rounding.
        return out

    def marginal_statistics(
        self, parameters: Submixtures, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> SubmixtureStatistics:
        of_parts = self._marginal_posterior(parameters, X, posterior, n_threads)
        statistics = self.family.marginal_statistics
        return self._evidence(statistics, parameters, X, of_parts, n_threads)

    def _marginal_posterior(self, parameters, X, posterior, n_threads=1):
        log_density = require(self.family, Marginals).marginal_log_density
        return self._posterior(log_density, parameters, X, posterior, n_threads)

    def completed(self, parameters: Submixtures, X: Floats, posterior: Floats) -> Floats:
        of_parts = self._marginal_posterior(parameters, X, posterior)
        return self.family.completed(parameters.inner, X, of_parts)

    def drawn(
        self, parameters: Submixtures, X: Floats, components: Integers, rng: Generator
    ) -> Floats:
        one_hot = np.eye(len(parameters.weights))[components]
        of_parts = self._marginal_posterior(parameters, X, one_hot)
        of_parts = of_parts.reshape(len(X), -1, self.n_mix)[np.arange(len(X)), components]
        chosen = components * self.n_mix + self._drawn_parts(of_parts, rng)
        return self.family.drawn(parameters.inner, X, chosen, rng)


@dataclass(frozen=True)
class _Numbers:
    """Mixtures of J distributions of numbers, K in one, of K J `parts` and weights (K, J)."""

    parts: Distribution
    weights: Floats

    def _averaged(self, values):
        values = values.reshape(*values.shape[:-1], *self.weights.shape)
        return (self.weights * values).sum(axis=-1)

    def _at(self, function, x):
        n_components, n_parts = self.weights.shape
        x = np.broadcast_to(x, np.broadcast_shapes(np.shape(x), (n_components,)))
        return self._averaged(function(np.repeat(x, n_parts, axis=-1)))

    def cdf(self, x: ArrayLike) -> Floats:
        return self._at(self.parts.cdf, x)

    def pdf(self, x: ArrayLike) -> Floats:
        return self._at(self.parts.pdf, x)

    def ppf(self, q: ArrayLike) -> Floats:
        own, q = np.eye(len(self.weights))[:, :, None] * self.weights, np.asarray(q)
        found = mixture_quantiles(self.parts, own.reshape(len(own), -1), q.ravel())
        return found.reshape(*q.shape[:-1], -1)

    def mean(self) -> Floats:
        return self._averaged(self.parts.mean())

    def var(self) -> Floats:
        deviations = self.parts.mean() - np.repeat(self.mean(), self.weights.shape[1])
        return self._averaged(self.parts.var() + deviations**2)


class _WholeNumbers(_Numbers):
    """Mixtures of J distributions of whole numbers."""

    def pmf(self, x: ArrayLike) -> Floats:
        return self._at(self.parts.pmf, x)


def _normalise(joint, posterior, uniforms, log_densities):
    """Turn log densities of parts (n_rows, K, J) into responsibilities, times those of components.

    Their sums over parts are written to `log_densities`.
    """
    rows = joint.reshape(-1, joint.shape[2])
    given = posterior.ravel(), None, uniforms, log_densities.ravel()
    normalise(rows, (*given, None, None, None))


def _clusters(Z, weight, n_clusters):
    """Return a cluster of each row of coordinates, dense or CSR, by a rule without chance."""
    labels = np.zeros(len(weight), dtype=np.intp)
    for new in range(1, n_clusters):
        gain, old, column, mean = max(_best_split(Z, weight * (labels == k), k) for k in range(new))
        if not gain > 0.0:
            break
        values = Z[:, [column]].toarray()[:, 0] if sparse.issparse(Z) else Z[:, column]
        labels[(labels == old) & (values > mean)] = new
    means = np.zeros((labels.max() + 1, Z.shape[1]))
    for _ in range(_PASSES):
        shares = weight * (labels == np.arange(len(means))[:, None])
        totals = shares.sum(axis=1)
        means[totals > 0.0] = (shares[totals > 0.0] @ Z) / totals[totals > 0.0, None]
        nearest = ((means**2).sum(axis=1) - 2.0 * (Z @ means.T)).argmin(axis=1)
        if (nearest == labels).all():
            break
        labels = nearest
    return labels


def _best_split(Z, weight, k):
    """Return the least squares that a cut at a mean may save, k, the column, and the mean."""
    total = weight.sum()
    mean = (weight @ Z) / total
    is_above = Z > mean
    above = Z.multiply(is_above) if sparse.issparse(Z) else np.where(is_above, Z, 0.0)
    n_above, above_mean = weight @ is_above, weight @ above
    share = n_above * (total - n_above)
    gains = np.divide((above_mean - n_above * mean) ** 2 * total, share,
                      out=np.zeros(len(mean)), where=share > 0.0)  # fmt: skip
    column = gains.argmax()
    return gains[column], k, column, mean[column]
