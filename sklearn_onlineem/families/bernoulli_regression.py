"""Logistic regressions of bits on known inputs, as components of mixtures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families.capabilities import Distribution
from sklearn_onlineem.families.working_responses import (
    WorkingRegression,
    WorkingRegressions,
    WorkingStatistics,
    WorkingTangents,
)

# Log odds below which the expected precision is its series.
_NEAR_ZERO = 1e-3


@dataclass(frozen=True, eq=False)
class BernoulliRegressions(WorkingRegressions):
    """Parameters of K logistic regressions, whose linear predictors are log odds."""


@dataclass(frozen=True)
class BernoulliRegressionStatistics(WorkingStatistics):
    """Statistics of bits, whose hidden precisions u have working responses (y - 1/2) / E u."""


def _expected_precision(log_odds):
    """Return tanh(log_odds / 2) / (2 log_odds), which is 1/4 at 0."""
    near = np.abs(log_odds) < _NEAR_ZERO
    far = np.where(near, 1.0, log_odds)
    return np.where(near, 0.25 - log_odds**2 / 48.0, np.tanh(0.5 * far) / (2.0 * far))


@dataclass(frozen=True, eq=False)
class BernoulliRegression(WorkingRegression[BernoulliRegressions, BernoulliRegressionStatistics]):
    r"""Logistic regressions of bits on inputs that are known.

    .. math::
        & p(y \mid x, k) = \prod_j \sigma(\psi_j)^{y_j} (1 - \sigma(\psi_j))^{1 - y_j},
        \quad \psi = B_k x + c_k, \\
        & u_j \sim \mathrm{PG}(1, \psi_j), \quad
        p(y_j, u_j \mid x, k) \propto e^{(y_j - 1/2) \psi_j - u_j \psi_j^2 / 2}

    The first columns of a row are the inputs x, the others the bits y, and a density is that of y
    given x. A bit has a hidden precision u of a Polya-Gamma distribution. Its expectation given x
    and y is :math:`\tanh(\psi / 2) / (2 \psi)`, and given u the log density is a quadratic form in
    the coefficients. So the M-step is closed: it is least squares of (y - 1/2) / E[u] with the
    weights r E[u]. The likelihood never falls, and a fixed point is a weighted maximum of it. The
    bound of EM is that of Jaakkola and Jordan. Stochastic EM draws components, not precisions.

    Inputs have no model. Each component carries the moments of the inputs that it has seen,
    weighted by E[u], which are the inertia of online EM. With :math:`\Omega_k = E[u x x']`, where x
    has a 1 for the intercept, the divergence of y and u is

    .. math:: \tfrac{1}{2} (\tilde\beta - \beta)' \Omega_k (\tilde\beta - \beta).

    Samples have normal inputs of the moments seen. Parameters are `WorkingRegressions`;
    statistics are centred (`BernoulliRegressionStatistics`).

    Parameters
    ----------
    n_inputs : int
        How many first columns of a row are inputs, at least 1.

    See Also
    --------
    GaussianRegression : The same for real outputs.

    References
    ----------
    Polson, Scott & Windle, "Bayesian inference for logistic models using Polya-Gamma latent
    variables", JASA 2013, theorem 1; Jaakkola & Jordan, "Bayesian parameter estimation via
    variational methods", Statistics and Computing 2000; Scott & Sun, "Expectation-maximization for
    logistic regression", 2013; Cappe & Moulines, "On-line expectation-maximization algorithm for
    latent data models", JRSS-B 2009.

    Examples
    --------
    Of the rows with x = 1, three of four are ones:

    >>> import numpy as np
    >>> from sklearn_onlineem.families import BernoulliRegression
    >>> rows = np.array([[-1.0, 0], [-1, 1], [1, 1], [1, 1], [1, 1], [1, 0]])
    >>> family, weights = BernoulliRegression(n_inputs=1), np.ones((6, 1))
    >>> found = family.m_step(family.expected_statistics(rows, weights))
    >>> for _ in range(50):
    ...     found = family.m_step(family.posterior_statistics(found, rows, weights))
    >>> family.predicted(found, np.array([[-1.0], [1.0]])).ravel().round(3)
    array([0.5 , 0.75])
    """

    tangents = WorkingTangents
    outputs = "bits"
    parameters_class = BernoulliRegressions

    def check(self, X: Floats) -> None:
        super().check(X)
        if not np.isin(X[:, self.n_inputs :], (0.0, 1.0)).all():
            raise ValueError("Bits must be 0 or 1.")

    def log_density(
        self, parameters: BernoulliRegressions, X: Floats, n_threads: int = 1
    ) -> Floats:
        psi = self.linear_predictor(parameters, X[:, : self.n_inputs])
        signs = 2.0 * X[:, None, self.n_inputs :] - 1.0
        return -np.logaddexp(0.0, -signs * psi).sum(axis=2).astype(X.dtype)

    def distribution_given(self, means: Floats, variances: Floats | None = None) -> Distribution:
        return stats.bernoulli(means)

    def _working(self, psi, y):
        precisions = _expected_precision(psi)
        return precisions, (y - 0.5) / precisions

    def _first_predictors(self, y):
        return np.zeros_like(y)

    def _means(self, psi):
        return expit(psi)

    def _drawn(self, means, rng):
        return (rng.random(means.shape) < means).astype(np.float64)

    def _of_rows(self, inputs, outputs, old=None, x=()):
        return BernoulliRegressionStatistics(inputs, outputs)
