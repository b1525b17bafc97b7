"""Executors of tasks: this process and its children (joblib), or a cluster (Dask).

Both map a task over the shards and merge what comes back by the same tree, so that they give the
same bits.
"""

from __future__ import annotations

import asyncio
import time
import uuid

import numpy as np
from joblib import Parallel, delayed

from sklearn_onlineem.distributed._shards import is_future
from sklearn_onlineem.distributed._tasks import (
    Arguments,
    begin,
    extent,
    merge,
    n_entries,
    perform,
    prepare,
    whole,
)

__all__ = ["DaskExecutor", "DistributionError", "JoblibExecutor"]

# How many tasks a further one merges.
_FAN_IN = 8
# CPU seconds of a task below which more goes to scheduling than to learning.
_SHORT = 0.03
# Seconds until tasks have been sent out.
_LATER = 0.01
# How often data that were sent from here are sent again.
_ATTEMPTS = 4
# Seconds that a scheduler has for an answer, and until it is asked for the workers it has.
_PATIENCE = 5.0

_NO_WORKER = (
    "DistributedEM: for longer than worker_timeout the cluster has had no worker that takes tasks:"
    " there is none, or memory limits have paused all."
)
_FROZEN = (
    "DistributedEM: the worker {} has work or data, and has given no sign of life for longer than"
    " worker_timeout. Stop its process, and Dask does its work elsewhere."
)


class DistributionError(RuntimeError):
    """Loss of data that nobody can compute again, of workers, or of the scheduler."""


class Heartbeats:
    """Signs of life of workers, timed by the clock of this process: those of machines differ."""

    def __init__(self):
        self.heard = {}

    def silent_for(self, seconds, last_seen):
        """Workers whose sign of life has been the same for longer.

        Parameters
        ----------
        seconds : float
        last_seen : dict of str to float
            When the scheduler last heard of each worker, by its own clock.

        Returns
        -------
        workers : list of str
        """
        now, before = time.monotonic(), self.heard
        self.heard = {
            worker: before[worker] if before.get(worker, (None,))[0] == seen else (seen, now)
            for worker, seen in last_seen.items()
        }
        return [worker for worker, (_, since) in self.heard.items() if now - since > seconds]


def _chosen(counts):
    """Which shards are not empty, and how many rows the shards before each have."""
    sizes, n_counting = np.reshape(counts, (-1, 2)).T
    numbers = np.flatnonzero(n_counting).tolist()
    if not numbers:
        raise ValueError("DistributedEM: all shards are empty, or have zero weight.")
    return numbers, (np.cumsum(sizes) - sizes)[numbers].tolist()


def _runs(items, length):
    return [items[i : i + length] for i in range(0, len(items), length)]


class JoblibExecutor:
    """Tasks by joblib, under whatever backend is in force.

    Parameters
    ----------
    columns : dict of str to list
        Shards of local data: X, and what goes with it.
    n_jobs : int or None
    """

    def __init__(self, columns, n_jobs):
        self.names, self.n_jobs = tuple(columns), n_jobs
        self.source = list(zip(*columns.values(), strict=True))
        self.numbers, self.firsts, self.data = [], [], []

    def open(self):
        """Find the shards that are not empty."""
        counts = [n_entries(number, self.names, *part) for number, part in enumerate(self.source)]
        self.numbers, self.firsts = _chosen(counts)

    def begin(self, estimator):
        """The estimator at its start, which the first shard gives."""
        number = self.numbers[0]
        return begin(estimator, number, self.names, *self.source[number])

    def prepare(self, template):
        """Convert the shards; return their sizes and weights."""
        self.data = [
            prepare(template, number, first, self.names, *self.source[number])
            for number, first in zip(self.numbers, self.firsts, strict=True)
        ]
        return [extent(data) for data in self.data]

    def reduce(self, task, chosen, *arguments):
        """Map a task over the chosen shards, and merge."""
        n_jobs = self.n_jobs and min(self.n_jobs, len(chosen))
        with Parallel(n_jobs=n_jobs) as parallel:
            parts = parallel(
                delayed(task)(self.data[i], self.numbers[i], *arguments) for i in chosen
            )
        return whole([{(0, place): part for place, part in enumerate(parts)}], len(parts))


