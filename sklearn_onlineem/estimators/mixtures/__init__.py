"""Mixtures: rows that come from one of several components."""

from sklearn_onlineem.estimators.mixtures.any_family import Mixture
from sklearn_onlineem.estimators.mixtures.categorical import CategoricalMixture
from sklearn_onlineem.estimators.mixtures.compound_dirichlet import (
    CompoundDirichlet,
    CompoundDirichletMixture,
)
from sklearn_onlineem.estimators.mixtures.counts import (
    BernoulliMixture,
    MultinomialMixture,
    PoissonMixture,
)
from sklearn_onlineem.estimators.mixtures.durations import ExponentialMixture, GammaMixture
from sklearn_onlineem.estimators.mixtures.gaussian import GaussianMixture
from sklearn_onlineem.estimators.mixtures.laplace import LaplaceMixture
from sklearn_onlineem.estimators.mixtures.markov_chain import MarkovChainMixture
from sklearn_onlineem.estimators.mixtures.regression import RegressionMixture
from sklearn_onlineem.estimators.mixtures.student_t import StudentTMixture
from sklearn_onlineem.estimators.mixtures.wishart import WishartMixture

__all__ = [
    "BernoulliMixture",
    "CategoricalMixture",
    "CompoundDirichlet",
    "CompoundDirichletMixture",
    "ExponentialMixture",
    "GammaMixture",
    "GaussianMixture",
    "LaplaceMixture",
    "MarkovChainMixture",
    "Mixture",
    "MultinomialMixture",
    "PoissonMixture",
    "RegressionMixture",
    "StudentTMixture",
    "WishartMixture",
]
