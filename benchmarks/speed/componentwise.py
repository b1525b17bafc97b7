"""One component at a time against full passes: CPU seconds to the same log-likelihood.

Batch EM and ``solver="componentwise"`` begin with the mixture that one pass of batch EM has made of
the clusters of k-means, and converge. Columns have the passes that each takes until its mean
log-likelihood is within a gap of the batch's last, and CPU seconds over those of batch EM, one
thread each, by turns: below 1 it wins. "-": it does not come so far, in as many passes, or ends in
a better optimum (the last two columns say by how much each ends above batch EM, in nats per row).
Centres are 8 standard deviations from each other, on average, where they are far apart, and 2 where
they overlap.

The second table is of a prior that takes weight from components, Figueiredo & Jain's, from rows as
centres: until converged, passes, components that are left, and CPU seconds over those of batch EM.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks.datasets import load_covertype, load_fashion_mnist, load_pendigits
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Batch, Componentwise

DISTANCES = {"far apart": 8.0, "overlapping": 2.0}
# Rows, features, components.
SIZES = [(n, d, K) for n, d in ((4_000, 2), (4_000, 16), (32_000, 4)) for K in (4, 16, 64)]
SIZES += [(6_000, 150, 4), (6_000, 150, 16)]
SOLVERS = {"batch": Batch(), "cyclic": Componentwise("cyclic"), "gain": Componentwise()}
ANNIHILATED = [(4_000, 2, 64), (4_000, 8, 64), (20_000, 16, 16), (20_000, 16, 64)]
N_CLUSTERS = 8


def main():
    arguments = _arguments()
    columns = "batch", "cyclic", "CPU", "gain", "CPU", "cyclic ends", "gain ends"
    table = Table("data, covariances, components", *columns, width=44)
    for name, X, K in _data(arguments.only):
        for shape in ("full", "diag"):
            rounds = [_climbs(X, K, shape, arguments) for _ in range(arguments.rounds)]
            table.row(f"{name}, {shape}, {K}", *_compared(rounds, arguments.gap))
    if arguments.only in "annihilation":
        annihilation(arguments.rounds)


def _data(only):
    for name, distance in DISTANCES.items():
        for n, d, K in SIZES if only in name else ():
            yield f"{name}, {n:,} x {d}", _clusters(distance, n, d, K), K
    for name, load, numbers in (
        ("pendigits", load_pendigits, (4, 16, 64)),
        ("Covertype", load_covertype, (4, 16, 64)),
        ("Fashion-MNIST, 2 x 2 pixels", _pooled_images, (4, 16)),
    ):
        if only in name:
            X = np.asarray(load(), dtype=float)
            X = X[np.random.default_rng(0).permutation(len(X))[:20_000]]
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            for K in numbers:
                yield f"{name}, {len(X):,} x {X.shape[1]}", X, K


def _clusters(distance, n, d, n_clusters, seed=0):
    rng = np.random.default_rng(seed)
    centres = distance / np.sqrt(2.0 * d) * rng.normal(size=(n_clusters, d))
    return centres[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, d))


def _pooled_images():
    images = load_fashion_mnist()[:6_000].reshape(-1, 14, 2, 14, 2)
    return images.mean(axis=(2, 4)).reshape(len(images), -1)


def _climbs(X, K, shape, arguments):
    """Of each solver, log-likelihoods, and CPU seconds until it was there."""
    start = GaussianMixture(
        K, covariance_type=shape, solver="batch", max_iter=1, tol=0.0, n_jobs=1, random_state=0
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start.fit(X)
        return {name: _climb(start, X, solver, arguments) for name, solver in SOLVERS.items()}


def _climb(start, X, solver, arguments):
    times = []
    mixture = GaussianMixture(
        start.n_components, covariance_type=start.covariance_type, solver=solver, n_jobs=1,
        weights_init=start.weights_, means_init=start.means_, precisions_init=start.precisions_,
        tol=arguments.tol, max_iter=arguments.passes,
        callbacks=[lambda step: times.append(time.process_time())],
    )  # fmt: skip
    begin = time.process_time()
    mixture.fit(X)
    # Log-likelihoods are from before each update.
    return np.array(mixture.lower_bounds_), np.array([begin, *times[:-1]]) - begin


def _compared(rounds, gap):
    """Passes, ratios of CPU seconds, and how much higher the ends are."""
    values = {name: path for name, (path, _) in rounds[0].items()}
    goal = values["batch"][-1] - gap
    passes = {name: int(np.argmax(path >= goal)) for name, path in values.items()}
    cells = [passes["batch"]]
    for name in ("cyclic", "gain"):
        if values[name].max() < goal or not passes["batch"]:
            cells += ["-", "-"]
            continue
        ratios = [one[name][1][passes[name]] / one["batch"][1][passes["batch"]] for one in rounds]
        cells += [passes[name], float(np.median(ratios))]
    ends = (values[name][-1] - values["batch"][-1] for name in ("cyclic", "gain"))
    return *cells, *(f"{end:+.4f}" for end in ends)


def annihilation(n_rounds):
    print()
    columns = [f"{name}, {what}" for name in SOLVERS for what in ("passes", "left")]
    table = Table("rows, features, components", *columns, "CPU, cyclic", "CPU, gain", width=28)
    for n, d, K in ANNIHILATED:
        X = _clusters(8.0, n, d, N_CLUSTERS)
        rounds = [
            {name: _sparse(X, K, solver) for name, solver in SOLVERS.items()}
            for _ in range(n_rounds)
        ]
        cells = [cell for name in SOLVERS for cell in rounds[0][name][:2]]
        for name in ("cyclic", "gain"):
            cells.append(float(np.median([one[name][2] / one["batch"][2] for one in rounds])))
        table.row(f"{n:,} x {d}, {K}", *cells)


def _sparse(X, K, solver):
    """Passes, components that are left, and CPU seconds."""
    n_numbers = X.shape[1] * (X.shape[1] + 3) / 2
    mixture = GaussianMixture(
        K, solver=solver, weight_concentration_prior=1.0 - n_numbers / 2.0, n_jobs=1, tol=1e-6,
        max_iter=2000, init="random_from_data", random_state=0,
    )  # fmt: skip
    with threadpool_limits(1):
        begin = time.process_time()
        mixture.fit(X)
        return mixture.n_iter_, mixture.n_components_, time.process_time() - begin


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gap", type=float, default=1e-3, help="in nats per row")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--passes", type=int, default=200, help="most of them")
    parser.add_argument("--only", default="", help="part of the name of data")
    return parser.parse_args()


if __name__ == "__main__":
    main()
