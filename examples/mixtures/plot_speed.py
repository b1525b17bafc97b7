"""
==================================================
Time of a pass beside scikit-learn: synthetic rows
==================================================

We compare the times of one pass of batch EM in scikit-learn and in this library, from the same
start, as ratios.
"""

# %%
# Equal work
# ----------
# Both make three passes from the same parameters, on one thread. The runs alternate, and the time
# is the least of three. Equal likelihoods show equal work.

# sphinx_gallery_parallel = False
import sys
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as OfScikitLearn
from threadpoolctl import threadpool_limits

from sklearn_onlineem import GaussianMixture

warnings.simplefilter("ignore", ConvergenceWarning)
rng = np.random.default_rng(0)
N_PASSES = 3


def seconds(kind, X, n_components, **arguments):
    """Return the CPU time of a pass, and the final log-likelihood."""
    d = X.shape[1]
    start = {
        "weights_init": np.full(n_components, 1.0 / n_components),
        "means_init": X[:n_components],
        "precisions_init": np.tile(np.eye(d), (n_components, 1, 1)),
    }
    mixture = kind(n_components, max_iter=N_PASSES, tol=0.0, **start, **arguments)
    begin = time.process_time()
    score = mixture.fit(X).score(X)
    return (time.process_time() - begin) / (N_PASSES + 1), score


ratios = {}
with threadpool_limits(1):
    for n_features, n_components in [(2, 4), (8, 16), (16, 32)]:
        X = rng.normal(size=(20_000, n_features)) + 3.0 * rng.integers(3, size=(20_000, 1))
        theirs, ours = [], []
        for _ in range(3):
            theirs.append(seconds(OfScikitLearn, X, n_components))
            ours.append(seconds(GaussianMixture, X, n_components, solver="batch", n_jobs=1))
        ratio = min(theirs)[0] / min(ours)[0]
        ratios[f"{n_features} features,\n{n_components} components"] = ratio
        print(
            f"{n_features:3} features, {n_components:3} components: {ratio:5.1f} times faster;"
            f" log-likelihoods {theirs[0][1]:.3f} and {ours[0][1]:.3f}"
        )

# %%
# The times of this page were taken on the machine that built it; ``benchmarks/README.md`` has more.

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
bars = ax.barh(list(ratios), list(ratios.values()), color="0.7")
ax.bar_label(bars, fmt="%.1f", padding=3)
ax.axvline(1.0, color="k", linewidth=0.8)
ax.set(xlabel="time of scikit-learn's pass / time of ours", title="Full covariances, one thread")
ax.invert_yaxis()
ax.margins(x=0.1)

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "speed.png", dpi=100)
