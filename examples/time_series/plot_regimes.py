"""
========================================================
Regimes by a Gaussian HMM: fifty years of the US economy
========================================================

Growth, inflation and unemployment go through regimes. A hidden Markov model finds three of them in
fifty years of quarterly figures, without labels of recessions. It estimates the probability of each
regime in each quarter, and how long a regime lasts.
"""

# %%
# The data
# --------
# The data are US series from 1959 to 2009. Growth is that of real GDP and of consumption, in
# percent a year. Inflation and the change of the unemployment rate are not transformed.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianHMM
from sklearn_onlineem.displays import StatePathDisplay, TransitionDisplay

series = np.genfromtxt(
    Path(sys.argv[0]).resolve().parents[1] / "data" / "macrodata.csv", delimiter=",", names=True
)
gdp, consumption = (400.0 * np.diff(np.log(series[name])) for name in ("realgdp", "realcons"))
X = np.column_stack([gdp, consumption, series["infl"][1:], np.diff(series["unemp"])])
NAMES = ["GDP growth", "consumption", "inflation", "change of unemployment"]
years = series["year"][1:] + (series["quarter"][1:] - 1.0) / 4.0

# %%
# The model
# ---------
# The model has three states. A prior on their transitions, worth twenty quarters, expects them to
# last for some years. One start is taken here; several would be compared by ``score``.

prior = np.full((3, 3), 1.5) + 18.5 * np.eye(3)
hmm = GaussianHMM(
    3, covariance_type="full", transmat_prior=prior, covars_prior=1.0, tol=1e-4, random_state=0
).fit(X)
order = np.argsort(hmm.means_[:, 0])
path, posterior = hmm.predict(X), hmm.predict_proba(X)

columns = [*NAMES, "quarters it lasts"]
print(f"{'':<8}" + "".join(f"  {name}" for name in columns))
for state in order:
    duration = 1.0 / (1.0 - hmm.transmat_[state, state])
    row = [*hmm.means_[state], duration]
    values = (f"{value:{len(name) + 2}.1f}" for name, value in zip(columns, row, strict=True))
    print(f"state {state:<2}" + "".join(values))

# %%
# These intervals are the quarters in the state with the least growth. The recessions of the
# National Bureau of Economic Research began in 1960, 1969, 1973, 1980, 1981, 1990, 2001 and at the
# end of 2007. The state has six of them. It is also the state with the highest inflation, and so
# includes the years around 1973, 1980 and 1981. The recessions of 1960 and 2001 are in the state
# with the lowest inflation.

worst = path == order[0]
edges = np.flatnonzero(np.diff(np.concatenate(([0], worst, [0])).astype(int)))
print(
    "least growth:",
    ", ".join(f"{years[a]:.2f}-{years[b - 1]:.2f}" for a, b in edges.reshape(-1, 2)),
)

# %%
# Bands and doubts
# ----------------
# The strip below the bands shows the posterior. Where several states are grey, the path is
# uncertain. Features are numbered as in the table.

fig, axes = plt.subplots(3, 1, figsize=(8, 9), height_ratios=[4, 1.2, 4], layout="constrained")
names = ["stagnation", "steady", "growth"]
named = [names[int(np.flatnonzero(order == state)[0])] for state in range(3)]
StatePathDisplay.from_estimator(hmm, X, names=named, ax=axes[:2])
for ax in axes[:2]:
    ticks = np.flatnonzero(years % 10.0 == 0.0)
    ax.set_xticks(ticks, years[ticks].astype(int))
    ax.set_xlabel("")
fig.suptitle("Fifty years of the economy in three states")
axes[2].set_title("Transitions between states, quarter by quarter")
TransitionDisplay.from_estimator(hmm, names=named, ax=axes[2])

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "regimes.png", dpi=100)
