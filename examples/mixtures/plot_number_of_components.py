"""
=================================
How many components do I need?
=================================

The classical answer fits each number and takes the best BIC. ``solver=SplitMerge()`` finds a number
in one fit, by splitting and merging components. Here both look for five clusters.
"""

# %%
# A fit for each number, and one fit
# ----------------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import SplitMerge

X, cluster = make_blobs(1500, centers=5, cluster_std=1.0, center_box=(-12, 12), random_state=4)
numbers = np.arange(1, 11)
fits = [GaussianMixture(n, solver="batch", max_iter=500, random_state=0).fit(X) for n in numbers]
bics = np.array([mixture.bic(X) for mixture in fits])
found = GaussianMixture(10, solver=SplitMerge(), random_state=0).fit(X)
print(f"five clusters were drawn; BIC is best at {numbers[bics.argmin()]}")
print(f"SplitMerge, from {found.n_components}: {found.n_components_}, BIC {found.bic(X):.0f}")
print(f"best BIC of the ten fits: {bics.min():.0f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
left.plot(numbers, bics, "o-", label="a fit for each number")
left.plot(found.n_components_, found.bic(X), "k*", ms=14, label="SplitMerge")
left.set(title="BIC, lower is better", xlabel="number of components", ylabel="BIC")
left.legend()
right.scatter(*X.T, c=found.predict(X), cmap="tab10", s=6)
right.plot(*found.means_[found.weights_ > 0.0].T, "k*", ms=12)
right.set(title="What SplitMerge found", xlabel="$x_1$", ylabel="$x_2$")
