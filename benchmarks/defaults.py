"""The table that the defaults were chosen from: learning rates, starts and batch sizes.

Streams of real data in batches of 1, 10, 100 and 1000 rows, one pass each; the first batch, from
which the model starts, has several rows for each component. Each cell is the held-out mean
log-likelihood minus that of batch EM to convergence on the same rows, in nats per row: the median
over data sets and seeds (the schedules also have the median of the worst data set). The last table
is of `fit`.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks._timing import seconds
from benchmarks.tasks import TASKS
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Bayesian, Harmonic, PowerDecay, online_step, rate_of
from sklearn_onlineem.families import Rows

BATCHES = (1, 10, 100, 1000)


@dataclass(frozen=True)
class ByRows:
    """A schedule whose time is rows seen, in units of the batch: the same for equal batches.

    After a large first batch, small ones come late instead of second.
    """

    schedule: Callable

    def for_batch(self, n_seen, n_rows):
        return self.schedule(1.0 + n_seen / n_rows)


@dataclass(frozen=True)
class Delayed:
    schedule: Callable
    delay: float

    def __call__(self, t):
        return self.schedule(t + self.delay)


@dataclass(frozen=True)
class Start:
    init: str = "k-means"
    n_passes: int = 3
    rows_per_component: int = 10


POWERS = {
    f"power {eta0:g} / t^{beta:g}": PowerDecay(eta0, beta)
    for eta0, beta in product((0.3, 0.5, 1.0, 2.0), (0.5, 0.6, 0.75, 0.9, 1.0))
}
SCHEDULES = {
    **POWERS,
    "harmonic 1 / t": Harmonic(),
    "harmonic 1 / (t + 20)": Harmonic(c=20.0),
    "power 1 / (t + 20)^0.6": Delayed(PowerDecay(1.0, 0.6), 20.0),
    "power 1 / (t + 20)^0.9": Delayed(PowerDecay(1.0, 0.9), 20.0),
    "bayesian": Bayesian(),
    **{f"{name}, rows": ByRows(schedule) for name, schedule in POWERS.items()},
}
STARTS = {
    f"{init}, {n_passes} passes, {rows} K rows": Start(init, n_passes, rows)
    for init, n_passes, rows in product(
        ("k-means", "k-means++", "random_from_data"), (0, 3, 10), (2, 10, 50)
    )
}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    splits = [
        (task, *task.split(seed, arguments.most_rows), seed)
        for task in TASKS
        for seed in range(arguments.seeds)
    ]
    print("schedules (start: k-means, 3 passes of batch EM, 10 rows for each component)\n")
    table = Table("schedule", *BATCHES, *(f"worst {b}" for b in BATCHES))
    for name, schedule in SCHEDULES.items():
        cells = [losses(splits, batch, schedule, Start()) for batch in BATCHES]
        table.row(name, *(median(c.values()) for c in cells), *(min(c.values()) for c in cells))
    best = ByRows(PowerDecay(arguments.eta0, arguments.beta))
    print(f"\nstarts ({best})\n")
    table = Table("start", *BATCHES, *(f"worst {b}" for b in BATCHES))
    for name, start in STARTS.items():
        cells = [losses(splits, batch, best, start) for batch in BATCHES]
        table.row(name, *(median(c.values()) for c in cells), *(min(c.values()) for c in cells))
    print("\nfit: held-out difference, worst data set, passes, CPU seconds relative to batch EM\n")
    table = Table("batch_size, eta0, beta", "median", "worst", "CPU")
    for batch_size, eta0, beta in product((100, 300, 1000, 3000), (0.5, 1.0, 2.0), (0.6, 0.9)):
        parameters = {"batch_size": batch_size, "eta0": eta0, "beta": beta}
        table.row(", ".join(map(str, parameters.values())), *fit_cells(splits, parameters))


def losses(splits, batch_size, schedule, start):
    """Median over seeds of the held-out difference to batch EM, by data set."""
    by_task = {}
    for task, train, test, seed in splits:
        first = max(start.rows_per_component * task.n_components, batch_size)
        if first < len(train):
            model = streamed(train, first, batch_size, task.n_components, schedule, start, seed)
            difference = model.log_likelihood(Rows(test)).mean() - converged(task, seed)
            by_task.setdefault(task.name, []).append(difference)
    return {name: median(values) for name, values in by_task.items()}
