"""Start values and priors that are no numbers, or too large: refused by name, or a finite fit."""

import re

import numpy as np
import pytest
from cases.comparing import arrays
from cases.estimator_cases import ESTIMATORS
from cases.family_cases import hyperparameters
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from sklearn.base import clone

from sklearn_onlineem import EditDistance, KalmanFilter, LatentDirichletAllocation
from sklearn_onlineem.models.kalman.linear_dynamical import FIELDS

# Nothing may overflow on the way to a result or an error.
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

# The first squares to what is finite, the second does not, and the next ones have no double.
VALUES = [1e149, 1e200, 1.7e308, -1.7e308, np.inf, np.nan]
SEQUENCES = [*SEQUENCE_ESTIMATORS, *KALMAN_FILTERS]
CASES = [*ESTIMATORS, *SEQUENCES]
all_cases = pytest.mark.parametrize("case", CASES, ids=repr)
all_values = pytest.mark.parametrize("value", VALUES)


EXAMPLES = {}


def example(case):
    """Data, what is hidden in them, and an estimator that is fitted to them; made once."""
    if repr(case) not in EXAMPLES:
        n = 12 if case in SEQUENCES else 60
        data, hidden = case.data(np.random.default_rng(20260), n)
        # Whether systems overflow in learning, or later, is a matter of a digit.
        start = {"init": "pca"} if case in KALMAN_FILTERS else {}
        EXAMPLES[repr(case)] = data, hidden, case(max_iter=2, **start).fit(data)
    return EXAMPLES[repr(case)]


def start_values(case):
    """Start values of the model that a fit finds, by the names of the parameters."""
    data, hidden, fitted = example(case)
    if isinstance(fitted, KalmanFilter):
        return {name: getattr(fitted, f"{name}_") for name in FIELDS}
    rows, components = (np.concatenate(x) if isinstance(x, list) else x for x in (data, hidden))
    found = {"init": np.array([rows[components == k].mean(axis=0) for k in range(3)])}
    for name in fitted.get_params():
        if name == "covars_init" and not hasattr(fitted, "n_mix"):
            found[name] = fitted.model_.parameters.covariance
        elif name == "durationprob_init" and fitted.durations is None:
            continue
        elif name.endswith("_init") and name != "n_init":
            found[name] = getattr(fitted, name.removesuffix("init"))
    return found


def spoilt(values, value):
    """The same with one such value, and nothing but such values."""
    one = values.astype(float)
    one.flat[0] = value
    return one, np.full(values.shape, value)


def assert_refused_or_finite(estimator, data, methods=("fit", "partial_fit")):
    for method in methods:
        fresh = clone(estimator)
        try:
            getattr(fresh, method)(data)
        except ValueError as error:
            assert type(fresh).__name__ in str(error)
            assert not hasattr(fresh, "model_")
            continue
        assert all(np.isfinite(array).all() for array in arrays(fresh.model_))
        try:
            assert np.isfinite(fresh.score(data))
        except ValueError as error:
            # Which of both is a matter of a digit.
            told = "KalmanFilter: (rows have no density|the moments of the state overflow)"
            assert re.match(told, str(error))


@all_cases
@all_values
def test_start_values(case, value):
    data = example(case)[0]
    for name, values in start_values(case).items():
        for bad, method in zip(spoilt(values, value), ("fit", "partial_fit"), strict=True):
            assert_refused_or_finite(case(max_iter=3, **{name: bad}), data, [method])


@pytest.mark.parametrize("case", KALMAN_FILTERS, ids=repr)
@pytest.mark.parametrize("em_vars", [[], None, "all"])
@all_values
def test_a_system_all_of_which_is_given(case, em_vars, value):
    data, given = example(case)[0], start_values(case)
    for name, values in given.items():
        for bad, method in zip(spoilt(values, value), ("fit", "partial_fit"), strict=True):
            kalman = case(max_iter=3, em_vars=em_vars, **{**given, name: bad})
            assert_refused_or_finite(kalman, data, [method])


@pytest.mark.parametrize("case", [*CASES, LatentDirichletAllocation], ids=str)
@all_values
def test_numbers_of_priors(case, value, rng):
    if case is LatentDirichletAllocation:
        data = rng.poisson(2.0, (30, 4))
    else:
        data = example(case)[0]
    for name, default in case().get_params().items():
        is_number = name.endswith(("prior", "weight", "covar")) and not isinstance(default, bool)
        if is_number and name != "prior":
            assert_refused_or_finite(case(max_iter=3, **{name: value}), data)


@all_values
@pytest.mark.parametrize("name", ["operation_prior", "operations_init"])
def test_edit_operations(name, value):
    distance = EditDistance(**{name: {"match": value}}, max_iter=3)
    assert_refused_or_finite(distance, [("ab", "a"), ("b", "ab"), ("ba", "b")])


@all_cases
@all_values
def test_hyper_parameters(case, value):
    data, _, fitted = example(case)
    model = fitted.model_
    is_system = isinstance(fitted, KalmanFilter)
    family = model.emissions.family if is_system else model.family
    for name in hyperparameters(family):
        proper = {"degrees_of_freedom": 10.0, "shape": 3.0, name: value}
        prior = {key: proper[key] for key in hyperparameters(family) if key in proper}
        for given in ({"observation": prior}, {"initial": prior}) if is_system else (prior,):
            assert_refused_or_finite(case(max_iter=3, prior=given), data)


@all_cases
@pytest.mark.parametrize("value", [1e200, 1.7e308, -1.7e308, np.inf])
def test_values_of_data(case, value, rng):
    data, _ = case.data(rng)
    data = [x.copy() for x in data] if isinstance(data, list) else data.copy()
    (data[-1] if isinstance(data, list) else data)[-1, 0] = value
    assert_refused_or_finite(case(max_iter=3), data)
