"""Coordinates of models in which the information of complete data is the unit matrix."""

from sklearn_onlineem.families._tangents import TANGENTS
from sklearn_onlineem.models._coordinates.components import (
    ChainCoordinates,
    Coordinates,
    MixtureCoordinates,
)
from sklearn_onlineem.models._coordinates.systems import SystemCoordinates
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.mixture import MixtureModel

__all__ = [
    "Coordinates",
    "MixtureCoordinates",
    "SystemCoordinates",
    "coordinates_of",
    "has_coordinates",
]

COORDINATES = {
    MixtureModel: MixtureCoordinates,
    HiddenMarkovModel: ChainCoordinates,
    LinearDynamicalModel: SystemCoordinates,
}


def has_coordinates(model):
    """Return whether complete data of models of this kind are an exponential family known here."""
    is_system = isinstance(model, LinearDynamicalModel)
    return type(model) in COORDINATES and (is_system or type(model.family) in TANGENTS)


def coordinates_of(model, statistics):
    """Return the coordinates of a model, or raise ValueError if it has none."""
    kind, family = COORDINATES.get(type(model)), getattr(model, "family", None)
    if kind is None:
        raise ValueError(
            "The model must be a mixture, a hidden Markov model or a Kalman filter, got a"
            f" {type(model).__name__}."
        )
    if kind is not SystemCoordinates and type(family) not in TANGENTS:
        known = ", ".join(sorted(kind.__name__ for kind in TANGENTS))
        raise ValueError(f"The family must be one of {known}, got {type(family).__name__}.")
    return kind(model, statistics)
