"""The contract of a family of distributions, and what follows from it once and for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Generic, Self, TypeVar

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _counts, _natural
from sklearn_onlineem._kernels._responsibilities import normalise
from sklearn_onlineem._kernels._rows import largest_magnitude
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Integers
from sklearn_onlineem._values import n_numbers, take
from sklearn_onlineem.data import Rows
from sklearn_onlineem.statistics import Statistics, Sums, combine

__all__ = ["NOTHING", "NO_LABELS", "ExponentialFamily", "Family", "optional", "per_row", "unwanted"]

# What a family learns, and its statistics.
Parameters = TypeVar("Parameters")
Evidence = TypeVar("Evidence", bound=Statistics)

_BLOCK = 1024
_LARGEST_SINGLE = 4096.0
NOTHING = np.empty(0)
NO_RESPONSIBILITIES = {dtype: np.empty((0, 0), dtype) for dtype in map(np.dtype, ("f4", "f8"))}
NO_LABELS = np.empty(0, dtype=np.int32)


class Family(ABC, Generic[Parameters, Evidence]):
    """A parametric family of densities p(x | theta), for all components of a mixture at once.

    A family is a small immutable value. It holds what is *not* learnt (a fixed shape, a floor);
    what is learnt is a `parameters` value of its own choosing, for K components: an array with K
    rows, or a tuple or dataclass of such values, nested as one likes. Subclasses write the six
    abstract methods, and may override the others.

    Densities and statistics are told how many threads may walk the rows, `n_threads`. A family may
    ignore it, but has to take it; results must not depend on it. Hidden Markov models share chunks
    of sequences among threads instead, and may ask a family from several at once.

    What only some families have is in `families.capabilities`: conjugate priors and posteriors,
    marginals of rows with missing values, hidden variables of the components' own. A family
    inherits from each that it has.

    See Also
    --------
    ExponentialFamily : Most families; needs the natural parameters and the log-partition instead.
    """

    # Whether means determine all parameters, so that `with_means` needs no others.
    determined_by_means = False
    # Whether rows are nominal, such as codes of symbols, between which distances mean nothing.
    is_nominal = False
    # Whether the support is convex, so that `check` says of means, too, whether they are in it.
    support_is_convex = False
    # Whether X may be CSR as well as dense; starts are then computed from CSR, whichever it is.
    takes_sparse = False
    # Whether statistics have a fixed size, as the hyper-parameters of a conjugate prior have.
    is_conjugate = True

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        """Return this family with everything fixed that depends on the first data it meets.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        sample_weight : ndarray of shape (n_rows,), default=None
            Not below 0; None: 1 for each row.

        Returns
        -------
        family : Family

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Diagonal, Gaussian
        >>> Gaussian(Diagonal()).bind(np.array([[0.0], [2.0]])).floor
        array([1.e-06])
        """
        return self

    def check(self, X: Floats) -> None:
        """Raise ValueError if a row of X is outside of the support of the family.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().check(np.array([[-1.0]]))
        Traceback (most recent call last):
            ...
        ValueError: Negative values in data: the smallest is -1.
        """

    def check_means(self, means: Floats) -> None:
        """Raise ValueError if a row of `means`, of shape (K, n_features), is no component's.

        Parameters
        ----------
        means : ndarray of shape (K, n_features)
            One for each component.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Bernoulli
        >>> Bernoulli().check_means(np.array([[0.5, 0.1]]))
        """
        if self.support_is_convex:
            self.check(means)

    @abstractmethod
    def log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return log p(x_n | theta_k).

        Parameters
        ----------
        parameters : object
            Parameters of K components.
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Returns
        -------
        log_density : ndarray of shape (n_rows, K)
            In nats.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Exponential
        >>> Exponential().log_density(np.array([[1.0], [2.0]]), np.array([[4.0]])).round(3)
        array([[-4.   , -2.693]])
        """

    @abstractmethod
    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return the sums over rows of responsibility times sufficient statistic.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        responsibilities : ndarray of shape (n_rows, K)
            Non-negative; the rows need not add up to 1.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Returns
        -------
        statistics : Statistics
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> X, responsibilities = np.array([[1.0], [5.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])
        >>> Poisson().expected_statistics(X, responsibilities)
        Sums(weight=array([1.5, 0.5]), total=array([[3.5],
               [2.5]]))
        """

    def posterior_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return `expected_statistics` of shares that are posteriors under `parameters`.

        Unless components have hidden variables of their own, the parameters change nothing, but
        may help to compute it.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        posterior : ndarray of shape (n_rows, K)
            Shares of the components in each row.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> rates, X = np.array([[1.0], [9.0]]), np.array([[1.0], [5.0]])
        >>> Poisson().posterior_statistics(rates, X, np.array([[1.0, 0.0], [0.5, 0.5]])).total
        array([[3.5],
               [2.5]])
        """
        return self.expected_statistics(X, posterior, n_threads)

    @abstractmethod
    def own_statistics(self, parameters: Parameters, weights: Floats) -> Evidence:
        """Return `weights` times the expectation of the sufficient statistic under each component.

        Parameters
        ----------
        parameters : object
            Of K components.
        weights : ndarray of shape (K,)
            Weight of each component, not below 0.

        Returns
        -------
        statistics : Statistics

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().own_statistics(np.array([[1.0], [9.0]]), np.array([0.25, 0.75]))
        Sums(weight=array([0.25, 0.75]), total=array([[0.25],
               [6.75]]))
        """

    @abstractmethod
    def m_step(self, statistics: Evidence, previous: Parameters | None = None) -> Parameters:
        """Return the maximiser of the statistics.

        Parameters
        ----------
        statistics : Statistics
            Sums over rows, or averages, of K components.
        previous : object, default=None
            Parameters that components without any weight keep.

        Returns
        -------
        parameters : object

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> family, X = Poisson(), np.array([[1.0], [2.0], [6.0]])
        >>> family.m_step(family.expected_statistics(X, np.ones((3, 1))))
        array([[3.]])
        """

    @abstractmethod
    def kl_divergence(self, p: Parameters, q: Parameters) -> Floats:
        """Return KL(p_k || q_k) in nats, an ndarray of shape (K,).

        Parameters
        ----------
        p, q : object
            Parameters of K components each.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().kl_divergence(np.array([[1.0]]), np.array([[np.e]])).round(3)
        array([0.718])
        """

    def expected_log_density(self, parameters: Parameters, statistics: Evidence) -> float:
        r"""Return the log density of rows that have these statistics, in nats, over all components.

        It is what the M-step maximises, up to what does not depend on the parameters: only
        differences mean something. A family without sums of its own has :math:`-\sum_k n_k
        \mathrm{KL}(\hat\theta_k \| \theta_k)`, by the masses and the maximiser of the statistics,
        which is the same for exponential families.

        Parameters
        ----------
        parameters : object
            Of K components.
        statistics : Statistics
            Evidence, pseudo-statistics of a prior, or a sum of them.

        Returns
        -------
        log_density : float

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> family, rates = Poisson(), np.array([2.0, 3.0, 4.0]).reshape(3, 1, 1)
        >>> statistics = family.own_statistics(rates[1], np.ones(1))
        >>> [round(family.expected_log_density(rate, statistics), 3) for rate in rates]
        [0.079, 0.296, 0.159]
        """
        divergences = self.kl_divergence(self.m_step(statistics, parameters), parameters)
        return -float(self.masses(statistics) @ divergences)

    @abstractmethod
    def sample(
        self, parameters: Parameters, components: Integers, rng: np.random.Generator
    ) -> Floats:
        """Draw one row from each of the given components.

        Parameters
        ----------
        parameters : object
            Of K components.
        components : ndarray of shape (n_rows,)
            Component indices.
        rng : numpy.random.Generator
            Where random numbers come from.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> rng, rates = np.random.default_rng(0), np.array([[1.0], [9.0]])
        >>> X = Poisson().sample(rates, np.repeat([0, 1], 1000), rng)
        >>> X[:1000].mean().round(1), X[1000:].mean().round(1)
        (np.float64(1.0), np.float64(9.0))
        """

    def sample_like(
        self, parameters: Parameters, components: Integers, X: Floats, rng: np.random.Generator
    ) -> Floats:
        """Draw rows, `sample`'s where nothing of them is given: lengths are drawn from X's rows.

        Parameters
        ----------
        parameters : object
            Of K components.
        components : ndarray of int of shape (n_rows,)
            The component of each row.
        X : array of shape (n, n_features)
            Rows, as many as one likes, whose lengths are drawn from.
        rng : numpy.random.Generator
            Where random numbers come from.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import CompoundDirichlet
        >>> family = CompoundDirichlet()
        >>> words = family.dirichlets(np.array([[1.0, 1.0]]), np.array([4.0]))
        >>> like, rng = np.array([[3.0, 4.0]]), np.random.default_rng(0)
        >>> family.sample_like(words, np.zeros(3, int), like, rng).sum(axis=1)
        array([7., 7., 7.])
        """
        return self.sample(parameters, components, rng)

    def means(self, parameters: Parameters) -> Floats:
        """Return E x, an ndarray of shape (K, n_features).

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Laplace
        >>> family = Laplace()
        >>> X = np.array([[0.0], [1.0], [50.0]])
        >>> statistics = family.expected_statistics(X, np.ones((3, 1)))
        >>> family.means(family.m_step(statistics))
        array([[1.]])
        """
        raise AttributeError(f"{type(self).__name__} does not say its means.")

    def with_means(self, parameters: Parameters, means: Floats) -> Parameters:
        """Return parameters with the given means, all else as in `parameters`.

        Parameters
        ----------
        parameters : object
            Of K components.
        means : ndarray of shape (K, n_features)
            One for each component.

        Raises
        ------
        ValueError
            If the family does not know how.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Gamma
        >>> family = Gamma()
        >>> moved = family.with_means(np.array([[0.0, 2.0]]), np.array([[6.0]]))
        >>> moved.round(3)
        array([[1.099, 6.   ]])
        """
        raise ValueError(f"{type(self).__name__} does not take means to start from.")

    def n_features(self, parameters: Parameters) -> int:
        """Return the number of features of a row, which is that of a sample.

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Categorical
        >>> Categorical(n_categories=3).n_features(np.full((2, 6), 1 / 3))
        2
        """
        row = self.sample(parameters, np.zeros(1, dtype=np.intp), np.random.default_rng(0))
        return row.shape[1]

    def numbers_in(self, rows: Rows) -> float:
        """Return how many numbers a row brings, on average, to determine parameters with.

        Parameters
        ----------
        rows : Rows
            Observations, with their weights and labels.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import MarkovChain
        >>> from sklearn_onlineem.data import Rows
        >>> MarkovChain().numbers_in(Rows(np.array([[1.0, 0.0, 2.0, 0.0, 0.0, 0.0]])))
        np.float64(3.0)
        """
        return rows.n_features

    def n_parameters(self, parameters: Parameters) -> int:
        """Return the number of free parameters of all components (for BIC and AIC).

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Categorical
        >>> Categorical(n_categories=3).n_parameters(np.full((2, 6), 1 / 3))
        8
        """
        return n_numbers(parameters)

    def n_shared_parameters(self, parameters: Parameters) -> int:
        """Return how many of these all components have in common.

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Gaussian, Tied
        >>> family = Gaussian(Tied(), reg_covar=0.0)
        >>> X, shares = np.array([[0.0], [2.0], [7.0], [9.0]]), np.repeat(np.eye(2), 2, axis=0)
        >>> gaussians = family.m_step(family.expected_statistics(X, shares))
        >>> family.n_parameters(gaussians), family.n_shared_parameters(gaussians)
        (3, 1)
        """
        return 0

    def masses(self, statistics: Evidence) -> Floats:
        """Return what each component's statistics count for, an ndarray of shape (K,).

        Parameters
        ----------
        statistics : Statistics
            Sums over rows, or averages, of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Multinomial
        >>> statistics = Multinomial().expected_statistics(np.array([[3.0, 1.0]]), np.ones((1, 1)))
        >>> statistics.weight, Multinomial().masses(statistics)
        (array([1.]), array([4.]))
        """
        return statistics.weight

    def divergences(self, p: Parameters, q: Parameters, n_components: int) -> Floats:
        """Return KL(p_i || q_j) in nats, an ndarray of shape (n_components, n_components).

        Parameters
        ----------
        p, q : object
            Parameters of K components each.
        n_components : int
            K of both.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Exponential
        >>> means = np.array([[1.0], [2.0]])
        >>> Exponential().divergences(means, means, 2).round(3)
        array([[0.   , 0.193],
               [0.307, 0.   ]])
        """
        out, i = np.empty((n_components, n_components)), np.arange(n_components)
        for shift in range(n_components):
            j = (i + shift) % n_components
            out[i, j] = self.kl_divergence(p, take(q, j))
        return np.maximum(out, 0.0)

    def e_step(
        self,
        parameters: Parameters,
        log_weights: Floats,
        rows: Rows,
        uniforms: Floats | None = None,
    ) -> tuple[Floats, Evidence, float]:
        """Expected statistics of a mixture of this family's components.

        Parameters
        ----------
        parameters : object
            Of K components.
        log_weights : ndarray of shape (K,)
            Logarithms of the mixture weights.
        rows : Rows
            Observations, with their weights and labels.
        uniforms : ndarray of shape (n_rows,), default=None
            If given, components are drawn with these instead of averaged over.

        Returns
        -------
        counts : ndarray of shape (K,)
            Responsibilities, averaged over the rows by their weights.
        statistics : Statistics
            What `expected_statistics` sums up, averaged likewise.
        log_likelihood : float
            Log-likelihood, averaged likewise.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> from sklearn_onlineem.data import Rows
        >>> rates, log_weights = np.array([[1.0], [9.0]]), np.log([0.5, 0.5])
        >>> rows = Rows(np.array([[0.0], [1.0], [12.0]]))
        >>> counts, statistics, log_likelihood = Poisson().e_step(rates, log_weights, rows)
        >>> counts.round(2), statistics.total.round(2), round(log_likelihood, 3)
        (array([0.67, 0.33]), array([[0.33],
               [4.  ]]), -2.232)
        """
        statistics = partial(self.posterior_statistics, parameters)
        return self._over_blocks(parameters, log_weights, rows, uniforms, statistics)

    def _over_blocks(self, parameters, log_weights, rows, uniforms, statistics_of):
        terms, counts, log_likelihood = [], np.zeros(len(log_weights)), 0.0
        total_weight = rows.total_weight
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            responsibilities = self.log_density(parameters, block.X, n_threads=rows.n_threads)
            responsibilities = responsibilities + log_weights
            drawn = None if uniforms is None else uniforms[start : start + _BLOCK]
            log_likelihood += normalise(responsibilities, *per_row(block), optional(drawn), NOTHING)
            counts += responsibilities.sum(axis=0)
            statistics = statistics_of(block.X, responsibilities, n_threads=rows.n_threads)
            terms.append((1.0 / total_weight, statistics))
        return counts / total_weight, combine(terms), log_likelihood / total_weight


class ExponentialFamily(Family[Parameters, Evidence]):
    r"""An exponential family.

    .. math:: p(x \mid \theta) = h(x) \exp(\theta \cdot \phi(x) - G(\theta))

    Parameters are in mean form, :math:`\mu = E\,\phi(x) = \nabla G(\theta)`, an array of shape
    (K, n_statistics). Subclasses write the map between mean and natural parameters, the
    log-partition function and sampling; log density, KL divergence, statistics, M-step and E-step
    follow, and run on compiled kernels.
    """

    determined_by_means = True

    def means(self, parameters: Parameters) -> Floats:
        return parameters

    def with_means(self, parameters: Parameters, means: Floats) -> Parameters:
        return self.regularise(means)

    @abstractmethod
    def to_natural(self, parameters: Parameters) -> Floats:
        """Return the natural parameters, an ndarray of shape (K, n_statistics).

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().to_natural(np.array([[1.0, 9.0]])).round(3)
        array([[0.   , 2.197]])
        """

    @abstractmethod
    def from_natural(self, natural: Floats) -> Parameters:
        """Return the parameters (in mean form) of natural parameters.

        Parameters
        ----------
        natural : ndarray of shape (K, n_statistics)
            Natural parameters of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().from_natural(np.array([[0.0, 1.0]])).round(3)
        array([[1.   , 2.718]])
        """

    @abstractmethod
    def log_partition(self, natural: Floats) -> Floats:
        """Return G(theta), an ndarray of shape (K,).

        Parameters
        ----------
        natural : ndarray of shape (K, n_statistics)
            Natural parameters of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> Poisson().log_partition(np.log([[1.0, 9.0]])).round(3)
        array([10.])
        """

    def sufficient_statistics(self, X: Floats) -> FloatsOrSparse:
        """Return phi(x), an array of shape (n_rows, n_statistics); the identity by default.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Gamma
        >>> Gamma().sufficient_statistics(np.array([[1.0, np.e]]))
        array([[0.        , 1.        , 1.        , 2.71828183]])
        """
        return X

    def log_base_measure(self, X: Floats, n_threads: int = 1) -> Floats:
        """Return log h(x), an ndarray of shape (n_rows,), or an empty one where h = 1.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Poisson
        >>> np.exp(-Poisson().log_base_measure(np.array([[3.0], [4.0]]))).round(6)
        array([ 6., 24.])
        """
        return NOTHING

    def mean_statistics(self, parameters: Parameters) -> Floats:
        """Return E phi(x), an ndarray of shape (K, n_statistics).

        Parameters
        ----------
        parameters : object
            Of K components.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Gaussian, Spherical
        >>> family = Gaussian(Spherical())
        >>> gaussians = family.from_natural(np.array([[1.0, 2.0, -0.5]]))
        >>> family.mean_statistics(gaussians)
        array([[1., 2., 7.]])
        """
        return parameters

    def regularise(self, mean: Parameters) -> Parameters:
        """Return the mean parameters moved to where the densities are proper (the floors).

        Parameters
        ----------
        mean : ndarray of shape (K, n_statistics)
            Means of the sufficient statistics.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_onlineem.families import Bernoulli
        >>> Bernoulli(min_probability=0.01).regularise(np.array([[0.0, 0.5, 1.0]]))
        array([[0.01, 0.5 , 0.99]])
        """
        return mean

    def log_density(self, parameters: Parameters, X: FloatsOrSparse, n_threads: int = 1) -> Floats:
        natural = self.to_natural(parameters)
        offset = -self.log_partition(natural)
        phi, base = self._observe(X, n_threads)
        out = np.empty((X.shape[0], len(natural)), dtype=phi.dtype)
        if sparse.issparse(phi):
            entries = _entries(phi, natural)
            _counts.log_density(*entries, _transposed(natural), offset, base, out, n_threads)
        else:
            origin = np.zeros(phi.shape[1])
            _natural.log_density(
                phi, origin, _natural.LINEAR, natural, offset, base, out, n_threads
            )
        return out

    def expected_statistics(
        self, X: FloatsOrSparse, responsibilities: Floats, n_threads: int = 1
    ) -> Evidence:
        phi = with_digits(self.sufficient_statistics(X))
        weights = np.ascontiguousarray(responsibilities, dtype=phi.dtype)
        counts, n_statistics = np.empty(weights.shape[1]), phi.shape[1]
        if sparse.issparse(phi):
            totals = np.empty((n_statistics, len(counts)))
            _counts.statistics(*_csr(phi), weights, counts, totals, n_threads)
            return Sums(counts, np.ascontiguousarray(totals.T))
        totals = np.empty((len(counts), n_statistics))
        origin = np.zeros(n_statistics)
        _natural.statistics(phi, origin, _natural.LINEAR, weights, counts, totals, n_threads)
        return Sums(counts, totals)

    def own_statistics(self, parameters: Parameters, weights: Floats) -> Evidence:
        return Sums(weights, weights[:, None] * self.mean_statistics(parameters))

    def m_step(self, statistics: Evidence, previous: Parameters | None = None) -> Parameters:
        return self.regularise(mean_of(statistics, previous))

    def expected_log_density(self, parameters: Parameters, statistics: Evidence) -> float:
        natural = self.to_natural(parameters)
        inner = np.einsum("kp,kp->", statistics.total, natural)
        return float(inner - statistics.weight @ self.log_partition(natural))

    def kl_divergence(self, p: Parameters, q: Parameters) -> Floats:
        natural_p, natural_q = self.to_natural(p), self.to_natural(q)
        inner = np.einsum("kp,kp->k", self.mean_statistics(p), natural_q - natural_p)
        return self.log_partition(natural_q) - self.log_partition(natural_p) - inner

    def e_step(
        self,
        parameters: Parameters,
        log_weights: Floats,
        rows: Rows,
        uniforms: Floats | None = None,
    ) -> tuple[Floats, Evidence, float]:
        # The family is remembered with its values, so that no other one can have its id.
        _, phi, base = rows.remember(
            id(self), lambda: (self, *self._observe(rows.X, rows.n_threads))
        )
        natural = self.to_natural(parameters)
        offset = log_weights - self.log_partition(natural)
        sample = (base, *per_row(rows), optional(uniforms))
        counts = np.empty(len(natural))
        if sparse.issparse(phi):
            totals = np.empty(natural.T.shape)
            log_likelihood = _counts.e_step(
                *_entries(phi, natural), _transposed(natural), offset, *sample, counts, totals,
                *unwanted(phi), rows.n_threads,
            )  # fmt: skip
            return averages(counts, np.ascontiguousarray(totals.T), log_likelihood, rows)
        totals = np.empty(natural.shape)
        log_likelihood = _natural.e_step(
            phi, np.zeros(phi.shape[1]), _natural.LINEAR, natural, offset, *sample,
            counts, totals, *unwanted(phi), rows.n_threads,
        )  # fmt: skip
        return averages(counts, totals, log_likelihood, rows)

    def _observe(self, X, n_threads=1):
        return with_digits(self.sufficient_statistics(X)), self.log_base_measure(X, n_threads)


def with_digits(phi):
    """Sufficient statistics, in double precision where single keeps too few digits of them."""
    values = phi.data if sparse.issparse(phi) else phi
    if values.dtype != np.float32 or largest_magnitude(values.ravel()) <= _LARGEST_SINGLE:
        return phi
    return phi.astype(np.float64)


def mean_of(statistics, previous):
    """Divide totals by weights; components without weight keep their previous mean."""
    weight = statistics.weight[:, None]
    try:
        with np.errstate(over="raise"):
            if np.count_nonzero(weight > 0) == len(weight):
                return statistics.total / weight
            kept = np.zeros_like(statistics.total) if previous is None else previous
            return np.divide(statistics.total, weight, out=kept.copy(), where=weight > 0)
    except FloatingPointError:
        raise ValueError(
            "The mean of a component overflows: its weight is too small for its prior."
        ) from None


def averages(counts, totals, log_likelihood, rows):
    """Results of an E-step from sums over rows."""
    total_weight = rows.total_weight
    counts /= total_weight
    totals /= total_weight
    return counts, Sums(counts, totals), log_likelihood / total_weight


def per_row(rows):
    """Sample weights and labels as kernels take them: empty where there are none."""
    return (
        NOTHING if rows.sample_weight is None else rows.sample_weight,
        NO_LABELS if rows.labels is None else rows.labels,
    )


def optional(array):
    """An array as kernels take it: empty where there is none."""
    return NOTHING if array is None else np.asarray(array, dtype=np.float64)


def unwanted(X):
    """The outputs of a kernel's E-step that statistics do not need."""
    return NOTHING, NO_RESPONSIBILITIES[X.dtype]


def _csr(X):
    return X.data, X.indices, X.indptr


def _entries(phi, natural):
    """The arrays of a CSR matrix, whose columns have to be those of the parameters."""
    if phi.shape[1] != natural.shape[1]:
        raise ValueError(
            f"rows have {phi.shape[1]} statistics, where components have {natural.shape[1]}"
            " natural parameters."
        )
    return _csr(phi)


def _transposed(natural):
    return np.ascontiguousarray(natural.T)
