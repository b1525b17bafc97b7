"""The scikit-learn face of the models."""

from sklearn_onlineem.estimators.anomaly import AnomalyDetector
from sklearn_onlineem.estimators.combination import combine_estimators
from sklearn_onlineem.estimators.hidden_markov import (
    HMM,
    CategoricalHMM,
    GaussianHMM,
    MultinomialHMM,
    PoissonHMM,
)
from sklearn_onlineem.estimators.kalman import KalmanFilter
from sklearn_onlineem.estimators.mixtures import (
    BernoulliMixture,
    CategoricalMixture,
    CompoundDirichlet,
    CompoundDirichletMixture,
    ExponentialMixture,
    GammaMixture,
    GaussianMixture,
    LaplaceMixture,
    MarkovChainMixture,
    Mixture,
    MultinomialMixture,
    PoissonMixture,
    RegressionMixture,
    StudentTMixture,
    WishartMixture,
)
from sklearn_onlineem.estimators.per_sequence import PerSequence
from sklearn_onlineem.estimators.regression import MixtureRegressor
from sklearn_onlineem.estimators.strings import EditDistance, EditDistanceClassifier
from sklearn_onlineem.estimators.topics import LatentDirichletAllocation

__all__ = [
    "HMM",
    "AnomalyDetector",
    "BernoulliMixture",
    "CategoricalHMM",
    "CategoricalMixture",
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
    "LatentDirichletAllocation",
    "MarkovChainMixture",
    "Mixture",
    "MixtureRegressor",
    "MultinomialHMM",
    "MultinomialMixture",
    "PerSequence",
    "PoissonHMM",
    "PoissonMixture",
    "RegressionMixture",
    "StudentTMixture",
    "WishartMixture",
    "combine_estimators",
]
