"""What is known of Markov chains that were run: how far they agree, and how much they tell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from sklearn_onlineem._typing import Floats
from sklearn_onlineem.models import Model

__all__ = ["Chains", "effective_sample_size", "r_hat"]

# Fewer sweeps of half a chain have no variance to speak of.
_FEWEST = 2
# Relative to the largest value.
_ROUNDING = 1e-12


class Chains(NamedTuple):
    """Record of the chains of a fit by Gibbs sampling.

    Attributes
    ----------
    scores : ndarray of shape (n_chains, n_sweeps)
        What each sweep returned: the mean log predictive density of an observation given all the
        others, in nats.
    entropies : ndarray of shape (n_chains, n_sweeps)
        Entropy of the shares of the components after each sweep, in nats. As the scores, it does
        not depend on how components are numbered.
    first : int
        The first sweep, counted from 1, that diagnostics and draws take.
    draws : tuple of tuples of Model
        For each chain, models drawn from the posterior, all numbered as in one of the first chain.

    See Also
    --------
    sklearn_onlineem.em.Gibbs : The solver that runs them.
    """

    scores: Floats
    entropies: Floats
    first: int
    draws: tuple[tuple[Model, ...], ...] = ()

    @property
    def r_hat(self) -> float:
        """Rank-normalised split R-hat of scores and entropies, the larger of both.

        Chains that have forgotten where they began have 1; above 1.01 they disagree. NaN where
        neither varies, or there are fewer than 4 sweeps.
        """
        return _largest(r_hat(part) for part in self._kept())

    @property
    def effective_sample_size(self) -> float:
        """Independent draws that tell as much of scores and entropies, the fewer of both.

        Of their ranks, over all chains. NaN where neither varies, or there are fewer than 4 sweeps.
        """
        return -_largest(-effective_sample_size(part) for part in self._kept())

    def _kept(self):
        return self.scores[:, self.first - 1 :], self.entropies[:, self.first - 1 :]


def _largest(values):
    return max((value for value in values if not np.isnan(value)), default=np.nan)


def r_hat(values: Floats) -> float:
    r"""Return the rank-normalised split R-hat of chains.

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}}

    with the variance B / n between means of half chains, and the mean variance W within. It is
    taken of the normal scores of ranks, and of those of distances to the median, so that chains
    of equal means and unequal spreads are told apart; the larger is returned.

    Parameters
    ----------
    values : ndarray of shape (n_chains, n_draws)

    Returns
    -------
    r_hat : float
        NaN if there are fewer than 4 draws, or they are all the same.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Buerkner, "Rank-normalization, folding, and localization:
    an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 2021, eqs. (4)-(14).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.em.chains import r_hat
    >>> chains = np.random.default_rng(0).normal(size=(4, 500))
    >>> round(r_hat(chains), 2), round(r_hat(chains + [[0], [0], [0], [3]]), 1)
    (1.0, 1.5)
    """
    halves = _halves(values)
    if not _varies(halves):
        return np.nan
    folded = np.abs(halves - np.median(halves))
    return _largest(_split_r_hat(_normal_scores(part)) for part in (halves, folded))


def effective_sample_size(values: Floats) -> float:
    r"""Return the number of independent draws that tell as much of the centre of a distribution.

    .. math:: S / \Big(-1 + 2 \sum_t \rho_{2t} + \rho_{2t+1}\Big)

    of S draws in all chains with autocorrelations :math:`\rho` of the normal scores of ranks; sums
    of pairs are cut where they become negative, and never grow (Geyer's initial monotone sequence).

    Parameters
    ----------
    values : ndarray of shape (n_chains, n_draws)

    Returns
    -------
    size : float
        NaN if there are fewer than 4 draws, or they are all the same.

    References
    ----------
    Vehtari et al. 2021, as for `r_hat`, eq. (15) and section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.em.chains import effective_sample_size
    >>> noise = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(effective_sample_size(noise) > 3000)
    True
    >>> bool(effective_sample_size(np.cumsum(noise, axis=1)) < 50)
    True
    """
    halves = _halves(values)
    if not _varies(halves):
        return np.nan
    scores = _normal_scores(halves)
    n_chains, n = scores.shape
    covariances = np.array([_autocovariances(chain) for chain in scores]).mean(axis=0)
    within = covariances[0] * n / (n - 1.0)
    total = within * (n - 1.0) / n + scores.mean(axis=1).var(ddof=1)
    correlations = 1.0 - (within - covariances * n / (n - 1.0)) / total
    correlations[0] = 1.0
    pairs = correlations[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    is_negative = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: is_negative[0]] if len(is_negative) else pairs)
    size = n_chains * n
    # Antithetic chains tell more than independent draws do, though not without bounds.
    return float(size / max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(size)))


def _halves(values):
    """Chains cut in two, without the middle draw of an odd number."""
    values, half = _without_rounding(values), values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def _without_rounding(values):
    """The same values, equal where they differ by rounding: sums in another order, say."""
    order = np.argsort(values, axis=None)
    ascending = values.ravel()[order]
    steps = np.diff(ascending, prepend=-np.inf) > _ROUNDING * np.abs(ascending).max(initial=0.0)
    equal = np.empty(values.size)
    equal[order] = ascending[np.maximum.accumulate(np.where(steps, np.arange(values.size), 0))]
    return equal.reshape(values.shape)


def _varies(halves):
    return halves.shape[1] >= _FEWEST and np.ptp(halves) > 0.0


def _normal_scores(values):
    ranks = rankdata(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _split_r_hat(halves):
    n, within = halves.shape[1], halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return np.inf if between > 0.0 else np.nan
    return float(np.sqrt((n - 1.0) / n + between / within))


def _autocovariances(chain):
    """Of a chain at all lags, sums divided by its length."""
    n = len(chain)
    spectrum = np.fft.rfft(chain - chain.mean(), 2 * n)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:n] / n
