"""The tables that the defaults were chosen from: learning rates, starts and batch sizes.

Streams of real data in batches of 1, 10, 100 and 1000 rows, one pass each. The first batch, from
which the model starts, is larger where needed: so many rows for each component. Cells are held-out
mean log-likelihoods minus that of batch EM to convergence on the same rows, in nats per row:
medians over seeds, then the median and the worst of the data sets. The last table is of `fit`.

Schedules count time in batches of the present size, t = 1 + rows before / rows of the batch.
"Sized" ones also know how many rows it takes to determine the model.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from statistics import median
from unittest.mock import patch

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks._timing import CPU, seconds
from benchmarks.real_data.tasks import TASKS, Task
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import Harmonic, PowerDecay
from sklearn_onlineem.em.schedules import PowerDecayInRows, rate_of
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.estimators import _base, _start

BATCHES = (1, 10, 100, 1000)


def sized(beta):
    """The default schedule, for a model whose size is filled in when it is known."""
    return PowerDecayInRows(rows_needed=1.0, beta=beta)


@dataclass(frozen=True)
class Delayed:
    schedule: Callable
    delay: float

    def __call__(self, t):
        return self.schedule(t + self.delay)


@dataclass(frozen=True)
class Start:
    """What `partial_fit` makes of its first batch; see the constants that `made` sets."""

    init: str = "k-means"
    rows_per_component: int = 10
    wide_share: float = _start._WIDE_SHARE
    n_passes: int = _base._START_PASSES

    def made(self, task, seed, X):
        mixture = GaussianMixture(task.n_components, init=self.init, random_state=seed)
        with (
            patch.object(_start, "_WIDE_SHARE", self.wide_share),
            patch.object(_base, "_START_PASSES", self.n_passes),
        ):
            return mixture.partial_fit(X).model_


@dataclass(frozen=True, eq=False)
class Split:
    """Training and held-out rows of a task."""

    task: Task
    seed: int
    train: np.ndarray
    test: np.ndarray

    def fitted(self, X, **parameters):
        mixture = GaussianMixture(self.task.n_components, random_state=self.seed, **parameters)
        return mixture.fit(X)

    @cached_property
    def converged(self):
        """Held-out log-likelihood of batch EM."""
        batch = self.fitted(self.train, solver="batch", max_iter=1000, tol=1e-5)
        return batch.score(self.test)

    @cached_property
    def batch_seconds(self):
        """CPU seconds of batch EM with its default `tol`."""
        return seconds(lambda: self.fitted(self.train, solver="batch"), CPU)


@cache
def started(split, start, n_rows):
    return start.made(split.task, split.seed, split.train[:n_rows])


def after_stream(split, batch_size, schedule, start):
    """Held-out difference after one pass, or None if there are too few rows for it."""
    n_first = max(start.rows_per_component * split.task.n_components, batch_size)
    if 2 * n_first > len(split.train):
        return None
    model = started(split, start, n_first)
    if isinstance(schedule, PowerDecayInRows):
        n_parameters = model.family.n_parameters(model.parameters)
        schedule = replace(schedule, rows_needed=n_parameters / split.train.shape[1])
    for n_seen in range(n_first, len(split.train), batch_size):
        rows = Rows(split.train[n_seen : n_seen + batch_size])
        model, _ = online_step(model, rows, rate_of(schedule, n_seen, len(rows)))
    return model.log_likelihood(Rows(split.test)).mean() - split.converged


def after_fit(split, batch_size, eta0, beta):
    """Held-out difference, and how many times faster than batch EM."""
    before = time.process_time()
    mixture = split.fitted(split.train, batch_size=batch_size, eta0=eta0, beta=beta)
    elapsed = time.process_time() - before
    return mixture.score(split.test) - split.converged, split.batch_seconds / elapsed


SCHEDULES = [
    *map(sized, (0.5, 0.6, 0.75, 0.9)),
    *(PowerDecay(e, b) for e, b in product((0.3, 0.5, 1.0, 2.0), (0.5, 0.6, 0.75, 0.9, 1.0))),
    Delayed(PowerDecay(1.0, 0.6), 20.0),
    Delayed(PowerDecay(1.0, 0.9), 20.0),
    Harmonic(),
]
STARTS = [
    *(Start(*how) for how in product(("k-means", "k-means++", "random_from_data"), (2, 10, 50))),
    *(Start("k-means", *how) for how in product((10,), (0.03, 0.1, 0.3), (0, 3, 10))),
]


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    splits = drawn(arguments.seeds, arguments.most_rows)
    best = sized(arguments.beta)
    print(f"{len(TASKS)} data sets, {arguments.seeds} seeds\n\n{Start()}\n")
    stream_table("schedule", splits, {str(s): (s, Start()) for s in SCHEDULES})
    print(f"\n{best}\n")
    stream_table("start", splits, {str(s): (best, s) for s in STARTS})
    print("\nfit; CPU: how many times faster than batch EM\n")
    fit_table(drawn(arguments.seeds, 8 * arguments.most_rows))


def drawn(n_seeds, most_rows):
    return [
        Split(task, seed, *task.split(seed, most_rows)) for task in TASKS for seed in range(n_seeds)
    ]


def stream_table(heading, splits, variants):
    table = Table(heading, *BATCHES, *(f"worst {b}" for b in BATCHES), width=66)
    for name, (schedule, start) in variants.items():
        columns = [by_task(after_stream, splits, batch, schedule, start) for batch in BATCHES]
        table.row(name, *map(median, columns), *map(min, columns))


def fit_table(splits):
    table = Table("batch_size, eta0, beta", "median", "worst", "CPU", width=66)
    for variant in product((100, 300, 1000, 3000), (0.5, 1.0, 2.0), (0.6, 0.9)):
        differences, ratios = np.transpose(by_task(after_fit, splits, *variant))
        table.row(str(variant), median(differences), min(differences), median(ratios))


def by_task(measure, splits, *variant):
    """Medians over seeds for each task, where there are values."""
    values = {}
    for split in splits:
        value = measure(split, *variant)
        if value is not None:
            values.setdefault(split.task.name, []).append(value)
    return [np.median(v, axis=0) for v in values.values()]


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most-rows", type=int, default=3_000)
    parser.add_argument("--full", action="store_const", const=0, dest="most_rows", help="all rows")
    parser.add_argument("--beta", type=float, default=0.6, help="of the table of starts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
