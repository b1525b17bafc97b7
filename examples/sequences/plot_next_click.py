"""
========================================================
Online hidden Markov model: the next click on a web site
========================================================

Visits to a news site come one after the other, and a hidden Markov model learns from each visit
before the next. It predicts the next page better than a Markov chain of the pages.
"""

# %%
# The data
# --------
# The data are 323 visits to msnbc.com on a day of 1999, some 27,000 clicks on 17 kinds of pages.

import gzip
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import CategoricalHMM
from sklearn_onlineem.displays import TransitionDisplay

PAGES = (
    "front, news, tech, local, opinion, on-air, misc, weather, msn-news, health, living, business,"
    " msn-sports, sports, summary, bbs, travel"
).split(", ")

lines = (
    gzip.open(Path(sys.argv[0]).resolve().parents[1] / "data" / "clicks.txt.gz", "rt")
    .read()
    .splitlines()
)
visits = [np.array(line.split(), dtype=int)[:, None] - 1 for line in lines]
order = np.random.default_rng(0).permutation(len(visits))
visits = [visits[i] for i in order]
print(len(visits), "visits,", sum(map(len, visits)), "clicks")

# %%
# Predict, then learn
# -------------------
# Each visit is scored before the model learns it. The score is the log-probability of the next
# page, in nats (natural logarithms) a click.
#
# Visits are one stream (``continues=True``), as the last page of a visit helps a little to predict
# the first page of the next.

moves = np.full((12, 12), 0.3 / 11) + (0.7 - 0.3 / 11) * np.eye(12)
hmm = CategoricalHMM(12, n_features=len(PAGES), transmat_init=moves, random_state=1)
for visit in visits:
    hmm.partial_fit(visit, continues=True)
lengths = np.array([len(visit) for visit in visits[1:]])
steps = np.array([step.log_likelihood for step in hmm.history_[1:]])

# %%
# The rival counts which page followed which so far; all pairs start with a count of one.

counts, chain = np.ones((len(PAGES), len(PAGES))), []
last = visits[0][-1, 0]
for visit in visits[1:]:
    total = 0.0
    for page in visit[:, 0]:
        total += np.log(counts[last, page] / counts[last].sum())
        counts[last, page] += 1.0
        last = page
    chain.append(total)

scores = {
    "HMM": steps,
    "Markov chain of pages": np.array(chain),
}
late = slice(len(lengths) // 4, None)
for name, score in scores.items():
    print(f"{name:<24}{score[late].sum() / lengths[late].sum():8.3f} nats a click")

# %%
# What has been learnt
# --------------------
# The upper plot shows the score of the next page, averaged over the last 60 visits. The lower plot
# shows transitions between states, which are named by their most frequent page. Most states are one
# section each, in which visitors stay for several clicks.

fig, (above, below) = plt.subplots(2, 1, figsize=(7, 9), height_ratios=[2, 3], layout="constrained")
window = np.ones(60)
for (name, score), style in zip(scores.items(), ("C0-", "k:"), strict=True):
    smooth = np.convolve(score, window, "valid") / np.convolve(lengths, window, "valid")
    above.plot(np.cumsum(lengths)[59:], smooth, style, label=name)
above.set(xlabel="clicks", ylabel="nats a click", title="Log-likelihood of the next page")
above.legend()

shown = hmm.emissionprob_.argmax(axis=1)
names = [f"{PAGES[page]} {p:.0%}" for page, p in zip(shown, hmm.emissionprob_.max(1), strict=True)]
TransitionDisplay.from_estimator(hmm, names=names, ax=below)
below.set_title("Transitions between states")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "next_click.png", dpi=150)
