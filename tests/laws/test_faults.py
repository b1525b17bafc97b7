"""Interruptions, threads and forks, for every estimator."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from cases.collapsed_cases import GIBBS
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS, by_likelihood
from cases.interruptions import InterruptAtLine, Interruption, seconds_until_interrupted
from cases.merged_cases import REPRESENTATIVES, SINGLE, TOPICS
from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS
from cases.states import essentials_of, state_of
from cases.streams import AT_ONCE
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from threadpoolctl import OpenBLASController, threadpool_limits

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    PoissonMixture,
)

all_estimators = pytest.mark.parametrize("case", [*ESTIMATORS, *GIBBS[:2]], ids=repr)
by_em = pytest.mark.parametrize("case", ESTIMATORS, ids=repr)


@pytest.mark.parametrize(
    "case", [*ESTIMATORS, *GIBBS[:2], *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS], ids=repr
)
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(case, rng):
    X, _ = case.data(rng)
    for solver in ("online", "batch"):
        arguments = {"solver": solver, "batch_size": max(5, len(X) // 3), "tol": 0.0}
        mixture = case(**arguments, callbacks=[Interruption(2)])
        with pytest.raises(KeyboardInterrupt):
            mixture.fit(X)
        with pytest.raises(NotFittedError):
            mixture.transform(X)
        mixture.set_params(callbacks=None).partial_fit(X)
        before = state_of(mixture)
        with pytest.raises(KeyboardInterrupt):
            mixture.set_params(callbacks=[Interruption(2)]).fit(X)
        assert_identical(state_of(mixture), before)
        assert np.isfinite(mixture.set_params(callbacks=None).partial_fit(X).score(X))


@pytest.mark.parametrize(
    ("case", "going_on"),
    [(ESTIMATORS[0], {}), (SEQUENCE_ESTIMATORS[0], {"continues": True})],
    ids=repr,
)
def test_partial_fit_can_be_interrupted_at_any_line(case, going_on, rng):
    """An update is made or not made, and a sequence goes on or starts afresh."""
    X, _ = case.data(rng, 60)
    fitted, batch = case().partial_fit(X), X[1] if going_on else X[:20]
    if going_on:
        fitted.partial_fit(X[2], **going_on)
    updated = copy.deepcopy(fitted).partial_fit(batch, **going_on)
    before, after, saved = essentials_of(fitted), essentials_of(updated), pickle.dumps(fitted)
    line, done = 0, False
    while not done:
        line += rng.integers(1, 5)
        estimator = pickle.loads(saved)
        try:
            with InterruptAtLine(line):
                estimator.partial_fit(batch, **going_on)
                done = True
        except KeyboardInterrupt:
            found, end = essentials_of(estimator), estimator._fitted.end
            is_updated = found[0] != before[0]
            assert_identical(found, after if is_updated else before)
            expected = (updated if is_updated else fitted)._fitted.end
            assert np.array_equal(end, expected) or (is_updated and end is None)
    assert line > 50


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize("solver", ["online", "batch"])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (GaussianMixture, (200_000, 16)),
        (PoissonMixture, (400_000, 16)),
        (GaussianHMM, (2000, 50, 8)),
        (GaussianHMM, (1, 100_000, 8)),
    ],
)
def test_long_fits_are_interrupted_within_a_second(make, shape, solver, rng):
    X = rng.integers(10, size=shape) + rng.random(shape)
    estimator = make(16, init=X.reshape(-1, shape[-1])[:16], solver=solver, max_iter=1000, tol=0.0)
    assert seconds_until_interrupted(lambda: estimator.fit(X), after=0.3) < 1.0
    assert not estimator.__sklearn_is_fitted__()


def long_documents():
    """Of 18 million tokens, which are drawn one by one; one document has a quarter of them."""
    X = np.full((60, 1500), 150.0)
    X[3] = 3500.0
    return X


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize("solver", ["online", "gibbs", "stochastic"])
def test_long_draws_of_topics_are_interrupted_within_04_s(solver):
    X, rows = long_documents(), np.eye(3, 1500) * 9.0
    lda = LatentDirichletAllocation(40, solver=solver, batch_size=16, random_state=0).fit(rows)
    before = state_of(lda)
    for call in (lda.fit, lda.partial_fit, lda.transform, lda.score, lda.perplexity):
        assert seconds_until_interrupted(lambda call=call: call(X)) < 0.4
    assert_identical(state_of(lda), before)
    assert np.isfinite(lda.partial_fit(rows).score(rows))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize(("k", "d", "n_rows"), [(2, 2, 3_000_000), (8, 4, 250_000), (60, 9, 2000)])
def test_long_passes_of_the_kalman_filter_are_interrupted_within_04_s(k, d, n_rows, rng):
    X = rng.standard_normal((1, n_rows, d))
    kalman = KalmanFilter(k, max_iter=1, random_state=0).fit(X[:, :200])
    before = state_of(kalman)
    X[:, ::7, 0] = np.nan
    for call in (kalman.smooth, kalman.filter, kalman.score, kalman.impute, kalman.fit):
        assert seconds_until_interrupted(lambda call=call: call(X)) < 0.4
    assert_identical(state_of(kalman), before)
    assert np.isfinite(kalman.score(X[:, :200]))


def in_threads(function, items, n_threads=4):
    """Call the function on all items; returns the exceptions that the threads raised."""
    items, errors = deque(items), []

    def work():
        while items:
            try:
                function(items.popleft())
            except IndexError:
                return
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.threads
@pytest.mark.parametrize("case", by_likelihood(ESTIMATORS), ids=repr)
@pytest.mark.parametrize("solver", [AT_ONCE, "online"], ids=str)
def test_concurrent_updates_are_not_lost(case, solver, rng):
    """With one component and harmonic rates the means do not depend on the order of the batches."""
    X, _ = case.data(rng, 2020)
    batches = [X[20 * i : 20 * i + 20] for i in range(101)]
    # With so large a first rate all rows weigh the same, in batches of any sizes.
    arguments = {"n_components": 1, "schedule": "harmonic", "eta0": 1e12, "solver": solver}
    parallel, serial = (case(**arguments).partial_fit(batches[0]) for _ in range(2))
    n_start = parallel.n_steps_
    assert in_threads(parallel.partial_fit, batches[1:]) == []
    for batch in batches[1:]:
        serial.partial_fit(batch)
    # The rows that complete a start, and those beyond it in the same batch, are two steps.
    assert parallel.n_steps_ - n_start in ((100,) if solver == AT_ONCE else (100, 101))
    assert (parallel.n_steps_, parallel.n_samples_seen_) == (serial.n_steps_, 2020)
    # Expectations of variables that components hide depend on the parameters before.
    rtol = 0.01 if case.hidden else 1e-9
    # Medians of streams do depend on it.
    atol = 1e-10 if case.regular else 0.1
    assert_allclose(parallel.means_, serial.means_, rtol=rtol, atol=atol)


@pytest.mark.threads
@all_estimators
def test_concurrent_first_updates_are_not_lost(case, rng):
    X, _ = case.data(rng, 400)
    batches = [X[50 * i : 50 * i + 50] for i in range(8)]
    mixture, serial = case(n_components=2), case(n_components=2)
    assert in_threads(mixture.partial_fit, batches) == []
    for batch in batches:
        serial.partial_fit(batch)
    assert (mixture.n_steps_, mixture.n_samples_seen_) == (serial.n_steps_, 400)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
# Python 3.12 and later warn of any fork while there are threads.
despite_threads = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@contextmanager
def forked(function, *arguments):
    """Call a function in a forked process, which fails if it fails or hangs."""
    child = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    child.start()
    try:
        yield
        child.join(60)
        assert child.exitcode == 0, "the child hangs" if child.is_alive() else "the child fails"
    finally:
        child.kill()
        child.join()
        child.close()


def _learn_weights(case, X, how):
    mixture = getattr(case(n_jobs=2), how)(X)
    assert mixture.weights_.sum() == pytest.approx(1.0)


@needs_fork
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.parametrize("case", ESTIMATORS[:1] + ESTIMATORS[4:5], ids=repr)
def test_a_forked_process_does_not_hang(case, how, rng):
    X, _ = case.data(rng, 5000)
    case(n_jobs=2).fit(X)  # the parent's threads
    with forked(_learn_weights, case, X, how):
        pass


@needs_fork
@despite_threads
def test_a_process_forked_while_threads_of_blas_are_counted_does_not_hang(rng):
    """Where threadpoolctl sets limits, it holds a lock that all threads share."""
    X, _ = ESTIMATORS[0].data(rng, 100)
    # There are several threads to limit then, on any machine.
    with threadpool_limits(2, user_api="blas"):
        lock = getattr(OpenBLASController, "_SHARED_STATE", None)
        with nullcontext() if lock is None else lock.lock:
            with forked(_learn_weights, ESTIMATORS[0], X, "fit"):
                pass


def _assert_learns_as(learner, twin, X, ways):
    """Whether two have learnt the same, and go on to."""
    learner.set_params(callbacks=None)
    assert learner.__sklearn_is_fitted__() == twin.__sklearn_is_fitted__()
    for learn in (None, *ways):
        for estimator in (learner, twin) if learn else ():
            learn(estimator, X)
        if twin.__sklearn_is_fitted__():
            assert_identical(state_of(learner), state_of(twin))


def _fit(estimator, X):
    estimator.fit(X)


def _partial_fit(estimator, X):
    estimator.partial_fit(X)


def _continue(estimator, X):
    estimator.partial_fit(X, continues=True)


def ways_of(case):
    continues = getattr(case(), "termination", None) == "given_length" or case in KALMAN_FILTERS
    return [_partial_fit, _fit, *([_continue] if continues else [])]


def assert_forks_before(case, learn, X, is_first, hold_up_in):
    """A process that is forked while the update of a thread is held up learns as if alone."""
    learner = case(max_iter=2)
    if not is_first:
        learn(learner, X)
    twin = pickle.loads(pickle.dumps(learner))
    begun, may_end = threading.Event(), threading.Event()

    def hold_up(*_):
        begun.set()
        may_end.wait(60)

    hold_up_in(learner, hold_up)
    thread = threading.Thread(target=learn, args=(learner, X))
    thread.start()
    assert begun.wait(60)
    with forked(_assert_learns_as, learner, twin, X, [learn, *ways_of(case)]):
        may_end.set()
        thread.join(60)


def by_way(cases):
    return pytest.mark.parametrize(
        ("case", "learn"), [(case, way) for case in cases for way in ways_of(case)],
        ids=lambda value: getattr(value, "__name__", repr(value)),
    )  # fmt: skip


@needs_fork
@despite_threads
@by_way(REPRESENTATIVES)
def test_a_process_forked_amid_an_update_has_the_one_before(case, learn, rng):
    X, _ = case.data(rng, 60)
    in_callback = lambda learner, hold_up: learner.set_params(callbacks=[hold_up])  # noqa: E731
    assert_forks_before(case, learn, X, False, in_callback)


@needs_fork
@despite_threads
@by_way([ESTIMATORS[0], SEQUENCE_ESTIMATORS[0], KALMAN_FILTERS[0], SINGLE[-1]])
def test_a_process_forked_amid_the_first_update_has_none(case, learn, rng):
    X, _ = case.data(rng, 60)
    in_callback = lambda learner, hold_up: learner.set_params(callbacks=[hold_up])  # noqa: E731
    assert_forks_before(case, learn, X, True, in_callback)


@needs_fork
@despite_threads
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("case", [SEQUENCE_ESTIMATORS[0], KALMAN_FILTERS[0]], ids=repr)
def test_a_process_forked_before_a_piece_has_its_end_has_not_learnt_it(
    case, is_first, rng, monkeypatch
):
    X, _ = case.data(rng, 60)
    kind, parent = type(case().fit(X).model_), os.getpid()
    filtered_end = kind.filtered_end

    def in_filter(learner, hold_up):
        def held_up(model, data):
            if os.getpid() == parent:
                hold_up()
            return filtered_end(model, data)

        monkeypatch.setattr(kind, "filtered_end", held_up)

    assert_forks_before(case, _continue, X, is_first, in_filter)


def _assert_is_whole(learner, twin, learn, X):
    while twin.n_steps_ < learner.n_steps_:
        learn(twin, X)
    _assert_learns_as(learner, twin, X, [learn])


@needs_fork
@despite_threads
@pytest.mark.parametrize(
    ("case", "learn"),
    [
        *[(case, _partial_fit) for case in (*ESTIMATORS[:1], *ESTIMATORS[4:5], *SINGLE[-1:])],
        *[(case, _partial_fit) for case in TOPICS],
        *[(case, _continue) for case in (*SEQUENCE_ESTIMATORS[:1], *KALMAN_FILTERS[:1])],
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_a_process_forked_at_any_moment_learns_on(case, learn, rng):
    X, _ = case.data(rng, 60)
    learner = case()
    learn(learner, X)
    twin = pickle.loads(pickle.dumps(learner))

    def learn_until(done):
        while not done.is_set():
            learn(learner, X)

    for _ in range(9):
        done = threading.Event()
        thread = threading.Thread(target=learn_until, args=(done,))
        thread.start()
        time.sleep(rng.uniform(0.0, 0.01))
        with forked(_assert_is_whole, learner, twin, learn, X):
            done.set()
            thread.join(60)
        while twin.n_steps_ < learner.n_steps_:
            learn(twin, X)
