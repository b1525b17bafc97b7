"""Mixtures of rows with missing values, in nats per row of complete rows that were held out.

    python -m benchmarks.real_data.missing_values
    python -m benchmarks.real_data.missing_values --components 5 --seeds 5

Of the first 7 columns of each data set, standardised, shares of the values go missing at random.
"complete" is a fit to the rows before that. The others are compared with it: "marginals", a fit to
the rows as they are; "means", to gaps filled with the means of columns; "regressions", filled by
scikit-learn's `IterativeImputer`; and "dropped", without incomplete rows, if ten a component are
left. Behind them are adjusted Rand indices with the classes of the held-out rows, where there are
classes, and errors of `impute`, in standard deviations, beside those of both imputers. Medians over
seeds; the last rows are medians over data sets.
"""

import argparse
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer
from sklearn.metrics import adjusted_rand_score

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture

SHARES, N_COLUMNS, MOST_ROWS = (0.05, 0.2, 0.5), 7, 3000
ROWS_PER_COMPONENT = 10


def with_classes(bunch):
    return bunch.data, bunch.target


def diamonds():
    X, cut = datasets.load_diamonds()
    return np.log1p(X), cut


def spoken_digits():
    return datasets.load_free_spoken_digits(), None


def fashion():
    X, classes = datasets.load_fashion_mnist(return_classes=True)
    return PCA(N_COLUMNS).fit_transform(X[:5000]), classes[:5000]


def digits():
    X, classes = load_digits(return_X_y=True)
    return PCA(N_COLUMNS).fit_transform(X), classes


REAL_DATA = {
    "pen digits": lambda: datasets.load_pendigits(return_classes=True),
    "air quality": lambda: (datasets.load_air_quality(), None),
    "Covertype": lambda: (datasets.load_covertype(), None),
    "diamonds": diamonds,
    "spoken digits": spoken_digits,
    "digits, first axes": digits,
    "Fashion-MNIST, first axes": fashion,
    # A hundred to 400 rows.
    "breast cancer": lambda: with_classes(load_breast_cancer()),
    "iris": lambda: with_classes(load_iris()),
    "wine": lambda: with_classes(load_wine()),
    "US macro": lambda: (datasets.load_us_macro(), None),
}
FEW_ROWS = ("breast cancer", "iris", "wine", "US macro")


def split(X, classes, seed):
    """Rows to learn from, rows held out, and the classes of these."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))[:MOST_ROWS]
    X = np.asarray(X, dtype=float)[order, :N_COLUMNS]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X = X + rng.uniform(-0.02, 0.02, X.shape)  # Equal values would have unbounded densities.
    n = 2 * len(X) // 3
    return X[:n], X[n:], None if classes is None else np.asarray(classes)[order][n:]


def results(X, held_out, classes, share, n_components, seed):
    """Nats per row, Rand indices and errors of each way."""
    rng = np.random.default_rng(seed + 1)
    missing = rng.random(X.shape) < share
    gaps = np.where(missing, np.nan, X)
    simple, iterative = SimpleImputer(), IterativeImputer(random_state=seed, max_iter=20)
    filled = {"means": simple.fit_transform(gaps), "regressions": iterative.fit_transform(gaps)}
    ways = {"complete": X, "marginals": gaps, **filled, "dropped": gaps[~missing.any(axis=1)]}
    found, indices, errors = {}, {}, {}
    for way, rows in ways.items():
        if len(rows) < ROWS_PER_COMPONENT * n_components:
            continue
        mixture = GaussianMixture(n_components, random_state=seed).fit(rows)
        found[way] = mixture.score(held_out)
        if classes is not None:
            indices[way] = adjusted_rand_score(classes, mixture.predict(held_out))
        if way == "marginals":
            filled["marginals"] = mixture.impute(gaps)
    for way, rows in filled.items():
        errors[way] = np.sqrt(((rows - X)[missing] ** 2).mean())
    return found, indices, errors


def median_of(dicts, key, less=None):
    """Median over seeds of a value, less another one; NaN if a fit was left out."""
    values = [d.get(key, np.nan) - (0.0 if less is None else d[less]) for d in dicts]
    return float(np.median(values)) if values else np.nan


def shown(values, form):
    return [form.format(v) if np.isfinite(v) else "-" for v in values]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--components", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    gains = ("marginals", "means", "regressions", "dropped")
    indices, errors = ("complete", "marginals", "means"), ("marginals", "means", "regressions")
    columns = (*gains, *(f"ARI {x[:8]}" for x in indices), *(f"err {x[:7]}" for x in errors))
    table = Table("data, share missing", "complete", *columns, width=24)
    everything = {(few, share): [] for few in (False, True) for share in SHARES}
    for name, load in REAL_DATA.items():
        try:
            X, classes = load()
        except (ImportError, OSError, ValueError) as error:
            print(f"{name}: left out, {error}")
            continue
        for share in SHARES:
            runs = []
            for seed in range(arguments.seeds):
                parts = split(X, classes, seed)
                runs.append(results(*parts, share, arguments.components, seed))
            nats, rand, error = zip(*runs, strict=True)
            values = [
                *(median_of(nats, way, "complete") for way in gains),
                *(median_of(rand, way) for way in indices),
                *(median_of(error, way) for way in errors),
            ]
            few = name in FEW_ROWS
            everything[few, share].append(values)
            complete = f"{median_of(nats, 'complete'):.2f}"
            table.row(f"{name}, {share:.0%}", complete, *shown(values[:4], "{:+.2f}"),
                      *shown(values[4:], "{:.2f}"))  # fmt: skip
    for (few, share), rows in everything.items():
        columns = np.array(rows).T
        medians = [
            np.median(x[np.isfinite(x)]) if np.isfinite(x).any() else np.nan for x in columns
        ]
        name = f"{'few' if few else 'many'} rows, {share:.0%}"
        table.row(name, "", *shown(medians[:4], "{:+.2f}"), *shown(medians[4:], "{:.2f}"))


if __name__ == "__main__":
    main()
