"""
==============================================
Value at risk by regimes: daily returns of DAX
==============================================

Share prices have calm and nervous times. A hidden Markov model tells them apart, and forecasts how
large the loss of the next day may be. Its intervals are wide when losses come, and narrow else.
"""

# %%
# Days without a trade
# --------------------
# The data are closing prices of the German index from 1991 to 1998. On holidays of the exchange the
# price stands still: 73 returns are exactly 0. A state of variance 0 at these days is more likely
# than any other, and three states find it. The fit says so:

import gzip
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianHMM

path = Path(sys.argv[0]).resolve().parents[1] / "data" / "stock_indices.csv.gz"
with gzip.open(path, "rt") as file:
    prices = np.genfromtxt(file, delimiter=",", names=True)["DAX"]
returns = 100.0 * np.diff(np.log(prices))[:, None]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    GaussianHMM(3, random_state=0).fit(returns)
print(*(warning.message for warning in caught), sep="\n")

# %%
# Nothing was observed on such days, so they are missing rows. The chain moves on.

returns[returns == 0.0] = np.nan
half = len(returns) // 2
train = returns[:half]

# %%
# How many regimes?
# -----------------
# Models of the first half predict each day of the second half from the days before it. Two regimes
# are better than one by a tenth of a nat a day. More are not better, and BIC prefers two as well.

models = {k: GaussianHMM(k, n_init=3, random_state=0).fit(train) for k in (1, 2, 3, 4)}
for k, model in models.items():
    held_out, bic = model.score_rows(returns)[half:].mean(), model.bic(train)
    print(f"{k} regimes: held-out log-likelihood of a day {held_out:.3f}, BIC {bic:.0f}")
hmm = models[2]
for mean, variance, stays in zip(
    hmm.means_.ravel(), hmm.covars_.ravel(), np.diag(hmm.transmat_), strict=True
):
    print(f"mean {mean:5.2f} %, deviation {variance**0.5:.2f} %, lasts {1 / (1 - stays):.0f} days")

# %%
# Value at risk
# -------------
# The value at risk of 1 % is the loss that only one day in a hundred exceeds: the 1 % quantile of
# the next return. A live filter takes one day after the other, and forecasts the next. Nothing of
# it uses later days. Beside it stand a normal distribution, and the quantile of the last 250 days.

LEVELS = [0.01, 0.05]
live, found = hmm.live_filter(), []
for day, row in enumerate(returns):
    if day >= half:
        found.append(live.forecast(quantiles=LEVELS)[1].ravel())
    live.update(row)
normal = models[1].forecast(train, quantiles=LEVELS)[1].ravel()
windows = [returns[day - 250 : day] for day in range(half, len(returns))]
rules = {
    "a normal distribution": np.tile(normal, (len(windows), 1)),
    "the last 250 days": np.array([np.nanquantile(window, LEVELS) for window in windows]),
    "two regimes": np.array(found),
}
later = returns[half:]
seen = ~np.isnan(later[:, 0])
print(f"{'':<24}below 1 %   below 5 %   mean loss at 1 %")
for name, quantiles in rules.items():
    below = (later[seen] < quantiles[seen]).mean(axis=0)
    print(f"{name:<24}{below[0]:9.1%}{below[1]:12.1%}{-quantiles[:, 0].mean():17.2f}")

# %%
# A normal distribution expects losses in 1 % of the days that come in nearly 3 %. The regimes are
# right at both levels, although the second half is more nervous than the first.
#
# The last two years
# ------------------

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
days = np.arange(len(returns))[half:]
ax.plot(days, later, ".", color="0.6", markersize=3, label="returns")
for name, color in (("a normal distribution", "C1"), ("two regimes", "C0")):
    ax.plot(days, rules[name][:, 0], color=color, label=f"1 % quantile, {name}")
missed = later[:, 0] < rules["two regimes"][:, 0]
ax.plot(days[missed], later[missed], "v", color="C3", label="exceeded")
ax.set(xlim=(days[-500], days[-1]), ylim=(-7.0, 8.0), xlabel="day", ylabel="return in percent")
ax.legend(loc="upper left", ncols=2)
ax.set_title("Value at risk of the next day")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "value_at_risk.png", dpi=100)
