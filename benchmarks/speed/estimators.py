"""Speed of what users call, for comparing two checkouts of this library.

    python -m benchmarks.speed.estimators
    python -m benchmarks.speed.estimators --before ../before/.venv/bin/python

The first prints the CPU seconds of each case as JSON: the least of several rounds. The second
compares the present checkout with another, whose interpreter it is given: each is a process of its
own, which runs a case when it is asked to, by turns. The table shows how many times as long a case
takes now as it did before: the median of the ratios of neighbouring runs, and that of the least
times, which are disturbed less. Equal work is shown by equal results. All cases have one thread.

This file needs no other of this folder, so that it runs with the package of either checkout.
"""

import argparse
import copy
import json
import math
import subprocess
import sys
import time
import warnings
from statistics import median

import numpy as np
from scipy import sparse
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sklearn_onlineem import (
    CategoricalHMM,
    CompoundDirichlet,
    EditDistance,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonMixture,
    combine_estimators,
)
from sklearn_onlineem.distributed import DistributedEM

COMMON = {"random_state": 0, "n_jobs": 1}
PASSES = {"solver": "batch", "max_iter": 10, "tol": 0.0, **COMMON}
ONE_PASS = {"max_iter": 1, **COMMON}  # in mini-batches

# ------------------------------------------------------------------------------------------- data


def rows(n_rows, n_features=16, n_clusters=8, dtype=np.float64):
    rng = np.random.default_rng(0)
    means = 3.0 * rng.normal(size=(n_clusters, n_features))
    return (means[np.arange(n_rows) % n_clusters] + rng.normal(size=(n_rows, n_features))).astype(
        dtype
    )


def counts(n_rows, n_features, n_topics=8):
    rng = np.random.default_rng(0)
    rates = rng.gamma(0.1, 1.0, size=(n_topics, n_features))
    return rng.poisson(rates[np.arange(n_rows) % n_topics]).astype(np.float64)


def sequences(n_sequences, length, n_features=4):
    return list(rows(n_sequences * length, n_features).reshape(n_sequences, length, n_features))


def symbols(n_sequences, length, n_symbols=20):
    rng = np.random.default_rng(0)
    return list(rng.integers(n_symbols, size=(n_sequences, length, 1)).astype(np.float64))


def pairs(n_pairs):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), n)) for n in rng.integers(3, 12, n_pairs)]
    return [(word[1:] + word[0], word) for word in words]


# ------------------------------------------------------------------------------------------ cases


def fit(estimator, X):
    return lambda: clone(estimator).fit(X).lower_bound_


def updates(estimator, first, batch, n_calls, **where):
    """Calls of `partial_fit` after a first batch; each round begins with the same model."""

    started = estimator.partial_fit(first)

    def run():
        learner = copy.deepcopy(started)
        for _ in range(n_calls):
            learner.partial_fit(batch, **where)
        return learner.lower_bound_

    return run


def gaussian_fit(kind, parameters, dtype=np.float64, n_rows=20_000):
    mixture = GaussianMixture(8, covariance_type=kind, **parameters)
    return fit(mixture, rows(n_rows, dtype=dtype))


def gaussian_updates(kind, n_rows, n_calls=400):
    mixture = GaussianMixture(10, covariance_type=kind, **COMMON)
    return updates(mixture, rows(1000), rows(n_rows), n_calls)


def merging():
    members = [GaussianMixture(8, **COMMON).partial_fit(rows(1000) + i) for i in range(3)]

    def run():
        for _ in range(100):
            merged = combine_estimators(members)
        return float(merged.means_.sum())

    return run


def distributed():
    mixture = GaussianMixture(8, max_iter=10, tol=0.0, **COMMON)
    learner = DistributedEM(mixture, n_shards=4)
    X = rows(20_000)
    return lambda: learner.fit(X).estimator_.lower_bound_


def small_fits():
    mixture, X = GaussianMixture(3, **COMMON), rows(150, 4, 3)

    def run():
        for _ in range(30):
            found = clone(mixture).fit(X).lower_bound_
        return found

    return run


def sparse_counts(parameters):
    return fit(PoissonMixture(8, **parameters), sparse.csr_array(counts(20_000, 200)))


