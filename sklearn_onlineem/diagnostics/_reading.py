"""Models, data and priors of fitted estimators."""

from __future__ import annotations

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._validation import error_context

__all__ = ["model_and_data", "prior_of", "prior_share"]


def model_and_data(estimator, X, **where):
    """Return the model of a fitted estimator, and data in the form that it takes."""
    if not isinstance(estimator, OnlineEM):
        raise TypeError(
            "estimator must be one of sklearn_onlineem that has a model_, got"
            f" {type(estimator).__name__}."
        )
    seen = estimator._seen()
    with error_context(seen):
        return seen.model_, seen._input().read(X, **where)


def prior_of(estimator):
    """Return the pseudo-statistics of the prior for the estimate, or None."""
    seen = estimator._seen()
    return seen._solver().prior_of(seen.model_, seen._fitted.state.prior)


def prior_share(estimator, data):
    """Return the prior as terms of the sum of an M-step, one or none."""
    prior = prior_of(estimator)
    return () if prior is None else ((1.0 / data.total_weight, prior),)
