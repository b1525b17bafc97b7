"""Gamma variables of a known shape whose rates have gamma distributions themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sklearn_onlineem._kernels import _collapsed_counts
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families import _collapsed

__all__ = ["Durations"]


@dataclass(frozen=True)
class Durations:
    """Posteriors of the rates: x_j | r_j ~ Gamma(s, r_j), r_j ~ Gamma(alpha, beta_j)."""

    shape: float
    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, family, statistics, shape):
        """Return posteriors with these modes: alpha = s weight + 1, beta = total."""
        alpha = _collapsed.proper(family, "shape", shape * statistics.weight + 1.0)
        return cls(shape, alpha, _collapsed.proper(family, "rate", statistics.total))

    def log_density(self, X):
        """Return log x^(s-1) beta^alpha / (B(alpha, s) (beta + x)^(alpha + s)), Lomax for s = 1."""
        s, X = self.shape, np.asarray(X, dtype=float)
        growth = np.stack([np.log1p(X / beta).sum(axis=1) for beta in self.beta], axis=1)
        constant = X.shape[1] * _collapsed.log_rising(self.alpha, s)
        constant -= s * np.log(self.beta).sum(axis=1)
        return constant - (self.alpha + s) * growth + self._log_base(X)[:, None]

    def draw(self, rng):
        """Draw means s / r, an ndarray of shape (K, n_features)."""
        return self.shape * self.beta / rng.standard_gamma(self.alpha[:, None], self.beta.shape)

    def sweep(self, X, labels, concentration, uniforms):
        log_predictive = _collapsed.sweep(
            _collapsed_counts.DURATIONS, X, self.beta, labels, concentration, uniforms,
            weight=self.alpha, step=self.shape,
        )  # fmt: skip
        return log_predictive + self._log_base(np.asarray(X, dtype=float)).mean()

    def _log_base(self, X):
        if self.shape == 1.0:
            return np.zeros(len(X))
        return (self.shape - 1.0) * np.log(X).sum(axis=1) - X.shape[1] * gammaln(self.shape)
