"""Copies of estimators that learn apart from them."""

import copy

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators.base import OnlineEM


def fork(estimator):
    """Return a deep copy of an estimator; those of this library share their frozen state."""
    forks = {}
    parts = () if isinstance(estimator, OnlineEM) else estimator.get_params(deep=True).values()
    for part in (estimator, *parts):
        if isinstance(part, OnlineEM):
            kept = {key: value for key, value in vars(part).items() if key not in part._transient}
            forks[id(part)] = object.__new__(type(part))
            forks[id(part)].__dict__ = kept
            rules = vars(part).get("_present_rules")
            if rules is not None:
                # The parameters are the same, and valid; only the reader is of one estimator.
                reader = forks[id(part)]._input()
                kept["_present_rules"] = rules._replace(reader=reader)
    return copy.deepcopy(estimator, forks)


def is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
