"""
====================================================
Which word was meant? Spelling, by a learnt distance
====================================================

An edit distance counts letters that differ. One that has been learnt from mistakes knows which
mistakes people make, and finds the word that was meant more often than the counts do.

Run as a script, it may have the folder for a picture as its argument.
"""

# %%
# The data
# --------
# Common misspellings of the English Wikipedia. The dictionary has all words that were meant, those
# of the test among them.

import csv
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import EditDistance
from sklearn_onlineem.displays import AlignmentDisplay

with open(Path(sys.argv[0]).resolve().parents[1] / "data" / "misspellings.csv", newline="") as file:
    pairs = [(row["wrong"], row["right"]) for row in csv.DictReader(file)]
order = np.random.default_rng(0).permutation(len(pairs))
train, test = [pairs[i] for i in order[:900]], [pairs[i] for i in order[900:1000]]
dictionary = sorted({right for _, right in pairs})

# %%
# Learnt from a stream
# --------------------
# Each pair says what the right word became. Batches of hundred pairs, once.

learnt = EditDistance("full", random_state=0)
for first in range(0, len(train), 100):
    learnt.partial_fit([(right, wrong) for wrong, right in train[first : first + 100]])

# %%
# The nearest word
# ----------------
# Levenshtein's distance is that of a transducer which makes all mistakes alike.


def levenshtein(a, b):
    row = np.arange(len(b) + 1)
    steps = np.arange(len(b) + 1)
    letters = np.array(list(b))
    for i, letter in enumerate(a, start=1):
        cost = np.minimum(row[1:] + 1, row[:-1] + (letters != letter))
        row = np.minimum.accumulate(np.concatenate(([i], cost)) - steps) + steps
    return row[-1]


wrong = [pair[0] for pair in test]
meant = np.array([pair[1] for pair in test])
words = np.array(dictionary)
counted = np.array([[levenshtein(word, mistake) for word in dictionary] for mistake in wrong])
distances = {"Levenshtein": counted, "learnt": learnt.pairwise(dictionary, wrong).T}
for name, table in distances.items():
    least = table.min(axis=1, keepdims=True)
    nearest = [words[row == low] for row, low in zip(table, least, strict=True)]
    right = np.mean([(word in near) / len(near) for word, near in zip(meant, nearest, strict=True)])
    print(f"{name:<12} finds {right:.1%} of {len(test)} words among {len(dictionary)}")

# %%
# Where the difference lies
# -------------------------
# The lattice of a word and its misspelling, with the best path.

display = AlignmentDisplay.from_estimator(learnt, "receive", "recieve", ax=plt.subplots()[1])

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(folder / "spelling.png", dpi=100)
