"""Products of Poisson distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.families._base_measures import log_factorial_sums
from sklearn_onlineem.families._checks import above, at_least, check_non_negative
from sklearn_onlineem.families._family import ExponentialFamily
from sklearn_onlineem.statistics import Sums

__all__ = ["Poisson"]


@dataclass(frozen=True)
class Poisson(ExponentialFamily):
    r"""Independent Poisson counts.

    .. math:: p(x \mid \lambda) = \prod_j e^{-\lambda_j} \lambda_j^{x_j} / x_j!

    :math:`\phi(x) = x`, :math:`\theta = \log \lambda`, :math:`G(\theta) = \sum_j e^{\theta_j}`.
    Parameters are the rates, an ndarray of shape (K, n_features). Dense and CSR data. Counts need
    not be whole: :math:`x!` is :math:`\Gamma(x + 1)`.

    Parameters
    ----------
    min_rate : float, default=1e-10
        Floor of the rates, so that a count that a component never saw has a probability.

    References
    ----------
    Amid & Warmuth, UAI 2020, section 4 (mixtures of exponential families).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Poisson
    >>> Poisson().log_density(np.array([[2.0]]), np.array([[0.0], [1.0]]))
    array([[-2.        ],
           [-1.30685282]])
    """

    min_rate: float = 1e-10

    support_is_convex = True
    takes_sparse = True

    def check(self, X):
        check_non_negative(X)

    def to_natural(self, parameters):
        return np.log(parameters)

    def from_natural(self, natural):
        return np.exp(natural)

    def log_partition(self, natural):
        return np.exp(natural).sum(axis=1)

    def log_base_measure(self, X, n_threads=1):
        sums = log_factorial_sums(X, n_threads)
        return np.negative(sums, out=sums)

    def regularise(self, mean):
        return np.maximum(mean, self.min_rate)

    def sample(self, parameters, components, rng):
        return rng.poisson(parameters[components]).astype(np.float64)

    def prior_statistics(self, n_components, *, n_features, shape=1.0, rate=0.0):
        """Gamma(shape, rate) prior on each rate; `shape` may be an array of (n_features,).

        Shapes are above 0, and the rate is not below 0.
        """
        total = above("shape", shape, 0.0, (n_components, n_features)) - 1.0
        return Sums(np.full(n_components, at_least("rate", rate, 0.0)), total)
