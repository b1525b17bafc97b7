"""Learning on a cluster of processes, some of which are killed, stopped, or run out of memory."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from cases.comparing import assert_identical
from cases.estimator_cases import ESTIMATORS, document_clusters
from cases.shards import MODES, all_modes, assert_same_fit
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sklearn_onlineem import (
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM, DistributionError
from sklearn_onlineem.distributed._executors import DaskExecutor, Heartbeats

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
LIMIT = 60.0  # seconds for a cluster to answer
LONGEST = 300  # seconds for a test, on a machine that is busy with other things: none may hang


@contextlib.contextmanager
def limited(name):
    """Fail what hangs, and then what hangs while it is taken down; signals reach main threads."""

    def give_up(signum, frame):
        pytest.fail(f"{name} hangs: it was not done after {LONGEST} s.")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def _limit(request):
    with limited(request.node.name):
        yield


@contextlib.contextmanager
def cluster(n_workers=2, **arguments):
    arguments = {"threads_per_worker": 1, "dashboard_address": ":0", **arguments}
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        distributed.LocalCluster(n_workers=n_workers, silence_logs=60, **arguments) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with contextlib.ExitStack() as stack:
        with limited("the start of a cluster"):
            client = stack.enter_context(cluster())
        yield client
        with limited("the end of a cluster"):
            stack.close()


@pytest.fixture(scope="module")
def X():
    return ESTIMATORS[0].data(np.random.default_rng(0), 4000)[0]


def mixture(**arguments):
    arguments = {"max_iter": 8, "tol": 0.0, "batch_size": 50, **arguments}
    return GaussianMixture(3, random_state=0, **arguments)


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    return document_clusters(rng, rng.integers(0, 5, 2000))


def topics(**arguments):
    """A model whose E-step draws."""
    arguments = {"max_iter": 4, "batch_size": 50, **arguments}
    return LatentDirichletAllocation(3, random_state=0, **arguments)


def labelled():
    return mixture(semi_supervised=True)


def shards_of(X, n=8):
    """Shards that can be computed again."""
    return [dask.delayed(_rows, pure=False)(X, i, n) for i in range(n)]


def _rows(X, i, n):
    return np.array_split(X, n)[i]


def assert_same_bits(client, estimator, X, *forms, **arguments):
    """A cluster learns from each form of the data what this process does."""
    expected = DistributedEM(estimator, **arguments).fit(X)
    for data in forms:
        found = DistributedEM(estimator, **arguments).fit(data, client=client)
        assert_same_fit(found, expected)
        assert found.history_[-1][1:5] == expected.history_[-1][1:5]
    return found


# ------------------------------------------------------------------------------------ the same bits


@all_modes
def test_a_cluster_gives_the_same_bits_as_this_process(mode, client, X):
    forms = X, shards_of(X), client.compute(shards_of(X))
    assert_same_bits(client, mixture(), X, *forms, **mode).estimator_.partial_fit(X)


@all_modes
def test_a_cluster_draws_as_this_process_does(mode, client, documents):
    estimators = [topics()]
    if mode == {"mode": "batch"}:
        stochastic = {"solver": "stochastic", "max_iter": 4, "random_state": 0}
        estimators += [clone(one).set_params(**stochastic) for one in (topics(), PoissonMixture(3))]
    for estimator in estimators:
        forms = documents, shards_of(documents)
        assert_same_bits(client, estimator, documents, *forms, **mode)


@pytest.mark.parametrize(
    "seconds", [np.int8(100), np.float16(100), 10**400], ids=["int8", "float16", "huge"]
)
def test_any_number_is_a_timeout(seconds, client, X):
    assert_same_bits(client, mixture(), X, X, worker_timeout=seconds)


@pytest.mark.parametrize("pack_size", [1, 2, 4])
def test_packs_of_any_size_give_the_same_bits(pack_size, client, X, monkeypatch):
    monkeypatch.setattr(DaskExecutor, "_pack_size", lambda self, seconds: pack_size)
    assert_same_bits(client, mixture(), X, X, n_shards=9)


def test_dask_arrays_are_shards_already(client, X):
    expected = DistributedEM(mixture()).fit(X).estimator_.model_
    array = da.from_array(X, chunks=(500, 2))
    assert_identical(DistributedEM(mixture()).fit(array).estimator_.model_, expected)


def test_labels_and_weights_come_in_shards_alike(client, X, rng):
    besides = {"y": rng.integers(-1, 3, len(X)), "sample_weight": rng.random(len(X))}
    expected = DistributedEM(labelled()).fit(X, **besides).estimator_.model_
    arrays = {name: da.from_array(values, chunks=500) for name, values in besides.items()}
    delayed = {name: shards_of(values) for name, values in besides.items()}
    for data, arguments in (
        (X, besides),
        (da.from_array(X, chunks=(500, 4)), arrays),
        (shards_of(X), delayed),
    ):
        found = DistributedEM(labelled()).fit(data, **arguments, client=client)
        assert_identical(found.estimator_.model_, expected)
    array = da.from_array(X, chunks=(500, 4))
    for y in (besides["y"], arrays["y"].rechunk(1000)):
        with pytest.raises(ValueError, match="DistributedEM: y must come in shards as X does"):
            DistributedEM(labelled()).fit(array, y, client=client)
    with pytest.raises(ValueError, match="DistributedEM: y must come in shards as X does"):
        DistributedEM(labelled()).fit(X, arrays["y"], client=client)
    uneven = arrays["y"].rechunk(((400, 600, *[500] * 6),))
    with pytest.raises(ValueError, match="DistributedEM: shard 0: .*X has 500 rows, and y 400"):
        DistributedEM(labelled()).fit(array, uneven, client=client)


def test_dask_frames_are_shards_already(client, X):
    expected = DistributedEM(mixture()).fit(X).estimator_.model_
    frame = pd.DataFrame(X, columns=list("abcd"))
    learner = DistributedEM(mixture()).fit(dd.from_pandas(frame, npartitions=8))
    assert_identical(learner.estimator_.model_, expected)
    assert learner.estimator_.feature_names_in_.tolist() == list("abcd")


def test_graphs_tell_fits_apart(client, X):
    """Estimators as they are documented: mapped over blocks, sent, merged, and updated between."""
    array, fits = da.from_array(X, chunks=(500, 4)), [mixture().fit(X[:2000]), mixture().fit(X)]
    scores = [array.map_blocks(fit.score_samples, dtype=float, drop_axis=1) for fit in fits]
    expected = fits[0].score_samples(X) - fits[1].score_samples(X)
    assert_allclose((scores[0] - scores[1]).compute(), expected, rtol=0, atol=1e-9)
    assert np.abs(expected).max() > 0.1
    labels = array.map_blocks(fits[0].predict, dtype=int, drop_axis=1)
    assert_array_equal(labels.compute(), fits[0].predict(X))
    for _ in range(2):
        found = client.submit(GaussianMixture.score, fits[0], X).result()
        assert found == pytest.approx(fits[0].score(X), rel=1e-12)
        fits[0].partial_fit(X[:100])
    members = client.map(mixture().fit, np.split(X, 4))
    merged = client.submit(combine_estimators, members).result()
    local = combine_estimators([mixture().fit(part) for part in np.split(X, 4)])
    assert_identical(merged.model_, local.model_)
    assert_identical(merged.partial_fit(X).model_, local.partial_fit(X).model_)


def test_chunks_of_unknown_size_and_empty_ones(client, X):
    array = da.from_array(X, chunks=(500, 4))
    chosen = array[da.from_array(np.arange(4000) >= 600, chunks=500)]
    assert np.isnan(chosen.shape[0])
    found = DistributedEM(mixture()).fit(chosen, client=client)
    parts = [dask.delayed(part) for part in (X[600:1000], *np.split(X[1000:], 6))]
    assert_same_fit(found, DistributedEM(mixture()).fit(parts, client=client))


def test_sequences_are_never_cut(client, rng):
    sequences = [rng.standard_normal((length, 2)) for length in rng.integers(3, 20, 40)]
    hmm = GaussianHMM(2, random_state=0, max_iter=3, tol=0.0)
    assert_same_bits(client, hmm, sequences, sequences, n_shards=4)


def test_arrays_of_sequences_are_cut_between_sequences(client, rng):
    X = rng.standard_normal((40, 8, 2)) + [0.0, 5.0]
    hmm = GaussianHMM(2, random_state=0, max_iter=3, tol=0.0)
    arrays = (da.from_array(X, chunks=chunks) for chunks in ((10, 8, 2), (10, 4, 1)))
    assert_same_bits(client, hmm, X, *arrays, n_shards=4)
    found = assert_same_bits(client, hmm, X[0], da.from_array(X[0], chunks=(3, 1)))
    assert found.estimator_.n_samples_seen_ == 1


# ------------------------------------------------------------------------------------------ faults


class After:
    """A callback that does something once, a moment after some rounds: amid the next."""

    def __init__(self, n_rounds, action, delay=0.01):
        self.n_rounds, self.action, self.delay = n_rounds, action, delay

    def __call__(self, step):
        self.n_rounds -= 1
        if self.n_rounds == 0:
            threading.Timer(self.delay, self.action).start()


def process_of(client, i=0):
    """Process id of a worker."""
    return list(client.run(os.getpid).values())[i]


def fit_with(action, client, shards, mode=None, n_rounds=2, make=mixture, **arguments):
    estimator = make(callbacks=[After(n_rounds, action)], **arguments)
    return DistributedEM(estimator, **(mode or MODES[0])).fit(shards, client=client)


@pytest.mark.parametrize(
    ("make", "mode", "are_local"),
    [
        (mixture, MODES[0], True),
        *(
            pytest.param(*arguments, marks=pytest.mark.slow)
            for arguments in [
                (mixture, MODES[0], False),
                (mixture, MODES[1], False),
                (mixture, MODES[1], True),
                # What has been drawn is drawn again.
                (partial(topics, solver="online"), MODES[0], True),
                (partial(topics, solver="stochastic"), MODES[0], True),
            ]
        ),
    ],
    ids=lambda value: getattr(value, "__name__", str(getattr(value, "keywords", value))),
)
def test_a_killed_worker_changes_no_bit(make, mode, are_local, X, documents):
    X = X if make is mixture else documents
    expected = DistributedEM(make(max_iter=15), **mode).fit(X)
    with cluster() as client:
        pid = process_of(client)
        shards = X if are_local else shards_of(X)
        action = partial(os.kill, pid, signal.SIGKILL)
        found = fit_with(action, client, shards, mode, make=make, max_iter=15)
        assert pid not in client.run(os.getpid, on_error="ignore").values()
    assert_same_fit(found, expected)


@pytest.mark.slow
def test_a_worker_that_is_dead_before_shards_are_sent_changes_no_bit(X):
    with cluster() as client:
        os.kill(process_of(client), signal.SIGKILL)
        assert_same_bits(client, mixture(), X, X, X)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("n_killed", [1, 2])
@pytest.mark.parametrize("are_local", [True, False])
def test_workers_that_die_at_any_moment_change_no_bit(are_local, n_killed, delay, X):
    """Before shards are sent, meanwhile, or in a round; and the fit after it.

    Each has a cluster of its own: Dask does not start workers for ever that are killed.
    """
    expected = DistributedEM(mixture()).fit(X)
    with cluster() as client:
        for pid in list(client.run(os.getpid).values())[:n_killed]:
            threading.Timer(delay, os.kill, (pid, signal.SIGKILL)).start()
        for _ in range(2):
            shards = X if are_local else shards_of(X)
            assert_same_fit(DistributedEM(mixture()).fit(shards, client=client), expected)


def test_a_stopped_worker_changes_no_bit(client, X):
    expected = DistributedEM(mixture(max_iter=15)).fit(X)
    pid = process_of(client)

    def pause():
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (pid, signal.SIGCONT)).start()

    assert_same_fit(fit_with(pause, client, shards_of(X), max_iter=15), expected)


@pytest.mark.slow
def test_a_worker_that_stays_stopped_is_given_up(X):
    expected = DistributedEM(mixture(max_iter=15)).fit(X)
    with dask.config.set({"distributed.scheduler.worker-ttl": "5s"}), cluster() as client:
        scheduler, pid = client.cluster.scheduler, process_of(client)
        # Until then nobody is given up: on a busy machine, to load modules takes as long.
        scheduler.worker_ttl = LONGEST

        def stop():
            os.kill(pid, signal.SIGSTOP)
            scheduler.worker_ttl = 5.0

        found = fit_with(stop, client, shards_of(X), max_iter=15)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert_same_fit(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["in a round", "before shards are sent"])
def test_a_worker_that_is_frozen_for_ever_is_a_named_error_in_time(when, X):
    with cluster() as client:
        # All of them: one may have neither work nor data, and then nobody misses it.
        pids, patience = client.run(os.getpid).values(), {"worker_timeout": 10.0}

        def send(number):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

        start = time.monotonic()
        with pytest.raises(DistributionError, match="worker tcp.* no sign of life"):
            if when == "in a round":
                freeze = partial(send, signal.SIGSTOP)
                fit_with(freeze, client, shards_of(X), patience, max_iter=1000, tol=0)
            send(signal.SIGSTOP)
            DistributedEM(mixture(), **patience).fit(X, client=client)
        assert time.monotonic() - start < 120.0
        send(signal.SIGKILL)
        assert_same_bits(client, mixture(), X, X)


def test_workers_are_silent_by_the_clock_of_who_listens(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    heartbeats, silent = Heartbeats(), []
    for now, seen in [(0.0, 70.0), (5.0, 70.0), (9.0, 71.0), (14.0, 71.0), (20.0, 71.0)]:
        silent.append(heartbeats.silent_for(10.0, {"other": now, "worker": seen}))
    assert silent == [[], [], [], [], ["worker"]]
    assert heartbeats.silent_for(10.0, {"other": -1.0}) == []


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 4])
def test_scaling_changes_no_bit(n_workers, X):
    expected = DistributedEM(mixture(max_iter=15)).fit(X)
    with cluster() as client:
        found = fit_with(lambda: client.cluster.scale(n_workers), client, shards_of(X), max_iter=15)
    assert_same_fit(found, expected)


@pytest.mark.slow
def test_data_that_only_a_dead_worker_held_are_a_named_error(X):
    with cluster() as client:
        futures = client.scatter(np.array_split(X, 4))
        pids = client.run(os.getpid).values()

        def kill():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

        # Dask may not have said yet which of the data it is.
        with pytest.raises(DistributionError, match="worker was lost with the only copy"):
            fit_with(kill, client, futures, max_iter=1000)


def test_data_for_a_cluster_without_workers_are_not_sent_for_ever(X):
    with cluster(n_workers=0) as client:
        with pytest.raises(DistributionError, match="no worker that takes tasks"):
            DistributedEM(mixture(), worker_timeout=0.5).fit(X, client=client)


def _paused(dask_worker):
    dask_worker.status = distributed.Status.paused


@pytest.mark.parametrize(
    "action",
    [
        lambda client: client.cluster.scale(0),
        # A worker pauses when its memory runs out.
        pytest.param(lambda client: client.run(_paused), marks=pytest.mark.slow),
    ],
    ids=["gone", "paused"],
)
def test_a_cluster_where_no_worker_takes_tasks_is_given_up(action, X):
    with cluster(n_workers=1, memory_limit=0) as client:
        estimator = mixture(max_iter=1000, callbacks=[After(2, lambda: action(client))])
        # On a busy machine it takes a worker longer than that to go, and meanwhile it is silent.
        reasons = "no worker that takes tasks|no sign of life"
        with pytest.raises(DistributionError, match=reasons):
            DistributedEM(estimator, worker_timeout=1.0).fit(shards_of(X), client=client)


@contextlib.contextmanager
def processes(folder, lacking=None):
    """A scheduler and a worker, each a process of its own; yields a client and the scheduler.

    One of them may lack the library.
    """
    file, quiet = str(folder / "scheduler.json"), {"stdout": subprocess.DEVNULL}
    place = ["--scheduler-file", file, "--no-dashboard"]
    code = "import sys; sys.modules.update({}); from distributed.cli.dask_{} import main; main()"
    starts = [
        code.format("{'sklearn_onlineem': None}" if i == lacking else {}, name)
        for i, name in enumerate(("scheduler", "worker"))
    ]
    # It takes a worker long to find the scheduler, where a machine is busy.
    patient = ["--no-nanny", "--death-timeout", str(LONGEST)]
    commands = [
        [sys.executable, "-c", starts[0], "--port", "0", *place],
        [sys.executable, "-c", starts[1], *patient, *place],
    ]
    # Functions that are sent to a scheduler must be importable there, too.
    quiet["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(c, stderr=subprocess.DEVNULL, **quiet) for c in commands]
    try:
        with (
            distributed.Client(scheduler_file=file, timeout=LIMIT) as client,
            dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        ):
            yield client, running[0]
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_lost_scheduler_is_a_named_error(X, tmp_path):
    with processes(tmp_path) as (client, scheduler):
        with pytest.raises(DistributionError, match="scheduler"):
            fit_with(lambda: scheduler.kill(), client, shards_of(X), max_iter=1000)
        for shards in (X, shards_of(X)):
            with pytest.raises(DistributionError, match="scheduler"):
                DistributedEM(mixture()).fit(shards, client=client)
        client.close()
        for shards in (X, shards_of(X)):
            with pytest.raises(DistributionError, match="scheduler"):
                DistributedEM(mixture()).fit(shards, client=client)


@pytest.mark.slow
def test_a_shard_that_no_memory_can_hold_is_a_named_error(X):
    def huge():
        return np.ones((200_000_000, 4))

    with cluster(memory_limit="500MB") as client:
        shards = [*shards_of(X, 2), dask.delayed(huge)()]
        with pytest.raises((distributed.KilledWorker, MemoryError)):
            DistributedEM(mixture()).fit(shards, client=client)


def _broken(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [OSError(5, "a disc"), KeyError("a disc"), ImportError("a disc"), TimeoutError("a disc")],
)
def test_a_shard_that_cannot_be_read_is_its_own_error(error, client, X):
    """It is no loss of a worker, though errors of files and of connections are of one kind."""
    broken = dask.delayed(_broken)(error)
    for shard in (broken, client.compute(broken)):
        with pytest.raises(type(error), match="a disc") as found:
            DistributedEM(mixture()).fit([dask.delayed(X), shard], client=client)
        assert found.value.__notes__ == ["DistributedEM: shard 1 raised this."]


def test_a_shard_that_was_cancelled_is_named(client, X):
    shards = client.scatter([X, X[:9]])
    shards[1].cancel()
    with pytest.raises(DistributionError, match="shard 1 of X was cancelled"):
        DistributedEM(mixture()).fit(shards, client=client)


def test_an_asynchronous_client_is_refused(client, X):
    async def fit():
        async with distributed.Client(client.scheduler.address, asynchronous=True) as other:
            DistributedEM(mixture()).fit(X, client=other)

    with pytest.raises(TypeError, match="DistributedEM: client is asynchronous"):
        asyncio.run(fit())


def test_workers_of_another_version_are_a_named_error(client, X, monkeypatch):
    monkeypatch.setattr("sklearn_onlineem.distributed._executors.__version__", "0.0.9")
    with pytest.raises(DistributionError, match=r"need sklearn_onlineem .*0\.0\.9 here"):
        DistributedEM(mixture()).fit(shards_of(X), client=client)


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1], ids=["scheduler", "worker"])
def test_who_lacks_the_library_is_a_named_error(who, X, tmp_path):
    with (
        processes(tmp_path, lacking=who) as (client, _),
        pytest.raises(DistributionError, match="need sklearn_onlineem"),
    ):
        DistributedEM(mixture()).fit([dask.delayed(X)], client=client)


def test_a_poisoned_shard_is_an_error_that_names_it(client, X):
    poisoned = X.copy()
    poisoned[1700] = np.inf
    with pytest.raises(ValueError, match=r"DistributedEM: shard 3: .*infinity"):
        DistributedEM(mixture()).fit(poisoned, client=client)
    shards = [*np.array_split(X, 3), X[:, :2]]
    with pytest.raises(ValueError, match=r"DistributedEM: shard 3: .*2 features"):
        DistributedEM(mixture()).fit([dask.delayed(s) for s in shards], client=client)
    with pytest.raises(TypeError, match=r"DistributedEM: shard 1: .*NoneType"):
        DistributedEM(mixture()).fit([dask.delayed(X), dask.delayed(None)], client=client)
    with pytest.raises(TypeError, match=r"of the 2 entries of X, 1 are delayed"):
        DistributedEM(mixture()).fit([dask.delayed(X), X], client=client)


def test_a_fitted_learner_can_be_cloned_and_holds_no_client(client, X):
    learner = DistributedEM(mixture(max_iter=1)).fit(X, client=client)
    assert not [value for value in vars(clone(learner)).values() if value is client]
    assert not [value for value in vars(learner).values() if value is client]
