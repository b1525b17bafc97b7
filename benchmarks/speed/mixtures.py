"""Speed of one EM pass and of one small update, against rivals in the same run.

Both sides take turns; tables show medians of their ratios, and for two threads against one the
ratio of best times. Equal work is proved by equal log-likelihoods. CPU seconds are compared on one
thread, wall seconds on two; rivals get as many threads as ours. pomegranate needs torch
(``pip install pomegranate==1.1.2``); without it, its row stays empty.
"""

import argparse
import math
from itertools import cycle

import numpy as np
from threadpoolctl import ThreadpoolController

from benchmarks._rows import Row, compared
from benchmarks._table import Table
from benchmarks._timing import CPU, WALL, ratio, scaling
from benchmarks.rivals import minibatch_kmeans
from benchmarks.speed.contests import CONTESTS
from sklearn_onlineem import GaussianMixture

ITSELF_REQUIRED, UPDATE_REQUIRED = 1.6, 6.0


def main():
    arguments = _arguments()
    chosen = [contest for contest in CONTESTS if arguments.only in contest.name]
    print("How many times faster than the rival\n")
    table = Table("rows x features x components", "CPU, 1 thr.", "wall, 2 thr.", "required", "")
    for contest in chosen:
        if contest.rival is None:
            table.row(contest.name, "", "", contest.required, "no rival")
            continue
        ratios = [against_rival(contest, *how, arguments.rounds) for how in ((1, CPU), (2, WALL))]
        table.row(contest.name, *ratios, contest.required, met(min(ratios), contest.required))
    print("\nHow many times faster than itself, in double and on one thread\n")
    table = Table("rows x features x components", "float32", "2 threads", "required", "")
    for contest in {contest.name: contest for contest in chosen if contest.rel_tol}.values():
        ratios = [against_double(contest, arguments.rounds), threaded(contest, arguments.rounds)]
        table.row(contest.name, *ratios, ITSELF_REQUIRED, met(min(ratios), ITSELF_REQUIRED))
    print("\nGaussianMixture.partial_fit against MiniBatchKMeans.partial_fit (d = 16, K = 10)\n")
    table = Table("rows, covariances", "CPU, 1 thr.", "required", "")
    for covariance_type in ("full", "diag"):
        for n_rows in (1, 10, 100):
            faster = update(n_rows, covariance_type, arguments.rounds)
            label = f"{n_rows}, {covariance_type}"
            table.row(label, faster, UPDATE_REQUIRED, met(faster, UPDATE_REQUIRED))


def against_rival(contest, n_threads, clock, n_rounds):
    X, parameters = contest.draw()
    ours = on_threads(1, contest.ours(X, parameters, n_threads))
    rival = on_threads(n_threads, contest.rival(X, parameters, n_threads))
    assert contest.rel_tol is None or math.isclose(ours(), rival(), rel_tol=contest.rel_tol)
    return ratio(rival, ours, clock, n_rounds)


def against_double(contest, n_rounds):
    X, parameters = contest.draw()
    double, single = (on_threads(1, contest.ours(x, parameters, 1)) for x in (X, _float32(X)))
    assert math.isclose(single(), double(), rel_tol=1e-4)
    return ratio(double, single, CPU, n_rounds)


def threaded(contest, n_rounds):
    X, parameters = contest.draw()
    one, two = (on_threads(1, contest.ours(X, parameters, n_threads)) for n_threads in (1, 2))
    assert one() == two()
    return scaling(one, two, 3 * n_rounds)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data."""
    for contest in CONTESTS:
        X, parameters = contest.draw(share)
        ours, theirs = (make and make(X, parameters, 1) for make in (contest.ours, contest.rival))
        baseline = contest.baseline and contest.baseline(X, *parameters)
        found = compared(
            ours,
            theirs,
            n_rounds,
            contest.operations(X),
            rel_tol=contest.rel_tol,
            baseline=baseline,
        )
        sizes = f"{X.shape[0]:,} x {X.shape[1]:,}, {contest.sizes[2]} components"
        yield Row(f"a pass of EM, {contest.kind}", sizes, contest.library, *found)
    for covariance_type in ("full", "diag"):
        for n_rows in (1, 10, 100):
            ours, theirs = updates(n_rows, covariance_type)
            found = compared(ours, theirs, n_rounds, n_calls=max(20, int(300 * share)))
            kind = {"full": "full", "diag": "diagonal"}[covariance_type]
            group = f"`partial_fit` of 1 to 100 rows, {kind} Gaussians"
            case = f"{n_rows} rows of 16 features, 10 components"
            yield Row(group, case, "MiniBatchKMeans", *found)


def update(n_rows, covariance_type, n_rounds):
    ours, theirs = updates(n_rows, covariance_type)
    with ThreadpoolController().limit(limits=1):
        return ratio(theirs, ours, CPU, n_rounds, n_calls=300)


def updates(n_rows, covariance_type):
    """Streams of ten clusters: each call of both sides gets the next batch."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(10, 16))

    def draw(n_rows):
        return centres[rng.integers(10, size=n_rows)] + rng.normal(size=(n_rows, 16))

    first, batches = draw(1000), [draw(n_rows) for _ in range(1000)]
    # Within the limit from the start: scikit-learn settles the threads of all batches on the first.
    with ThreadpoolController().limit(limits=1):
        rival = minibatch_kmeans.start(first, 10)
        mixture = GaussianMixture(10, covariance_type=covariance_type, random_state=0, n_jobs=1)
        mixture.partial_fit(first)
        while mixture.n_rows_kept_:  # its start is made from the first rows
            mixture.partial_fit(draw(1000))

    def learns(learner):
        stream = cycle(batches)
        return lambda: learner.partial_fit(next(stream)) and None

    return learns(mixture), learns(rival)


def on_threads(n_threads, run):
    """Give BLAS so many threads while it runs; ours makes its own threads around one."""
    controller = ThreadpoolController()

    def limited():
        with controller.limit(limits=n_threads, user_api="blas"):
            return run()

    return limited


def met(value, required):
    return "met" if value >= required else "NOT MET"


def _float32(X):
    return X.astype(np.float32)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="part of the names of the contests to run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
