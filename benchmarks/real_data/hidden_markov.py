"""Hidden Markov models of real sequences: one online pass against batch EM from the same start.

phage    GC content along the genome of the phage lambda; online, in pieces of one sequence
speech   one model for each spoken digit, left to right; accuracy on the official test takes
msnbc    visits to a web site; held-out nats per click
geyser   Old Faithful's durations in order; long eruptions after short ones

Each online pass is shown with the default learning rate ("auto") and with 0.5 / t**0.9. The default
remembers few rows of each state, which suits independent sequences; it forgets too fast where a
piece of a long sequence shows one state only, as in the genome.
"""

import argparse
import copy
import warnings
from functools import partial
from statistics import median

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import gen_batches

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import CategoricalHMM, GaussianHMM, GaussianMixture

RATES = {"auto": {}, "0.5 / t**0.9": {"eta0": 0.5, "beta": 0.9}}
BATCH = {"solver": "batch", "max_iter": 500}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in arguments.only or BENCHMARKS:
        print(f"\n{name}\n")
        BENCHMARKS[name](arguments.seeds)


def _passed(start, sequences, parameters):
    """The start after a pass of `partial_fit`, ten sequences at a time."""
    online = copy.deepcopy(start).set_params(**parameters)
    for batch in gen_batches(len(sequences), 10):
        online.partial_fit(sequences[batch])
    return online


def _iterated(start, sequences, n_iter):
    """The start after some iterations of batch EM."""
    batch = copy.deepcopy(start).set_params(
        solver="batch", warm_start=True, max_iter=n_iter, tol=0.0
    )
    return batch.fit(sequences)


# ------------------------------------------------------------------------------------------ genome


