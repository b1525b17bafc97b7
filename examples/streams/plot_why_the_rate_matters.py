"""
===================================================
What the learning rate does: five Gaussian clusters
===================================================

The learning rate weighs a new batch against the old model. With a large rate EM learns fast but
does not converge; with a small rate it is slow; with a rate that decays it learns fast and
converges. As in the first figures of Amid & Warmuth, each step lowers the loss of its own batch,
whatever the rate.
"""

# %%
# The data
# --------
# Batches of fifty rows, and the held-out rows, come from five Gaussians in five dimensions.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import GaussianMixture

N_BATCHES, BATCH, SEEDS = 200, 50, 5
SCHEDULES = {
    "eta = 1, constant": {"schedule": "constant", "eta0": 1.0},
    "eta = 0.05, constant": {"schedule": "constant", "eta0": 0.05},
    "eta = 1 / t": {"eta0": 1.0, "beta": 1.0},
    "eta = 1 / t^0.6": {"eta0": 1.0, "beta": 0.6},
}


def rows(rng, centres, n):
    return centres[rng.integers(len(centres), size=n)] + rng.normal(size=(n, centres.shape[1]))


# %%
# Excess loss
# -----------
# The excess loss is the loss of held-out rows less that of the true mixture, averaged over five
# streams. All learners of a stream start from the same centres, some two standard deviations off.

losses = {name: np.zeros(N_BATCHES) for name in SCHEDULES}
own_batch = []
for seed in range(SEEDS):
    rng = np.random.default_rng(seed)
    centres = 4.0 * rng.normal(size=(5, 5))
    stream, held_out = rows(rng, centres, N_BATCHES * BATCH), rows(rng, centres, 4000)
    start = centres + rng.normal(size=(5, 5))
    squares = ((held_out[:, None] - centres) ** 2).sum(axis=2)
    truth = (np.logaddexp.reduce(-0.5 * squares, axis=1) - np.log(5 * (2 * np.pi) ** 2.5)).mean()
    for name, rates in SCHEDULES.items():
        mixture = GaussianMixture(
            5, covariance_type="spherical", means_init=start, weights_init=np.full(5, 0.2),
            precisions_init=np.ones(5), random_state=0, **rates,
        )  # fmt: skip
        for t in range(N_BATCHES):
            batch = stream[t * BATCH : (t + 1) * BATCH]
            mixture.partial_fit(batch)
            own_batch.append(mixture.score(batch) - mixture.history_[-1].log_likelihood)
            losses[name][t] += (truth - mixture.score(held_out)) / SEEDS

print(f"{'excess loss after':<22}" + "".join(f"{t:>9}" for t in (5, 20, 100, 200)) + "   batches")
for name, loss in losses.items():
    print(f"{name:<22}" + "".join(f"{loss[t - 1]:9.4f}" for t in (5, 20, 100, 200)))
print(
    f"steps that raised the loss of their own batch: {np.sum(np.array(own_batch) < -1e-9)} of"
    f" {len(own_batch)}"
)

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, loss), style in zip(losses.items(), ("C3:", "C0-.", "C1--", "k-"), strict=True):
    ax.loglog(np.arange(1, N_BATCHES + 1), loss, style, label=name)
ax.set(xlabel="batches of 50 rows", ylabel="excess loss (nats per row)")
ax.set_title("What is left to learn, by learning rate")
ax.legend()

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "why_the_rate_matters.png", dpi=100)
