"""Optional capabilities of families; a family inherits from each one that it implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._typing import Bools, Floats, Generator, Integers
from sklearn_onlineem.statistics import Statistics

Parameters = TypeVar("Parameters")
Evidence = TypeVar("Evidence", bound=Statistics)

# Halving alone is as exact as numbers are after some 60 steps, unless a quantile is nearly 0.
_MOST_STEPS = 300
# Parameters of `prior_statistics` that depend on the data and the estimator.
_SIZES = {"n_components", "n_features", "n_inputs", "n_outputs"}


class Means(ABC, Generic[Parameters]):
    """Families whose components have means, which may be start values.

    Notes
    -----
    Methods take these, and those of `Family`:

    means : ndarray of shape (K, n_features)
        Means of the components.
    """

    # Ends the error about a family without this capability; some have one.
    lacking = "cannot start from means"
    # Whether the support is convex, so that `check` applies to means, too.
    support_is_convex = False

    def check_means(self, means: Floats) -> None:
        """Raise ValueError if a row of `means`, (K, n_features), cannot be a component's."""
        if self.support_is_convex:
            self.check(means)

    @abstractmethod
    def means(self, parameters: Parameters) -> Floats:
        """Return E x, an ndarray of shape (K, n_features)."""

    @abstractmethod
    def with_means(self, parameters: Parameters, means: Floats) -> Parameters:
        """Return parameters with the given means, (K, n_features), all else as in `parameters`.

        ValueError is raised if means do not determine parameters.
        """


class ConjugatePriors(ABC, Generic[Parameters, Evidence]):
    """Families with a conjugate prior.

    Notes
    -----
    Methods take these, and those of `Family`:

    prior : Statistics
        Pseudo-statistics of a conjugate prior.
    """

    lacking = "has no conjugate prior"

    @property
    def prior_keys(self) -> list[str] | None:
        """Names of the hyper-parameters of `prior_statistics`; None if it checks them itself."""
        parameters = signature(self.prior_statistics).parameters
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
            return None
        return [name for name in parameters if name not in _SIZES]

    @abstractmethod
    def prior_statistics(self, n_components: int, **hyperparameters: object) -> Evidence:
        """Return a conjugate prior as pseudo-statistics, which are added to those of the M-step.

        K components have it; `n_features`, which most families take too, are the columns of a row.
        Hyper-parameters out of range raise a ValueError.
        """

    def smoothing(self, n_features: int) -> Mapping[str, object]:
        """Return hyper-parameters of ``prior="auto"``, the default of mixtures; none: no prior.

        A weak prior of counts, so that what no row has shown has a probability, or of what missing
        values leave open.
        """
        return {}


class PosteriorMeans(ConjugatePriors[Parameters, Evidence]):
    """Families whose posterior has a mean in closed form."""

    lacking = "has no posterior mean in closed form"

    @abstractmethod
    def mean_form(self, prior: Evidence) -> Evidence:
        """Return pseudo-statistics that lead the M-step to the posterior's mean, not its mode.

        `prior` is of `prior_statistics`. The mean is that of mean parameters, E x for most
        families, and of covariances; ValueError if it does not exist.
        """


class PosteriorPredictives(PosteriorMeans[Parameters, Evidence]):
    """Families whose parameters can be integrated out, as collapsed Gibbs sampling needs."""

    lacking = "has no posterior predictive in closed form, which collapsed Gibbs sampling needs"

    def with_fixed(self, parameters: Parameters, components: Bools | None = None) -> Self:
        """Return a family with values of what it does not learn, which posteriors of the rest need.

        They are those of `parameters`, whose learnt ones are ignored. Families may ignore
        `components`, bools of shape (K,) that say which are fixed as a whole.
        """
        return self

    def learns_all(self, n_components: int) -> Bools:
        """Return which of K components learn all parameters that are their own, (n_components,)."""
        return np.ones(n_components, dtype=bool)

    @abstractmethod
    def predictive_log_density(self, statistics: Evidence, X: Floats, n_threads: int = 1) -> Floats:
        """Return the posterior predictive log p(x_n | statistics_k), in nats, of shape (n_rows, K).

        The statistics are pseudo-statistics of the conjugate prior plus evidence as sums over rows,
        not averages; ValueError if the posterior is improper.
        """

    @abstractmethod
    def draw_from_posterior(self, statistics: Evidence, rng: Generator) -> Parameters:
        """Return parameters drawn from the conjugate posterior of each component.

        The statistics are as in `predictive_log_density`.
        """

    @abstractmethod
    def collapsed_sweep(
        self,
        prior: Evidence,
        X: Floats,
        labels: Integers,
        concentration: Floats,
        uniforms: Floats,
        learns_shares: bool = True,
        fixed: tuple[Bools, Parameters] | None = None,
    ) -> float:
        r"""Take one sweep of collapsed Gibbs sampling over the rows, in order.

        Each row leaves its component's statistics, is assigned to a component drawn from

        .. math::
            p(z=k \mid \text{rest}) \propto{} & (n_k + \text{concentration}_k) \\
            & \cdot p(x \mid \text{prior + statistics of k without it}),

        and joins its statistics. Return the mean over rows of log sum_k share_k p(x | ...) before
        each draw, in nats; share_k is (n_k + concentration_k) / (n - 1 + sum concentration).

        Parameters
        ----------
        prior : Statistics
            Pseudo-statistics of a proper prior, else a ValueError.
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        labels : ndarray of intc of shape (n_rows,)
            Components of the rows, changed in place.
        concentration : ndarray of shape (K,)
            Dirichlet parameters above 0.
        uniforms : ndarray of shape (n_rows,)
            In [0, 1).
        learns_shares : bool, default=True
            False: shares are known, and `concentration` holds them, not below 0; counts n_k are
            left out.
        fixed : tuple (ndarray of bool of shape (K,), object), default=None
            Components whose parameters are known, and parameters of all; their densities replace
            the predictive ones. None: all are integrated out.
        """


