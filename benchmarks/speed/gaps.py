"""An E-step of Gaussian rows with missing values, in E-steps of the same rows without.

Values are missing at random, so that at a half of 16 features almost every row lacks others.
Complete rows among them take the way of complete rows. CPU time on one thread, both by turns.
"""

import argparse
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._rows import Row, compared
from benchmarks._table import Table
from benchmarks._timing import CPU, ratio
from benchmarks.floors import Operations
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Gaussians, Tied

SHAPES = {"full": Full(), "tied": Tied(), "diag": Diagonal()}
# Most that 16 features may take, full covariances.
REQUIRED = {0.1: 3.0, 0.5: 12.0}


def main():
    arguments = _arguments()
    print(f"{arguments.rows} rows, K={arguments.components}; times of complete rows\n")
    table = Table("covariances", "missing", "E-step", "required", "", "log densities", width=14)
    for name, shape in SHAPES.items():
        for d in arguments.features:
            family, parameters, X = mixture(shape, d, arguments)
            complete = steps(family, parameters, X)
            for share in (0.0, 0.1, 0.5):
                gaps = np.random.default_rng(1).random(X.shape) < share
                taken, densities = (
                    ratio(slow, fast, CPU, arguments.rounds)
                    for slow, fast in zip(
                        steps(family, parameters, np.where(gaps, np.nan, X)), complete, strict=True
                    )
                )
                required = REQUIRED.get(share, "") if (name, d) == ("full", 16) else ""
                met = "" if not required else "met" if taken <= required else "MISSED"
                table.row(f"{name}, d={d}", f"{share:.0%}", taken, required, met, densities)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data; there is no other library."""
    arguments = argparse.Namespace(rows=max(1000, int(50_000 * share)), components=10)
    for name, d in (("full", 4), ("full", 16), ("diag", 16)):
        family, parameters, X = mixture(SHAPES[name], d, arguments)
        gaps = np.random.default_rng(1).random(X.shape) < 0.1
        with threadpool_limits(1):
            e_step, _ = steps(family, parameters, np.where(gaps, np.nan, X))
            _, floor, _ = compared(e_step, None, n_rounds, operations(name, gaps, 10))
        kind = {"full": "full", "diag": "diagonal"}[name]
        group = f"an E-step of Gaussians, a tenth missing, {kind}"
        yield Row(group, f"{len(X):,} x {d}, 10 components", "", None, floor)


def operations(name, gaps, n_components):
    """The least: densities of observed values, expected missing ones, and moments of both.

    Of full covariances, each pattern needs the factor of its part, and what is left of the rest.
    """
    n, d = gaps.shape
    if name == "diag":
        return Operations(4 * gaps.size * n_components, n * n_components)
    missing = gaps.sum(axis=1)
    observed = d - missing
    each = observed * (observed + 1) / 2 + observed * missing + d * (d + 1) / 2
    patterns = np.unique(gaps, axis=0).sum(axis=1)
    shared = (d - patterns) ** 3 / 6 + patterns**2 * (d - patterns) / 2
    return Operations(n_components * (each.sum() + shared.sum()), n * n_components)


def mixture(shape, d, arguments):
    """A family, parameters, and rows of a mixture that has them."""
    rng, K = np.random.default_rng(0), arguments.components
    roots = np.eye(d) + 0.5 * rng.normal(size=(K, d, d)) / np.sqrt(d)
    covariances = shape.from_matrices(roots @ roots.transpose(0, 2, 1))
    covariances = covariances / K if shape.is_shared else covariances
    parameters = Gaussians(2.0 * rng.normal(size=(K, d)), covariances)
    family = Gaussian(shape)
    return family, parameters, family.sample(parameters, rng.integers(K, size=arguments.rows), rng)


def steps(family, parameters, X):
    """The E-step and the log densities of rows, by whether they are complete."""
    log_weights = np.full(len(parameters.mean), -np.log(len(parameters.mean)))
    e_steps, densities = [], []
    for _, rows in Rows(X, has_gaps=True).by_completeness():
        log_density = family.marginal_log_density if rows.has_gaps else family.log_density
        e_steps.append(partial(family.e_step, parameters, log_weights, rows))
        densities.append(partial(log_density, parameters, rows.X))
    return (lambda: [step() for step in e_steps]), (lambda: [density() for density in densities])


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--features", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
