"""
==================================================
Merged mixtures of three sites: handwritten digits
==================================================

Each of three sites has rows that must stay where they are. There are two ways to fit one mixture to
all of them. In the first, each site fits a copy of a common start by itself, and
``combine_estimators`` merges the models once. In the second, ``DistributedEM`` merges them in each
round, which is batch EM on all rows. Averages of parameters, a common choice, are shown for
comparison.

The rows are scikit-learn's handwritten digits, projected onto 16 principal components.
"""

# %%
# The sites
# ---------

import copy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.utils import shuffle

from sklearn_onlineem import GaussianMixture, combine_estimators
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Online

X = PCA(n_components=16, random_state=0).fit_transform(load_digits().data)
X = shuffle(X, random_state=0)
train, test = X[:1500], X[1500:]
sites = np.array_split(train, 3)

# %%
# Apart, then merged
# ------------------
# All copies begin with a model of the same hundred rows, so that components have the same order
# everywhere. By default a site would keep its own first rows, and make its start anew from these.
# With ``start_rows=0`` the start is made from the first batch alone.

solver = Online(start_rows=0)
common = GaussianMixture(10, covariance_type="diag", solver=solver, random_state=0)
common.partial_fit(train[:100])
local = [copy.deepcopy(common) for _ in sites]
for mixture, rows in zip(local, sites, strict=True):
    for start in range(0, len(rows), 50):
        mixture.partial_fit(rows[start : start + 50])
scores = {f"site {i + 1} alone": mixture.score(test) for i, mixture in enumerate(local)}
for method in ("averaging", "entropic"):
    scores[f"merged, {method}"] = combine_estimators(local, method=method).score(test)

# %%
# Together, round by round
# ------------------------
# On a cluster the call is ``fit(shards, client=Client("tcp://scheduler:8786"))``, with shards that
# the workers load. These shards are too small for a cluster to be faster, as each round also has a
# fixed cost of communication. For data that fit on one machine ``n_jobs`` is faster.

learner = DistributedEM(
    GaussianMixture(10, covariance_type="diag", random_state=0), n_shards=3
).fit(train, validation=test)
scores["batch EM of all"] = learner.score(test)
for name, score in scores.items():
    print(f"{name:<20}{score:10.3f} nats per row")

# %%
# Scores of all ways
# ------------------
# The left plot shows scores on held-out rows, in nats per row (natural logarithms).

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(list(scores.values()), list(scores), "o")
left.set_xlabel("held-out log-likelihood (nats per row)")
right.plot([part.validation for part in learner.history_], label="held out")
right.plot([part.log_likelihood for part in learner.history_], label="training")
right.set(xlabel="round", ylabel="log-likelihood (nats per row)", title="DistributedEM")
right.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "merged_sites.png", dpi=150)
    print(f"\nwritten: {folder / 'merged_sites.png'}")
