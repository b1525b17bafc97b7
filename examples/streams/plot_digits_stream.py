"""
=============================================================
Online and batch EM of a Gaussian mixture: handwritten digits
=============================================================

Batch EM reads all the data before each update; online EM updates after every batch of rows. Here
both fit ten Gaussians to scikit-learn's handwritten digits, and we follow the mean log-likelihood
of held-out digits against the number of rows that each has read.

We count the rows that are read from the source. All methods use some rows more often for their
start. Batch EM starts from k-means of all rows; ours compares three such starts by ten passes of EM
each. ``partial_fit`` keeps the first rows, and makes its start anew from them as they come. The
last start is made by batch EM with split and merge steps.
"""

# %%
# The data
# --------
# The pixels are scaled to at most 1 and reduced to ten principal components, so that 200 digits are
# enough for a first estimate of ten Gaussians. They are not standardised, as the pixels at the
# border are almost always blank and would get the largest weight.

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as BatchGaussianMixture
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import gen_batches

from sklearn_onlineem import GaussianMixture

try:
    from rich.progress import track
except ImportError:

    def track(steps, description):
        """Print the description once, instead of showing a bar."""
        print(description)
        return steps


N_COMPONENTS, N_PASSES, BATCH_SIZE = 10, 10, 200

X_train, X_test = train_test_split(load_digits().data, test_size=0.25, random_state=0)
reduce = make_pipeline(MinMaxScaler(), PCA(n_components=10, random_state=0)).fit(X_train)
X_train, X_test = reduce.transform(X_train), reduce.transform(X_test)

# %%
# Online EM
# ---------
# The digits arrive in batches, in a new order in every pass. ``n_samples_seen_`` counts them. The
# start of ten Gaussians of ten columns takes 2,197 rows: those of the first pass, and most of the
# second. From then on, a step sees its batch only.

rng = np.random.RandomState(0)
batches = [
    order[batch]
    for order in (rng.permutation(len(X_train)) for _ in range(N_PASSES))
    for batch in gen_batches(len(X_train), BATCH_SIZE)
]
online = GaussianMixture(n_components=N_COMPONENTS, random_state=0)
online_path = {}
for batch in track(batches, "online EM, batch by batch"):
    online.partial_fit(X_train[batch])
    online_path[online.n_samples_seen_] = online.score(X_test)

# %%
# Batch EM, ours and scikit-learn's
# ---------------------------------
# With ``warm_start=True`` and ``max_iter=1`` every ``fit`` is one more pass over the training data.


def follow_passes(mixture, description):
    """Return held-out log-likelihoods after each pass, by the number of rows read so far."""
    path = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one pass at a time is what we want
        for n_passes in track(range(1, N_PASSES + 1), description):
            path[n_passes * len(X_train)] = mixture.fit(X_train).score(X_test)
    return path


one_pass = {"n_components": N_COMPONENTS, "max_iter": 1, "warm_start": True, "random_state": 0}
batch_path = follow_passes(GaussianMixture(solver="batch", **one_pass), "batch EM, ours")
sklearn_path = follow_passes(BatchGaussianMixture(**one_pass), "batch EM, scikit-learn's")

# %%
# Held-out log-likelihood against rows seen
# -----------------------------------------
# Within the first pass only online EM has a result. In the second pass its start is settled, with
# split and merge steps, which single passes of batch EM do not take: these stay at a local maximum.
# Later passes of online EM change little, as its rates decay.

paths = {
    "online EM, partial_fit": online_path,
    "batch EM": batch_path,
    "scikit-learn's batch EM": sklearn_path,
}
print(f"\nmean log-likelihood of {len(X_test)} held-out digits, in nats")
print(f"{'rows seen':>10}", *(f"{name:>24}" for name in paths))
for n_rows in [*list(online_path)[:4], *sklearn_path]:
    values = (f"{path[n_rows]:24.3f}" if n_rows in path else f"{'':>24}" for path in paths.values())
    print(f"{n_rows:>10}", *values)

fig, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for (name, path), style in zip(paths.items(), ("-", "o--", "s:"), strict=True):
    ax.plot(list(path), list(path.values()), style, label=name, markersize=4)
best = max(max(path.values()) for path in paths.values())
ax.set(
    ylim=(best - 2, best + 0.3),
    xlabel="rows seen",
    ylabel="held-out log-likelihood per digit (nats)",
    title=f"{N_COMPONENTS} Gaussians on handwritten digits",
    xscale="log",
)
ax.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "digits_stream.png", dpi=150)
    print(f"\nwritten: {folder / 'digits_stream.png'}")
