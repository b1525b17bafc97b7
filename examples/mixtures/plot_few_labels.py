"""
=======================================
How far do labels for a few rows reach?
=======================================

With ``semi_supervised=True`` labelled rows teach their component, and rows with the label -1 all of
them. Here wines of three growers are told apart with one to eight labels for each, beside a
classifier that sees the labelled rows only.
"""

# %%
# The same wines, with more and more labels
# -----------------------------------------
# Accuracies are those of wines whose labels were hidden, over ten draws of the labelled ones.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianMixture

X, grower = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
numbers = [1, 2, 4, 8]
mixture_scores, classifier_scores = [], []
for n_labels in numbers:
    ours, theirs = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        known = [rng.choice(np.flatnonzero(grower == k), n_labels, replace=False) for k in range(3)]
        known = np.concatenate(known)
        y = np.full(len(X), -1)
        y[known] = grower[known]
        hidden = y == -1
        mixture = GaussianMixture(
            3, covariance_type="tied", semi_supervised=True, solver="batch", random_state=seed
        ).fit(X, y)
        classifier = LogisticRegression().fit(X[known], grower[known])
        ours.append(np.mean(mixture.predict(X[hidden]) == grower[hidden]))
        theirs.append(classifier.score(X[hidden], grower[hidden]))
    mixture_scores.append(ours)
    classifier_scores.append(theirs)

print("labels for each grower   mixture   labelled rows only")
for n_labels, ours, theirs in zip(numbers, mixture_scores, classifier_scores, strict=True):
    print(f"{n_labels:>22}{np.mean(ours):>10.1%}{np.mean(theirs):>21.1%}")

# %%
# What the unlabelled rows brought
# --------------------------------
# Bars are standard deviations over the ten draws. With one label for each grower they are wide: the
# mixture may settle on other groups, and then its mean says little.

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ways = {"mixture, all rows": mixture_scores, "logistic regression": classifier_scores}
for (name, scores), style in zip(ways.items(), ("o-", "s--"), strict=True):
    ax.errorbar(
        numbers, np.mean(scores, axis=1), np.std(scores, axis=1), fmt=style, capsize=4, label=name
    )
ax.set(title="Wines by grower", xlabel="labels for each grower", ylabel="accuracy on the others")
ax.legend()
