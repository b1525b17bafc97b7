"""Products of categorical distributions over integer codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._kernels._rows import are_codes
from sklearn_onlineem._typing import Floats, FloatsOrSparse, Integers
from sklearn_onlineem.data._batch import REALS
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._checks import LEAST, above, check_setting
from sklearn_onlineem.families._independent_columns import ExponentialColumns, filled
from sklearn_onlineem.families._start_coordinates import unchanged
from sklearn_onlineem.statistics import Sums

__all__ = ["Categorical"]

# A stray code of 1e10 must be an error, not an allocation.
_MOST_CATEGORIES = 1 << 20


@dataclass(frozen=True)
class Categorical(ExponentialColumns, _collapsed.CollapsedCounts):
    r"""Independent symbols, :math:`p(x \mid p) = \prod_j p_{j, x_j}`, one code 0, 1, ... a column.

    :math:`\phi(x)` is the one-hot coding, :math:`\theta = \log p`,
    :math:`G(\theta) = \sum_j \log \sum_c e^{\theta_{jc}}`. Parameters are the probabilities, an
    ndarray of shape (K, n_features * n_categories).

    Parameters
    ----------
    n_categories : int, default=None
        Number of codes of each column. None: one more than the largest code in the first data.
    min_probability : float, default=1e-10
        Floor of the probabilities, from 1e-100 to 1, so that all symbols have a probability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Categorical
    >>> family = Categorical(n_categories=3)
    >>> np.exp(family.log_density(np.array([[0.2, 0.3, 0.5]]), np.array([[2.0], [0.0]])))
    array([[0.5],
           [0.2]])
    """

    n_categories: int | None = None
    min_probability: float = 1e-10

    determined_by_means = False
    is_nominal = True

    def __post_init__(self):
        check_setting("min_probability", self.min_probability, LEAST, 1.0)

    def bind(self, X: Floats, sample_weight: Floats | None = None) -> Self:
        if self.n_categories is not None:
            return self
        return replace(self, n_categories=int(X.max()) + 1)

    def check(self, X: Floats) -> None:
        has_gaps = not sparse.issparse(X) and np.isnan(X).any()
        self._check_codes(filled(X, 0.0) if has_gaps else X)

    def _check_codes(self, X):
        most = _MOST_CATEGORIES if self.n_categories is None else self.n_categories
        if not sparse.issparse(X):
            reals = np.require(X, None if X.dtype in REALS else np.float64, "AC")
            if are_codes(reals, min(most, sys.maxsize)):
                return
        why = ""
        if self.n_categories is not None:
            why = (
                f", as n_categories={self.n_categories} (n_features of a hidden Markov model); if"
                " not given it is what the first data show"
            )
        raise ValueError(f"Categorical data must be integer codes in 0..{most - 1}{why}.")

    def start_coordinates(
        self, X: Floats, sample_weight: Floats | None = None
    ) -> tuple[Callable[[Floats], FloatsOrSparse], ...]:
        # Between codes there are no distances, but a single column has nothing else.
        return (self.sufficient_statistics if X.shape[1] > 1 else unchanged,)

    def sufficient_statistics(self, X: Floats) -> Floats:
        # Codes become columns, which kernels do not check.
        self._check_codes(X)
        n_rows, n_features = X.shape
        n_columns = n_features * self.n_categories
        index = np.int32 if max(X.size, n_columns) < 1 << 31 else np.int64
        columns = X.astype(index)
        columns += np.arange(0, n_columns, self.n_categories, dtype=index)
        indptr = np.arange(0, X.size + 1, n_features, dtype=index)
        parts = (np.ones(X.size, dtype=X.dtype), columns.ravel(), indptr)
        return sparse.csr_array(parts, shape=(n_rows, n_columns))

    def to_natural(self, parameters: Floats) -> Floats:
        return np.log(parameters)

    def from_natural(self, natural: Floats) -> Floats:
        odds = np.exp(self._by_column(natural))
        return (odds / odds.sum(axis=2, keepdims=True)).reshape(natural.shape)

    def means(self, parameters: Floats) -> Floats:
        # Means of the codes.
        return self._by_column(parameters) @ np.arange(self.n_categories, dtype=float)

    def with_means(self, parameters: Floats, means: Floats) -> Floats:
        raise ValueError("The means of codes do not determine their probabilities.")

    def log_partitions(self, natural: Floats) -> Floats:
        return np.log(np.exp(self._by_column(natural)).sum(axis=2))

    def _columns(self, n_statistics, n_features):
        return np.repeat(np.arange(n_features), self.n_categories)

    def _typical(self, parameters, column, posterior):
        return np.argmax(posterior @ self._by_column(parameters)[:, column], axis=1)

    def _by_column(self, flat):
        return flat.reshape(len(flat), flat.shape[1] // self.n_categories, self.n_categories)

    def regularise(self, mean: Floats) -> Floats:
        floored = np.maximum(self._by_column(mean), self.min_probability)
        return (floored / floored.sum(axis=2, keepdims=True)).reshape(mean.shape)

    def sample(self, parameters: Floats, components: Integers, rng: np.random.Generator) -> Floats:
        cumulative = np.cumsum(self._by_column(parameters), axis=2)[components]
        uniforms = rng.random(cumulative.shape[:2])[:, :, None]
        codes = (cumulative < uniforms * cumulative[:, :, -1:]).sum(axis=2)
        return codes.astype(np.float64)

    def n_parameters(self, parameters: Floats) -> int:
        return parameters.size // self.n_categories * (self.n_categories - 1)

    def smoothing(self, n_features: int) -> Mapping[str, float]:
        return {"concentration": 1.5}

    def prior_statistics(
        self, n_components: int, *, n_features: int, concentration: ArrayLike = 1.0
    ) -> Sums:
        """Return a Dirichlet prior on the probabilities.

        Parameters
        ----------
        n_components, n_features : int
            K, and columns of a row.
        concentration : array broadcasting to (n_components, n_features * n_categories), default=1.0
            Above 0; pseudo-counts of the categories are one less.
        """
        shape = (n_components, n_features * self.n_categories)
        total = above("concentration", concentration, 0.0, shape) - 1.0
        return Sums(total.sum(axis=1) / n_features, total)

    def mean_form(self, prior: Sums) -> Sums:
        return Sums(prior.weight + self.n_categories, prior.total + 1.0)

    def predictive_log_density(self, statistics: Sums, X: Floats, n_threads: int = 1) -> Floats:
        concentration = _collapsed.concentration_of(self, statistics)
        sums = self._by_column(concentration).sum(axis=2)
        log_density = self.sufficient_statistics(X) @ np.log(concentration.T)
        return log_density - np.log(sums).sum(axis=1)

    def draw_from_posterior(self, statistics: Sums, rng: np.random.Generator) -> Floats:
        concentration = self._by_column(_collapsed.concentration_of(self, statistics))
        drawn = _collapsed.drawn_proportions(concentration, rng)
        return self.regularise(drawn.reshape(statistics.total.shape))

    def _swept(self, prior, X):
        symbols = _collapsed.concentration_of(self, prior)
        further = {"second_prior": self._by_column(symbols).sum(axis=2)}
        return _collapsed_counts.CATEGORICAL, self.sufficient_statistics(X), symbols, further
