"""The scikit-learn face of the models."""

from sklearn_onlineem.estimators.categorical_hmm import CategoricalHMM
from sklearn_onlineem.estimators.combination import combine_estimators
from sklearn_onlineem.estimators.compound_dirichlet import (
    CompoundDirichlet,
    CompoundDirichletMixture,
)
from sklearn_onlineem.estimators.count_mixtures import (
    BernoulliMixture,
    MultinomialMixture,
    PoissonMixture,
)
from sklearn_onlineem.estimators.duration_mixtures import ExponentialMixture, GammaMixture
from sklearn_onlineem.estimators.edit_distance import EditDistance
from sklearn_onlineem.estimators.edit_distance_classifier import EditDistanceClassifier
from sklearn_onlineem.estimators.gaussian_hmm import GaussianHMM
from sklearn_onlineem.estimators.gaussian_mixture import GaussianMixture
from sklearn_onlineem.estimators.hmm import HMM
from sklearn_onlineem.estimators.kalman import KalmanFilter
from sklearn_onlineem.estimators.laplace_mixture import LaplaceMixture
from sklearn_onlineem.estimators.live_filter import MomentFilter, StateFilter
from sklearn_onlineem.estimators.mixture import Mixture
from sklearn_onlineem.estimators.multinomial_hmm import MultinomialHMM
from sklearn_onlineem.estimators.per_sequence import PerSequence
from sklearn_onlineem.estimators.poisson_hmm import PoissonHMM
from sklearn_onlineem.estimators.wishart_mixture import WishartMixture

__all__ = [
    "HMM",
    "BernoulliMixture",
    "CategoricalHMM",
    "CompoundDirichlet",
    "CompoundDirichletMixture",
    "EditDistance",
    "EditDistanceClassifier",
    "ExponentialMixture",
    "GammaMixture",
    "GaussianHMM",
    "GaussianMixture",
    "KalmanFilter",
    "LaplaceMixture",
    "Mixture",
    "MomentFilter",
    "MultinomialHMM",
    "MultinomialMixture",
    "PerSequence",
    "PoissonHMM",
    "PoissonMixture",
    "StateFilter",
    "WishartMixture",
    "combine_estimators",
]
