"""The scikit-learn face of the models."""

from typing import TYPE_CHECKING

from sklearn_onlineem._lazy import lazy_names

if TYPE_CHECKING:
    from sklearn_onlineem.estimators.anomaly import AnomalyDetector
    from sklearn_onlineem.estimators.combination import combine_estimators
    from sklearn_onlineem.estimators.hidden_markov.any_family import HMM
    from sklearn_onlineem.estimators.hidden_markov.categorical import CategoricalHMM
    from sklearn_onlineem.estimators.hidden_markov.gaussian import GaussianHMM
    from sklearn_onlineem.estimators.hidden_markov.multinomial import MultinomialHMM
    from sklearn_onlineem.estimators.hidden_markov.poisson import PoissonHMM
    from sklearn_onlineem.estimators.kalman.kalman_filter import KalmanFilter
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
    from sklearn_onlineem.estimators.per_sequence import PerSequence
    from sklearn_onlineem.estimators.regression import MixtureRegressor
    from sklearn_onlineem.estimators.strings.classifier import EditDistanceClassifier
    from sklearn_onlineem.estimators.strings.edit_distance import EditDistance
    from sklearn_onlineem.estimators.topics.latent_dirichlet_allocation import (
        LatentDirichletAllocation,
    )

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "anomaly": ["AnomalyDetector"],
            "combination": ["combine_estimators"],
            "hidden_markov.any_family": ["HMM"],
            "hidden_markov.categorical": ["CategoricalHMM"],
            "hidden_markov.gaussian": ["GaussianHMM"],
            "hidden_markov.multinomial": ["MultinomialHMM"],
            "hidden_markov.poisson": ["PoissonHMM"],
            "kalman.kalman_filter": ["KalmanFilter"],
            "mixtures.any_family": ["Mixture"],
            "mixtures.categorical": ["CategoricalMixture"],
            "mixtures.compound_dirichlet": ["CompoundDirichlet", "CompoundDirichletMixture"],
            "mixtures.counts": ["BernoulliMixture", "MultinomialMixture", "PoissonMixture"],
            "mixtures.durations": ["ExponentialMixture", "GammaMixture"],
            "mixtures.gaussian": ["GaussianMixture"],
            "mixtures.laplace": ["LaplaceMixture"],
            "mixtures.markov_chain": ["MarkovChainMixture"],
            "mixtures.regression": ["RegressionMixture"],
            "mixtures.student_t": ["StudentTMixture"],
            "mixtures.wishart": ["WishartMixture"],
            "per_sequence": ["PerSequence"],
            "regression": ["MixtureRegressor"],
            "strings.classifier": ["EditDistanceClassifier"],
            "strings.edit_distance": ["EditDistance"],
            "topics.latent_dirichlet_allocation": ["LatentDirichletAllocation"],
        },
    )
