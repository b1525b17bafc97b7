"""Which floor of the variances is best? Default fits of Gaussians, with floors from 1e-12 to 1e-3.

    python -m benchmarks.real_data.least_variances --write

Columns have variance 1, so that a floor is a share of theirs: 1e-6 is `reg_covar="relative"`.
Held-out nats a row on a fifth of the rows, at random, less those with 1e-6: medians over seeds.
"narrowest" is the least variance of the training rows in any direction.
"""

import argparse
import warnings

import numpy as np

from benchmarks import records
from benchmarks._table import Table
from benchmarks.real_data.heavy_tails import SETS
from benchmarks.real_data.streams import is_there
from sklearn_onlineem import GaussianMixture

FLOORS = [1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]


def compare(name, seed, most_rows):
    """Held-out nats a row with each floor, and the least eigenvalue of the correlations."""
    source, K = SETS[name]
    X = source.rows(most_rows).X
    held_out = np.random.default_rng(seed).permutation(len(X)) < len(X) // 5
    train, test = X[~held_out], X[held_out]
    scale = train.std(axis=0)
    train, test = (rows[:, scale > 0.0] / scale[scale > 0.0] for rows in (train, test))
    scores = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for floor in FLOORS:
            shape = {"covariance_type": source.covariance_type, "reg_covar": floor}
            scores.append(GaussianMixture(K, random_state=seed, **shape).fit(train).score(test))
    return scores, np.linalg.eigvalsh(np.cov(train.T)).min()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--most-rows", type=int, default=5_000)
    parser.add_argument("--write", action="store_true", help=records.HELP)
    arguments = parser.parse_args()
    table = Table("data, K", "narrowest", *(f"{floor:.0e}" for floor in FLOORS), width=32)
    default, gains = FLOORS.index(1e-6), []
    for name in arguments.sets:
        if not is_there(SETS[name][0].load, name):
            continue
        rounds = [compare(name, seed, arguments.most_rows) for seed in range(arguments.seeds)]
        scores = np.array([scores for scores, _ in rounds])
        gains.append(np.median(scores - scores[:, [default]], axis=0))
        narrowest = f"{np.median([least for _, least in rounds]):.0e}"
        table.row(f"{name}, {SETS[name][1]}", narrowest, *(f"{gain:+z.4f}" for gain in gains[-1]))
    for what, summary in (("median", np.median), ("worst", np.min), ("best", np.max)):
        table.row(what, "", *(f"{gain:+z.4f}" for gain in summary(gains, axis=0)))
    if arguments.write:
        records.write("least_variances", {"table": table.rows})


if __name__ == "__main__":
    main()
