"""What callbacks get, and what they can do."""

import pickle
import signal
from functools import partial
from unittest.mock import Mock

import numpy as np
import pytest
from cases.comparing import assert_close, assert_identical
from cases.merged_cases import REPRESENTATIVES
from cases.states import state_of

from sklearn_onlineem import (
    EditDistance,
    EditDistanceClassifier,
    GaussianHMM,
    GaussianMixture,
    PoissonMixture,
)
from sklearn_onlineem.diagnostics import EarlyStopping
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.estimators.mixtures._base import MixtureInitialiser

pytestmark = pytest.mark.filterwarnings("ignore:.*took no step:UserWarning")
all_estimators = pytest.mark.parametrize("case", REPRESENTATIVES, ids=repr)


@all_estimators
def test_a_callback_that_asks_for_it_gets_the_estimator_of_each_update(case, rng):
    X, _ = case.data(rng, 40)
    seen = []

    def note(step, estimator):
        assert estimator.history_[-1] is step
        seen.append((estimator, estimator.model_, estimator.score(X)))

    fitted = case(solver="batch", tol=0.0, max_iter=3, callbacks=[note]).fit(X)
    assert len(seen) == 3 and seen[-1][0] is not fitted
    assert_close(seen[-1][1], fitted.model_)
    # A copy stays as it was.
    for (copied, model, score), n_iter in zip(seen, (1, 2, 3), strict=True):
        assert copied.model_ is model and copied.score(X) == score
        assert len(copied.history_) == n_iter
    seen.clear()
    stream, n_updates = case(callbacks=[note]), []
    for part in (X[:20], X[20:30], X[30:]):
        stream.partial_fit(part)
        assert_close(seen[-1][1], stream.model_)
        n_updates.append(len(seen))
    assert n_updates[-1] == stream.n_steps_
    # It may go on by itself, and calls nobody.
    first, second, _ = n_updates
    seen[first - 1][0].partial_fit(X[20:30])
    assert len(seen) == stream.n_steps_
    assert_close(seen[first - 1][0].model_, seen[second - 1][1])
    assert len(pickle.loads(pickle.dumps(seen[second - 1][0])).history_) == second


def test_fits_within_a_fit_draw_from_generators_of_their_own(rng):
    X, means = rng.poisson(3.0, size=(200, 1)), []

    def fitted(seed, within=None):
        steps = []

        def note(step):
            steps.append(step.log_likelihood)
            if within is not None:
                means.append(fitted(within)[0])

        settings = {"max_iter": 2, "init": "random", "n_init": 3, "callbacks": [note]}
        return PoissonMixture(3, random_state=seed, **settings).fit(X).means_, steps

    fitted(0)  # The next fit finds its generator, which none within it may use.
    assert_identical(fitted(0, within=1), fitted(np.random.RandomState(0)))
    alone = fitted(np.random.RandomState(1))[0]
    assert len(means) == 6 and all(np.array_equal(found, alone) for found in means)


@all_estimators
def test_shards_have_callbacks_that_ask_for_the_estimator(case, rng):
    X, _ = case.data(rng, 40)
    models = []
    estimator = case(
        tol=0.0, max_iter=2, callbacks=[lambda step, copied: models.append(copied.model_)]
    )
    fitted = DistributedEM(estimator, n_shards=2, n_jobs=1).fit(X).estimator_
    assert len(models) == 2
    assert_close(models[-1], fitted.model_)


def test_a_second_argument_that_has_a_value_is_the_callbacks_own():
    seen = []

    def note(step, name="mine"):
        seen.append(name)

    class Watch:
        def __call__(self, step, *, extra=None):
            seen.append(extra)

    class Unhashable(list):
        def __call__(self, step):
            seen.append("unhashable")

    callbacks = [note, Watch(), partial(lambda a, step: seen.append(a), 1), seen.append]
    callbacks.append(Unhashable())
    PoissonMixture(1, callbacks=callbacks).partial_fit([[1], [2]])
    assert seen[:3] == ["mine", None, 1] and seen[3].n_rows == 2 and seen[4] == "unhashable"