def phage(n_seeds):
    """Two states that stay for thousands of bases; agreement is that with batch EM's path."""
    X = datasets.load_phage_lambda()
    poor, rich = [0.3, 0.2, 0.2, 0.3], [0.2, 0.3, 0.3, 0.2]
    hmm = partial(
        CategoricalHMM,
        2,
        n_features=4,
        emissionprob_init=[poor, rich],
        transmat_init=[[0.999, 0.001], [0.001, 0.999]],
    )
    table = Table("", "nats a base", "GC, poor", "GC, rich", "segments", "agreement")
    batch = hmm(**BATCH, tol=1e-3).fit(X)
    segments = batch.predict(X)
    _phage_row(table, "batch EM", batch, X, segments)
    for length in (100, 500, 2000):
        for rates, parameters in RATES.items():
            online = hmm(**parameters)
            for piece in np.array_split(X, len(X) // length):
                online.partial_fit(piece, continues=True)
            _phage_row(table, f"pieces of {length}, {rates}", online, X, segments)


def _phage_row(table, name, hmm, X, segments):
    states = hmm.predict(X)
    poor, rich = hmm.emissionprob_[:, 1:3].sum(axis=1).tolist()
    n_segments = 1 + np.count_nonzero(np.diff(states))
    agreement = float(np.mean(states == segments))
    table.row(name, hmm.score(X) / len(X), poor, rich, n_segments, agreement)


# ------------------------------------------------------------------------------------------ speech

N_PARTS, N_LABELLED = 6, 20


def speech(n_seeds):
    """One model for each digit; the one that makes a recording most probable says which it is."""
    corpus = datasets.load_spoken_recordings()
    table = Table("covariances, training, medians of seeds", "accuracy", "worst", "nats a frame")
    for covariance_type in ("diag", "full"):
        rounds = [_speech_round(*corpus, covariance_type, seed) for seed in range(n_seeds)]
        for name in rounds[0]:
            accuracies, nats = zip(*(results[name] for results in rounds), strict=True)
            cells = median(accuracies), min(accuracies), median(nats)
            table.row(f"{covariance_type}, {name}", *cells)


def _speech_round(recordings, digits, takes, covariance_type, seed):
    """Results of each way of training, with the recordings in one order."""
    is_test = takes < 5
    order = np.random.default_rng(seed).permutation(len(recordings))
    trained = {}
    for digit in range(10):
        train = [recordings[i] for i in order if digits[i] == digit and not is_test[i]]
        for name, hmm in _trained_on(train, covariance_type):
            trained.setdefault(name, []).append(hmm)
    test = [recordings[i] for i in np.flatnonzero(is_test)]
    return {name: _recognised(hmms, test, digits[is_test]) for name, hmms in trained.items()}


def _trained_on(train, covariance_type):
    """Models of one digit: the start, one online pass, and batch EM from the same start."""
    start, rest = labelled_start(train, covariance_type), train[N_LABELLED:]
    yield f"start, {N_LABELLED} recordings", start
    for rates, parameters in RATES.items():
        yield f"one online pass, {rates}", _passed(start, rest, parameters)
    for n_iter in (1, 10):
        yield f"batch EM, {n_iter} it.", _iterated(start, train, n_iter)


def labelled_start(train, covariance_type):
    """Left to right; made of a few recordings cut into equal parts, one for each state."""
    first = train[:N_LABELLED]
    parts = [np.arange(len(frames)) * N_PARTS // len(frames) for frames in first]
    forward = 0.8 * np.eye(N_PARTS) + 0.2 * np.eye(N_PARTS, k=1)
    return GaussianHMM(
        N_PARTS,
        covariance_type=covariance_type,
        startprob_init=np.eye(N_PARTS)[0],
        transmat_init=forward,
        semi_supervised=True,
        random_state=0,
    ).partial_fit(first, parts)


def _recognised(hmms, recordings, digits):
    """Accuracy, and log-likelihood of the right model in nats per frame."""
    scores = np.column_stack([hmm.score_samples(recordings) for hmm in hmms])
    right = scores[np.arange(len(digits)), digits].sum() / sum(map(len, recordings))
    return float(np.mean(scores.argmax(axis=1) == digits)), float(right)


# ------------------------------------------------------------------------------------------- clicks


def msnbc(n_seeds):
    """Visits in mini-batches, with a weak prior as some pages are rare."""
    visits = datasets.load_msnbc()
    table = Table("states, training, medians of seeds", "nats a click", "worst")
    for n_states in (4, 8, 16):
        rounds = [_msnbc_round(visits, n_states, seed) for seed in range(n_seeds)]
        for name in rounds[0]:
            held_out = [results[name] for results in rounds]
            table.row(f"{n_states}, {name}", median(held_out), min(held_out))


def _msnbc_round(visits, n_states, seed):
    """Held-out nats per click of each way of training, on one split."""
    train, test = train_test_split(visits, test_size=0.2, random_state=seed)
    n_clicks = sum(map(len, test))
    fits = _fitted_to(train, n_states, seed)
    return {name: float(hmm.score_samples(test).sum() / n_clicks) for name, hmm in fits}


def _fitted_to(train, n_states, seed):
    """One online pass, and batch EM from the same start: what the first ten visits make."""
    start = CategoricalHMM(n_states, n_features=17, emissionprob_prior=1.1, random_state=seed)
    start.partial_fit(train[:10])
    for rates, parameters in RATES.items():
        yield f"one online pass, {rates}", _passed(start, train[10:], parameters)
    for n_iter in (1, 10, 100):
        yield f"batch EM, {n_iter} it.", _iterated(start, train, n_iter)


# ------------------------------------------------------------------------------------------ geyser


def geyser(n_seeds):
    """Two states; against a mixture, which knows nothing of the order."""
    X = datasets.load_geyser()
    table = Table("", "nats each", "short", "long", "short>long", "long>short")
    mixture = GaussianMixture(2, solver="batch", random_state=0).fit(X)
    table.row("mixture", mixture.score(X), *np.sort(mixture.means_.ravel()).tolist(), "", "")
    hmm = partial(GaussianHMM, 2, random_state=0)
    fits = {"batch EM": hmm(**BATCH, tol=1e-4).fit(X)}
    for rates, parameters in RATES.items():
        online = fits[f"pieces of 20, {rates}"] = hmm(**parameters)
        for piece in np.array_split(X, len(X) // 20):
            online.partial_fit(piece, continues=True)
    for name, fitted in fits.items():
        short, long = fitted.means_.ravel().argsort()
        moves = (fitted.transmat_[short, long], fitted.transmat_[long, short])
        means = fitted.means_[[short, long], 0]
        table.row(name, fitted.score(X) / len(X), *map(float, (*means, *moves)))


BENCHMARKS = {"phage": phage, "speech": speech, "msnbc": msnbc, "geyser": geyser}


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="splits of msnbc, orders of speech")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
