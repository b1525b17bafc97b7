"""The scikit-learn face of the models."""

from typing import TYPE_CHECKING

from sklearn_onlineem._lazy import lazy_names

if TYPE_CHECKING:
    from sklearn_onlineem.estimators.anomaly import AnomalyDetector as AnomalyDetector
    from sklearn_onlineem.estimators.combination import MergeWarning as MergeWarning
    from sklearn_onlineem.estimators.combination import combine_estimators as combine_estimators
    from sklearn_onlineem.estimators.hidden_markov.any_family import HMM as HMM
    from sklearn_onlineem.estimators.hidden_markov.categorical import (
        CategoricalHMM as CategoricalHMM,
    )
    from sklearn_onlineem.estimators.hidden_markov.counts import MultinomialHMM as MultinomialHMM
    from sklearn_onlineem.estimators.hidden_markov.counts import PoissonHMM as PoissonHMM
    from sklearn_onlineem.estimators.hidden_markov.gaussian import GaussianHMM as GaussianHMM
    from sklearn_onlineem.estimators.hidden_markov.gaussian_mixture import GMMHMM as GMMHMM
    from sklearn_onlineem.estimators.hidden_markov.regression import RegressionHMM as RegressionHMM
    from sklearn_onlineem.estimators.kalman.kalman_filter import KalmanFilter as KalmanFilter
    from sklearn_onlineem.estimators.mixtures.any_family import Mixture as Mixture
    from sklearn_onlineem.estimators.mixtures.categorical import (
        CategoricalMixture as CategoricalMixture,
    )
    from sklearn_onlineem.estimators.mixtures.compound_dirichlet import (
        CompoundDirichlet as CompoundDirichlet,
    )
    from sklearn_onlineem.estimators.mixtures.compound_dirichlet import (
        CompoundDirichletMixture as CompoundDirichletMixture,
    )
    from sklearn_onlineem.estimators.mixtures.counts import BernoulliMixture as BernoulliMixture
    from sklearn_onlineem.estimators.mixtures.counts import MultinomialMixture as MultinomialMixture
    from sklearn_onlineem.estimators.mixtures.counts import PoissonMixture as PoissonMixture
    from sklearn_onlineem.estimators.mixtures.durations import (
        ExponentialMixture as ExponentialMixture,
    )
    from sklearn_onlineem.estimators.mixtures.durations import GammaMixture as GammaMixture
    from sklearn_onlineem.estimators.mixtures.gaussian import GaussianMixture as GaussianMixture
    from sklearn_onlineem.estimators.mixtures.laplace import LaplaceMixture as LaplaceMixture
    from sklearn_onlineem.estimators.mixtures.markov_chain import (
        MarkovChainMixture as MarkovChainMixture,
    )
    from sklearn_onlineem.estimators.mixtures.regression import (
        RegressionMixture as RegressionMixture,
    )
    from sklearn_onlineem.estimators.mixtures.student_t import StudentTMixture as StudentTMixture
    from sklearn_onlineem.estimators.mixtures.wishart import WishartMixture as WishartMixture
    from sklearn_onlineem.estimators.per_sequence import PerSequence as PerSequence
    from sklearn_onlineem.estimators.regression import MixtureRegressor as MixtureRegressor
    from sklearn_onlineem.estimators.strings.classifier import (
        EditDistanceClassifier as EditDistanceClassifier,
    )
    from sklearn_onlineem.estimators.strings.edit_distance import EditDistance as EditDistance
    from sklearn_onlineem.estimators.topics.latent_dirichlet_allocation import (
        LatentDirichletAllocation as LatentDirichletAllocation,
    )
else:
    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "anomaly": ["AnomalyDetector"],
            "combination": ["MergeWarning", "combine_estimators"],
            "hidden_markov.any_family": ["HMM"],
            "hidden_markov.categorical": ["CategoricalHMM"],
            "hidden_markov.counts": ["MultinomialHMM", "PoissonHMM"],
            "hidden_markov.gaussian": ["GaussianHMM"],
            "hidden_markov.gaussian_mixture": ["GMMHMM"],
            "hidden_markov.regression": ["RegressionHMM"],
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
