"""A sweep of collapsed Gibbs sampling over Gaussians, against our own EM pass, one thread each.

Rows are those of 32 components; a sweep begins where the one before ended. "moved" is the share of
rows that it gives another component, which costs most: the closer the components, the more. Both
take turns, and the table shows medians of ratios of CPU seconds.
"""

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._table import Table
from benchmarks._timing import CPU, ratio
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.data.rows import Rows

SIZES, REQUIRED = (100_000, 16, 32), 12.0
SHAPES = ("full", "tied", "diag", "spherical")
SPREADS = {"far apart": 3.0, "close": 0.7}


def main():
    arguments = _arguments()
    table = Table("covariances, components", "sweep / pass", "moved", "required", "")
    for shape in SHAPES:
        for name, spread in SPREADS.items():
            slower, moved = compare(shape, spread, arguments.rounds)
            required = REQUIRED if shape == "full" else ""
            met = "" if shape != "full" else "met" if slower < REQUIRED else "NOT MET"
            table.row(f"{shape}, {name}", slower, moved, required, met)


def compare(shape, spread, n_rounds):
    """Return the time of a sweep in passes, and the share of rows that it moves."""
    n, d, K = SIZES
    rng = np.random.default_rng(0)
    X = (spread * rng.normal(size=(K, d)))[rng.integers(0, K, n)] + rng.normal(size=(n, d))
    with threadpool_limits(1):
        mixture = GaussianMixture(
            K, covariance_type=shape, solver="batch", max_iter=3, tol=0.0, n_jobs=1, random_state=0
        ).fit(X)
        model, rows, concentration = mixture.model_, Rows(X), np.ones(K)
        family, labels, moved = model.family, mixture.predict(X).astype(np.intc), []
        prior = _prior(family, shape, K, d)

        def sweep():
            before = labels.copy()
            family.collapsed_sweep(prior, X, labels, concentration, rng.random(n))
            moved.append(np.mean(before != labels))

        return ratio(sweep, lambda: model.m_step(model.e_step(rows)[0]), CPU, n_rounds), moved[-1]


def _prior(family, shape, n_components, d):
    spread = {"covariance": 1.0, "degrees_of_freedom": d + 1.0}
    if shape in ("diag", "spherical"):
        spread = {"shape": 1.5, "scale": 1.0}
    return family.prior_statistics(n_components, n_features=d, mean_precision=0.1, **spread)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
