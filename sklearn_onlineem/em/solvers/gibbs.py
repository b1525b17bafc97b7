"""Collapsed Gibbs sampling: parallel chains and their diagnostics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.special import entr, ndtri
from scipy.stats import rankdata

from sklearn_onlineem._checks import check_count
from sklearn_onlineem._typing import Floats
from sklearn_onlineem.data import Batch as Observations
from sklearn_onlineem.em.loop import Passes, Progress
from sklearn_onlineem.em.solvers.base import Plan, Solver
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.capabilities import SampledChains

__all__ = ["Chains", "Gibbs", "effective_sample_size", "r_hat", "sweeps"]


@dataclass(frozen=True)
class Gibbs(Solver):
    """Collapsed Gibbs sampling: each hidden variable is drawn given all the others.

    Parameters are integrated out under their prior, and a fit returns those that maximise the
    statistics of the draws. A fit takes all of its `max_iter` sweeps; `chains_` of the estimator is
    their record, :class:`~sklearn_onlineem.em.solvers.Chains`. Streams take online steps, as with
    :class:`Online`. Mixtures require a proper `prior` of what they learn, and rows without weights;
    what their `params` fix is known to the sampler. See :ref:`sampling`.

    Parameters
    ----------
    average_from : int, default=None
        First sweep of a fit that is averaged, over all chains. None: the fit returns the last sweep
        of the first chain.
    n_chains : int, default=1
        Independent chains. The first begins with the initial model, the others away from it, if the
        model has several components. Averages number components as the first chain does, but for
        those with fixed parts, which keep their numbers.
    n_draws : int, default=0
        Draws of the parameters that each chain keeps, spread evenly over the sweeps from
        `average_from` on, or over the second half; fewer if a callback ends the fit.

    Raises
    ------
    ValueError
        In a fit, if there are fewer sweeps than draws, or its model has no such sampler, or one of
        a single chain only.

    References
    ----------
    Griffiths & Steyvers, "Finding scientific topics", PNAS 2004; Zaheer, Wick, Kottur & Tristan,
    "Comparing Gibbs, EM and SEM for MAP Inference in Mixture Models"; Neal, "Markov chain sampling
    methods for Dirichlet process mixture models", JCGS 2000, algorithm 3.

    Examples
    --------
    The posterior of the rates of a mixture:

    >>> import numpy as np
    >>> from sklearn_onlineem import PoissonMixture
    >>> from sklearn_onlineem.em import Gibbs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(np.repeat([[2.0], [20.0]], 50, axis=0))
    >>> solver = Gibbs(average_from=50, n_chains=2, n_draws=50)
    >>> mixture = PoissonMixture(
    ...     2, solver=solver, prior={"rate": 0.1}, max_iter=200, random_state=0).fit(X)
    >>> rates = np.array([drawn.parameters.ravel() for drawn in mixture.chains_.draws[0]])
    >>> np.sort(rates.mean(axis=0)).round(), np.sort(rates.std(axis=0)).round(1)
    (array([ 2., 21.]), array([0.2, 0.6]))
    """

    average_from: int | None = None
    n_chains: int = 1
    n_draws: int = 0
    requires = SampledChains
    is_stochastic = True

    def __post_init__(self):
        check_count("average_from", self.average_from, optional=True)
        check_count("n_chains", self.n_chains)
        check_count("n_draws", self.n_draws, least=0)

    def passes(self, progress: Progress, data: Observations, plan: Plan) -> Passes:
        first, keeps, n_sweeps = self.average_from, [], plan.max_iter
        if first is None:
            first = 1 if n_sweeps is None else n_sweeps // 2 + 1
        if self.n_draws > 0:
            if n_sweeps is None or n_sweeps - first + 1 < self.n_draws:
                raise ValueError(
                    f"n_draws must be at most the number of sweeps from {first} to {n_sweeps}, got"
                    f" {self.n_draws}: raise max_iter."
                )
            keeps = np.linspace(n_sweeps, first, self.n_draws).astype(int).tolist()
        state = progress.state
        model = self._required(state.model)
        sampler = Sampler(model, data, state.prior, state.rng(), self.n_chains, keeps, first)
        for passed in sweeps(progress, data, sampler, self.average_from):
            progress.chains = sampler.record()
            yield passed


def sweeps(progress, data, chain, average_from):
    """Yield sweeps of a chain without end, and update the model after each."""
    for number in count(1):
        state = progress.state
        log_likelihood = chain.sweep(state.rng())
        if average_from is not None and number >= average_from:
            chain.average_in()
        progress.take(state.after_pass(chain.model(), log_likelihood, data))
        yield log_likelihood, False


class Sampler:
    """Chains of one model on the same data, the first of which begins with the model."""

    def __init__(self, model, data, prior, rng, n_chains, keeps, first):
        # Parameters are drawn after the sweeps `keeps`; diagnostics begin with the sweep `first`.
        rngs = _one_each(rng, n_chains)
        self._chains = [model.chain(data, prior, rngs[0])]
        self._chains += [model.chain(data, prior, rng, dispersed=True) for rng in rngs[1:]]
        if len(keeps) and not self._chains[0].has_draws:
            raise ValueError(f"{type(model).__name__} draws no parameters: n_draws must be 0.")
        self._n_threads, self._keeps, self._first = data.n_threads, set(keeps), first
        self._traces = np.empty((2, n_chains, 64))
        self._draws = [()] * n_chains
        self._n_sweeps, self._averages, self._is_aligned = 0, False, False

    def sweep(self, rng):
        """Make a sweep of each chain; return the mean of their scores."""
        rngs = _one_each(rng, len(self._chains))
        self._n_sweeps += 1
        if self._n_sweeps > self._traces.shape[2]:
            self._traces = np.concatenate([self._traces, np.empty_like(self._traces)], axis=2)
        n_threads = min(self._n_threads, len(rngs))
        if n_threads == 1:
            scores = [chain.sweep(rng) for chain, rng in zip(self._chains, rngs, strict=True)]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                scores = [*pool.map(lambda chain, rng: chain.sweep(rng), self._chains, rngs)]
        entropies = [entr(chain.shares()).sum() for chain in self._chains]
        self._traces[:, :, self._n_sweeps - 1] = scores, entropies
        if self._n_sweeps in self._keeps:
            self._align()
            for i, (chain, rng) in enumerate(zip(self._chains, rngs, strict=True)):
                self._draws[i] = (*self._draws[i], chain.draw(rng))
        return float(np.mean(scores))

    def _align(self):
        """Number components as in the present model of the first chain, from now on."""
        if self._is_aligned or not self._chains[0].has_draws:
            return
        reference, self._is_aligned = self._chains[0].model(), True
        for chain in self._chains:
            chain.align_to(reference)

    def average_in(self):
        """Add the last draws of the chains to their averages."""
        self._align()
        for chain in self._chains:
            chain.average_in()
        self._averages = True

    def model(self):
        """Return the model of the average over all chains, or else of the first one's last draw."""
        first = self._chains[0]
        if self._averages and len(self._chains) > 1:
            return first.pooled(self._chains)
        return first.model()

    def record(self):
        """Return the record of the chains so far."""
        scores, entropies = self._traces[:, :, : self._n_sweeps]
        return Chains(scores, entropies, self._first, tuple(self._draws))


