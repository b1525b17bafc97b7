"""Is a fit that says "converged" at a maximum? Random problems, whose clusters overlap.

Each has 150 to 800 rows, of a model of the kind that is fitted. The distance to the maximum is
sqrt(2 gain left / parameters), in standard errors a parameter; the gain left is that of thousands
of further passes, with and without quasi-Newton steps, until neither they nor a nudge towards
random labels (which lifts zeros and leads off saddles) gain anything. Gains are in nats of all
rows, of what batch EM maximises: priors and floors of variances count.

converged    fits that say so
within .1    of these, the share within a tenth of a standard error
worst        distance of these
mean, most   gain that is left, of these
passes       of all fits: the median, and the ninth tenth; then how often all rows are read

With `--against`, a folder of another checkout whose kernels are compiled: the share of its fits
that are within .1, how many of ours end lower (by more than 1e-6 of the objective), the most that
is lost and that is gained, in nats, and medians of our CPU time over its: of fits that were within
.1, and of others.

    python -m benchmarks.real_data.certified --problems 20 --kinds poisson --against ../before
"""

import argparse
import json
import logging
import sys
import warnings
from copy import deepcopy
from multiprocessing import get_context

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import records
from benchmarks._checkouts import result_in
from benchmarks._table import Table
from benchmarks._timing import CPU
from sklearn_onlineem import (
    CategoricalHMM,
    CategoricalMixture,
    GaussianHMM,
    GaussianMixture,
    KalmanFilter,
    PoissonMixture,
    StudentTMixture,
)
from sklearn_onlineem.em import Batch
from sklearn_onlineem.em.quasi_newton import Evaluation

# Times that a fit is made; the least CPU time counts.
_REPEATS = 3
# Rounds of further passes, at most; a round that gains less than this share of the bar is the last.
_ROUNDS, _SETTLED = 10, 0.01
_FURTHER = [
    {"solver": Batch(), "tol": 1e-14, "max_iter": 500},
    {"solver": Batch(acceleration=None), "tol": 0.0, "max_iter": 200},
]
_NUDGE = {"semi_supervised": True, "eta0": 1e-3, "schedule": "constant"}


def main():
    arguments = _arguments()
    pairs = [(kind, i) for kind in arguments.kinds or KINDS for i in range(arguments.problems)]
    if arguments.fits_only:
        json.dump(_on_processes(fitted, pairs, arguments.jobs), sys.stdout, default=int)
        return
    ours = _by_kind(_on_processes(fitted_and_left, pairs, arguments.jobs))
    heads = "converged", "within .1", "worst", "mean", "most", "passes", "90 %", "reads", "90 %"
    table = Table("kind", *heads, width=24)
    for name, fits in (ours | {"all": sum(ours.values(), [])}).items():
        table.row(name, *_summary(fits))
    if arguments.write:
        *_, total = table.rows
        shares = {"converged": total[1], "within_a_tenth": total[2]}
        figures = {
            "problems": arguments.problems,
            "share": shares,
            "worst_distance": total[3],
            "nats_left": total[4],
            "reads": total[8],
            "table": table.rows,
        }
        records.write("certified", figures)
    if arguments.against:
        print()
        heads = "within .1", "ends lower", "most lost", "gained", "CPU within", "CPU others"
        table = Table("kind, before", *heads, width=24)
        # Our fits once more, in a process that does nothing else either.
        before, now = (_fits_of(arguments, path) for path in (arguments.against, records.ROOT))
        for fits, again in zip(ours.values(), _by_kind(now).values(), strict=True):
            for fit, timed in zip(fits, again, strict=True):
                fit["seconds"] = timed["seconds"]
        before = _by_kind(before)
        for name, fits in before.items():
            table.row(name, *_comparison(ours[name], fits))
        table.row("all", *_comparison(*(sum(x.values(), []) for x in (ours, before))))


def fitted(pair):
    """Return what a fit of the problem of a kind and a number is, and took."""
    return _fit(pair)[0]


def fitted_and_left(pair):
    """Return that, and the gain that is left."""
    record, estimator, data = _fit(pair)
    record["left"] = _highest(estimator, data, pair[1]) - record["objective"]
    return record


def _fit(pair):
    kind, number = pair
    estimator, data = KINDS[kind](np.random.default_rng([number, list(KINDS).index(kind)]))
    estimator.set_params(random_state=0)
    seconds = []
    for _ in range(_REPEATS):
        start = CPU()
        estimator.fit(**data)
        seconds.append(CPU() - start)
    record = {
        "kind": kind,
        "objective": objective(estimator, data),
        "converged": estimator.converged_,
        "passes": estimator.n_iter_,
        "reads": estimator.history_[-1].n_rows / len(data["X"]),
        "seconds": min(seconds),
        "n_parameters": estimator.model_.n_parameters(),
    }
    return record, estimator, data


