"""Models: frozen values that turn data into statistics and statistics into models."""

from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.capabilities import Chain
from sklearn_onlineem.models.edit_operations import FullOperations, Operations, TiedOperations
from sklearn_onlineem.models.edit_transducer import EditStatistics, EditTransducer
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel, HiddenMarkovStatistics
from sklearn_onlineem.models.latent_dirichlet import LatentDirichletModel, TopicStatistics
from sklearn_onlineem.models.linear_dynamical import (
    LinearDynamicalModel,
    LinearDynamicalStatistics,
)
from sklearn_onlineem.models.live_filters import MomentFilter, StateFilter
from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.models.mixture_chain import MixtureChain
from sklearn_onlineem.models.regression import Regression
from sklearn_onlineem.models.terminations import AbsorbingStates, EndState, GivenLength, Termination
from sklearn_onlineem.models.topic_chain import TopicChain
from sklearn_onlineem.models.topic_inference import (
    LocalGibbs,
    MaximumAPosteriori,
    TopicInference,
)

__all__ = [
    "EditStatistics",
    "EditTransducer",
    "AbsorbingStates",
    "Chain",
    "GivenLength",
    "FullOperations",
    "HiddenMarkovModel",
    "HiddenMarkovStatistics",
    "Termination",
    "LatentDirichletModel",
    "LinearDynamicalModel",
    "LocalGibbs",
    "MaximumAPosteriori",
    "LinearDynamicalStatistics",
    "MixtureChain",
    "MixtureModel",
    "MixtureStatistics",
    "Model",
    "MomentFilter",
    "Operations",
    "Regression",
    "EndState",
    "StateFilter",
    "TiedOperations",
    "TopicChain",
    "TopicInference",
    "TopicStatistics",
]
