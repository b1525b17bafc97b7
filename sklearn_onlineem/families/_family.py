"""The contract of a family of distributions, and what follows from it once and for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, Self, TypeVar

import numpy as np
from scipy import sparse

from sklearn_onlineem._kernels import _centred_moments, _counts, _natural
from sklearn_onlineem._kernels._forward_backward import normalise_rows
from sklearn_onlineem._kernels._rows import largest_magnitude
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers, Maps
from sklearn_onlineem._values import n_numbers
from sklearn_onlineem.data.rows import PLAIN, Rows, Wanted, task
from sklearn_onlineem.data.sparse import csr_parts
from sklearn_onlineem.families._e_step import NOTHING, e_step_in_blocks
from sklearn_onlineem.families._start_coordinates import standardised, unchanged
from sklearn_onlineem.families.capabilities import HiddenVariables, Means
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.statistics import Statistics, Sums

# Parameters of a family, and its statistics.
Parameters = TypeVar("Parameters")
Evidence = TypeVar("Evidence", bound=Statistics)

_LARGEST_SINGLE = 4096.0


class Family(ABC, Generic[Parameters, Evidence]):
    """A parametric family of densities p(x | theta), for all components of a mixture at once.

    A family is a small immutable value. It holds what is *not* learnt (a fixed shape, a floor).
    What is learnt is a `parameters` value for K components: an array with K rows, or a tuple or
    dataclass of such values, nested or not. Subclasses write the six abstract methods, and may
    override the others.

    Threads share the rows. Those of hidden Markov models share chunks of sequences instead, and may
    call a family at once.

    A family inherits from each class of `families.capabilities` that it implements: means to start
    from, conjugate priors and posteriors, marginals for rows with missing values, hidden variables
    within components.

    See Also
    --------
    ExponentialFamily : Most families; needs the natural parameters and the log-partition instead.

    Notes
    -----
    Methods take these:

    parameters, p, q, reference, previous, shared : object
        Parameters of K components.
    X : ndarray of shape (n_rows, n_features)
        Rows; CSR as well as dense where the family `takes_sparse`.
    sample_weight : ndarray of shape (n_rows,) or None
        Weights of the rows, not below 0; None: all are 1.
    responsibilities, posterior : ndarray of shape (n_rows, K)
        Shares of the components in each row, not below 0; those of a posterior add up to 1.
    statistics : Statistics
        Evidence, pseudo-statistics of a prior, or a sum of them.
    weights : ndarray of shape (K,)
        What own statistics of the components are multiplied by, not below 0.
    components : ndarray of int of shape (n_rows,)
        Numbers of the components that rows are drawn from.
    rows : Rows
        Observations, with their weights and labels.
    rng : numpy.random.Generator
        Source of random numbers.
    n_components, n_features, n_threads : int
        K, columns of a row, and threads, on whose number results must not depend.
    """

    # Whether means determine all parameters.
    determined_by_means = False
    # Whether rows are nominal, such as codes of symbols, without distances between them.
    is_nominal = False
    # Whether X may be CSR as well as dense; starts are then computed from CSR in both cases.
    takes_sparse = False
    # Whether statistics have a fixed size, as the hyper-parameters of a conjugate prior have.
    is_conjugate = True
    # Maps of `start_coordinates` that are the same for all rows, if any.
    start_maps: tuple[Callable[[FloatsOrSparse], FloatsOrSparse], ...] = ()
    # Parameters as users know them.
    parts: tuple[Part, ...] = (means_part(),)

    @property
    def has_symbols(self) -> bool:
        """Whether some columns are nominal; all are if `is_nominal`."""
        return self.is_nominal

    def with_symbols_of(self, X: Floats) -> Self:
        """Return the family with the numbers of symbols that rows show, unless it has them."""
        return self

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        """Return this family with everything fixed that depends on the first data."""
        return self

    def with_gaps(self, X: Floats, sample_weight: Floats | None, n_components: int) -> Self:
        """Return the family with a default prior, of `smoothing`, that makes up for missing values.

        X are the first data, in which NaN is missing, and `n_components` is K.
        """
        return self

    def learning_all(self) -> Self:
        """Return this family without masks of parameters that some components do not learn."""
        return self

    def check(self, X: Floats) -> None:
        """Raise ValueError if a row of X is outside of the support of the family."""

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        """Return maps from rows to coordinates in which k-means finds clusters to start from.

        If there are several, starts compare the likelihood of their clusters. By default dense
        columns are standardised, and sparse rows stay as they are. Weights are above 0.
        """
        if self.start_maps:
            return self.start_maps
        return (unchanged if sparse.issparse(X) else standardised(X, sample_weight),)

    @abstractmethod
    def log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return log p(x_n | theta_k) in nats, an ndarray of shape (n_rows, K)."""

    @abstractmethod
    def expected_statistics(
        self, X: Floats, responsibilities: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return the sums over rows of responsibility times sufficient statistic.

        Responsibilities, of shape (n_rows, K), are not negative, and need not add up to 1.
        """

    def posterior_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return `expected_statistics` where the responsibilities are posteriors of `parameters`.

        The parameters matter only to families with hidden variables within components; others may
        use them to save time or digits.
        """
        return self.expected_statistics(X, posterior, n_threads)

    def _statistics_given(self, rng):
        """Return `posterior_statistics`, with hidden variables drawn by rng, if there are any."""
        if rng is None or not isinstance(self, HiddenVariables):
            return self.posterior_statistics
        return partial(self.posterior_statistics, rng=rng)

    @abstractmethod
    def own_statistics(self, parameters: Parameters, weights: Floats) -> Evidence:
        """Return `weights` times the expectation of the sufficient statistic under each component.

        Weights, of shape (K,), are not below 0.
        """

    @abstractmethod
    def m_step(self, statistics: Evidence, previous: Parameters | None = None) -> Parameters:
        """Return the parameters that maximise statistics, sums or averages over rows.

        Components without any weight keep those of `previous`.
        """

    @abstractmethod
    def kl_divergence(self, p: Parameters, q: Parameters) -> Floats:
        """Return KL(p_k || q_k) in nats, an ndarray of shape (K,), between two parameters."""

    def expected_log_density(self, parameters: Parameters, statistics: Evidence) -> float:
        r"""Return the log density of rows that have these statistics, in nats, over all components.

        The M-step maximises it, up to what does not depend on the parameters: only differences have
        a meaning. The default is :math:`-\sum_k n_k \mathrm{KL}(\hat\theta_k \| \theta_k)`, with
        the effective counts and the maximiser of the statistics.
        """
        divergences = self.kl_divergence(self.m_step(statistics, parameters), parameters)
        return -float(self.effective_counts(statistics) @ divergences)

    @abstractmethod
    def sample(self, parameters: Parameters, components: Integers, rng: Generator) -> Floats:
        """Draw one row from each of the given components, an ndarray of shape (n_rows, n_features).

        `components` are their numbers, of shape (n_rows,).
        """

    def sample_like(
        self, parameters: Parameters, components: Integers, X: Floats, rng: Generator
    ) -> Floats:
        """Draw rows as `sample` does, with lengths of rows of X where lengths are not modelled.

        X may have any number of rows.
        """
        return self.sample(parameters, components, rng)

    def aligned(self, parameters: Parameters, reference: Parameters) -> Parameters:
        """Return parameters with parts of each component, if any, numbered as in a reference."""
        return parameters

    def n_parameters(self, parameters: Parameters) -> int:
        """Return the number of free parameters of all components (for BIC and AIC)."""
        return n_numbers(parameters)

    def n_shared_parameters(self, parameters: Parameters) -> int:
        """Return how many of `n_parameters` all components share, as a tied covariance."""
        return 0

    def with_shared(self, parameters: Parameters, shared: Parameters) -> Parameters:
        """Return parameters of which those that all components share, if any, are others.

        By default means are not shared, and all else is.
        """
        if not self.n_shared_parameters(parameters):
            return parameters
        return self.with_means(shared, self.means(parameters))

    def diagonalised(self, parameters: Parameters) -> Parameters:
        """Return parameters without correlations of features, which few rows cannot determine."""
        return parameters

    def n_values(self, rows: Rows) -> float:
        """Return how many values one of `Rows` has, on average, to estimate parameters from.

        Most of its features may be 0, and say little.
        """
        return rows.n_features

    def _own_counts(self, parameters, n_components):
        """Return how many parameters that it does not share each component learns, (K,)."""
        own = self.n_parameters(parameters) - self.n_shared_parameters(parameters)
        return np.full(n_components, own / n_components)

    def effective_counts(self, statistics: Evidence) -> Floats:
        """Return the weight behind the statistics of each component, an ndarray of shape (K,)."""
        return statistics.weight

    def e_step(
        self, parameters: Parameters, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, Evidence, float]:
        """Return the E-step of a mixture of this family's components.

        Responsibilities of the components (K,), `expected_statistics`, and the log-likelihood in
        nats are averages over the rows by their weights.

        Parameters
        ----------
        log_weights : ndarray of shape (K,)
            Logarithms of the mixture weights.
        rows : Rows
            Observations, with their weights and labels; with `has_gaps`, families with `Marginals`
            integrate over missing values.
        wanted : Wanted, default=PLAIN
            Draws of components, and log-likelihoods of rows.
        """
        return e_step_in_blocks(self, parameters, log_weights, rows, wanted)


class ExponentialFamily(Family[Parameters, Evidence], Means[Parameters]):
    r"""An exponential family.

    .. math:: p(x \mid \theta) = h(x) \exp(\theta \cdot \phi(x) - G(\theta))

    Parameters are in mean form, :math:`\mu = E\,\phi(x) = \nabla G(\theta)`, an array of shape
    (K, n_statistics). Subclasses write the map between mean and natural parameters, the
    log-partition function and sampling. Log density, KL divergence, statistics, M-step and E-step
    follow, and run on compiled kernels.

    Notes
    -----
    Methods take these, and those of `Family`:

    natural, mean : ndarray of shape (K, n_statistics)
        Natural parameters, and means of the sufficient statistics.
    """

    determined_by_means = True
    _is_ours = True

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._is_ours = cls.__module__.startswith("sklearn_onlineem.")

    def means(self, parameters: Parameters) -> Floats:
        return parameters

    def with_means(self, parameters: Parameters, means: Floats) -> Parameters:
        return self.regularise(means)

    @abstractmethod
    def to_natural(self, parameters: Parameters) -> Floats:
        """Return the natural parameters, an ndarray of shape (K, n_statistics)."""

    @abstractmethod
    def from_natural(self, natural: Floats) -> Parameters:
        """Return the parameters in mean form of natural ones, (K, n_statistics)."""

    @abstractmethod
    def log_partition(self, natural: Floats) -> Floats:
        """Return G(theta), of shape (K,), of natural parameters, (K, n_statistics)."""

    def sufficient_statistics(self, X: Floats) -> FloatsOrSparse:
        """Return phi(x), an array of shape (n_rows, n_statistics); the identity by default."""
        return X

    def log_base_measure(self, X: Floats, n_threads: int = 1) -> Floats:
        """Return log h(x), an ndarray of shape (n_rows,), or an empty one where h = 1."""
        return NOTHING

    def mean_statistics(self, parameters: Parameters) -> Floats:
        """Return E phi(x), an ndarray of shape (K, n_statistics)."""
        return parameters

    def regularise(self, mean: Parameters) -> Parameters:
        """Return means of the sufficient statistics, raised to the floors of proper densities."""
        return mean

    def log_density(self, parameters: Parameters, X: FloatsOrSparse, n_threads: int = 1) -> Floats:
        phi, base = self._features(X), self.log_base_measure(X, n_threads)
        return linear_log_density(phi, base, *self._terms(parameters, phi.shape[1]), n_threads)

    def expected_statistics(
        self, X: FloatsOrSparse, responsibilities: Floats, n_threads: int = 1
    ) -> Evidence:
        return linear_statistics(self._features(X), responsibilities, n_threads)

    def own_statistics(self, parameters: Parameters, weights: Floats) -> Evidence:
        means = self.mean_statistics(parameters)
        return Sums(weights, _centred_moments.scaled_rows(weights, means))

    def m_step(self, statistics: Evidence, previous: Parameters | None = None) -> Parameters:
        return self.regularise(mean_of(statistics, previous))

    def expected_log_density(self, parameters: Parameters, statistics: Evidence) -> float:
        natural = self.to_natural(parameters)
        # Impossible values have no evidence, and no prior changes them.
        possible = np.where(np.isneginf(natural), 0.0, natural)
        inner = np.einsum("kp,kp->", statistics.total, possible)
        return float(inner - statistics.weight @ self.log_partition(natural))

    def kl_divergence(self, p: Parameters, q: Parameters) -> Floats:
        natural_p, natural_q = self.to_natural(p), self.to_natural(q)
        inner = np.einsum("kp,kp->k", self.mean_statistics(p), natural_q - natural_p)
        return self.log_partition(natural_q) - self.log_partition(natural_p) - inner

    def e_step(
        self, parameters: Parameters, log_weights: Floats, rows: Rows, wanted: Wanted = PLAIN
    ) -> tuple[Floats, Evidence, float]:
        form = rows.remember(id(self), lambda: self._form(rows))
        natural, offset = form.terms(parameters)
        counts, sums, log_likelihood = linear_e_step(
            form.features, form.base, natural, log_weights + offset, rows, wanted
        )
        return counts, form.evidence(parameters, sums), log_likelihood

    def _form(self, rows):
        return LinearForm(self, rows.X, rows.n_threads)

    def _features(self, X):
        return promoted(self.sufficient_statistics(X))

    def _terms(self, parameters, n_statistics):
        """Return natural parameters and less log-partitions; ValueError for wrong ones of users."""
        natural = self.to_natural(parameters)
        if self._is_ours:
            return natural, -self.log_partition(natural)
        counted = parameters if isinstance(parameters, np.ndarray) else natural
        shape = len(counted), n_statistics
        self._check_result("to_natural", natural, shape)
        log_partition = self.log_partition(natural)
        self._check_result("log_partition", log_partition, shape[:1])
        return natural, -log_partition

    def _check_result(self, name, values, shape):
        if np.shape(values) != shape or np.isnan(values).any():
            raise ValueError(
                f"{name} of {type(self).__name__} must return numbers in an array of shape {shape},"
                f" got {np.asarray(values)!s:.60} of shape {np.shape(values)}."
            )


class LinearForm:
    """Rows with `features` in which log densities are linear, and a log `base` measure."""

    # Features are dense or CSR; the base measure may be empty.
    def __init__(self, family, X, n_threads=1):
        # The family is kept, so that its id, by which rows remember the form, cannot be reused.
        self._family, self.features = family, family._features(X)
        self.base = family.log_base_measure(X, n_threads)
        self._n_statistics = self.features.shape[1]

    def terms(self, parameters):
        """Return coefficients of the features, and constants (K,)."""
        return self._family._terms(parameters, self._n_statistics)

    def evidence(self, parameters, sums):
        """Return the statistics of the rows, from the sums of the features."""
        return sums


def linear_log_density(phi, base, natural, offset, n_threads=1):
    """Return offset_k + natural_k . phi_n + base_n, of shape (n_rows, K), for phi dense or CSR."""
    out = np.empty((phi.shape[0], len(natural)), dtype=phi.dtype)
    _linear_pass(phi, natural, offset, task(base=base, out=out), None, n_threads)
    return out


def linear_statistics(phi, responsibilities, n_threads=1):
    """Return the sums over rows of responsibility times phi, as `linear_log_density` has it."""
    weights = np.ascontiguousarray(responsibilities, dtype=phi.dtype)
    counts, given = np.empty(weights.shape[1]), task(responsibilities=weights)
    return Sums(counts, _linear_pass(phi, None, None, given, counts, n_threads)[0])


def linear_e_step(phi, base, natural, offset, rows, wanted, digits=None):
    """Return `Family.e_step` of rows with log densities as in `linear_log_density`.

    Beside dense features there may be `digits`, uint8 of shape (q, n_rows): the last q features.
    """
    wanted, counts = task(rows, *wanted, base), np.empty(len(natural))
    totals, log_likelihood = _linear_pass(
        phi, natural, offset, wanted, counts, rows.n_threads, digits
    )
    total_weight = rows.total_weight
    counts /= total_weight
    totals /= total_weight
    return counts, Sums(counts, totals), log_likelihood / total_weight


def _linear_pass(phi, natural, offset, wanted, counts, n_threads, digits=None):
    """Return the sums of features (K, p), if `counts` are wanted, and the log-likelihood."""
    n_features = phi.shape[1] if natural is None else natural.shape[1]
    if isinstance(phi, np.ndarray):
        totals = None if counts is None else np.empty((len(counts), n_features))
        log_likelihood = _natural.mixture_pass(
            phi, digits, np.zeros(phi.shape[1]), _natural.LINEAR, natural, offset, wanted, counts,
            totals, n_threads,
        )  # fmt: skip
        return totals, log_likelihood
    if phi.shape[1] != n_features:
        raise ValueError(
            f"Rows have {phi.shape[1]} statistics, but components have {n_features} natural"
            " parameters."
        )
    parts = phi[:3] if isinstance(phi, tuple) else csr_parts(phi)
    natural_T = None if natural is None else np.ascontiguousarray(natural.T)
    totals_T = None if counts is None else np.empty((n_features, len(counts)))
    log_likelihood = _counts.mixture_pass(
        *parts, natural_T, offset, wanted, counts, totals_T, n_threads
    )
    return None if counts is None else np.ascontiguousarray(totals_T.T), log_likelihood


def promoted(phi):
    """Return sufficient statistics, in double precision if single would lose too many digits."""
    if phi.dtype != np.float32:
        return phi
    values = phi.data if sparse.issparse(phi) else phi.ravel()
    return phi if largest_magnitude(values) <= _LARGEST_SINGLE else phi.astype(np.float64)


def mean_of(statistics, previous):
    """Divide totals by weights; components without weight keep their previous mean."""
    totals = np.ascontiguousarray(statistics.total)
    means, kept = np.empty(totals.shape), np.zeros(totals.shape) if previous is None else previous
    arrays = totals, statistics.weight, np.ascontiguousarray(kept), means
    if not _centred_moments.means_of_sums(*arrays):
        raise ValueError(
            "The mean of a component overflows: its weight is too small for its prior."
        )
    return means


def normalised(flat, n):
    """Return rows of probabilities: each n numbers that follow each other, divided by their sum."""
    groups = np.ascontiguousarray(flat).reshape(-1, n)
    shares = np.empty(groups.shape)
    normalise_rows(groups, groups, shares)
    return shares.reshape(flat.shape)
