"""Fits take what they leave at once: whoever reads meanwhile gets the answers of the old model."""

import contextlib
import copy
import gc
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS, document_clusters
from cases.interruptions import AtLine
from cases.merged_cases import WAYS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.states import state_of
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import (
    CompoundDirichlet,
    EditDistance,
    EditDistanceClassifier,
    LatentDirichletAllocation,
    PerSequence,
    PoissonMixture,
)
from sklearn_onlineem._values import frozen
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import state as em_state

pytestmark = pytest.mark.filterwarnings("ignore:.*distinct rows:UserWarning")
FEW_PASSES = {"max_iter": 2, "tol": 0.0}


@dataclass(frozen=True)
class Refit:
    """An estimator, data to fit it to, and data of another width or alphabet to fit it to again."""

    name: str
    make: Callable
    old: Callable
    new: Callable
    methods: tuple
    attributes: tuple = ()
    learns_streams: bool = True

    def __repr__(self):
        return self.name


def of_rows(case):
    def old(rng):
        return (case.data(rng, 60)[0],)

    def new(rng):
        (X,) = old(rng)
        return ((X[:, :1] if case.is_matrix else case.resized(X)).astype(np.float32),)

    methods = ("predict_proba", "score_samples", "score", "bic", "aic", "predict")
    attributes = ("means_", "weights_", "n_features_in_")
    return Refit(
        repr(case), lambda **more: case(**FEW_PASSES, **more), old, new, methods, attributes
    )


def of_sequences(case):
    def old(rng):
        return ([part for part in case.data(rng, 8)[0] if len(part) > 1],)

    def new(rng):
        return ([_widened(part).astype(np.float32) for part in old(rng)[0]],)

    methods = (*case.row_methods, "score_samples", "score", "bic", "aic")
    kalman = ("transition_matrices_", "observation_offsets_")
    attributes = kalman if case in KALMAN_FILTERS else ("startprob_", "transmat_")
    make = lambda **more: case(**FEW_PASSES, **more)  # noqa: E731
    return Refit(repr(case), make, old, new, methods, (*attributes, "n_features_in_"))


def _widened(rows):
    """Rows of twice the width, or of symbols that were not there."""
    return np.hstack([rows, rows])


def words(rng, letters):
    return ["".join(rng.choice(list(letters), rng.integers(1, 6))) for _ in range(30)]


def pairs(letters):
    return lambda rng: (list(zip(words(rng, letters), words(rng, letters), strict=True)),)


def dictionaries(letters):
    def columns(rng):
        found = words(rng, letters)
        return found, [word[::-1] for word in found]

    return columns


def of_pairs(parametrization):
    def make(**more):
        return EditDistance(parametrization, random_state=0, **FEW_PASSES, **more)

    methods = ("score_samples", "score", "transform")
    return Refit(
        f"EditDistance({parametrization})", make, pairs("ab"), pairs("abcdefgh"), methods,
        ("symbols_", "operations_"),
    )  # fmt: skip


def documents(width):
    return lambda rng: (np.hstack([document_clusters(rng, np.zeros(40, int))] * width),)


def of_topics(e_step):
    def make(**more):
        return LatentDirichletAllocation(
            2, e_step=e_step, n_sweeps=4, burn_in=2, random_state=0, **FEW_PASSES, **more
        )

    methods = ("transform", "score_samples", "score", "perplexity", "topic_coherence")
    attributes = ("components_", "exp_dirichlet_component_", "doc_topic_prior_", "n_features_in_")
    name = f"LatentDirichletAllocation({e_step})"
    return Refit(name, make, documents(1), documents(2), methods, attributes)


