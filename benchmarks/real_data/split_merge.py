"""Split and merge steps at a fixed number of components, against one fit and the best of ten.

    python -m benchmarks.real_data.split_merge
    python -m benchmarks.real_data.split_merge --covariance-type diag --numbers 10 30

A fifth of the rows is held out. "one" is the median of ten fits that differ in their seed, without
such steps, `Auto(split_merge=False)`, in nats per row. Others are compared with it: "best", the one
of them with the highest likelihood of its training data; "s&m", the median of three fits with
`SplitMerge(n_components="fixed")`, which have the seeds of the first three; "auto", that of three
default fits, which take the steps where `Auto` expects them to pay, and two starts with few
rows; and "n_init=3", that of three of which each is the best of three such fits. "fits" is
their time in units of one fit: medians of CPU time in one process, by turns. There are 12 data sets
or more for each number of components, of ten rows a component or more, and of 50 for 100
components. The last rows are medians over the data sets.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from sklearn import datasets as of_scikit_learn
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Auto, SplitMerge

N_STARTS, N_SEEDS, MOST_ROWS = 10, 3, 25_000
# Columns of the gains in training and held out.
_KINDS = {"split and merge": slice(5, 7), "auto": slice(8, 10), "n_init=3": slice(11, 13)}


def scaled(X):
    X = X[:, X.std(axis=0) > 0.0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def axes(X, n):
    return PCA(n, random_state=0).fit_transform(X)


def some(X):
    order = np.random.default_rng(0).permutation(len(X))
    return X[np.sort(order[:MOST_ROWS])]


def with_noise(X):
    """Whole numbers, each anywhere in its unit: equal rows would have unbounded densities."""
    return X + np.random.default_rng(0).uniform(-0.5, 0.5, X.shape)


REAL_DATA = {
    "iris": lambda: with_noise(10.0 * datasets.load_iris()),
    "wine, 5 axes": lambda: axes(scaled(datasets.load_wine()), 5),
    "US macro": lambda: datasets.load_us_macro(),
    "Old Faithful": lambda: scaled(with_noise(datasets.load_old_faithful() * [60.0, 1.0])),
    "diabetes": lambda: scaled(np.delete(of_scikit_learn.load_diabetes().data, 1, axis=1)),
    "breast cancer, 5 axes": lambda: axes(scaled(datasets.load_breast_cancer()), 5),
    "digits, 10 axes": lambda: axes(datasets.load_digits(), 10),
    "air quality": lambda: scaled(datasets.load_air_quality()),
    "pendigits": lambda: with_noise(datasets.load_pendigits()),
    "spoken digits": lambda: some(datasets.load_free_spoken_digits()),
    "covertype": lambda: scaled(some(with_noise(datasets.load_covertype()))),
    "Fashion-MNIST, 10 axes": lambda: axes(some(datasets.load_fashion_mnist()), 10),
    "sensors": lambda: scaled(datasets.load_sensor_network()),
}


def compare(train, test, n_components, covariance_type):
    """Scores of one fit, gains of the best, and gains and times of the others."""
    settings = {
        "one": {"solver": Auto(split_merge=False)},
        "moved": {"solver": SplitMerge(n_components="fixed")},
        "auto": {},
        "three": {"n_init": 3},
    }
    fits, times = {name: [] for name in settings}, {name: [] for name in settings}
    for seed in range(N_STARTS):
        for name, setting in settings.items():
            if name != "one" and seed >= N_SEEDS:
                continue
            mixture = GaussianMixture(
                n_components, covariance_type=covariance_type, random_state=seed, **setting
            )
            start = time.process_time()
            mixture.fit(train)
            times[name].append(time.process_time() - start)
            fits[name].append((mixture.score(train), mixture.score(test)))
    one, moved, auto, three = (np.median(fits[name], axis=0) for name in settings)
    seconds = {name: median(values) for name, values in times.items()}
    shares = {name: seconds[name] / seconds["one"] for name in settings}
    best = np.array(max(fits["one"]))
    return [
        *one, 1e3 * seconds["one"], *(best - one), *(moved - one), shares["moved"],
        *(auto - one), shares["auto"], *(three - one), shares["three"],
    ]  # fmt: skip


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table(
        "rows, columns, K, data", "one train", "held out", "ms", "best train", "held out",
        "s&m train", "held out", "fits", "auto train", "held out", "fits",
        "n_init=3 train", "held out", "fits", width=46,
    )  # fmt: skip
    rows = {}
    for name in arguments.data:
        X = REAL_DATA[name]()
        train, test = train_test_split(X, test_size=0.2, random_state=0)
        for K in arguments.numbers:
            if len(train) < (50 if K == 100 else 10) * K:
                continue
            row = compare(train, test, K, arguments.covariance_type)
            rows[name, K] = len(train), row
            table.row(f"{len(train)}, {X.shape[1]}, {K}, {name}", *map(float, row))
    print()
    for K in arguments.numbers:
        of_number = [row for (_, n), row in rows.items() if n == K]
        for size, is_large in (("16,000 rows or more", True), ("fewer rows", False)):
            chosen = [row for n, row in of_number if (n >= 16_000) == is_large]
            if chosen:
                values = np.median(chosen, axis=0)
                table.row(f"median, K = {K}, {len(chosen)} sets, {size}", *map(float, values))
        for kind, columns in _KINDS.items():
            gains = np.array([np.subtract(row[columns], row[3:5]) for _, row in of_number])
            if not len(gains):
                continue
            train, held_out = np.median(gains, axis=0)
            n_train, n_held_out = (gains > -1e-3).sum(axis=0)
            print(
                f"K = {K}: {kind} less the best of ten: {train:+.3f} train, {held_out:+.3f} held"
                f" out; level or better on {n_train} and {n_held_out} of {len(gains)} sets"
            )


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--numbers", type=int, nargs="+", default=[5, 10, 30, 100])
    parser.add_argument("--data", nargs="+", choices=[*REAL_DATA], default=[*REAL_DATA])
    kinds = ("full", "tied", "diag", "spherical")
    parser.add_argument("--covariance-type", choices=kinds, default="full")
    return parser.parse_args()


if __name__ == "__main__":
    main()