def objective(estimator, data):
    """Return what batch EM maximises, in nats of all rows."""
    data, state = estimator._input().read(**data), estimator._fitted.state
    size = state.size_of(data)
    prior = state.prior_terms(size, size / data.total_weight)
    evidence, log_likelihood = state.model.e_step(data)
    here = Evaluation(state.model, evidence, log_likelihood, prior, data)
    return float(here.objective * data.total_weight)


def _highest(estimator, data, seed):
    """Return the objective of the maximum that further passes lead to."""
    best, rng = objective(estimator, data), np.random.default_rng(seed)
    settled = _SETTLED * 0.005 * estimator.model_.n_parameters()
    for round_ in range(_ROUNDS):
        further, before = deepcopy(estimator).set_params(warm_start=True), best
        try:
            if round_ > 0 and not isinstance(estimator, KalmanFilter):
                labels = rng.integers(estimator.n_components, size=len(data["X"]))
                further.set_params(**_NUDGE).partial_fit(**data, y=labels)
                further.set_params(**{name: getattr(estimator, name) for name in _NUDGE})
            for settings in _FURTHER:
                further.set_params(**settings).fit(**data)
                value = objective(further, data)
                if value > best:
                    best, estimator = value, deepcopy(further)
        except ValueError:  # a cluster without a covariance
            pass
        if round_ > 0 and best - before < settled:
            break
    return best


# ------------------------------------------------------------------------------------------ tables


def _summary(fits):
    done = [fit for fit in fits if fit["converged"]]
    gains = [fit["left"] for fit in done] or [np.nan]
    distances = np.array([_distance(fit) for fit in done] or [np.nan])
    counts = [np.quantile([fit[name] for fit in fits], (0.5, 0.9)) for name in ("passes", "reads")]
    passes = (round(float(count)) for count in np.ravel(counts))
    within = float(np.mean(distances < 0.1)), float(distances.max())
    return len(done) / len(fits), *within, float(np.mean(gains)), float(max(gains)), *passes


def _comparison(ours, theirs):
    pairs = list(zip(ours, theirs, strict=True))
    gains = np.array([a["objective"] - b["objective"] for a, b in pairs])
    lower = gains < -1e-6 * np.abs([b["objective"] for _, b in pairs])
    left = [{**b, "left": a["left"] + gain} for (a, b), gain in zip(pairs, gains, strict=True)]
    were = np.array([fit["converged"] and _distance(fit) < 0.1 for fit in left])
    ratios = np.array([a["seconds"] / b["seconds"] for a, b in pairs])
    cpu = (float(np.median(ratios[of])) if of.any() else "-" for of in (were, ~were))
    most_lost = float(np.maximum(-gains, 0.0).max())
    return float(were.mean()), int(lower.sum()), most_lost, float(gains.max()), *cpu


def _distance(fit):
    return np.sqrt(2.0 * max(fit["left"], 0.0) / fit["n_parameters"])


def _by_kind(fits):
    found = {}
    for fit in fits:
        found.setdefault(fit["kind"], []).append(fit)
    return found


def _fits_of(arguments, checkout):
    """Return the fits of another checkout, by this very file."""
    kinds = [f"--kinds={kind}" for kind in arguments.kinds or KINDS]
    numbers = f"--problems={arguments.problems}", f"--jobs={arguments.jobs}"
    return result_in(checkout, __file__, "--fits-only", *numbers, *kinds)


def _on_processes(function, pairs, n_jobs):
    with get_context("spawn").Pool(n_jobs, _prepare) as pool:
        return pool.map(function, pairs, chunksize=5)


def _prepare():
    warnings.simplefilter("ignore")
    logging.disable()
    threadpool_limits(1)


# ------------------------------------------------------------------------------------------- kinds


def _labels(rng, most=4):
    """Number of components, and those of rows."""
    n, K = rng.integers(150, 801), rng.integers(2, most + 1)
    return K, rng.choice(K, n, p=rng.dirichlet(np.full(K, 4.0)))


def _normals(rng, noise=np.random.Generator.standard_normal):
    """Clusters 1.5 standard deviations apart or so; every other time in one column."""
    K, labels = _labels(rng, most=4)
    d = 1 if rng.random() < 0.5 else rng.integers(2, 6)
    if d == 1:
        means = 1.5 * np.arange(K)[:, None]
    else:
        means = rng.uniform(0.5, 2.0) * rng.normal(size=(K, d))
    return K, means[labels] + rng.uniform(0.5, 1.5, (K, d))[labels] * noise(rng, (len(labels), d))


