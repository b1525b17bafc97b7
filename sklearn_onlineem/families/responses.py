"""Regressions of bits and of counts on known inputs, as components of mixtures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import stats
from scipy.special import expit

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.families.capabilities import Distribution
from sklearn_onlineem.families.poisson import log_factorial_sums
from sklearn_onlineem.families.working_responses import (
    WorkingRegression,
    WorkingRegressions,
    WorkingStatistics,
    WorkingTangents,
)
from sklearn_onlineem.statistics import Statistics

# Log odds below which the expected precision is its series, and changes of log rates below which
# the remainder is its own.
_NEAR_ZERO = 1e-3
# Bounds of log rates, so that rates are numbers in single precision.
_LOG_RATES = (-80.0, 80.0)
# Larger rates would be near the bound, and counts of rates above the second are drawn as normal.
_MOST_COUNT, _MOST_DRAWN = 1e30, 1e15
# Of counts without rows, in the predictors of the first step.
_FIRST = 0.5


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

    Rows are (x, y), as of `GaussianRegression`, with bits y. A bit has a hidden precision u of a
    Polya-Gamma distribution. Its expectation given x and y is :math:`\tanh(\psi / 2) / (2 \psi)`,
    and given u the log density is a quadratic form in the coefficients. So the M-step is closed: it
    is least squares of (y - 1/2) / E[u] with the weights r E[u]. The likelihood never falls, and a
    fixed point is a weighted maximum of it. The bound of EM is that of Jaakkola and Jordan.
    Stochastic EM draws components, not precisions.

    The moments of inputs that are the inertia of online EM are weighted by E[u]. With
    :math:`\Omega_k = E[u x x']`, where x has a 1 for the intercept, the divergence of y and u is

    .. math:: \tfrac{1}{2} (\tilde\beta - \beta)' \Omega_k (\tilde\beta - \beta).

    Parameters are `WorkingRegressions`; statistics are centred (`BernoulliRegressionStatistics`).

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


@dataclass(frozen=True)
class Origin(Statistics):
    """Where working responses were made: the parameters `old` of the rates, and `ends` of inputs.

    A sum has the first parameters of its terms, which are the same in a step of EM, and the box of
    the inputs of all: least and largest ones, (K, 2, q). Own statistics and priors have neither.
    """

    old: WorkingRegressions | tuple[()] = ()
    ends: Floats | tuple[()] = ()

    def merge(self, a: float, other: Self, b: float) -> Self:
        if not self.old or not other.old:
            return self if self.old else other
        least, largest = (np.stack([self.ends[:, i], other.ends[:, i]]) for i in range(2))
        return replace(self, ends=np.stack([least.min(axis=0), largest.max(axis=0)], axis=1))

    def scale(self, a: float) -> Self:
        return self

    def changes(self, new: WorkingRegressions) -> tuple[Floats, Floats, Floats]:
        """Return changes of log rates: coefficients, those at new centres, and the largest ones."""
        old, centre = self.old, new.centre
        step = new.matrix - old.matrix
        level = old.level + np.einsum("kpq,kpq->kp", old.matrix, centre - old.centre)
        ends = (step * (self.ends[:, None, i] - centre) for i in range(2))
        most = new.level - level + np.maximum(*ends).sum(axis=2)
        return step, new.level - level, np.maximum(most, 0.0)


@dataclass(frozen=True)
class PoissonRegressionStatistics(WorkingStatistics):
    """Statistics of counts y with the rates m, whose working responses are log m + (y - m) / m."""

    origin: Origin


@dataclass(frozen=True, eq=False)
class PoissonRegression(WorkingRegression[WorkingRegressions, PoissonRegressionStatistics]):
    r"""Regressions of counts on inputs that are known, whose log rates are linear.

    .. math::
        p(y \mid x, k) = \prod_j e^{-m_j} m_j^{y_j} / y_j!, \quad \log m = \psi = B_k x + c_k

    Rows are (x, y), as of `GaussianRegression`, with counts y. The M-step is one Newton step of the
    weighted generalised linear model: least squares of the working responses
    :math:`\psi + (y - m) / m` with the weights r m, at the rates m of the old parameters. It is
    shortened, as the exponential has no quadratic bound. Let u be the change of log rates that a
    whole step makes, and U its largest value in the box of the inputs of the rows. Since
    :math:`(e^u - 1 - u) / u^2` grows with u, a part t of the step changes the bound of EM, with
    inertia and prior, by at least

    .. math::
        Q \Big(t - \frac{e^{t U} - 1 - t U}{U^2}\Big),

    where Q is the sum of r m u^2 and of what inertia and prior add. It is largest at
    :math:`t = \log(1 + U) / U`. So the likelihood never falls, a rise of all rates is exact in one
    step, and steps near the maximum are whole. Statistics know the old parameters and the box
    (`Origin`); own statistics have none, so that merged models are the least squares of all.

    The moments of inputs that are the inertia of online EM are weighted by m. With
    :math:`\Omega_k = E[m x x']`, where x has a 1 for the intercept, the divergence of y is to
    second order

    .. math::
        E[m (e^u - 1 - u)] \approx
        \tfrac{1}{2} (\tilde\beta - \beta)' \Omega_k (\tilde\beta - \beta).

    So small online steps are natural gradient steps. Parameters are `WorkingRegressions`;
    statistics are centred (`PoissonRegressionStatistics`).

    Parameters
    ----------
    n_inputs : int
        How many first columns of a row are inputs, at least 1.
    n_lags : int, default=0
        How many earlier rows of counts are the first of the inputs, from which log rates take
        log(1 + y): their coefficients are elasticities, and rates do not explode below 1.

    See Also
    --------
    BernoulliRegression : The same for bits.
    Poisson : Without inputs.

    References
    ----------
    McCullagh & Nelder, "Generalized Linear Models", 1989, section 2.5; Fokianos & Tjostheim,
    "Log-linear Poisson autoregression", Journal of Multivariate Analysis 2011; Cappe & Moulines,
    "On-line expectation-maximization algorithm for latent data models", JRSS-B 2009.

    Examples
    --------
    The mean of the rows with x = 1 is 6:

    >>> import numpy as np
    >>> from sklearn_onlineem.families import PoissonRegression
    >>> rows = np.array([[-1.0, 1], [-1, 2], [1, 3], [1, 9], [1, 6]])
    >>> family, weights = PoissonRegression(n_inputs=1), np.ones((5, 1))
    >>> found = family.m_step(family.expected_statistics(rows, weights))
    >>> for _ in range(5):
    ...     found = family.m_step(family.posterior_statistics(found, rows, weights), found)
    >>> family.predicted(found, np.array([[-1.0], [1.0]])).ravel().round(3)
    array([1.5, 6. ])
    """

    tangents = WorkingTangents
    outputs = "counts"

    n_lags: int = 0

    def __post_init__(self):
        super().__post_init__()
        check_count("n_lags", self.n_lags, least=0)

    def check(self, X: Floats) -> None:
        super().check(X)
        y, lags = X[:, self.n_inputs :], X[:, : self._n_lagged(X.shape[1] - self.n_inputs)]
        if not ((y >= 0.0) & (y <= _MOST_COUNT) & (y == np.floor(y))).all():
            raise ValueError(f"Counts must be whole numbers from 0 to {_MOST_COUNT:g}.")
        if (lags < 0.0).any():
            raise ValueError("Lags of counts must not be below 0.")

    def _n_lagged(self, n_outputs):
        if self.n_lags * n_outputs > self.n_inputs:
            raise ValueError(
                f"n_lags={self.n_lags} of {n_outputs} columns need as many inputs, got"
                f" n_inputs={self.n_inputs}."
            )
        return self.n_lags * n_outputs

    def log_density(self, parameters: WorkingRegressions, X: Floats, n_threads: int = 1) -> Floats:
        psi = self.linear_predictor(parameters, X[:, : self.n_inputs])
        y = X[:, self.n_inputs :].astype(np.float64)
        found = (y[:, None] * psi - np.exp(psi)).sum(axis=2)
        return (found - log_factorial_sums(y, n_threads)[:, None]).astype(X.dtype)

    def m_step(
        self, statistics: PoissonRegressionStatistics, previous: WorkingRegressions | None = None
    ) -> WorkingRegressions:
        found, origin = self._least_squares(statistics, previous), statistics.origin
        if not origin.old:
            return found
        step, shift, most = origin.changes(found)
        part = np.divide(np.log1p(most), most, out=np.ones_like(most), where=most > 0.0)
        left = part - 1.0
        return replace(
            found,
            matrix=found.matrix + left[..., None] * step,
            level=found.level + left * shift,
            # Inertia is that of the new rates.
            precision=found.precision * np.exp(np.clip(part * shift, *_LOG_RATES)),
        )

    def expected_log_density(
        self, parameters: WorkingRegressions, statistics: PoissonRegressionStatistics
    ) -> float:
        total, q = super().expected_log_density(parameters, statistics), self.n_inputs
        if not statistics.origin.old:
            return total
        step, shift, most = statistics.origin.changes(parameters)
        weight, mean, scatter = statistics.by_output
        shift += np.einsum("kpq,kpq->kp", step, mean[:, :, :q] - parameters.centre)
        squares = np.einsum("kpi,kpij,kpj->kp", step, scatter[:, :, :q, :q], step)
        return total - float((_beyond_squares(most) * (squares + weight * shift**2)).sum())

    def linear_predictor(self, parameters: WorkingRegressions, inputs: Floats) -> Floats:
        psi = super().linear_predictor(parameters, inputs)
        return np.clip(psi, *_LOG_RATES)

    def distribution_given(self, means: Floats, variances: Floats | None = None) -> Distribution:
        return stats.poisson(means)

    def _taken(self, inputs, n_outputs):
        return self._with_lags(super()._taken(inputs, n_outputs), n_outputs, np.log1p)

    def _drawn_inputs(self, parameters, components, rng):
        taken = super()._drawn_inputs(parameters, components, rng)
        return self._with_lags(taken, parameters.matrix.shape[1], np.expm1)

    def _with_lags(self, inputs, n_outputs, function):
        n_lagged = self._n_lagged(n_outputs)
        if not n_lagged:
            return inputs
        return np.hstack([function(inputs[:, :n_lagged]), inputs[:, n_lagged:]])

    def _working(self, psi, y):
        rates = np.exp(psi)
        return rates, psi + (y - rates) / rates

    def _first_predictors(self, y):
        return np.log(y + _FIRST)

    def _means(self, psi):
        return np.exp(psi)

    def _drawn(self, means, rng):
        drawn = rng.poisson(np.minimum(means, _MOST_DRAWN)).astype(np.float64)
        if (means <= _MOST_DRAWN).all():
            return drawn
        normal = np.rint(means + np.sqrt(means) * rng.standard_normal(means.shape))
        normal = np.where(normal <= _MOST_COUNT, normal, np.inf)
        return np.where(means <= _MOST_DRAWN, drawn, normal)

    def _of_rows(self, inputs, outputs, old=None, x=()):
        if old is None or not len(x):
            return PoissonRegressionStatistics(inputs, outputs, Origin())
        ends = np.broadcast_to([x.min(axis=0), x.max(axis=0)], (len(old), 2, self.n_inputs))
        return PoissonRegressionStatistics(inputs, outputs, Origin(old, ends))


def _beyond_squares(u):
    """Return (e^u - 1 - u) / u^2 - 1/2 of changes of log rates from 0 up."""
    u = np.minimum(u, _LOG_RATES[1])
    far = np.where(u > _NEAR_ZERO, u, 1.0)
    return np.where(u > _NEAR_ZERO, (np.expm1(far) - far) / far**2 - 0.5, u / 6.0 + u**2 / 24.0)
