"""Online EM for scikit-learn: hidden-variable models that learn from streams."""

from sklearn_onlineem._version import __version__
from sklearn_onlineem.estimators import (
    BernoulliMixture,
    ExponentialMixture,
    GammaMixture,
    GaussianMixture,
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
    "__version__",
]
