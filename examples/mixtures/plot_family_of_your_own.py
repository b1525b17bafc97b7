r"""
================================================================
A family of your own in a mixture and an HMM: counts of failures
================================================================

Four formulas define an exponential family. Mixtures and hidden Markov models of it can then learn
online and in batch, and be merged. Here the family is the geometric distribution of the number of
failures before a success. In one pass its mixture separates the days of two machines a little
better than a Gaussian mixture that has converged.
"""

# %%
# The family
# ----------
# With :math:`p(x) = (1 - p)^x p` the natural parameter is :math:`\theta = \log(1 - p)`, the
# log-partition :math:`-\log(1 - e^\theta)`, and the mean :math:`(1 - p) / p`. Parameters are means.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sklearn_onlineem import HMM, GaussianMixture, Mixture
from sklearn_onlineem.displays import StatePathDisplay
from sklearn_onlineem.families import ExponentialFamily


class Geometric(ExponentialFamily):
    """Geometric numbers of failures before a success, independent in each column."""

    def to_natural(self, mean):
        return np.log(mean / (1.0 + mean))

    def from_natural(self, natural):
        return np.exp(natural) / -np.expm1(natural)

    def log_partition(self, natural):
        return -np.log(-np.expm1(natural)).sum(axis=1)

    def regularise(self, mean):
        return np.maximum(mean, 1e-10)

    def sample(self, mean, components, rng):
        return rng.geometric(1.0 / (1.0 + mean[components])) - 1.0


# %%
# Two machines
# ------------
# The first machine succeeds every second time, the other one time in twenty. A row is a day, with
# two counts of failures before a success.

rng = np.random.default_rng(0)
machine = rng.integers(2, size=3000)
failures = rng.geometric(np.array([0.5, 0.05])[machine], size=(2, 3000)).T - 1.0

geometric = Mixture(2, family=Geometric(), random_state=0)
for batch in np.array_split(failures, 30):
    geometric.partial_fit(batch)
gaussian = GaussianMixture(2, random_state=0).fit(failures)


def share_right(mixture):
    right = (mixture.predict(failures) == machine).mean()
    return max(right, 1.0 - right)


print("means:", np.sort(geometric.means_.mean(axis=1)).round(1), "true: [ 1. 19.]")
print(
    f"rows that are told apart: geometric {share_right(geometric):.1%}, one pass;"
    f" Gaussian {share_right(gaussian):.1%}, until converged"
)

# %%
# The same family in a chain
# --------------------------
# One machine breaks and is repaired: the states of a hidden Markov model emit the same family.

is_broken = np.repeat([0, 1] * 5, 40)
days = rng.geometric(np.array([0.5, 0.05])[is_broken])[:, None] - 1.0
hmm = HMM(2, family=Geometric(), random_state=0).fit(days)
path = hmm.predict(days) == hmm.parameters_.argmax()
print(f"days that are recognised: {(path == is_broken).mean():.1%}")

fig, axes = plt.subplots(2, 1, figsize=(7, 4.5), height_ratios=[3, 1], layout="constrained")
names = ["broken" if mean == hmm.parameters_.max() else "well" for mean in hmm.parameters_.ravel()]
StatePathDisplay.from_estimator(hmm, days, names=names, ax=axes)
axes[0].set_title("A machine, and whether it is broken")

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    fig.savefig(folder / "family_of_your_own.png", dpi=100)
