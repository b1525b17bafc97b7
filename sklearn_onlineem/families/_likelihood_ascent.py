"""Newton's method on the likelihood of one compound Dirichlet component."""

from __future__ import annotations

import numpy as np

from sklearn_onlineem._kernels import _compound_dirichlet
from sklearn_onlineem.families._events import WordCounts

__all__ = ["ascend"]

# Largest factor by which a step changes a parameter.
_MOST_GROWTH = 8.0
_RESCALINGS = (0.125, 0.5, 2.0, 8.0)
# Relative change of a step below which the next one is rounding error.
_SETTLED = 1e-8
_MOST_HALVINGS = 40
# Rounding error of a log-likelihood, relative to it.
_ROUNDING = 1e-15


def ascend(family, parameters, counts: WordCounts):
    """Take a Newton step, halved until the likelihood does not fall (Minka 2000, section 3)."""
    # The log-likelihood depends on the documents through `counts` alone. Its Hessian is a
    # diagonal matrix plus a multiple of 11', and takes O(d) to invert. Where the likelihood is not
    # concave, the step changes the precision alone, if that is more likely, or uses the diagonal
    # part of the Hessian, which is always definite.
    before, slope, curvature = _derivatives(parameters, counts)
    seen = curvature[:-1] > 0
    if not seen.any():
        return parameters, before, True
    inverse = np.divide(1.0, curvature[:-1], out=np.zeros(len(seen)), where=seen)
    gradient, z = slope[:-1] + slope[-1], -curvature[-1]
    concavity = 1.0 - z * inverse.sum()
    if concavity > 0:
        step = (gradient + z * (gradient @ inverse) / concavity) * inverse
    else:
        for factor in _RESCALINGS:
            new = family.dirichlets(factor * parameters.alpha, parameters.length)
            if _derivatives(new, counts)[0] > before:
                return new, before, False
        step = gradient * inverse
    alpha = parameters.alpha[0]
    # Words that never occur get the floor at once.
    lowest = np.where(seen, alpha / _MOST_GROWTH, 0.0)
    step = np.where(seen, step, -alpha)
    for halvings in range(_MOST_HALVINGS):
        moved = np.clip(alpha + 0.5**halvings * step, lowest, _MOST_GROWTH * alpha)
        new = family.dirichlets(moved[None], parameters.length)
        after = _derivatives(new, counts)[0]
        if after >= before - _ROUNDING * abs(before):
            return new, before, bool(np.abs(new.alpha[0] / alpha - 1.0).max() < _SETTLED)
    return parameters, before, True


def _derivatives(parameters, counts):
    alpha, others = parameters.extended[0], counts.others
    slope, curvature = np.empty_like(alpha), np.empty_like(alpha)
    value = _compound_dirichlet.likelihood(
        others.words, others.counts, counts.totals, alpha, slope, curvature
    )
    of_words = np.empty((3, len(alpha) - 1))
    _compound_dirichlet.rising_likelihood(
        counts.weights, counts.ends, alpha[counts.words], *of_words
    )
    slope[counts.words] += of_words[1]
    curvature[counts.words] += of_words[2]
    return value + of_words[0].sum(), slope, curvature