def test_a_callback_that_stops_by_the_estimator_stops_there(rng):
    X = rng.poisson(rng.choice([2.0, 20.0], size=(200, 1)))
    enough = [lambda step, estimator: estimator.n_steps_ == 4]
    mixture = PoissonMixture(2, solver="batch", tol=0.0, callbacks=enough, random_state=0)
    assert mixture.fit(X).n_iter_ == 4


# ---------------------------------------------------------------------------------- what is wrong


async def awaited(step):
    """Nobody awaits it."""


async def awaited_with_estimator(step, estimator):
    """Nobody awaits it, either."""


async def stream_of_events(step):
    yield step


def events(step):
    yield step


@all_estimators
@pytest.mark.filterwarnings("error:coroutine.*never awaited")
def test_callbacks_that_would_never_run_are_refused(case, rng):
    X, _ = case.data(rng, 40)
    stream = case().partial_fit(X[:20])
    before, name = state_of(stream), type(stream).__name__
    for callback in (awaited, awaited_with_estimator, stream_of_events, events, partial(awaited)):
        message = f"^callbacks of {name} must be plain functions.*(coroutine|generator)"
        fresh = case(callbacks=[callback], max_iter=2)
        stream.set_params(callbacks=[callback])
        for learn in (fresh.fit, fresh.partial_fit, stream.fit, stream.partial_fit):
            with pytest.raises(TypeError, match=message):
                learn(X[20:])
        assert not fresh.__sklearn_is_fitted__()
    assert_identical(state_of(stream), before)


def test_shards_refuse_callbacks_that_would_never_run():
    learner = DistributedEM(PoissonMixture(callbacks=[awaited]), n_shards=2)
    with pytest.raises(TypeError, match="^callbacks of PoissonMixture must be plain functions"):
        learner.fit([[1], [2], [3]])


@all_estimators
@pytest.mark.parametrize("again", ["fit", "partial_fit"])
def test_callbacks_that_teach_their_estimator_are_refused(case, again, rng):
    X, _ = case.data(rng, 40)
    stream, callbacks = case(max_iter=2), []
    name, fresh = type(stream).__name__, case(max_iter=2, callbacks=callbacks)
    stream.partial_fit(X[:20]).set_params(callbacks=callbacks)
    before = state_of(stream)
    for estimator in (stream, fresh):
        callbacks[:] = [lambda step, estimator=estimator: getattr(estimator, again)(X[20:])]
        for learn in (estimator.fit, estimator.partial_fit):
            with pytest.raises(RuntimeError, match=f"^{name} is learning: a callback must not"):
                learn(X[20:])
    assert not fresh.__sklearn_is_fitted__()
    assert_identical(state_of(stream), before)
    # It learns as if nothing had been, and a copy may learn meanwhile.
    callbacks[:] = [lambda step, copied: getattr(copied, again)(X[20:]) and None]
    plain = case(max_iter=2).partial_fit(X[:20]).partial_fit(X[20:])
    assert_identical(state_of(stream.partial_fit(X[20:])), state_of(plain))


def test_pieces_of_a_sequence_refuse_callbacks_that_teach_their_estimator(rng):
    X = rng.standard_normal((40, 1))
    chain = GaussianHMM(2, random_state=0).partial_fit(X[:20], continues=True)
    before = state_of(chain)
    chain.set_params(callbacks=[lambda step: chain.partial_fit(X[20:], continues=True)])
    with pytest.raises(RuntimeError, match="^GaussianHMM is learning"):
        chain.partial_fit(X[20:], continues=True)
    assert_identical(state_of(chain), before)


class Own(ValueError):
    def __init__(self, code, *, reason):
        super().__init__(code)
        self.reason = reason


RAISED = [
    Own(3, reason="it is mine"),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
    OverflowError("too much"),
    ValueError("callbacks"),
    StopIteration("enough"),
]


