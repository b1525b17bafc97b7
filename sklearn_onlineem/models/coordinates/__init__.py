"""Coordinates of models in which the information of complete data is the unit matrix."""

from sklearn_onlineem._lazy import ByClass
from sklearn_onlineem.families.tangents import TANGENTS

__all__ = ["COORDINATES", "coordinates_of", "has_coordinates"]

COORDINATES = ByClass(
    "sklearn_onlineem.models",
    __name__,
    {
        "mixture.MixtureModel": "components.MixtureCoordinates",
        "hidden_markov.HiddenMarkovModel": "components.ChainCoordinates",
        "linear_dynamical.LinearDynamicalModel": "systems.SystemCoordinates",
        "edit_transducer.EditTransducer": "systems.TransducerCoordinates",
    },
)


def has_coordinates(model):
    """Return whether complete data of models of this kind are an exponential family known here."""
    is_learnt = getattr(model, "fixed", None) is None
    return COORDINATES[type(model)] is not None and is_learnt and _has_tangents(model)


def coordinates_of(model, statistics):
    """Return the coordinates of a model, or raise ValueError if it has none."""
    kind = COORDINATES[type(model)]
    if kind is None:
        raise ValueError(
            "The model must be a mixture, a hidden Markov model, a Kalman filter or a transducer,"
            f" got a {type(model).__name__}."
        )
    if getattr(model, "fixed", None) is not None:
        raise ValueError("Standard errors and rates need all parameters learnt; params fixes some.")
    if not _has_tangents(model):
        known = ", ".join(sorted(home.rpartition(".")[2] for home in TANGENTS.homes))
        raise ValueError(f"The family must be one of {known}, got {type(model.family).__name__}.")
    return kind(model, statistics)


def _has_tangents(model):
    """Return whether the family of a model has tangents; all do that have no family."""
    return not hasattr(model, "family") or TANGENTS[type(model.family)] is not None
