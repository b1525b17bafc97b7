"""Clusters of sequences of symbols: visits of web pages, and letters of Bible chapters.

A fifth of the sequences is held out. Cells are held-out log-likelihoods per symbol in nats; medians
over seeds, each with its own split. "stream" is one pass of `partial_fit`, "fit" what the default
`fit` makes of it, and "batch" is batch EM until it changes by less than 1e-3 nats per sequence.
Transitions have a Dirichlet prior of 1.1, which is a tenth of a pseudo-count each. The "seconds"
are of the stream and of batch EM.
"""

import argparse
import time
import warnings
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import MarkovChainMixture

PRIOR = {"concentration": 1.1, "start_concentration": 1.1}
LETTERS = " abcdefghijklmnopqrstuvwxyz"


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = Table("data", "chains", "stream", "fit", "batch", "seconds", "batch, s")
    for name, (load, n_symbols, batch_size) in DATA.items():
        X = load()
        for n_components in (1, 2, 4, 8):
            model = MarkovChainMixture(
                n_components, n_symbols=n_symbols, prior=PRIOR, batch_size=batch_size
            )
            rounds = [compare(model, X, seed) for seed in range(arguments.seeds)]
            table.row(name, n_components, *map(median, zip(*rounds, strict=True)))


def compare(model, X, seed):
    """Held-out scores of a stream, of a fit and of batch EM, and the time of the first and last."""
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = len(X) // 5
    test, train = ([X[i] for i in part] for part in (order[:n_test], order[n_test:]))
    streamed = streaming(MarkovChainMixture(**model.get_params()), train, seed)
    fits = [
        timed(MarkovChainMixture(**model.get_params()).set_params(random_state=seed, **more), train)
        for more in ({}, {"solver": "batch"})
    ]
    results = [streamed, *fits]
    scores = [score(fitted, test) for fitted, _ in results]
    return *scores, streamed[1], fits[1][1]


def streaming(model, X, seed):
    start = time.perf_counter()
    model.set_params(random_state=seed)
    for first in range(0, len(X), model.batch_size):
        model.partial_fit(X[first : first + model.batch_size])
    return model, time.perf_counter() - start


def timed(model, X):
    start = time.perf_counter()
    model.fit(X)
    return model, time.perf_counter() - start


def score(model, X):
    return model.score_samples(X).sum() / sum(map(len, X))


def load_short_visits(n_clicks=6):
    """Visits cut into short ones, as most visits are: these are the longest of a million."""
    visits = datasets.load_msnbc()
    return [x[i : i + n_clicks] for x in visits for i in range(0, len(x), n_clicks)]


def load_king_james_letters():
    """Chapters as sequences of letters, and spaces for all else."""
    codes = {letter: code for code, letter in enumerate(LETTERS)}
    texts = [" ".join(text.lower().split()) for text in datasets.load_king_james_chapters()]
    return [np.array([codes.get(letter, 0) for letter in text])[:, None] for text in texts]


# How to load, number of symbols, sequences in a batch.
DATA = {
    "msnbc": (datasets.load_msnbc, 17, 50),
    "msnbc, six clicks": (load_short_visits, 17, 50),
    "King James": (load_king_james_letters, len(LETTERS), 100),
}


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
