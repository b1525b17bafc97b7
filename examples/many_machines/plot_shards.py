"""
=========================================
Distributed EM over shards: four clusters
=========================================

Expected statistics are sums over rows. So each machine sends the statistics of its own shard, never
rows, and batch EM over shards takes the same steps as on all data in one place. Merging models that
were fitted independently takes one message from each machine, and is nearly as good.
"""

# %%
# The data
# --------
# The eight shards have rows from four clusters. In each shard two clusters are more frequent.
# ``DistributedEM`` cuts an array into shards, here into these eight. With a client it sends them to
# machines. The chunks of a Dask array are shards, too.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianMixture, combine_estimators
from sklearn_onlineem.displays import MergeDisplay
from sklearn_onlineem.distributed import DistributedEM

rng = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0], [6.0, 6.0]])
shards = []
for i in range(8):
    shares = np.full(4, 0.05)
    shares[[i % 4, (i + 1) % 4]] += 0.4
    which = rng.choice(4, size=1000, p=shares)
    shards.append(CENTRES[which] + rng.normal(size=(1000, 2)))
everything = np.concatenate(shards)

# %%
# Three ways
# ----------
# All start from the same centres. The more similar the sites are, the better merging works.

start = {"means_init": CENTRES + [1.0, -1.0], "random_state": 0}
in_one_place = GaussianMixture(4, solver="batch", tol=1e-6, **start).fit(everything)
over_shards = DistributedEM(GaussianMixture(4, tol=1e-6, **start), n_shards=8, n_jobs=1).fit(
    everything
)
sites = [GaussianMixture(4, **start).fit(shard) for shard in shards]
merged = combine_estimators(sites)

ways = {
    "in one place": in_one_place,
    "batch EM over shards": over_shards.estimator_,
    "merged once": merged,
    "first shard alone": sites[0],
}
for name, mixture in ways.items():
    centres = mixture.means_[np.lexsort(mixture.means_.round().T)]
    off = np.abs(centres - CENTRES[np.lexsort(CENTRES.T)]).max()
    print(f"{name:<24}{mixture.score(everything):9.4f} nats per row; centres are off by {off:.2f}")

fig, ax = plt.subplots(figsize=(6, 5.4), layout="constrained")
MergeDisplay.from_estimator(merged, sites[:3], everything, ax=ax)
ax.set_title("Three of the sites, and all eight merged")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "shards.png", dpi=100)
