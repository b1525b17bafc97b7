"""Stopping rules, and estimates of how many passes remain."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from sklearn_onlineem._python import cached_property


class StoppingRule(ABC):
    """When a fit ends, asked after each pass."""

    # In nats per observation.
    tol: float

    @abstractmethod
    def __call__(self, value: float, kl_divergence: float, promised: float | None = None) -> bool:
        """Return whether the fit has converged.

        `value` is the mean log-likelihood, or log posterior, before the pass, `kl_divergence` that
        of the new model from the old one, and `promised` the gain that a quasi-Newton step expected
        up to the maximum; None: the pass was one of EM.
        """

    def outlook(self, values: Sequence[float]) -> Outlook:
        """Return the rate of EM, and how many more passes are needed.

        Parameters
        ----------
        values : sequence of float
            What the rule compares with `tol`, of successive passes, oldest first.
        """
        return expected_passes(values, self.tol)


@dataclass
class LikelihoodStopping(StoppingRule):
    """Stop when the mean log-likelihood changes by less than `tol` from one pass to the next.

    Parameters
    ----------
    tol : float
        In nats per observation.
    previous : float, default=-inf
        Mean log-likelihood of the pass before; minus infinity before the first.
    """

    tol: float
    previous: float = field(default=-math.inf, repr=False)

    def __call__(self, value: float, kl_divergence: float, promised: float | None = None) -> bool:
        change, self.previous = value - self.previous, value
        return max(abs(change), promised or 0.0) < self.tol


@dataclass
class KLStopping(StoppingRule):
    """Stop when KL(new model || old model) over a pass falls below `tol`.

    For batch EM that divergence is at most the gain in mean log-likelihood of the step, and the
    smallest of T steps is at most (total gain) / T, whatever the likelihood.

    Parameters
    ----------
    tol : float
        In nats per observation.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM", AISTATS 2021, proposition 2
    and corollary 2.
    """

    tol: float

    def __call__(self, value: float, kl_divergence: float, promised: float | None = None) -> bool:
        return max(kl_divergence, promised or 0.0) < self.tol


# Gains below this, and below this share of a log-likelihood, are rounding errors.
_ROUNDING = 1e-10
# Share of `tol` below which estimates must be: what passes do not see yet is often larger than what
# they do, as the parts of a model converge at different rates.
_MARGIN = 0.04


@dataclass
class StandardErrorStopping(StoppingRule):
    r"""Stop when the parameters are within a tenth of a standard error of the maximum.

    Half of the squared distance in units of the observed information is what the log-likelihood
    still gains: a root mean square of `errors` standard errors a parameter, where

    .. math:: n \, (L^* - L) < \tfrac12 \, \text{errors}^2 \times \text{parameters}.

    A pass of batch EM multiplies the gain by the same factor near the maximum, so that the gains of
    the latest passes say what is left (Aitken's extrapolation), and quasi-Newton steps promise a
    gain. Neither tells of saddles, or of directions that are slower still. Batch EM takes `left`,
    the estimate of the gains to come, as a reason to look for a `Certificate`. Only where a model
    has none, as of Laplace distributions and with priors that empty components, does this estimate
    end a fit.

    Observations count by their weights; gains are in nats per observation.

    References
    ----------
    Bohning et al., "The distribution of the likelihood ratio for mixtures of densities from the
    one-parameter exponential family", 1994 (Aitken's extrapolation as a rule for EM).

    Examples
    --------
    Gains that fall by a factor of 10 in each pass:

    >>> from sklearn_onlineem.em.stopping import StandardErrorStopping
    >>> rule = StandardErrorStopping(n_observations=1000, n_parameters=2)
    >>> [rule(-0.1**n, 0.0) for n in range(8)]
    [False, False, False, False, False, False, False, True]
    """

    n_observations: float
    n_parameters: int
    errors: float = 0.1
    gains: list[float] = field(default_factory=list, repr=False)
    previous: float = field(default=-math.inf, repr=False)
    left: float = field(default=math.inf, repr=False)

    @cached_property
    def tol(self) -> float:
        """Largest gain that may be left, in nats per observation."""
        return 0.5 * self.errors**2 * max(1, self.n_parameters) / self.n_observations

    def distance(self, gain: float) -> float:
        """Return the distance of the maximum, in standard errors a parameter, from what is left."""
        return self.errors * math.sqrt(gain / self.tol)

    def outlook(self, values: Sequence[float]) -> Outlook:
        left = remaining_gain(values)
        if not 0.0 < left < math.inf:
            return Outlook(1.0, left)
        # The gains that are left fall at the rate of those before.
        lefts = [value * left / values[-1] for value in values]
        return expected_passes(lefts, _MARGIN * self.tol)

    def __call__(self, value: float, kl_divergence: float, promised: float | None = None) -> bool:
        gain, self.previous = value - self.previous, value
        self.gains = [*self.gains, gain][-4:] if gain < math.inf else []
        self.left = remaining_gain(self.gains) if promised is None else promised
        if abs(gain) <= _ROUNDING * max(1.0, abs(value)):
            self.left = 0.0
        return self.left < _MARGIN * self.tol


def remaining_gain(gains: Sequence[float]) -> float:
    """Return an estimate of the gains of all passes to come, by the latest four, oldest first.

    Infinity if they do not fall evenly. With a prior, the likelihood may fall in all of them.
    """
    if gains and gains[-1] == 0.0:
        return 0.0
    if len(gains) < 4 or 0.0 in gains[-4:]:
        return math.inf
    # Far from the maximum gains rise again and again. Near it their rate rises to its limit.
    a, b, c, latest = gains[-4:]
    rates = b / a, c / b, latest / c
    rate = max(rates)
    return abs(latest) * rate / (1.0 - rate) if 0.0 < min(rates) <= rate < 1.0 else math.inf


def never(is_exact: bool = True) -> StoppingRule:
    """Return a rule that ends no fit."""
    return LikelihoodStopping(0.0)


STOPPING_RULES = {"likelihood": LikelihoodStopping, "kl": KLStopping}


class Outlook(NamedTuple):
    """Estimate of the remaining passes.

    Attributes
    ----------
    rate : float
        Factor by which each pass multiplies a gain, or a divergence; 1 if it cannot be estimated.
    n_passes : float
        Passes until these are below `tol`; infinity if they do not fall.
    """

    rate: float
    n_passes: float


def expected_passes(values: Sequence[float], tol: float) -> Outlook:
    r"""Estimate the linear rate of EM, and how many more passes `tol` needs.

    Near an optimum each pass multiplies the gains, and the divergences between models, by
    :math:`\lambda^2`, where :math:`\lambda` is the largest fraction of missing information. The
    estimate is the mean of the latest ratios. The rate rises until EM has converged, so that the
    estimated number of passes is too low rather than too high.

    Parameters
    ----------
    values : sequence of float
        Gains of the log-likelihood, or divergences, of successive passes, in nats, oldest first.
        The latest four are used, after the last that is not above 0.
    tol : float
        In nats.

    References
    ----------
    Dempster, Laird & Rubin, JRSS-B 1977, theorem 4; Kunstner, Kumar & Schmidt, AISTATS 2021, eq.
    (10), whose rate is that of parameters, and its square that of the likelihood.
    """
    # The rate rises to its limit, so old values are not used.
    recent = map(float, reversed(values[-4:]))
    latest = [*takewhile(lambda value: 0.0 < value < math.inf, recent)]
    log_rate = 0.0
    if len(latest) > 1:
        log_rate = (math.log(latest[0]) - math.log(latest[-1])) / (len(latest) - 1)
    rate = math.exp(min(log_rate, 700.0))
    if latest and latest[0] < tol:
        return Outlook(rate, 0)
    if not (log_rate < 0.0 < tol):
        return Outlook(rate, math.inf)
    n_passes = (math.log(tol) - math.log(latest[0])) / log_rate
    return Outlook(rate, math.floor(n_passes) + 1)
