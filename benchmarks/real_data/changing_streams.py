"""Streams whose source changes, and streams whose source stays: are empty components refilled?

    python -m benchmarks.real_data.changing_streams

"jump": two Gaussians 8 apart, whose centres move by 20 in each of two features after 30,000 rows;
scores of 20,000 held-out rows of the new source, less those of the best model of them, after so
many further rows, as medians [least] over seeds. "stationary": what it changes of the score of
20,000 held-out rows after 30,000, as median [least], and how many were reinitialised in all seeds.
"sorted": five Gaussians, the rows sorted by the first feature; scores of rows such as the
stream has seen, and in brackets the mean score of batches before they were learnt. "one after
another": five Gaussians, a thousand rows of each; scores of rows of all. "states": a chain of two
states that stay for ten rows, whose source jumps in the same way. "cost": microseconds of CPU a
call, as median, mean and largest, while no component is empty and while one is. Batches of 100
rows, but where the line says another number; "not" is `solver=Online(reinitialises=False)`. Scores
are in nats per row.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np

from benchmarks._table import Table
from sklearn_onlineem import GaussianHMM, GaussianMixture, PoissonHMM
from sklearn_onlineem.em import Forgetting, Online

BATCH, N_BEFORE, N_HELD_OUT = 100, 30_000, 20_000
AFTER = (5_000, 10_000, 20_000, 50_000)
SCHEDULES = {
    "forgetting, .98": {"schedule": "forgetting", "beta": 0.98},
    "constant, .02": {"schedule": "constant", "eta0": 0.02},
    "default": {},
}
# Clusters, their weights, degrees of freedom of their tails, components to fit.
STATIONARY = {
    "2 clusters": ([0.5, 0.5], np.inf, 2),
    "one of 3 %": ([0.97, 0.03], np.inf, 2),
    "five, one of 3 %": ([0.4, 0.27, 0.25, 0.05, 0.03], np.inf, 5),
    "3 clusters, 8 components": ([0.4, 0.3, 0.3], np.inf, 8),
    "2 clusters of t(3), 4 components": ([0.6, 0.4], 3, 4),
    "3 clusters of t(3), one of 3 %": ([0.6, 0.37, 0.03], 3, 3),
}


def source(rng, weights, tails=np.inf, n_features=2, centres=None):
    """A function that draws rows."""
    weights = np.asarray(weights)
    if centres is None:
        centres = 6.0 * rng.standard_normal((len(weights), n_features))

    def draw(n, shift=0.0):
        noise = rng.standard_normal((n, n_features))
        if tails < np.inf:
            noise *= np.sqrt(tails / rng.chisquare(tails, (n, 1)))
        return centres[rng.choice(len(weights), n, p=weights)] + noise + shift

    return draw


def stream(n_components, seed, reinitialises, **arguments):
    solver = Online(reinitialises=reinitialises)
    return GaussianMixture(n_components, solver=solver, random_state=seed, **arguments)


def n_revived(mixture):
    steps = (step for step in mixture.history_ if step.n_components is not None)
    return sum(step.reinitialised >= 0 for step in steps)


def jumps(n_seeds):
    table = Table("jump, then rows", *map(str, AFTER), width=24)
    met = True
    for name, arguments in SCHEDULES.items():
        for reinitialises in (True, False):
            lost = np.array(
                [_after_jump(seed, reinitialises, arguments) for seed in range(n_seeds)]
            )
            cells = [f"{np.median(at):.2f} [{at.min():.2f}]" for at in lost.T]
            table.row(name + ("" if reinitialises else ", not"), *cells)
            if reinitialises and name.startswith("forgetting"):
                met = lost[:, AFTER.index(20_000)].min() > -0.1
    print(f"{'met' if met else 'NOT MET':>8}  forgetting, .98: within .1 nats after 20,000 rows\n")


def _after_jump(seed, reinitialises, arguments):
    rng = np.random.default_rng(seed)
    draw = source(rng, [0.5, 0.5], centres=np.array([[-4.0, 0.0], [4.0, 0.0]]))
    mixture = stream(2, seed, reinitialises, **arguments)
    for _ in range(N_BEFORE // BATCH):
        mixture.partial_fit(draw(BATCH))
    held_out, scores = draw(N_HELD_OUT, 20.0), []
    best = GaussianMixture(2, random_state=0).fit(held_out).score(held_out)
    for n in range(BATCH, max(AFTER) + 1, BATCH):
        mixture.partial_fit(draw(BATCH, 20.0))
        if n in AFTER:
            scores.append(mixture.score(held_out) - best)
    return scores


def stationary(n_seeds):
    table = Table("stationary", "changes by", "came back", width=46)
    for name, (weights, tails, n_components) in STATIONARY.items():
        for schedule in ("forgetting, .98", "default"):
            runs = [
                _stationary(seed, weights, tails, n_components, SCHEDULES[schedule])
                for seed in range(n_seeds)
            ]
            changes, numbers = zip(*runs, strict=True)
            cell = f"{np.median(changes):.3f} [{min(changes):.3f}]"
            table.row(f"{name}, {schedule}", cell, f"{sum(numbers)}")
    print()


def _stationary(seed, weights, tails, n_components, arguments):
    scores = []
    for reinitialises in (False, True):
        draw = source(np.random.default_rng(seed), weights, tails)
        mixture = stream(n_components, seed, reinitialises, **arguments)
        for _ in range(N_BEFORE // BATCH):
            mixture.partial_fit(draw(BATCH))
        scores.append(mixture.score(draw(N_HELD_OUT)))
    return scores[1] - scores[0], n_revived(mixture)


def sorted_rows(n_seeds):
    table = Table("sorted by a feature", "reinitialised", "not", width=32)
    for name, arguments in SCHEDULES.items():
        cells = []
        for reinitialises in (True, False):
            runs = [_sorted(seed, reinitialises, arguments) for seed in range(n_seeds)]
            scores, on_the_way = np.median(runs, axis=0)
            cells.append(f"{scores:.1f} ({on_the_way:.2f})")
        table.row(name, *cells)


def _sorted(seed, reinitialises, arguments):
    draw = source(np.random.default_rng(seed), [0.2] * 5, n_features=3)
    X, held_out = draw(N_BEFORE), draw(N_HELD_OUT)
    mixture = stream(5, seed, reinitialises, **arguments)
    for batch in np.split(X[np.argsort(X[:, 0])], N_BEFORE // BATCH):
        mixture.partial_fit(batch)
    return mixture.score(held_out), np.mean([step.log_likelihood for step in mixture.history_[1:]])


def one_after_another(n_seeds):
    table = Table("one after another", "reinitialised", "not", "batch EM", width=32)
    for size in (100, 10):
        runs = [tuple(_one_after_another(seed, size)) for seed in range(n_seeds)]
        cells = (f"{np.median(at):.1f} [{min(at):.1f}]" for at in zip(*runs, strict=True))
        table.row(f"defaults, batches of {size}", *cells)
    print()


def _one_after_another(seed, size):
    rng = np.random.default_rng(seed)
    centres = np.repeat(6.0 * rng.standard_normal((5, 4)), 1000, axis=0)
    X, held_out = (centres + rng.standard_normal(centres.shape) for _ in range(2))
    for reinitialises in (True, False):
        mixture = stream(5, seed, reinitialises)
        for batch in np.split(X, len(X) // size):
            mixture.partial_fit(batch)
        yield mixture.score(held_out)
    yield GaussianMixture(5, random_state=seed).fit(X).score(held_out)


def small_jumps(n_seeds):
    table = Table("jump, half-life of 1,000 rows", "5000", "10000", "20000", width=32)
    for size in (100, 10, 5, 2, 1):
        runs = [list(_small_jump(seed, size)) for seed in range(min(n_seeds, 5))]
        cells = [f"{np.median(at):.2f} [{at.min():.2f}]" for at in np.array(runs).T]
        table.row(f"mixture, batches of {size}", *cells)
    for make in (GaussianHMM, PoissonHMM):
        for size in (50, 5):
            for reinitialises in (True, False):
                runs = [
                    list(_states(make, seed, size, reinitialises))
                    for seed in range(min(n_seeds, 5))
                ]
                cells = [f"{np.median(at):.2f} [{at.min():.2f}]" for at in np.array(runs).T]
                name = f"{make.__name__}, pieces of {size}"
                table.row(name + ("" if reinitialises else ", not"), *cells)
    print()


def _small_jump(seed, size):
    rng = np.random.default_rng(seed)
    draw = source(rng, [0.5, 0.5], centres=np.array([[-4.0, 0.0], [4.0, 0.0]]))
    mixture = stream(2, seed, True, schedule=Forgetting(half_life=1000)).fit(draw(1000))
    held_out = draw(N_HELD_OUT, 20.0)
    best = GaussianMixture(2, random_state=0).fit(held_out).score(held_out)
    for n_rows in (5000, 5000, 10_000):
        for batch in np.split(draw(n_rows, 20.0), n_rows // size):
            mixture.partial_fit(batch)
        yield mixture.score(held_out) - best


def _states(make, seed, size, reinitialises):
    rng = np.random.default_rng(seed)

    def draw(n, jumped):
        states = (np.cumsum(rng.random(n) < 0.1) + rng.integers(2)) % 2
        if make is PoissonHMM:
            rates = np.array([[2.0, 12.0], [40.0, 90.0]])[int(jumped)]
            return rng.poisson(rates[states][:, None], (n, 3)).astype(float)
        centres = np.array([-4.0, 4.0])[states][:, None] + 20.0 * jumped
        return centres + rng.standard_normal((n, 2))

    # The half-life is in sequences of the first data.
    schedule = Forgetting(half_life=20)
    chain = make(2, solver=Online(reinitialises=reinitialises), schedule=schedule, random_state=0)
    chain.fit([draw(50, False) for _ in range(40)])
    held_out = [draw(50, True) for _ in range(100)]
    best = make(2, random_state=0).fit(held_out).score(held_out)
    for n_rows in (5000, 5000, 10_000):
        for _ in range(n_rows // size):
            chain.partial_fit([draw(size, True)])
        yield (chain.score(held_out) - best) / 50


def cost():
    table = Table("cost, microseconds a call", "none is empty", "one is", width=32)
    draw = source(np.random.default_rng(0), [0.2] * 5, n_features=4)
    X = draw(34_000)
    for size in (1, 10, 100):
        cells = []
        for weight in (0.2, 1e-9):
            mixture = stream(5, 0, True).partial_fit(X[:2000])
            state, weights = mixture._fitted.state, mixture.model_.weights.copy()
            weights[0] = weight
            # Without the rows of the empty one, so that it stays empty.
            rows = X[2000:][mixture.predict(X[2000:]) > (-1 if weight == 0.2 else 0)]
            model = replace(state.model, weights=weights / weights.sum())
            mixture._fitted = mixture._fitted._replace(state=state._replace(model=model))
            times = []
            for begin in range(0, 25_000 // size * size, size):
                start = time.process_time()
                mixture.partial_fit(rows[begin : begin + size])
                times.append(1e6 * (time.process_time() - start))
            cells.append(f"{np.median(times):.0f} {np.mean(times):.0f} {max(times):.0f}")
        table.row(f"batches of {size}", *cells)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    n_seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", UserWarning)
    jumps(n_seeds)
    stationary(n_seeds)
    sorted_rows(n_seeds)
    one_after_another(n_seeds)
    small_jumps(n_seeds)
    cost()


if __name__ == "__main__":
    main()
