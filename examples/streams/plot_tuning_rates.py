"""
==============================================================
Learning rates chosen by prequential score: handwritten digits
==============================================================

A stream has no test set, but each batch can be scored before it is learnt. This prequential score
ranks learning rates, and the best rates on the first rows are nearly the best on later ones. Other
rates are best if the source drifts.
"""

# %%
# The data
# --------
# The data are 12 principal components of handwritten digits: once in random order, and once sorted
# by digit with some noise, so that the distribution changes slowly.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import ParameterGrid

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Online

rng = np.random.default_rng(0)
digits = load_digits()
Z = PCA(12, random_state=0).fit_transform(digits.data / 16.0)
streams = {
    "no drift": Z[rng.permutation(len(Z))],
    "drift": Z[np.argsort(digits.target + rng.normal(size=len(Z)))],
}
GRID = ParameterGrid({"eta0": [0.03, 0.1, 0.3, 1.0], "beta": [0.0, 0.3, 0.6, 0.9]})
BATCH = 25


# %%
# Score, then learn
# -----------------
# ``history_`` has the log-likelihood of each batch before the update: no further pass is needed.


def prequential(X, **rates):
    """Return mean log-likelihoods of rows before they are learnt: first half, and second half."""
    # Empty components are not reinitialised, so that only rates differ. No rate acts on the rows
    # of the start. The default is 1,000, more than half of the stream; here it is 300.
    solver = Online(reinitialises=False, start_rows=30)
    mixture = GaussianMixture(10, covariance_type="diag", solver=solver, random_state=0, **rates)
    for first in range(0, len(X), BATCH):
        mixture.partial_fit(X[first : first + BATCH])
    scores = np.array([step.log_likelihood for step in mixture.history_[1:]])
    return [half.mean() for half in np.array_split(scores, 2)]


fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
for ax, (name, X) in zip(axes, streams.items(), strict=True):
    scores = np.array([prequential(X, **rates) for rates in GRID])
    chosen, best = scores.argmax(axis=0)
    lost = scores[best, 1] - scores[chosen, 1]
    print(f"{name}: chosen on the first half {GRID[chosen]}, {lost:.2f} nats worse than the best")
    table = scores[:, 1].reshape(4, 4)  # beta by eta0
    image = ax.imshow(table, cmap="viridis", vmin=np.quantile(table, 0.1))
    for i, j in np.ndindex(table.shape):
        ink = "k" if table[i, j] > np.quantile(table, 0.6) else "w"
        ax.text(j, i, f"{table[i, j]:.1f}", ha="center", va="center", color=ink)
    ax.set_xticks(range(4), ["0.03", "0.1", "0.3", "1"])
    ax.set_yticks(range(4), ["0", "0.3", "0.6", "0.9"])
    ax.set(xlabel="eta0", ylabel="beta", title=f"Nats per row, second half: {name}")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "tuning_rates.png", dpi=100)
