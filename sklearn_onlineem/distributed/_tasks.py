"""Tasks of workers: pure functions of their arguments, so that any worker may repeat them.

What comes back are parts, which merge in a fixed order; bits depend on how the data are cut and on
nothing else.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _num_samples

from sklearn_onlineem._values import n_bytes
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.solvers.base import mini_batches
from sklearn_onlineem.em.state import step_rng
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import countable
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine, pooled

__all__ = [
    "LearningTask",
    "Arguments",
    "Result",
    "begin",
    "evidence",
    "extent",
    "learn",
    "merge",
    "n_entries",
    "perform",
    "prepare",
    "whole",
]


@dataclass(frozen=True)
class Result:
    """Result of a task over one shard, or merged results of several.

    Parameters
    ----------
    total_weight : float
        Rows, or sequences.
    content : Statistics or Model
        Statistics per observation; or a model, where parameters are averaged.
    log_likelihood : float
        Mean per observation.
    length_distribution : LengthDistribution, default=None
        Distribution of the lengths, where the model asks for one.
    seconds : float, default=0.0
        CPU time that it took, for the planning of the next rounds.
    n_rows : int, default=0
        Rows, of sequences too, or pairs of strings.
    """

    total_weight: float
    content: Statistics | Model
    log_likelihood: float
    length_distribution: LengthDistribution | None = None
    seconds: float = 0.0
    n_rows: int = 0

    # To a model it is the data that it was made of.
    before = None

    @property
    def survival(self):
        """Share of the sequences with more than t rows, t = 0, 1, ..."""
        return self.length_distribution.survival

    def __sizeof__(self):
        # Schedulers place tasks by it.
        return n_bytes(self)


@dataclass(frozen=True)
class LearningTask:
    """Plan of a learner between two merges.

    Parameters
    ----------
    schedule : callable
    batch_size : int
    first, n_batches : int
        Which batches of its shard it learns from.
    size_seen : float
        Size of the data that all learners have seen before.
    size_unit : float
        Size of an observation: learning rates count in these.
    n_learners : int
        Learners that take such steps at the same time; rates are those of their pooled batches.
    prior : tuple of (float, Statistics)
        For an observation of the unit of size.
    order_seed : tuple of int
        Of the order of the rows; empty where they are taken as they come.
    seed : tuple of int
        Of the state: with the number of a step it makes the generator of its draws.
    n_steps : int
        Steps before.
    returns_model : bool
        Whether models come back, not their statistics.
    """

    schedule: object
    batch_size: int
    first: int
    n_batches: int
    size_seen: float
    size_unit: float
    n_learners: int
    prior: tuple
    order_seed: tuple
    seed: tuple
    n_steps: int
    returns_model: bool


@dataclass(frozen=True)
class Arguments:
    """Arguments that Dask knows by name: to hash a model takes longer than to send it."""

    name: str
    content: tuple

    def __dask_tokenize__(self):
        return self.name

    def __sizeof__(self):
        return sum(map(n_bytes, self.content))


@contextmanager
def _naming(number):
    """Let invalid input be reported with the number of its shard."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"DistributedEM: shard {number}: {error}") from error


def begin(estimator, number, names, *values):
    """A fitted estimator at its start."""
    with _naming(number):
        return estimator._begin(**dict(zip(names, values, strict=True)))


def n_entries(number, names, *values):
    """Number of rows, or of sequences, of a shard, and of those whose weight is not 0."""
    counted = dict(zip(names, values, strict=True))
    with _naming(number):
        n = _num_samples(countable(counted["X"]))
        weights = counted.get("sample_weight")
        return n, n if weights is None else np.count_nonzero(weights)


def extent(data):
    """Rows, or sequences, of a shard, what they weigh, and rows of all sequences."""
    return len(data), data.total_weight, data.n_rows


def prepare(estimator, number, first, names, *values):
    """The data of a shard, whose rows are those from `first` on, as kernels take them."""
    with _naming(number):
        data = estimator._input().read(**dict(zip(names, values, strict=True)))
    return data.numbered_from(first)


def evidence(data, number, model, seed, n_steps):
    """E-step of a shard."""
    data, rng = _own(data), _rng(model, seed, n_steps)
    with single_threaded_blas(data.n_rows):
        statistics, log_likelihood = _kernel_ready(model).e_step(data, rng=rng)
    lengths = model.lengths(data)
    return Result(data.total_weight, statistics, log_likelihood, lengths, n_rows=data.n_rows)


