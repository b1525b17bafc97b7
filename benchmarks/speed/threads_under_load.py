"""Two threads against one, on a machine at rest and on one with a busy processor.

Each row has one process for each way of waiting (OMP_WAIT_POLICY, which OpenMP reads once), in
which one and two threads take turns. Cells are medians of ratios, two threads to one: of wall
seconds (below 1, the second thread pays), and of CPU seconds (above 1, waiting costs others).
The load is a process for each processor but one that does nothing but count.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from statistics import median

import numpy as np

from benchmarks._table import Table
from benchmarks._timing import CPU, WALL
from sklearn_onlineem import GaussianHMM, GaussianMixture, KalmanFilter

WAYS = {"asleep": "PASSIVE", "awake": "ACTIVE"}


def stream(estimator, X, size):
    """Return a function that learns X in batches."""
    estimator.partial_fit(X[:size])
    batches = [X[first : first + size] for first in range(0, len(X), size)]
    return lambda: [estimator.partial_fit(batch) for batch in batches]


def passes(estimator, X):
    """Return a function that makes two passes of batch EM."""
    return lambda: estimator.set_params(solver="batch", max_iter=2, tol=0.0).fit(X)


def tasks(n_jobs):
    """Functions to be timed, by name."""
    rng, common = np.random.default_rng(0), {"random_state": 0, "n_jobs": n_jobs}
    rows, sequences = rng.standard_normal((40_000, 16)), rng.standard_normal((40, 500, 8))
    at_random = {"init": "random_from_data", **common}
    return {
        "mixture, d = 16, passes": passes(GaussianMixture(10, **at_random), rows),
        "mixture, batches of 2,000": stream(GaussianMixture(10, **common), rows, 2_000),
        "HMM, K = 32, passes": passes(GaussianHMM(32, **at_random), sequences),
        "HMM, K = 32, batches of 4": stream(GaussianHMM(32, **common), sequences, 4),
        "Kalman filter, passes": passes(KalmanFilter(4, **common), sequences),
    }


def measured(n_rounds):
    """Ratios of two threads to one: a pair of wall and CPU seconds for each task."""
    one, two = tasks(1), tasks(2)
    return {name: _ratios(one[name], two[name], n_rounds) for name in one}


def _ratios(one, two, n_rounds):
    one(), two()
    pairs = [np.divide(_both(two), _both(one)) for _ in range(n_rounds)]
    return [median(ratios) for ratios in np.transpose(pairs).tolist()]


def _both(run):
    before = WALL(), CPU()
    run()
    return np.subtract((WALL(), CPU()), before)


@contextmanager
def load(n_processes):
    """Processes that keep as many processors busy."""
    counters = [multiprocessing.Process(target=_count, daemon=True) for _ in range(n_processes)]
    for counter in counters:
        counter.start()
    try:
        yield
    finally:
        for counter in counters:
            counter.terminate()


def _count():
    while True:
        pass


def in_a_process(policy, n_rounds):
    command = [sys.executable, "-m", __spec__.name, "--rounds", str(n_rounds), "--measure"]
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help="print the ratios of this process")
    arguments = parser.parse_args()
    if arguments.measure:
        warnings.simplefilter("ignore")
        print(json.dumps(measured(arguments.rounds)))
        return
    columns = [f"{way}, {clock}" for way in WAYS for clock in ("wall", "CPU")]
    for title, n_busy in (("at rest", 0), ("busy", max(1, os.cpu_count() - 1))):
        table = Table(title, *columns, width=30)
        with load(n_busy):
            found = [in_a_process(policy, arguments.rounds) for policy in WAYS.values()]
        for name in found[0]:
            table.row(name, *(ratio for ratios in found for ratio in ratios[name]))


if __name__ == "__main__":
    main()