REFITS = [
    *(of_rows(case) for case in ESTIMATORS if repr(case) in {*WAYS, "WishartMixture"}),
    *(
        of_sequences(case)
        for case in SEQUENCE_ESTIMATORS
        if repr(case) in WAYS - {"CategoricalHMM"}
    ),
    of_sequences(KALMAN_FILTERS[0]),
    *map(of_pairs, ("tied", "full")),
    Refit(
        "CompoundDirichlet",
        lambda **more: CompoundDirichlet(**FEW_PASSES, **more),
        documents(1),
        documents(2),
        ("transform", "score_samples", "bic", "aic"),
        ("alpha_", "n_features_in_"),
    ),
    *map(of_topics, ("gibbs", "map")),
]
CLASSIFIER = Refit(
    "EditDistanceClassifier",
    lambda **more: EditDistanceClassifier(EditDistance(**FEW_PASSES, **more)),
    dictionaries("ab"),
    dictionaries("cdef"),
    ("predict",),
    ("classes_",),
    learns_streams=False,
)
DISTRIBUTED = Refit(
    "DistributedEM",
    lambda **more: DistributedEM(
        PoissonMixture(2, random_state=0, **FEW_PASSES, **more), n_shards=2, n_jobs=1
    ),
    lambda rng: (rng.poisson(3.0, (60, 2)).astype(float),),
    lambda rng: (rng.poisson(3.0, (60, 3)).astype(np.float32),),
    ("predict_proba", "score"),
    ("n_features_in_",),
    learns_streams=False,
)
all_learners = pytest.mark.parametrize("case", REFITS, ids=repr)
everything = pytest.mark.parametrize("case", [*REFITS, CLASSIFIER, DISTRIBUTED], ids=repr)


def said(estimator, name, X):
    """What a method says of data, or what an attribute is, with its type; or that it is refused."""
    try:
        value = getattr(estimator, name)
        value = value(X) if callable(value) else value
    except ValueError as error:
        whose = type(getattr(estimator, "estimator", estimator))
        assert whose.__name__ in str(error)
        return "refused"
    parts = value if isinstance(value, list) else [value]
    return [(str(getattr(part, "dtype", "")), repr(_plain(part))) for part in parts]


def _plain(part):
    return part.tolist() if isinstance(part, np.ndarray) else part


def attributes_of(estimator):
    return {name: value for name, value in vars(estimator).items() if name != "_mutex"}


def assert_the_same_objects(found, expected):
    assert found.keys() == expected.keys()
    assert all(found[name] is expected[name] for name in expected)


@everything
def test_a_refit_at_any_line_of_a_reader_does_not_change_its_answer(case, rng):
    old, new = case.old(rng), case.new(rng)
    fitted = case.make().fit(*old)
    refitted, saved = copy.deepcopy(fitted).fit(*new), pickle.dumps(fitted)
    # A fit without its work leaves the same each time.
    left = attributes_of(refitted)
    for name in (*case.methods, *case.attributes):
        possible = said(fitted, name, old[0]), said(refitted, name, old[0])
        assert possible[0] != "refused"
        with AtLine(0, None) as lines:
            said(fitted, name, old[0])
        chosen = {*range(1, 5), *rng.integers(1, lines.count + 1, 2).tolist()}
        for line in sorted(chosen & {*range(1, lines.count + 1)}):
            read = pickle.loads(saved)
            with AtLine(line, lambda read=read: vars(read).update(left)):
                found = said(read, name, old[0])
            assert found in possible, (name, line)


def test_models_become_read_only_while_something_is_computed_of_them(rng):
    for line in range(1, 9):
        model = PoissonMixture(2, max_iter=1).fit(rng.poisson(3.0, (9, 2)))._fitted.state.model
        with AtLine(line, lambda model=model: vars(model).update(computed=np.ones(2))):
            assert not frozen(model).weights.flags.writeable


@everything
def test_a_callback_that_reads_during_a_refit_gets_the_old_answers(case, rng):
    old, new = case.old(rng), case.new(rng)
    fitted, found = case.make().fit(*old), []
    expected = [said(fitted, name, old[0]) for name in (*case.methods, *case.attributes)]

    def read(step):
        found.append([said(fitted, name, old[0]) for name in (*case.methods, *case.attributes)])

    learner = fitted
    for name in ("estimator", "edit_distance"):
        learner = getattr(learner, name, learner)
    learner.set_params(callbacks=[read])
    fitted.fit(*new)
    assert found and all(answers == expected for answers in found)
    assert said(fitted, case.attributes[-1], old[0]) != expected[-1] or case.name == "EditDistance"


