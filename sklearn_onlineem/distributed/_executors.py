"""Executors of tasks: this process and its children (joblib), or a cluster (Dask).

These, and that of `_spark`, map a task over the shards and merge the results by the same tree, so
that bits are the same.
"""

import asyncio
import time
import uuid
from contextlib import nullcontext
from pkgutil import resolve_name

import numpy as np
from joblib import Parallel, delayed

from sklearn_onlineem._version import __version__
from sklearn_onlineem.distributed._shards import is_future
from sklearn_onlineem.distributed._tasks import (
    Arguments,
    begin,
    error_context,
    extent,
    merge,
    n_entries,
    perform,
    prepare,
    whole,
)

VERSION = "sklearn_onlineem._version:__version__"
# Number of results that one task merges.
_FAN_IN = 8
# CPU seconds of a task below which more goes to scheduling than to learning.
_SHORT = 0.03
# Attempts when workers are lost, and seconds before the second one; each pause is twice as long. A
# scheduler needs a moment to notice that a worker is dead.
_ATTEMPTS, _PAUSE = 8, 0.1
# Seconds to wait for an answer of the scheduler, and between questions for its workers.
_PATIENCE = 5.0

_NO_WORKER = (
    "DistributedEM: for longer than worker_timeout the cluster has had no worker that takes tasks:"
    " it has none, or memory limits have paused all."
)
_FROZEN = (
    "DistributedEM: the worker {} has work or data, but has given no sign of life for longer than"
    " worker_timeout. Stop its process, so that Dask moves its work elsewhere."
)
_NO_SCHEDULER = "DistributedEM lost the connection to the Dask scheduler."
_GONE = (
    "DistributedEM: a worker was lost with the only copy of some data. Pass shards that can be"
    " computed again: delayed objects or Dask collections."
)
NO_LIBRARY = (
    "DistributedEM: the scheduler and the workers need sklearn_onlineem in the version that is used"
    " here ({})."
)
_CANCELLED = (
    "DistributedEM: shard {} of {} was cancelled, or its worker was lost with the only copy. Pass"
    " shards that can be computed again: delayed objects or Dask collections."
)
_NO_END = (
    "DistributedEM: workers, or connections to them, were lost {} times in a row. Do shards take"
    " more memory than a worker has?"
)


class DistributionError(RuntimeError):
    """Loss of data that cannot be computed again, of workers, or of the scheduler."""


class Heartbeats:
    """Signs of life of workers, timed by the clock of this process, as those of machines differ."""

    def __init__(self):
        self.heard = {}

    def silent_for(self, seconds, last_seen):
        """Return workers with the same sign of life for so long, given the latest of each."""
        now, before = time.monotonic(), self.heard
        self.heard = {
            worker: before[worker] if before.get(worker, (None,))[0] == seen else (seen, now)
            for worker, seen in last_seen.items()
        }
        return [worker for worker, (_, since) in self.heard.items() if now - since > seconds]


def nonempty(counts):
    """Return which shards are not empty, and how many rows precede each."""
    sizes, n_counting = np.reshape(counts, (-1, 2)).T
    numbers = np.flatnonzero(n_counting).tolist()
    if not numbers:
        raise ValueError("DistributedEM: all shards are empty, or have zero weight.")
    return numbers, (np.cumsum(sizes) - sizes)[numbers].tolist()


def _runs(items, length):
    return [items[i : i + length] for i in range(0, len(items), length)]


class JoblibExecutor:
    """Runs tasks by joblib, with the present backend.

    Within its session workers keep what they were sent: large arrays go there once.
    """

    def __init__(self, columns, n_jobs):
        self.names = tuple(columns)
        self.source = list(zip(*columns.values(), strict=True))
        self.session = Parallel(n_jobs=n_jobs and min(n_jobs, len(self.source)))
        self.numbers, self.firsts, self.data = [], [], []

    def open(self):
        """Find the shards that are not empty."""
        counts = [n_entries(number, self.names, *part) for number, part in enumerate(self.source)]
        self.numbers, self.firsts = nonempty(counts)

    def begin(self, start, number):
        """Return the result of `start`, a function of a shard, for the one of this number."""
        return begin(start, number, self.names, *self.source[number])

    def prepare(self, template):
        """Convert the shards; return their sizes and weights."""
        self.data = [
            prepare(template, number, first, self.names, *self.source[number])
            for number, first in zip(self.numbers, self.firsts, strict=True)
        ]
        return [extent(data) for data in self.data]

    def reduce(self, task, chosen, *arguments):
        """Map a task over the chosen shards, and merge."""
        parts = self.session(
            delayed(task)(self.data[i], self.numbers[i], *arguments) for i in chosen
        )
        return whole([{(0, place): part for place, part in enumerate(parts)}], len(parts))


