"""scikit-learn's decorators of methods, whose types a reader of signatures would lose."""

from __future__ import annotations

from collections.abc import Callable

from sklearn.base import _fit_context
from sklearn.utils import metaestimators

from sklearn_onlineem._typing import Method
from sklearn_onlineem.estimators._calls import with_named_calls

__all__ = ["available_if", "fit_context"]


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Method], Method]:
    """Decorate a `fit` that validates parameters before it runs."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


def available_if(check: Callable[..., bool]) -> Callable[[Method], Method]:
    """Decorate a method that instances have if a check of them is true."""
    available = metaestimators.available_if(check)
    return lambda method: available(with_named_calls(method))
