"""Gamma variables of a known shape whose rates have gamma distributions themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families import _collapsed
from sklearn_onlineem.families._checks import above, at_least
from sklearn_onlineem.families._independent_columns import ExponentialColumns
from sklearn_onlineem.families._start_coordinates import logarithmic
from sklearn_onlineem.statistics import Sums


class Durations(ExponentialColumns, _collapsed.CollapsedCounts):
    """Families with posteriors of rates: x_j | r_j ~ Gamma(s, r_j), r_j ~ Gamma(alpha, beta_j)."""

    # s
    shape: float

    def start_coordinates(
        self, X: Floats, sample_weight: Floats | None = None
    ) -> tuple[Callable[[Floats], Floats], ...]:
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

    def draw_from_posterior(self, statistics: Sums, rng: np.random.Generator) -> Floats:
        alpha, beta = self._posterior(statistics)
        return self.regularise(self.shape * beta / rng.standard_gamma(alpha[:, None], beta.shape))

    def _swept(self, prior, X):
        alpha, beta = self._posterior(prior)
        return _collapsed_counts.DURATIONS, X, beta, {"weight": alpha, "step": self.shape}
