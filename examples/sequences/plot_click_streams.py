"""
==================================
Which kinds of visitors are there?
==================================

Two visits may show the same pages in another order. A mixture of Markov chains groups visits by
what follows what, and learns it online, from batches of visits; here from 323 of a news site.
"""

# %%
# Visits, as sequences of pages
# -----------------------------
# Four passes are made over the first 250 visits, in batches of 50; the others are held out.

import gzip
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import MarkovChainMixture

DATA = Path(sys.argv[0]).resolve().parents[1] / "data"
lines = gzip.decompress((DATA / "clicks.txt.gz").read_bytes()).decode().splitlines()
visits = [np.array(line.split(), dtype=float)[:, None] - 1 for line in lines]
PAGES = (
    "front news tech local opinion on-air misc weather msn-news health living business "
    "msn-sports sports summary bbs travel"
).split()

held_out = {}
for n_kinds in (1, 2, 3, 4, 6):
    mixture = MarkovChainMixture(n_kinds, n_symbols=17, random_state=0)
    for start in list(range(0, 250, 50)) * 4:
        mixture.partial_fit(visits[start : start + 50])
    clicks = sum(len(visit) for visit in visits[250:])
    held_out[n_kinds] = mixture.score_samples(visits[250:]).sum() / clicks
    print(f"{n_kinds} kinds: {held_out[n_kinds]:.3f} nats per click, held out")

# %%
# What they read
# --------------
# Of clicks that are held out, four kinds explain a little more than one: most of what there is to
# know is in the page before. The kinds differ in what visitors read; below are the shares of pages
# in the visits that each kind explains best.

mixture = MarkovChainMixture(4, n_symbols=17, random_state=0)
for start in list(range(0, 250, 50)) * 4:
    mixture.partial_fit(visits[start : start + 50])
kinds = mixture.predict(visits)
shares = np.zeros((4, len(PAGES)))
for kind, visit in zip(kinds, visits, strict=True):
    shares[kind] += np.bincount(visit.ravel().astype(int), minlength=len(PAGES))
shares /= shares.sum(axis=1, keepdims=True)
for k, row in enumerate(shares):
    top = ", ".join(f"{PAGES[i]} {row[i]:.0%}" for i in np.argsort(-row)[:4])
    print(f"kind {k}: {np.sum(kinds == k)} visits; {top}")

fig, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
image = ax.imshow(shares, cmap="Greys", aspect="auto")
ax.set_xticks(range(len(PAGES)), PAGES, rotation=60, ha="right")
ax.set_yticks(range(4), [f"kind {k}" for k in range(4)])
ax.set_title("What each kind of visitor reads")
fig.colorbar(image, label="share of clicks")
