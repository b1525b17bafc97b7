"""Coordinates of models in which the information of complete data is the unit matrix."""

from sklearn_onlineem.families._tangents import TANGENTS
from sklearn_onlineem.models._coordinates.components import (
    ChainCoordinates,
    Coordinates,
    MixtureCoordinates,
)
from sklearn_onlineem.models._coordinates.systems import SystemCoordinates
from sklearn_onlineem.models._coordinates.transducers import TransducerCoordinates
from sklearn_onlineem.models.edit_transducer import EditTransducer
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
    EditTransducer: TransducerCoordinates,
}


def has_coordinates(model):
    """Return whether complete data of models of this kind are an exponential family known here."""
    is_learnt = getattr(model, "fixed", None) is None
    return type(model) in COORDINATES and is_learnt and _has_tangents(model)


def coordinates_of(model, statistics):
    """Return the coordinates of a model, or raise ValueError if it has none."""
    kind = COORDINATES.get(type(model))
    if kind is None:
        raise ValueError(
            "The model must be a mixture, a hidden Markov model, a Kalman filter or a transducer,"
            f" got a {type(model).__name__}."
        )
    if getattr(model, "fixed", None) is not None:
        raise ValueError("Standard errors and rates need all parameters learnt; params fixes some.")
    if not _has_tangents(model):
        known = ", ".join(sorted(kind.__name__ for kind in TANGENTS))
        raise ValueError(f"The family must be one of {known}, got {type(model.family).__name__}.")
    return kind(model, statistics)


def _has_tangents(model):
    """Return whether the family of a model has tangents; all do that have no family."""
    return not hasattr(model, "family") or type(model.family) in TANGENTS