THREADED = [
    case for case in [*REFITS, CLASSIFIER]
    if case.name in (
        "GaussianMixture(full)", "PoissonMixture", "GaussianHMM(diag)", "KalmanFilter",
        "EditDistance(tied)", "EditDistanceClassifier",
    )
]  # fmt: skip


@pytest.fixture
def eager_threads():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.threads
@pytest.mark.parametrize("case", THREADED, ids=repr)
def test_threads_that_read_during_refits_see_one_model_or_the_other(case, rng, eager_threads):
    old, new = case.old(rng), case.new(rng)
    names = (*case.methods, *case.attributes)
    models = [case.make().fit(*data) for data in (old, new)]
    possible = {name: [said(model, name, old[0]) for model in models] for name in names}
    read, wrong, until = copy.deepcopy(models[0]), [], time.monotonic() + 0.5

    def work():
        while time.monotonic() < until and not wrong:
            try:
                wrong.extend(n for n in names if said(read, n, old[0]) not in possible[n])
            except BaseException as error:
                wrong.append(repr(error))

    readers = [threading.Thread(target=work) for _ in range(2)]
    for reader in readers:
        reader.start()
    while time.monotonic() < until and not wrong:
        for data in (new, old):
            read.fit(*data)
    for reader in readers:
        reader.join(30)
    assert wrong == []


# ------------------------------------------------------------------------------------ what fails


class Fault(Exception):
    pass


def fail(*arguments, **more):
    raise Fault


@all_learners
def test_a_fit_that_fails_leaves_all_as_it_was(case, rng):
    fitted = case.make().fit(*case.old(rng))
    before = attributes_of(fitted)
    for callbacks in ([fail], [lambda step: None, fail]):
        with pytest.raises(Fault):
            fitted.set_params(callbacks=callbacks).fit(*case.new(rng))
        assert_the_same_objects(attributes_of(fitted.set_params(callbacks=None)), before)


PER_SEQUENCE = Refit(
    "PerSequence",
    lambda: PerSequence(StandardScaler()),
    lambda rng: ([rng.normal(size=(5, 2))],),
    lambda rng: ([rng.normal(size=(5, 3))],),
    ("transform",),
)


@pytest.mark.parametrize("case", [*REFITS, DISTRIBUTED, PER_SEQUENCE], ids=repr)
def test_a_fit_is_undone_where_what_is_asked_of_it_fails(case, rng, monkeypatch):
    for estimator in (case.make(), case.make().fit(*case.old(rng))):
        before = attributes_of(estimator)
        for name in ("transform", "predict"):
            if hasattr(estimator, f"fit_{name}"):
                monkeypatch.setattr(type(estimator), name, fail)
                with pytest.raises(Fault):
                    getattr(estimator, f"fit_{name}")(*case.new(rng))
                assert_the_same_objects(attributes_of(estimator), before)
        monkeypatch.undo()


@all_learners
def test_a_callback_that_raises_undoes_the_update_of_a_stream(case, rng):
    (X,) = case.old(rng)
    stream = case.make().partial_fit(X).partial_fit(X)
    twin = pickle.loads(pickle.dumps(stream))
    for callbacks in ([fail], [lambda step: True, fail]):
        with pytest.raises(Fault):
            stream.set_params(callbacks=callbacks).partial_fit(X)
        stream.set_params(callbacks=None)
        assert_identical(state_of(stream), state_of(twin))
    assert_identical(state_of(stream.partial_fit(X)), state_of(twin.partial_fit(X)))
    with pytest.raises(Fault):
        unfitted = case.make(callbacks=[fail])
        unfitted.partial_fit(X)
    assert not unfitted.__sklearn_is_fitted__()


