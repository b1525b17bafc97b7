"""What estimators refuse, by name, and that nothing of it is left behind."""

import builtins
import inspect
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import sklearn_onlineem
from cases.comparing import assert_identical
from cases.states import state_of
from sklearn_onlineem import diagnostics, distributed, em, families, structure

# Where public names are; of two with one name, such as CompoundDirichlet, the estimator counts.
ROOMS = [diagnostics, distributed, em, families, structure, sklearn_onlineem]


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


def rows_of(table):
    """Rows `call -> words` of a table, of which indented lines continue the row before.

    Words are patterns that the message has to have, parted by &, after the name of the error if it
    is no ValueError. A call `of(each) for each in values` is one for each of the values.
    """
    lines = re.sub(r"\n {4,}", " ", inspect.cleandoc(table)).splitlines()
    return [line.split(" ->", 1) for line in lines if line and not line.startswith("#")]


def assert_refused_call(call, words, names):
    """A call is refused in these words; it knows all public names, np, pd, sparse, and others."""
    kind, colon, rest = words.strip().partition("Error:")
    if colon and kind.isidentifier():
        kind, words = getattr(builtins, f"{kind}Error", NotFittedError), rest.strip()
    else:
        kind = ValueError
    public = {name: getattr(room, name) for room in ROOMS for name in room.__all__}
    known = {**public, "np": np, "pd": pd, "sparse": sparse, **names}
    call, _, values = call.partition(" for each in ")
    for each in eval(values, known) if values else [None]:
        with pytest.raises(kind) as raised:
            exec(call, {**known, "each": each})
            pytest.fail(f"{call} is not refused, where each is {each!r}")
        for word in words.strip().split(" & "):
            assert raised.match(f"(?s){word}")
        assert len(str(raised.value)) < 1000, "a message, not a print of the data"
