"""NumPy's integers are as good as Python's, and answers have the precision of the data."""

import inspect
from numbers import Integral

import numpy as np
import pytest
from cases.comparing import arrays, assert_identical
from cases.merged_cases import MERGED, Pairs, once_for_each_parameter
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from sklearn_onlineem import HMM
from sklearn_onlineem.em import Auto, Online, Stochastic
from sklearn_onlineem.estimators._known import Settable

pytestmark = pytest.mark.filterwarnings("ignore")

# Small enough for int8, and so large that products of them are not.
VALUES = {
    "n_components": 2, "n_dim_state": 2, "n_features": 4, "n_symbols": 3, "n_categories": 4,
    "batch_size": 100, "max_iter": 2, "n_init": 2, "n_mix": 2, "n_sweeps": 100, "burn_in": 3,
    "average": 2, "n_jobs": 2, "verbose_interval": 2, "lags": 2, "max_duration": 30,
}  # fmt: skip
# Numbers that need not be whole, and may be.
REALS = {
    "weight_concentration_prior": 100, "startprob_prior": 100, "transmat_prior": 100,
    "durationprob_prior": 100,
    "means_weight": 100, "covars_weight": 100, "lambdas_prior": 100, "lambdas_weight": 100,
    "degrees_of_freedom": 100, "operation_prior": 100, "doc_topic_prior": 100,
    "topic_word_prior": 100, "total_samples": 100,
}  # fmt: skip


def is_integer(case, name):
    valid = case()._parameter_constraints.get(name, ())
    return any(isinstance(v, Interval) and v.type is Integral for v in valid)


CASES = [
    pytest.param(case, name, VALUES[name] if is_integer(case, name) else REALS[name])
    for case, name in once_for_each_parameter(MERGED)
    if name in REALS or is_integer(case, name)
]


def made(case, **arguments):
    """An estimator, whose size is a parameter like others."""
    return case().set_params(**arguments)


def fitted(case, X, **arguments):
    return made(case, **{"max_iter": 2, **arguments}).fit(X)


@pytest.mark.parametrize(("case", "name", "value"), CASES)
def test_a_numpy_integer_is_the_integer(case, name, value, rng):
    X = case.data(rng, 60)[0]
    expected = fitted(case, X, **{name: value})
    found = fitted(case, X, **{name: np.int8(value)})
    assert_identical(found.model_, expected.model_)
    assert found.n_samples_seen_ == expected.n_samples_seen_


@pytest.mark.parametrize(("case", "name", "value"), CASES)
def test_a_stream_takes_them_too(case, name, value, rng):
    X = case.data(rng, 60)[0]
    expected = made(case, **{name: value}).partial_fit(X)
    assert_identical(made(case, **{name: np.uint8(value)}).partial_fit(X).model_, expected.model_)


@pytest.mark.parametrize(("case", "name", "value"), CASES)
def test_parameters_are_kept_as_given(case, name, value):
    given = np.int8(value)
    estimator = made(case, **{name: given})
    assert estimator.get_params()[name] is given
    assert clone(estimator).get_params()[name] == given
    assert type(clone(estimator).get_params()[name]) is np.int8
    assert getattr(estimator.set_params(**{name: given}), name) == value


@pytest.mark.parametrize(
    ("solver", "name", "value"),
    [(Online, "average_from", 2), (Stochastic, "average_from", 2), (Auto, "online_passes", 1)],
)
def test_solvers_take_them(solver, name, value, rng):
    case = MERGED[0]
    X = case.data(rng)[0]
    expected, found = (
        fitted(case, X, solver=solver(**{name: kind(value)}), batch_size=10)
        for kind in (int, np.int8)
    )
    assert_identical(found.model_, expected.model_)


def test_many_components_of_many_rows(rng):
    X = rng.exponential(size=(300, 162))
    expected = HMM(2, family="exponential", random_state=0, max_iter=1).fit(X)
    found = HMM(np.int8(2), family="exponential", random_state=0, max_iter=1).fit(X)
    assert_identical(found.model_, expected.model_)


ANSWERS = ("predict_proba", "transform", "filter", "impute")


@pytest.mark.parametrize("case", [c for c in MERGED if not isinstance(c, Pairs)], ids=repr)
def test_float32_is_preserved(case, rng):
    X, _ = case.data(rng)
    single, double = (
        [part.astype(dtype) for part in X] if isinstance(X, list) else X.astype(dtype)
        for dtype in ("f4", "f8")
    )
    for dtype, rows in (("f4", single), ("f8", double)):
        one = case().fit(rows)
        found = [getattr(one, name)(rows) for name in ANSWERS if hasattr(one, name)]
        # Those of any family are as it takes them.
        names = {n for n in dir(one) if isinstance(inspect.getattr_static(one, n, 0), Settable)}
        found += [getattr(one, name, ()) for name in names - {"parameters_"}]
        kinds = {a.dtype for a in arrays([*found, one.sample(3)[0]]) if a.dtype.kind == "f"}
        assert kinds == {np.dtype(dtype)}
        assert {a.dtype.char for a in arrays(one.model_) if a.dtype.kind == "f"} == {"d"}
        assert one.score(single) == pytest.approx(one.score(double), rel=1e-5, abs=1e-4)
