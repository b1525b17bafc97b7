"""Copies of estimators that learn apart from them."""

from __future__ import annotations

import copy

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM

__all__ = ["fork", "is_fitted"]


def fork(estimator):
    """Return a deep copy of an estimator; those of this library share their frozen state."""
    forks = {}
    parts = () if isinstance(estimator, OnlineEM) else estimator.get_params(deep=True).values()
    for part in (estimator, *parts):
        if isinstance(part, OnlineEM):
            copied = object.__new__(type(part))
            kept = {
                name: value for name, value in vars(part).items() if name not in part._transient
            }
            copied.__dict__ = kept
            forks[id(part)] = copied
    return copy.deepcopy(estimator, forks)


def is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
