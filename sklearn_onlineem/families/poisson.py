"""Products of Poisson distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, stats

from sklearn_onlineem._checks import LEAST, MOST, above, at_least, check_setting
from sklearn_onlineem._kernels import _collapsed_counts, _counts
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Generator, Integers
from sklearn_onlineem.data.sparse import check_non_negative, csr_parts
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families._start_coordinates import hellinger, square_roots
from sklearn_onlineem.families.capabilities import ColumnDistributions, Distribution
from sklearn_onlineem.families.parts import Part, means_part
from sklearn_onlineem.families.tangents import ProductTangents, raised_rows
from sklearn_onlineem.statistics import Sums


def log_factorial_sums(X, n_threads=1, *, minus_that_of_the_sum=False):
    """Return sums of the log factorials of the entries of each row, (n_rows,)."""
    (n, d), out = X.shape, np.empty(X.shape[0])
    if sparse.issparse(X):
        counts, _, indptr = csr_parts(X)
    else:
        counts, indptr = X.reshape(-1), np.arange(0, n * d + 1, d)
    _counts.log_factorial_sums(counts, indptr, minus_that_of_the_sum, out, n_threads)
    return out


class PoissonTangents(ProductTangents):
    """Directions of the rates of Poisson distributions."""

    @property
    def deviation(self):
        return np.sqrt(self.parameters)

    @property
    def is_free(self):
        return super().is_free & (self.parameters > 2.0 * self.family.min_rate)

    def size(self, v):
        return np.maximum(np.abs(v), np.abs(self.natural(v))).max()

    def raised(self, after, rise):
        return raised_rows(self.parameters, after.parameters, rise, axis=0)


def _put_lambdas(family, parameters, rates):
    return family.regularise(at_least("lambdas_", rates, 0.0, rates.shape))


@dataclass(frozen=True)
class Poisson(ExponentialColumns, ColumnDistributions[Floats], _collapsed.CollapsedCounts):
    r"""Independent Poisson counts.

    .. math:: p(x \mid \lambda) = \prod_j e^{-\lambda_j} \lambda_j^{x_j} / x_j!

    :math:`\phi(x) = x`, :math:`\theta = \log \lambda`, :math:`G(\theta) = \sum_j e^{\theta_j}`.
    Parameters are the rates, an ndarray of shape (K, n_features). Dense and CSR data. Counts need
    not be whole: :math:`x!` is :math:`\Gamma(x + 1)`.

    Parameters
    ----------
    min_rate : float, default=1e-10
        Floor of the rates, from 1e-100 to 1e100, so that all counts have a probability.
    mean_total : ndarray of shape (1,), default=None
        Mean sum of the first rows, from `bind`; ``prior="auto"`` does not change it.

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

    is_whole = True
    start_maps = square_roots, hellinger
    tangents = PoissonTangents

    min_rate: float = 1e-10
    mean_total: Floats | None = None

    support_is_convex = True
    takes_sparse = True
    parts = (
        means_part("positive"),
        means_part("positive", "rates"),
        Part("lambdas", "positive", "kd", lambda family, parameters: parameters, _put_lambdas),
    )

    def __post_init__(self):
        check_setting("min_rate", self.min_rate, LEAST, MOST)

    def bind(self, X: FloatsOrSparse, sample_weight: Floats | None = None) -> Self:
        if self.mean_total is not None:
            return self
        return replace(self, mean_total=_collapsed.mean_total(X, sample_weight))

    def check(self, X: FloatsOrSparse) -> None:
        check_non_negative(X)

    def to_natural(self, parameters: Floats) -> Floats:
        return np.log(parameters)

    def from_natural(self, natural: Floats) -> Floats:
        return np.exp(natural)

    def log_partitions(self, natural: Floats) -> Floats:
        return np.exp(natural)

    def log_base_measure(self, X: FloatsOrSparse, n_threads: int = 1) -> Floats:
        sums = log_factorial_sums(X, n_threads)
        return np.negative(sums, out=sums)

    def regularise(self, mean: Floats) -> Floats:
        return np.maximum(mean, self.min_rate)

    def distribution(self, parameters: Floats, column: int) -> Distribution:
        return stats.poisson(parameters[:, column])

    def sample(self, parameters: Floats, components: Integers, rng: Generator) -> Floats:
        return rng.poisson(parameters[components]).astype(np.float64)

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        (rate,) = _collapsed.rows_of(np.full(1, 0.5 * n_features), self.mean_total)
        return {"shape": 1.5, "rate": rate}

    def prior_statistics(
        self, n_components: int, *, n_features: int, shape: ArrayLike = 1.0, rate: ArrayLike = 0.0
    ) -> Sums:
        """Return a Gamma(shape, rate) prior on each rate.

        Parameters
        ----------
        shape : array broadcasting to (n_components, n_features), default=1.0
            Above 0; pseudo-counts are one less.
        rate : float, default=0.0
            Pseudo-rows, not below 0.
        """
        total = above("shape", shape, 0.0, (n_components, n_features)) - 1.0
        return Sums(np.full(n_components, at_least("rate", rate, 0.0)), total)

    def _shapes_and_rates(self, statistics):
        """Return shapes total + 1 and rates weight of the gamma posteriors with these modes."""
        shapes = _collapsed.proper(self, "shape", statistics.total + 1.0)
        return shapes, _collapsed.proper(self, "rate", statistics.weight)

    def predictive_log_density(
        self, statistics: Sums, X: FloatsOrSparse, n_threads: int = 1
    ) -> Floats:
        shapes, rates = self._shapes_and_rates(statistics)
        lengths = np.asarray(X.sum(axis=1), dtype=float).reshape(-1, 1)
        log_density = _collapsed.log_rising_sums(X, shapes)
        log_density -= shapes.sum(axis=1) * np.log1p(1.0 / rates) + lengths * np.log1p(rates)
        return log_density + self.log_base_measure(X, n_threads)[:, None]

    def draw_from_posterior(self, statistics: Sums, rng: Generator) -> Floats:
        shapes, rates = self._shapes_and_rates(statistics)
        return self.regularise(rng.standard_gamma(shapes) / rates[:, None])

    def _swept(self, prior, X):
        shapes, rates = self._shapes_and_rates(prior)
        return _collapsed_counts.POISSON, X, shapes, {"weight": rates}
