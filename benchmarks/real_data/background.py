"""What a wide background adds to the scores of streams, in nats per row.

    python -m benchmarks.real_data.background
    python -m benchmarks.real_data.background --seeds 2 --batch 10

The streams are those of `benchmarks.real_data.streams`, part "drift": those that stay, and those
whose source changes. Each batch is scored before it is learnt, with each share of the background;
learning is the same with all of them. Medians over seeds, less the scores without a background.
"""

import argparse
import warnings
from functools import partial

import numpy as np

from benchmarks._table import Table
from benchmarks.real_data.streams import (
    DRIFTING,
    N_SKIPPED,
    STATIONARY,
    K,
    drifting,
    is_there,
    pieces,
    stationary,
)
from sklearn_onlineem import GaussianMixture

SHARES = (0.0, 0.001, 0.01, 0.03, 0.1)


def scores(X, batch_size, seed):
    """Mean log-likelihood of batches before they are learnt, for each share."""
    mixture = GaussianMixture(K, background=0.01, random_state=seed)
    found = [[] for _ in SHARES]
    for number, batch in enumerate(pieces(X, batch_size, K)):
        if number:
            for share, of_share in zip(SHARES, found, strict=True):
                mixture.set_params(background=share)
                of_share.append(mixture.score_samples(batch))
        mixture.set_params(background=0.01).partial_fit(batch)
    return np.array([np.concatenate(of_share)[N_SKIPPED:].mean() for of_share in found])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most-rows", type=int, default=6_000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    table = Table("stream", "without", *(f"+ {share:g}" for share in SHARES[1:]), width=40)
    kinds = {"stationary": (STATIONARY, stationary), "drifting": (DRIFTING, drifting)}
    gains = {kind: [] for kind in kinds}
    for kind, (names, make) in kinds.items():
        for name in names:
            stream = partial(make, name, arguments.most_rows)
            if not is_there(partial(stream, 0), name):
                continue
            seeds = range(arguments.seeds)
            found = np.array([scores(stream(seed), arguments.batch, seed) for seed in seeds])
            gain = np.median(found[:, 1:] - found[:, :1], axis=0)
            gains[kind].append(gain)
            table.row(name, f"{np.median(found[:, 0]):.2f}", *(f"{x:+.3f}" for x in gain))
    print()
    for kind, found in gains.items():
        table.row(f"{kind}, median", "", *(f"{x:+.3f}" for x in np.median(found, axis=0)))
        table.row(f"{kind}, least", "", *(f"{x:+.3f}" for x in np.min(found, axis=0)))


if __name__ == "__main__":
    main()
