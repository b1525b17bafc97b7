"""Data as a fitted estimator reads them, and what it makes of them."""

from __future__ import annotations

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._validation import naming

__all__ = ["model_and_data", "prior_of", "prior_share"]


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
