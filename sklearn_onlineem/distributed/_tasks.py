"""Tasks of workers: pure functions of their arguments, so that any worker may repeat them.

They return parts that are merged in a fixed order: bits depend on how the data are cut, and on
nothing else.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils.validation import _num_samples

from sklearn_onlineem._checks import NoStartError
from sklearn_onlineem._values import average, n_bytes
from sklearn_onlineem.data.sequences import LengthDistribution
from sklearn_onlineem.em.schedules import rate_of
from sklearn_onlineem.em.solvers.base import mini_batches
from sklearn_onlineem.em.state import step_rng
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.estimators.fitted import awaits_labels
from sklearn_onlineem.estimators.threads import single_threaded_blas
from sklearn_onlineem.estimators.validation import countable
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics, combine, pooled


@dataclass(frozen=True)
class Result:
    """Result of a task over one shard, or merged results of several."""

    total_weight: float
    # Statistics per observation; or a model, where parameters are averaged.
    content: Statistics | Model
    # Mean per observation.
    log_likelihood: float
    length_distribution: LengthDistribution | None = None
    # CPU time, for the planning of the next rounds.
    seconds: float = 0.0
    n_rows: int = 0
    row_weight: float = 0.0

    # Models take it for the data that it was computed from.
    before = None

    @property
    def steps(self):
        return self.length_distribution.steps

    def __sizeof__(self):
        # Schedulers use it to place tasks.
        return n_bytes(self)


@dataclass(frozen=True)
class LearningTask:
    """Plan of a learner between two merges."""

    schedule: object
    batch_size: int
    # Which batches of its shard it learns from.
    first: int
    n_batches: int
    # Learning rates count in the size of the data that all learners have seen, in such units.
    size_seen: float
    size_unit: float
    # Learners that take such steps at the same time; rates are those of their pooled batches.
    n_learners: int
    # Pairs of (share, Statistics), for an observation of the unit of size.
    prior: tuple
    # Seed of the order of the rows; empty: they keep theirs.
    order_seed: tuple
    # With the number of a step it makes the generator of its draws.
    seed: tuple
    n_steps: int
    # Whether models come back, not their statistics.
    returns_model: bool


@dataclass(frozen=True)
class Arguments:
    """Arguments that Dask identifies by name: hashing a model takes longer than sending it."""

    name: str
    content: tuple

    def __dask_tokenize__(self):
        return self.name

    def __sizeof__(self):
        return sum(map(n_bytes, self.content))


@contextmanager
def error_context(number):
    """Return a context whose errors name the shard: in their message, or in a note."""
    try:
        yield
    except Exception as error:
        if type(error) in (TypeError, ValueError, NoStartError):
            raise type(error)(f"DistributedEM: shard {number}: {error}") from error
        error.add_note(f"DistributedEM: shard {number} raised this.")
        raise


def begin(start, number, names, *values):
    """Return the result of `start`, a function of a shard."""
    with error_context(number):
        return start(**dict(zip(names, values, strict=True)))


def n_entries(number, names, *values):
    """Return the numbers of rows, or sequences, of a shard: all, and those of weight above 0."""
    counted = dict(zip(names, values, strict=True))
    with error_context(number):
        n = _num_samples(countable(counted["X"]))
        weights = counted.get("sample_weight")
        return n, n if weights is None else np.count_nonzero(weights)


def extent(data):
    """Return numbers of the rows, or sequences, of a shard and of rows, and weights of both."""
    return len(data), data.n_rows, data.total_weight, data.row_weight


def prepare(estimator, number, first, names, *values):
    """Return the data of a shard as kernels take them; its rows are numbered from `first`."""
    with error_context(number):
        reader = estimator._input()
        data = reader.read(**dict(zip(names, values, strict=True)))
        if reader.attributes and awaits_labels(estimator):
            raise ValueError("y has labels, and no shard with labels is enough to start from.")
        if not len(data):
            raise ValueError("nothing of it was observed; leave it out.")
    return data.numbered_from(first)


def evidence(data, number, model, seed, n_steps, samples=False):
    # Without values that are cached for models of earlier tasks.
    data, rng = data[:], _rng(model, seed, n_steps)
    if samples and rng is None:
        # Rows have no numbers: shards draw from a stream each, the first one as one machine would.
        rng = np.random.Generator(step_rng(seed, n_steps).bit_generator.jumped(number))
    with single_threaded_blas(data.n_rows):
        statistics, log_likelihood = model.e_step(data, rng=rng)
    lengths = data.length_distribution
    sizes = data.n_rows, data.row_weight
    return Result(data.total_weight, statistics, log_likelihood, lengths, 0.0, *sizes)


def learn(data, number, model, task):
    """Run online EM on some batches of a shard, from the model that all learners share."""
    data, order = data[:], None
    if task.order_seed:
        order = np.random.default_rng((*task.order_seed, number)).permutation(len(data))
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
    lengths = learnt.length_distribution
    content = model if task.returns_model else model.own_statistics(lengths)
    sizes = n_rows, learnt.row_weight
    return Result(weight, content, log_likelihood / weight, lengths, 0.0, *sizes)


def _rng(model, seed, n_steps):
    """Return the generator of a step, the same for all shards; None for exact E-steps."""
    return step_rng(seed, n_steps) if model.draws else None


def perform(task, data, places, numbers, n_parts, arguments):
    """Run a task on the data of some shards, and merge neighbouring results."""
    parts = {}
    for place, X, number in zip(places, data, numbers, strict=True):
        start = time.thread_time()
        part = task(X, number, *arguments.content)
        parts[0, place] = replace(part, seconds=time.thread_time() - start)
    return merge([parts], n_parts)


def merge(groups, n_parts):
    """Merge branches of a binary tree with their siblings, where these are among them.

    Branches are dicts from level and place to `Result`; parts are at level 0. They may arrive in
    any order and grouping: the root, left alone once all parts are in, has the same bits.
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
    """Return the merged result of all parts."""
    (part,) = merge(groups, n_parts).values()
    return part


def _sum(parts):
    total = sum(part.total_weight for part in parts)
    shares = [part.total_weight / total for part in parts]
    contents = [part.content for part in parts]
    if isinstance(contents[0], Model):
        content = average(contents, shares)
    else:
        content = combine(zip(shares, contents, strict=True))
    mean = sum(share * part.log_likelihood for share, part in zip(shares, parts, strict=True))
    sums = (sum(getattr(part, x) for part in parts) for x in ("seconds", "n_rows", "row_weight"))
    lengths = None
    if parts[0].length_distribution is not None:
        lengths = pooled([(part.total_weight, part.length_distribution) for part in parts])
    return Result(total, content, mean, lengths, *sums)