def _walk(rng, K, n_sequences):
    """States of sequences that stay for some time, and the lengths."""
    lengths = rng.multinomial(rng.integers(150, 801), np.full(n_sequences, 1 / n_sequences))
    stays, states = rng.uniform(0.6, 0.95), rng.integers(K, size=lengths.sum())
    for t in np.flatnonzero(rng.random(len(states)) < stays):
        states[t] = states[t - 1]
    return states, [int(n) for n in lengths if n]


def poisson(rng, prior=None):
    K, labels = _labels(rng)
    rates = np.exp(rng.normal(1.0, 0.5, (K, rng.integers(1, 6))))
    return PoissonMixture(K, prior=prior), {"X": rng.poisson(rates[labels])}


def categorical(rng, prior=None):
    """Latent classes: answers to questions."""
    K, labels = _labels(rng)
    n_questions, n_answers = rng.integers(4, 9), rng.integers(2, 6)
    tables = rng.dirichlet(np.ones(n_answers), (K, n_questions))
    chosen = rng.random((len(labels), n_questions, 1)) > tables[labels].cumsum(axis=2)
    X = np.minimum(chosen.sum(axis=2), n_answers - 1)
    return CategoricalMixture(K, n_categories=n_answers, prior=prior), {"X": X}


def full(rng):
    K, X = _normals(rng)
    return GaussianMixture(K), {"X": X}


def diagonal(rng):
    K, X = _normals(rng)
    return GaussianMixture(K, covariance_type="diag"), {"X": X}


def two_normals(rng):
    """As in the report that began it."""
    n = rng.integers(150, 801)
    return GaussianMixture(2), {"X": rng.normal(size=(n, 1)) + 1.5 * rng.integers(0, 2, (n, 1))}


def missing(rng, prior=None):
    K, X = _normals(rng)
    d = max(X.shape[1], 2)
    X = np.column_stack([X, rng.normal(size=(len(X), d - X.shape[1]))])
    gaps = rng.random(X.shape) < 0.2
    gaps[gaps.all(axis=1), 0] = False
    return GaussianMixture(K, prior=prior), {"X": np.where(gaps, np.nan, X)}


def student_t(rng, prior=None):
    K, X = _normals(rng, lambda rng, shape: rng.standard_t(rng.uniform(3.0, 8.0), shape))
    return StudentTMixture(K, prior=prior), {"X": X}


def gaussian_hmm(rng):
    K, d = rng.integers(2, 5), rng.integers(1, 4)
    states, lengths = _walk(rng, K, rng.integers(1, 6))
    means = rng.uniform(0.5, 2.0) * rng.normal(size=(K, d))
    X = means[states] + rng.normal(size=(len(states), d))
    return GaussianHMM(K), {"X": X, "lengths": lengths}


def categorical_hmm(rng):
    K, n_symbols = rng.integers(2, 4), rng.integers(3, 9)
    states, lengths = _walk(rng, K, rng.integers(1, 6))
    tables = rng.dirichlet(np.ones(n_symbols), K).cumsum(axis=1)
    X = (rng.random((len(states), 1)) > tables[states]).sum(axis=1, keepdims=True)
    X = np.minimum(X, n_symbols - 1)
    return CategoricalHMM(K, n_features=n_symbols), {"X": X, "lengths": lengths}


def local_level(rng):
    """A walk of small steps under noise."""
    n, step = rng.integers(150, 801), np.exp(rng.uniform(np.log(0.03), 0.0))
    X = (step * rng.normal(size=(n, 1))).cumsum(axis=0) + rng.normal(size=(n, 1))
    learnt = ["transition_covariance", "observation_covariance", "initial_state_mean"]
    level = {"transition_matrices": [[1.0]], "observation_matrices": [[1.0]]}
    return KalmanFilter(1, em_vars=learnt, **level), {"X": X}


def default_priors(rng):
    """Mixtures whose default is a prior."""
    kinds = poisson, categorical, missing, student_t
    return kinds[rng.integers(len(kinds))](rng, prior="auto")


KINDS = {
    kind.__name__: kind
    for kind in (
        poisson, categorical, full, diagonal, two_normals, missing, student_t, gaussian_hmm,
        categorical_hmm, local_level, default_priors,
    )
}  # fmt: skip


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=100, help="of each kind")
    parser.add_argument("--kinds", action="append", choices=KINDS)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--against", help="folder of another checkout")
    parser.add_argument("--write", action="store_true", help=records.HELP)
    parser.add_argument("--fits-only", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
