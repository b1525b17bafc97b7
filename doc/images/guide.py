"""Pictures of the guide that no example of the gallery draws: `python doc/images/guide.py`."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from sklearn_onlineem import GaussianMixture, PoissonMixture
from sklearn_onlineem.diagnostics import EarlyStopping
from sklearn_onlineem.displays import MixtureDisplay
from sklearn_onlineem.em import Gibbs

HERE = Path(__file__).parent
# Lines that are told apart without colours, too.
STYLES = ("k-", "C0--", "C1-.", "C2:")


def digits():
    """Handwritten digits in 20 principal components: rows to learn from, and rows held out."""
    X = PCA(20, random_state=0).fit_transform(load_digits().data)
    X = X[np.random.default_rng(0).permutation(len(X))]
    return X[:1300], X[1300:]


def solvers():
    """Held-out score after each pass, from rows drawn as the first means."""
    train, test = digits()
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    ways = {
        "batch": {"solver": "batch"},
        "online": {"solver": "online", "eta0": 1.0},
        "stochastic": {"solver": "stochastic"},
        "auto": {},
    }
    for (name, way), style in zip(ways.items(), STYLES, strict=True):
        scores = np.mean([scores_of(way, train, test, seed) for seed in range(5)], axis=0)
        ax.plot(np.arange(1, len(scores) + 1), scores, style, label=f'"{name}"')
    ax.set(xlabel="passes over the rows", ylabel="nats per row held out", xticks=range(1, 16, 2))
    ax.legend(title="solver")
    return figure


def scores_of(way, train, test, seed, n_passes=15):
    """Scores of rows held out after 1, 2, ... passes."""
    mixture = GaussianMixture(
        10, init="random_from_data", batch_size=100, tol=0.0, random_state=seed, **way
    )
    return [mixture.set_params(max_iter=n).fit(train).score(test) for n in range(1, n_passes + 1)]


def priors():
    """Three rows for each of two components, nearly on a line, without and with a prior."""
    rng = np.random.default_rng(0)
    along = np.array([[-1.0], [0.2], [1.0]])
    X = np.vstack([along * [1.0, 1.0], [6.0, 3.0] + along * [1.0, -0.5]])
    X += 0.05 * rng.normal(size=X.shape)
    figure, axes = plt.subplots(
        1, 2, figsize=(6.4, 3.0), sharex=True, sharey=True, layout="constrained"
    )
    prior = {"covariance": 6.0 * np.eye(2), "degrees_of_freedom": 4.0}
    for ax, title, given in zip(axes, ("no prior", "a prior"), (None, prior), strict=True):
        mixture = GaussianMixture(2, prior=given, random_state=0).fit(X)
        MixtureDisplay.from_estimator(
            mixture, X, ax=ax, masses=[0.9], scatter_kw={"s": 25, "alpha": 1.0}
        )
        ax.set(title=title, xlim=(-3, 9), ylim=(-3, 6))
    return figure


def sampling():
    """Draws of both rates of a mixture of few rows, beside the one model of EM."""
    rates = np.repeat([[3.0], [8.0]], 40, axis=0)
    events = np.random.default_rng(0).poisson(rates)
    mixture = PoissonMixture(2, prior={"rate": 0.1}, warm_start=True, random_state=0).fit(events)
    mode = np.sort(mixture.means_.ravel())
    solver = Gibbs(average_from=100, n_chains=4, n_draws=1000)
    chains = mixture.set_params(solver=solver, max_iter=1100).fit(events).chains_
    draws = np.sort([d.parameters.ravel() for chain in chains.draws for d in chain], axis=1)
    figure, ax = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    bins = np.arange(1.0, 12.0, 0.1)
    for drawn, fill in zip(draws.T, ("0.45", "0.8"), strict=True):
        ax.hist(drawn, bins, density=True, color=fill)
    for rate in mode:
        ax.axvline(rate, color="k", ls="--")
    handles = [Line2D([], [], color="k", ls="--", label="EM")]
    handles += [plt.Rectangle((0, 0), 1, 1, color=c) for c in ("0.45", "0.8")]
    ax.legend(handles, ["EM", "draws of the lower rate", "draws of the higher rate"])
    ax.set(xlabel="rate", ylabel="density")
    return figure


def bayesian():
    """Learning rates of a component that is rare and of one that is not, by their own rows."""
    rng = np.random.default_rng(0)
    rows = rng.poisson(np.where(rng.random((5000, 1)) < 0.02, 30.0, 3.0))
    mixture = PoissonMixture(2, solver="bayesian", means_init=[[2.0], [20.0]])
    for batch in np.array_split(rows, 50):
        mixture = mixture.partial_fit(batch)
    rates = np.array([step.component_rates for step in mixture.history_])
    rare = np.argmax(mixture.means_)
    figure, ax = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    ax.semilogy(rates[:, 1 - rare], "k-", label="the frequent component")
    ax.semilogy(rates[:, rare], "C0o", ms=4, label="the rare one, 2 rows in 100")
    ax.set(xlabel="batch of 100 rows", ylabel="learning rate")
    ax.legend()
    return figure


def watching():
    """The score of rows held out, whose maximum ends the fit."""
    rng = np.random.default_rng(0)
    rows, held_out = rng.normal(size=(2, 120, 2))
    stopping = EarlyStopping(held_out, patience=6)
    mixture = GaussianMixture(6, solver="batch", tol=0.0, callbacks=[stopping], random_state=0)
    mixture = mixture.fit(rows)
    figure, ax = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
    ax.plot(mixture.lower_bounds_, "k-", label="rows to learn from")
    n_seen, scores = np.transpose(stopping.scores)
    passes = n_seen / len(rows)
    ax.plot(passes, scores, "C0o--", ms=4, label="rows held out")
    ax.axvline(passes[np.argmax(scores)], color="0.6", lw=1)
    ax.set(xlabel="pass", ylabel="nats per row")
    ax.legend()
    return figure


def machine():
    """The readings of "Getting started", and the mixture that has learnt them."""
    rng = np.random.default_rng(0)
    mode = rng.choice(3, size=20_000, p=[0.5, 0.3, 0.2])
    readings = np.array([[20.0, 1.0], [60.0, 2.5], [85.0, 4.0]])[mode]
    readings += rng.normal(size=readings.shape) * [3.0, 0.2]
    readings[999::1000] = [85.0, 1.0]
    mixture = GaussianMixture(n_components=3, random_state=0)
    for batch in readings[2000:].reshape(-1, 1000, 2):
        mixture = mixture.partial_fit(batch)
    figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    MixtureDisplay.from_estimator(mixture, readings[:2000], ax=ax)
    ax.set(xlabel="temperature", ylabel="pressure")
    return figure


if __name__ == "__main__":
    for draw in (solvers, priors, sampling, bayesian, watching, machine):
        draw().savefig(HERE / f"{draw.__name__}.png", dpi=100)
