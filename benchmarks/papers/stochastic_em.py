"""Zaheer et al., figures 1-3: EM, stochastic EM, collapsed Gibbs sampling, and EM then Gibbs.

Mixtures of Gaussians of unit covariance, whose means alone are hidden (prior N(0, I / 0.1)); the
weights are known, drawn from a flat Dirichlet distribution, or learnt. All methods of a seed start
alike. Methods are the solvers of `GaussianMixture`, which ``params`` tells what is known. The paper
says neither its weights nor its data, so agreement is in kind.

    python -m benchmarks.papers.stochastic_em
    python -m benchmarks.papers.stochastic_em --full --plot stochastic_em.png
    python -m benchmarks.papers.stochastic_em --parts grids --full

Claims that are met (20 seeds of figure 1, 10 of figures 2 and 3 at all sizes, 5 of the large fit):
all are level in one dimension. From one component that holds all rows SEM and Gibbs end .09 and .08
above EM, and SEM is .38 above it after ten iterations; of 100,000 rows SEM ends .028 above EM, and
level with Gibbs. With learnt weights EM never leaves this start, and stays 2.8 nats below SEM. A
round of distributed SEM sends what one of EM sends, nothing of a row, and an iteration of SEM takes
a third to a half of the time of Gibbs. Not met: "SEM outperforms": from random points it is within
.005 of the best at 9 of 17 sizes; with 4, 8 and 16 columns it is .04, .17 and .16 above EM, but
Gibbs and EM then Gibbs are as good or better, and 1.1 and 1.5 nats better with 16 columns. From
uniform labels SEM is .01 below Gibbs. An iteration of SEM takes 2.7 times as long as EM's here, as
it has its draws besides.

PARTS
"""

import argparse
import time
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from joblib import parallel_config

from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.distributed import DistributedEM
from sklearn_onlineem.em import Batch, Gibbs, Stochastic

PRECISION, T, EARLY, EM_FIRST = 0.1, 50, 10, 15
METHODS = ("EM", "SEM", "Gibbs", "EM+Gibbs")
MOST_HELD_OUT = 10_000


@dataclass(frozen=True)
class Problem:
    """A true mixture, its data, the start, and whether weights are known.

    Parameters
    ----------
    name : str
    n_features : int
    start : {"points", "one", "two", "uniform"}
        Random rows as means, or labels of all rows: one component, two, or uniform ones.
    knows_weights : bool, default=True
    n_components : int, default=10
    n_rows : int, default=3000
    """

    name: str
    n_features: int = 2
    start: str = "points"
    knows_weights: bool = True
    n_components: int = 10
    n_rows: int = 3000


CONTROL = Problem("1-d control, random points", 1)
LOW = Problem("2-d, low entropy: one component", start="one")
HIGH = Problem("2-d, high entropy: uniform labels", start="uniform")

# Medians of the reference of figure 1: EM, SEM, Gibbs, EM+Gibbs.
REFERENCE = {
    CONTROL: "-.008 -.008 -.008 -.008",
    Problem("2-d, random points"): "-.090 -.091 -.089 -.077",
    LOW: "-.177 -.100 -.070 -.154",
    Problem("2-d, low entropy: two components", start="two"): "-.177 -.167 -.091 -.169",
    HIGH: "-.082 -.077 -.120 -.081",
    Problem("2-d, high entropy, weights learnt", start="uniform", knows_weights=False): (
        "-.008 -.010 -.008 -.008"
    ),
    Problem("2-d, random points, weights learnt", knows_weights=False): "-.011 -.012 -.010 -.012",
}

# Figures 2 and 3: one size changes, the others are those of `GRID`. And the sizes of a quick run.
GRID = Problem("", n_components=30, n_rows=8000)
SIZES = {
    "n_components": ([10, 20, 40, 80, 160, 320], [10, 40, 160]),
    "n_features": ([1, 2, 4, 8, 16], [1, 4, 16]),
    "n_rows": ([1000, 2000, 4000, 8000, 16000, 32000], [1000, 4000, 16000]),
}
LARGE = [
    replace(GRID, name=f"{start}, {'known' if known else 'learnt'} weights", n_rows=100_000,
            start=start, knows_weights=known)
    for start, known in (("points", True), ("one", True), ("points", False), ("one", False))
]  # fmt: skip


