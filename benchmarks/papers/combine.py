"""Amid & Warmuth (UAI 2020), experiment 7.4: models that learn apart, and are merged.

(a) 2000 points of a mixture of 100 Gaussians in 10 dimensions lie on 5 machines, which take batches
of 5 with the learning rate eta0 / sqrt(t). They are merged after every step, every 20 steps, or
once at the end of the pass (asynchronously). One machine that takes batches of 25 is what merging
entropically after every step must equal. (b) The same with real data, in batches of some 100 rows,
merged after every 5000 rows of all machines together. Covariances are diagonal, or full ("-full"),
of images in 50 principal components. Numeric columns are standardised; the zeros and ones of
Covertype are not, as the rarest stand for three rows of 581,012. They make full covariances
singular but for the floor of the variances, on which losses depend: 0.01.

    python -m benchmarks.papers.combine --plot combine.png
    SKLEARN_ONLINEEM_DATA=... python -m benchmarks.papers.combine --real
    SKLEARN_ONLINEEM_DATA=... python -m benchmarks.papers.combine --real covertype --rows 100000
    SKLEARN_ONLINEEM_DATA=... python -m benchmarks.papers.combine --real covertype-full --quick

"entropic" is `combine_estimators`' default; "averaging" its ``method="averaging"`` (weights, means
and covariances); "moments" averages weights, and means and second moments of components. Numbers
are losses (negative log-likelihoods, nats per row) minus that of "entropic": above 0, entropic is
better. "wins" counts seeds in which it is. The paper says neither truth nor start: means are normal
with the standard deviation "sep", covariances Wishart about the unit matrix; models start from
random rows as means and the covariance of all rows.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.datasets import load_cifar_10, load_covertype_54, load_fashion_mnist
from sklearn_onlineem._values import average
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.em import PowerDecay
from sklearn_onlineem.em.step import online_step
from sklearn_onlineem.families import Diagonal, Full, Gaussian, Gaussians
from sklearn_onlineem.families.covariance_shapes import Covariance
from sklearn_onlineem.models.mixtures.mixture import MixtureModel
from sklearn_onlineem.statistics import combine

K, D, N, N_MACHINES, BATCH, BETA = 100, 10, 2000, 5, 5, 0.5
# Experiment (b): rows of all machines between merges, and about how many of one are a batch.
SYNC_ROWS, REAL_BATCH, REAL_ETA0 = 5000, 100, 1.0
RULES = {"every step": 1, "every 20 steps": 20, "at the end": N // N_MACHINES // BATCH}


# -------------------------------------------------------------------------------- ways of merging


def entropic(models):
    return models[0].m_step(combine((1.0 / len(models), m.own_statistics()) for m in models))


def averaging(models):
    return average(models, [1.0 / len(models)] * len(models))


def moments(models):
    """Means and second moments of each component averaged, whatever its weights."""
    evenly = np.full(models[0].n_components, 1.0 / models[0].n_components)
    merged = entropic([replace(m, weights=evenly) for m in models])
    return replace(merged, weights=np.mean([m.weights for m in models], axis=0))


METHODS = {"entropic": entropic, "averaging": averaging, "moments": moments}


# --------------------------------------------------------------------------------------- learning


def learn(model, parts, eta0, sync_every, merge, batch=BATCH):
    """One pass of all machines; returns the merged model, and those before the last merge."""
    schedule = PowerDecay(eta0, BETA)
    models = [model] * len(parts)
    n_steps = -(-max(map(len, parts)) // batch)
    for t in range(n_steps):
        for m, part in enumerate(parts):
            rows = part[t * batch : (t + 1) * batch]
            if len(rows):
                models[m] = online_step(models[m], rows, schedule(t + 1))[0]
        if (t + 1) % sync_every == 0 or t + 1 == n_steps:
            before, models = models, [merge(models)] * len(parts)
    return models[0], before


def loss(model, rows):
    return -model.log_likelihood(rows).mean()


def truth(rng, separation):
    means = rng.normal(scale=separation, size=(K, D))
    factors = rng.normal(size=(K, 2 * D, D))
    covariances = np.einsum("kni,knj->kij", factors, factors) / (2 * D)
    family = Gaussian(reg_covar=0.0)
    return MixtureModel(family, rng.dirichlet(np.ones(K)), Gaussians(means, covariances))


def start(family, X, n_components, rng):
    """Random rows as means, the covariance of all rows, and even weights."""
    means = X[rng.choice(len(X), n_components, replace=False)]
    one = family.expected_statistics(X, np.ones((len(X), 1)))
    spread = family.m_step(one).covariance if family.floor is not None else np.cov(X.T)[None]
    covariance = np.repeat(spread, n_components, axis=0)
    weights = np.full(n_components, 1.0 / n_components)
    return MixtureModel(family, weights, Gaussians(means, covariance))


def synthetic(seed, separation):
    """Rows of each machine, rows of all in the order of the steps, held-out rows, and a start."""
    rng = np.random.default_rng(seed)
    model = truth(rng, separation)
    X, held_out = (model.sample(N, rng)[0] for _ in range(2))
    parts = np.array_split(X, N_MACHINES)
    by_step = np.concatenate(
        [p[t : t + BATCH] for t in range(0, len(parts[0]), BATCH) for p in parts]
    )
    begin = start(model.family, X, K, rng)
    return [Rows(p) for p in parts], Rows(by_step), Rows(held_out), begin


# ----------------------------------------------------------------------------- the two experiments


def one_seed(seed, separation, eta0):
    """Losses of everything: {(rule, method): (train, held out)}."""
    parts, X, held_out, begin = synthetic(seed, separation)
    losses = {}
    for rule, sync_every in RULES.items():
        for name, merge in METHODS.items():
            model, local = learn(begin, parts, eta0, sync_every, merge)
            losses[rule, name] = loss(model, X), loss(model, held_out)
            if name == "entropic" and rule == "every step":
                synchronous = model
        if rule == "at the end":
            alone = [(loss(m, X), loss(m, held_out)) for m in local]
            losses["alone"] = tuple(np.mean(alone, axis=0))
    single, _ = learn(begin, [X], eta0, N, entropic, batch=N_MACHINES * BATCH)
    losses["single"] = loss(single, X), loss(single, held_out)
    return losses, difference(synchronous, single)


def difference(a, b):
    pairs = zip(_arrays(a), _arrays(b), strict=True)
    return max(np.abs(x - y).max() for x, y in pairs)


def _arrays(model):
    return model.weights, model.parameters.mean, model.parameters.covariance


def experiment(separation, eta0, n_seeds):
    """Print the table of one setting; return advantages, and the greatest difference to single."""
    runs = [one_seed(seed, separation, eta0) for seed in range(n_seeds)]
    print(f"\nsep {separation:g}, eta0 {eta0:g}: loss minus that of entropic, median [quartiles]")
    advantages = {}
    for rule in RULES:
        for name in ("averaging", "moments"):
            gaps = np.array(
                [np.subtract(losses[rule, name], losses[rule, "entropic"]) for losses, _ in runs]
            )
            advantages[rule, name] = gaps
            print(f"  {rule:<16}{name:<11}" + "".join(map(_cell, ("train", "held out"), gaps.T)))
    for name, rule in (("alone", "at the end"), ("single", "every step")):
        gaps = np.array([np.subtract(ls[name], ls[rule, "entropic"]) for ls, _ in runs])
        advantages[name] = gaps
        print(f"  {rule:<16}{name:<11}" + "".join(map(_cell, ("train", "held out"), gaps.T)))
    return advantages, max(far for _, far in runs)


def _cell(name, gaps):
    low, middle, high = np.quantile(gaps, (0.25, 0.5, 0.75))
    wins = f"{(gaps > 0).sum()}/{len(gaps)}"
    return f"{name:>10} {middle:+.3f} [{low:+.3f}, {high:+.3f}] {wins:>6}"


def acceptance(advantages, far, n_seeds):
    yield f"every step is one machine with batches of 25, to 1e-10: {far:.1e}", far < 1e-10
    for (rule, name), gaps in ((k, v) for k, v in advantages.items() if isinstance(k, tuple)):
        wins, middle = int((gaps[:, 0] > 0).sum()), np.median(gaps[:, 0])
        yield (
            f"{rule}: beats {name} on the training loss in 18 of 20 seeds, by a median of 0.05:"
            f" {wins}/{n_seeds}, {middle:.3f}",
            wins >= 0.9 * n_seeds and middle >= 0.05,
        )
    alone = np.median(advantages["alone"][:, 0])
    yield f"at the end: beats the mean single local model: by {alone:.3f}", alone > 0


@dataclass(frozen=True)
class RealData:
    """What (b) learns from.

    Parameters
    ----------
    load : callable
        Returns X.
    n_rows, n_components, n_machines : int
    reg_covar : float
        Floor of the variances.
    n_numeric : int, default=None
        Number of first columns to standardise; None: all.
    covariance : Covariance, default=Diagonal()
    n_axes : int, default=None
        Number of principal components that stand for the columns; None keeps these.
    """

    load: Callable
    n_rows: int
    n_components: int
    n_machines: int
    reg_covar: float
    n_numeric: int | None = None
    covariance: Covariance = Diagonal()
    n_axes: int | None = None

    def rows(self):
        X = self.load()
        if self.n_axes is not None:
            X = PCA(self.n_axes, svd_solver="randomized", random_state=0).fit_transform(X)
        numeric = X[:, : self.n_numeric]
        scale = np.maximum(numeric.std(axis=0), 1e-2 * numeric.std())
        X[:, : self.n_numeric] = (numeric - numeric.mean(axis=0)) / scale
        return X


REAL = {
    "fashion-mnist": RealData(load_fashion_mnist, 60_000, 10, 3, 1e-3),
    "covertype": RealData(load_covertype_54, 500_000, 7, 20, 1e-2, n_numeric=10),
    "cifar-10": RealData(load_cifar_10, 60_000, 10, 3, 1e-3),
}
# Columns are kept where they are few.
REAL |= {
    f"{name}-full": replace(task, covariance=Full(), n_axes=None if task.n_numeric else 50)
    for name, task in REAL.items()
}


def real(name, n_seeds, most_rows):
    """Experiment (b): losses of the training rows and standard errors over seeds."""
    task = REAL[name]
    X = task.rows()
    n_rows = min(task.n_rows, most_rows or task.n_rows)
    print(f"\n{name}: {n_rows} x {X.shape[1]}, K = {task.n_components}, M = {task.n_machines}")
    runs = [one_real_seed(seed, task, X, n_rows) for seed in range(n_seeds)]
    for rule, method in runs[0]:
        values = np.array([losses[rule, method] for losses in runs])
        gaps = values - [losses[rule, "entropic"] for losses in runs]
        print(
            f"  {rule:<12}{method:<11}{_mean(values)}   minus entropic {_mean(gaps)},"
            f" wins {(gaps > 0).sum()}/{n_seeds}"
        )


def one_real_seed(seed, task, X, n_rows):
    """Losses of everything: {(rule, method): loss}."""
    rng = np.random.default_rng(seed)
    X = X[rng.permutation(len(X))[:n_rows]]
    family = Gaussian(task.covariance, task.reg_covar).bind(X)
    begin = start(family, X, task.n_components, rng)
    rows, parts = Rows(X), [Rows(part) for part in np.array_split(X, task.n_machines)]
    n_steps = round(SYNC_ROWS / task.n_machines / REAL_BATCH)
    batch = round(SYNC_ROWS / task.n_machines / n_steps)
    losses = {}
    for rule, sync_every in (("every 5000", n_steps), ("at the end", n_rows)):
        for method, merge in METHODS.items():
            model, local = learn(begin, parts, REAL_ETA0, sync_every, merge, batch)
            losses[rule, method] = loss(model, rows)
    losses[rule, "alone"] = np.mean([loss(m, rows) for m in local])
    return losses


def _mean(values):
    """Mean and standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{np.mean(values):+10.3f} +- {error:.3f}"


