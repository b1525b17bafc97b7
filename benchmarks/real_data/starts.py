"""How likely is a default fit of Gaussians from k-means in several coordinates, on real data?

Columns are mean training log-likelihoods in nats per row, less that from k-means of the raw rows:
medians over seeds, each with its own rows. Starts are clusters of k-means in each of the family's
coordinates, those of the default, which compares them after ten passes of EM on at most 4096 rows,
and those of other comparisons. The last columns are CPU milliseconds of k-means of the raw rows,
and of the default start. Where all columns have one unit (images, strokes, principal axes), only
raw rows know it, and some of their starts are better.

Over all cells, less the raw start (4 seeds, at most 10,000 rows; the trimmed mean leaves out a
tenth at either end):

    =========  ========  ========  ===========  =======  ===================
    full       standard  whitened  independent  default  default, 2048 rows
    =========  ========  ========  ===========  =======  ===================
    mean            .10      -.09         -.63      .36                  .32
    trimmed         .02      -.06         -.18      .13                  .10
    median          .00      -.04         -.03      .04                  .03
    =========  ========  ========  ===========  =======  ===================

For tied covariances the default has .42, .10 and .05, for diagonal ones .02, .01 and .00.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.estimators import _start
from sklearn_onlineem.families import Gaussian
from sklearn_onlineem.families.covariance_shapes import COVARIANCES


def axes(load, n_axes):
    return lambda: PCA(n_axes, random_state=0).fit_transform(load()[:20_000])


SETS = {
    "covertype": datasets.load_covertype,
    "fashion-mnist, 20 axes": axes(datasets.load_fashion_mnist, 20),
    "spoken digits": datasets.load_free_spoken_digits,
    "sensor network": datasets.load_sensor_network,
    "pendigits": datasets.load_pendigits,
    "air quality": datasets.load_air_quality,
    "digits, 10 axes": axes(datasets.load_digits, 10),
    "old faithful": datasets.load_old_faithful,
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "diabetes": lambda: load_diabetes().data,
    "US economy": datasets.load_us_macro,
}
# Rows and passes of EM of other comparisons.
OTHERS = {"2048, 10": (1 << 11, 10), "4096, 3": (1 << 12, 3)}
COMPONENTS = (3, 8, 20)
# Fewer rows per parameter of a mean say little.
LEAST_ROWS = 15


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    family = Gaussian(COVARIANCES[arguments.covariance_type])
    names = ("standard", "whitened", "independent")
    names = names if arguments.covariance_type in ("full", "tied") else names[:1]
    columns = (*names, "default", *OTHERS)
    table = Table("data, K", "raw", *columns, "raw ms", "default ms", width=32)
    gains = []
    for name, load in SETS.items():
        X = load()
        for n_components in COMPONENTS:
            if len(X) < n_components * max(LEAST_ROWS, 2 * X.shape[1]):
                continue
            rounds = []
            for seed in range(arguments.seeds):
                order = np.random.default_rng(seed).permutation(len(X))
                rows = X[order[: arguments.rows]]
                how = (family, arguments.covariance_type, len(names))
                rounds.append(compare(rows, n_components, seed, *how))
            raw, *rest = (median(column) for column in zip(*rounds, strict=True))
            table.row(f"{name}, {n_components}", raw, *rest)
            gains += [round_[1 : len(columns) + 1] for round_ in rounds]
    gains = np.sort(np.array(gains), axis=0)
    for name, row in (
        ("mean", np.nanmean(gains, axis=0)),
        ("trimmed mean", gains[len(gains) // 10 : -(len(gains) // 10)].mean(axis=0)),
        ("median", np.nanmedian(gains, axis=0)),
    ):
        table.row(name, "", *map(float, row))


def compare(X, n_components, seed, family, covariance_type, n_maps):
    """Log-likelihood from raw rows, what is gained from other starts, and milliseconds."""

    def fit(**changes):
        given = {"covariance_type": covariance_type, "random_state": seed, **changes}
        return GaussianMixture(n_components, **given).fit(X)

    def from_clusters(Z):
        labels = KMeans(n_components, n_init=1, random_state=seed).fit(Z).labels_
        return fit(init=np.eye(n_components)[labels]).score(X)

    begun = time.process_time()
    KMeans(n_components, n_init=1, random_state=seed).fit(X)
    raw_time = time.process_time() - begun
    begun = time.process_time()
    fit(max_iter=0)
    default_time = time.process_time() - begun
    raw = from_clusters(X)
    scores = [from_clusters(to(X)) for to in family.start_coordinates(X)]
    scores += [np.nan] * (n_maps - len(scores))
    scores.append(fit().score(X))
    chosen = _start._COMPARED_ROWS, _start._COMPARED_PASSES
    for other in OTHERS.values():
        _start._COMPARED_ROWS, _start._COMPARED_PASSES = other
        scores.append(fit().score(X))
    _start._COMPARED_ROWS, _start._COMPARED_PASSES = chosen
    times = (1000.0 * raw_time, 1000.0 * default_time)
    return raw, *(score - raw for score in scores), *times


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--covariance-type", default="full", choices=list(COVARIANCES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=10_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
