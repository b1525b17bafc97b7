"""Models: frozen values that turn data into statistics and statistics into models."""

from sklearn_onlineem.models._model import Model

__all__ = ["Model"]
