"""The scikit-learn face of the models."""

from sklearn_onlineem.estimators.gaussian_mixture import GaussianMixture
from sklearn_onlineem.estimators.mixture import (
    BernoulliMixture,
    ExponentialMixture,
    GammaMixture,
    Mixture,
    MultinomialMixture,
    PoissonMixture,
    WishartMixture,
)

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
