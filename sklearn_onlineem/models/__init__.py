"""Models: frozen values that turn data into statistics and statistics into models."""

from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel, HiddenMarkovStatistics
from sklearn_onlineem.models.horizons import EmitsOnce, Finite, Horizon, SilentEnd
from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.models.sequences import Lengths, Sequences

__all__ = [
    "EmitsOnce",
    "Finite",
    "HiddenMarkovModel",
    "HiddenMarkovStatistics",
    "Horizon",
    "Lengths",
    "MixtureModel",
    "MixtureStatistics",
    "Model",
    "Sequences",
    "SilentEnd",
]
