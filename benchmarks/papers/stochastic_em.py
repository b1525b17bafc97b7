"""Zaheer et al., figures 1-3: EM, stochastic EM, collapsed Gibbs sampling, and EM then Gibbs.

Mixtures of ten Gaussians of unit covariance, whose means alone are hidden (prior N(0, I / 0.1)), in
one and in two dimensions. All methods of a seed start alike: from random rows as means, or from
labels of low entropy (all rows in one component, or in two) or of high entropy (uniform ones). The
weights are known, drawn from a flat Dirichlet distribution, or learnt. The paper says neither its
weights nor its data, so agreement is in kind.

    python -m benchmarks.papers.stochastic_em --plot stochastic_em.png
    python -m benchmarks.papers.stochastic_em --rows 100000 --seeds 5

A cell is the held-out log-likelihood less the truth's, in nats per row, median over seeds after T
iterations; iterates are taken as they are, the mode given the expected or the drawn labels. Below
each row stand the numbers of a reference implementation with other draws. "better / worse" counts
seeds by more than .001.
"""

import argparse
import time
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families import Gaussian, Gaussians, Spherical
from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics
from sklearn_onlineem.statistics import combine

N_COMPONENTS, PRECISION, T, EARLY, EM_FIRST = 10, 0.1, 50, 10, 15
METHODS = ("EM", "SEM", "Gibbs", "EM+Gibbs")
# Dirichlet parameters that leave weights where they are.
CERTAIN = 1e12


@dataclass(frozen=True)
class Problem:
    """Dimension, start, and whether weights are known.

    Parameters
    ----------
    name : str
    n_features : int
    start : {"points", "one", "two", "uniform"}
    knows_weights : bool, default=True
    """

    name: str
    n_features: int
    start: str
    knows_weights: bool = True


CONTROL = Problem("1-d control, random points", 1, "points")
LOW = Problem("2-d, low entropy: one component", 2, "one")
HIGH = Problem("2-d, high entropy: uniform labels", 2, "uniform")

# Medians of the reference: EM, SEM, Gibbs, EM+Gibbs.
REFERENCE = {
    CONTROL: "-.008 -.008 -.008 -.008",
    Problem("2-d, random points", 2, "points"): "-.090 -.091 -.089 -.077",
    LOW: "-.177 -.100 -.070 -.154",
    Problem("2-d, low entropy: two components", 2, "two"): "-.177 -.167 -.091 -.169",
    HIGH: "-.082 -.077 -.120 -.081",
    Problem("2-d, high entropy, weights learnt", 2, "uniform", False): "-.008 -.010 -.008 -.008",
    Problem("2-d, random points, weights learnt", 2, "points", False): "-.011 -.012 -.010 -.012",
}


@dataclass(frozen=True)
class Setting:
    """Data of a seed, and what all methods know.

    Parameters
    ----------
    data, held_out : Rows
    best : float
        The truth's held-out log-likelihood.
    first : MixtureModel
        Where all start.
    prior : MixtureStatistics
    known_weights : ndarray or None
    """

    data: Rows
    held_out: Rows
    best: float
    first: MixtureModel
    prior: MixtureStatistics
    known_weights: np.ndarray | None

    def m_step(self, statistics, pseudo_count=0.0):
        """The mode; `pseudo_count` further rows of each component keep empty ones in play."""
        model = self.first.m_step(combine([(1.0, statistics), (1.0 / len(self.data), self.prior)]))
        if self.known_weights is not None:
            return replace(model, weights=self.known_weights)
        weights = statistics.counts + pseudo_count / len(self.data)
        return replace(model, weights=weights / weights.sum())


@cache
def setting(problem, seed, n_rows):
    rng = np.random.default_rng(seed)
    family, d = Gaussian(Spherical(), reg_covar=0.0, learns_covariances=False), problem.n_features
    unit = np.ones((N_COMPONENTS, 1))
    means = rng.normal(scale=PRECISION**-0.5, size=(N_COMPONENTS, d))
    truth = MixtureModel(family, rng.dirichlet(np.ones(N_COMPONENTS)), Gaussians(means, unit))
    data, held_out = (Rows(truth.sample(n_rows, rng)[0]) for _ in range(2))
    family = family.with_fixed(truth.parameters)
    first = replace(truth, family=family)
    if not problem.knows_weights:
        first = replace(first, weights=np.full(N_COMPONENTS, 1.0 / N_COMPONENTS))
    pseudo = family.prior_statistics(N_COMPONENTS, n_features=d, mean_precision=PRECISION)
    prior = MixtureStatistics(np.zeros(N_COMPONENTS), pseudo)
    weights = truth.weights if problem.knows_weights else None
    made = Setting(data, held_out, mean_log_likelihood(truth, held_out), first, prior, weights)
    return replace(made, first=start(problem, made, rng))


def start(problem, made, rng):
    """The model that all methods start from."""
    X = made.data.X
    if problem.start == "points":
        chosen = rng.choice(len(X), N_COMPONENTS, replace=False)
        parameters = made.first.parameters
        return replace(made.first, parameters=Gaussians(X[chosen], parameters.covariance))
    n_used = {"one": 1, "two": 2, "uniform": N_COMPONENTS}[problem.start]
    return made.m_step(of_labels(made, rng.integers(n_used, size=len(X))), pseudo_count=1.0)


def of_labels(made, labels):
    """Statistics per row of rows whose components are drawn."""
    shares = np.zeros((len(labels), N_COMPONENTS))
    shares[np.arange(len(labels)), labels] = 1.0 / len(labels)
    emissions = made.first.family.expected_statistics(made.data.X, shares)
    return MixtureStatistics(shares.sum(axis=0), emissions)