def _one_each(rng, n):
    return [rng, *rng.spawn(n - 1)]


class Chains(NamedTuple):
    """Record of the chains of a fit by :class:`~sklearn_onlineem.em.Gibbs`.

    Attributes
    ----------
    scores : ndarray of shape (n_chains, n_sweeps)
        Mean log predictive density of an observation given all the others, in nats, of each sweep.
    entropies : ndarray of shape (n_chains, n_sweeps)
        Entropy of the shares of the components after each sweep, in nats. As the scores, it does
        not depend on how components are numbered.
    first : int
        The first sweep, counted from 1, that diagnostics and draws use.
    draws : tuple of tuples of Model
        For each chain, models drawn from the posterior, their components numbered alike.
    """

    scores: Floats
    entropies: Floats
    first: int
    draws: tuple[tuple[Model, ...], ...] = ()

    @property
    def r_hat(self) -> float:
        """Rank-normalised split R-hat of scores and entropies, the larger of both.

        It is 1 for chains that have forgotten their start; above 1.01 they disagree. NaN if neither
        varies, or there are fewer than 4 sweeps.
        """
        return _largest(r_hat(part) for part in self._kept())

    @property
    def effective_sample_size(self) -> float:
        """Effective sample size of the ranks of scores and entropies, the smaller of both.

        It is a number of independent draws, over all chains. NaN if neither varies, or there are
        fewer than 4 sweeps.
        """
        return -_largest(-effective_sample_size(part) for part in self._kept())

    def _kept(self):
        return self.scores[:, self.first - 1 :], self.entropies[:, self.first - 1 :]


