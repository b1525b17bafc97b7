"""Columns of several kinds: classes of a table of numbers and categories, by BIC.

Areas of forest (Covertype): ten numbers (elevation, slopes, distances, shades) and the soil, of 40
kinds. Each column set has mixtures of 1 to 32 classes, by the default solver. "numbers" has the
numbers alone, with full covariances within a class; "both" the soil, too, independent of the
numbers within a class; "apart" is the sum of the first and of the shares of the soils, which knows
nothing of both together. BIC is divided by the number of rows; "held out" is the mean
log-likelihood of rows that were not learnt, in nats; "area" the adjusted Rand index with the four
wildernesses where the rows are from, which no mixture sees.

    python -m benchmarks.real_data.several_kinds
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import CategoricalMixture, Mixture
from sklearn_onlineem.families import Categorical

N_CLASSES = (1, 2, 4, 8, 16, 32)
NUMBERS, SOIL = tuple(range(10)), 10
SETS = {"numbers": {NUMBERS: "gaussian"}, "both": {NUMBERS: "gaussian", SOIL: "categorical"}}


def covertype(n_rows, seed):
    """Rows of ten numbers and the code of the soil, and the wilderness of each."""
    X = datasets.load_covertype_54()
    X = X[np.random.default_rng(seed).choice(len(X), n_rows, replace=False)]
    # Soils that no chosen row has are no category.
    soil = np.unique(X[:, 14:54].argmax(axis=1), return_inverse=True)[1]
    return np.column_stack([X[:, :10], soil]), X[:, 10:14].argmax(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = covertype(arguments.rows, arguments.seed)
    known, unknown, _, areas = train_test_split(X, y, test_size=0.25, random_state=0)
    soil = CategoricalMixture(1, n_categories=int(X[:, SOIL].max()) + 1).fit(known[:, [SOIL]])
    table = Table("columns", "classes", "BIC / rows", "held out", "area", "seconds", width=16)
    for name, family in SETS.items():
        own = list(NUMBERS) + [SOIL] * (name == "both")
        if name == "both":
            family[SOIL] = Categorical(int(X[:, SOIL].max()) + 1)
        for n_classes in N_CLASSES:
            mixture = Mixture(n_classes, family=family, random_state=0)
            began = time.perf_counter()
            mixture.fit(known[:, own])
            seconds = time.perf_counter() - began
            bic = mixture.bic(known[:, own]) / len(known)
            score = mixture.score(unknown[:, own])
            index = float(adjusted_rand_score(areas, mixture.predict(unknown[:, own])))
            table.row(name, n_classes, bic, score, index, seconds)
            if name == "numbers":
                bic += soil.bic(known[:, [SOIL]]) / len(known)
                table.row("apart", n_classes, bic, score + soil.score(unknown[:, [SOIL]]), "", "")


if __name__ == "__main__":
    main()
