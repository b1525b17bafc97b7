"""Stopping rules, and estimates of how many passes remain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "KLStopping",
    "LikelihoodStopping",
    "Never",
    "Outlook",
    "STOPPING_RULES",
    "expected_passes",
]


@dataclass
class LikelihoodStopping:
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

    def __call__(self, log_likelihood: float, kl_divergence: float) -> bool:
        change, self.previous = log_likelihood - self.previous, log_likelihood
        return abs(change) < self.tol


@dataclass
class KLStopping:
    """Stop when KL(new model || old model) over a pass falls below `tol`.

    For batch EM that divergence is at most the gain in mean log-likelihood of the step, and the
    smallest of T steps is at most (total gain) / T, whatever the likelihood.

    Parameters
    ----------
    tol : float
        In nats per observation.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM", AISTATS 2021, theorem 1.
    """

    tol: float

    def __call__(self, log_likelihood: float, kl_divergence: float) -> bool:
        return kl_divergence < self.tol


class Never:
    """Never stop."""

    def __call__(self, log_likelihood: float, kl_divergence: float) -> bool:
        return False


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
    latest = []
    # The rate rises to its limit, so old values are not used.
    for value in reversed(values[-4:]):
        if not 0.0 < value < math.inf:
            break
        latest.append(float(value))
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