@dataclass
class Setting:
    """Rows of a seed, and what all methods know and start from."""

    problem: Problem
    seed: int
    X: np.ndarray = field(init=False)
    held_out: np.ndarray = field(init=False)
    best: float = field(init=False)
    known: dict = field(init=False)

    def __post_init__(self):
        problem = self.problem
        rng, n_components = np.random.default_rng(self.seed), problem.n_components
        means = rng.normal(scale=PRECISION**-0.5, size=(n_components, problem.n_features))
        weights, unit = rng.dirichlet(np.ones(n_components)), np.ones(n_components)
        truth = GaussianMixture.from_parameters(
            weights=weights, means=means, covariances=unit, covariance_type="spherical",
            random_state=self.seed,
        )  # fmt: skip
        X = truth.sample(problem.n_rows + min(problem.n_rows, MOST_HELD_OUT))[0]
        self.X, self.held_out = X[: problem.n_rows], X[problem.n_rows :]
        self.best = truth.score(self.held_out)
        means, counts = self._start(rng)
        if not problem.knows_weights:
            weights = (counts + 1.0) / (counts + 1.0).sum()
        self.known = {"weights": weights, "means": means, "covariances": unit}

    def _start(self, rng):
        """Return first means, and rows of each component."""
        X, n_components = self.X, self.problem.n_components
        if self.problem.start == "points":
            return X[rng.choice(len(X), n_components, replace=False)], np.zeros(n_components)
        n_used = {"one": 1, "two": 2, "uniform": n_components}[self.problem.start]
        labels = rng.integers(n_used, size=len(X))
        counts = np.bincount(labels, minlength=n_components)
        sums = [np.bincount(labels, x, n_components) for x in X.T]
        return np.transpose(sums) / (counts + PRECISION)[:, None], counts

    def mixture(self, solver, max_iter=T, **settings):
        """Return a mixture at the start, fits of which go on from there."""
        is_known = self.problem.knows_weights
        if isinstance(solver, Stochastic) and not is_known:
            # One further row of each component keeps empty ones in play.
            settings["weight_concentration_prior"] = 2.0
        return GaussianMixture.from_parameters(
            **self.known, covariance_type="spherical", params="m" if is_known else "wm",
            prior={"mean_precision": PRECISION}, reg_covar=0.0, solver=solver, max_iter=max_iter,
            tol=0.0, warm_start=True, random_state=self.seed, **settings,
        )  # fmt: skip


class Path:
    """A callback: scores of some iterates on rows held out less the truth's, and CPU seconds."""

    def __init__(self, setting, scored):
        self.setting, self.scored, self.points, self.seconds = setting, scored, [], 0.0
        self.begun = time.process_time()

    def __call__(self, step, mixture):
        self.seconds += time.process_time() - self.begun
        score = np.nan
        if self.scored is None or len(self.points) + 1 in self.scored:
            score = mixture.score(self.setting.held_out) - self.setting.best
        self.points.append((score, self.seconds))
        self.begun = time.process_time()


def run(method, setting, n_iter=T, scored=None):
    """Return scores less the truth's, and CPU seconds, after each iteration, (n_iter, 2).

    Scores are NaN but for iterations in `scored`; None: all have one.
    """
    path = Path(setting, scored)
    make = partial(setting.mixture, callbacks=[path])
    if method == "EM":
        make(Batch(acceleration=None), n_iter).fit(setting.X)
    elif method == "SEM":
        make(Stochastic(), n_iter).fit(setting.X)
    elif method == "Gibbs":
        make(Gibbs(), n_iter).fit(setting.X)
    else:
        mixture = make(Batch(acceleration=None), EM_FIRST).fit(setting.X)
        path.begun = time.process_time()
        mixture.set_params(solver=Gibbs(), max_iter=n_iter - EM_FIRST).fit(setting.X)
    return np.array(path.points)


def runs_of(problem, seeds, scored=(EARLY, T)):
    """Return the paths of all methods, (n_seeds, n_iter, 2), by method."""
    settings = [Setting(problem, seed) for seed in seeds]
    return {m: np.array([run(m, one, T, scored) for one in settings]) for m in METHODS}


# ---------------------------------------------------------------------------------------- figure 1


def starts(arguments):
    """Figure 1: starts of low and of high entropy, ten components.

    A cell is the held-out log-likelihood less the truth's, in nats per row, median over seeds after
    50 iterations. Below each row stand the numbers of a reference implementation with other draws.
    "better/worse" counts seeds by more than .001.
    """
    seeds = range(arguments.seeds or (20 if arguments.full else 10))
    print(_line("", *METHODS, "SEM: EM", "SEM: Gibbs", "worst", "CPU seconds"))
    found = {}
    for problem, reference in REFERENCE.items():
        found[problem] = runs_of(problem, seeds, None if arguments.plot else (EARLY, T))
        print(_line(problem.name, *cells(found[problem])), flush=True)
        print(_line("", *reference.split()))
    print_claims(claims_of_starts(found))
    if arguments.plot:
        plot(found, arguments.plot)