def _largest(values):
    return max((value for value in values if not np.isnan(value)), default=np.nan)


def r_hat(values: Floats) -> float:
    r"""Return the rank-normalised split R-hat of chains, an array of shape (n_chains, n_draws).

    .. math:: \hat R = \sqrt{\frac{n - 1}{n} + \frac{B}{n W}}

    with the variance B / n between means of half chains, and the mean variance W within. The result
    is the larger of that of the normal scores of ranks, and of those of distances to the median,
    which differ for chains of equal means and unequal spreads; NaN if there are fewer than 4 draws,
    or all are the same.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Buerkner, "Rank-normalization, folding, and localization:
    an improved R-hat for assessing convergence of MCMC", Bayesian Analysis 2021, eqs. (4)-(14).
    """
    halves = _halves(values)
    if not _varies(halves):
        return np.nan
    folded = np.abs(halves - np.median(halves))
    return _largest(_split_r_hat(_normal_scores(part)) for part in (halves, folded))


def effective_sample_size(values: Floats) -> float:
    r"""Return the effective sample size of chains, an array of shape (n_chains, n_draws).

    .. math:: S / \Big(-1 + 2 \sum_t \rho_{2t} + \rho_{2t+1}\Big)

    of S draws in all chains with autocorrelations :math:`\rho` of the normal scores of ranks; sums
    of pairs are cut where they become negative, and never grow (Geyer's initial monotone sequence).
    NaN if there are fewer than 4 draws, or all are the same.

    References
    ----------
    Vehtari et al. 2021, as for `r_hat`, eq. (15) and section 4.2.
    """
    halves = _halves(values)
    if not _varies(halves):
        return np.nan
    scores, (n_chains, n) = _normal_scores(halves), halves.shape
    means = scores.mean(axis=1, keepdims=True)
    # Autocovariances of chains at all lags are sums divided by the length.
    spectrum = np.fft.rfft(scores - means, 2 * n)
    covariances = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n)[:, :n].mean(axis=0) / n
    total = covariances[0] + means.var(ddof=1)
    correlations = 1.0 - (covariances[0] - covariances) * n / ((n - 1.0) * total)
    correlations[0] = 1.0
    pairs = correlations[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    is_negative = np.flatnonzero(pairs < 0.0)
    pairs = np.minimum.accumulate(pairs[: is_negative[0]] if len(is_negative) else pairs)
    size = n_chains * n
    # Antithetic chains may exceed the number of draws, up to a bound.
    return float(size / max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(size)))


def _halves(values):
    """Return the halves of chains, without the middle draw of an odd number.

    Values that differ by rounding only are made equal.
    """
    order = np.argsort(values, axis=None)
    ascending = values.ravel()[order]
    steps = np.diff(ascending, prepend=-np.inf) > 1e-12 * np.abs(ascending).max(initial=0.0)
    equal = np.empty(values.size)
    equal[order] = ascending[np.maximum.accumulate(np.where(steps, np.arange(values.size), 0))]
    equal, half = equal.reshape(values.shape), values.shape[1] // 2
    return np.concatenate([equal[:, :half], equal[:, values.shape[1] - half :]])


def _varies(halves):
    # The variance of half a chain needs at least two sweeps.
    return halves.shape[1] >= 2 and np.ptp(halves) > 0.0


def _normal_scores(values):
    ranks = rankdata(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _split_r_hat(halves):
    n, within = halves.shape[1], halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    if within == 0.0:
        return np.inf if between > 0.0 else np.nan
    return float(np.sqrt((n - 1.0) / n + between / within))
