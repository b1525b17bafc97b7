"""A picture of a model that follows a stream: `python doc/images/moving_model.py`.

Two of three clusters move while rows arrive in batches of 50, and each batch is seen once. What is
drawn is the mixture that `partial_fit` has learnt by then: ellipses that hold 90 % of the rows of a
component, and the way that its mean has taken.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse

from sklearn_onlineem import GaussianMixture

N_BATCHES, BATCH_SIZE = 240, 50
MOMENTS = (10, 80, 160, 240)
# sqrt of the 90 % quantile of chi-squared with two degrees of freedom, -2 log(1 - 0.9)
RADIUS = np.sqrt(-2.0 * np.log(0.1))
COLOURS = ("#0072b2", "#d55e00", "#009e73")


def centres(progress):
    """Means of the clusters, shape (3, 2), when that share of the stream has passed."""
    angle = np.pi * progress
    return np.array(
        [[4.0 * np.cos(angle), 4.0 * np.sin(angle)], [4.0 - 8.0 * progress, -4.0], [0.0, 0.0]]
    )


def batches(rng):
    """Yield batches of rows, shape (BATCH_SIZE, 2)."""
    for t in range(N_BATCHES):
        cluster = rng.integers(3, size=BATCH_SIZE)
        yield centres(t / N_BATCHES)[cluster] + 0.6 * rng.normal(size=(BATCH_SIZE, 2))


def draw(ax, X, mixture, path):
    """Rows of the last batches, the components, and the ways that their means have taken."""
    ax.plot(*X.T, ".", color="0.55", markersize=3)
    for k, colour in enumerate(COLOURS):
        values, axes = np.linalg.eigh(mixture.covariances_[k])
        width, height = 2.0 * RADIUS * np.sqrt(values)
        angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
        ellipse = Ellipse(mixture.means_[k], width, height, angle=angle, lw=2, ec=colour, fc="none")
        ax.add_patch(ellipse)
        ax.plot(*np.array(path)[:, k].T, color=colour, lw=1, ls="--")
    ax.set(xlim=(-6.5, 6.5), ylim=(-6.5, 6.5), aspect="equal", xticks=[], yticks=[])
    ax.set_title(f"{mixture.n_samples_seen_:,} rows seen", fontsize=11)


def main():
    figure, axes = plt.subplots(1, 4, figsize=(10, 2.9), layout="constrained")
    mixture = GaussianMixture(3, schedule="forgetting", beta=0.9, random_state=0)
    seen, path = [], []
    for X in batches(np.random.default_rng(0)):
        mixture = mixture.partial_fit(X)
        seen.append(X)
        path.append(mixture.means_)
        if len(seen) in MOMENTS:
            draw(axes[MOMENTS.index(len(seen))], np.concatenate(seen[-4:]), mixture, path)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
