"""When a merge warns that sites do not have the same components.

    python -m benchmarks.papers.unequal_sites --draws 20

Three sites have rows of one source. Equal ones have the same components; of unequal ones the first
has another component than the others. Each fits its rows, from one start, the fit of another equal
site, or from its own, by which equal sites may find other clusters, too. The harm of a merge is by
how much the merged model explains held-out rows of a site worse than the site's own model, in nats
a row (of topics: a document), mean of the sites. A merge should warn if it does harm because
components were fused, and not for the error of few rows. It takes some 15 minutes by default.
"""

import argparse
import warnings
from copy import deepcopy
from itertools import product

import numpy as np

from benchmarks._table import Table
from sklearn_onlineem import (
    CategoricalHMM,
    GaussianHMM,
    GaussianMixture,
    LatentDirichletAllocation,
    MergeWarning,
    PoissonMixture,
    combine_estimators,
)

N_SITES, LENGTH = 3, 25


def gaussians(rng, k, d=2):
    means = 3.0 * rng.normal(size=(k + 1, d))
    return lambda own, n: means[rng.choice(own, n)] + rng.normal(size=(n, d))


def counts(rng, k):
    means = rng.gamma(1.0, 8.0, size=(k + 1, 4))
    return lambda own, n: rng.poisson(means[rng.choice(own, n)])


def chains(emit):
    def source(rng, k):
        rows, stays = emit(rng, k), 0.8

        def one(own):
            states = [rng.choice(own)]
            for _ in range(LENGTH - 1):
                states.append(states[-1] if rng.random() < stays else rng.choice(own))
            return rows(states)

        return lambda own, n: [one(own) for _ in range(n // LENGTH)]

    return source


def normal_rows(rng, k):
    means = 3.0 * rng.normal(size=(k + 1, 2))
    return lambda states: means[states] + rng.normal(size=(len(states), 2))


def symbols(rng, k):
    table = rng.dirichlet(np.full(8, 0.3), k + 1)
    return lambda states: np.array([[rng.choice(8, p=table[state])] for state in states])


def documents(rng, k):
    topics = rng.dirichlet(np.full(40, 0.1), k + 1)

    def draw(own, n):
        shares = rng.dirichlet(np.full(k, 0.3), n)
        return np.array([rng.multinomial(60, row @ topics[own]) for row in shares])

    return draw


# A source, an estimator, and how many components.
CASES = {
    "Gaussian mixture": (gaussians, GaussianMixture, 3),
    "... in 10 dimensions": (lambda rng, k: gaussians(rng, k, 10), GaussianMixture, 5),
    "Poisson mixture": (counts, PoissonMixture, 3),
    "Gaussian HMM": (chains(normal_rows), GaussianHMM, 3),
    "categorical HMM": (chains(symbols), lambda k, **a: CategoricalHMM(k, n_features=8, **a), 3),
    "topics": (documents, LatentDirichletAllocation, 4),
}


def merged(name, n, is_equal, has_own_start, seed):
    """Return whether the merge warned, and its harm."""
    source, make, k = CASES[name]
    draw = source(np.random.default_rng(seed), k)
    own = [[*range(k)], *(N_SITES - 1) * [[*range(k)] if is_equal else [*range(1, k + 1)]]]
    start = make(k, random_state=0, warm_start=True).fit(draw([*range(k)], n))
    starts = [make(k, random_state=i) if has_own_start else deepcopy(start) for i in range(N_SITES)]
    sites = [site.fit(draw(mine, n)) for site, mine in zip(starts, own, strict=True)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MergeWarning)
        model = combine_estimators(sites)
    held_out = [draw(mine, 2000) for mine in own]
    n_rows = len(held_out[0]) / 2000
    harms = [site.score(X) - model.score(X) for site, X in zip(sites, held_out, strict=True)]
    return bool(caught), n_rows * np.mean(harms)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    table = Table("", "rows", "starts", "sites", "warned", "harm if so", "", "if not", "", width=22)
    for name, n, own in product(arguments.cases, arguments.rows, (False, True)):
        for is_equal in (True, False):
            found = [merged(name, n, is_equal, own, seed) for seed in range(arguments.draws)]
            ranges = []
            for told in (True, False):
                harms = [harm for warned, harm in found if warned is told]
                ranges += [min(harms), max(harms)] if harms else ["-", "-"]
            told = f"{sum(warned for warned, _ in found)} of {len(found)}"
            sites = "equal" if is_equal else "unequal"
            table.row(name, n, "own" if own else "one", sites, told, *ranges)


if __name__ == "__main__":
    main()