def mean_log_likelihood(model, data):
    return model.log_likelihood(data).mean()


def em(made, rng, n=T):
    model = made.first
    for _ in range(n):
        model = made.m_step(model.e_step(made.data)[0])
        yield model


def sem(made, rng, n=T):
    model = made.first
    for _ in range(n):
        model = made.m_step(model.e_step(made.data, rng)[0], pseudo_count=1.0)
        yield model


def gibbs(made, rng, n=T):
    family, X = made.first.family, made.data.X
    posterior = made.first.posterior(made.data).cumsum(axis=1)
    labels = (posterior < rng.random((len(X), 1)) * posterior[:, -1:]).sum(axis=1).astype(np.intc)
    known = made.known_weights
    concentration = np.ones(N_COMPONENTS) if known is None else CERTAIN * known
    for _ in range(n):
        uniforms = rng.random(len(X))
        family.collapsed_sweep(made.prior.emissions, X, labels, concentration, uniforms)
        yield made.m_step(of_labels(made, labels), pseudo_count=1.0)


def em_then_gibbs(made, rng):
    for model in em(made, rng, EM_FIRST):
        yield model
    yield from gibbs(replace(made, first=model), rng, T - EM_FIRST)


def run(method, problem, seed, n_rows):
    """Held-out and training log-likelihoods less the truth's, and seconds, after each iteration."""
    made = setting(problem, seed, n_rows)
    take = {"EM": em, "SEM": sem, "Gibbs": gibbs, "EM+Gibbs": em_then_gibbs}[method]
    rng, path, seconds = np.random.default_rng((seed, METHODS.index(method))), [], 0.0
    began = time.process_time()
    for model in take(made, rng):
        seconds += time.process_time() - began
        held_out, training = (
            mean_log_likelihood(model, rows) for rows in (made.held_out, made.data)
        )
        path.append((held_out - made.best, training, seconds))
        began = time.process_time()
    return np.array(path)


def main():
    arguments = _arguments()
    seeds, n_rows = range(arguments.seeds), arguments.rows
    print(
        f"{len(seeds)} seeds, {n_rows} rows; below each row the reference (20 seeds, 3000 rows)\n"
    )
    print(_line("", *METHODS, "SEM: EM", "SEM: Gibbs", "worst", "seconds"))
    runs = {}
    for problem, reference in REFERENCE.items():
        for method in METHODS:
            runs[problem, method] = np.array([run(method, problem, s, n_rows) for s in seeds])
        print(_line(problem.name, *cells(runs, problem)), flush=True)
        print(_line("", *reference.split()))
        setting.cache_clear()
    print()
    for claim, holds in acceptance(runs):
        print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        plot(runs, arguments.plot)


def cells(runs, problem):
    """Medians after T iterations; SEM's wins and defeats; the worst run and CPU seconds of each."""
    last = {method: runs[problem, method][:, -1, 0] for method in METHODS}
    yield from (f"{np.median(values):.3f}" for values in last.values())
    for rival in ("EM", "Gibbs"):
        difference = last["SEM"] - last[rival]
        yield f"{(difference > 1e-3).sum()}/{(difference < -1e-3).sum()}"
    yield " ".join(f"{last[method].min():.2f}" for method in METHODS[:3])
    yield " ".join(f"{np.median(runs[problem, method][:, -1, 2]):.2f}" for method in METHODS[:3])


def acceptance(runs):
    """The claims of the paper that hold in the reference, each with whether it holds here."""

    def median(problem, method, t=T):
        return np.median(runs[problem, method][:, t - 1, 0])

    levels = [median(CONTROL, method) for method in METHODS]
    spread = max(levels) - min(levels)
    yield f"control: medians differ by at most .01: {spread:.4f}", spread <= 0.01
    gain = median(LOW, "SEM") - median(LOW, "EM")
    yield f"low entropy: SEM at least .02 above EM: {gain:.3f}", gain >= 0.02
    gain = median(LOW, "Gibbs") - median(LOW, "EM")
    yield f"low entropy: Gibbs at least .04 above EM: {gain:.3f}", gain >= 0.04
    gain = median(LOW, "SEM", EARLY) - median(LOW, "EM", EARLY)
    yield f"low entropy, T = {EARLY}: SEM at least .2 above EM: {gain:.3f}", gain >= 0.2
    gain = median(HIGH, "SEM") - median(HIGH, "Gibbs")
    yield f"high entropy, known weights: SEM not below Gibbs: {gain:.3f}", gain >= 0.0


def plot(runs, path):
    """Median held-out log-likelihood by iteration, and by time."""
    import matplotlib.pyplot as plt

    problems = [CONTROL, LOW, HIGH]
    figure, axes = plt.subplots(2, len(problems), figsize=(12, 7), layout="constrained")
    for column, problem in zip(axes.T, problems, strict=True):
        for i, method in enumerate(METHODS):
            held_out, _, seconds = np.median(runs[problem, method], axis=0).T
            column[0].plot(np.arange(1, T + 1), held_out, f"C{i}", label=method)
            column[1].semilogx(seconds, held_out, f"C{i}", label=method)
        column[0].set(title=problem.name, xlabel="iteration")
        column[1].set_xlabel("CPU seconds")
    for ax in axes[:, 0]:
        ax.set_ylabel("held-out log-likelihood - truth's")
    axes[0, 0].legend()
    figure.savefig(path)


def _line(name, *values):
    widths = (8, 8, 8, 9, 9, 11, 18, 16)
    texts = (f"{value:>{width}}" for value, width in zip(values, widths, strict=False))
    return f"{name:36}" + "".join(texts)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--plot", metavar="FILE", help="picture to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
