"""Real sequences that are learnt as if they did not end: what is fitted to them, from which start.

genome    the phage lambda, base by base; two states that stay long
clicks    four fifths of the visits to a web site, one after the other in a random order
stocks    daily returns of five stocks, 1990 to 2013; states of low, middle and high variance
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import datasets
from benchmarks.papers._recursive_smoother import CategoricalEmissions, Chain, GaussianEmissions
from sklearn_onlineem import CategoricalHMM, GaussianHMM
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences

N_TRAINING_DAYS, FIRST_YEAR = 6000, 250
STOCKS = ["BAC", "KO", "LLY", "MSFT", "XOM"]


@dataclass(frozen=True)
class Task:
    """A stream, what is held out, and a start.

    Parameters
    ----------
    train, test : ndarray
        Rows in order; the genome is both.
    chain : Chain
        The start.
    """

    train: np.ndarray
    test: np.ndarray
    chain: Chain

    def estimator(self, **parameters):
        """An estimator that starts from the chain."""
        k, emissions = self.chain.n_states, self.chain.emissions
        if isinstance(emissions, CategoricalEmissions):
            kind, given = CategoricalHMM, {
                "n_features": emissions.probabilities.shape[1],
                "emissionprob_init": emissions.probabilities,
            }  # fmt: skip
        else:
            kind, given = GaussianHMM, {
                "covariance_type": "full",
                "means_init": emissions.means,
                "covars_init": emissions.covariances,
            }  # fmt: skip
        return kind(k, transmat_init=self.chain.transmat, **given, **parameters)

    def held_out(self, model):
        """Mean log-likelihood of the held-out rows as one sequence, in nats a row."""
        data = Sequences(Rows(self.test), np.array([0, len(self.test)]))
        return model.log_likelihood(data)[0] / len(self.test)


def genome(seed, n_states=2):
    rng, X = np.random.default_rng(seed), datasets.load_phage_lambda()
    shares = np.bincount(X[:, 0].astype(int)) / len(X)
    emissions = CategoricalEmissions(rng.dirichlet(30.0 * shares, size=n_states))
    return Task(X, X, Chain(_uniform(n_states), _sticky(n_states, 0.99), emissions))


def clicks(seed, n_states=6):
    rng, visits = np.random.default_rng(seed), datasets.load_msnbc()
    order, n_train = rng.permutation(len(visits)), len(visits) * 4 // 5
    parts = [np.vstack([visits[i] for i in part]) for part in np.split(order, [n_train])]
    shares = np.bincount(parts[0][:, 0].astype(int), minlength=17) + 20.0
    probabilities = rng.dirichlet(17.0 * shares / shares.sum(), size=n_states)
    moves = 0.5 * np.eye(n_states) + 0.5 / n_states
    return Task(*parts, Chain(_uniform(n_states), moves, CategoricalEmissions(probabilities)))


def stocks(seed, n_states=3):
    rng = np.random.default_rng(seed)
    returns = datasets.load_stocks(names=STOCKS)
    train, test = returns[:N_TRAINING_DAYS], returns[N_TRAINING_DAYS:]
    means = 0.3 * train[rng.choice(FIRST_YEAR, n_states, replace=False)]
    scales = np.geomspace(0.4, 2.5, n_states)[:, None, None]
    emissions = GaussianEmissions.with_covariances(means, scales * np.cov(train[:FIRST_YEAR].T))
    return Task(train, test, Chain(_uniform(n_states), _sticky(n_states, 0.95), emissions))


TASKS: dict[str, Callable] = {"genome": genome, "clicks": clicks, "stocks": stocks}


def _uniform(n_states):
    return np.full(n_states, 1.0 / n_states)


def _sticky(n_states, stays):
    moves = np.full((n_states, n_states), (1.0 - stays) / (n_states - 1))
    moves[np.diag_indices(n_states)] = stays
    return moves
