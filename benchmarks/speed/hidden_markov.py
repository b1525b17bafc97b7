"""Speed of one EM pass of hidden Markov models, against rivals in the same run.

Both sides take turns on one processor, in double precision; cells are medians of the ratios of
their CPU seconds. Equal work is proved by equal log-likelihoods. The rivals are hmmlearn (its
"scaling" implementation) and dynamax (compiled; ``pip install hmmlearn dynamax``); the better one
counts. "2 threads" compares ours with itself in the best wall seconds, on two processors.
"""

import argparse
import math
import os
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._rows import Row, compared, rival
from benchmarks._table import Table
from benchmarks._timing import CPU, ratio, scaling
from benchmarks.floors import Operations
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em.step import batch_step
from sklearn_onlineem.families import Categorical, Diagonal, Full, Gaussian, Gaussians
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel

hmmlearn_hmm, dynamax_hmm = rival("hmmlearn_hmm"), rival("dynamax_hmm")
numba_hmm = rival("numba_hmm")

N_ROWS, N_FEATURES, N_SYMBOLS = 200_000, 4, 50
MANY, ONE = [100] * 2000, [N_ROWS]
# Emissions, number of states, and how many times faster than the best rival: many and one.
REQUIRED = [
    ("diag", 4, 8.0, 4.0),
    ("diag", 32, 8.0, 5.0),
    ("full", 4, 6.0, 4.0),
    ("full", 32, 8.0, 5.0),
    ("categorical", 32, 8.0, 5.0),
]
THREADS_REQUIRED = 1.6


def main():
    arguments = _arguments()
    cpus = sorted(os.sched_getaffinity(0))
    columns = ("hmmlearn", "dynamax", "required", "", "2 threads")
    table = Table("emissions, states, sequences", *columns)
    for emissions, n_states, *required in REQUIRED:
        for name, lengths, least in zip(("many", "one"), (MANY, ONE), required, strict=True):
            title = f"{emissions}, {n_states}, {name}"
            if arguments.only in title:
                contest = draw(emissions, n_states, lengths)
                os.sched_setaffinity(0, cpus[:1])
                ratios = [against(make, *contest, arguments.rounds) for make in rivals(emissions)]
                os.sched_setaffinity(0, cpus)
                twice = threaded(*contest) if name == "many" else ""
                verdict = (
                    "met" if min((r for r in ratios if r), default=0.0) >= least else "NOT MET"
                )
                table.row(title, *(r or "" for r in ratios), least, verdict, twice)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data."""
    kinds = {"diag": "diagonal", "full": "full", "categorical": "symbols"}
    for emissions, n_states, *_ in REQUIRED:
        for name, lengths in (
            ("many sequences", MANY[: max(20, int(share * len(MANY)))]),
            ("one long sequence", [max(2000, int(share * N_ROWS))]),
        ):
            _, X, lengths, parameters = draw(emissions, n_states, lengths)
            for library, make in zip(("hmmlearn", "dynamax"), rivals(emissions), strict=True):
                if library == "dynamax" and emissions == "categorical":
                    continue
                passes = [
                    one and one(X, lengths, *parameters) for one in (make, baseline(emissions))
                ]
                found = compared(
                    ours(emissions, X, lengths, parameters), passes[0], n_rounds,
                    operations(emissions, n_states, len(X)), rel_tol=1e-8, baseline=passes[1],
                )  # fmt: skip
                group = f"a pass of EM, HMM, {name}, {kinds[emissions]}"
                yield Row(group, f"{len(X):,} rows, {n_states} states", library, *found)


def operations(emissions, n_states, n_rows):
    """The least: forward, backward and expected transitions, and densities and moments."""
    d = N_FEATURES
    emission = {"diag": 4 * d, "full": d * (d + 1), "categorical": 1}[emissions]
    n_exp = 0 if emissions == "categorical" else n_rows * n_states
    return Operations(n_rows * n_states * (3 * n_states + emission), n_exp)


def draw(emissions, n_states, lengths):
    """Rows, lengths, and parameters near those that they could come from."""
    n_rows = sum(lengths)
    rng = np.random.default_rng(0)
    start = rng.dirichlet(np.ones(n_states))
    transmat = 0.5 * np.eye(n_states) + 0.5 * rng.dirichlet(np.ones(n_states), size=n_states)
    if emissions == "categorical":
        X = rng.integers(N_SYMBOLS, size=(n_rows, 1))
        probabilities = rng.dirichlet(np.ones(N_SYMBOLS), size=n_states)
        return emissions, X, lengths, (start, transmat, probabilities)
    means = 2.0 * rng.normal(size=(n_states, N_FEATURES))
    X = means[rng.integers(n_states, size=n_rows)] + rng.normal(size=(n_rows, N_FEATURES))
    covariances = rng.uniform(0.5, 2.0, size=(n_states, N_FEATURES))
    if emissions == "full":
        covariances = covariances[:, :, None] * np.eye(N_FEATURES)
    return emissions, X, lengths, (start, transmat, means, covariances)


def ours(emissions, X, lengths, parameters, n_threads=1):
    """Return a function that makes one E- and one M-step and returns the log-likelihood."""
    start, transmat, *emission = parameters
    if emissions == "categorical":
        family, (parameters,) = Categorical(N_SYMBOLS), emission
        X = X.astype(np.float64)
    else:
        family = Gaussian(Diagonal() if emissions == "diag" else Full(), reg_covar=0.0)
        parameters = Gaussians(*emission)
    model = HiddenMarkovModel(family, start, transmat, parameters)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    data = Sequences(Rows(X, n_threads=n_threads), offsets)
    return lambda: batch_step(model, data)[1] * len(lengths)


def rivals(emissions):
    """The rivals' functions that make a pass, None where there is none."""
    if emissions == "categorical":
        return hmmlearn_hmm and hmmlearn_hmm.categorical_pass, None
    theirs = [library and library.gaussian_pass for library in (hmmlearn_hmm, dynamax_hmm)]
    return [make and partial(make, covariance_type=emissions) for make in theirs]


def baseline(emissions):
    """The function of numba that makes a pass, or None without numba."""
    if emissions == "categorical":
        return numba_hmm and numba_hmm.categorical_pass
    return numba_hmm and partial(numba_hmm.gaussian_pass, covariance_type=emissions)


def against(make, emissions, X, lengths, parameters, n_rounds):
    """How many times faster than a rival ours is in CPU seconds, or None without a rival."""
    if make is None:
        return None
    with threadpool_limits(1):
        theirs, mine = make(X, lengths, *parameters), ours(emissions, X, lengths, parameters)
        assert math.isclose(theirs(), mine(), rel_tol=1e-8)
        return ratio(theirs, mine, CPU, n_rounds)


def threaded(emissions, X, lengths, parameters):
    """How many times faster than on one thread ours is on two, in wall seconds."""
    with threadpool_limits(1):
        one, two = (ours(emissions, X, lengths, parameters, n_threads) for n_threads in (1, 2))
        assert one() == two()
        return scaling(one, two)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the titles of the rows to run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