def learn(data, number, model, task):
    """Online EM on some batches of a shard, from the model that all learners share."""
    data, model = _own(data), _kernel_ready(model)
    order = _order(len(data), (*task.order_seed, number) if task.order_seed else ())
    begin = task.first * task.batch_size
    end = min(begin + task.n_batches * task.batch_size, len(data))
    size, n_rows, weight, log_likelihood = 0.0, 0, 0.0, 0.0
    with single_threaded_blas(task.batch_size):
        batches = mini_batches(data, task.batch_size, order, begin, end)
        for n_steps, batch in enumerate(batches, start=task.n_steps):
            n_batch, batch_size = batch.total_weight, model.size_of(batch) / task.size_unit
            size_seen = task.size_seen + task.n_learners * size
            eta = rate_of(task.schedule, size_seen, task.n_learners * batch_size)
            prior = [(share * (batch_size / n_batch), term) for share, term in task.prior]
            rng = _rng(model, task.seed, n_steps)
            model, mean = online_step(model, batch, eta, prior, rng)
            size, n_rows, weight = size + batch_size, n_rows + batch.n_rows, weight + n_batch
            log_likelihood += n_batch * mean
    learnt = data[begin:end] if order is None else data[order[begin:end]]
    lengths = model.lengths(learnt)
    content = model if task.returns_model else model.own_statistics(lengths)
    return Result(weight, content, log_likelihood / weight, lengths, n_rows=n_rows)


def _rng(model, seed, n_steps):
    """The generator of a step, the same for all shards; None where nothing is drawn."""
    return step_rng(seed, n_steps) if model.draws else None


def _order(n, seed):
    """Row numbers, shuffled; None where they stay as they are."""
    return np.random.default_rng(seed).permutation(n) if seed else None


def perform(task, data, places, numbers, n_parts, arguments):
    """Do a task on the data of some shards, and merge what comes of neighbours."""
    shards = zip(places, data, numbers, strict=True)
    parts = {(0, place): _timed(task, X, number, *arguments.content) for place, X, number in shards}
    return merge([parts], n_parts)


def _timed(task, *arguments):
    start = time.thread_time()
    part = task(*arguments)
    return replace(part, seconds=time.thread_time() - start)


def merge(groups, n_parts):
    """Merge branches of a binary tree over parts with their siblings, where these are here.

    Parts may meet in any order and company, and what comes out has the same bits.

    Parameters
    ----------
    groups : list of dicts of (int, int) to Result
        Branches by level and place; parts are at level 0.
    n_parts : int
        Parts of the whole tree.

    Returns
    -------
    branches : dict of (int, int) to Result
        The root alone, once all parts are in.
    """
    branches = {place: branch for group in groups for place, branch in group.items()}
    level, width = 0, n_parts
    while width > 1:
        for place in sorted(place for at, place in branches if at == level and place % 2 == 0):
            pair = [(level, place), (level, place + 1)][: width - place]
            if all(branch in branches for branch in pair):
                parts = [branches.pop(branch) for branch in pair]
                branches[level + 1, place // 2] = parts[0] if len(parts) == 1 else _sum(parts)
        level, width = level + 1, (width + 1) // 2
    return branches


def whole(groups, n_parts):
    """Merged results of all parts; groups are as in `merge`."""
    (part,) = merge(groups, n_parts).values()
    return _kernel_ready(part)


def _sum(parts):
    """Merged results of several parts."""
    parts = [_kernel_ready(part) for part in parts]
    total = sum(part.total_weight for part in parts)
    shares = [part.total_weight / total for part in parts]
    contents = [part.content for part in parts]
    if isinstance(contents[0], Model):
        content = Model.averaged(contents, shares)
    else:
        content = combine(zip(shares, contents, strict=True))
    mean = sum(share * part.log_likelihood for share, part in zip(shares, parts, strict=True))
    seconds, n_rows = (sum(getattr(part, name) for part in parts) for name in ("seconds", "n_rows"))
    return Result(total, content, mean, _lengths(parts), seconds, n_rows)


def _lengths(parts):
    if parts[0].length_distribution is None:
        return None
    return pooled([(part.total_weight, part.length_distribution) for part in parts])


def _own(data):
    """The data, aligned, without what earlier tasks have computed about them.

    That is kept by object, and each task has a model of its own.
    """
    return _kernel_ready(data)[:]


def _kernel_ready(value):
    """Arrays as kernels take them: a network hands over some at any address."""
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["A", "C"])
    if sparse.issparse(value):
        parts = tuple(_kernel_ready(part) for part in (value.data, value.indices, value.indptr))
        return type(value)(parts, shape=value.shape)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    values = {f.name: getattr(value, f.name) for f in fields(value)}
    aligned = {name: _kernel_ready(part) for name, part in values.items()}
    changed = {name: part for name, part in aligned.items() if part is not values[name]}
    return replace(value, **changed) if changed else value
