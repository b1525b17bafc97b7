"""Online EM for scikit-learn: hidden-variable models that learn from streams."""

from sklearn_onlineem._version import __version__
from sklearn_onlineem.estimators import (
    HMM,
    BernoulliMixture,
    CategoricalHMM,
    ExponentialMixture,
    GammaMixture,
    GaussianHMM,
    GaussianMixture,
    Mixture,
    MultinomialHMM,
    MultinomialMixture,
    PerSequence,
    PoissonHMM,
    PoissonMixture,
    WishartMixture,
    combine_estimators,
)

__all__ = [
    "HMM",
    "BernoulliMixture",
    "CategoricalHMM",
    "ExponentialMixture",
    "GammaMixture",
    "GaussianHMM",
    "GaussianMixture",
    "Mixture",
    "MultinomialHMM",
    "MultinomialMixture",
    "PerSequence",
    "PoissonHMM",
    "PoissonMixture",
    "WishartMixture",
    "__version__",
    "combine_estimators",
]
