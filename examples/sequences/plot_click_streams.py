"""
=======================================================
Mixture of Markov chains: kinds of visits to a web site
=======================================================

A mixture of Markov chains groups visits of a web site by the transitions between pages, and learns
from batches of visits. During a visit each click tells more about the visit's kind. The kind and
the last page predict the next page better than the last page alone. The visitor's own earlier
clicks help, too, but only later in the visit. So the forecast uses both.
"""

# %%
# Visits, as sequences of pages
# -----------------------------
# 323 visits to msnbc.com on a day of 1999, some 27,000 clicks on 17 kinds of pages. Two hundred
# are for training; the others are held out for the evaluation.

import gzip
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import KFold

from sklearn_onlineem import MarkovChainMixture
from sklearn_onlineem.em import Online

PAGES = (
    "front, news, tech, local, opinion, on-air, misc, weather, msn-news, health, living, business,"
    " msn-sports, sports, summary, bbs, travel"
).split(", ")

path = Path(sys.argv[0]).resolve().parents[1] / "data" / "clicks.txt.gz"
with gzip.open(path, "rt") as file:
    visits = [np.array(line.split(), dtype=int)[:, None] - 1 for line in file]
order = np.random.default_rng(0).permutation(len(visits))
train, test = [visits[i] for i in order[:200]], [visits[i] for i in order[200:]]

# %%
# How many kinds?
# ---------------
# Numbers of kinds are compared by four-fold cross-validation. Each fit makes three passes in
# batches of forty visits, and is the best of five starts by its score on the training visits. The
# prior adds a click to each transition of each kind. Scores are in nats (natural logarithms) a
# visit, relative to one kind. We choose the smallest number within one standard error of the best.
#
# By default a stream keeps a hundred visits for each kind to make its start. Here that would be all
# of them, and they would be fitted by batch EM. A kind has 288 probabilities, so many kinds would
# be fitted too closely. With ``start_rows=0`` each batch is a step.


def mixture_of(n_kinds, visits):
    """The best of five mixtures that have read the visits three times, as a stream."""
    starts = []
    for seed in range(5):
        mixture = MarkovChainMixture(
            n_kinds,
            n_symbols=len(PAGES),
            solver=Online(start_rows=0),
            init="random",
            prior={"concentration": 2.0},
            random_state=seed,
        )
        for begin in 3 * list(range(0, len(visits), 40)):
            mixture.partial_fit(visits[begin : begin + 40])
        starts.append(mixture)
    return max(starts, key=lambda mixture: mixture.score(visits))


NUMBERS = (1, 2, 3, 4, 5, 6, 8, 12)
scores = {k: np.zeros(len(train)) for k in NUMBERS}
for learn, hold in KFold(4).split(train):
    for k, of_visits in scores.items():
        mixture = mixture_of(k, [train[i] for i in learn])
        of_visits[hold] = mixture.score_samples([train[i] for i in hold])
best = max(scores, key=lambda k: scores[k].mean())
print("kinds   gain, nats a visit   behind the best")
within = []
for k, of_visits in scores.items():
    behind = scores[best] - of_visits
    error = behind.std() / np.sqrt(len(behind))
    within += [k] if behind.mean() <= error else []
    gain = (of_visits - scores[1]).mean()
    print(f"{k:5}{gain:18.2f}{behind.mean():18.2f} +- {error:.2f}")
n_kinds = min(within)
print(f"{n_kinds} kinds")

# %%
# Four kinds have most of the gain, and more than six gain nothing.
#
# The next page, click by click
# -----------------------------
# With each click the mixture's weights become the probabilities of kinds given all clicks so far.
# Its forecast is the average of the kinds' transitions, with these weights. The rival is one chain,
# and the visitor's own transitions are added to it as they come: a visitor who has gone from news
# to sports may do so again. We also combine both, by adding own transitions to the mixture's
# forecast. The chain or the mixture counts as ten clicks from the page.

CLICKS_AHEAD = 10.0


def forecasts(mixture, pages):
    """Probabilities of the page after each click but the last, of shape (clicks - 1, 17)."""
    chances = mixture.weights_ * mixture.startprob_[:, pages[0]]
    for last, page in zip(pages[:-1], pages[1:], strict=True):
        chances = chances / chances.sum()
        yield chances @ mixture.transmat_[:, last]
        chances = chances * mixture.transmat_[:, last, page]


