"""What outliers cost a stream, and what leaving them out costs streams that have none.

    python -m benchmarks.real_data.outliers
    python -m benchmarks.real_data.outliers --seeds 1 --sets digits pixels --batches 1 100

One pass of `partial_fit` over real data, in the order of the data and at random, with the gate
(``skips_outliers=True``) and without it; batches of 100. Scores are held-out nats per row (a fifth
of the rows, at random), the gate's less those without it:

"ordinary": the rows as they are; how many were left out, and the difference. "three": an entry of
1e6 standard deviations in each of three rows, in the middle of the stream, with the gate, how many
it has left out then, and without it. "dropped": the stream without these three rows. A stream that
lacks three rows may end in another optimum, better or worse, so what the gate costs is "three" less
"dropped". "jump": all rows of the second half are moved by ten standard deviations, and so are
those held out; here the difference is from the stream without the gate.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np

from benchmarks._table import Table
from benchmarks.real_data.streams import SOURCES, K, is_there, loaded, pieces
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import BayesianOnline, Online

SETTINGS = {
    "default": lambda skips: {"solver": Online(skips_outliers=skips)},
    "forgetting, .98": lambda skips: {
        "solver": Online(skips_outliers=skips), "schedule": "forgetting", "beta": 0.98
    },
    "tied": lambda skips: {"solver": Online(skips_outliers=skips), "covariance_type": "tied"},
    "bayesian, .98": lambda skips: {
        "solver": BayesianOnline(forgetting=0.98, skips_outliers=skips)
    },
}  # fmt: skip


def streamed(X, seed, batch_size, arguments):
    """The mixture after the stream, and how many rows it has left out."""
    mixture = GaussianMixture(K, random_state=seed, **arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in pieces(X, batch_size):
            mixture.partial_fit(batch)
    gate = mixture._fitted.state.carry["gate"]
    return mixture, 0 if gate is None else gate.n_left_out


def with_three(X):
    """The rows with three outliers, and the numbers of these."""
    X, middle = X.copy(), len(X) // 2
    rows = middle + np.array([0, 37, 500]) % max(1, len(X) - middle)
    for i, row in enumerate(rows):
        X[row, i % X.shape[1]] += 1e6 * X.std(axis=0)[i % X.shape[1]]
    return X, rows


def with_jump(X):
    return X + 10.0 * X.std(axis=0) * (np.arange(len(X)) >= len(X) // 2)[:, None]


def compare(name, order, setting, batch_size, seed, most_rows):
    """Numbers of one stream: see the head of this file."""
    source = loaded(name)
    X, _ = source.rows(most_rows)
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(X), bool)
    held_out[rng.permutation(len(X))[: len(X) // 5]] = True
    test, train = X[held_out], X[~held_out]
    train = rng.permutation(train) if order == "random" else train
    base = {"covariance_type": source.covariance_type}
    of = {s: base | SETTINGS[setting](s) for s in (False, True)}
    learn = partial(streamed, seed=seed, batch_size=batch_size)
    plain, gated = learn(train, arguments=of[False])[0], learn(train, arguments=of[True])
    scale = plain.score(test)
    three, rows = with_three(train)
    off, hit = (learn(three, arguments=of[s]) for s in (False, True))
    without_three = learn(np.delete(train, rows, axis=0), arguments=of[True])[0]
    three = [one.score(test) - scale for one in (hit[0], without_three, off[0])]
    moved = test + 10.0 * train.std(axis=0)
    jumped = [learn(with_jump(train), arguments=of[s])[0].score(moved) for s in (True, False)]
    return gated[1], gated[0].score(test) - scale, hit[1], *three, jumped[0] - jumped[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=list(SOURCES))
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--batches", nargs="*", type=int, default=[100])
    parser.add_argument("--most-rows", type=int, default=5_000)
    arguments = parser.parse_args()
    names = [
        name for name in SOURCES
        if any(chosen in name for chosen in arguments.sets) and is_there(SOURCES[name].load, name)
    ]  # fmt: skip
    started = time.process_time()
    for setting in arguments.settings:
        for batch_size in arguments.batches:
            table = Table(
                f"{setting}, batches of {batch_size}",
                *("left out", "ordinary", "of three", "three", "dropped", "three, off", "jump"),
                width=40,
            )  # fmt: skip
            worst = []
            for name in names:
                for order in ("random", "given"):
                    found = np.median([
                        compare(name, order, setting, batch_size, seed, arguments.most_rows)
                        for seed in range(arguments.seeds)
                    ], axis=0)  # fmt: skip
                    worst.append(found)
                    table.row(f"{name}, {order}", *(f"{value:.3g}" for value in found))
            table.row("median", *(f"{value:.3g}" for value in np.median(worst, axis=0)))
            table.row("worst", *(f"{value:.3g}" for value in np.min(worst, axis=0)))
            print()
    print(f"{time.process_time() - started:.0f} s")


if __name__ == "__main__":
    main()