def main():
    arguments = _arguments()
    n_seeds = 2 if arguments.quick else arguments.real_seeds
    if arguments.real is not None:
        for name in arguments.real or REAL:
            real(name, n_seeds, 20_000 if arguments.quick else arguments.rows)
        return
    results = {}
    for separation in (1.5, 3.0):
        for eta0 in (0.05, 0.5):
            results[separation, eta0] = experiment(separation, eta0, arguments.seeds)
    for separation in (1.5, 3.0):
        print(f"\nsep {separation:g}, eta0 0.05")
        for claim, holds in acceptance(*results[separation, 0.05], arguments.seeds):
            print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        plot(results, arguments.plot)


def plot(results, path):
    """Advantages on training and held-out rows: boxes over seeds, linear between -0.1 and 0.1."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2, len(results), figsize=(14, 7), sharex=True, sharey=True, layout="constrained"
    )
    for column, ((separation, eta0), (advantages, _)) in zip(axes.T, results.items(), strict=True):
        keys = [key for key in advantages if isinstance(key, tuple)]
        for i, ax in enumerate(column):
            ax.boxplot([advantages[key][:, i] for key in keys])
            ax.axhline(0.0, color="black", linewidth=1)
            ax.set_yscale("symlog", linthresh=0.1)
            ax.grid(axis="y", alpha=0.3)
        ax.set_xticks(range(1, len(keys) + 1), map("\n".join, keys), rotation=90)
        column[0].set_title(f"separation {separation:g}, $\\eta_0 = {eta0:g}$")
    for ax, rows in zip(axes[:, 0], ("training", "held-out"), strict=True):
        ax.set_ylabel(f"{rows} loss\nminus entropic's (nats per row)")
    figure.savefig(path, dpi=150)


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--real", nargs="*", choices=REAL, help="experiment (b); all data if none")
    parser.add_argument("--real-seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="of real data, at most")
    parser.add_argument("--quick", action="store_true", help="20,000 real rows, 2 seeds")
    parser.add_argument("--plot", metavar="FILE", help="picture to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
