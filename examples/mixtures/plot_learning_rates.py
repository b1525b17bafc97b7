"""
==========================================
Which learning rates suit my stream?
==========================================

Score each batch before learning from it: the mean of these prequential scores needs no held-out
data, and compares learning rates by one pass each. What is best depends on whether the source
moves, and on how fast.
"""

# %%
# Two streams
# -----------
# Both have two clusters and 200 batches of 50 rows. In one the clusters stay, in the other they
# drift. A step t has the learning rate ``eta0 * t ** -beta``, so that ``beta=0`` is a constant
# rate.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianMixture

rng = np.random.default_rng(0)
noise = rng.standard_normal((200, 50, 2)) + rng.choice([-3.0, 3.0], size=(200, 50, 1))
streams = {"at rest": noise, "drifting": noise + 0.02 * np.arange(200)[:, None, None]}
eta0s, betas = [0.05, 0.2, 0.5, 1.0], [0.0, 0.3, 0.6, 0.9]


def prequential_score(stream, eta0, beta):
    """Mean log-likelihood of batches before they are learnt, after the first twenty."""
    mixture = GaussianMixture(2, eta0=eta0, beta=beta, random_state=0)
    scores = []
    for batch in stream:
        if hasattr(mixture, "means_"):
            scores.append(mixture.score(batch))
        mixture.partial_fit(batch)
    return np.mean(scores[20:])


# %%
# Every pair, on either stream
# ----------------------------

fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
for ax, (name, stream) in zip(axes, streams.items(), strict=True):
    table = np.array([[prequential_score(stream, e, b) for b in betas] for e in eta0s])
    i, j = np.unravel_index(table.argmax(), table.shape)
    print(f"{name}: best eta0={eta0s[i]}, beta={betas[j]}, {table[i, j]:.3f} nats per row;")
    print(f"    by default {prequential_score(stream, 1.0, 0.6):.3f}, worst {table.min():.3f}")
    for row, eta0, style in zip(table, eta0s, ("o-", "s--", "^:", "d-."), strict=True):
        ax.plot(betas, table.max() - row + 1e-3, style, label=f"eta0={eta0}")
    ax.set(title=f"A stream {name}", xlabel="beta", yscale="log")
axes[0].set_ylabel("nats per row below the best, + 0.001")
axes[0].legend()
