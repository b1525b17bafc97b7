"""
=======================================================
Mixture of multinomials: kinds of chapters in the Bible
=======================================================

A mixture of multinomials groups documents by the words that they use, and learns from a stream of
documents. It reads the 1,189 chapters of the King James Bible without their books, and finds laws,
genealogies, wars, psalms and proverbs, parables and letters. We compare its clusters with the
traditional sections, and with k-means on tf-idf; neither method sees the sections.
"""

# %%
# The data
# --------
# Counts of 1,127 words, without stop words. A chapter has one of seven sections: the first five
# books are the law, the next twelve histories, and so on. Three hundred chapters are held out.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_mutual_info_score

from sklearn_onlineem import CompoundDirichletMixture, MultinomialMixture

BOOKS = {
    "law": 5,
    "histories": 12,
    "wisdom": 5,
    "prophets": 17,
    "gospels": 5,
    "letters": 21,
    "revelation": 1,
}

stored = np.load(Path(sys.argv[0]).resolve().parents[1] / "data" / "chapters.npz")
words = stored["vocabulary"]
parts = stored["counts"].astype(float), stored["words"].astype(np.int32), stored["ends"]
counts = sparse.csr_matrix(parts, shape=(len(stored["books"]), len(words)))
sections = np.repeat(np.arange(len(BOOKS)), list(BOOKS.values()))[stored["books"]]

order = np.random.default_rng(0).permutation(len(sections))
train, test = order[:-300], order[-300:]
batches = np.array_split(train, 9)

# %%
# How many kinds?
# ---------------
# Each mixture makes three passes in batches of about a hundred chapters, from four starts. By
# default each word has half a count in each kind, so that a word can occur in a kind that has not
# used it yet. The scores are log-likelihoods of held-out chapters, in nats a word (natural
# logarithms). The other mixture is one of compound Dirichlets. In these a word that has occurred in
# a document is likely to occur again. They take longer to learn, and have up to seven kinds here.


def streamed(mixture):
    """The mixture, once it has read the stream three times."""
    for batch in 3 * batches:
        mixture.partial_fit(counts[batch])
    return mixture


def multinomials(n_kinds, seed):
    """A mixture of multinomials."""
    return MultinomialMixture(n_kinds, init="random", random_state=seed)


def compounds(n_kinds, seed):
    """A mixture of compound Dirichlets."""
    return CompoundDirichletMixture(n_kinds, init="random", random_state=seed)


def held_out(starts):
    """Nats a word of held-out chapters, the mean of several mixtures."""
    return np.mean([mixture.score_samples(counts[test]).sum() for mixture in starts]) / n_words


NUMBERS, SEEDS = (1, 4, 7, 20, 30), range(4)
n_words = counts[test].sum()
mixtures = {k: [streamed(multinomials(k, seed)) for seed in SEEDS] for k in NUMBERS}
bursty = {k: [streamed(compounds(k, seed)) for seed in SEEDS] for k in NUMBERS[:3]}
scores = {
    "multinomials": [held_out(starts) for starts in mixtures.values()],
    "compound Dirichlets": [held_out(starts) for starts in bursty.values()],
}

# %%
# The rivals
# ----------
# k-means uses all chapters at once and keeps the best of five starts; with mini-batches it reads
# the same stream as the mixtures. Both get tf-idf with logarithms of counts, which is better for
# them than counts. The agreement with the sections is the adjusted mutual information of held-out
# chapters: 0 is chance, 1 is the same partition.

weights = TfidfTransformer(sublinear_tf=True).fit(counts[train])
rows = weights.transform(counts)


def k_means(n_kinds, seed):
    """k-means, which has all rows at once."""
    return KMeans(n_kinds, n_init=5, random_state=seed).fit(rows[train])


def k_means_of_batches(n_kinds, seed):
    """k-means that has read the stream three times."""
    means = MiniBatchKMeans(n_kinds, random_state=seed)
    for batch in 3 * batches:
        means.partial_fit(rows[batch])
    return means


def agreement(labels):
    """Adjusted mutual information with the sections of held-out chapters."""
    return adjusted_mutual_info_score(sections[test], labels)


