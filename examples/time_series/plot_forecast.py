"""
============================================
Forecasts by a Kalman filter: carbon dioxide
============================================

A Kalman filter with a trend and seasons forecasts carbon dioxide a year ahead. Its error is two
thirds of the error of a seasonal naive forecast with drift. Its bands of 95 % contain 97 % of the
later observations.
"""

# %%
# The data
# --------
# The data are weekly means at Mauna Loa from 1958 to 2001. Some weeks are missing.

import gzip
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import block_diag

from sklearn_onlineem import KalmanFilter
from sklearn_onlineem.displays import ForecastDisplay

path = Path(sys.argv[0]).resolve().parents[1] / "data" / "co2.csv.gz"
with gzip.open(path, "rt") as file:
    y = np.genfromtxt(file, delimiter=",", skip_header=1, usecols=[1])[:, None]
print(f"{len(y)} weeks, {np.isnan(y).mean():.1%} missing")

# %%
# A level, its slope, and two rhythms
# -----------------------------------
# The state has a level, its slope, and two pairs of numbers that rotate once and twice a year. EM
# learns the parameters that ``em_vars`` names: the covariances of the transitions and of the
# observations. With ``continues=True`` each year continues the previous one.


def turn(times_a_year):
    """Return the rotation of a rhythm in a week."""
    angle = 2.0 * np.pi * times_a_year * 7.0 / 365.25
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


kalman = KalmanFilter(
    6,
    transition_matrices=block_diag([[1.0, 1.0], [0.0, 1.0]], turn(1), turn(2)),
    observation_matrices=[[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]],
    initial_state_mean=[y[0, 0], 0.02, 0.0, 0.0, 0.0, 0.0],
    initial_state_covariance=np.diag([4.0, 0.01, 4.0, 4.0, 1.0, 1.0]),
    transition_covariance=np.diag([1e-2, 1e-6, 1e-4, 1e-4, 1e-4, 1e-4]),
    observation_covariance=[[0.1]],
    em_vars=["transition_covariance", "observation_covariance"],
)
N_YEARS = 28
seen = 52 * N_YEARS
for year in np.array_split(y[:seen], N_YEARS):
    kalman.partial_fit(year, continues=True)

# %%
# A year ahead, sixty times
# -------------------------
# From the 28th year on we forecast every 13 weeks, without further learning. Errors are root mean
# squares over all weeks of the year ahead, in parts per million.

errors = {"seasonal naive": [], "seasonal naive, with drift": [], "Kalman filter": []}
inside = []
for now in range(seen, len(y) - 52, 13):
    last, before, ahead = y[now - 52 : now], y[now - 104 : now - 52], y[now : now + 52]
    mean, covariance = kalman.forecast(y[:now], n_steps=52, return_cov=True)
    errors["seasonal naive"].append(last - ahead)
    errors["seasonal naive, with drift"].append(last + np.nanmean(last - before) - ahead)
    errors["Kalman filter"].append(mean - ahead)
    known = ~np.isnan(ahead)
    inside.extend((np.abs(mean - ahead) < 1.96 * np.sqrt(covariance[:, 0]))[known])
for name, misses in errors.items():
    print(f"{name:<28}{np.sqrt(np.nanmean(np.square(misses))):6.2f} ppm")
print(f"{len(inside)} weeks, {np.mean(inside):.1%} within bands of 95 %")

# %%
# The next two years
# ------------------
# The upper plot shows the last six years of the training data and the forecast of two more years;
# crosses are later observations. The lower plot shows the autocorrelations of the innovations. Some
# autocorrelation remains, so a richer model would forecast the next week a little better.

fig, axes = plt.subplots(2, 1, figsize=(8, 6), height_ratios=[2, 1], layout="constrained")
ForecastDisplay.from_estimator(kalman, y[:seen], n_steps=104, ax=axes)
axes[0].plot(
    np.arange(seen, seen + 104), y[seen : seen + 104], "kx", markersize=3, label="observed later"
)
axes[0].set(xlim=(seen - 312, seen + 104), ylim=(335.0, 360.0), xlabel="week", ylabel="ppm")
axes[0].set_title("Carbon dioxide, and a forecast of two years")
axes[0].legend(loc="upper left", ncols=2)

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "forecast.png", dpi=100)