@pytest.mark.parametrize("looks", [False, True], ids=["", "that read the history"])
def test_callbacks_that_raise_leave_a_full_history_as_it_was(looks, rng, monkeypatch):
    monkeypatch.setattr(em_state, "_HISTORY_STEPS", 3)
    X = rng.poisson(3.0, size=(50, 2))
    stream = PoissonMixture(2, random_state=0)
    for _ in range(5):
        stream.partial_fit(X)
    before = stream.history_
    assert [step.n_rows for step in before] == [150, 200, 250]

    def fail_after_a_look(step):
        assert not looks or stream.history_ == before
        raise Fault

    with pytest.raises(Fault):
        stream.set_params(callbacks=[fail_after_a_look]).partial_fit(X)
    assert stream.history_ == before
    stream.set_params(callbacks=None).partial_fit(X)
    assert [step.n_rows for step in stream.history_] == [200, 250, 300]


@pytest.mark.parametrize("case", REFITS[:2], ids=repr)
@pytest.mark.parametrize("callbacks", [[None], [print, 3], "abc", {"a": print}, print], ids=repr)
def test_callbacks_are_checked_before_anything_is_learnt(case, callbacks, rng):
    (X,) = case.old(rng)
    fitted = case.make().partial_fit(X)
    before = state_of(fitted)
    fitted.set_params(callbacks=callbacks)
    for learn in (fitted.fit, fitted.partial_fit):
        with pytest.raises((TypeError, ValueError), match=r"callbacks.* of \w+"):
            learn(X)
        assert_identical(state_of(fitted), before)
    grows = [lambda step: None]
    fitted.set_params(callbacks=grows).partial_fit(X)
    before = state_of(fitted)
    grows.append(None)
    with pytest.raises(ValueError, match=r"callbacks.* of \w+"):
        fitted.partial_fit(X)
    assert_identical(state_of(fitted), before)


# ----------------------------------------------------------------------------- what is not kept


def referable(data):
    """Data of the same values in arrays and lists that can be watched."""
    (X,) = data
    return WatchedList(X) if isinstance(X, list) else np.ascontiguousarray(X).copy()


class WatchedList(list):
    pass


@all_learners
def test_nothing_keeps_what_the_user_passed(case, rng):
    data = case.old(rng)
    fitted, watched = case.make().partial_fit(*data).partial_fit(*data), []
    for how in ("bad", "score", "partial_fit", "fit"):
        X = referable(data)
        # One array, so that sequences are not joined in another.
        if isinstance(X, list) and isinstance(X[0], np.ndarray):
            X = X[0].copy()
        watched.append(weakref.ref(X))
        if how == "bad":
            X[0] = np.nan if isinstance(X, np.ndarray) else 3.0
            with contextlib.suppress(ValueError):
                fitted.partial_fit(X)
        else:
            getattr(fitted, how)(X)
        del X
        gc.collect()
        assert watched[-1]() is None, how


@pytest.mark.parametrize("case", [*SEQUENCE_ESTIMATORS[:1], *KALMAN_FILTERS[:1]], ids=repr)
def test_a_stream_that_continues_keeps_no_piece(case, rng):
    rows = np.concatenate(case.data(rng, 8)[0])
    stream = case().partial_fit(rows[:40], continues=True)
    piece = rows[40:].copy()
    watched = weakref.ref(piece)
    stream.partial_fit(piece, continues=True)
    del piece
    gc.collect()
    assert watched() is None


CONTINUING = [case for case in REFITS if case.name in ("KalmanFilter", "GaussianHMM(diag)")]


@pytest.mark.parametrize("case", CONTINUING, ids=repr)
@pytest.mark.parametrize("n_steps", [10_000, 2])
def test_a_piece_whose_end_cannot_be_filtered_is_not_learnt(case, n_steps, rng, monkeypatch):
    monkeypatch.setattr(em_state, "_HISTORY_STEPS", n_steps)
    (X,), stream = case.old(rng), case.make()
    for _ in range(4):
        stream.partial_fit(X, continues=True)
    before = state_of(stream)
    monkeypatch.setattr(type(stream.model_), "filtered_end", fail)
    with pytest.raises(Fault):
        stream.partial_fit(X, continues=True)
    assert_identical(state_of(stream), before)