class Marginals(ABC, Generic[Parameters, Evidence]):
    """Families with distributions of some features alone, for rows with some NaN.

    Their `Family.check` ignores NaN.
    """

    lacking = "has no marginal distributions of some features, which rows with NaN need"

    @abstractmethod
    def marginal_log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return the `log_density` of the observed values of each row; 0 where there are none.

        NaN in X is missing.
        """

    @abstractmethod
    def marginal_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return `expected_statistics`, in expectation over missing values too.

        NaN in X is missing; `posterior` has the responsibilities, of shape (n_rows, K).
        """

    @abstractmethod
    def completed(self, parameters: Parameters, X: Floats, posterior: Floats) -> Floats:
        """Return X with missing values replaced by their expectations.

        They are those given the observed values of the row in each component, averaged over the
        components by the responsibilities `posterior`, (n_rows, K), which add up to 1. A nominal
        value is replaced by the most probable one.
        """

    @abstractmethod
    def drawn(
        self, parameters: Parameters, X: Floats, components: Integers, rng: Generator
    ) -> Floats:
        """Return X with missing values drawn, given the others and the components, (n_rows,)."""


class Distribution(Protocol):
    """Distributions of numbers, K in one, as those of scipy.stats; `pmf` if these are whole."""

    def cdf(self, x: ArrayLike) -> Floats: ...
    def ppf(self, q: ArrayLike) -> Floats: ...
    def var(self) -> Floats: ...


def mixture_quantiles(components: Distribution, weights: Floats, levels: Floats) -> Floats:
    """Return quantiles of mixtures, where distribution functions have levels, (n_levels, ...).

    They lie between those of the components, K in one with weights (..., K): secants shorten the
    bounds (the Illinois method), and every third step halves them.
    """
    levels = levels.reshape(-1, *np.ones(weights.ndim - 1, dtype=int))

    def excess(x):
        return (weights * components.cdf(x[..., None])).sum(axis=-1) - levels

    seen, is_whole = weights > 0.0, hasattr(components, "pmf")
    ends = components.ppf(levels[..., None])
    low = np.where(seen, ends, np.inf).min(axis=-1) - is_whole
    high = np.where(seen, ends, -np.inf).max(axis=-1)
    below, above, negligible = excess(low), excess(high), 1e-13 * levels
    was_below = np.zeros(low.shape, dtype=np.int8)
    for step in range(_MOST_STEPS):
        x = low + 0.5 * (high - low)
        if is_whole:
            x = np.floor(x)
        elif step % 3 < 2:
            drop = np.divide(above, above - below, out=np.full_like(x, 0.5), where=above > below)
            secant = high - drop * (high - low)
            x = np.where((low < secant) & (secant < high), secant, x)
        if not ((low < x) & (x < high)).any():
            break
        found = excess(x)
        is_below = found < 0.0
        # An end that stays twice counts half, so that it moves.
        below = np.where(is_below, found, np.where(was_below == -1, 0.5 * below, below))
        above = np.where(is_below, np.where(was_below == 1, 0.5 * above, above), found)
        low, high = np.where(is_below, x, low), np.where(is_below, high, x)
        was_below = np.where(is_below, 1, -1)
        if not is_whole:
            low = np.where(np.abs(found) <= negligible, x, low)
            high = np.where(np.abs(found) <= negligible, x, high)
    return high


class ColumnDistributions(ABC, Generic[Parameters]):
    """Families with a distribution function of each column, for quantiles, and with covariances.

    Notes
    -----
    Methods take these, and those of `Family`:

    column : int
        Number of a column.
    """

    lacking = "has no distributions of single columns, which quantiles and covariances need"
    # Whether values are whole numbers, so that distributions have a `pmf`.
    is_whole = False

    @abstractmethod
    def distribution(self, parameters: Parameters, column: int) -> Distribution:
        """Return the distribution of a column, by its number, in each component, K in one."""

    def covariances(self, parameters: Parameters) -> Floats:
        """Return Cov x, an ndarray of shape (K, n_features, n_features).

        By default columns are independent given the component.
        """
        n_features = self.means(parameters).shape[1]
        variances = [self.distribution(parameters, j).var() for j in range(n_features)]
        return np.stack(variances, axis=1)[:, :, None] * np.eye(n_features)


class HiddenVariables(ABC, Generic[Parameters, Evidence]):
    """Families with hidden variables within components, such as proportions of documents."""

    @abstractmethod
    def posterior_statistics(
        self,
        parameters: Parameters,
        X: Floats,
        posterior: Floats,
        n_threads: int = 1,
        rng: Generator | None = None,
    ) -> Evidence:
        """Return the statistics in expectation over hidden variables, or with these drawn.

        Those of each row are drawn once for each component with a share of it, from their posterior
        given both.

        Parameters
        ----------
        parameters, X, n_threads
            As in `Family.log_density`.
        posterior : ndarray of shape (n_rows, K)
            Responsibilities; one-hot where components were drawn.
        rng : numpy.random.Generator, default=None
            Source of random numbers; draws must not depend on `n_threads`. None: expectations.
        """


def require(family, capability):
    """Return a family; ValueError if it lacks a capability."""
    if not isinstance(family, capability):
        raise ValueError(f"{type(family).__name__} {capability.lacking}.")
    return family
