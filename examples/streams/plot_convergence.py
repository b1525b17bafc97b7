"""
======================================================================
Convergence, standard errors and drift: irises, and a stream of counts
======================================================================

A warning that EM did not converge says little. A model and its data also show how much the
log-likelihood can still gain, how fast, and how precise the parameters are in the end. On a stream
they show whether the model still learns, and whether the source has changed.
"""

# %%
# How much is to be gained
# ------------------------
# The certificate of a model is a lower bound on the gain of the next pass of batch EM, in nats
# (units of the natural logarithm) per row. It is the divergence of the next model from this one. We
# fit three Gaussians to irises. The certificate is below the gain, and near a maximum both fall by
# the same factor in each pass.
#
# That factor can be computed at the last model: it is the square of the largest fraction of missing
# information, see `missing_information`.

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem.diagnostics import (
    DriftWatch,
    StreamCertificate,
    missing_information,
    standard_errors,
)
from sklearn_onlineem.em import Batch

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else None


def finish(fig, name):
    """Save a picture if the script has a folder as its argument."""
    if FOLDER is not None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        fig.savefig(FOLDER / f"{name}.png", dpi=150)


iris = load_iris()
X = iris.data[:, 2:]
exact = {"solver": Batch(acceleration=None), "tol": 1e-14, "max_iter": 2000, "reg_covar": 0.0}
mixture = GaussianMixture(3, random_state=2, **exact).fit(X)
slow = missing_information(mixture, X, n_values=1)
print(f"{mixture.n_iter_} passes")
print(slow.summary())

steps = mixture.history_
log_likelihoods = np.array([step.log_likelihood for step in steps])
passes = np.arange(1, len(steps))
certificates = np.array([step.kl_divergence for step in steps])[:-1]
last = np.searchsorted(-certificates, -1e-9)

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(passes, np.diff(log_likelihoods), "-", label="gain of the next pass")
ax.plot(passes, certificates, "--", label="certificate, known before it")
predicted = certificates[last] * slow.loss_rate ** (passes - passes[last])
ax.plot(passes, predicted, ":", label=f"by the rate at the maximum, {slow.loss_rate:.3f} per pass")
ax.set(
    yscale="log",
    xlabel="pass",
    ylabel="nats per iris",
    ylim=(1e-13, 1.0),
    title="Three Gaussians on petals: gain of the next pass",
)
ax.legend()
finish(fig, "certificates")

# %%
# How sure
# --------
# At the maximum, the same information gives standard errors. The petals of one species are well
# separated, so its centre is known far better than those of the two species that overlap.

errors = standard_errors(mixture, X)
intervals = errors.intervals(level=0.95)["means_"]
order = np.argsort(mixture.means_[:, 0])
print(f"{'centre':>10} {'weight':>8}  petal length")
for k in order:
    mean, (low, high) = mixture.means_[k, 0], intervals[:, k, 0]
    print(f"{k:>10} {mixture.weights_[k]:>8.2f}  {mean:.2f} ({low:.2f} to {high:.2f})")

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(*X.T, ".", color="0.7", label="irises")
centres, reach = mixture.means_, intervals[1] - mixture.means_
ax.errorbar(
    *centres.T, xerr=reach[:, 0], yerr=reach[:, 1], fmt="ko", capsize=4, label="centres, 95 %"
)
ax.set(
    xlabel=iris.feature_names[2],
    ylabel=iris.feature_names[3],
    title="Centres, with confidence intervals",
)
ax.legend()
finish(fig, "intervals")

# %%
# On a stream
# -----------
# Each batch of a stream has a certificate, which measures how far its statistics are from those of
# the model, whatever the learning rate. While the model learns, certificates fall to the level of
# noise, about half a nat per parameter and batch. They rise when the source changes. Here one of
# two rates goes from 12 to 16 after 150 batches, and `DriftWatch` detects it in two batches.

rng = np.random.default_rng(0)
running, watch = StreamCertificate(half_life=15), DriftWatch(action="stop")
counter = PoissonMixture(2, callbacks=[running, watch], random_state=0)
means, spreads = [], []
for t in range(300):
    rates = [3.0, 12.0] if t < 150 else [3.0, 16.0]
    counter.partial_fit(rng.poisson(rng.choice(rates, size=(100, 1))))
    means.append(running.mean)
    spreads.append(running.standard_error)
means, spreads = np.array(means), np.array(spreads)
print(watch.alarms)

steps = counter.history_[1:]
rows = [step.n_rows for step in steps]
fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.plot(rows, [step.certificate for step in steps], ".", color="0.6", ms=3, label="batches")
(line,) = ax.plot(rows, means[1:], label="mean of late, with two standard errors")
low, high = means - 2.0 * spreads, means + 2.0 * spreads
ax.fill_between(rows, low[1:], high[1:], alpha=0.3, color=line.get_color(), lw=0)
ax.axvline(watch.alarms[0].n_rows, color="k", ls="--", label="DriftWatch")
ax.set(
    yscale="log",
    ylim=(1e-4, 1.0),
    xlabel="rows seen",
    ylabel="certificate, nats per row",
    title="A stream whose source changes after 15,000 rows",
)
ax.legend()
finish(fig, "stream")
