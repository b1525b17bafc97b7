r"""Recursive smoothing of a hidden Markov chain's statistics, symbol by symbol, without a past.

With phi the filter, :math:`r(i|k) = \phi_i a_{ik} / \sum_{i'} \phi_{i'} a_{i'k}` the backward
kernel, gamma a step size and s(y) the statistics of a symbol y,

.. math::
    \rho^q(i,j,k) \leftarrow (1-\gamma) \sum_m \rho^q(i,j,m)\, r(m|k) + \gamma [j=k]\, r(i|k)

    \rho^g(i,\cdot,k) \leftarrow (1-\gamma) \sum_m \rho^g(i,\cdot,m)\, r(m|k) + \gamma [i=k]\, s(y)

and the statistics are :math:`\sum_k \rho(\cdot,\cdot,k)\, \phi_k`. With fixed parameters and step
sizes 1 / t they are those of forward-backward over all that came. Where sequences end, the next one
follows through the end: a move to the silent end, then a start.

References
----------
Mongillo & Deneve, "Online learning with hidden Markov models", Neural Computation 2008; Cappe,
"Online EM algorithm for hidden Markov models", JCGS 2011.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_TINY = 1e-300


@dataclass(frozen=True)
class CategoricalEmissions:
    """Symbols 0, 1, ...; parameters are probabilities (K, n_symbols)."""

    probabilities: np.ndarray

    def features(self, X):
        """Statistics s(y) of each row."""
        return np.eye(self.probabilities.shape[1])[X[:, 0].astype(int)]

    def log_density(self, row):
        return np.log(self.probabilities @ row + _TINY)

    def m_step(self, sums):
        return CategoricalEmissions(normalised(sums))


@dataclass(frozen=True)
class GaussianEmissions:
    """Full covariances, whose inverses have the factors C C'."""

    means: np.ndarray
    factors: np.ndarray

    @classmethod
    def with_covariances(cls, means, covariances):
        roots = np.linalg.cholesky(covariances)
        return cls(means, np.ascontiguousarray(np.linalg.inv(roots).mT))

    @property
    def covariances(self):
        roots = np.linalg.inv(self.factors).mT
        return roots @ roots.mT

    def features(self, X):
        """1, x and x x' of each row: data about their mean, as plain second moments cancel."""
        squares = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return np.hstack([np.ones((len(X), 1)), X, squares])

    def log_density(self, row):
        d = self.means.shape[1]
        scaled = ((row[1 : 1 + d] - self.means)[:, None, :] @ self.factors)[:, 0]
        volumes = np.log(self.factors.diagonal(axis1=1, axis2=2)).sum(axis=1)
        return volumes - 0.5 * ((scaled * scaled).sum(axis=1) + d * np.log(2.0 * np.pi))

    def m_step(self, sums):
        d = self.means.shape[1]
        moments = sums[:, 1:] / sums[:, :1]
        means = moments[:, :d]
        squares = moments[:, d:].reshape(-1, d, d)
        return self.with_covariances(means, squares - means[:, :, None] * means[:, None, :])


@dataclass(frozen=True)
class Chain:
    """A chain: start (K,), transitions (K, K), or (K, K + 1) with a silent end, and emissions."""

    start: np.ndarray
    transmat: np.ndarray
    emissions: object

    @property
    def n_states(self):
        return len(self.start)


class Sums(NamedTuple):
    """Statistics of starts (K,), transitions, and emissions (K, n_statistics)."""

    start: np.ndarray
    transitions: np.ndarray
    emissions: np.ndarray


class RecursiveSmoother:
    """The filter, and the running conditional expectations of all statistics.

    Parameters
    ----------
    chain : Chain
        For the shapes, and the start.
    n_statistics : int
        Of the emissions of a state.

    Attributes
    ----------
    filtered : ndarray of shape (K,) or None
        P(h_t | y_1..t); None before the first symbol.
    conditional : ndarray of shape (n, K)
        Expected statistics given the state now, those of transitions, starts and emissions.
    """

    def __init__(self, chain, n_statistics):
        self.filtered = None
        self._shapes = chain.transmat.shape, (chain.n_states,), (chain.n_states, n_statistics)
        ends = np.cumsum([0, *(math.prod(shape) for shape in self._shapes)]).tolist()
        self._slices = [slice(a, b) for a, b in pairwise(ends)]
        self.conditional = np.zeros((ends[-1], chain.n_states))

    def update(self, chain, row, gamma, begins=False):
        """Take a symbol, as its statistics; return its log-likelihood given those before.

        Parameters
        ----------
        chain : Chain
        row : ndarray of shape (n_statistics,)
        gamma : float
            Step size; 1 forgets all that was.
        begins : bool
            Whether the symbol begins another sequence.
        """
        backward, log_likelihood = self.move(chain, row, begins)
        self.conditional *= 1.0 - gamma
        transitions, start, emissions = self._parts(self.conditional)
        if backward is None:
            _diagonal(start)[:] += gamma
        elif begins:
            transitions[:, -1] += gamma * backward
            _diagonal(start)[:] += gamma
        else:
            np.einsum("ikk->ik", transitions[:, : chain.n_states])[:] += gamma * backward
        np.einsum("ksk->ks", emissions)[:] += gamma * row
        return log_likelihood

    def move(self, chain, row, begins=False):
        """Filter a symbol, and carry the expectations over to the state at it.

        Returns
        -------
        backward : ndarray of shape (K, K) or None
            P(h_{t-1} = i | h_t = k, y_1..t-1); None at the first symbol.
        log_likelihood : float
        """
        backward, predicted = None, chain.start
        if self.filtered is not None:
            n = chain.n_states
            moves = np.outer(chain.transmat[:, n], chain.start) if begins else chain.transmat[:, :n]
            joint = self.filtered[:, None] * moves
            predicted = joint.sum(axis=0)
            backward = joint / (predicted + _TINY)
            self.conditional = self.conditional @ backward
        log_densities = chain.emissions.log_density(row)
        greatest = log_densities.max()
        posterior = predicted * np.exp(log_densities - greatest)
        total = posterior.sum()
        self.filtered = posterior / total
        return backward, greatest + np.log(total)

    def statistics(self):
        """Smoothed statistics of all symbols so far, as averages for each symbol."""
        transitions, start, emissions = self._parts(self.conditional @ self.filtered)
        return Sums(start, transitions, emissions)

    def _parts(self, stacked):
        """Views of transitions, starts and emissions."""
        return [
            stacked[part].reshape(shape + stacked.shape[1:])
            for part, shape in zip(self._slices, self._shapes, strict=True)
        ]


def m_step(chain, sums, learns_start=False):
    """The chain that maximises the statistics."""
    return replace(
        chain,
        start=normalised(sums.start) if learns_start else chain.start,
        transmat=normalised(sums.transitions),
        emissions=chain.emissions.m_step(sums.emissions),
    )


def normalised(weights):
    return (weights + _TINY) / (weights + _TINY).sum(axis=-1, keepdims=True)


def _diagonal(square):
    return np.einsum("kk->k", square)
