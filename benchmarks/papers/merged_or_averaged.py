"""Where merging by statistics is better than averaging of parameters, and where not.

    python -m benchmarks.papers.merged_or_averaged --draws 20
    python -m benchmarks.papers.merged_or_averaged --cases kalman

Four sites have some rows each of one source that is drawn anew. They fit them (fits), learn them as
streams of their own (streams), or continue copies of a stream that has seen as much as one of them
(copies), or seven times as much (late copies). Numbers are held-out scores, nats per row, sequence
or document, of `combine_estimators` less those with ``method="averaging"``: median, least and most
of the draws, and in how many merging is ahead. It takes a minute and a half by default.
"""

import argparse
import copy
import warnings

import numpy as np

from sklearn_onlineem import (
    CategoricalHMM,
    GaussianMixture,
    KalmanFilter,
    LatentDirichletAllocation,
    combine_estimators,
)

N_SITES, N_LATE, LENGTH = 4, 6, 25


def clusters(rng):
    means = 2.0 * rng.normal(size=(5, 4))
    return lambda n: means[rng.integers(0, 5, n)] + rng.normal(size=(n, 4))


def linear_systems(rng):
    A, C = 0.9 * np.linalg.qr(rng.normal(size=(2, 2)))[0], rng.normal(size=(3, 2))

    def draw(n):
        state, rows = rng.normal(size=(n, 2)), []
        for _ in range(LENGTH):
            rows.append(state @ C.T + 0.5 * rng.normal(size=(n, 3)))
            state = state @ A.T + 0.6 * rng.normal(size=(n, 2))
        return list(np.stack(rows, axis=1))

    return draw


def chains(rng):
    transmat = 0.8 * np.eye(3) + 0.2 * rng.dirichlet(np.ones(3), 3)
    emissions = rng.dirichlet(0.5 * np.ones(6), 3)

    def one():
        state, symbols = rng.integers(3), []
        for _ in range(LENGTH):
            symbols.append(rng.choice(6, p=emissions[state]))
            state = rng.choice(3, p=transmat[state])
        return np.array(symbols)[:, None]

    return lambda n: [one() for _ in range(n)]


def documents(rng):
    topics = rng.dirichlet(0.1 * np.ones(40), 5)

    def draw(n):
        shares = rng.dirichlet(0.3 * np.ones(5), n)
        return np.array([rng.multinomial(60, row @ topics) for row in shares])

    return draw


# A source, an estimator, and observations of a site.
CASES = {
    "mixture": (clusters, lambda: GaussianMixture(5, random_state=0), 100),
    "mixture, eta0=.5": (
        clusters,
        lambda: GaussianMixture(5, solver="online", eta0=0.5, random_state=0),
        100,
    ),
    "kalman": (linear_systems, lambda: KalmanFilter(2, random_state=0), 20),
    "categorical": (chains, lambda: CategoricalHMM(3, n_features=6, random_state=0), 40),
    "topics": (documents, lambda: LatentDirichletAllocation(5, random_state=0), 100),
}


def fits(make, draw, n):
    return [make().fit(draw(n)) for _ in range(N_SITES)]


def streams(make, draw, n):
    return [make().partial_fit(draw(n)) for _ in range(N_SITES)]


def copies(make, draw, n, n_before=0):
    base = make().partial_fit(draw(n))
    for _ in range(n_before):
        base.partial_fit(draw(n))
    sites = [copy.deepcopy(base) for _ in range(N_SITES)]
    for site in sites:
        X, step = draw(n), max(1, n // 5)
        for begin in range(0, n, step):
            site.partial_fit(X[begin : begin + step])
    return sites


def late_copies(make, draw, n):
    return copies(make, draw, n, N_LATE)


def advantage(name, way, seed):
    source, make, n = CASES[name]
    draw = source(np.random.default_rng(seed))
    held_out, sites = draw(300), way(make, draw, n)
    merged, averaged = (combine_estimators(sites, method=m) for m in ("entropic", "averaging"))
    return merged.score(held_out) - averaged.score(held_out)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=CASES)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    for name in arguments.cases:
        for way in (fits, streams, copies, late_copies):
            gains = np.array([advantage(name, way, seed) for seed in range(arguments.draws)])
            print(
                f"{name:<18}{way.__name__:<12}{np.median(gains):+8.3f}"
                f" [{gains.min():+.3f}, {gains.max():+.3f}] {(gains > 0).sum()}/{len(gains)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