class DaskExecutor:
    """Tasks by dask.distributed; the scheduler places them, and does again what a worker has lost.

    A task costs the scheduler milliseconds. So where shards turn out to be short work, one task
    takes as many as make some, and at least as many as there are for a thread; they move there
    once, and few results are merged here. Else each shard has its own task, and the scheduler a
    free hand. None of this changes a bit.

    Parameters
    ----------
    client : distributed.Client
    columns : dict of str to list
        Shards of local data, or delayed objects and futures: X, and what goes with it.
    is_local : bool
        Whether the data are here, and so can be sent again.
    worker_timeout : float
        Seconds to wait for a worker while none can run a task, or while one is silent.
    """

    def __init__(self, client, columns, is_local, worker_timeout):
        self.client, self.is_local, self.worker_timeout = client, is_local, worker_timeout
        self.names, self.source = tuple(columns), list(columns.values())
        self.template, self.numbers, self.firsts = None, [], []
        self.futures, self.data = [], []
        self.pack_size, self.last = None, []

    def _placed(self):
        """Futures of the raw shards, a list for each name."""
        if self.is_local:
            return [self._sent(column) for column in self.source]
        return [
            [x if is_future(x) else self.client.compute(x) for x in column]
            for column in self.source
        ]

    def _sent(self, column):
        try:
            return self.client.scatter(column, hash=False, timeout=self.worker_timeout)
        except TimeoutError as error:
            raise DistributionError(_NO_WORKER) from error

    def open(self):
        """Find the shards that are not empty."""
        self.futures = self._placed()
        numbers = range(len(self.futures[0]))
        counts = self._insisting(
            lambda: self._gathered(n_entries, numbers, *self._named(self.futures))
        )
        self.numbers, self.firsts = _chosen(counts)

    def begin(self, estimator):
        """The estimator at its start, which the first shard gives."""
        return self._insisting(lambda: self._begun(estimator))

    def _begun(self, estimator):
        number = self.numbers[0]
        first = [column[number] for column in self.futures]
        start = self.client.submit(begin, estimator, number, self.names, *first, pure=False)
        return self._fetched([start])[0]

    def _named(self, columns):
        """Columns of arguments for a task on each shard: the names, and the values."""
        return [self.names] * len(columns[0]), *columns

    def _gathered(self, function, *columns):
        return self._fetched(self._map(function, *columns))

    def _map(self, function, *columns):
        return self.client.map(function, *columns, pure=False)

    def prepare(self, template):
        """Convert the shards; return their sizes and weights."""
        self.template = template
        self._convert()
        return self._insisting(lambda: self._gathered(extent, self.data))

    def _convert(self):
        template = self.client.submit(_same, self.template, pure=False)
        templates = [template] * len(self.numbers)
        chosen = [[column[i] for i in self.numbers] for column in self.futures]
        self.data = self._map(prepare, templates, self.numbers, self.firsts, *self._named(chosen))

    def reduce(self, task, chosen, *arguments):
        """Map a task over the chosen shards, and merge, by one graph."""
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
        # To release the last ones at once would hold up the messages of this round.
        self.client.loop.add_callback(self.client.loop.call_later, _LATER, self.last.clear)
        self.last = futures
        return whole(self._fetched(futures), len(shards))

    def _fetched(self, futures):
        """The results of tasks; waits for them, but not without end where nobody does them."""
        return self.client.sync(self._awaited, futures)

    async def _awaited(self, futures):
        gathering = asyncio.ensure_future(self.client.gather(futures, asynchronous=True))
        waited, heartbeats = 0.0, Heartbeats()
        try:
            while not (await asyncio.wait([gathering], timeout=_PATIENCE))[0]:
                able = await self.client.scheduler.ncores_running()
                waited = 0.0 if able else waited + _PATIENCE
                if waited > self.worker_timeout:
                    raise DistributionError(_NO_WORKER)
                await self._check_alive(heartbeats)
        finally:
            gathering.cancel()
        return gathering.result()

    async def _check_alive(self, heartbeats):
        """Raise where a worker with work or data has been silent for too long."""
        scheduler = self.client.scheduler
        workers = (await scheduler.identity())["workers"]
        last_seen = {worker: known["last_seen"] for worker, known in workers.items()}
        silent = heartbeats.silent_for(self.worker_timeout, last_seen)
        if not silent:
            return
        work, data = await asyncio.gather(
            scheduler.processing(workers=silent), scheduler.has_what(workers=silent)
        )
        for worker in silent:
            if work.get(worker) or data.get(worker):
                raise DistributionError(_FROZEN.format(worker))

    def _pack_size(self, seconds):
        """Number of shards of so much work to a task.

        It is a power of 2, so that a pack is a branch of the tree of merges.
        """
        try:
            n_threads = sum(self.client.nthreads().values())
        except OSError:
            return None
        n_shards = len(self.data)
        share = max(-(-n_shards // max(1, n_threads)), int(_SHORT / max(seconds, 1e-9)))
        return 1 << (min(share, n_shards) - 1).bit_length()

    def _is_connected(self):
        """Whether the scheduler answers."""
        if self.client.status != "running":
            return False
        try:
            self.client.sync(self.client.scheduler.identity, callback_timeout=_PATIENCE)
        except (OSError, TimeoutError):
            return False
        return True

    def _insisting(self, compute):
        """Compute; if data that were sent from here have got lost, send them again."""
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        for attempt in range(_ATTEMPTS):
            try:
                return compute()
            except (FutureCancelledError, CommClosedError) as error:
                is_lost = isinstance(error, CommClosedError) or "scheduler" in str(error)
                if is_lost or not self._is_connected():
                    raise DistributionError(
                        "DistributedEM lost the connection to the Dask scheduler."
                    ) from error
                if not self.is_local or attempt == _ATTEMPTS - 1:
                    raise DistributionError(
                        "DistributedEM: data that only a worker held are gone with it. Pass shards"
                        " that can be computed again: delayed objects or Dask collections."
                    ) from error
                self.futures = self._placed()
                if self.template is not None:
                    self._convert()
        raise AssertionError("not reached")


def _same(value):
    return value


def _graph(task, packs, n_parts, arguments, most):
    """A Dask graph that performs a task on packs of shards, and merges; and its last keys."""
    from dask._task_spec import DataNode, List, Task, TaskRef, parse_input

    name, graph = uuid.uuid4().hex, {}
    sent = Arguments(name, arguments)
    if len(packs) > most:
        # Workers send it on to each other.
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