def cells(runs):
    """Medians after all iterations; SEM's wins and defeats; the worst run and seconds of each."""
    last = {method: paths[:, -1, 0] for method, paths in runs.items()}
    yield from (f"{np.median(values):.3f}" for values in last.values())
    for rival in ("EM", "Gibbs"):
        difference = last["SEM"] - last[rival]
        yield f"{(difference > 1e-3).sum()}/{(difference < -1e-3).sum()}"
    yield " ".join(f"{last[method].min():.2f}" for method in METHODS[:3])
    yield " ".join(f"{np.median(runs[method][:, -1, 1]):.2f}" for method in METHODS[:3])


def claims_of_starts(found):
    """Yield the claims that hold in the reference, each with whether it holds here."""

    def median(problem, method, t=T):
        return np.median(found[problem][method][:, t - 1, 0])

    levels = [median(CONTROL, method) for method in METHODS]
    spread = max(levels) - min(levels)
    yield f"control: medians differ by at most .01: {spread:.4f}", spread <= 0.01
    for t, least in ((T, 0.02), (EARLY, 0.2)):
        gain = median(LOW, "SEM", t) - median(LOW, "EM", t)
        yield f"low entropy, T = {t}: SEM at least {least} above EM: {gain:.3f}", gain >= least
    gain = median(LOW, "Gibbs") - median(LOW, "EM")
    yield f"low entropy: Gibbs at least .04 above EM: {gain:.3f}", gain >= 0.04
    gain = median(HIGH, "SEM") - median(HIGH, "Gibbs")
    yield f"high entropy, known weights: SEM not below Gibbs: {gain:.3f}", gain >= 0.0


# --------------------------------------------------------------------------------- figures 2 and 3


def grids(arguments):
    """Figures 2 and 3: components, columns and rows, from random points with known weights.

    Of 30 components, 2 columns and 8,000 rows one changes. Cells are as in figure 1; the gap of SEM
    to the best of the other three is that of medians.
    """
    seeds = range(arguments.seeds or (10 if arguments.full else 3))
    print(_line("", *METHODS, "SEM: EM", "SEM: Gibbs", "worst", "CPU seconds"))
    gaps, found = [], {}
    for name, sizes in SIZES.items():
        for size in sizes[0 if arguments.full else 1]:
            problem = replace(GRID, **{name: size})
            found[name, size] = runs_of(problem, seeds)
            label = f"{size} {name.removeprefix('n_')}"
            print(_line(label, *cells(found[name, size])), flush=True)
            medians = {m: np.median(paths[:, -1, 0]) for m, paths in found[name, size].items()}
            gaps.append((medians["SEM"] - max(medians[m] for m in METHODS if m != "SEM"), label))
    print_claims(claims_of_grids(gaps, found))


def claims_of_grids(gaps, found):
    worst, where = min(gaps)
    yield f"SEM outperforms at each size: least gap of medians {worst:.3f}, {where}", worst > 0.0
    level = sum(gap >= -5e-3 for gap, _ in gaps)
    yield f"... or is within .005 of the best: at {level} of {len(gaps)}", level == len(gaps)
    pairs = [
        (np.median(runs["EM+Gibbs"][:, -1, 0] - runs["Gibbs"][:, -1, 0]), at)
        for at, runs in found.items()
    ]
    least = min(gain for gain, _ in pairs)
    yield f"EM then Gibbs is nowhere below Gibbs by more than .01: {least:.3f}", least >= -0.01
    seconds = {m: sum(np.median(runs[m][:, -1, 1]) for runs in found.values()) for m in METHODS}
    ratio = seconds["SEM"] / seconds["EM"]
    yield f"an iteration of SEM takes no longer than EM's: {ratio:.1f} times", ratio <= 1.0
    ratio = seconds["Gibbs"] / seconds["SEM"]
    yield f"one of Gibbs takes longer than SEM's: {ratio:.1f} times", ratio > 1.0


# ------------------------------------------------------------------- 30 components, 100,000 rows


def large(arguments):
    """30 components and 100,000 rows: CPU seconds to one likelihood, and bytes of a round.

    The likelihood is that of EM after all iterations, less .001; "-" is never. "SEM, shards" is
    `DistributedEM` with 8 shards on 2 threads of joblib, whose CPU seconds are of both.
    """
    seeds = range(arguments.seeds or (5 if arguments.full else 1))
    n_iter = 2 * T if arguments.full else 30
    names = (*METHODS, "SEM, shards")
    found = {}
    print(f"medians of {len(seeds)} seeds after {n_iter} iterations: nats below the truth,"
          " seconds to the likelihood of EM / of all iterations\n")  # fmt: skip
    print(f"{'':26}" + "".join(f"{name:>24}" for name in names))
    for problem in LARGE:
        settings = [Setting(problem, seed) for seed in seeds]
        runs = {m: np.array([run(m, one, n_iter) for one in settings]) for m in METHODS}
        runs["SEM, shards"] = np.array([in_shards(one, n_iter) for one in settings])
        found[problem] = {name: np.median(paths[:, -1, 0]) for name, paths in runs.items()}
        levels = runs["EM"][:, -1, 0] - 1e-3
        texts = []
        for name, paths in runs.items():
            reached = [time_to(path, level) for path, level in zip(paths, levels, strict=True)]
            to_level = np.median(reached)
            shown = f"{to_level:.2f}" if np.isfinite(to_level) else "-"
            texts.append(f"{found[problem][name]:.3f} {shown}/{np.median(paths[:, -1, 1]):.2f}")
        print(f"{problem.name:26}" + "".join(f"{text:>24}" for text in texts), flush=True)
    print_claims(claims_of_large(found))
    print_bytes(Setting(LARGE[0], 0))


