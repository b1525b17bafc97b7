"""Products of Bernoulli distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sklearn_onlineem._checks import above, check_setting
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.sparse import stored_values
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families._start_coordinates import hellinger, unchanged
from sklearn_onlineem.families.capabilities import ColumnDistributions, Distribution
from sklearn_onlineem.families.parts import means_part
from sklearn_onlineem.families.tangents import BOUND, ProductTangents, Shares
from sklearn_onlineem.statistics import Sums

# Smallest difference from 1 in double precision.
_LEAST = 1e-15


class BernoulliTangents(ProductTangents):
    """Directions of probabilities of bits."""

    def is_proper(self, prior):
        return bool(((0.0 <= prior.total) & (prior.total <= prior.weight[:, None])).all())

    @property
    def deviation(self):
        return np.sqrt(self.parameters * (1.0 - self.parameters))

    @property
    def is_free(self):
        return np.minimum(self.parameters, 1.0 - self.parameters) > BOUND

    def size(self, v):
        return np.abs(self.natural(v)).max()

    @property
    def _shares(self):
        return Shares(np.stack([self.parameters, 1.0 - self.parameters], axis=-1))

    def raised(self, after, rise):
        rows = self._shares.raised(after._shares, rise)
        return None if rows is None else rows[..., 0]


@dataclass(frozen=True)
class Bernoulli(ExponentialColumns, ColumnDistributions[Floats], _collapsed.CollapsedCounts):
    r"""Independent bits, :math:`p(x \mid p) = \prod_j p_j^{x_j} (1 - p_j)^{1 - x_j}`.

    :math:`\phi(x) = x`, :math:`\theta = \log p / (1 - p)`,
    :math:`G(\theta) = \sum_j \log(1 + e^{\theta_j})`. Parameters are the probabilities of a one, an
    ndarray of shape (K, n_features). Dense and CSR data; values between 0 and 1 are expected bits.

    Parameters
    ----------
    min_probability : float, default=1e-10
        Least distance of the probabilities from 0 and 1, itself from 1e-15 to 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Bernoulli
    >>> np.exp(Bernoulli().log_density(np.array([[0.25, 0.5]]), np.array([[1.0, 0.0]])))
    array([[0.125]])
    """

    is_whole = True
    start_maps = hellinger, unchanged
    tangents = BernoulliTangents

    min_probability: float = 1e-10

    support_is_convex = True
    takes_sparse = True
    parts = (means_part("probability"), means_part("probability", "probabilities"))

    def __post_init__(self):
        check_setting("min_probability", self.min_probability, _LEAST, 0.5)

    def check(self, X: FloatsOrSparse) -> None:
        values = stored_values(X)
        if (values < 0).any() or (values > 1).any():
            raise ValueError("Bernoulli data must lie between 0 and 1.")

    def to_natural(self, parameters: Floats) -> Floats:
        return np.log(parameters) - np.log1p(-parameters)

    def from_natural(self, natural: Floats) -> Floats:
        return 1.0 / (1.0 + np.exp(-natural))

    def log_partitions(self, natural: Floats) -> Floats:
        return np.logaddexp(0.0, natural)

    def regularise(self, mean: Floats) -> Floats:
        return np.clip(mean, self.min_probability, 1.0 - self.min_probability)

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        return stats.bernoulli(parameters[:, column])

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        p = parameters[components]
        return (rng.random(p.shape) < p).astype(np.float64)

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        return {"alpha": 1.5, "beta": 1.5}

    def prior_statistics(
        self, n_components: int, *, n_features: int, alpha: ArrayLike = 1.0, beta: ArrayLike = 1.0
    ) -> Sums:
        """Return a Beta(alpha, beta) prior on each probability.

        Parameters
        ----------
        alpha : float, default=1.0
            Above 0; its pseudo-successes are one less.
        beta : float, default=1.0
            Above 0; its pseudo-failures are one less.
        """
        alpha, beta = above("alpha", alpha, 0.0), above("beta", beta, 0.0)
        total = np.full((n_components, n_features), alpha - 1.0)
        return Sums(np.full(n_components, alpha + beta - 2.0), total)

    def _alpha_and_beta(self, statistics):
        """Return total + 1 and weight - total + 1 of the beta posteriors with these modes."""
        total = statistics.total
        alpha = _collapsed.proper(self, "alpha", total + 1.0)
        return alpha, _collapsed.proper(self, "beta", statistics.weight[:, None] - total + 1.0)

    def mean_form(self, prior: Sums) -> Sums:
        return Sums(prior.weight + 2.0, prior.total + 1.0)

    def predictive_log_density(
        self, statistics: Sums, X: FloatsOrSparse, n_threads: int = 1
    ) -> Floats:
        alpha, beta = self._alpha_and_beta(statistics)
        alpha_T, beta_T = alpha.T.copy(), beta.T.copy()

        def log_odds(x, j):
            rising = _collapsed.log_rising(alpha_T[j], x) + _collapsed.log_rising(beta_T[j], 1 - x)
            return rising - np.log(beta_T[j])

        of_noughts = np.log(beta / (alpha + beta)).sum(axis=1)
        return _collapsed.over_values(X, len(alpha), log_odds) + of_noughts

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        return self.regularise(rng.beta(*self._alpha_and_beta(statistics)))

    def _swept(self, prior, X):
        alpha, beta = self._alpha_and_beta(prior)
        further = {"second_prior": beta, "weight": prior.weight + 2.0}
        return _collapsed_counts.BERNOULLI, X, alpha, further