CASES = {
    "GaussianMixture.fit, full, 10 passes": lambda: gaussian_fit("full", PASSES),
    "GaussianMixture.fit, diag, 10 passes": lambda: gaussian_fit("diag", PASSES),
    "GaussianMixture.fit, full, float32": lambda: gaussian_fit("full", PASSES, np.float32),
    "GaussianMixture.fit, diag, float32": lambda: gaussian_fit("diag", PASSES, np.float32),
    "GaussianMixture.fit, full, online pass": lambda: gaussian_fit("full", ONE_PASS),
    "GaussianMixture.fit, diag, online pass": lambda: gaussian_fit(
        "diag", ONE_PASS, n_rows=100_000
    ),
    "GaussianMixture.fit, online, float32": lambda: gaussian_fit("full", ONE_PASS, np.float32),
    "GaussianMixture.fit, default": lambda: gaussian_fit("full", COMMON),
    "GaussianMixture.fit, 150 rows": small_fits,
    "GaussianMixture.partial_fit, 1 row": lambda: gaussian_updates("full", 1),
    "GaussianMixture.partial_fit, 10 rows": lambda: gaussian_updates("full", 10),
    "GaussianMixture.partial_fit, 100 rows": lambda: gaussian_updates("full", 100),
    "GaussianMixture.partial_fit, diag, 1 row": lambda: gaussian_updates("diag", 1),
    "PoissonMixture.fit, CSR, 10 passes": lambda: sparse_counts(PASSES),
    "PoissonMixture.fit, CSR, online pass": lambda: sparse_counts(ONE_PASS),
    "PoissonMixture.partial_fit, 1 row": lambda: updates(
        PoissonMixture(8, **COMMON), counts(1000, 20), counts(1, 20), 400
    ),
    "GaussianHMM.fit, diag": lambda: fit(GaussianHMM(8, **PASSES), sequences(200, 50)),
    "GaussianHMM.fit, full": lambda: fit(
        GaussianHMM(8, covariance_type="full", **PASSES), sequences(200, 50)
    ),
    "GaussianHMM.fit, default": lambda: fit(
        GaussianHMM(4, batch_size=50, **COMMON), sequences(200, 50)
    ),
    "GaussianHMM.partial_fit, 1 row": lambda: updates(
        GaussianHMM(4, **COMMON), sequences(20, 50), rows(1, 4), 400, continues=True
    ),
    "CategoricalHMM.fit": lambda: fit(CategoricalHMM(8, n_features=20, **PASSES), symbols(400, 50)),
    "KalmanFilter.fit": lambda: fit(KalmanFilter(3, **PASSES), sequences(400, 50)),
    "KalmanFilter.partial_fit, 10 sequences": lambda: updates(
        KalmanFilter(3, **COMMON), sequences(20, 50), sequences(10, 50), 100
    ),
    "KalmanFilter.partial_fit, 1 row": lambda: updates(
        KalmanFilter(3, **COMMON), sequences(20, 50), rows(1, 4), 400, continues=True
    ),
    "EditDistance.fit, tied": lambda: fit(EditDistance(**PASSES), pairs(8000)),
    "EditDistance.fit, full": lambda: fit(EditDistance("full", **PASSES), pairs(8000)),
    "EditDistance.partial_fit, 1 pair": lambda: updates(
        EditDistance(**COMMON), pairs(100), pairs(1), 400
    ),
    "CompoundDirichlet.fit, 10 passes": lambda: fit(
        CompoundDirichlet(**PASSES), counts(20_000, 50)
    ),
    "CompoundDirichlet.fit, newton": lambda: fit(
        CompoundDirichlet(solver="newton", **COMMON), counts(20_000, 50)
    ),
    "CompoundDirichlet.fit, default": lambda: fit(
        CompoundDirichlet(**ONE_PASS), counts(20_000, 50)
    ),
    "combine_estimators, 3 mixtures": merging,
    "DistributedEM.fit": distributed,
}


# ---------------------------------------------------------------------------------------- turns


class Stopwatch:
    """Runs cases when it is asked to; each has its data made, and is run once, at first."""

    def __init__(self):
        self.name, self.run = None, None

    def seconds(self, name):
        """CPU seconds, and what the case has found."""
        if name != self.name:
            self.name, self.run = name, CASES[name]()
            self.run()
        start = time.process_time()
        found = self.run()
        return time.process_time() - start, found


def serve():
    """Answer each line of the input, the name of a case, by a line."""
    stopwatch = Stopwatch()
    for line in sys.stdin:
        print(json.dumps(stopwatch.seconds(line.rstrip("\n"))), flush=True)


class Checkout:
    """A process with an interpreter of its own, and the package that this one has."""

    def __init__(self, python):
        self.process = subprocess.Popen(
            [python, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, name):
        print(name, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def by_turns(old, new, name, is_odd):
    """Seconds and results of both; who is first changes, too."""
    if is_odd:
        return by_turns(new, old, name, False)[::-1]
    return old.seconds(name), new.seconds(name)


def compare(python, names, n_rounds):
    old, new = Checkout(python), Checkout(sys.executable)
    print(f"{'now / before':<44}{'median':>10}{'least':>10}  work", flush=True)
    for name in names:
        rounds = [by_turns(old, new, name, is_odd=i % 2) for i in range(n_rounds)]
        before, now = np.array(rounds).transpose(1, 2, 0)  # each of them seconds and results
        middle, least = median(now[0] / before[0]), now[0].min() / before[0].min()
        same = math.isclose(before[1, 0], now[1, 0], rel_tol=1e-6)
        work = "equal" if same else f"{before[1, 0]:.6g}, {now[1, 0]:.6g}"
        print(f"{name:<44}{middle:10.3f}{least:10.3f}  {work}", flush=True)
    old.close(), new.close()


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore")
    names = [name for name in CASES if arguments.only in name]
    with threadpool_limits(1):
        if arguments.serve:
            return serve()
        if arguments.before:
            return compare(arguments.before, names, arguments.rounds)
        stopwatch, n = Stopwatch(), arguments.rounds
        print(json.dumps({k: min(stopwatch.seconds(k)[0] for _ in range(n)) for k in names}))


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", help="interpreter of the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="part of the names of the cases")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
