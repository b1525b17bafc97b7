"""Conjugate posteriors of Gaussians by the formulas of their distributions, in SciPy."""

import numpy as np
from scipy import stats
from scipy.special import gammaln, multigammaln

from sklearn_onlineem.families import Diagonal, Full, Gaussian, Spherical, Tied

SHAPES = [Full, Tied, Diagonal, Spherical]


class Prior:
    """Hyper-parameters of K components; (nu0, Psi) or (a0, b0) of their covariances."""

    def __init__(self, shape, K, d, rng, k0=0.4, spare=1.5):
        self.shape, self.K, self.d, self.k0 = shape, K, d, k0
        self.m0 = rng.normal(size=(K, d))
        self.is_matrix = shape in (Full, Tied)
        root = rng.normal(size=(d, d))
        self.psi = root @ root.T + np.eye(d)
        self.nu0, self.a0 = d - 1.0 + spare, spare / 2.0
        self.b0 = rng.uniform(0.5, 2.0, d) if shape is Diagonal else 0.8

    def arguments(self):
        if self.is_matrix:
            spread = {"covariance": self.psi, "degrees_of_freedom": self.nu0}
        else:
            spread = {"shape": self.a0, "scale": self.b0}
        return {"n_features": self.d, "mean": self.m0, "mean_precision": self.k0, **spread}

    def statistics(self, **changes):
        return Gaussian(self.shape()).prior_statistics(self.K, **{**self.arguments(), **changes})

    def updated(self, X, labels):
        """Weights k, means m and scatters, as matrices, of all components."""
        k, m, scatters = (
            np.full(self.K, self.k0),
            self.m0.copy(),
            np.zeros((self.K, self.d, self.d)),
        )
        for x, z in zip(X, labels, strict=True):
            scatters[z] += k[z] / (k[z] + 1) * np.outer(x - m[z], x - m[z])
            m[z] = (k[z] * m[z] + x) / (k[z] + 1)
            k[z] += 1
        return k, m, scatters

    def log_predictive(self, X, labels, x):
        """Log densities (K,) of a row given others and their labels."""
        k, m, scatters = self.updated(X, labels)
        counts, d = np.bincount(labels, minlength=self.K), self.d
        grown = (k + 1) / k
        if self.is_matrix:
            tied = self.shape is Tied
            df = self.nu0 - d + 1 + (np.full(self.K, len(X)) if tied else counts)
            psi = self.psi + (scatters.sum(axis=0, keepdims=True) if tied else scatters)
            scales = np.broadcast_to(psi, scatters.shape) * (grown / df)[:, None, None]
            parts = zip(m, scales, df, strict=True)
            return np.array([stats.multivariate_t.logpdf(x, *part) for part in parts])
        squares = np.einsum("kii->ki", scatters)
        if self.shape is Diagonal:
            a = (self.a0 + counts / 2)[:, None]
            scale = np.sqrt((self.b0 + squares / 2) * grown[:, None] / a)
            return stats.t.logpdf(x, 2 * a, m, scale).sum(axis=1)
        a = self.a0 + counts * d / 2
        scale = (self.b0 + squares.sum(axis=1) / 2) * grown / a
        parts = zip(m, scale, 2 * a, strict=True)
        return np.array([stats.multivariate_t.logpdf(x, u, s * np.eye(d), v) for u, s, v in parts])

    def log_marginal(self, X, labels):
        """log p(X | labels), all parameters integrated out."""
        k, _, scatters = self.updated(X, labels)
        counts, d = np.bincount(labels, minlength=self.K), self.d
        total = 0.5 * d * np.log(self.k0 / k).sum() - 0.5 * d * len(X) * np.log(np.pi)
        if self.shape is Tied:
            return total + self._wishart_ratio(len(X), scatters.sum(axis=0))
        if self.shape is Full:
            return total + sum(map(self._wishart_ratio, counts, scatters))
        squares = np.einsum("kii->ki", scatters)
        if self.shape is Spherical:
            return total + self._gamma_ratio(counts * d, squares.sum(axis=1)).sum()
        return total + self._gamma_ratio(counts[:, None], squares).sum()

    def _wishart_ratio(self, n, scatter):
        nu, log_det = self.nu0 + n, lambda S: np.linalg.slogdet(S)[1]
        gammas = multigammaln(nu / 2, self.d) - multigammaln(self.nu0 / 2, self.d)
        return gammas + (self.nu0 * log_det(self.psi) - nu * log_det(self.psi + scatter)) / 2

    def _gamma_ratio(self, n, squares):
        a, b = self.a0 + n / 2, 2 * self.b0 + squares
        return gammaln(a) - gammaln(self.a0) + self.a0 * np.log(2 * self.b0) - a * np.log(b)


def sweep(prior, X, labels, concentration, uniforms):
    """Labels and mean log density of a sweep, row by row."""
    labels, total = labels.copy(), 0.0
    for i, x in enumerate(X):
        others = np.arange(len(X)) != i
        n = np.bincount(labels[others], minlength=prior.K)
        log_weights = np.log(n + concentration) + prior.log_predictive(X[others], labels[others], x)
        weights = np.cumsum(np.exp(log_weights - log_weights.max()))
        labels[i] = np.searchsorted(weights, uniforms[i] * weights[-1], side="right")
        total += log_weights.max() + np.log(weights[-1])
    return labels, total / len(X) - np.log(len(X) - 1 + concentration.sum())


def random_rows(prior, rng, n=40):
    """Rows, labels, concentrations and uniform numbers."""
    centres = 2.0 * rng.normal(size=(prior.K, prior.d))
    labels = rng.integers(0, prior.K, n).astype(np.intc)
    X = centres[labels] + rng.normal(size=(n, prior.d))
    return X, rng.permutation(labels), rng.uniform(0.2, 3.0, prior.K), rng.random(n)
