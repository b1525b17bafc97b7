"""
==============================================
Kalman filter with missing values: air quality
==============================================

A station in an Italian city measured the air every hour for half a year, with five reference
instruments, five cheap sensors, a thermometer and a hygrometer. One value in thirteen is missing. A
Kalman filter accepts missing values and imputes them from the other instruments in the same hour,
and from all instruments before and after.

Here ``partial_fit`` reads the data once, week by week, as if they came from the station. We hide
further values, in runs of up to a day, to compare the imputed values with the measurements.
"""

# %%
# The data
# --------
# The data are half a year of the UCI data set 360 (De Vito, CC BY 4.0). One variable was measured
# for a few weeks only, and is left out.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import KalmanFilter

stored = np.load(Path(sys.argv[0]).resolve().parents[1] / "data" / "air_quality.npz")
X = np.where(stored["scaled"] == -32768, np.nan, stored["scaled"] / stored["scale"])
NAMES = "CO PT08.CO C6H6 PT08.NMHC NOx PT08.NOx NO2 PT08.NO2 PT08.O3 T RH AH".split()
print(f"{len(X)} hours of {X.shape[1]} variables, {np.isnan(X).mean():.1%} missing")

# %%
# In each variable some runs of up to 24 hours are hidden, one value in twenty altogether.

rng = np.random.default_rng(0)
gaps = X.copy()
for column in gaps.T:
    for begin in rng.integers(0, len(X), len(X) // 250):
        column[begin : begin + rng.integers(1, 25)] = np.nan
hidden = np.isnan(gaps) & ~np.isnan(X)

# %%
# One pass over the weeks
# -----------------------
# The state has sixteen dimensions, more than there are variables: each harmonic of the daily rhythm
# takes two. With ``continues=True`` a week continues the previous one.

kalman = KalmanFilter(n_dim_state=16, random_state=0)
for week in np.array_split(gaps, len(gaps) // 168):
    kalman.partial_fit(week, continues=True)
filled = kalman.impute(gaps)

# %%
# What was hidden
# ---------------
# Errors are in standard deviations of each variable.

means, hours = np.nanmean(gaps, axis=0), np.arange(len(X))
lines, last = gaps.copy(), gaps.copy()
for j in range(X.shape[1]):
    seen = ~np.isnan(gaps[:, j])
    lines[:, j] = np.interp(hours, hours[seen], gaps[seen, j])
    before = np.maximum.accumulate(np.where(seen, hours, seen.argmax()))
    last[:, j] = gaps[before, j]
ways = {
    "mean": np.broadcast_to(means, X.shape),
    "last value": last,
    "straight line": lines,
    "Kalman filter": filled,
}


def errors(way):
    """Root mean squared errors of the hidden values, for each variable."""
    squares = np.where(hidden, ((way - X) / np.nanstd(X, axis=0)) ** 2, np.nan)
    return np.sqrt(np.nanmean(squares, axis=0))


print(f"\n{'':<12}" + "".join(f"{name:>15}" for name in ways))
table = np.column_stack([errors(way) for way in ways.values()])
for name, row in zip(NAMES, table, strict=True):
    print(f"{name:<12}" + "".join(f"{error:15.2f}" for error in row))
print(f"{'all':<12}" + "".join(f"{error:15.2f}" for error in np.sqrt((table**2).mean(axis=0))))

# %%
# A gap from within
# -----------------
# This is the longest hidden run of nitrogen oxides. The other instruments predict most of it.

j = NAMES.index("NOx")
length = np.zeros(len(X), dtype=int)
for t in range(1, len(X)):
    length[t] = length[t - 1] + 1 if hidden[t, j] else 0
end = int(length.argmax())
window = slice(max(0, end - length[end] - 48), end + 48)

fig, (above, below) = plt.subplots(2, 1, figsize=(8, 6), layout="constrained")
above.axvspan(end - length[end] + 0.5, end + 0.5, color="0.9", label="hidden")
above.plot(hours[window], X[window, j], "k.", markersize=4, label="measured")
for (name, way), style in zip(list(ways.items())[2:], ("C0:", "C3-"), strict=True):
    above.plot(hours[window], way[window, j], style, label=name)
above.set(title="Nitrogen oxides around a gap", xlabel="hour", ylabel="ppb")
above.legend(loc="upper left", ncols=2)

width = 0.8 / len(ways)
for i, (name, column) in enumerate(zip(ways, table.T, strict=True)):
    below.bar(np.arange(len(NAMES)) + (i - 1.5) * width, column, width, label=name)
below.set_xticks(range(len(NAMES)), NAMES, rotation=45)
below.set(ylabel="RMSE (standard deviations)", title="Errors of hidden values", ylim=(0.0, 1.9))
below.legend(ncols=4, loc="upper center")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "air_quality.png", dpi=150)
    print(f"\nwritten: {folder / 'air_quality.png'}")
