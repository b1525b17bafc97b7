"""Many components: start, passes and fits against their number, and what candidates lose.

The first table has CPU seconds of one thread, from the same start each: the start by k-means of two
levels, a pass of batch EM with all components,
a pass of ``Truncated``, after the first ones, and `--passes` passes of both, start included. Beside
them, scikit-learn's mixture (its start and one pass), its `MiniBatchKMeans` with one pass of our
EM, and k-means of faiss, if that is installed. "-": K is above `--most`, where it would take long.
Rows are drawn from a mixture of K Gaussians.

The second table is of Covertype: nats per row that ``Truncated`` has below batch EM after as many
passes from the same start, for rows of the fit (the bound, and the likelihood) and for others.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn import cluster, mixture
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks.datasets import load_covertype
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Truncated

HELD_OUT = 20_000


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        if "speed" in arguments.tables:
            speed(arguments)
        if "likelihood" in arguments.tables:
            likelihood(arguments)


def speed(arguments):
    columns = "start", "pass", "truncated", "fit", "truncated"
    rivals = "sklearn", "MiniBatch", "faiss"
    n, d, n_passes = arguments.rows, arguments.features, arguments.passes
    table = Table(f"K, {n:,} x {d}, {arguments.covariance_type}", *columns, *rivals, width=28)
    for K in arguments.components:
        X, is_few = _mixture(n, d, K), arguments.most >= K
        start, _ = _seconds(X, K, arguments, Truncated(), 0)
        few, _ = _seconds(X, K, arguments, Truncated(arguments.candidates), n_passes)
        every = _seconds(X, K, arguments, "batch", n_passes)[0] if is_few else None
        passes = [
            "-" if total is None else max(0.0, total - start) / n_passes for total in (every, few)
        ]
        rivals = [rival(X, K, arguments) if is_few else "-" for rival in (_sklearn, _mini_batch)]
        table.row(
            f"{K:,}", start, *passes, "-" if every is None else every, few, *rivals,
            _faiss(X, K, arguments),
        )  # fmt: skip


def likelihood(arguments):
    rows = np.asarray(load_covertype(), dtype=float)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    X, held_out = rows[HELD_OUT : HELD_OUT + arguments.rows], rows[:HELD_OUT]
    columns = "bound", "likelihood", "held-out", "seconds", "of batch"
    table = Table(f"Covertype, {len(X):,} x {X.shape[1]}: K, candidates", *columns, width=44)
    for K in arguments.components:
        if arguments.most < K:
            continue
        seconds, every = _seconds(X, K, arguments, "batch", arguments.passes)
        for n_candidates in (8, 16, 24, 40):
            few_seconds, few = _seconds(X, K, arguments, Truncated(n_candidates), arguments.passes)
            table.row(
                f"{K:,}, {n_candidates}",
                every.score(X) - few.lower_bounds_[-1],
                every.score(X) - few.score(X),
                every.score(held_out) - few.score(held_out),
                few_seconds,
                seconds,
            )


def _mixture(n, d, K):
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(K, d))
    return centres[rng.integers(K, size=n)] + 0.7 * rng.normal(size=(n, d))


def _seconds(X, K, arguments, solver, n_passes):
    estimator = GaussianMixture(
        K, covariance_type=arguments.covariance_type, reg_covar=1e-3, solver=solver,
        max_iter=n_passes, tol=0.0, n_jobs=1, random_state=0,
    )  # fmt: skip
    begun = time.process_time()
    estimator.fit(X)
    return time.process_time() - begun, estimator


def _sklearn(X, K, arguments):
    estimator = mixture.GaussianMixture(
        K, covariance_type=arguments.covariance_type, reg_covar=1e-3, max_iter=1, random_state=0
    )
    begun = time.process_time()
    estimator.fit(X)
    return time.process_time() - begun


def _mini_batch(X, K, arguments):
    begun = time.process_time()
    centres = cluster.MiniBatchKMeans(K, n_init=1, random_state=0).fit(X).cluster_centers_
    estimator = GaussianMixture(
        K, covariance_type=arguments.covariance_type, reg_covar=1e-3, init=centres,
        solver="batch", max_iter=1, tol=0.0, n_jobs=1,
    )  # fmt: skip
    estimator.fit(X)
    return time.process_time() - begun


def _faiss(X, K, arguments):
    try:
        import faiss  # noqa: PLC0415
    except ImportError:
        return "-"
    begun = time.process_time()
    faiss.Kmeans(X.shape[1], K, niter=arguments.passes, seed=0).train(X.astype(np.float32))
    return time.process_time() - begun


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--components", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--candidates", type=int, default=24)
    parser.add_argument("--covariance-type", default="full")
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--most", type=int, default=1000, help="largest K with all components")
    parser.add_argument("--tables", nargs="+", default=["speed", "likelihood"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
