"""Hidden chains by enumeration of all state paths, which knows no recursion."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import logsumexp

from sklearn_onlineem.families import Family
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState
from sklearn_onlineem.statistics import Sums


@dataclass(frozen=True)
class LogDensities(Family):
    """Rows are log densities for each state: what a chain sees of any family."""

    n_states: int

    def log_density(self, parameters, X, n_threads=1):
        return X.copy()

    def expected_statistics(self, X, responsibilities, n_threads=1):
        weights = responsibilities.astype(float)
        return Sums(weights.sum(axis=0), weights.T @ np.maximum(X, -1e6))

    def own_statistics(self, parameters, weights):
        return Sums(weights, np.zeros((self.n_states, self.n_states)))

    def m_step(self, statistics, previous=None):
        return previous

    def kl_divergence(self, p, q):
        return np.zeros(self.n_states)

    def sample(self, parameters, components, rng):
        return np.zeros((len(components), self.n_states))


def logs(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def all_paths(n_states, length):
    return np.array(list(product(range(n_states), repeat=length)))


def log_prior_of(model, paths, before=None, ends=True):
    """log p(h), for paths of one length; `before` is the distribution of the state before h_1."""
    n_states = len(model.start)
    table, absorbing = logs(model.transmat[:, :n_states]), np.zeros(n_states, dtype=bool)
    if isinstance(model.termination, AbsorbingStates):
        absorbing[list(model.termination.states)] = True
    start = model.start if before is None else before @ np.exp(_leaving(table, absorbing))
    total = logs(start)[paths[:, 0]]
    for t in range(1, paths.shape[1]):
        total = total + _leaving(table, absorbing)[paths[:, t - 1], paths[:, t]]
    last = paths[:, -1]
    if ends and isinstance(model.termination, EndState):
        total = total + logs(model.transmat[:, n_states])[last]
    if ends and isinstance(model.termination, AbsorbingStates):
        total = np.where(absorbing[last], total, -np.inf)
    return total


def _leaving(table, absorbing):
    """Log probabilities of moves; sequences stop in absorbing states."""
    return np.where(absorbing[:, None], -np.inf, table)


class Enumeration:
    """One sequence: all of its state paths, each with log p(v, h)."""

    def __init__(self, model, log_densities, before=None, ends=True):
        length, n_states = log_densities.shape
        self.n_states, self.paths = n_states, all_paths(n_states, length)
        emitted = log_densities[np.arange(length), self.paths].sum(axis=1)
        self.log_joint = log_prior_of(model, self.paths, before, ends) + emitted
        self.log_likelihood = logsumexp(self.log_joint)
        self.shares = np.exp(self.log_joint - self.log_likelihood)

    def posterior(self):
        states = np.eye(self.n_states)[self.paths]
        return np.einsum("p,ptk->tk", self.shares, states)

    def transitions(self):
        states = np.eye(self.n_states)[self.paths]
        return np.einsum("p,pti,ptj->ij", self.shares, states[:, :-1], states[:, 1:])


def filtered_by_enumeration(model, log_densities, before=None):
    prefixes = (log_densities[: t + 1] for t in range(len(log_densities)))
    return np.array(
        [Enumeration(model, prefix, before, ends=False).posterior()[-1] for prefix in prefixes]
    )
