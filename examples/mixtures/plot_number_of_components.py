"""
=============================================================
Number of components by BIC, held-out rows, and splits: wines
=============================================================

Information criteria and held-out data need a fit for each number of components. Split and merge
steps find the number in one fit. On wines of three growers, BIC, held-out rows, and split and merge
steps all find three components; AIC prefers more.
"""

# %%
# The data
# --------
# The data are three principal components of thirteen measurements of 178 wines. The growers are
# used for the evaluation only.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.displays import MixtureDisplay, ModelSelectionDisplay
from sklearn_onlineem.em import SplitMerge

wine = load_wine()
X = make_pipeline(StandardScaler(), PCA(3, random_state=0)).fit_transform(wine.data)

# %%
# A fit for each number
# ---------------------
# BIC and AIC are computed on all rows; the held-out score is the mean over five folds.

start = {"covariance_type": "full", "n_init": 3, "random_state": 0}
numbers = range(1, 8)
fits = [GaussianMixture(k, **start).fit(X) for k in numbers]
folds = KFold(5, shuffle=True, random_state=0)
search = GridSearchCV(GaussianMixture(**start), {"n_components": list(numbers)}, cv=folds).fit(X)
held_out = search.cv_results_["mean_test_score"]
print("components       " + "".join(f"{k:8}" for k in numbers))
print("BIC              " + "".join(f"{fit.bic(X):8.0f}" for fit in fits))
print("AIC              " + "".join(f"{fit.aic(X):8.0f}" for fit in fits))
print("held-out nats    " + "".join(f"{score:8.2f}" for score in held_out))

# %%
# Merges and splits
# -----------------
# ``SplitMerge`` begins with the given number, here eight.

found = GaussianMixture(8, solver=SplitMerge(), random_state=0).fit(X)
print(f"\nmerges and splits find {found.n_components_}")
print(
    f"agreement with the growers (adjusted Rand index): "
    f"{adjusted_rand_score(wine.target, found.predict(X)):.2f}"
)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
ModelSelectionDisplay.from_estimators(fits, X, ax=left)
left.set_title("A fit for each number")
MixtureDisplay.from_estimator(found, X, features=[0, 1], ax=right)
right.set_title("Merges and splits")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "number_of_components.png", dpi=100)
