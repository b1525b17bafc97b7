"""What is fitted belongs to the model, whatever parameters are set to afterwards."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import arrays, assert_identical
from cases.merged_cases import MERGED, TOPICS
from sklearn.exceptions import NotFittedError

all_estimators = pytest.mark.parametrize("case", [*MERGED, *GIBBS], ids=repr)


def fitted_values(estimator, X):
    """Fitted attributes, and what the methods of inference say of X."""
    names = [name for name in dir(estimator) if name.endswith("_") and not name.startswith("_")]
    values = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    for name in ("score_samples", "predict", "predict_proba", "transform", "bic"):
        if hasattr(estimator, name):
            values[name] = getattr(estimator, name)(X)
    return values


def another(value):
    return value + 1 if isinstance(value, int) else "something else"


@all_estimators
def test_structural_parameters_that_are_set_later_do_not_change_what_is_fitted(case, rng):
    X, _ = case.data(rng, 60)
    estimator = case(2, max_iter=2, tol=0.0).fit(X)
    before = fitted_values(estimator, X)
    assert {"model_", "n_iter_", "score_samples"} <= set(before)
    for name in estimator._structural_parameters:
        setattr(estimator, name, another(getattr(estimator, name)))
    after = fitted_values(estimator, X)
    assert set(after) == set(before)
    for name, value in before.items():
        if not arrays(value):
            assert after[name] == value
        else:
            assert_identical(after[name], value)


def writable(value):
    """Arrays in a value that have numbers that can be written to."""
    if isinstance(value, np.ndarray):
        return [value] if value.flags.writeable and value.size else []
    parts = [getattr(value, f.name) for f in fields(value)] if is_dataclass(value) else value
    is_made_of_parts = is_dataclass(value) or isinstance(value, tuple | list)
    return [array for part in parts for array in writable(part)] if is_made_of_parts else []


@all_estimators
def test_what_is_fitted_can_not_be_edited_in_its_place(case, rng):
    X, _ = case.data(rng, 60)
    estimator = case(2, max_iter=2, tol=0.0).fit(X)
    given = len(writable(list(estimator.get_params().values())))
    for name, value in fitted_values(estimator, X).items():
        is_fitted = name.endswith("_") and name not in ("history_", "lower_bounds_")
        assert not (is_fitted and writable(value)), name
    # Users may write to what they own, and the model learns and answers as before.
    assert len(writable(list(estimator.get_params().values()))) == given
    if not hasattr(estimator, "chains_"):
        fitted_values(estimator.partial_fit(X).fit(X), X)


@all_estimators
def test_what_a_callback_sets_of_the_shape_of_the_model_is_refused(case, rng):
    X, _ = case.data(rng, 60)
    estimator = case(2, max_iter=2, tol=0.0)
    if "n_components" not in estimator._structural_parameters or estimator.solver == "gibbs":
        return
    estimator.callbacks = [lambda step: estimator.set_params(n_components=3) and None]
    for learn in (estimator.fit, estimator.partial_fit):
        estimator.set_params(n_components=2)
        with pytest.raises(ValueError, match="n_components=2, but the parameter is now 3"):
            learn(X)
        assert not estimator.__sklearn_is_fitted__()


METHODS = (
    "predict", "predict_proba", "score_samples", "score", "transform", "bic", "aic", "decode",
    "filter", "smooth", "impute", "forecast", "score_rows",
)  # fmt: skip


@all_estimators
def test_estimators_that_are_not_fitted_say_so_whatever_is_asked_of_them(case, rng):
    estimator, X = case(2), case.data(rng, 60)[0]
    calls = {name: (X,) for name in METHODS} | {"sample": (), "live_filter": ()}
    for name, arguments in calls.items():
        # Topics have neither criterion, fitted or not, and some families cannot impute.
        owner = estimator if name == "impute" else type(estimator)
        if hasattr(owner, name) and not (case in TOPICS and name in ("bic", "aic")):
            with pytest.raises(NotFittedError, match=type(estimator).__name__):
                getattr(estimator, name)(*arguments)
    names = [name for name in dir(type(estimator)) if name.endswith("_") and name[0] != "_"]
    assert names
    for name in names:
        with pytest.raises(AttributeError, match=f"{type(estimator).__name__}.*not fitted"):
            getattr(estimator, name)
