"""Amid & Warmuth (UAI 2020), experiment 7.2: a Kalman filter learns 2000 sequences one by one.

A state of dimension 5 is seen through 10 noisy readings; the covariances Q and R of the noise are
known, and the rest is learnt. One pass with the learning rate eta0 / t**0.9 starts from the same
model as batch EM. Every seed has a truth, data and a start of its own. The paper says neither truth
nor start; what it leaves open is chosen in `truth` and `start`.

    python -m benchmarks.papers.kalman --plot kalman.png

"first t" is the number of sequences after which the training loss is below that of one iteration of
batch EM, "gap" is (online - ten iterations) / (start - ten iterations), and "its" is the number of
batch iterations that beat the online pass. Losses are negative log-likelihoods of all sequences, in
nats per sequence; medians over seeds, quartiles in brackets. "radius" is the largest spectral
radius of the transitions on the way. Below each row stand the numbers of a reference implementation
in NumPy with other draws, so agreement is in kind, not in digits.
"""

import argparse
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.papers._passes import Run, draw_paths, first_cell, loss_cell
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em import PowerDecay
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families.linear_gaussian import AffineGaussian, LinearGaussian
from sklearn_onlineem.models.kalman.linear_dynamical import LinearDynamicalModel
from sklearn_onlineem.models.kalman.regression import Regression

N_STATES, N_FEATURES, N_SEQUENCES, BETA = 5, 10, 2000, 0.9
Q, R, RADIUS, START_READINGS = 0.3, 0.5, 0.9, 0.3
N_BATCH_STEPS = 30
# Dense where the crossing is to be seen.
EVALUATED = (1, 2, *range(5, 200, 5), *range(200, N_SEQUENCES + 1, 50))
LENGTHS, RATES = (5, 20), (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Reference:
    """A row of the reference's table."""

    first: str
    gap: str
    its: str


REFERENCE = {
    (5, 0.1): Reference("400 [175, 800]", ".039", "2"),
    (5, 1.0): Reference("5 [5, 10]", "-.0009", "22"),
    (5, 10.0): Reference("10 [5, 15; 45]", "-.0016", ">= 30"),
    (20, 0.1): Reference("175", ".020", "2"),
    (20, 1.0): Reference("5 [2, 5]", "-.0011", "18"),
    (20, 10.0): Reference("2", "-.0023", ">= 30"),
}


def main():
    arguments = _arguments()
    runs = {}
    print(f"{arguments.seeds} seeds; below each row the reference implementation\n")
    print(_line("length", "eta0", "first t below b1", "gap", "its", "loss (b1, b10)", "radius"))
    for (length, eta0), reference in REFERENCE.items():
        rounds = [run(length, eta0, seed) for seed in range(arguments.seeds)]
        runs[length, eta0] = rounds
        print(_line(str(length), f"{eta0:g}", *summary(rounds)), flush=True)
        print(_line("", "", reference.first, reference.gap, reference.its, ""))
    print()
    for claim, holds in acceptance(runs):
        print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        plot(runs, arguments.plot)


def run(length, eta0, seed):
    """One pass over the sequences of a seed."""
    data, model, batch = prepared(length, seed)
    schedule, path, radius = PowerDecay(eta0, BETA), [batch[0]], 0.0
    for t in range(1, N_SEQUENCES + 1):
        model, _ = online_step(model, data[t - 1 : t], schedule(t))
        radius = max(radius, np.abs(np.linalg.eigvals(model.transitions.matrix)).max())
        if t in EVALUATED:
            path.append(loss(model, data))
    return Run(EVALUATED, np.array(path), batch, radius)


@cache
def prepared(length, seed):
    """Sequences, the model that training starts from, and batch EM's losses."""
    rng = np.random.default_rng(seed)
    like = Sequences(Rows(np.empty((length, 0))), np.array([0, length]))
    data, _ = truth(rng).sample(N_SEQUENCES, rng, like)
    first = model = start(rng)
    losses = [loss(model, data)]
    for _ in range(N_BATCH_STEPS):
        model, _ = batch_step(model, data)
        losses.append(loss(model, data))
    return data, first, np.array(losses)


def truth(rng):
    """A rotation that shrinks, random readings of it, and a first state from the unit normal."""
    turn = np.linalg.qr(rng.normal(size=(N_STATES, N_STATES)))[0]
    return system(RADIUS * turn, rng.normal(size=(N_FEATURES, N_STATES)))


def start(rng):
    """Diagonal transitions and small random readings; what is known is that of the truth."""
    readings = START_READINGS * rng.normal(size=(N_FEATURES, N_STATES))
    return system(np.diag(rng.uniform(0.0, RADIUS, N_STATES)), readings)


def system(transition, readings):
    """A system without offsets, whose matrices and first state are learnt."""
    nothing = np.empty((N_STATES, 0))
    return LinearDynamicalModel(
        initial=regression(nothing, 1.0, {"offset", "covariance"}),
        transitions=regression(transition, Q, {"matrix"}),
        emissions=regression(readings, R, {"matrix"}),
    )


def regression(matrix, variance, learnt):
    """A regression without an offset, whose noise is spherical."""
    d = len(matrix)
    parameters = AffineGaussian.single(matrix, np.zeros(d), variance * np.eye(d))
    return Regression(LinearGaussian(), parameters, frozenset(learnt))


def loss(model, data):
    return -model.log_likelihood(data).mean()


def summary(rounds):
    """Cells of a row of the table."""
    low, middle, high = np.quantile([r.gap for r in rounds], (0.25, 0.5, 0.75))
    return (
        first_cell(rounds),
        f"{middle:.4f} [{low:.4f}, {high:.4f}]",
        f"{np.median([r.its for r in rounds]):g}",
        loss_cell(rounds),
        f"{max(r.extreme for r in rounds):.2f}",
    )


def acceptance(runs):
    """Claims, each with whether it holds."""
    for (length, eta0), rounds in runs.items():
        name = f"length {length}, eta0 = {eta0:g}"
        failures, radius = sum(not r.is_finite for r in rounds), max(r.extreme for r in rounds)
        claim = f"{name}: no numerical failure, with spectral radii up to {radius:.2f}: {failures}"
        yield claim, failures == 0
        first, gaps = np.median([r.first for r in rounds]), [r.gap for r in rounds]
        if eta0 < 1.0:
            worst = max(gaps)
            yield f"{name}: no gap above 0.15: {worst:.3f}", worst <= 0.15
            continue
        yield f"{name}: median first t at most 30: {first:g}", first <= 30
        yield f"{name}: median gap at most 0.002: {np.median(gaps):.4f}", np.median(gaps) <= 0.002
        yield f"{name}: no gap above 0.01: {max(gaps):.4f}", max(gaps) <= 0.01


def plot(runs, path):
    """Median training loss against sequences seen, with batch EM's levels."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(LENGTHS), figsize=(9, 4), layout="constrained")
    for ax, length in zip(axes, LENGTHS, strict=True):
        draw_paths(ax, {eta0: runs[length, eta0] for eta0 in RATES}, RATES)
        ax.set(title=f"sequences of {length} rows", xlabel="sequences seen", xscale="log")
    axes[0].set_ylabel("training loss, median (nats per sequence)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=150)


def _line(length, eta0, first, gap, its, losses, radius=""):
    return f"{length:<8}{eta0:>5}  {first:<22}{gap:<28}{its:>5}  {losses:<26}{radius:>7}"


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--plot", metavar="FILE", help="picture to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
