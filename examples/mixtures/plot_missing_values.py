"""
===================================================
Gaussian mixture of rows with missing values: wines
===================================================

The marginals of a Gaussian are Gaussians, so missing values can be integrated out: no row must be
dropped and no value imputed before the fit. With half of all values missing, most wines are still
classified correctly, but not if means are imputed.
"""

# %%
# The data
# --------
# The data are thirteen standardised measurements of 178 Italian wines of three cultivars. We remove
# values at random. With a tenth of the values missing, fewer than one row in four is complete. With
# three tenths nearly no row is left if incomplete rows are dropped.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_onlineem import GaussianMixture

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)


def with_gaps(share, seed):
    """Return the wines without this share of their values."""
    missing = np.random.default_rng(seed).random(X.shape) < share
    return np.where(missing, np.nan, X)


for share in (0.1, 0.3):
    complete = ~np.isnan(with_gaps(share, 0)).any(axis=1)
    print(f"{share:.0%} of the values missing: {complete.sum()} of {len(X)} rows are complete")

# %%
# A mixture that takes gaps
# -------------------------
# NaN marks a missing value. Each row contributes the values that are observed. Below, one wine is
# classified by its alcohol alone, and then by all measurements.

settings = {"covariance_type": "diag", "random_state": 0}
mixture = GaussianMixture(3, **settings).fit(with_gaps(0.3, 0))
known = np.where(np.arange(13) == 0, X[0], np.nan)[None]
print(f"\nof the alcohol alone: {mixture.predict_proba(known)[0].round(2)}")
print(f"of all measurements:  {mixture.predict_proba(X[:1])[0].round(2)}")

# %%
# More and more gaps
# ------------------
# The score is the adjusted Rand index: 1 if components are the cultivars, 0 by chance. Afterwards
# ``impute`` replaces a missing value by its expectation given the rest of the row.

SHARES, N_SEEDS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5], 3
found = {"gaps integrated out": [], "gaps filled by means": []}
guesses = {name: [] for name in found}
for share in SHARES:
    indices, errors = [], []
    for seed in range(N_SEEDS):
        gappy = with_gaps(share, seed)
        gaps = np.isnan(gappy)
        integrated = GaussianMixture(3, n_init=2, **settings).fit(gappy)
        imputer = SimpleImputer()
        filled = make_pipeline(imputer, GaussianMixture(3, n_init=2, **settings)).fit(gappy)
        clusterings = integrated.predict(gappy), filled.predict(gappy)
        indices.append([adjusted_rand_score(wine.target, labels) for labels in clusterings])
        if share:
            filled_in = integrated.impute(gappy), imputer.transform(gappy)
            errors.append([np.sqrt(np.mean((X - guess)[gaps] ** 2)) for guess in filled_in])
    for name, index in zip(found, np.mean(indices, axis=0), strict=True):
        found[name].append(index)
    if share:
        for name, error in zip(guesses, np.mean(errors, axis=0), strict=True):
            guesses[name].append(error)

print(f"\n{'values missing':<32}" + "".join(f"{share:7.0%}" for share in SHARES))
for name, values in found.items():
    print(f"{name:<32}" + "".join(f"{value:7.2f}" for value in values))
for name, values in guesses.items():
    print(f"error, {name:<25}" + " " * 7 + "".join(f"{value:7.2f}" for value in values))

# %%
# The table shows the index, and the root mean squared error of imputed values, in standard
# deviations of a feature. The error of a mean is about 1. The plots show the same numbers:

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
percent = 100.0 * np.array(SHARES)
for name, style in zip(found, ("ko-", "C1s--"), strict=True):
    left.plot(percent, found[name], style, label=name)
    right.plot(percent[1:], guesses[name], style, label=name)
left.set(title="Agreement with the cultivars", ylabel="adjusted Rand index", ylim=(0, 1))
right.set(title="Error of imputed values", ylabel="standard deviations", ylim=(0, 1.15))
for ax in (left, right):
    ax.set_xlabel("values missing, per cent")
left.legend(loc="lower left")

# %%
# These results require that values are missing at random. If large values are missing more often
# than small ones, the rows alone cannot show it.

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "missing_values.png", dpi=100)
