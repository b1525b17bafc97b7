"""What threads other than the calling one compute, by the accounts of Linux.

As a program, with a number and a step: a line of JSON, the CPU seconds of the others under each
estimator with one thread, of one estimator in so many.
"""

import json
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

TASKS = Path("/proc/self/task")
# Seconds between two looks at whether all others sleep, and until that is given up.
LOOK, PATIENCE = 0.01, 10.0
# Rows of which BLAS would share out even sums of squares.
N_ROWS = 20_000
ROW_METHODS = ("predict", "predict_proba", "score", "score_samples", "transform", "bic", "aic")


def seconds_of_others(task):
    """CPU seconds that threads other than the calling one spend on a task, and after it."""
    settle()
    before = seconds()
    task()
    settle()
    return seconds() - before


def settle():
    """Wait until all others sleep; those of BLAS go on looking for work for a while."""
    end = time.monotonic() + PATIENCE
    while any(_is_awake(task) for task in _others()) and time.monotonic() < end:
        time.sleep(LOOK)


def _is_awake(task):
    # The name stands in brackets, and may hold brackets.
    return (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"


def seconds():
    """CPU seconds of all threads but the calling one, so far."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in _others()) / 1e9


def _others():
    return [task for task in TASKS.iterdir() if int(task.name) != threading.get_native_id()]


def uses(case, rng):
    """Everything that one does with an estimator, by name."""
    if hasattr(case, "inference"):
        methods, X = case.inference, case.data(rng, N_ROWS // 20)[0]
    else:
        methods, X = ROW_METHODS, case.data(rng, N_ROWS)[0]
    stream = case(n_jobs=1)
    yield "fit", lambda: case(n_jobs=1, max_iter=2).fit(X)
    yield "partial_fit", lambda: stream.partial_fit(X).partial_fit(X)
    # Chains are drawn row by row.
    yield "sample", lambda: stream.sample(N_ROWS // 5 if hasattr(case, "inference") else N_ROWS)
    yield "inference", lambda: [getattr(stream, name)(X) for name in methods]


def main():
    from cases.estimator_cases import ESTIMATORS
    from cases.sequence_cases import KALMAN_FILTERS, SEQUENCE_ESTIMATORS

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 500))
    spent = {"BLAS alone": seconds_of_others(lambda: A @ A)}
    seed, one_in = map(int, sys.argv[1:])
    for case in [*ESTIMATORS, *SEQUENCE_ESTIMATORS, *KALMAN_FILTERS][seed % one_in :: one_in]:
        for name, use in uses(case, rng):
            spent[f"{case}.{name}"] = seconds_of_others(use)
    print(json.dumps(spent))


if __name__ == "__main__":
    main()
