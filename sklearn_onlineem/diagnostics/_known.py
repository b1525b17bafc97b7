"""The models whose information is known."""

from __future__ import annotations

from sklearn_onlineem.diagnostics._coordinates import (
    TANGENTS,
    ChainCoordinates,
    MixtureCoordinates,
)
from sklearn_onlineem.diagnostics._systems import SystemCoordinates
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.mixture import MixtureModel

__all__ = ["coordinates_of"]

COORDINATES = {
    MixtureModel: MixtureCoordinates,
    HiddenMarkovModel: ChainCoordinates,
    LinearDynamicalModel: SystemCoordinates,
}


def coordinates_of(model, statistics):
    """Return the coordinates about a model, of the complete data that it maximises.

    Raises
    ------
    ValueError
        If the model or its family has none.
    """
    kind, family = COORDINATES.get(type(model)), getattr(model, "family", None)
    if kind is None:
        raise ValueError(
            "Information is known of mixtures, hidden Markov models and Kalman filters, and not of"
            f" a {type(model).__name__}."
        )
    if kind is not SystemCoordinates and type(family) not in TANGENTS:
        known = ", ".join(sorted(kind.__name__ for kind in TANGENTS))
        raise ValueError(f"Information is known of {known}, and not of {type(family).__name__}.")
    return kind(model, statistics)
