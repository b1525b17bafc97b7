"""
============================================================
Regression with intervals by a Gaussian mixture: air sensors
============================================================

A Gaussian mixture of features and targets gives the distribution of the targets given the features
in closed form. So the predictions of a `MixtureRegressor` follow a curve, and its intervals are
wide where targets scatter. Missing features are integrated out.
"""

# %%
# The data
# --------
# An expensive analyser measured carbon monoxide in a street of an Italian city, hour by hour for 26
# weeks. Beside it hung five cheap sensors of metal oxide. We predict the analyser from the sensors,
# the temperature and the humidity. Every other day is for training, and the rest for the test.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from sklearn_onlineem import GaussianMixture, MixtureRegressor

stored = np.load(Path(sys.argv[0]).resolve().parents[1] / "data" / "air_quality.npz")
hours = np.where(stored["scaled"] == -32768, np.nan, stored["scaled"] / stored["scale"])
day = np.arange(len(hours)) // 24
complete = np.isfinite(hours).all(axis=1)
hours, day = hours[complete], day[complete]
# Sensors of CO, hydrocarbons, NOx, NO2 and ozone; temperature, relative and absolute humidity.
X, y = hours[:, [1, 3, 5, 7, 8, 9, 10, 11]], hours[:, 0]
train, test = day % 2 == 0, day % 2 == 1
print(f"{train.sum()} hours to learn from, {test.sum()} to predict")

# %%
# One sensor
# ----------
# The resistance of the sensor of NOx falls as carbon monoxide rises, steeply at first. Where it is
# low, carbon monoxide scatters more. A line with normal noise is too narrow there, and too wide
# elsewhere.

one = X[:, 2:3]
regressor = MixtureRegressor(GaussianMixture(5, random_state=0)).fit(one[train], y[train])
line = LinearRegression().fit(one[train], y[train])
noise = np.std(y[train] - line.predict(one[train]))
print(f"R^2: line {line.score(one[test], y[test]):.2f}", end=", ")
print(f"mixture {regressor.score(one[test], y[test]):.2f}")

lower, upper = regressor.predict_interval(one[test], level=0.9)
straight = line.predict(one[test])
found = {
    "line": np.abs(y[test] - straight) <= 1.645 * noise,
    "mixture": (lower <= y[test]) & (y[test] <= upper),
}
third = np.digitize(one[test, 0], np.quantile(one[test, 0], [1 / 3, 2 / 3]))
print("\nshare of hours in the intervals of 90 %, by what the sensor says")
print(f"{'':10}{'low':>8}{'middle':>8}{'high':>8}")
for name, is_in in found.items():
    print(f"{name:10}" + "".join(f"{is_in[third == number].mean():8.2f}" for number in range(3)))

# %%
# All sensors, and one that fails
# -------------------------------
# With all eight features the error is less than half as large. If a sensor fails, the mixture
# predicts from the others. Nothing is fitted again or filled in, and the intervals get wider. A
# line needs a value in its place, such as the mean.

full = MixtureRegressor(GaussianMixture(5, random_state=0)).fit(X[train], y[train])
full_line = LinearRegression().fit(X[train], y[train])
means = X[train].mean(axis=0)
names = ["none", "sensor of CO", "sensor of CO, hydrocarbons", "all five sensors"]
print(f"\n{'what fails':28}{'line, R^2':>12}{'mixture, R^2':>14}{'width':>8}{'in 90 %':>9}")
rows = []
for name, failing in zip(names, ([], [0], [0, 1], [0, 1, 2, 3, 4]), strict=True):
    gappy, filled = X[test].copy(), X[test].copy()
    gappy[:, failing], filled[:, failing] = np.nan, means[failing]
    lower, upper = full.predict_interval(gappy, level=0.9)
    is_in = (lower <= y[test]) & (y[test] <= upper)
    scores = full_line.score(filled, y[test]), full.score(gappy, y[test])
    rows.append((name, *scores, np.mean(upper - lower), is_in.mean()))
    print("{:28}{:12.2f}{:14.2f}{:8.2f}{:9.2f}".format(*rows[-1]))

# %%
# Intervals of the single sensor, and two days of the predictions by all of them:

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
fig.suptitle("Carbon monoxide from cheap sensors, with intervals")
grid = np.linspace(*np.quantile(one, [0.001, 0.999]), 300)[:, None]
left.plot(one[test], y[test], "k.", markersize=2, alpha=0.3)
for level, alpha in ((0.9, 0.25), (0.5, 0.45)):
    ends = (end for end in regressor.predict_interval(grid, level=level))
    left.fill_between(grid[:, 0], *ends, color="C0", alpha=alpha, label=f"{level:.0%}, mixture")
left.plot(grid, regressor.predict(grid), "C0", label="mean, mixture")
left.plot(grid, line.predict(grid), "C1--", label="line and its 90 %")
for side in (-1.645, 1.645):
    left.plot(grid, line.predict(grid) + side * noise, "C1:")
left.set(xlabel="sensor of NOx", ylabel="carbon monoxide (mg/m³)", ylim=(-1.5, 9.0))
left.legend()
days = np.flatnonzero(test)[-48:]
lower, upper = full.predict_interval(X[days])
right.fill_between(np.arange(48), lower, upper, color="C0", alpha=0.3, label="90 %, all sensors")
gappy = X[days].copy()
gappy[:, :5] = np.nan
for end in full.predict_interval(gappy):
    right.plot(np.arange(48), end, "C0:", label="90 %, weather alone")
right.plot(np.arange(48), y[days], "k.", label="analyser")
handles, labels = right.get_legend_handles_labels()
kept = dict(zip(labels, handles, strict=True))
right.legend(kept.values(), kept.keys(), loc="upper left")
right.set(xlabel="hour of two days that were not learnt", ylim=(-1.5, 9.0))

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "regression.png", dpi=100)
