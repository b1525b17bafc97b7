"""
===============================================
Online EM on a drifting stream: moving clusters
===============================================

A model that forgets old data follows a source that drifts. A model that was fitted once, or to all
data so far, does not. Here two clusters exchange their positions along a circle, and each model is
scored on every batch before it learns from it.
"""

# %%
# The stream
# ----------
# In 200 batches of 100 rows both centres move along half of a circle, each to the other's position.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.mixture import GaussianMixture as BatchGaussianMixture

from sklearn_onlineem import GaussianMixture

rng = np.random.default_rng(0)
angles = np.linspace(0.0, np.pi, 200)
directions = np.column_stack([np.cos(angles), np.sin(angles)])
signs = rng.choice([-3.0, 3.0], size=(200, 100, 1))
stream = signs * directions[:, None, :] + 0.6 * rng.standard_normal((200, 100, 2))

# %%
# Three ways to learn
# -------------------
# - Online EM with a constant learning rate of 0.2 reads each batch once and stores none.
# - One model is fitted by batch EM to the first twenty batches only.
# - Another one is fitted again every twenty batches, to all data so far. These must be stored.
#
# At the end the clusters have exchanged their positions. The data then look as they did at first,
# and the model that was fitted once is right again.

online = GaussianMixture(2, schedule="constant", eta0=0.2, random_state=0)
once = BatchGaussianMixture(2, random_state=0).fit(np.concatenate(stream[:20]))
scores = {"online EM": [], "batch EM, refitted to all": [], "batch EM, fitted once": []}
centres = []
for t, batch in enumerate(stream):
    if t >= 20:
        if t % 20 == 0:
            again = BatchGaussianMixture(2, random_state=0).fit(np.concatenate(stream[:t]))
        for kept, mixture in zip(scores.values(), (online, again, once), strict=True):
            kept.append(mixture.score(batch))
    online.partial_fit(batch)
    centres.append(online.means_)

print("mean log-likelihood of batches that were not read yet, nats per row")
for name, kept in scores.items():
    print(f"{name:<28}{np.mean(kept):8.2f}   last batch {kept[-1]:8.2f}")

# %%
# Where they went
# ---------------
# The left plot shows the path of both centres of the online model, and a tenth of the rows, later
# ones darker. The right plot shows the score of the next batch under each model.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
rows = stream[:, ::10].reshape(-1, 2)
left.scatter(*rows.T, c=np.arange(len(rows)), cmap="Greys", s=6)
for path, style in zip(np.swapaxes(centres, 0, 1), ("C0-", "C1-"), strict=True):
    left.plot(*path.T, style, lw=3)
    left.plot(*path[-1], style[:2] + "o", ms=10, mec="k")
left.set(title="Centres follow the stream", xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
for (name, kept), style in zip(scores.items(), ("-", "--", ":"), strict=True):
    right.plot(np.arange(20, 200) * 100, kept, style, label=name)
right.set(title="Score of the next batch", xlabel="rows seen", ylabel="nats per row")
right.set_ylim(bottom=-12)
right.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "moving_stream.png", dpi=150)
    print(f"\nwritten: {folder / 'moving_stream.png'}")
