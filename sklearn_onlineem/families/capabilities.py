"""What some families can do besides the contract; a family inherits from each that it has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from inspect import Parameter, signature
from typing import Generic, TypeVar

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.statistics import Statistics

__all__ = [
    "ConjugatePriors",
    "Correlations",
    "HiddenVariables",
    "Marginals",
    "PosteriorMeans",
    "PosteriorPredictives",
    "require",
]

Parameters = TypeVar("Parameters")
Evidence = TypeVar("Evidence", bound=Statistics)

# Of `prior_statistics`, what the data and the estimator say.
_SIZES = {"n_components", "n_features", "n_inputs", "n_outputs"}


class ConjugatePriors(ABC, Generic[Parameters, Evidence]):
    """Families with a conjugate prior.

    Attributes
    ----------
    lacking : str
        What an error says of a family that has not got them; some capabilities have one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Poisson
    >>> Poisson().prior_statistics(1, n_features=2, shape=3.0, rate=2.0)
    Sums(weight=array([2.]), total=array([[2., 2.]]))
    """

    lacking = "has no conjugate prior"

    @property
    def prior_keys(self) -> list[str] | None:
        """Names of the hyper-parameters of `prior_statistics`; None: it checks them."""
        parameters = signature(self.prior_statistics).parameters
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values()):
            return None
        return [name for name in parameters if name not in _SIZES]

    @abstractmethod
    def prior_statistics(self, n_components: int, **hyperparameters: object) -> Evidence:
        """Return a conjugate prior as pseudo-statistics, a term of the sum that the M-step takes.

        Parameters
        ----------
        n_components : int
            How many components have the prior.

        Raises
        ------
        ValueError
            If a hyper-parameter is out of its range.
        """


class PosteriorMeans(ConjugatePriors[Parameters, Evidence]):
    """Families whose posterior has a mean in closed form.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Poisson
    >>> family = Poisson()
    >>> prior = family.prior_statistics(1, n_features=1, shape=3.0, rate=2.0)
    >>> family.m_step(prior), family.m_step(family.mean_form(prior))
    (array([[1.]]), array([[1.5]]))
    """

    lacking = "has no posterior mean in closed form"

    @abstractmethod
    def mean_form(self, prior: Evidence) -> Evidence:
        """Return pseudo-statistics that lead the M-step to the posterior's mean, not its mode.

        The mean is that of the mean parameters, E x for most families, and of covariances.

        Parameters
        ----------
        prior : Statistics
            What `prior_statistics` returns.

        Raises
        ------
        ValueError
            If the prior is too wide to have one.
        """


class PosteriorPredictives(PosteriorMeans[Parameters, Evidence]):
    """Families whose parameters can be integrated out, as collapsed Gibbs sampling needs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Poisson
    >>> family = Poisson()
    >>> prior = family.prior_statistics(1, n_features=1, shape=1.0, rate=1.0)
    >>> np.exp(family.predictive_log_density(prior, np.array([[0.0], [1.0], [2.0]])))
    array([[0.5  ],
           [0.25 ],
           [0.125]])
    """

    lacking = "has no posterior predictive in closed form, which collapsed Gibbs sampling needs"

    @abstractmethod
    def predictive_log_density(self, statistics: Evidence, X: Floats, n_threads: int = 1) -> Floats:
        """Return log p(x_n | statistics_k): the posterior predictive under the conjugate prior.

        Parameters
        ----------
        statistics : Statistics
            Pseudo-statistics of the prior plus evidence as sums over rows (not averages).
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Returns
        -------
        log_density : ndarray of shape (n_rows, K)
            In nats.

        Raises
        ------
        ValueError
            If the statistics make no proper posterior.
        """

    @abstractmethod
    def draw_from_posterior(self, statistics: Evidence, rng: np.random.Generator) -> Parameters:
        """Return parameters drawn from the conjugate posterior of each component.

        Arguments and errors are those of `predictive_log_density`.

        Parameters
        ----------
        statistics : Statistics
            Pseudo-statistics of the prior plus evidence as sums over rows (not averages).
        rng : numpy.random.Generator
            Where random numbers come from.
        """

    @abstractmethod
    def collapsed_sweep(
        self, prior: Evidence, X: Floats, labels: Integers, concentration: Floats, uniforms: Floats
    ) -> float:
        r"""One sweep of collapsed Gibbs sampling: rows in order.

        Each leaves its component's statistics, is drawn anew from

        .. math::
            p(z=k \mid \text{rest}) \propto{} & (n_k + \text{concentration}_k) \\
            & \cdot p(x \mid \text{prior + statistics of k without it}),

        and joins.

        Parameters
        ----------
        prior : Statistics
            Pseudo-statistics.
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        labels : ndarray of intc of shape (n_rows,)
            In place.
        concentration : ndarray of shape (K,)
            Dirichlet parameters above 0.
        uniforms : ndarray of shape (n_rows,)
            In [0, 1).

        Returns
        -------
        log_predictive : float
            Mean over rows of log sum_k share_k p(x | ...) at its turn, where share_k is
            (n_k + concentration_k) / (n - 1 + sum concentration), in nats.

        Raises
        ------
        ValueError
            As `predictive_log_density`.
        """


class Marginals(ABC, Generic[Parameters, Evidence]):
    """Families with distributions of some features alone, for rows with some NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian
    >>> family = Gaussian()
    >>> gaussians = family.from_natural(np.array([[0.0, 0.0, -1.0, 0.5, 0.5, -1.0]]))
    >>> X = np.array([[1.0, np.nan]])
    >>> family.marginal_statistics(gaussians, X, np.ones((1, 1))).mean
    array([[1. , 0.5]])
    """

    @abstractmethod
    def marginal_log_density(self, parameters: Parameters, X: Floats, n_threads: int = 1) -> Floats:
        """Return `log_density` of what each row has; NaN is missing, but not in all of a row.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : ndarray of shape (n_rows, n_features)
            Rows; NaN is missing.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.
        """

    @abstractmethod
    def marginal_statistics(
        self, parameters: Parameters, X: Floats, posterior: Floats, n_threads: int = 1
    ) -> Evidence:
        """Return `expected_statistics`, also in expectation over what is missing.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : ndarray of shape (n_rows, n_features)
            Rows; NaN is missing.
        posterior : ndarray of shape (n_rows, K)
            Shares of the components in each row.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.
        """


class HiddenVariables(ABC, Generic[Parameters, Evidence]):
    """Families whose components have hidden variables of their own, as proportions of documents.

    The components of rows are drawn by the model, where hidden variables are sampled.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import CompoundDirichlet
    >>> family, X = CompoundDirichlet(), np.tile([[3.0, 1.0]], (5000, 1))
    >>> words = family.dirichlets(np.array([[1.0, 1.0]]), np.array([4.0]))
    >>> shares = np.ones((5000, 1))
    >>> drawn = family.sampled_statistics(words, X, shares, np.random.default_rng(0))
    >>> expected = family.posterior_statistics(words, X, shares)
    >>> (drawn.total / expected.total).round(1)
    array([[1., 1.]])
    """

    @abstractmethod
    def sampled_statistics(
        self,
        parameters: Parameters,
        X: Floats,
        posterior: Floats,
        rng: np.random.Generator,
        n_threads: int = 1,
    ) -> Evidence:
        """Return `posterior_statistics` with the components' own hidden variables drawn.

        Each row's are drawn once for each component that it has a share of, from their
        distribution given the row and the component, so that the expectation is
        `posterior_statistics`.

        Parameters
        ----------
        parameters : object
            Of K components.
        X : array of shape (n_rows, n_features)
            Rows; CSR as well as dense where the family `takes_sparse`.
        posterior : ndarray of shape (n_rows, K)
            Shares; where components were drawn, 0 but for one of each row.
        rng : numpy.random.Generator
            Draws must not depend on `n_threads`.
        n_threads : int, default=1
            How many threads may walk the rows. Results do not depend on it.

        Returns
        -------
        statistics : Statistics
        """

    def sampled_e_step(
        self, parameters: Parameters, log_weights: Floats, rows: Rows, rng: np.random.Generator
    ) -> tuple[Floats, Evidence, float]:
        """Return `e_step` with all hidden variables drawn: components, and what they have.

        Parameters
        ----------
        parameters : object
            Of K components.
        log_weights : ndarray of shape (K,)
            Logarithms of the mixture weights.
        rows : Rows
            Observations, with their weights and labels.
        rng : numpy.random.Generator
            Where random numbers come from.
        """
        statistics = partial(self.sampled_statistics, parameters, rng=rng)
        uniforms = rng.random(len(rows))
        return self._over_blocks(parameters, log_weights, rows, uniforms, statistics)


class Correlations(ABC, Generic[Parameters]):
    """Families with correlations between features, which few rows cannot vouch for.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Gaussian
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> family = Gaussian(reg_covar=0.1)
    >>> gaussians = family.m_step(family.expected_statistics(X, np.ones((3, 1))))
    >>> family.diagonalised(gaussians).covariance.round(3)
    array([[[0.767, 0.   ],
            [0.   , 0.767]]])
    """

    @abstractmethod
    def diagonalised(self, parameters: Parameters) -> Parameters:
        """Return parameters that few rows can vouch for, without correlations.

        Parameters
        ----------
        parameters : object
            Of K components.
        """


def require(family, capability):
    """Raise ValueError if a family has not got a capability."""
    if not isinstance(family, capability):
        raise ValueError(f"{type(family).__name__} {capability.lacking}.")
