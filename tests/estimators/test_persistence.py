"""Estimators that are saved and loaded: in files without code, by pickle, joblib and skops."""

import copy
import io
import pickle
import re
import tempfile
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from cases.collapsed_cases import GIBBS
from cases.comparing import arrays, assert_identical
from cases.merged_cases import MERGED
from cases.saved_files import fitted_in_all_ways
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.states import essentials_of, state_of
from cases.streams import AT_ONCE
from cases.wrappers import all_wrappers
from dask.base import tokenize
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import make_constraint

from sklearn_onlineem import (
    EditDistanceClassifier,
    GaussianMixture,
    LaplaceMixture,
    Mixture,
    PerSequence,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem._values import checksum
from sklearn_onlineem._version import __version__
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Online
from sklearn_onlineem.em.state import State
from sklearn_onlineem.em.step import Sampled
from sklearn_onlineem.estimators.fitted import Fitted
from sklearn_onlineem.persistence import load, save, trusted_types

pytestmark = pytest.mark.filterwarnings("ignore:.*took no step:UserWarning")
all_estimators = pytest.mark.parametrize("case", [*MERGED, *GIBBS], ids=repr)


def constraints_of(case):
    """What the parameter `solver` may be."""
    return case.make._parameter_constraints["solver"]


def by_pickle(estimator):
    return pickle.loads(pickle.dumps(estimator))


def by_joblib(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(estimator):
    return skops.io.loads(skops.io.dumps(estimator), trusted=trusted_types())


def by_file(estimator):
    with tempfile.TemporaryDirectory() as folder:
        save(estimator, Path(folder, "saved"))
        return load(Path(folder, "saved"))


def by_network(value):
    """As workers get it: buffers cannot be written to, and lie at odd addresses."""
    buffers = []
    saved = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    off = [memoryview(b"0" + bytes(buffer.raw()))[1:] for buffer in buffers]
    return pickle.loads(saved, buffers=off)


WAYS = {
    "deepcopy": copy.deepcopy, "joblib": by_joblib, "skops": by_skops, "pickle": by_pickle,
    "file": by_file,
}  # fmt: skip
all_ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


@all_estimators
def test_a_stream_goes_on_bit_for_bit_wherever_it_is_loaded(case, rng):
    X, _ = case.data(rng, 60)
    unfitted, ways = case(max_iter=2, tol=0.0), iter(WAYS.values())
    loaded = next(ways)(unfitted)
    assert not loaded.__sklearn_is_fitted__()
    streams = [one.partial_fit(X[:20]) for one in (unfitted, loaded)]
    for begin in (20, 40):
        streams[1] = by_file(next(ways)(streams[1]))
        assert_identical(state_of(streams[1]), state_of(streams[0]))
        assert_identical([streams[1].score(X)], [streams[0].score(X)])
        for stream in streams:
            stream.partial_fit(X[begin : begin + 20])
    loaded = by_file(next(ways)(streams[0].fit(X)))
    assert_identical(state_of(loaded), state_of(streams[0]))
    assert loaded.lower_bounds_ == streams[0].lower_bounds_
    assert_identical(
        state_of(loaded.set_params(warm_start=True).fit(X)),
        state_of(streams[0].set_params(warm_start=True).fit(X)),
    )


# Solvers whose streams keep more than others, or draw.
SOLVERS = ("stochastic", "adaptive", "bayesian", Online(inertia=Sampled(50)))
SOLVED = [
    (case, solver)
    for case in MERGED
    for solver in SOLVERS
    if any(one.is_satisfied_by(solver) for one in map(make_constraint, constraints_of(case)))
    and (solver != "bayesian" or case.make is not LaplaceMixture)
    and (solver != "stochastic" or not case.is_diffuse)
]


@pytest.mark.parametrize(("case", "solver"), SOLVED, ids=repr)
def test_a_stream_of_any_solver_goes_on_bit_for_bit(case, solver, rng):
    X, _ = case.data(rng, 400)
    streams = [case(solver=solver) for _ in range(2)]
    for part in (slice(50), slice(50, 250), slice(250, 350), slice(350, 400)):
        streams = [stream.partial_fit(X[part]) for stream in streams]
        streams[1] = by_file(by_pickle(streams[1]))
    assert_identical(*(essentials_of(stream) for stream in streams))


@all_ways
@pytest.mark.parametrize("solver", [None, "stochastic", "adaptive"])
@pytest.mark.parametrize("case", [*SEQUENCE_ESTIMATORS[:1], *KALMAN_FILTERS], ids=repr)
def test_a_sequence_that_continues_goes_on(case, solver, way, rng):
    if case.is_diffuse and solver == "stochastic":
        solver = "online"
    rows = np.concatenate(case.data(rng, 12)[0])
    stream = case() if solver is None else case(solver=solver)
    loaded = way(stream.partial_fit(rows[:50], continues=True))
    for one in (stream, loaded):
        one.partial_fit(rows[50:100], continues=True).partial_fit(rows[100:], continues=True)
    assert_identical(loaded._fitted.state, stream._fitted.state)
    assert_identical(loaded._fitted.end, stream._fitted.end)


@all_estimators
def test_buffers_may_lie_at_odd_addresses(case, rng):
    X, _ = case.data(rng, 60)
    fitted = case(max_iter=2, tol=0.0).fit(X[:30])
    data, model = fitted._input().read(X), fitted.model_
    draws = [] if case.is_diffuse else [np.random.default_rng(0)]
    evidence, value = model.e_step(data, *copy.deepcopy(draws))
    again = by_network(model).e_step(by_network(data), *draws)
    assert_identical(again, (evidence, value))
    assert_identical(by_network(model).m_step(by_network(evidence)), model.m_step(evidence))
    for _ in range(2):
        loaded = by_network(fitted)
        assert_identical([loaded.score(X)], [fitted.score(X)])
        assert repr(loaded.sample(5)) == repr(fitted.sample(5))
        assert_identical(
            combine_estimators([loaded, by_network(fitted)]).model_,
            combine_estimators([fitted, copy.deepcopy(fitted)]).model_,
        )
        assert_identical(state_of(loaded.partial_fit(X)), state_of(fitted.partial_fit(X)))


@all_estimators
def test_dask_identifies_estimators_and_models_by_what_they_have_learnt(case, rng):
    X, _ = case.data(rng, 60)
    unfitted = case(max_iter=2, tol=0.0)
    tokens, fitted = {token(unfitted)}, copy.copy(unfitted)
    for begin in (0, 30):
        fitted.partial_fit(X[begin : begin + 30])
        own = token(fitted), token(fitted.model_), token(fitted.score)
        fitted.score(X)
        for same in (fitted, by_pickle(fitted), copy.deepcopy(fitted)):
            assert (token(same), token(same.model_), token(same.score)) == own
        tokens.update(own)
    assert len(tokens) == 7


def token(value):
    return tokenize(value, ensure_deterministic=True)


@all_wrappers
def test_wrappers_that_are_saved_go_on_and_dask_sees_what_they_have_learnt(wrapper, rng):
    X, (one, loaded) = rng.normal(size=(600, 2)), (clone(wrapper) for _ in range(2))
    tokens, of_words = {token(one)}, isinstance(wrapper, EditDistanceClassifier)
    for n, part in enumerate((X[:300], X[300:400], X[400:]), start=1):
        is_stream = hasattr(one, "partial_fit")
        for each in (one, loaded)[: 1 + is_stream]:
            learn = each.partial_fit if is_stream else each.fit
            learn(*2 * [["ab", "ba", "abc"][:n]] if of_words else (part, part[:, 0]))
        loaded = by_file(by_pickle(loaded if is_stream else one))
        assert token(one) == token(loaded) == token(copy.deepcopy(one))
        tokens.add(token(one))
    assert len(tokens) == 4


@all_ways
@pytest.mark.parametrize("key", [("a", "b"), range(2), (0, 1)], ids=str)
def test_keys_of_several_columns_are_saved(key, way, rng):
    X = pd.DataFrame(rng.poisson(3.0, (60, 3)) + rng.random((60, 1)), columns=list("abc"))
    X["c"] = X["c"].round()
    family = {key: "gaussian_full", "c" if key == ("a", "b") else 2: "poisson"}
    stream = Mixture(2, family=family, random_state=0).partial_fit(X)
    for one in (stream, Mixture(2, family=family)):
        assert way(one).family == family
    loaded = way(stream)
    assert_identical(loaded.partial_fit(X).model_, stream.partial_fit(X).model_)


def test_callbacks_are_not_pickled_with_the_model(rng):
    X = rng.standard_normal((50, 2))
    mixture = GaussianMixture(2, callbacks=[lambda step: False], random_state=0).fit(X)
    loaded = by_pickle(mixture.set_params(callbacks=None))
    assert_identical(loaded.partial_fit(X).model_, mixture.partial_fit(X).model_)


# ------------------------------------------------------------------------------- trusted types


def test_files_hold_all_estimators_whole_and_skops_trusts_all_types(rng):
    trusted, found = trusted_types(), set()
    others = {name for name in trusted if not name.startswith("sklearn_onlineem.")}
    sparse = {"scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"}
    assert others == {"builtins.range", "numpy.dtype", *sparse}
    for estimator in fitted_in_all_ways(rng):
        found.update(skops.io.get_untrusted_types(data=skops.io.dumps(estimator)))
        assert checksum(by_file(estimator).__getstate__()) == checksum(estimator.__getstate__())
    assert trusted == sorted(trusted)
    assert found <= set(trusted)


def test_classifiers_and_learners_of_shards_answer_as_before_and_refuse_corrupt_states(rng):
    words = ["ab", "ba", "abc", "cab"]
    X = rng.poisson(3.0, (60, 2)).astype(float)
    classifier = EditDistanceClassifier().fit(words, words)
    learner = DistributedEM(PoissonMixture(2, random_state=0), n_shards=2, n_jobs=1).fit(X)
    scaler = PerSequence(StandardScaler()).fit([X])
    for way in WAYS.values():
        assert_identical(way(classifier).kneighbors(words, 2), classifier.kneighbors(words, 2))
        assert_identical([way(learner).predict_proba(X)], [learner.predict_proba(X)])
        assert_identical([way(scaler).transform([X])[0]], [scaler.transform([X])[0]])
    for fitted in (classifier, learner, scaler):
        state = fitted.__getstate__()
        for name in state:
            with pytest.raises(ValueError, match=type(fitted).__name__):
                fitted.__setstate__({key: value for key, value in state.items() if key != name})


# ---------------------------------------------------------------------------- corrupt states


def with_fitted(saved, /, **changes):
    return {**saved, "_fitted": saved["_fitted"]._replace(**changes)}


def with_state(saved, /, **changes):
    return with_fitted(saved, state=saved["_fitted"].state._replace(**changes))


def corrupt(state):
    """States that are not the one that was saved, each with what is wrong with it."""
    for name in state:
        yield f"without {name}", {key: value for key, value in state.items() if key != name}
    for value in (None, "fitted", {}):
        yield f"fitted {value!r}", {**state, "_fitted": value}
        yield f"state {value!r}", with_fitted(state, state=value)
        yield f"history {value!r}", with_fitted(state, history=value)
        yield f"model {value!r}", with_state(state, model=value)
    yield "attributes", with_fitted(state, attributes={})
    for name, value in state["_fitted"].attributes.items():
        others = {key: v for key, v in state["_fitted"].attributes.items() if key != name}
        yield f"without {name}", with_fitted(state, attributes=others)
        yield name, with_fitted(state, attributes={**others, name: (value, value)})
    counters = state["_fitted"].state.counters
    for name, value in [("n_steps", "3"), ("n_seen", None), ("n_seen", 1e6)]:
        changed = counters._replace(**{name: value})
        yield f"{name} {value}", with_state(state, counters=changed)
    yield "seed", with_state(state, seed=(1, 2))
    yield "checksum", {**state, "_checksum": state["_checksum"] + 1}
    yield from with_other_numbers(state)


def with_other_numbers(state):
    """With each of the arrays of the model changed, and cut."""
    for i in range(len(arrays(state["_fitted"].state.model))):
        changed = copy.deepcopy(state)
        array = arrays(changed["_fitted"].state.model)[i]
        if array.size and array.dtype.kind == "f":
            array.flat[0] = np.nan
            yield f"array {i}", changed


@all_estimators
def test_a_corrupt_state_is_refused_by_name(case, rng):
    X, _ = case.data(rng, 40)
    fitted = case().partial_fit(X)
    name, before = type(fitted).__name__, state_of(fitted)
    state = fitted.__getstate__()
    for what, bad in corrupt(state):
        with pytest.raises(ValueError, match=name):
            fitted.__setstate__(bad)
            pytest.fail(what)
        with pytest.raises(ValueError, match=name):
            object.__new__(type(fitted)).__setstate__(bad)
    for bad in (None, 3, "state", [], (), [("_fitted", None)], {}):
        with pytest.raises(ValueError, match=name):
            fitted.__setstate__(bad)
    assert_identical(state_of(fitted), before)
    keys = list(state)
    again = object.__new__(type(fitted))
    again.__setstate__(state)
    assert list(state) == keys
    assert_identical(state_of(again), before)


def of_another_version(fitted):
    return {**fitted.__getstate__(), "_sklearn_onlineem_version": "0.0.9", "_checksum": 0}


OTHER_TYPES = [
    *((with_state, name) for name in State._fields),
    *((with_fitted, name) for name in Fitted._fields if name != "end"),
]


@pytest.mark.parametrize(
    ("changed", "name"), OTHER_TYPES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_what_another_version_saved_is_of_the_right_types(changed, name, rng):
    """Its checksum may be one of another layout, so that nothing else would tell."""
    X = rng.standard_normal((30, 2))
    fitted = GaussianMixture(2, random_state=0).fit(X)
    before, saved = state_of(fitted), of_another_version(fitted)
    message = rf"{name}( of GaussianMixture)? of (its state|the fitted state)"
    for value in ("3", b"", 1j, *([] if name in ("attributes", "carry") else [{}])):
        with pytest.warns(InconsistentVersionWarning), pytest.raises(ValueError, match=message):
            fitted.__setstate__(changed(saved, **{name: value}))
        assert_identical(state_of(fitted), before)


@all_estimators
def test_another_version_warns_and_loads(case, rng):
    X, _ = case.data(rng, 40)
    fitted = case().partial_fit(X)
    state = of_another_version(fitted)
    del state["verbose_interval"]  # a parameter that it did not have
    loaded = object.__new__(type(fitted))
    with pytest.warns(InconsistentVersionWarning, match=f"0.0.9.*{re.escape(__version__)}"):
        loaded.__setstate__(state)
    assert loaded.get_params().keys() == fitted.get_params().keys()
    assert_identical(state_of(loaded.partial_fit(X)), state_of(fitted.partial_fit(X)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by_pickle(loaded)
    for bad in (with_state(state, model=None), with_state(state, counters="many")):
        with (
            pytest.warns(InconsistentVersionWarning),
            pytest.raises(ValueError, match=type(fitted).__name__),
        ):
            loaded.__setstate__(bad)


def test_what_another_thread_learns_meanwhile_is_not_mixed_in(rng):
    """A pickle holds what was learnt of one moment, and its checksum that of the same."""
    X = rng.normal(size=(50, 2))

    class Learning(list):
        def __reduce__(self):
            mixture.partial_fit(X)
            return list, ()

    mixture = GaussianMixture(2, solver=AT_ONCE, random_state=0).partial_fit(X)
    mixture.set_params(weights_init=Learning())
    loaded = pickle.loads(pickle.dumps(mixture))
    assert (loaded.n_steps_, mixture.n_steps_) == (1, 2)
