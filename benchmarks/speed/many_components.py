"""Many components: starts, passes and fits against their number, and what candidates lose.

The first table has CPU seconds of one thread, and nats per row that were held out, for each number
of components. Rows lie on a curved surface of four dimensions, with noise, so that more components
always explain more. In one run:

- the start by k-means of two levels;
- a pass of EM with all components, and one of ``Truncated``, searches included;
- fits of `--passes` passes from that start: both, where all components take at most `--most` pairs
  of a row and a component;
- a pass of scikit-learn's mixture;
- scikit-learn's `MiniBatchKMeans` and k-means of faiss, `--passes` passes each, and one pass of
  ours from their centres, as ``Truncated`` beyond `--most` pairs.

Passes that would take more than `--most` pairs, or arrays of more than a tenth of that in
scikit-learn, are timed on fewer rows, and their seconds are multiplied.

The second table is of streams: after a pass over a tenth of such rows, `--stream` others are learnt
by `partial_fit` of 100 and of 1000 rows, as ``Online`` and as ``Truncated``. It has the median and
the mean of the steps; the mean includes those that look for neighbours anew.

The third table is of Covertype: nats per row that ``Truncated`` has below batch EM after as many
passes from the same start, for rows of the fit (the bound, and the likelihood) and for others.

The fourth table, on demand, is of default fits of 100,000 rows, to their end: as they are, with all
components in each pass, by batch EM alone, and by ``Truncated`` ("few"). It has CPU seconds, all
passes, those over all components (those of split and merge steps included), and nats per row of the
fit and of others. Rows are those of 1,000 clusters (``waits``) and of the surface, both of 8
features, of Covertype, and of Fashion-MNIST on 16 principal axes (50,000 rows).

    python -m benchmarks.speed.many_components --tables default --components 1000 \\
        --covariance-type full
"""

import argparse
import copy
import time
import warnings
from unittest.mock import patch

import numpy as np
from sklearn import cluster, mixture
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks.datasets import load_covertype, load_fashion_mnist
from benchmarks.speed.waits import clusters
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Batch, Online, Truncated
from sklearn_onlineem.models.mixture import MixtureModel

HELD_OUT = 20_000


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1):
        if "speed" in arguments.tables:
            for K in arguments.components:
                speed(K, arguments)
        if "stream" in arguments.tables:
            stream(arguments)
        if "likelihood" in arguments.tables:
            likelihood(arguments)
        if "default" in arguments.tables:
            for K in arguments.components:
                default(K, arguments)