agreements = {
    "multinomials": {},
    "compound Dirichlets": {},
    "k-means, batches": {},
    "k-means, in bulk": {},
}
for k in NUMBERS[1:]:
    labels = (
        [mixture.predict(counts[test]) for mixture in mixtures[k]],
        [mixture.predict(counts[test]) for mixture in bursty.get(k, [])],
        [k_means_of_batches(k, seed).predict(rows[test]) for seed in SEEDS],
        [k_means(k, seed).predict(rows[test]) for seed in SEEDS],
    )
    for of_method, starts in zip(agreements.values(), labels, strict=True):
        if starts:
            of_method[k] = np.mean([agreement(labels) for labels in starts])

print("kinds                " + "".join(f"{k:8}" for k in NUMBERS))
print("nats a word")
for name, of_number in scores.items():
    print(f"  {name:<19}" + "".join(f"{score:8.3f}" for score in of_number))
print("agreement")
for name, of_method in agreements.items():
    print(f"  {name:<19}{'':8}" + "".join(f"{value:8.2f}" for value in of_method.values()))

# %%
# Words come in bursts. So a single compound Dirichlet explains chapters better than thirty
# multinomials. The score of multinomials rises up to some twenty kinds. With seven kinds, as many
# as there are sections, both mixtures agree with the sections about equally well. k-means agrees
# best, if it has all chapters at once. Numbers are means over four starts.
#
# What tells them apart
# ---------------------
# This is the mixture of twenty multinomials with the best score on its training chapters. A row of
# the table is a kind, and its numbers count the chapters of each section. A kind is named by the
# words with the largest terms p log(p / q) in its divergence from all chapters.

N_KINDS = 20
mixture = max(mixtures[N_KINDS], key=lambda mixture: mixture.score(counts[train]))
kinds = mixture.predict(counts)
table = np.zeros((N_KINDS, len(BOOKS)), dtype=int)
np.add.at(table, (kinds, sections), 1)
by_section = np.lexsort((-table.max(axis=1), table.argmax(axis=1)))
# A kind may be the likeliest of no chapter.
by_section = by_section[table[by_section].any(axis=1)]

everywhere = np.asarray(counts.sum(axis=0)).ravel() / counts.sum()
telling = mixture.probabilities_ * np.log(mixture.probabilities_ / everywhere)
names = [", ".join(words[np.argsort(-telling[k])[:4]]) for k in by_section]

fig = plt.figure(figsize=(8, 9.5), layout="constrained")
curves, below = fig.subfigures(2, 1, height_ratios=[2, 5])
left, right = curves.subplots(1, 2)
STYLES = {
    "multinomials": "ko-",
    "compound Dirichlets": "C2D-.",
    "k-means, batches": "C0s--",
    "k-means, in bulk": "C1^:",
}
for name, of_number in scores.items():
    left.plot(NUMBERS[: len(of_number)], of_number, STYLES[name], label=name)
for name, of_method in agreements.items():
    right.plot(list(of_method), list(of_method.values()), STYLES[name], label=name)
left.set(xlabel="kinds", title="Held-out chapters, nats a word")
right.set(xlabel="kinds", title="Agreement with the sections")
left.legend(handles=right.get_lines(), loc="lower right", fontsize="small")

ax = below.subplots()
shown = table[by_section]
ax.imshow(shown / shown.sum(axis=1, keepdims=True), cmap="Greys", vmax=1.6, aspect="auto")
for (row, column), number in np.ndenumerate(shown):
    if number:
        ax.text(column, row, number, ha="center", va="center")
ax.set_xticks(range(len(BOOKS)), BOOKS)
ax.set_yticks(range(len(names)), names)
ax.xaxis.tick_top()
ax.tick_params(length=0)
ax.set_title("Chapters of each kind, and the words that tell it")

# %%
# Chapters in a kind of another section are often there for a reason:
#
# - Acts 7 tells of Joseph.
# - Ezekiel 43 to 46 are about offerings, as the law is, and 47 and 48 about the land of the tribes.
# - Job 1 and 42 tell a story.
# - Exodus 15, Judges 5 and 2 Samuel 22 are songs.

print("\nkind, and up to four chapters of other sections")
for k, name in zip(by_section, names, strict=True):
    strays = [
        title
        for section in np.flatnonzero((table[k] <= 4) & (table[k] < table[k].max()))
        for title in stored["titles"][(kinds == k) & (sections == section)]
    ]
    if strays:
        print(f"{name}: {'; '.join(strays)}")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "kinds_of_documents.png", dpi=100)
