"""The scikit-learn face of the models."""

from sklearn_onlineem.estimators.count_mixtures import (
    BernoulliMixture,
    MultinomialMixture,
    PoissonMixture,
)
from sklearn_onlineem.estimators.duration_mixtures import ExponentialMixture, GammaMixture
from sklearn_onlineem.estimators.gaussian_mixture import GaussianMixture
from sklearn_onlineem.estimators.mixture import Mixture
from sklearn_onlineem.estimators.wishart_mixture import WishartMixture

__all__ = [
    "BernoulliMixture",
    "ExponentialMixture",
    "GammaMixture",
    "GaussianMixture",
    "Mixture",
    "MultinomialMixture",
    "PoissonMixture",
    "WishartMixture",
]
