"""What is fitted belongs to the model, whatever parameters are set to afterwards."""

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
