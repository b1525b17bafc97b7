"""One pass of EM over rows with columns of several kinds, against StepMix's.

Four numbers (diagonal Gaussians), six bits and four columns of five categories; 100,000 rows of a
mixture of four classes. A rival's pass is a fifth of the difference of fits of seven and of two
passes, so that its start costs nothing. "gaps" has a tenth of the values missing. One thread each;
StepMix has to be installed.

    OMP_NUM_THREADS=1 python -m benchmarks.speed.several_kinds
"""

import argparse
import warnings
from functools import partial
from statistics import median

import numpy as np

from benchmarks._rows import Row, rival
from benchmarks._table import Table
from benchmarks._timing import seconds
from sklearn_onlineem import Mixture
from sklearn_onlineem.data.rows import Rows

GROUPS = [("gaussian_diag", 4), ("bernoulli", 6), ("categorical", 4)]
FAMILY = {
    (0, 1, 2, 3): "gaussian_diag",
    tuple(range(4, 10)): "bernoulli",
    tuple(range(10, 14)): "categorical",
}


def table(n_rows):
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, n_rows)[:, None]
    numbers = rng.normal(kind * np.array([2.0, 1.0, 0.0, 0.0]), 1.0)
    bits = rng.random((n_rows, 6)) < 0.2 + 0.15 * kind
    codes = np.minimum(rng.poisson(0.5 + 0.7 * kind, (n_rows, 4)), 4)
    return np.hstack([numbers, bits, codes])


def our_pass(X, n_classes, has_gaps, complete):
    """Return a function that makes one E- and one M-step."""
    model = Mixture(n_classes, family=FAMILY, max_iter=1, random_state=0).fit(complete).model_
    family, rows = model.family, Rows(X, has_gaps=has_gaps)
    return lambda: family.m_step(family.e_step(model.parameters, model.log_weights, rows)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    out = Table("rows", "classes", "ratio")
    for name, n_classes, faster in compare(arguments.rows, arguments.rounds):
        out.row(name, n_classes, "not installed" if faster is None else faster)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data."""
    for name, n_classes, faster in compare(max(2000, int(100_000 * share)), n_rounds):
        group = f"a pass of EM, columns of several kinds, {name}"
        yield Row(group, f"{n_classes} classes", "stepmix", faster)


def compare(n_rows, n_rounds):
    """Yield the rows, the classes, and how many times faster ours is."""
    warnings.simplefilter("ignore")
    stepmix_mixture = rival("stepmix_mixture")
    complete = table(n_rows)
    missing = np.random.default_rng(1).random(complete.shape) < 0.1
    for name, X in (
        ("complete", complete),
        ("a tenth missing", np.where(missing, np.nan, complete)),
    ):
        for n_classes in (3, 10):
            if stepmix_mixture is None:
                yield name, n_classes, None
                continue
            has_gaps = X is not complete
            theirs = stepmix_mixture.fits(X, GROUPS, n_classes, has_gaps)
            ours = our_pass(X, n_classes, has_gaps, complete)
            ours()
            ratios = []
            for _ in range(n_rounds):
                slow = (seconds(partial(theirs, 7)) - seconds(partial(theirs, 2))) / 5
                ratios.append(slow / seconds(ours, n_calls=5))
            yield name, n_classes, median(ratios)


if __name__ == "__main__":
    main()
