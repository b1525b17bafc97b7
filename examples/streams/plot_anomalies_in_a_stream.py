"""
===================================================
Anomaly detection on a drifting stream: two sensors
===================================================

An `AnomalyDetector` scores each row before its mixture learns it. A row is an anomaly if few of the
latest rows were as unlikely. A model that keeps learning finds the anomalies of a stream that
drifts. For a model that was fitted once, all rows are anomalies after a while.
"""

# %%
# The data
# --------
# Two sensors have three modes. The modes drift: the first and the last centre of a mode are some
# ten standard deviations apart. One row in a hundred is a fault, with uniformly distributed values.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import average_precision_score

from sklearn_onlineem import AnomalyDetector, GaussianMixture

rng = np.random.default_rng(0)
N_ROWS, BATCH = 20_000, 100
progress = np.linspace(0.0, 1.0, N_ROWS)[:, None]
begin, end = (
    np.array([[0.0, 0.0], [6.0, 0.0], [3.0, 6.0]]),
    np.array([[5.0, 3.0], [-1.0, 5.0], [9.0, 9.0]]),
)
mode = rng.integers(3, size=N_ROWS)
X = begin[mode] + progress * (end - begin)[mode] + 0.5 * rng.normal(size=(N_ROWS, 2))
is_fault = rng.random(N_ROWS) < 0.01
X[is_fault] = rng.uniform(-4.0, 12.0, size=(is_fault.sum(), 2))

# %%
# Score, then learn
# -----------------
# With a constant rate the mixture remembers some ten batches. The offset is the 1 % quantile of the
# latest 1,000 scores. The model learns the faults, too, but a single one has little effect.

mixture = GaussianMixture(3, schedule="constant", eta0=0.1, random_state=0)
detectors = {
    "learns on": AnomalyDetector(mixture).partial_fit(X[:500]),
    "fitted once": AnomalyDetector(GaussianMixture(3, random_state=0)).fit(X[:500]),
}
scores = {name: np.zeros(N_ROWS) for name in detectors}
is_odd = {name: np.zeros(N_ROWS, dtype=bool) for name in detectors}
for first in range(500, N_ROWS, BATCH):
    rows = slice(first, first + BATCH)
    for name, detector in detectors.items():
        scores[name][rows] = detector.score_samples(X[rows])
        is_odd[name][rows] = scores[name][rows] < detector.offset_
    detectors["learns on"].partial_fit(X[rows])

# %%
# Found, and false
# ----------------
# Average precision is the area under the curve of precision against recall: it is 1 for a perfect
# score, and 0.01 by chance.

print(f"{'':<14}{'average precision':>20}{'found':>8}{'false':>8}")
for name, score in scores.items():
    seen = slice(1000, None)
    precision = average_precision_score(is_fault[seen], -score[seen])
    found = (is_odd[name] & is_fault)[seen].sum() / is_fault[seen].sum()
    false = (is_odd[name] & ~is_fault)[seen].sum()
    print(f"{name:<14}{precision:20.2f}{found:8.0%}{false:8}")

fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for ax, (name, score) in zip(axes, scores.items(), strict=True):
    ax.plot(np.flatnonzero(~is_fault)[::5], score[~is_fault][::5], ",", color="0.6")
    ax.plot(np.flatnonzero(is_fault), score[is_fault], "kx", markersize=4, label="faults")
    ax.set(title=name, xlabel="row", ylim=(-60.0, 2.0), xticks=[0, 10_000, 20_000])
axes[0].set_ylabel("log-likelihood (nats)")
axes[1].legend(loc="lower left")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "anomalies_in_a_stream.png", dpi=100)
