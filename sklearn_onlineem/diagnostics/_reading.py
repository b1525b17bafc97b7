"""Data as a fitted estimator reads them, and what it makes of them."""

from __future__ import annotations

from sklearn_onlineem.diagnostics._coordinates import (
    TANGENTS,
    ChainCoordinates,
    MixtureCoordinates,
)
from sklearn_onlineem.diagnostics._systems import SystemCoordinates
from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._validation import naming
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel
from sklearn_onlineem.models.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.mixture import MixtureModel

__all__ = ["coordinates_of", "model_and_data", "prior_of", "prior_share"]


def model_and_data(estimator, X, **where):
    """Return the model of a fitted estimator, and data in the form that this model takes.

    Parameters
    ----------
    estimator : estimator
        Of this library, fitted.
    X : object
        As `fit` takes it.
    **where
        What else `fit` takes with X: `y`, `sample_weight`, `lengths` or `groups`.

    Returns
    -------
    model : Model
    data : Batch

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If it is no estimator of this library that has a model, or takes no such data.
    ValueError
        If the data are invalid; the message names the estimator.
    """
    if not isinstance(estimator, OnlineEM):
        raise TypeError(
            "estimator must be one of sklearn_onlineem that has a model_, got"
            f" {type(estimator).__name__}."
        )
    seen = estimator._seen()
    with naming(seen):
        return seen.model_, seen._input().read(X, **where)


def prior_of(estimator):
    """Return the pseudo-statistics that lead a fitted estimator to its estimate, or None."""
    seen = estimator._seen()
    return seen._solver().prior_of(seen.model_, seen._fitted.state.prior)


def prior_share(estimator, data):
    """Return the prior's statistics as a term of the sum of an M-step, or no term.

    Parameters
    ----------
    estimator : estimator
        Of this library, fitted.
    data : Batch

    Returns
    -------
    terms : tuple of (float, Statistics)
        Of one pair, or of none where there is no prior.
    """
    prior = prior_of(estimator)
    return () if prior is None else ((1.0 / data.total_weight, prior),)


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
