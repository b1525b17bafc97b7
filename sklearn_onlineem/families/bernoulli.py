"""Products of Bernoulli distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.families._checks import above, stored_values
from sklearn_onlineem.families._family import ExponentialFamily
from sklearn_onlineem.statistics import Sums

__all__ = ["Bernoulli"]


@dataclass(frozen=True)
class Bernoulli(ExponentialFamily):
    r"""Independent bits, :math:`p(x \mid p) = \prod_j p_j^{x_j} (1 - p_j)^{1 - x_j}`.

    :math:`\phi(x) = x`, :math:`\theta = \log p / (1 - p)`,
    :math:`G(\theta) = \sum_j \log(1 + e^{\theta_j})`. Parameters are the probabilities of a one, an
    ndarray of shape (K, n_features). Dense and CSR data; values between 0 and 1 are expected bits.

    Parameters
    ----------
    min_probability : float, default=1e-10
        Distance that the probabilities keep from 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Bernoulli
    >>> np.exp(Bernoulli().log_density(np.array([[0.25, 0.5]]), np.array([[1.0, 0.0]])))
    array([[0.125]])
    """

    min_probability: float = 1e-10

    support_is_convex = True
    takes_sparse = True

    def check(self, X):
        values = stored_values(X)
        if values.size and (np.min(values) < 0 or np.max(values) > 1):
            raise ValueError("Bernoulli data must lie between 0 and 1.")

    def to_natural(self, parameters):
        return np.log(parameters) - np.log1p(-parameters)

    def from_natural(self, natural):
        return 1.0 / (1.0 + np.exp(-natural))

    def log_partition(self, natural):
        return np.logaddexp(0.0, natural).sum(axis=1)

    def regularise(self, mean):
        return np.clip(mean, self.min_probability, 1.0 - self.min_probability)

    def sample(self, parameters, components, rng):
        p = parameters[components]
        return (rng.random(p.shape) < p).astype(np.float64)

    def prior_statistics(self, n_components, *, n_features, alpha=1.0, beta=1.0):
        """Beta(alpha, beta) prior on each probability; scalars above 0."""
        alpha, beta = above("alpha", alpha, 0.0), above("beta", beta, 0.0)
        total = np.full((n_components, n_features), alpha - 1.0)
        return Sums(np.full(n_components, alpha + beta - 2.0), total)
