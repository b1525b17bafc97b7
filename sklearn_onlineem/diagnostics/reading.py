"""Models, data and priors of fitted estimators."""

from sklearn_onlineem.estimators.base import OnlineEM
from sklearn_onlineem.estimators.validation import error_context
from sklearn_onlineem.models.coordinates import coordinates_of
from sklearn_onlineem.statistics import combine


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
    return seen._solver().prior_of(seen._fitted.state)


def coordinates_at(estimator, model, data):
    """Return the statistics of data and prior, and the coordinates about the model."""
    prior, terms = prior_of(estimator), [(1.0, model.e_step(data)[0])]
    if prior is not None:
        terms.append((1.0 / data.total_weight, prior))
    statistics = combine(terms)
    with error_context(estimator):
        return statistics, coordinates_of(model, statistics)
