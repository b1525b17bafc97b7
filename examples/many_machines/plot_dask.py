"""
===============================================
Distributed EM on a Dask cluster: rows in files
===============================================

Each worker of a Dask cluster reads its own files, and sends statistics instead of rows. Batch EM
then gives the same result as on one machine with all rows in memory. Online EM is nearly as good
after it has read each file once. No bit of either result depends on the number of workers.

This example needs the extra ``dask``.
"""

# %%
# Files as shards
# ---------------
# A shard is a delayed object: a call that reads a file. A worker makes the call. Here it draws rows
# from five clusters in three dimensions, with different noise.

import sys
from pathlib import Path

import dask
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.displays import MixtureDisplay
from sklearn_onlineem.distributed import DistributedEM

CENTRES = np.random.default_rng(0).normal(scale=2.5, size=(5, 3))
NOISE = np.array([0.5, 0.8, 1.0, 1.2, 1.5])


def read(number, n_rows=4000):
    """Return the rows of a file."""
    rng = np.random.default_rng(number)
    kinds = rng.integers(5, size=n_rows)
    return CENTRES[kinds] + NOISE[kinds, None] * rng.normal(size=(n_rows, 3))


N_FILES = 8
files = [dask.delayed(read)(number) for number in range(N_FILES)]
held_out = read(N_FILES)

# %%
# One worker, or three
# --------------------
# Workers are threads of this process here. On a real cluster the client is given its address,
# ``Client("tcp://scheduler:8786")``, and nothing else changes.
#
# In each round, ``mode="batch"`` sums the statistics of all files, and ``mode="synchronous"`` has
# each file's learner take 50 more of its rows, and merges the learners. All fits have the same
# given start; by default the first file provides it.

start = {
    "means_init": read(0)[:5],
    "precisions_init": np.tile(np.eye(3), (5, 1, 1)),
    "weights_init": np.full(5, 0.2),
    "reg_covar": 1e-6,
}
mixture = GaussianMixture(5, **start, batch_size=50, max_iter=80, tol=0.0, random_state=0)
learners = {mode: DistributedEM(mixture, mode=mode) for mode in ("batch", "synchronous")}
means = {}
for n_workers in (1, 3):
    with Client(
        n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        for mode, learner in learners.items():
            learner.fit(files, client=client, validation=held_out)
            means[mode, n_workers] = learner.estimator_.means_

print("                held out   1 and 3 workers")
for mode, learner in learners.items():
    agree = "same bits" if np.array_equal(means[mode, 1], means[mode, 3]) else "they differ"
    print(f"{mode:<14}{learner.score(held_out):10.4f}   {agree}")

rows = np.concatenate([read(number) for number in range(N_FILES)])
alone = mixture.set_params(solver="batch").fit(rows)
print(f"one machine   {alone.score(held_out):10.4f}")
difference = np.abs(alone.means_ - means["batch", 3]).max()
print(f"means of one machine and of batch EM on the cluster differ by {difference:.0e} at most")

# %%
# What a pass over the files gives
# --------------------------------
# A round of batch EM reads all files. In the same time online EM merges its learners eighty times.
# The right plot shows rows that no worker has seen, in the two directions that separate the
# components best.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for (mode, learner), style in zip(learners.items(), ("ko-", "C1-"), strict=True):
    scores = [part.validation for part in learner.history_]
    rows_read = np.cumsum([part.n_seen for part in learner.history_])
    left.plot(rows_read / len(rows), scores, style, markersize=3, label=mode)
left.axvline(1.0, color="0.6", linestyle=":")
left.set(xscale="log", xlabel="passes over the files", ylabel="held out (nats per row)")
left.set_title("Learnt by three workers")
left.legend()
MixtureDisplay.from_estimator(learners["synchronous"].estimator_, held_out, max_rows=1000, ax=right)
right.set_title("After one pass, online")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "dask.png", dpi=100)
