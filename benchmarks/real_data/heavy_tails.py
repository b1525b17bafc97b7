"""What heavy tails are worth: Student's t and Laplace components beside Gaussians.

    python -m benchmarks.real_data.heavy_tails
    python -m benchmarks.real_data.heavy_tails --seeds 1 --sets indices cancer

Batch EM on four fifths of the rows, at random, and held-out nats a row on the rest: medians over
seeds, of the Gaussian mixture as they are, of the others less those. K + 2 Gaussians have more
parameters than K t components have. "degrees" are the least and the greatest degrees of freedom of
t components that learn their own, "seconds" the CPU time of its fit over that of K Gaussians.
"""

import argparse
import time
import warnings

import numpy as np

from benchmarks import datasets
from benchmarks._table import Table
from benchmarks.real_data.split_merge import scaled
from benchmarks.real_data.streams import SOURCES, Labelled, Source, is_there
from sklearn_onlineem import GaussianMixture, LaplaceMixture, StudentTMixture

SETS = {
    "stock indices": (Source(lambda: Labelled(scaled(datasets.load_stock_indices()))), 3),
    "20 stocks": (Source(lambda: Labelled(scaled(datasets.load_stocks()))), 3),
    "US economy": (Source(lambda: Labelled(scaled(datasets.load_us_macro()))), 2),
    "breast cancer": (Source(SOURCES["breast cancer"].load), 2),
    "breast cancer, diagonal": (SOURCES["breast cancer"], 5),
    **{name: (SOURCES[name], 5) for name in SOURCES if name != "breast cancer"},
}
RIVALS = ("K + 2", "t", "t, shared", "t, nu = 5", "Laplace")


def compare(name, seed, most_rows):
    """Held-out nats of all mixtures, degrees of freedom, and the ratio of times."""
    source, K = SETS[name]
    X = source.rows(most_rows).X
    held_out = np.random.default_rng(seed).permutation(len(X)) < len(X) // 5
    train, test = X[~held_out], X[held_out]
    common = {"random_state": seed, "solver": "batch", "max_iter": 300, "tol": 1e-4}
    shape = {"covariance_type": source.covariance_type, **common}
    mixtures = [
        GaussianMixture(K, **shape),
        GaussianMixture(K + 2, **shape),
        *(StudentTMixture(K, degrees_of_freedom=nu, **shape) for nu in ("each", "shared", 5.0)),
        LaplaceMixture(K, **common),
    ]
    scores, times = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mixture in mixtures:
            started = time.process_time()
            scores.append(mixture.fit(train).score(test))
            times.append(time.process_time() - started)
    degrees = mixtures[2].degrees_of_freedom_
    gains = np.subtract(scores[1:], scores[0])
    return [scores[0], *gains, degrees.min(), degrees.max(), times[2] / times[0]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--most-rows", type=int, default=5_000)
    arguments = parser.parse_args()
    names = [
        name for name in SETS
        if any(chosen in name for chosen in arguments.sets) and is_there(SETS[name][0].load, name)
    ]  # fmt: skip
    table = Table("data, K", "Gaussian", *RIVALS, "degrees", "seconds", width=32)
    found = []
    for name in names:
        rounds = [compare(name, seed, arguments.most_rows) for seed in range(arguments.seeds)]
        gaussian, *gains, least, most, ratio = np.median(rounds, axis=0).tolist()
        cells = (f"{gain:+.3f}" for gain in gains)
        degrees = f"{least:.1f}-{most:.0f}"
        table.row(f"{name}, {SETS[name][1]}", f"{gaussian:.3f}", *cells, degrees, f"{ratio:.1f}")
        found.append(gains)
    for what, numbers in (("median", np.median(found, axis=0)), ("worst", np.min(found, axis=0))):
        table.row(what, "", *(f"{number:+.3f}" for number in numbers))


if __name__ == "__main__":
    main()
