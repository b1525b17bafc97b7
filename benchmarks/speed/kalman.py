"""Speed of one EM pass of Kalman filters (state 5, rows of 10), against rivals in the same run.

Both sides take turns on one processor, in double precision; cells are medians of the ratios of
their CPU seconds. Passes are those of a fit: on both sides the data are at hand in the form that
passes take, and ours remember the moments of the rows, which no model changes. Equal work is proved
by equal log-likelihoods. The rivals are dynamax (compiled), pykalman, which takes one complete
sequence and is very slow (``--pykalman``), and the smoothers of simdkalman, for many sequences, and
of statsmodels, for missing values, with an EM pass of ours (``pip install dynamax pykalman
simdkalman statsmodels``).
"2 threads" compares ours with itself in the best wall seconds, on two processors.
"""

import argparse
import math
import os

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._rows import Row, compared, rival
from benchmarks._table import Table
from benchmarks._timing import CPU, ratio, scaling
from benchmarks.floors import Operations
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.kalman.regression import Regression

N_STATES, N_FEATURES, MISSING = 5, 10, 0.1
# Number of sequences, their length, share of missing values, rival, and how many times faster.
REQUIRED = [
    (2000, 50, 0.0, "dynamax", 5.0),
    (1, 50_000, 0.0, "dynamax", 70.0),
    (1, 50_000, 0.0, "pykalman", 70.0),
    (1, 20_000, MISSING, "statsmodels", 5.0),
    (1000, 100, 0.0, "simdkalman", 2.0),
]
SMOOTHERS = "statsmodels", "simdkalman"
THREADS_REQUIRED = 1.6
# Offsets are known.
LEARNT = frozenset({"matrix", "covariance"})


def main():
    arguments = _arguments()
    cpus = sorted(os.sched_getaffinity(0))
    table = Table("sequences, rival", "ratio", "required", "")
    for n_sequences, length, missing, library, least in REQUIRED:
        title = f"{n_sequences} of {length}, {missing:.0%} missing, {library}"
        if arguments.only not in title or (library == "pykalman" and not arguments.pykalman):
            continue
        X, model = draw(n_sequences * length, missing)
        os.sched_setaffinity(0, cpus[:1])
        found = against(library, X, n_sequences, model, arguments.rounds)
        os.sched_setaffinity(0, cpus)
        verdict = "not installed" if found is None else "met" if found >= least else "NOT MET"
        table.row(title, found or "", least, verdict)
    for missing in (0.0, MISSING):
        title = f"2000 of 50, {missing:.0%} missing, 2 threads"
        if arguments.only in title:
            found = threaded(*draw(100_000, missing), 2000)
            verdict = "met" if found >= THREADS_REQUIRED else "NOT MET"
            table.row(title, found, THREADS_REQUIRED, verdict)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data."""
    for n_sequences, length, missing, library, _ in REQUIRED:
        if library == "pykalman":
            continue  # takes minutes
        n_sequences = max(1, int(share * n_sequences))
        length = length if n_sequences > 1 else max(1000, int(share * length))
        X, model = draw(n_sequences * length, missing)
        modules = rival(f"{library}_kalman"), None if missing else rival("numba_kalman")
        theirs, baseline = (one and one.one_pass(X, n_sequences, model) for one in modules)
        found = compared(
            ours(X, n_sequences, model), theirs, n_rounds,
            None if missing else operations(len(X)), rel_tol=1e-8, baseline=baseline,
        )  # fmt: skip
        kind = "many sequences" if n_sequences > 1 else "one long sequence"
        kind += ", a tenth missing" if missing else ""
        what = f"the smoother of {library}" if library in SMOOTHERS else library
        yield Row(f"a pass of EM, Kalman filter, {kind}", f"{len(X):,} rows", what, *found)


def operations(n_rows):
    """The least for complete rows, of which all share their gains: means, and sums of products.

    The log-likelihood follows from these sums and from the covariances. Rows are not counted as
    bytes, as between passes they may stay in a cache.
    """
    k, d = N_STATES, N_FEATURES
    means = (k * k + k * d) + k * k
    return Operations(n_rows * (means + k * (k + 1) / 2 + k * k + k * d))


def draw(n_rows, missing):
    """Rows, and a model near those that they could come from."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(N_STATES, N_STATES)))[0]
    C = rng.normal(size=(N_FEATURES, N_STATES))
    model = LinearDynamicalModel(
        initial=regression(np.empty((N_STATES, 0)), 1.0, frozenset({"offset", "covariance"})),
        transitions=regression(0.9 * turn, 0.3, LEARNT),
        emissions=regression(C, 0.5, LEARNT),
    )
    like = Sequences(Rows(np.empty((1000, 0))), np.array([0, 1000]))
    X = model.sample(-(-n_rows // 1000), rng, like)[0].X[:n_rows]
    X[rng.random(X.shape) < missing] = np.nan
    return np.ascontiguousarray(X), model


def regression(matrix, variance, learnt):
    """A regression without an offset, whose noise is spherical."""
    d = len(matrix)
    parameters = AffineGaussian.single(matrix, np.zeros(d), variance * np.eye(d))
    return Regression(LinearGaussian(), parameters, learnt)


def ours(X, n_sequences, model, n_threads=1):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""
    offsets = np.linspace(0, len(X), n_sequences + 1).astype(np.int64)
    data = Sequences(Rows(X, n_threads=n_threads), offsets)

    def run():
        return batch_step(model, data)[1] * n_sequences

    return run


def against(library, X, n_sequences, model, n_rounds):
    """How many times faster than a rival ours is in CPU seconds, or None without the rival."""
    module = rival(f"{library}_kalman")
    if module is None:
        return None
    with threadpool_limits(1):
        theirs, mine = module.one_pass(X, n_sequences, model), ours(X, n_sequences, model)
        assert math.isclose(theirs(), mine(), rel_tol=1e-8)
        return ratio(theirs, mine, CPU, n_rounds)


def threaded(X, model, n_sequences):
    """How many times faster than on one thread ours is on two, in wall seconds."""
    with threadpool_limits(1):
        one, two = (ours(X, n_sequences, model, n_threads) for n_threads in (1, 2))
        assert one() == two()
        return scaling(one, two)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the titles of the rows to run")
    parser.add_argument("--pykalman", action="store_true", help="wait for pykalman, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
