"""Products of exponential distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from sklearn_onlineem._checks import LEAST, MOST, above, at_least, check_setting
from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._typing import Floats, Generator, Integers, Maps
from sklearn_onlineem.data.sparse import check_non_negative
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families._start_coordinates import logarithmic
from sklearn_onlineem.families.capabilities import ColumnDistributions, Distribution
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import ProductTangents
from sklearn_onlineem.statistics import Sums


def _put_rates(family, parameters, rates):
    return family.regularise(family.shape / above("rates_", rates, 0.0, rates.shape))


class Durations(ExponentialColumns, ColumnDistributions[Floats], _collapsed.CollapsedCounts):
    """Families with posteriors of rates: x_j | r_j ~ Gamma(s, r_j), r_j ~ Gamma(alpha, beta_j)."""

    # s
    shape: float

    parts = (
        means_part("positive"),
        Part("rates", "positive", "kd", lambda family, means: family.shape / means, _put_rates),
    )

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        return stats.gamma(self.shape, scale=parameters[:, column] / self.shape)

    def start_coordinates(self, X: Floats, sample_weight: Floats | None = None) -> Maps:
        return (logarithmic(X, sample_weight),)

    def to_natural(self, parameters: Floats) -> Floats:
        return -self.shape / parameters

    def from_natural(self, natural: Floats) -> Floats:
        return -self.shape / natural

    def log_partitions(self, natural: Floats) -> Floats:
        return -self.shape * np.log(-natural)

    def prior_statistics(
        self, n_components: int, *, n_features: int, shape: ArrayLike = 1.0, rate: ArrayLike = 0.0
    ) -> Sums:
        """Return a Gamma(shape, rate) prior on each rate.

        Parameters
        ----------
        n_components, n_features : int
            K, and columns of a row.
        shape : array broadcasting to (n_components,), default=1.0
            Above 0; pseudo-rows are one less, divided by the shape of the family.
        rate : array broadcasting to (n_components, n_features), default=0.0
            In the units of the rows, not below 0.
        """
        weight = above("shape", shape, 0.0, (n_components,)) - 1.0
        total = at_least("rate", rate, 0.0, (n_components, n_features))
        return Sums(weight / self.shape, total)

    def mean_form(self, prior: Sums) -> Sums:
        # The mode of a rate is the mean of its inverse.
        return prior

    def _posterior(self, statistics):
        """Return alpha = s weight + 1 and beta = total of the posteriors with these modes."""
        alpha = _collapsed.proper(self, "shape", self.shape * statistics.weight + 1.0)
        return alpha, _collapsed.proper(self, "rate", statistics.total)

    def predictive_log_density(self, statistics: Sums, X: Floats, n_threads: int = 1) -> Floats:
        # log x^(s-1) beta^alpha / (B(alpha, s) (beta + x)^(alpha + s)), Lomax for s = 1.
        s, X, (alpha, beta) = self.shape, np.asarray(X, dtype=float), self._posterior(statistics)
        growth = np.stack([np.log1p(X / scale).sum(axis=1) for scale in beta], axis=1)
        constant = X.shape[1] * _collapsed.log_rising(alpha, s)
        constant -= s * np.log(beta).sum(axis=1)
        log_density, base = constant - (alpha + s) * growth, self.log_base_measure(X)
        return log_density + base[:, None] if len(base) else log_density

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        alpha, beta = self._posterior(statistics)
        return self.regularise(self.shape * beta / rng.standard_gamma(alpha[:, None], beta.shape))

    def _swept(self, prior, X):
        alpha, beta = self._posterior(prior)
        return _collapsed_counts.DURATIONS, X, beta, {"weight": alpha, "step": self.shape}


class DurationTangents(ProductTangents):
    """Tangents of means of exponential variables, and of gamma variables of a known shape."""

    @property
    def _shape(self):
        return getattr(self.family, "shape", 1.0)

    @property
    def deviation(self):
        return self.parameters / np.sqrt(self._shape)

    def moved(self, v):
        return self.parameters * np.exp(v / np.sqrt(self._shape))


@dataclass(frozen=True)
class Exponential(Durations):
    r"""Independent waiting times, :math:`p(x \mid r) = \prod_j r_j e^{-r_j x_j}`.

    :math:`\phi(x) = x`, :math:`\theta = -r`, :math:`G(\theta) = -\sum_j \log(-\theta_j)`.
    Parameters are the means 1/r, an ndarray of shape (K, n_features).

    Parameters
    ----------
    min_mean : float, default=1e-12
        Floor of the means, relative to the largest component's mean of the same feature; from
        1e-100 to 1e100.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Exponential
    >>> Exponential().log_density(np.array([[0.5]]), np.array([[0.0], [1.0]]))
    array([[ 0.69314718],
           [-1.30685282]])
    """

    tangents = DurationTangents

    min_mean: float = 1e-12

    shape = 1.0
    support_is_convex = True

    def __post_init__(self):
        check_setting("min_mean", self.min_mean, LEAST, MOST)

    def check(self, X: Floats) -> None:
        check_non_negative(X)

    def regularise(self, mean: Floats) -> Floats:
        return floored_mean(mean, self.min_mean)

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        return rng.exponential(parameters[components])


def floored_mean(mean, floor):
    """Return means at least `floor` times the largest of their column, above 0 where all are 0."""
    return np.maximum(mean, np.maximum(floor * mean.max(axis=0), 1e-290))
