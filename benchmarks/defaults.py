"""The tables that the defaults were chosen from: learning rates, starts and batch sizes.

Streams of real data in batches of 1, 10, 100 and 1000 rows, one pass each. The first batch, from
which the model starts, is larger where needed: so many rows for each component. Cells are held-out
mean log-likelihoods minus that of batch EM to convergence on the same rows, in nats per row:
medians over seeds, then the median and the worst of the data sets. The last table is of `fit`.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks._timing import CPU, seconds
from benchmarks.tasks import TASKS, Task
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Bayesian, Harmonic, PowerDecay, online_step, rate_of
from sklearn_onlineem.families import Rows

BATCHES = (1, 10, 100, 1000)


@dataclass(frozen=True)
class BySteps:
    """A schedule whose time is the number of updates, plus a delay."""

    schedule: Callable
    delay: float = 0.0

    def __call__(self, t):
        return self.schedule(t + self.delay)


@dataclass(frozen=True)
class ByRows:
    """A schedule whose time is the rows seen, in units of the batch; the same for equal batches.

    Small batches that follow a large one come late instead of second.
    """

    schedule: Callable

    def for_batch(self, n_seen, n_rows):
        return self.schedule(1.0 + n_seen / n_rows)


@dataclass(frozen=True)
class Start:
    init: str = "k-means"
    n_passes: int = 3
    rows_per_component: int = 10

    def __str__(self):
        return f"{self.init}, {self.n_passes} passes, {self.rows_per_component} rows"


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
    def start(self, start, n_rows):
        """The model that batch EM on the first rows leads to."""
        first, n_passes = self.train[:n_rows], start.n_passes
        return self.fitted(first, solver="batch", init=start.init, max_iter=n_passes, tol=0).model_

    def after_stream(self, batch_size, schedule, start):
        """Held-out difference after one pass, or None if there are too few rows for it."""
        n_seen = max(start.rows_per_component * self.task.n_components, batch_size)
        if 2 * n_seen > len(self.train):
            return None
        model = self.start(start, n_seen)
        for t, first in enumerate(range(n_seen, len(self.train), batch_size), start=2):
            rows = Rows(self.train[first : first + batch_size])
            model, _ = online_step(model, rows, rate_of(schedule, t, first, len(rows)))
        return model.log_likelihood(Rows(self.test)).mean() - self.converged

    @cache
    def after_fit(self, batch_size, eta0, beta):
        """Held-out difference, and how many times faster than batch EM."""
        before = time.process_time()
        mixture = self.fitted(self.train, batch_size=batch_size, eta0=eta0, beta=beta)
        elapsed = time.process_time() - before
        return mixture.score(self.test) - self.converged, self.batch_seconds / elapsed


POWERS = [PowerDecay(e, b) for e, b in product((0.3, 0.5, 1.0, 2.0), (0.5, 0.6, 0.75, 0.9, 1.0))]
SCHEDULES = [
    *map(BySteps, POWERS),
    BySteps(PowerDecay(1.0, 0.6), delay=20.0),
    BySteps(PowerDecay(1.0, 0.9), delay=20.0),
    BySteps(Harmonic()),
    BySteps(Harmonic(), delay=20.0),
    Bayesian(),
    *map(ByRows, POWERS),
]
STARTS = [
    Start(init, n_passes, rows)
    for init, n_passes, rows in product(
        ("k-means", "k-means++", "random_from_data"), (1, 3, 10), (2, 10, 50)
    )
]


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    splits = [
        Split(task, seed, *task.split(seed, arguments.most_rows))
        for task in TASKS
        for seed in range(arguments.seeds)
    ]
    best = ByRows(PowerDecay(arguments.eta0, arguments.beta))
    print(f"\n{len(TASKS)} data sets, {arguments.seeds} seeds; start: {Start()}\n")
    stream_table("schedule", splits, {str(s): (s, Start()) for s in SCHEDULES})
    print(f"\n{best}\n")
    stream_table("start", splits, {str(s): (best, s) for s in STARTS})
    print("\nfit; CPU: how many times faster than batch EM\n")
    fit_table(splits)


def stream_table(heading, splits, variants):
    table = Table(heading, *BATCHES, *(f"worst {b}" for b in BATCHES), width=66)
    for name, (schedule, start) in variants.items():
        columns = [
            _by_task(splits, lambda s, b=b: s.after_stream(b, schedule, start)) for b in BATCHES
        ]
        table.row(name, *map(median, columns), *map(min, columns))


def fit_table(splits):
    table = Table("batch_size, eta0, beta", "median", "worst", "CPU", width=66)
    for variant in product((100, 300, 1000, 3000), (0.5, 1.0, 2.0), (0.6, 0.9)):
        differences = _by_task(splits, lambda s, v=variant: s.after_fit(*v)[0])
        ratios = _by_task(splits, lambda s, v=variant: s.after_fit(*v)[1])
        table.row(str(variant), median(differences), min(differences), median(ratios))


def _by_task(splits, measure):
    """Medians over seeds of each task's measurements, where it has any."""
    values = {}
    for split in splits:
        value = measure(split)
        if value is not None:
            values.setdefault(split.task.name, []).append(value)
    return [median(v) for v in values.values()]


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most-rows", type=int, default=5_000)
    parser.add_argument("--full", action="store_const", const=0, dest="most_rows", help="all rows")
    parser.add_argument("--eta0", type=float, default=1.0, help="of the tables of starts")
    parser.add_argument("--beta", type=float, default=0.9, help="of the tables of starts")
    return parser.parse_args()


if __name__ == "__main__":
    main()