@pytest.mark.parametrize("error", RAISED, ids=repr)
def test_what_users_code_raises_comes_out_as_it_was_raised(error, rng, monkeypatch):
    """From callbacks, signal handlers, iterators and arrays, whatever the default fit tries."""

    class Raising:
        def __call__(self, *args):
            raise error

        __iter__ = __array__ = __call__

        def __len__(self):
            return 2

    X, stream = rng.poisson(5.0, size=(60, 1)), PoissonMixture(5, random_state=0)
    asked = [
        partial(PoissonMixture(5, callbacks=[Raising()], random_state=0).fit, X),
        partial(PoissonMixture(5, callbacks=[Raising()], random_state=0).partial_fit, X),
        partial(stream.partial_fit, Raising()),
        partial(EditDistance().fit, Raising()),
        partial(EditDistanceClassifier(dictionary=Raising()).fit, ["a"], ["a"]),
        partial(stream.fit, X),
    ]
    if isinstance(error, StopIteration):  # which ends what is iterated
        del asked[2:5]
    before = signal.signal(signal.SIGINT, Raising())
    # The second start is the default's own, and may fail for reasons of the library alone.
    interrupted = Mock(side_effect=lambda *args: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(MixtureInitialiser, "another", interrupted)
    try:
        for ask in asked:
            with pytest.raises(type(error)) as found:
                ask()
            assert found.value is error
            if not isinstance(error, StopIteration):  # which says nothing of what is invalid
                assert "It was raised within" in error.__notes__[0]
                error.__notes__.clear()
    finally:
        signal.signal(signal.SIGINT, before)
    assert not stream.__sklearn_is_fitted__()


@pytest.mark.parametrize("n_calls", [1, 100, 130])
def test_a_callback_ends_a_fit_from_either_of_its_starts(n_calls, rng):
    """In the first or the second, of which the other one may be the better."""
    for seed in range(4):
        X, steps = rng.normal(rng.choice([0.0, 3.0], size=(208, 5))), []
        callback = lambda step, steps=steps: steps.append(step) or len(steps) >= n_calls  # noqa: E731
        GaussianMixture(6, tol=1e-12, callbacks=[callback], random_state=seed).fit(X)
        assert len(steps) == n_calls


# ------------------------------------------------------------------------------- early stopping


def test_fits_end_when_held_out_scores_no_longer_rise(rng):
    X, held_out = rng.poisson(rng.choice([2.0, 6.0, 20.0], size=(2, 60, 1)))
    stopping = EarlyStopping(held_out, patience=3)
    mixture = PoissonMixture(8, solver="batch", tol=0.0, max_iter=500, random_state=0)
    mixture.set_params(callbacks=[stopping]).fit(X)
    rows, scores = map(np.array, zip(*stopping.scores, strict=True))
    assert mixture.n_iter_ == len(scores) < 500
    assert scores.argmax() == len(scores) - 1 - (3 + 1)
    assert stopping.best_estimator.score(held_out) == scores.max()
    assert (rows == 60 * np.arange(1, len(rows) + 1)).all()
    # Another fit begins anew, with the same result.
    mixture.fit(X)
    assert [score for _, score in stopping.scores] == scores.tolist()


def test_scores_may_be_few_and_gains_small(rng):
    X = rng.poisson(rng.choice([2.0, 20.0], size=(60, 1)))
    stopping = EarlyStopping(X, patience=1, min_gain=1e9, every=3)
    mixture = PoissonMixture(2, solver="batch", tol=0.0, callbacks=[stopping], random_state=0)
    # The first score is the best, two more are no better by that much.
    assert mixture.fit(X).n_iter_ == 9
    assert [rows for rows, _ in stopping.scores] == [180, 360, 540]


def test_scores_are_those_of_the_start_that_goes_on():
    """The better one after some passes, which may be the first one."""
    rng, n_firsts = np.random.default_rng(5), 0
    for seed in range(4):
        X, held_out = rng.normal(rng.choice([0.0, 3.0], size=(2, 208, 5)))
        stopping, steps = EarlyStopping(held_out, patience=100), []
        mixture = GaussianMixture(6, callbacks=[stopping, steps.append], random_state=seed).fit(X)
        is_first = mixture.history_[0] == steps[0]
        assert len(stopping.scores) == (mixture.n_iter_ - 36 if is_first else mixture.n_steps_)
        assert stopping.best_estimator.history_[0] == mixture.history_[0]
        n_firsts += is_first
    assert 0 < n_firsts < 4


# ------------------------------------------------------------------- scikit-learn's own callbacks


class Listener:
    """Follows scikit-learn's protocol, and notes what it hears."""

    def __init__(self, stop_after=np.inf, error=None):
        self.heard, self.fitted, self.stop_after, self.error = [], [], stop_after, error

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator):
        self.heard.append(f"end {context.task_name}")
        if self.error and context.task_name == "pass" and self.heard.count("begin start") == 2:
            raise self.error
        if fitted_estimator is not None:
            self.fitted.append((fitted_estimator.score(X), fitted_estimator.model_))
        return len(self.fitted) >= self.stop_after

    def teardown(self, estimator, context):
        self.heard.append("teardown")