def with_own(probabilities, pages):
    """The same, where what the visitor did after the same page before is added."""
    own = np.zeros((len(PAGES), len(PAGES)))
    for row, last, page in zip(probabilities, pages[:-1], pages[1:], strict=True):
        yield (CLICKS_AHEAD * row + own[last]) / (CLICKS_AHEAD + own[last].sum())
        own[last, page] += 1.0


mixture, chain = mixture_of(n_kinds, train), mixture_of(1, train)
METHODS = ("chain", "chain and own clicks", "mixture", "mixture and own clicks")
logs = {name: [] for name in METHODS}
hits = {name: [] for name in METHODS}
for visit in test:
    pages = visit.ravel()
    of_chain, of_kinds = list(forecasts(chain, pages)), list(forecasts(mixture, pages))
    offered = (of_chain, with_own(of_chain, pages), of_kinds, with_own(of_kinds, pages))
    for name, rows in zip(METHODS, offered, strict=True):
        rows = np.array(list(rows))
        came = np.take_along_axis(rows, pages[1:, None], axis=1)
        logs[name].append(np.log(came.ravel()))
        hits[name].append((rows > came).sum(axis=1) < 3)

print("\n                        nats a click   among three that are offered")
for name in METHODS:
    nats, among = np.concatenate(logs[name]).mean(), np.concatenate(hits[name]).mean()
    print(f"{name:<24}{nats:12.3f}{among:15.1%}")

# %%
# What the kinds are
# ------------------
# The upper plot shows the gain over one chain against the number of clicks. Kinds are known after
# some ten clicks, and help most then. The visitor's own clicks help more and more. The lower plot
# shows the pages of the visits that each kind explains best, as multiples of their shares in all
# visits. Nearly all kinds read news. A kind is named by the two pages with the largest terms
# p log(p / q) in its divergence from all visits.

clicks = np.concatenate([np.arange(1, len(visit)) for visit in test])
edges = np.array([1, 3, 6, 11, 21, 41, 81, clicks.max() + 1])
stretch = np.digitize(clicks, edges) - 1
shown = [clicks[stretch == i].mean() for i in range(len(edges) - 1)]

kinds = mixture.predict(visits)
reads = np.array([np.bincount(visit.ravel(), minlength=len(PAGES)) for visit in visits])
shares = np.array([reads[kinds == k].sum(axis=0) for k in range(n_kinds)], dtype=float)
shares /= shares.sum(axis=1, keepdims=True)
lifts = shares / (reads.sum(axis=0) / reads.sum())

telling = shares * np.log(np.maximum(lifts, 1e-12))
names = [", ".join(PAGES[i] for i in np.argsort(-row)[:2]) for row in telling]

print("\nvisits   kind                  most read")
for k, name in enumerate(names):
    most = ", ".join(f"{PAGES[i]} {shares[k, i]:.0%}" for i in np.argsort(-shares[k])[:4])
    print(f"{np.sum(kinds == k):6}   {name:<22}{most}")

fig, (above, below) = plt.subplots(2, 1, figsize=(8, 7.5), layout="constrained")
for name, style in zip(METHODS[1:], ("C1^:", "C0s--", "ko-"), strict=True):
    gains = np.concatenate(logs[name]) - np.concatenate(logs["chain"])
    above.plot(shown, [gains[stretch == i].mean() for i in range(len(shown))], style, label=name)
above.axhline(0.0, color="0.6")
above.set(xscale="log", xlabel="clicks so far", ylabel="nats a click")
above.set_title("What is gained over one chain in the next page")
above.set_xticks([1, 2, 5, 10, 20, 50, 100], [1, 2, 5, 10, 20, 50, 100])
above.legend()

image = below.imshow(lifts, cmap="Greys", vmin=0.0, vmax=3.0, aspect="auto")
below.set_xticks(range(len(PAGES)), PAGES, rotation=60, ha="right")
below.set_yticks(range(n_kinds), names)
below.set_title("What each kind of visit reads")
fig.colorbar(image, ax=below, label="share / share in all", extend="max")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "click_streams.png", dpi=100)
