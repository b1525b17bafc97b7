"""When to stop: the likelihood no longer rises, or the model no longer moves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["STOPPING_RULES", "KLStopping", "LikelihoodStopping", "Never"]


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
