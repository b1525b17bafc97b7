"""Hidden Markov models: rows that come from states which follow each other."""

from sklearn_onlineem.estimators.hidden_markov.any_family import HMM
from sklearn_onlineem.estimators.hidden_markov.categorical import CategoricalHMM
from sklearn_onlineem.estimators.hidden_markov.gaussian import GaussianHMM
from sklearn_onlineem.estimators.hidden_markov.multinomial import MultinomialHMM
from sklearn_onlineem.estimators.hidden_markov.poisson import PoissonHMM

__all__ = ["HMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM"]
