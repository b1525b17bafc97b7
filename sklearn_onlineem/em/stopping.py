"""When passes of a fit end, and how many more they would take."""

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

    Examples
    --------
    >>> rule = LikelihoodStopping(tol=0.1)
    >>> [rule(log_likelihood, kl_divergence=1.0) for log_likelihood in (-5.0, -4.0, -3.95)]
    [False, False, True]
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
    smallest of T steps is at most (total gain) / T: a certificate of convergence that needs no
    assumption on the likelihood.

    Parameters
    ----------
    tol : float
        In nats per observation.

    References
    ----------
    Kunstner, Kumar & Schmidt, "Homeomorphic-Invariance of EM", AISTATS 2021, theorem 1.

    Examples
    --------
    >>> rule = KLStopping(tol=1e-3)
    >>> [rule(-5.0, kl_divergence) for kl_divergence in (1e-1, 1e-4)]
    [False, True]
    """

    tol: float

    def __call__(self, log_likelihood: float, kl_divergence: float) -> bool:
        return kl_divergence < self.tol


class Never:
    """Do not stop: others say how many passes there are."""

    def __call__(self, log_likelihood: float, kl_divergence: float) -> bool:
        return False


STOPPING_RULES = {"likelihood": LikelihoodStopping, "kl": KLStopping}


# The rate rises to its limit: what is long ago was faster.
_LATEST = 4
_LARGEST_LOG = 700.0


class Outlook(NamedTuple):
    """What is to be expected of further passes.

    Attributes
    ----------
    rate : float
        By how much each pass multiplies a gain, or a divergence; 1 if that cannot be told.
    n_passes : float
        How many more it takes until these are below `tol`; infinity if that is not in sight.
    """

    rate: float
    n_passes: float


def expected_passes(values: Sequence[float], tol: float) -> Outlook:
    r"""Estimate the linear rate of EM, and how many more passes `tol` needs.

    Near an optimum the gains of passes, and the divergences between their models, are multiplied by
    :math:`\lambda^2` each time, where :math:`\lambda` is the largest share of information that is
    missing. It is estimated by the mean of the latest ratios, and rises while EM is on its way: it
    makes too few passes, not too many.

    Parameters
    ----------
    values : sequence of float
        Gains of the log-likelihood, or divergences, of successive passes, oldest first. Their
        latest four count, since the last one that is not above 0.
    tol : float
        In nats, as these.

    Returns
    -------
    outlook : Outlook

    References
    ----------
    Dempster, Laird & Rubin, JRSS-B 1977, theorem 4; Kunstner, Kumar & Schmidt, AISTATS 2021, eq.
    (10), whose rate is that of parameters, and its square that of the likelihood.

    Examples
    --------
    >>> from sklearn_onlineem.em.stopping import expected_passes
    >>> rate, n_passes = expected_passes([8.0, 4.0, 2.0], tol=0.3)
    >>> round(rate, 3), n_passes
    (0.5, 3)
    """
    latest = []
    for value in reversed(values[-_LATEST:]):
        if not 0.0 < value < math.inf:
            break
        latest.append(float(value))
    log_rate = 0.0
    if len(latest) > 1:
        log_rate = (math.log(latest[0]) - math.log(latest[-1])) / (len(latest) - 1)
    rate = math.exp(min(log_rate, _LARGEST_LOG))
    if latest and latest[0] < tol:
        return Outlook(rate, 0)
    if not (log_rate < 0.0 < tol):
        return Outlook(rate, math.inf)
    n_passes = (math.log(tol) - math.log(latest[0])) / log_rate
    return Outlook(rate, math.floor(n_passes) + 1)