def time_to(path, level):
    """Return the seconds until a score, or inf."""
    reached = np.flatnonzero(path[:, 0] >= level)
    return path[reached[0], 1] if len(reached) else np.inf


def in_shards(setting, n_iter):
    mixture = setting.mixture(Stochastic(), n_iter, callbacks=[Path(setting, None)])
    with parallel_config("threading"):
        fitted = DistributedEM(mixture, n_jobs=2).fit(setting.X).estimator_
    # Estimators are cloned, with their callbacks.
    return np.array(fitted.callbacks[0].points)


def claims_of_large(found):
    same, bad = (found[problem] for problem in LARGE[:2])
    spread = max(same[m] for m in METHODS) - min(same[m] for m in METHODS)
    yield f"from points, known weights, all are within .05: {spread:.3f}", spread <= 0.05
    gain = bad["SEM"] - bad["EM"]
    yield f"from one component, known weights, SEM is above EM: by {gain:.3f}", gain > 0.0
    gain = bad["SEM"] - bad["Gibbs"]
    yield f"... and above Gibbs: by {gain:.3f}", gain > 0.0
    gain = bad["SEM, shards"] - bad["EM"]
    yield f"... and in shards above EM: by {gain:.3f}", gain > 0.0


def print_bytes(setting):
    """Print what a round sends, beside what rows would take."""
    rounds = {}
    for name, solver in (("EM", Batch(acceleration=None)), ("SEM", Stochastic())):
        learner = DistributedEM(setting.mixture(solver, 1)).fit(setting.X)
        rounds[name] = learner.history_[0].bytes_sent
    n_rows, n_components = len(setting.X), setting.problem.n_components
    print(f"\nbytes of a round, 8 shards: EM {rounds['EM']:,}, SEM {rounds['SEM']:,};"
          f" responsibilities of all rows would be {8 * n_rows * n_components:,}, labels"
          f" {4 * n_rows:,}")  # fmt: skip
    yes = rounds["SEM"] <= rounds["EM"]
    print_claims([(f"SEM sends no more than EM: {rounds['SEM'] / rounds['EM']:.2f} of it", yes)])


# ------------------------------------------------------------------------------------------ command

PARTS = {part.__name__: part for part in (starts, grids, large)}
__doc__ = __doc__.replace("PARTS", "\n".join(f"{n}: {p.__doc__}" for n, p in PARTS.items()))


def main():
    arguments = _arguments()
    for name in arguments.parts:
        print(f"\n{PARTS[name].__doc__.splitlines()[0]}\n")
        begun = time.perf_counter()
        PARTS[name](arguments)
        print(f"\n({time.perf_counter() - begun:.0f} s)")


def print_claims(claims):
    print()
    for claim, holds in claims:
        print(f"{'met' if holds else 'NOT MET':>8}  {claim}")


def plot(found, path):
    """Median held-out log-likelihood by iteration, and by time."""
    import matplotlib.pyplot as plt

    problems = [CONTROL, LOW, HIGH]
    figure, axes = plt.subplots(2, len(problems), figsize=(12, 7), layout="constrained")
    for column, problem in zip(axes.T, problems, strict=True):
        for i, method in enumerate(METHODS):
            held_out, seconds = np.median(found[problem][method], axis=0).T
            column[0].plot(np.arange(1, T + 1), held_out, f"C{i}", label=method)
            column[1].semilogx(seconds, held_out, f"C{i}", label=method)
        column[0].set(title=problem.name, xlabel="iteration")
        column[1].set_xlabel("CPU seconds")
    for ax in axes[:, 0]:
        ax.set_ylabel("held-out log-likelihood - truth's")
    axes[0, 0].legend()
    figure.savefig(path)


def _line(name, *values):
    widths = (8, 8, 8, 9, 9, 11, 18, 18)
    texts = (f"{value:>{width}}" for value, width in zip(values, widths, strict=False))
    return f"{name:36}" + "".join(texts)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--full", action="store_true", help="all sizes and seeds of the paper")
    parser.add_argument("--seeds", type=int, help="of each part (default: its own number)")
    parser.add_argument("--plot", metavar="FILE", help="picture of figure 1 (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
