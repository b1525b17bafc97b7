"""What holds for every estimator however it learns: drawn variables, averages, rates that count."""

import copy
import inspect
import math
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from cases.capabilities import cases_where
from cases.comparing import arrays, assert_close, assert_identical
from cases.merged_cases import EXACT, MERGED, REPRESENTATIVES, SINGLE
from cases.states import state_of
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import sklearn_onlineem
from sklearn_onlineem import (
    CompoundDirichlet,
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    RegressionMixture,
)
from sklearn_onlineem.em import Auto, Batch, Constant, Newton, Online, PowerDecay, Stochastic
from sklearn_onlineem.statistics import combine

N = 60  # rows, sequences or pairs
# More than there are clusters, so that posteriors leave something to draw.
N_COMPONENTS = 5

drawing = cases_where(lambda case: not case.is_diffuse, MERGED)
all_estimators = pytest.mark.parametrize("case", REPRESENTATIVES, ids=repr)
exact_estimators = pytest.mark.parametrize(
    "case", [case for case in REPRESENTATIVES if case in EXACT], ids=repr
)
averaging = pytest.mark.parametrize("solver", [Stochastic, Online], ids=lambda kind: kind.__name__)


def draw(case, rng, n=N):
    return case.data(rng, n)[0]


def made(case, **arguments):
    return case(N_COMPONENTS, **arguments)


def etas(estimator):
    return [step.eta for step in estimator.history_]


def test_every_estimator_with_a_solver_is_in_the_list():
    public = [getattr(sklearn_onlineem, name) for name in sklearn_onlineem.__all__]
    classes = [value for value in public if hasattr(value, "fit")]
    learning = {one for one in classes if "solver" in inspect.signature(one).parameters}
    # It learns from targets, too: tests/estimators/mixtures has the laws of its solvers.
    assert learning - {RegressionMixture} == {case.make for case in MERGED}


# --------------------------------------------------------------------------------- drawn variables


@drawing
def test_stochastic_em_makes_all_passes(case, rng):
    X = draw(case, rng)
    model = made(case, solver=Stochastic(average_from=2), max_iter=4, tol=1e6).fit(X)
    assert model.n_iter_ == model.n_steps_ == 4
    assert not model.converged_
    assert etas(model) == [math.inf] * 4
    assert np.isfinite(model.lower_bounds_).all()
    assert math.isfinite(model.score(X))


# Where components lie apart from the start on, draws are certain: one of these data sets will do.
N_TRIES = 5


@exact_estimators
def test_stochastic_em_is_not_em(case, rng):
    def found(X):
        exact, drawn = (
            made(case, solver=solver, max_iter=2).fit(X) for solver in ("batch", "stochastic")
        )
        # They have one start.
        assert_allclose(exact.lower_bounds_[0], drawn.lower_bounds_[0], rtol=1e-12)
        return differ(exact, drawn)

    assert any(found(draw(case, rng)) for _ in range(N_TRIES))


def differ(one, other):
    pairs = zip(arrays(one.model_), arrays(other.model_), strict=True)
    return not all(np.array_equal(a, b) for a, b in pairs)


@drawing
def test_same_seed_same_bits(case, rng):
    X = draw(case, rng)
    first, again, other = (
        made(case, solver="stochastic", max_iter=3, random_state=seed).fit(X) for seed in (1, 1, 2)
    )
    assert_identical(state_of(again), state_of(first))
    assert differ(first, other)


@all_estimators
def test_a_stream_of_draws_has_a_seed_too(case, rng):
    def found(X):
        start = made(case, solver="batch", max_iter=1).fit(X)
        first, again, other = (
            drawing_from(start, seed).partial_fit(X[:100]).partial_fit(X[100:])
            for seed in (1, 1, 2)
        )
        assert_identical(state_of(again), state_of(first))
        return differ(first, other)

    assert any(found(draw(case, rng, 300)) for _ in range(N_TRIES))


