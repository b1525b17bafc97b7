"""What estimators refuse, by name, and that nothing of it is left behind."""

import pytest
from sklearn.exceptions import NotFittedError

from cases.comparing import assert_identical
from cases.states import state_of


def error_of(estimator, kinds=ValueError):
    return pytest.raises(kinds, match=type(estimator).__name__)


def assert_refused_by(methods, case, good, bad, *, kinds=ValueError, **arguments):
    """`bad` is an error of fits and of `methods`, and leaves estimators as they were."""
    fresh = case()
    for method in (fresh.fit, fresh.partial_fit):
        with error_of(fresh, kinds):
            method(bad, **arguments)
        with pytest.raises(NotFittedError):
            fresh.transform(good)
    fitted = case().partial_fit(good)
    before = state_of(fitted)
    for method in ("partial_fit", *methods):
        with error_of(fitted, kinds):
            getattr(fitted, method)(bad, **arguments)
    assert_identical(state_of(fitted), before)


def fits_unless_refused(case, X):
    """Estimators that learn X, for each method that does not refuse it by name."""
    for method in ("fit", "partial_fit"):
        estimator = case()
        try:
            getattr(estimator, method)(X)
        except ValueError as error:
            assert type(estimator).__name__ in str(error)
        else:
            yield estimator
