"""Online EM for scikit-learn: hidden-variable models that learn from streams."""

from typing import TYPE_CHECKING

import sklearn_onlineem._kernels  # says at once if nothing is compiled  # noqa: F401
from sklearn_onlineem._lazy import lazy_names
from sklearn_onlineem._version import __version__

if TYPE_CHECKING:
    from sklearn_onlineem.estimators import (
        HMM,
        AnomalyDetector,
        BernoulliMixture,
        CategoricalHMM,
        CategoricalMixture,
        CompoundDirichlet,
        CompoundDirichletMixture,
        EditDistance,
        EditDistanceClassifier,
        ExponentialMixture,
        GammaMixture,
        GaussianHMM,
        GaussianMixture,
        KalmanFilter,
        LaplaceMixture,
        LatentDirichletAllocation,
        MarkovChainMixture,
        Mixture,
        MixtureRegressor,
        MultinomialHMM,
        MultinomialMixture,
        PerSequence,
        PoissonHMM,
        PoissonMixture,
        RegressionMixture,
        StudentTMixture,
        WishartMixture,
        combine_estimators,
    )
    from sklearn_onlineem.streams import PrequentialSearch, StreamPipeline

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
    "PrequentialSearch",
    "StreamPipeline",
    "StudentTMixture",
    "WishartMixture",
    "__version__",
    "combine_estimators",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"estimators": __all__, "streams": ["PrequentialSearch", "StreamPipeline"]},
        ["data", "diagnostics", "displays", "distributed", "em", "estimators", "families",
         "interop", "models", "statistics", "streams"],
    )  # fmt: skip