def drawing_from(start, seed):
    """The model goes on by a seed of its own, whichever its parameters are."""
    learner = copy.deepcopy(start).set_params(solver="stochastic")
    learner._fitted = learner._fitted._replace(state=learner._fitted.state._replace(seed=(seed,)))
    return learner


@all_estimators
def test_draws_after_a_batch_that_failed_are_those_without_it(case, rng, monkeypatch):
    X = draw(case, rng)
    stream = made(case, solver="stochastic").partial_fit(X[:30]).partial_fit(X[30:40])
    failing = copy.deepcopy(stream)
    with monkeypatch.context() as patched:
        patched.setattr(type(failing.model_), "m_step", no_maximum)
        with pytest.raises(ValueError, match="no maximum"):
            failing.partial_fit(X[:5])  # all has been drawn by then
    with pytest.raises((TypeError, ValueError)):
        failing.partial_fit([None, X[0]])
    for one in (stream, failing):
        one.partial_fit(X[40:50]).partial_fit(X[50:])
    assert_identical(state_of(failing), state_of(stream))


def no_maximum(model, statistics):
    raise ValueError("no maximum")


def test_a_classifier_by_a_drawn_distance(rng):
    pairs = [("recieve", "receive"), ("adress", "address"), ("teh", "the")] * 5
    words = list(zip(*pairs, strict=True))
    distance = EditDistance(solver="stochastic", max_iter=3, random_state=0)
    first, second = (EditDistanceClassifier(distance).fit(*words) for _ in range(2))
    assert_identical(state_of(first.edit_distance_), state_of(second.edit_distance_))
    assert first.predict(["addres"]) == ["address"]


# ------------------------------------------------------------------------------------- averaging


@exact_estimators
@averaging
def test_a_fit_returns_the_maximiser_of_the_averaged_statistics(case, solver, rng):
    X = draw(case, rng)
    # A pass is a step, so that fits which stop earlier show all iterates.
    arguments = {"batch_size": N, "tol": 0.0}
    iterates = [made(case, solver=solver(), max_iter=n, **arguments).fit(X) for n in (2, 3, 4)]
    own = [one.model_.own_statistics(one._fitted.state.lengths) for one in iterates]
    expected = iterates[0].model_.m_step(combine([(1.0 / 3.0, part) for part in own]))
    averaged = made(case, solver=solver(average_from=2), max_iter=4, **arguments).fit(X)
    assert_close(averaged.model_, expected, rtol=1e-8)
    assert averaged.lower_bounds_ == iterates[-1].lower_bounds_  # the way was the same
    last = made(case, solver=solver(average_from=4), max_iter=4, **arguments).fit(X)
    assert_close(last.model_, iterates[-1].model_, rtol=1e-8, atol=1e-8)


@all_estimators
@averaging
def test_averages_are_those_of_one_fit(case, solver, rng):
    X = draw(case, rng)
    arguments = {"solver": solver(average_from=2), "max_iter": 3, "tol": 0.0}
    fitted = made(case, **arguments, warm_start=True).fit(X)
    resumed = copy.deepcopy(fitted).fit(X)
    assert fitted._fitted.state.carry == {}
    assert_identical(state_of(pickle.loads(pickle.dumps(fitted)).fit(X)), state_of(resumed))


