"""Models: frozen values that turn data into statistics and statistics into models."""

from sklearn_onlineem.models._model import Model
from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics

__all__ = ["MixtureModel", "MixtureStatistics", "Model"]
