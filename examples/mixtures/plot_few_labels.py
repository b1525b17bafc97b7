"""
====================================================================
Semi-supervised Gaussian mixture: handwritten digits with few labels
====================================================================

With ``semi_supervised=True`` labelled rows belong to the component of their class, and the mixture
infers the components of the others. So it learns from rows that a classifier cannot use. With one
to four labels for each digit it recognises more digits than a classifier of the labelled rows. With
eight or more it does not.
"""

# %%
# The data
# --------
# Some of the handwritten digits have labels; -1 means unknown.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sklearn_onlineem import GaussianMixture

digits = load_digits()
Z = PCA(20, random_state=0).fit_transform(digits.data)
train, test, y_train, y_test = train_test_split(Z, digits.target, test_size=0.4, random_state=0)
rng = np.random.default_rng(0)
order = rng.permutation(len(train))

# %%
# One component a digit
# ---------------------
# The start is at the means of the labelled rows, so that component k is digit k.

N_LABELS = [1, 2, 4, 8, 16, 32]
accuracies = {"mixture, all rows": [], "logistic regression, labelled rows": []}
for n_labels in N_LABELS:
    y = np.full(len(train), -1)
    for digit in range(10):
        chosen = order[y_train[order] == digit][:n_labels]
        y[chosen] = digit
    known = y >= 0
    means = np.array([train[y == digit].mean(axis=0) for digit in range(10)])
    mixture = GaussianMixture(
        10, covariance_type="tied", means_init=means, semi_supervised=True, random_state=0
    ).fit(train, y)
    classifier = LogisticRegression(max_iter=2000).fit(train[known], y[known])
    for name, model in zip(accuracies, (mixture, classifier), strict=True):
        accuracies[name].append((model.predict(test) == y_test).mean())

print(f"{'labels for each digit':<36}" + "".join(f"{n:>7}" for n in N_LABELS))
for name, accuracy in accuracies.items():
    print(f"{name:<36}" + "".join(f"{share:7.2f}" for share in accuracy))

# %%
# In a stream
# -----------
# ``partial_fit`` takes labels, too, and batches without any.

stream = GaussianMixture(
    10, covariance_type="tied", means_init=means, semi_supervised=True, random_state=0
)
for rows in np.array_split(np.arange(len(train)), 10):
    stream.partial_fit(train[rows], y[rows])
print(f"\none pass, with 32 labels for each: {(stream.predict(test) == y_test).mean():.2f}")

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, accuracy), style in zip(accuracies.items(), ("ko-", "C1s--"), strict=True):
    ax.plot(N_LABELS, accuracy, style, label=name)
ax.set(xscale="log", xlabel="labels for each digit", ylabel="held-out digits that are read")
ax.set_title("What rows without labels add")
ax.set_xticks(N_LABELS, N_LABELS)
ax.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "few_labels.png", dpi=100)