def test_infinite_rates_of_online_em_are_rates(rng):
    X = rng.standard_normal((60, 2))
    rates = {"schedule": Constant(math.inf), "max_iter": 3, "tol": 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GaussianMixture(2, solver="online", **rates).fit(X)
    with pytest.warns(UserWarning, match="no step that depends on schedule"):
        GaussianMixture(2, solver="batch", **rates).fit(X)


@averaging
@pytest.mark.parametrize("case", SINGLE, ids=repr)
def test_an_average_of_no_pass_warns(case, solver, rng):
    X = draw(case, rng)
    model = made(case, solver=solver(average_from=4), max_iter=3, tol=0.0)
    with pytest.warns(UserWarning, match="averaged none of them"):
        model.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(solver__average_from=3).fit(X)


@averaging
@pytest.mark.parametrize("wrong", [0, -1, math.nan])
def test_averages_begin_with_a_pass(solver, wrong):
    with pytest.raises(ValueError, match="average_from"):
        solver(average_from=wrong)


# ----------------------------------------------------------------------------- what strings mean


@all_estimators
def test_online_is_online_em_and_nothing_else(case, rng):
    X = draw(case, rng)
    for eta0 in ("auto", 0.5):
        model = made(case, solver="online", batch_size=25, max_iter=3, tol=0.0, eta0=eta0).fit(X)
        assert model.n_iter_ == 3
        assert model.n_steps_ == len(model.history_) == 9
        assert np.isfinite(etas(model)).all()
    assert made(case, solver="online", batch_size=25, tol=1e6).fit(X).n_iter_ == 2


@all_estimators
def test_passes_of_online_em_are_shuffled(case, rng):
    X = draw(case, rng)
    start = made(case, solver="batch", max_iter=1, warm_start=True).fit(X)
    arguments = {"solver": "online", "batch_size": 20, "max_iter": 1, "eta0": 0.5}
    first, again, other = (
        copy.deepcopy(start).set_params(**arguments, random_state=seed).fit(X) for seed in (1, 1, 2)
    )
    assert_identical(state_of(again), state_of(first))
    assert differ(first, other)


@all_estimators
def test_batch_is_batch_em(case, rng):
    X = draw(case, rng)
    model = made(case, solver="batch", batch_size=25, max_iter=3, tol=0.0).fit(X)
    assert etas(model) == [math.inf] * 3


@exact_estimators
def test_auto_is_online_where_a_rate_was_chosen(case, rng):
    X = draw(case, rng)
    arguments = {"batch_size": 25, "max_iter": 3, "eta0": 0.5}
    chosen, online = (
        made(case, solver=solver, **arguments).fit(X) for solver in ("auto", "online")
    )
    assert_identical(state_of(chosen), state_of(online))


@exact_estimators
def test_auto_ends_in_batch_em_where_no_rate_was_chosen(case, rng):
    X = draw(case, rng)
    model = made(case, batch_size=25, max_iter=4, tol=0.0).fit(X)
    assert np.isfinite(etas(model)).tolist() == [True] * 3 + [False] * 3
    twice = made(case, solver=Auto(online_passes=2), batch_size=25, max_iter=4, tol=0.0).fit(X)
    assert np.isfinite(etas(twice)).tolist() == [True] * 6 + [False] * 2
    assert etas(made(case, batch_size=N, max_iter=2, tol=0.0).fit(X)) == [math.inf] * 2


VALUES = {"auto": Auto(), "online": Online(), "batch": Batch(), "stochastic": Stochastic()}


@exact_estimators
@pytest.mark.parametrize("name", VALUES)
def test_a_string_stands_for_a_value(case, name, rng):
    X = draw(case, rng)
    by_name, by_value = (
        made(case, solver=solver, batch_size=25, max_iter=2, tol=0.0).fit(X)
        for solver in (name, VALUES[name])
    )
    assert_identical(state_of(by_name), state_of(by_value))


def test_newton_is_a_value_too(rng):
    X = rng.multinomial(20, rng.dirichlet([1.0, 2.0, 3.0], size=N)).astype(float)
    by_name, by_value = (CompoundDirichlet(solver=one).fit(X) for one in ("newton", Newton()))
    assert_identical(state_of(by_name), state_of(by_value))
    assert set(etas(by_name)) == {math.inf}


# ------------------------------------------------------------------------------------- parameters


@all_estimators
@averaging
def test_setting_a_field_leaves_the_value_of_the_user_as_it_was(case, solver):
    value = solver(average_from=7)
    model = made(case, solver=value)
    assert model.get_params()["solver__average_from"] == 7
    copied = clone(model)
    assert copied.solver == value
    copied.set_params(solver__average_from=9)
    assert copied.solver == solver(average_from=9)
    assert model.solver is value
    assert value == solver(average_from=7)
    both = clone(model).set_params(solver=Stochastic(), solver__average_from=3)
    assert both.solver == Stochastic(average_from=3)


@all_estimators
def test_a_string_has_no_fields(case):
    with pytest.raises(ValueError, match="average_from"):
        made(case, solver="online").set_params(solver__average_from=3)


SEARCHED = {"rows": GaussianMixture, "sequences": GaussianHMM}


def searched(kind, rng):
    """An estimator, and 150 irises or a list of sequences of them."""
    X = load_iris().data
    if kind == "rows":
        return GaussianMixture(3, random_state=0), X
    order = rng.permutation(150)
    return GaussianHMM(3, random_state=0), np.split(X[order], 30)


@averaging
@pytest.mark.parametrize("kind", SEARCHED)
def test_a_search_reaches_into_solvers(kind, solver, rng):
    estimator, X = searched(kind, rng)
    value = solver()
    grid = {"solver__average_from": [None, 2, 5]}
    estimator.set_params(solver=value, max_iter=6, tol=0.0, batch_size=15)
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise").fit(X)
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.best_estimator_.solver.average_from == search.best_params_["solver__average_from"]
    assert estimator.solver is value
    assert value == solver()


@pytest.mark.parametrize("kind", SEARCHED)
def test_a_search_over_rates_finds_different_scores(kind, rng):
    estimator, X = searched(kind, rng)
    grid = {"eta0": [0.1, 1.0], "beta": [0.6, 0.9]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(estimator, grid, cv=3, error_score="raise").fit(X)
    assert len(set(search.cv_results_["mean_test_score"])) == 4


# ------------------------------------------------------------------------------------- warnings

TOOK_NO_STEP = "took no step that depends on"
UNUSED = [
    ("beta", {"beta": 0.8}),
    ("beta", {"beta": 0.8, "solver": "batch"}),
    ("beta", {"beta": 0.8, "solver": "stochastic"}),
    ("beta", {"beta": 0.8, "eta0": 0.5, "schedule": "constant"}),
    ("schedule", {"schedule": "harmonic"}),
    ("schedule", {"schedule": PowerDecay()}),
    ("schedule", {"schedule": "forgetting", "solver": "batch"}),
    ("eta0", {"eta0": 0.5, "solver": "batch"}),
    ("eta0", {"eta0": 0.5, "schedule": PowerDecay()}),
]
USED = [
    {"beta": 0.8, "batch_size": 25},
    {"beta": 0.8, "eta0": 0.5},
    {"beta": 0.8, "solver": "online"},
    {"schedule": "harmonic", "eta0": 0.5},
    {"schedule": PowerDecay(), "solver": "online"},
    {"schedule": "constant", "eta0": 0.5, "batch_size": 25},
    {"schedule": "forgetting", "batch_size": 25},
    {"eta0": 0.5},
    {"solver": "stochastic"},
    {},
]


@all_estimators
def test_a_constant_rate_is_a_number(case, rng):
    X = draw(case, rng)
    if made(case).eta0 != "auto":
        case = partial(case, eta0="auto")
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="eta0 of .*must be a number with schedule='constant'"):
            getattr(made(case, schedule="constant"), learn)(X)


@exact_estimators
def test_a_rate_that_was_set_and_not_used_warns(case, rng):
    X = draw(case, rng)
    for name, arguments in UNUSED:
        with pytest.warns(UserWarning, match=rf"{TOOK_NO_STEP} {name}"):
            made(case, **{"batch_size": N, **arguments}, max_iter=2, tol=0.0).fit(X)


def test_a_search_warns_once(rng):
    search = GridSearchCV(GaussianMixture(2, max_iter=2, tol=0.0), {"beta": [0.6, 0.8]}, cv=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        search.fit(rng.normal(size=(30, 1)))
    assert sum(TOOK_NO_STEP in str(one.message) for one in caught) == 1


@all_estimators
def test_a_rate_that_was_used_does_not_warn(case, rng):
    X = draw(case, rng)
    for arguments in USED:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", f".*{TOOK_NO_STEP}")
            made(case, **{"batch_size": N, **arguments}, max_iter=2, tol=0.0).fit(X)
