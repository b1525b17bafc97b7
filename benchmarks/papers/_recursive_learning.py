r"""Learning an endless sequence symbol by symbol: Cappe's online EM, and steps along the score.

The score of the latest symbol, the gradient of :math:`\log p(y_t \mid y_{1..t-1})`, is by Fisher's
identity what the smoothed gradients of the complete data's log-likelihood grow by. Coordinates are
free: logits of probabilities; means, and factors C of inverse covariances C C', the diagonal in
logarithms.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.papers._recursive_smoother import (
    GaussianEmissions,
    RecursiveSmoother,
    Sums,
    m_step,
    normalised,
)


@dataclass(frozen=True)
class OnlineEM:
    """An M-step from recursively smoothed statistics after each symbol but the first ones.

    Parameters
    ----------
    exponent : float
        Step sizes are the rate by t to the minus this; the first one is 1.
    rate : float, default=1.0
    warm_up : int, default=100
        Symbols before the first M-step.
    every : int, default=1
        Symbols between M-steps.
    average_from : float, default=inf
        Symbols after which the chains are those of the statistics' average over time (Polyak);
        learning goes by the others.
    """

    exponent: float
    rate: float = 1.0
    warm_up: int = 100
    every: int = 1
    average_from: float = np.inf

    def learn(self, chain, X, begins):
        """Yield after each symbol the chain and the symbol's log-likelihood given those before."""
        rows, shown = chain.emissions.features(X), chain
        average, n_averaged = None, 0
        smoother, learns_start = RecursiveSmoother(chain, rows.shape[1]), begins[1:].any()
        for t, (row, begin) in enumerate(zip(rows, begins.tolist(), strict=True), start=1):
            gamma = self.rate * t**-self.exponent if t > 1 else 1.0
            log_likelihood = smoother.update(chain, row, gamma, begin)
            if t > self.warm_up and t % self.every == 0:
                sums = smoother.statistics()
                shown = chain = m_step(chain, sums, learns_start)
                if t > self.average_from:
                    n_averaged += 1
                    average = _averaged(average, sums, n_averaged)
                    shown = m_step(chain, average, learns_start)
            yield shown, log_likelihood


def _averaged(average, sums, n):
    """The average with one more, the n-th."""
    if n == 1:
        return sums
    return Sums(*(a + (b - a) / n for a, b in zip(average, sums, strict=True)))


@dataclass(frozen=True)
class OnlineGradient:
    """A step along the score after each symbol.

    Parameters
    ----------
    rate : float
        The first step size.
    exponent : float
        Step sizes are the rate by t to the minus this.
    """

    rate: float
    exponent: float

    def learn(self, chain, X, begins):
        """Yield after each symbol the chain and the symbol's log-likelihood given those before."""
        rows = chain.emissions.features(X)
        smoother, learns_start = ScoreSmoother(chain), begins[1:].any()
        for t, (row, begin) in enumerate(zip(rows, begins.tolist(), strict=True), start=1):
            log_likelihood = smoother.update(chain, row, begin)
            chain = moved(chain, smoother.score(), self.rate * t**-self.exponent, learns_start)
            yield chain, log_likelihood


class ScoreSmoother(RecursiveSmoother):
    """The filter, and expected gradients of the complete log-likelihood given the state now.

    They are kept less their mean, so that the mean after a symbol is its score.

    Parameters
    ----------
    chain : Chain
    """

    def __init__(self, chain):
        super().__init__(chain, gradients(chain.emissions, None).shape[1])

    def update(self, chain, row, begins=False):
        """Take a symbol, as its statistics; return its log-likelihood given those before."""
        if self.filtered is not None:
            self.conditional -= (self.conditional @ self.filtered)[:, None]
        backward, log_likelihood = self.move(chain, row, begins)
        transitions, start, emissions = self._parts(self.conditional)
        if backward is not None and begins:
            transitions -= backward[:, None] * chain.transmat[:, :, None]
            transitions[:, -1] += backward
        elif backward is not None:
            transitions -= backward[:, None] * chain.transmat[:, :, None]
            np.einsum("ikk->ik", transitions[:, : chain.n_states])[:] += backward
        if backward is None or begins:
            start += np.eye(chain.n_states) - chain.start[:, None]
        np.einsum("ksk->ks", emissions)[:] += gradients(chain.emissions, row)
        return log_likelihood

    def score(self):
        """Gradient of the latest symbol's log-likelihood given those before, as `Sums`."""
        return self.statistics()


def gradients(emissions, row):
    """Of a row's log density by the coordinates of each state, (K, n); None is any row."""
    if not isinstance(emissions, GaussianEmissions):
        return (0.0 if row is None else row) - emissions.probabilities
    k, d = emissions.means.shape
    differences = (0.0 if row is None else row[1 : 1 + d]) - emissions.means
    scaled = (differences[:, None, :] @ emissions.factors)[:, 0]
    by_means = (emissions.factors @ scaled[:, :, None])[:, :, 0]
    by_factors = np.triu(-differences[:, :, None] * scaled[:, None, :])
    diagonal = np.einsum("kdd->kd", by_factors)
    diagonal[:] = 1.0 + diagonal * emissions.factors.diagonal(axis1=1, axis2=2)
    return np.hstack([by_means, by_factors.reshape(k, d * d)])


def moved(chain, direction, step, learns_start=False):
    """The chain after a step in the coordinates."""
    return replace(
        chain,
        start=_tilted(chain.start, step * direction.start) if learns_start else chain.start,
        transmat=_tilted(chain.transmat, step * direction.transitions),
        emissions=_moved_emissions(chain.emissions, step * direction.emissions),
    )


def _tilted(probabilities, logits):
    return normalised(probabilities * np.exp(logits - logits.max(axis=-1, keepdims=True)))


def _moved_emissions(emissions, change):
    if not isinstance(emissions, GaussianEmissions):
        return replace(emissions, probabilities=_tilted(emissions.probabilities, change))
    k, d = emissions.means.shape
    factors = emissions.factors + np.triu(change[:, d:].reshape(k, d, d))
    old = emissions.factors.diagonal(axis1=1, axis2=2)
    # A step of more than e^50 has broken down, and overflow would hide where.
    np.einsum("kdd->kd", factors)[:] = old * np.exp(np.minimum(factors.diagonal(0, 1, 2) - old, 50))
    return GaussianEmissions(emissions.means + change[:, :d], factors)
