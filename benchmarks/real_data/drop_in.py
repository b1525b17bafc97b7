"""What changing the import costs: default fits of ours and of scikit-learn's GaussianMixture.

Held-out mean log-likelihood in nats per row, ours minus scikit-learn's, and how many times faster
ours is (wall and CPU seconds, on one thread). Medians over seeds; each seed splits the data anew.
"""

import argparse
import time
import warnings
from statistics import median

import sklearn.mixture
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import sklearn_onlineem
from benchmarks import records
from benchmarks._table import Table
from benchmarks.real_data.tasks import TASKS


def main():
    arguments = _arguments()
    table = Table("data", "rows", "K", "gain", "worst", "best", "wall ratio", "CPU ratio")
    medians = []
    for task in TASKS:
        with threadpool_limits(1):
            rounds = [compare(task, seed, arguments.most_rows) for seed in range(arguments.seeds)]
        gains, wall, cpu, n_rows = zip(*rounds, strict=True)
        medians.append((median(gains), median(wall), median(cpu), n_rows[0], min(gains)))
        table.row(
            task.name, n_rows[0], task.n_components,
            median(gains), min(gains), max(gains), median(wall), median(cpu),
        )  # fmt: skip
    met = sum(gain >= -0.01 and wall > 1.0 for gain, wall, *_ in medians)
    print(f"\ngain >= -0.01 and faster: {met} of {len(medians)} data sets")
    if arguments.write:
        figures = {
            "gains": [gain for gain, *_ in medians],
            "worst_seed": min(worst for *_, worst in medians),
            "times_faster_from_30000_rows": [cpu for *_, cpu, n, _ in medians if n >= 30_000],
            "times_the_time_below": [1.0 / cpu for *_, cpu, n, _ in medians if n < 30_000],
            "table": table.rows,
        }
        records.write("drop_in", figures)


def compare(task, seed, most_rows):
    """Return gain, wall ratio, CPU ratio and number of training rows of one split."""
    train, test = task.split(seed, most_rows)
    fits = [
        _fitted(package.GaussianMixture(task.n_components, random_state=seed), train)
        for package in (sklearn.mixture, sklearn_onlineem)
    ]
    (theirs, their_wall, their_cpu), (ours, our_wall, our_cpu) = fits
    gain = ours.score(test) - theirs.score(test)
    return gain, their_wall / our_wall, their_cpu / our_cpu, len(train)


def _fitted(mixture, X):
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(X)
    return mixture, time.perf_counter() - wall, time.process_time() - cpu


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--most-rows", type=int, default=50_000, help="0: all rows")
    parser.add_argument("--write", action="store_true", help=records.HELP)
    return parser.parse_args()


if __name__ == "__main__":
    main()
