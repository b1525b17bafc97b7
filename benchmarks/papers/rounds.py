"""Rounds of merging and learning (Amid & Warmuth, UAI 2020, section 6, on real data).

    SKLEARN_ONLINEEM_DATA=... python -m benchmarks.papers.rounds
    SKLEARN_ONLINEEM_DATA=... python -m benchmarks.papers.rounds --full --seeds 20

A fifth of the rows is held out. A fit of another fifth, by batch EM, is what all begin from, and
the others lie at four sites: at random, or "apart", sorted by the first principal axis, so that
each site knows another part. Columns are standardised; covariances are diagonal. The first row is
the score of batch EM on all rows but the held-out ones, in nats a row; others are less that:

start                 the fit of a fifth
pooled stream         `partial_fit` of one estimator in 20 batches, each of all sites
one after the other   the same, with the rows of a site in a batch
rounds, partial_fit   each site takes its batch, then all are merged, 20 times: the same pass
averaged rounds       the same, with ``method="averaging"``
merged once           each site takes its 20 batches, then all are merged
averaged once         the same, with ``method="averaging"``
fits, merged once     each site takes batch EM to its end, then all are merged
rounds of fits        each site takes a pass of batch EM, then all are merged, 20 times
rounds, batch EM      20 rounds of `DistributedEM`, whose shards send statistics, not models

Numbers are medians over seeds. With ``--full`` covertype has all of its 581,012 rows, not 20,000.
By default it takes a minute.
"""

import argparse
import copy
import warnings

import numpy as np

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture, combine_estimators
from sklearn_onlineem.distributed import DistributedEM

N_SITES, N_ROUNDS, QUICK_ROWS = 4, 20, 20_000
SETS = {
    "digits": (datasets.load_digits, 10),
    "wine": (datasets.load_wine, 3),
    "cancer": (datasets.load_breast_cancer, 2),
    "covtype": (datasets.load_covertype, 7),
}


def rows_of(name, rng, most_rows):
    """Training rows in random order, and held-out ones, without columns that hardly vary."""
    X = np.asarray(SETS[name][0](), dtype=float)
    X = X[rng.permutation(len(X))[:most_rows]]
    varies = [np.unique(column, return_counts=True)[1].max() < 0.9 * len(X) for column in X.T]
    X = X[:, varies]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    n_test = len(X) // 5
    return X[n_test:], X[:n_test]


def sites_of(X, is_apart):
    if is_apart:
        axis = np.linalg.svd(X[:5000], full_matrices=False)[2][0]
        X = X[np.argsort(X @ axis)]
    return np.array_split(X, N_SITES)


def started(X, n_components):
    """The common start."""
    settings = {"covariance_type": "diag", "reg_covar": 1e-2, "random_state": 0}
    return GaussianMixture(n_components, solver="batch", **settings).fit(X)


def learnt(model, rows, partial=True):
    model = copy.deepcopy(model)
    return model.partial_fit(rows) if partial else model.fit(rows)


def in_rounds(start, batches, method, partial=True):
    merged = start
    for of_sites in batches:
        members = [learnt(merged, rows, partial) for rows in of_sites]
        merged = combine_estimators(members, base=merged, method=method)
    return merged


def ways(sites, start, rng):
    """Yield a name and a fitted estimator for each way."""
    cuts = [np.array_split(rng.permutation(part), N_ROUNDS) for part in sites]
    batches = [[b for b in of_sites if len(b)] for of_sites in zip(*cuts, strict=True)]
    yield "start", start
    stream = singly = start
    for of_sites in batches:
        stream = learnt(stream, np.concatenate(of_sites))
        for rows in of_sites:
            singly = learnt(singly, rows)
    yield "pooled stream", stream
    yield "one after the other", singly
    yield "rounds, partial_fit", in_rounds(start, batches, "entropic")
    yield "averaged rounds", in_rounds(start, batches, "averaging")
    apart = [start] * N_SITES
    for i, of_site in enumerate(cuts):
        for rows in of_site:
            apart[i] = learnt(apart[i], rows) if len(rows) else apart[i]
    yield "merged once", combine_estimators(apart, base=start)
    yield "averaged once", combine_estimators(apart, base=start, method="averaging")
    fitting = copy.deepcopy(start).set_params(warm_start=True)
    fits = [learnt(fitting, rows, partial=False) for rows in sites]
    yield "fits, merged once", combine_estimators(fits, base=fitting)
    one_pass = fitting.set_params(max_iter=1, tol=0.0)
    yield "rounds of fits", in_rounds(one_pass, [sites] * N_ROUNDS, "entropic", partial=False)
    rounds = copy.deepcopy(fitting).set_params(max_iter=N_ROUNDS)
    learner = DistributedEM(rounds, n_shards=N_SITES).fit(np.concatenate(sites))
    yield "rounds, batch EM", learner.estimator_


def one_seed(name, seed, is_apart, most_rows):
    rng = np.random.default_rng(seed)
    X, held_out = rows_of(name, rng, most_rows)
    n_start = len(X) // 4
    start = started(X[:n_start], SETS[name][1])
    best = learnt(start.set_params(warm_start=True), X, partial=False).score(held_out)
    found = ways(sites_of(X[n_start:], is_apart), start.set_params(warm_start=False), rng)
    return {"pooled fit": best} | {way: one.score(held_out) - best for way, one in found}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of passes, and of empty components
    for is_apart in (False, True):
        table = Table("apart" if is_apart else "iid", *SETS, width=24)
        scores = {
            name: [
                one_seed(name, seed, is_apart, None if arguments.full else QUICK_ROWS)
                for seed in range(arguments.seeds)
            ]
            for name in SETS
        }
        for way in scores["wine"][0]:
            table.row(way, *(float(np.median([s[way] for s in scores[n]])) for n in SETS))


if __name__ == "__main__":
    main()