@all_estimators
def test_scikit_learns_callbacks_hear_of_each_pass(case, rng):
    X, _ = case.data(rng, 40)
    listener = Listener()
    fitted = case(solver="batch", tol=0.0, max_iter=2).set_callbacks(listener).fit(X)
    passes = 2 * ["begin pass", "end pass"]
    assert listener.heard == ["setup", "begin fit", *passes, "end fit", "teardown"]
    assert_close(listener.fitted[-1][1], fitted.model_)
    assert listener.fitted[-1][0] == fitted.score(X)
    # They are no part of what was learnt.
    assert_close(pickle.loads(pickle.dumps(fitted.set_callbacks())).model_, fitted.model_)
    assert fitted.set_callbacks(Listener(stop_after=1)).fit(X).n_iter_ == 1


def test_starts_are_tasks_and_failures_end_them(rng, monkeypatch):
    X = rng.poisson(5.0, size=(30, 1))
    listener = Listener()
    mixture = PoissonMixture(1, n_init=2, max_iter=1, tol=0.0, solver="batch")
    mixture.set_callbacks(listener).fit(X)
    start = ["begin start", "begin pass", "end pass", "end start"]
    assert listener.heard == ["setup", "begin fit", *start, *start, "end fit", "teardown"]
    listener.heard.clear()

    def fail(step):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        mixture.set_params(n_init=1, callbacks=[fail]).fit(X)
    assert listener.heard == ["setup", "begin fit", "begin pass", "teardown"]
    # Two starts of the default's own accord take turns; the better one goes on.
    listener.heard.clear()
    mixture = PoissonMixture(5, random_state=0).set_callbacks(listener).fit(X)
    assert listener.heard.count("begin start") == 2
    assert listener.heard[-4:] == ["end start", "end start", "end fit", "teardown"]
    assert listener.heard.count("end pass") == 36 + mixture.n_iter_
    # A second start of the default's own accord may fail, but not callbacks within it.
    mixture = PoissonMixture(5, random_state=0).set_callbacks(Listener(error=ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        mixture.fit(X)
    # So may one that has no model to start from.
    alone = PoissonMixture(5, random_state=0, n_init=1).fit(X)
    fails = Mock(side_effect=ValueError("no start"))
    monkeypatch.setattr(MixtureInitialiser, "another", fails)
    assert_identical(mixture.set_callbacks(Listener()).fit(X).model_, alone.model_)


def test_searches_hand_their_callbacks_on(rng, capsys):
    from sklearn.callback import ProgressBar
    from sklearn.model_selection import GridSearchCV

    X = rng.poisson(5.0, size=(30, 1))
    mixture = PoissonMixture(1, max_iter=2, tol=0.0)
    grid = GridSearchCV(mixture, {"beta": [0.6, 0.9]}, cv=2, refit=False)
    grid.set_callbacks(ProgressBar()).fit(X)
    assert "PoissonMixture" in capsys.readouterr().out
    assert set(vars(mixture)) == set(mixture.get_params())