class DaskExecutor:
    """Runs tasks by dask.distributed, whose scheduler places them, and repeats lost ones.

    A task costs the scheduler milliseconds. If shards are short work, a task takes as many as make
    some, and at least as many as there are for a thread; they move there once, and few results are
    merged here. Otherwise each shard has its own task. Bits do not depend on this.
    """

    def __init__(self, client, columns, is_local, worker_timeout):
        if getattr(client, "asynchronous", False):
            raise TypeError(
                "DistributedEM: client is asynchronous, and fit waits for results. Pass a Client"
                " without asynchronous=True, and call fit outside of its event loop."
            )
        self.client, self.is_local, self.worker_timeout = client, is_local, worker_timeout
        self.names, self.source = tuple(columns), list(columns.values())
        self.session = nullcontext()
        self.template, self.numbers, self.firsts = None, [], []
        self.futures, self.data = [], []
        self.pack_size, self.last = None, []

    def _placed(self):
        """Return futures of the raw shards, a list for each name."""
        from distributed.comm import CommClosedError

        if not self.is_local:
            return [
                [x if is_future(x) else self.client.compute(x) for x in column]
                for column in self.source
            ]
        options = {"hash": False, "timeout": self.worker_timeout}
        try:
            return [
                self.client.sync(self._awaited, self.client.scatter, x, **options)
                for x in self.source
            ]
        except TimeoutError as error:
            raise DistributionError(_NO_WORKER) from error
        except OSError as error:
            raise CommClosedError(str(error)) from error

    def open(self):
        def compute():
            # Workers that cannot read a task of this package stop, without a word.
            version = self.client.submit(resolve_name, VERSION, pure=False)
            if (found := self._fetched([version])[0]) != __version__:
                raise ImportError(f"sklearn_onlineem {found} is there, and {__version__} here")
            numbers = range(len(self.futures[0]))
            names = [self.names] * len(numbers)
            futures = self._map(n_entries, numbers, names, *self.futures)
            return self._fetched(futures, numbers)

        self.numbers, self.firsts = nonempty(self._insisting(compute))

    def begin(self, start, number):
        def compute():
            shard = [column[number] for column in self.futures]
            begun = self.client.submit(begin, start, number, self.names, *shard, pure=False)
            return self._fetched([begun], [number])[0]

        return self._insisting(compute)

    def _map(self, function, *columns):
        return self.client.map(function, *columns, pure=False)

    def prepare(self, template):
        self.template = template
        return self._insisting(lambda: self._fetched(self._map(extent, self.data), self.numbers))

    def _converted(self):
        template = self.client.submit(_same, self.template, pure=False)
        templates, names = ([same] * len(self.numbers) for same in (template, self.names))
        chosen = [[column[i] for i in self.numbers] for column in self.futures]
        return self._map(prepare, templates, self.numbers, self.firsts, names, *chosen)

    def reduce(self, task, chosen, *arguments):
        part = self._insisting(lambda: self._round(task, chosen, arguments))
        seconds = part.seconds / len(chosen)
        if seconds > _SHORT:
            self.pack_size = None
        elif self.pack_size is None:
            self.pack_size = self._pack_size(seconds)
        return part

    def _round(self, task, chosen, arguments):
        shards = [(place, self.data[i], self.numbers[i]) for place, i in enumerate(chosen)]
        packs, most = _runs(shards, self.pack_size or 1), _FAN_IN if self.pack_size else 1
        graph, keys = _graph(task, packs, len(shards), arguments, most)
        futures = self.client.get(graph, keys, sync=False)
        # Releasing the last ones at once would delay the messages of this round.
        self.client.loop.add_callback(self.client.loop.call_later, 0.01, self.last.clear)
        self.last = futures
        return whole(self._fetched(futures), len(shards))

    def _fetched(self, futures, numbers=()):
        """Return the results of tasks; wait for them, up to the timeout without progress.

        Errors name the shard, if the tasks are those of shards with `numbers`.
        """
        from distributed.comm import CommClosedError

        try:
            return self.client.sync(self._awaited, self.client.gather, futures)
        except Exception as error:
            # Tasks may raise an OSError, too, for example if the file of a shard is missing.
            failed = [i for i, future in enumerate(futures) if future.status == "error"]
            if isinstance(error, OSError) and not failed:
                raise CommClosedError(str(error)) from error
            told = [str(error), *getattr(error, "__notes__", ())]
            if failed and numbers and f"shard {numbers[failed[0]]}" not in "\n".join(told):
                with error_context(numbers[failed[0]]):
                    raise
            raise

    async def _awaited(self, function, *arguments, **options):
        is_sending = function == self.client.scatter
        heartbeats, waited = Heartbeats(), 0.0
        receivers = {*await self._last_seen()} if is_sending else set()
        work = asyncio.ensure_future(function(*arguments, asynchronous=True, **options))
        try:
            while not (await asyncio.wait([work], timeout=_PATIENCE))[0]:
                able = await self.client.scheduler.ncores_running()
                waited = 0.0 if able else waited + _PATIENCE
                if waited > self.worker_timeout:
                    raise DistributionError(_NO_WORKER)
                last_seen = await self._last_seen()
                if not receivers <= last_seen.keys():
                    # Dask may wait for ever for the data that were sent to it.
                    raise ConnectionError("A worker has left while data were sent.")
                silent = heartbeats.silent_for(self.worker_timeout, last_seen)
                await self._check_alive(silent, is_sending)
        finally:
            work.cancel()
        return work.result()

    async def _last_seen(self):
        """Return when the scheduler last heard of each worker."""
        workers = (await self.client.scheduler.identity())["workers"]
        return {worker: known["last_seen"] for worker, known in workers.items()}

    async def _check_alive(self, silent, is_sending):
        """Raise if a silent worker has work or data, or is being sent some."""
        if not silent:
            return
        scheduler = self.client.scheduler
        work, data = await asyncio.gather(
            scheduler.processing(workers=silent), scheduler.has_what(workers=silent)
        )
        for worker in silent:
            if is_sending or work.get(worker) or data.get(worker):
                raise DistributionError(_FROZEN.format(worker))

    def _pack_size(self, seconds):
        """Return the number of such shards for a task, a power of 2: a branch of the tree."""
        try:
            n_threads = sum(self.client.nthreads().values())
        except OSError:
            return None
        n_shards = len(self.data)
        share = max(-(-n_shards // max(1, n_threads)), int(_SHORT / max(seconds, 1e-9)))
        return 1 << (min(share, n_shards) - 1).bit_length()

    def _is_connected(self):
        if self.client.status != "running":
            return False
        try:
            self.client.sync(self.client.scheduler.identity, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError):
            return False
        return True

    def _what_is_gone(self):
        for name, column in zip(self.names, self.source, strict=True):
            for number, x in enumerate(column):
                if is_future(x) and x.cancelled():
                    return _CANCELLED.format(number, name)
        return _GONE

    def _insisting(self, compute):
        """Place the shards if they are not, and compute; repeat if workers are lost."""
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        for attempt in range(_ATTEMPTS):
            if attempt > 0:
                time.sleep(_PAUSE * 2 ** (attempt - 1))
            try:
                if not self.futures:
                    self.futures, self.data = self._placed(), []
                if not self.data and self.template is not None:
                    self.data = self._converted()
                return compute()
            except Exception as error:
                missing = error if isinstance(error, ImportError) else error.__cause__
                if isinstance(missing, ImportError) and "sklearn_onlineem" in str(missing):
                    raise DistributionError(NO_LIBRARY.format(missing)) from error
                is_lost, cause = isinstance(error, FutureCancelledError), error
                is_transport = is_lost or isinstance(error, CommClosedError)
                if self.client.status == "running" and not is_transport:
                    raise
                if (is_lost and "scheduler" in str(error)) or not self._is_connected():
                    raise DistributionError(_NO_SCHEDULER) from error
                if is_lost:
                    if not self.is_local:
                        raise DistributionError(self._what_is_gone()) from error
                    self.futures = []
        raise DistributionError(_NO_END.format(_ATTEMPTS)) from cause


def _same(value):
    return value


def _graph(task, packs, n_parts, arguments, most):
    """Return a Dask graph of a task on packs of shards and of merges, and its last keys."""
    from dask._task_spec import DataNode, List, Task, TaskRef, parse_input

    name, graph = uuid.uuid4().hex, {}
    sent = Arguments(name, arguments)
    if len(packs) > most:
        # Workers pass it on to each other.
        key = f"sent-{name}"
        graph[key], sent = DataNode(key, sent), TaskRef(key)
    keys = [f"{task.__name__}-{name}-{i}" for i in range(len(packs))]
    for key, pack in zip(keys, packs, strict=True):
        places, data, numbers = zip(*pack, strict=True)
        data = List(*map(parse_input, data))
        graph[key] = Task(key, perform, task, data, places, numbers, n_parts, sent)
    level = 0
    while len(keys) > most:
        groups = _runs(keys, _FAN_IN)
        keys = [f"merge-{name}-{level}-{i}" for i in range(len(groups))]
        for key, group in zip(keys, groups, strict=True):
            graph[key] = Task(key, merge, List(*map(TaskRef, group)), n_parts)
        level += 1
    return graph, keys
