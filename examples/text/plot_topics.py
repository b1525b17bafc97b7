"""
==========================================================
Online latent Dirichlet allocation: topics of blog entries
==========================================================

Latent Dirichlet allocation describes each document by proportions of topics. Here it learns from a
stream of blog entries, fifty at a time. After one pass over five hundred entries the topics can be
interpreted. They predict the words of held-out entries better than word frequencies do. More passes
gain nothing here.
"""

# %%
# The data
# --------
# The data are word counts of 600 entries of the Daily KOS blog in 2004, an American election year.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from sklearn_onlineem import LatentDirichletAllocation
from sklearn_onlineem.displays import TopicsDisplay

stored = np.load(Path(sys.argv[0]).resolve().parents[1] / "data" / "kos.npz")
words = stored["vocabulary"]
parts = stored["counts"].astype(float), stored["words"].astype(np.int32), stored["ends"]
counts = sparse.csr_matrix(parts, shape=(len(parts[2]) - 1, len(words)))
order = np.random.default_rng(0).permutation(counts.shape[0])
train, test = counts[order[:500]], counts[order[500:]]

# %%
# One pass, and nine more
# -----------------------
# Perplexity is by document completion: half of the words of each held-out entry give its
# proportions, and the other half is scored. Lower is better. The baseline is the perplexity of word
# frequencies, without topics.
#
# The model keeps the first 1,200 entries that it reads, and makes its start anew from them as they
# come. So the first two passes over 500 entries belong to the start.

N_TOPICS = 12
lda = LatentDirichletAllocation(N_TOPICS, random_state=0)
perplexities = []
for begin in 10 * list(range(0, 500, 50)):
    lda.partial_fit(train[begin : begin + 50])
    perplexities.append(lda.perplexity(test))

shares = (np.asarray(train.sum(axis=0)).ravel() + 0.1) / (train.sum() + 0.1 * len(words))
without = np.exp(-(test @ np.log(shares)).sum() / test.sum())

print(f"frequencies of words    {without:8.0f}")
print(f"one pass                {perplexities[9]:8.0f}")
print(f"ten passes              {perplexities[-1]:8.0f}")

# %%
# The topics
# ----------
# The bars show the most probable words of each topic. The title has the topic's share of all words.

fig = plt.figure(figsize=(9, 9), layout="constrained")
curve, panels = fig.subfigures(2, 1, height_ratios=[1, 3])
ax = curve.subplots()
ax.plot(50 * np.arange(1, 101), perplexities, "k-")
ax.axvline(500, color="0.6", linestyle=":")
ax.set(xlabel="entries read (dotted: one pass)", ylabel="perplexity", xscale="log")
TopicsDisplay.from_estimator(lda, feature_names=words, n_words=6, ax=panels.subplots(3, 4))

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "topics.png", dpi=100)
