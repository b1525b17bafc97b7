"""Time of the leading shares of missing information, in passes of EM over the same rows.

Gaussian mixtures of some 10,000 parameters and 100,000 rows: the five leading eigenvalues are to
take less than 60 passes. All components overlap all others alike, so that the eigenvalues stand
close to each other, which is what Lanczos' method likes least; a pair that overlaps more than
others costs less. CPU seconds on one thread, for both sides.
"""

import argparse
import math
from functools import partial

import numpy as np

from benchmarks._table import Table
from benchmarks._timing import CPU, seconds
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.diagnostics import missing_information
from sklearn_onlineem.em.step import batch_step

REQUIRED = 60.0
# Shape of the covariances, features, components, and standard deviation of the means.
MIXTURES = [
    ("full", 20, 43, 0.5),
    ("full", 20, 43, 0.7),
    ("full", 20, 43, 1.0),
    ("diag", 50, 99, 0.5),
]


def main():
    arguments = _arguments()
    print(f"{arguments.rows} rows; times in passes of EM\n")
    table = Table(
        "mixture", "parameters", "pass, CPU s", "passes", "required", "", "rate", width=30
    )
    for mixture in MIXTURES:
        one_pass, taken, information, n_parameters = times(mixture, arguments)
        passes = taken / one_pass
        met = "met" if passes < REQUIRED else "MISSED"
        kind, d, n_components, spread = mixture
        name = f"{kind}, d={d}, K={n_components}, {spread}"
        table.row(name, n_parameters, one_pass, passes, REQUIRED, met, information.rate)


def times(mixture, arguments):
    """Seconds of a pass and of the eigenvalues, these, and the number of parameters."""
    kind, _, n_components, _ = mixture
    X, means = rows(arguments.rows, *mixture)
    fitted = GaussianMixture(
        n_components, covariance_type=kind, means_init=means, solver="batch", tol=1e-7,
        max_iter=200,
    ).fit(X)  # fmt: skip
    one_pass, taken, information = math.inf, math.inf, None
    ask = partial(missing_information, fitted, X)
    for _ in range(arguments.rounds):
        step = partial(batch_step, fitted.model_, Rows(X))
        one_pass = min(one_pass, seconds(step, CPU, n_calls=5))
        found = []
        taken = min(taken, seconds(lambda found=found: found.append(ask()), CPU))
        information = found[0]
    return one_pass, taken, information, fitted.model_.n_parameters()


def rows(n, kind, d, n_components, spread):
    """Rows of a mixture, and its means."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((n_components, d)) * spread
    roots = np.eye(d) + 0.1 * rng.standard_normal((n_components, d, d))
    roots *= np.eye(d) if kind == "diag" else 1.0
    drawn = rng.integers(n_components, size=n)
    noise = np.empty((n, d))
    for k, root in enumerate(roots):
        noise[drawn == k] = rng.standard_normal((np.count_nonzero(drawn == k), d)) @ root.T
    return means[drawn] + noise, means


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