def speed(K, arguments):
    n, d, n_passes = arguments.rows, arguments.features, arguments.passes
    X = surface(n + HELD_OUT, d)
    X, held_out = X[HELD_OUT:], X[:HELD_OUT]
    few = X[: arguments.most // K]
    truncated, every = Truncated(arguments.candidates), Batch(acceleration=None)
    best = every if len(few) == n else truncated
    title = f"{K:,} components ({arguments.covariance_type}), {n:,} x {d}"
    table = Table(title, "seconds", "held-out", width=56)

    def timed(what, estimator, X, n_passes, solver, times=1.0, before=0.0):
        estimator = copy.deepcopy(estimator)
        estimator.set_params(max_iter=n_passes, solver=solver, warm_start=True)
        begun = time.process_time()
        estimator.fit(X)
        seconds = times * (time.process_time() - begun)
        if times == 1.0:
            table.row(what, before + seconds, estimator.score(held_out))
        return seconds, estimator

    new = _estimator(K, arguments)
    of_start, start = timed("start", new, X, 0, truncated)
    one, _ = timed("", start, few, 1, every, n / len(few) * (1.0 - 1e-9))
    table.row(f"a pass, all components (timed on {len(few):,} rows)", one)
    what = f"start and {n_passes} passes"
    seconds, _ = timed(f"{what}, truncated", start, X, n_passes, truncated, before=of_start)
    table.row("a pass, truncated", seconds / n_passes)
    if best is every:
        timed(f"{what}, all components", start, X, n_passes, every, before=of_start)
    few = X[: arguments.most // 10 // K]
    seconds = _sklearn_pass(few, K, arguments) * n / len(few)
    table.row(f"a pass of scikit-learn (timed on {len(few):,} rows)", seconds)
    for name, centres_of in (("MiniBatchKMeans", _mini_batch), ("faiss", _faiss)):
        begun = time.process_time()
        centres = centres_of(X, K, n_passes)
        seconds = time.process_time() - begun
        if centres is None:
            table.row(name, "missing", "")
            continue
        estimator = _estimator(K, arguments, init=centres)
        timed(f"{name} and a pass of ours", estimator, X, 1, best, before=seconds)


def stream(arguments):
    n, d = arguments.rows // 10, arguments.features
    columns = "milliseconds", "mean", "held-out", "before"
    title = f"partial_fit, {d} columns, {arguments.covariance_type}: components, rows"
    table = Table(title, *columns, width=56)
    X = surface(HELD_OUT + n + arguments.stream, d)
    held_out, first, later = np.split(X, [HELD_OUT, HELD_OUT + n])
    for K in arguments.components:
        solvers = Online(), Truncated(arguments.candidates)
        start = _estimator(K, arguments).set_params(solver=solvers[1], max_iter=1).fit(first)
        before = start.score(held_out)
        for n_rows in (100, 1000):
            for solver in solvers:
                estimator, times = copy.deepcopy(start).set_params(solver=solver), []
                for i in range(0, len(later), n_rows):
                    begun = time.process_time()
                    estimator.partial_fit(later[i : i + n_rows])
                    times.append(1e3 * (time.process_time() - begun))
                what = f"{K:,}, {n_rows:,}, {type(solver).__name__}"
                after = estimator.score(held_out)
                table.row(what, float(np.median(times)), float(np.mean(times)), after, before)


def surface(n, d):
    rng = np.random.default_rng(0)
    hidden, weights, shift = rng.normal(size=(n, 4)), rng.normal(size=(4, d)), rng.normal(size=d)
    return np.sin(1.5 * hidden @ weights + shift) + 0.1 * rng.normal(size=(n, d))


def _estimator(K, arguments, **settings):
    return GaussianMixture(
        K, covariance_type=arguments.covariance_type, reg_covar=1e-3, tol=0.0, n_jobs=1,
        random_state=0, **settings,
    )  # fmt: skip


def _sklearn_pass(X, K, arguments):
    """Return the seconds of one pass more."""
    seconds = []
    for n_passes in (1, 5):
        estimator = mixture.GaussianMixture(
            K, covariance_type=arguments.covariance_type, reg_covar=1e-3, max_iter=n_passes,
            tol=0.0, init_params="random_from_data", random_state=0,
        )  # fmt: skip
        begun = time.process_time()
        estimator.fit(X)
        seconds.append(time.process_time() - begun)
    return (seconds[1] - seconds[0]) / 4.0


def _mini_batch(X, K, n_passes):
    settings = {"n_init": 1, "max_iter": n_passes, "compute_labels": False, "random_state": 0}
    return cluster.MiniBatchKMeans(K, **settings).fit(X).cluster_centers_


def _faiss(X, K, n_passes):
    try:
        import faiss  # noqa: PLC0415
    except ImportError:
        return None
    kmeans = faiss.Kmeans(X.shape[1], K, niter=n_passes, seed=0)
    kmeans.train(X.astype(np.float32))
    return kmeans.centroids.astype(float)


def likelihood(arguments):
    rows = _covertype(HELD_OUT + 100_000)
    X, held_out = rows[HELD_OUT:], rows[:HELD_OUT]
    columns = "bound", "likelihood", "held-out", "seconds", "of batch"
    table = Table(f"Covertype, {len(X):,} x {X.shape[1]}: K, candidates", *columns, width=44)
    for K in arguments.components:
        if arguments.most < K * len(X):
            continue
        seconds, every = _seconds(X, K, arguments, "batch", arguments.passes)
        for n_candidates in (8, 16, 24, 40):
            few_seconds, few = _seconds(X, K, arguments, Truncated(n_candidates), arguments.passes)
            table.row(
                f"{K:,}, {n_candidates}",
                every.lower_bounds_[-1] - few.lower_bounds_[-1],
                every.score(X) - few.score(X),
                every.score(held_out) - few.score(held_out),
                few_seconds,
                seconds,
            )


def _covertype(n):
    rows = np.asarray(load_covertype(), dtype=float)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    return ((rows - rows.mean(axis=0)) / rows.std(axis=0))[:n]


def _fashion(n):
    rows = load_fashion_mnist()[:n].astype(float)
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.eigh(rows.T @ rows)[1][:, -16:]
    return rows[np.random.default_rng(0).permutation(len(rows))] / rows.std(axis=0)


def default(K, arguments):
    n, columns = HELD_OUT + 100_000, ("seconds", "passes", "over all", "training", "held-out")
    made = {
        "clusters": lambda: clusters(n, 8, 1000),
        "surface": lambda: surface(n, 8),
        "Covertype": lambda: _covertype(n),
        "Fashion-MNIST": lambda: _fashion(n),
    }
    solvers = {"default": "auto", "all components": "auto", "batch": Batch(), "few": Truncated()}
    for name in arguments.data:
        rows = made[name]()
        X, held_out = rows[HELD_OUT:], rows[:HELD_OUT]
        title = f"{name}, {len(X):,} x {X.shape[1]}, {K:,} {arguments.covariance_type}"
        table = Table(title, *columns, width=24)
        for what in arguments.solvers:
            mixture = GaussianMixture(
                K, covariance_type=arguments.covariance_type, solver=solvers[what], n_jobs=1,
                random_state=0,
            )  # fmt: skip
            least = K + 1 if what == "all components" else 300
            counting = {"autospec": True, "side_effect": MixtureModel.e_step}
            with (
                patch("sklearn_onlineem.em.solvers.truncated._MANY", least),
                patch.object(MixtureModel, "e_step", **counting) as e_step,
            ):
                begun = time.process_time()
                mixture.fit(X)
                seconds = time.process_time() - begun
            of_all = sum(len(call.args[1]) == len(X) for call in e_step.call_args_list)
            scores = mixture.score(X), mixture.score(held_out)
            table.row(what, seconds, mixture.n_iter_, of_all, *scores)


def _seconds(X, K, arguments, solver, n_passes):
    estimator = _estimator(K, arguments).set_params(solver=solver, max_iter=n_passes)
    begun = time.process_time()
    estimator.fit(X)
    return time.process_time() - begun, estimator


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--components", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--covariance-type", default="diag")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--stream", type=int, default=50_000)
    parser.add_argument("--most", type=int, default=10**9, help="pairs of a row and a component")
    parser.add_argument("--tables", nargs="+", default=["speed", "stream", "likelihood"])
    data = ["clusters", "surface", "Covertype", "Fashion-MNIST"]
    parser.add_argument("--data", nargs="+", default=data)
    solvers = ["default", "all components", "batch", "few"]
    parser.add_argument("--solvers", nargs="+", default=solvers)
    return parser.parse_args()


if __name__ == "__main__":
    main()
