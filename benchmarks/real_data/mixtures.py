"""One online pass against ten iterations of batch EM from the same start, on real data.

Both start from the same arrays, of two kinds: "clusters" is what one M-step makes of the nearest of
k-means++ centres; "vague" gives every component the covariance of all rows and a mean halfway from
a random row to theirs. Cells are held-out mean log-likelihoods in nats per row: medians over seeds,
each with its own split.

From the vague start one pass is ahead on all three data sets. From clusters batch EM is nearly
settled after ten iterations; what is left is the variance of an estimate, and an online pass, which
forgets its first rows, has more of it: about 0.3 nats on Fashion-MNIST. On the digits (13,000
parameters for 1,437 rows) splits differ by several nats either way, and more seeds come out level.
"""

import argparse
import warnings
from statistics import median

import numpy as np
from sklearn.cluster import kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from benchmarks._table import Table
from benchmarks.real_data.tasks import COVERTYPE, DIGITS, FASHION
from sklearn_onlineem import GaussianMixture

# The digits are only 1,437: batches of 1000 would make two updates, batches of 5 make 288.
BATCH_SIZES = {COVERTYPE: 1000, FASHION: 1000, DIGITS: 5}
HEADINGS = ("partial_fit", "fit, 1 pass", "1 batch it.", "10 batch its", "gain")


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table("data, K, start", *HEADINGS)
    for task, batch_size in BATCH_SIZES.items():
        for start in (clusters, vague):
            rounds = [compare(task, batch_size, start, seed) for seed in range(arguments.seeds)]
            columns = [median(column) for column in zip(*rounds, strict=True)]
            gain = median(online - batch for online, *_, batch in rounds)
            table.row(f"{task.name}, {task.n_components}, {start.__name__}", *columns, gain)


def compare(task, batch_size, start, seed):
    """Held-out log-likelihoods of online passes and batch iterations."""
    train, test = task.split(seed)
    common = {
        "n_components": task.n_components, "random_state": seed, "batch_size": batch_size,
        **start(train, task.n_components, seed),
    }  # fmt: skip
    streamed = GaussianMixture(**common)
    order = np.random.default_rng(seed).permutation(len(train))
    for first in range(0, len(train), batch_size):
        streamed.partial_fit(train[order[first : first + batch_size]])
    fitted = GaussianMixture(**common, max_iter=1).fit(train)
    batch = (
        GaussianMixture(**common, solver="batch", max_iter=n, tol=0).fit(train) for n in (1, 10)
    )
    return tuple(mixture.score(test) for mixture in (streamed, fitted, *batch))


def clusters(X, n_components, seed):
    """Weights, means and precisions of the clusters around k-means++ centres."""
    _, chosen = kmeans_plusplus(X, n_components, random_state=seed)
    start = GaussianMixture(n_components, init=X[chosen], solver="batch", max_iter=1, tol=0)
    start.fit(X)
    return {
        "weights_init": start.weights_,
        "means_init": start.means_,
        "precisions_init": start.precisions_,
    }


def vague(X, n_components, seed):
    """Weights, means and precisions of components that all could have made any row."""
    rows = X[np.random.default_rng(seed).choice(len(X), n_components, replace=False)]
    precision = np.linalg.inv(np.cov(X.T))
    return {
        "weights_init": np.full(n_components, 1.0 / n_components),
        "means_init": (X.mean(axis=0) + rows) / 2.0,
        "precisions_init": np.repeat(precision[None], n_components, axis=0),
    }


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
