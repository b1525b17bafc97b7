"""Streams whose source changes, and streams whose source stays: are empty components refilled?

    python -m benchmarks.real_data.changing_streams

"jump": two Gaussians 8 apart, whose centres move by 20 in each of two features after 30,000 rows;
scores of 20,000 held-out rows of the new source, less those of the best model of them, after so
many further rows, as medians [least] over seeds. "stationary": what it changes of the score of
20,000 held-out rows after 30,000, as median [least], and how many were reinitialised in all seeds.
"sorted": five Gaussians, the rows sorted by the first feature; scores of rows such as the
stream has seen, and in brackets the mean score of batches before they were learnt. Batches of 100
rows; "not" is `solver=Online(reinitialises=False)`. Scores are in nats per row.
"""

import argparse
import warnings

import numpy as np

from benchmarks._table import Table
from sklearn_onlineem import GaussianMixture
from sklearn_onlineem.em import Online

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


if __name__ == "__main__":
    main()
