"""Stochastic edit distances correct misspellings: learnt against Levenshtein, online against batch.

Pairs of misspellings and their corrections are split by correction, so that no word of the test
was seen. Held-out misspellings are compared with the dictionary of all corrections. Levenshtein's
distance has ties; its accuracy is what breaking them at random is expected to give, and in
brackets what the luckiest way would.

    python -m benchmarks.papers.edit_distance --n-test 2000

"joint" takes the nearest word by -log p(x, y) alone, which prefers short words; the others, as
`EditDistanceClassifier` does by default, by -log p(x | y).
"""

import argparse
import sys

import numpy as np

from benchmarks._table import Table
from benchmarks.datasets import load_misspellings
from sklearn_onlineem import EditDistance, EditDistanceClassifier

try:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist
except ImportError:  # only the baseline needs it
    cdist = None

TEST_SHARE = 0.2
BATCH_SIZE = 100


def main():
    arguments = _arguments()
    rng = np.random.default_rng(arguments.seed)
    train, test, words = split(load_misspellings(), arguments.n_test, rng)
    print(f"{len(train)} pairs to learn from, {len(test)} held out, {len(words)} words\n")
    table = Table("distance", "at 1", "at 5", "log-lik.", "passes", width=34)
    if cdist is not None:
        levenshtein = levenshtein_accuracy(test, words)
        table.row("Levenshtein, ties at random", *levenshtein[0], "", "")
        table.row("  (ties broken luckily)", *levenshtein[1], "", "")
    verdicts = []
    for parametrization in ("tied", "full"):
        for solver in ("batch", "online"):
            edit = learnt(parametrization, solver, train)
            found = accuracy(edit, test, words, conditional=True)
            passes = edit.n_iter_ if solver == "batch" else 1
            table.row(f"{parametrization}, {solver}", *found, edit.score(test), passes)
            verdicts.append((f"{parametrization}, {solver}", found[0]))
        joint = accuracy(edit, test[: len(test) // 4], words, conditional=False)
        table.row(f"{parametrization}, online, joint (quarter)", *joint, "", "")
    print()
    if cdist is None:
        sys.exit("Install rapidfuzz to compare with Levenshtein's distance.")
    for name, at_first in verdicts:
        is_met = at_first > levenshtein[0][0]
        print(f"{name} corrects more than Levenshtein: {'met' if is_met else 'NOT MET'}")


def split(pairs, n_test, rng):
    """Pairs to learn from and to test on, without a common correction, and all corrections."""
    words = sorted({right for _, right in pairs})
    held_out = set(rng.permutation(np.array(words, dtype=object))[: int(TEST_SHARE * len(words))])
    train = [pair for pair in pairs if pair[1] not in held_out]
    test = [pair for pair in pairs if pair[1] in held_out]
    test = [test[i] for i in rng.permutation(len(test))[:n_test]]
    return [train[i] for i in rng.permutation(len(train))], test, words


def learnt(parametrization, solver, train):
    alphabet = sorted({symbol for pair in train for word in pair for symbol in word})
    if solver == "batch":
        return EditDistance(parametrization, alphabet=alphabet, solver="batch").fit(train)
    edit = EditDistance(parametrization, alphabet=alphabet)
    for begin in range(0, len(train), BATCH_SIZE):
        edit.partial_fit(train[begin : begin + BATCH_SIZE])
    return edit


def accuracy(edit, test, words, conditional):
    """Shares of misspellings whose correction is the nearest word, and among the nearest five."""
    wrong, right = (list(side) for side in zip(*test, strict=True))
    classifier = EditDistanceClassifier(
        edit, dictionary=words, conditional=conditional, prefit=True
    ).fit(wrong, right)
    _, indices = classifier.kneighbors(wrong, 5)
    hits = classifier.classes_[indices] == np.array(right, dtype=object)[:, None]
    return float(hits[:, 0].mean()), float(hits.any(axis=1).mean())


def levenshtein_accuracy(test, words):
    """The same by Levenshtein's distance: expected over ties, and with the luckiest order."""
    place = {word: i for i, word in enumerate(words)}
    expected, luckiest = np.zeros(2), np.zeros(2)
    for wrong, right in test:
        distances = cdist([wrong], words, scorer=Levenshtein.distance, dtype=np.int32)[0]
        own = distances[place[right]]
        n_nearer, n_tied = (distances < own).sum(), (distances == own).sum()
        at = np.array([1, 5])
        expected += np.clip((at - n_nearer) / n_tied, 0.0, 1.0)
        luckiest += n_nearer < at
    return tuple((expected / len(test)).tolist()), tuple((luckiest / len(test)).tolist())


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-test", type=int, default=2000, help="held-out misspellings")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
