"""Symbol by symbol or piece by piece: Cappe's recursive smoothing against our online steps.

    python -m benchmarks.papers.gradient_hmm

The first table repeats experiment 7.1 of Amid & Warmuth (UAI 2020) with the rivals that they name:
Cappe's online EM, an M-step after each symbol from recursively smoothed statistics, and online
gradients, a step along the score of each symbol. "absorbing" is the silent end of `absorbing_hmm`,
2000 sequences, which the rivals take as one stream that goes through the end to the next start;
"endless" is one sequence of 10,000 rows of the same kind of chain without an end, in pieces of ten
rows for us. All start from the same model as batch EM. Columns are those of `absorbing_hmm`, with
losses for each ten rows in the endless setting; "broke" counts the seeds that ended with no loss,
or one worse than the start's.

The second table asks whether symbols are worth their time on real streams. Pieces are learnt by
`partial_fit(..., continues=True)`. "prequential" is the mean log-likelihood of what comes next,
over the last three quarters of the first pass, in nats a symbol; "pass" and "equal time" are those
of what is held out (of the genome itself) after one pass, and when as much CPU time was used as the
NumPy recursion takes for one pass. Medians over seeds, which differ in starts and orders; "us" is
the CPU time of a symbol. The README has the figures, and what follows from them.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks._table import Table
from benchmarks.papers import absorbing_hmm
from benchmarks.papers._endless_tasks import TASKS
from benchmarks.papers._passes import Run, first_cell, loss_cell
from benchmarks.papers._recursive_learning import OnlineEM, OnlineGradient
from benchmarks.papers._recursive_smoother import CategoricalEmissions, Chain, GaussianEmissions
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences
from sklearn_onlineem.em import PowerDecay
from sklearn_onlineem.em.step import batch_step, online_step
from sklearn_onlineem.families import Categorical, Gaussian, Gaussians
from sklearn_onlineem.models.hidden_markov.markov import HiddenMarkovModel
from sklearn_onlineem.models.terminations import GivenLength

N_ROWS, PIECE, N_BATCH_STEPS = 10_000, 10, 30
# Sequences or pieces after which the loss is taken.
EVALUATED = (*range(5, 100, 5), *range(100, 2001, 100))


@dataclass(frozen=True)
class Steps:
    """Our online steps: a sequence or a piece each."""

    eta0: float

    def __str__(self):
        return f"ours, eta0 = {self.eta0:g}"

    def models(self, problem):
        """Yield the model after each sequence or piece."""
        model, before, schedule = problem.first, None, PowerDecay(self.eta0, absorbing_hmm.BETA)
        for t, piece in enumerate(problem.pieces(), start=1):
            if problem.is_endless:
                piece = piece.continued(before)
            model, _ = online_step(model, piece, schedule(t))
            before = model.filtered_end(piece) if problem.is_endless else None
            yield model


@dataclass(frozen=True)
class Rival:
    """A way to learn symbol by symbol."""

    name: str
    learner: object

    def __str__(self):
        return self.name

    def models(self, problem):
        """Yield the model after each sequence or piece."""
        first, ends = problem.first, problem.ends
        begins = np.zeros(ends[-1], dtype=bool)
        begins[0] = True
        if not problem.is_endless:
            begins[ends[:-1]] = True
        chain = chain_of(first)
        is_end = np.isin(np.arange(1, len(begins) + 1), ends)
        learnt = self.learner.learn(chain, problem.data.X, begins)
        for (chain, _), ended in zip(learnt, is_end.tolist(), strict=True):
            if ended:
                yield model_of(chain, first)


METHODS = (
    Steps(0.5),
    Steps(1.0),
    Rival("Cappe, t^-.6", OnlineEM(0.6)),
    Rival("Cappe, t^-.9", OnlineEM(0.9)),
    Rival("gradient, .1 t^-.6", OnlineGradient(0.1, 0.6)),
    Rival("gradient, 1 t^-.6", OnlineGradient(1.0, 0.6)),
)


@dataclass(frozen=True)
class Problem:
    """Data of a setting and a seed, where it starts, and batch EM's losses."""

    data: Sequences
    first: HiddenMarkovModel
    batch: np.ndarray
    is_endless: bool

    @property
    def ends(self):
        """Rows after which a sequence or a piece ends."""
        return np.arange(PIECE, N_ROWS + 1, PIECE) if self.is_endless else self.data.offsets[1:]

    def pieces(self):
        if not self.is_endless:
            return (self.data[t : t + 1] for t in range(len(self.data)))
        return (_sequence(self.data.X[end - PIECE : end]) for end in self.ends)

    def loss(self, model):
        """In nats a sequence, or for as many rows as a piece has."""
        each = PIECE / N_ROWS if self.is_endless else 1.0
        return each * absorbing_hmm.loss(model, self.data)


@cache
def prepared(setting, seed):
    """The problem of a setting and a seed."""
    if setting == "absorbing":
        return Problem(*absorbing_hmm.prepared(absorbing_hmm.SILENT, seed), False)
    rng = np.random.default_rng(seed)
    like = _sequence(np.empty((N_ROWS, absorbing_hmm.N_FEATURES)))
    data, _ = _without_end(absorbing_hmm.truth(absorbing_hmm.SILENT, rng)).sample(1, rng, like)
    first = model = _without_end(absorbing_hmm.start(absorbing_hmm.SILENT, data, rng))
    problem, losses = Problem(data, first, None, True), []
    for _ in range(N_BATCH_STEPS + 1):
        losses.append(problem.loss(model))
        model, _ = batch_step(model, data)
    return replace(problem, batch=np.array(losses))


def run(setting, method, seed):
    """One pass of a method."""
    problem = prepared(setting, seed)
    evaluated = tuple(t for t in EVALUATED if t <= len(problem.ends))
    path = [problem.batch[0]]
    with np.errstate(all="ignore"):
        try:
            for t, model in enumerate(method.models(problem), start=1):
                if t in evaluated:
                    path.append(problem.loss(model))
        # Emissions that are no more a distribution.
        except (ValueError, np.linalg.LinAlgError):
            pass
    missing = 1 + len(evaluated) - len(path)
    path = np.append(path, np.full(missing, np.inf))
    # So far beyond the start that digits mean nothing.
    path[~(np.abs(path) < 1e3 * np.abs(path[0]))] = np.inf
    return Run(evaluated, path, problem.batch, 0.0)


def chain_of(model):
    """The rivals' form of a model with Gaussian emissions."""
    emissions = GaussianEmissions.with_covariances(
        model.parameters.mean, model.parameters.covariance
    )
    return Chain(model.start, model.transmat, emissions)


def model_of(chain, like=None):
    """The library's form of a chain; with the termination of another model, if there is one."""
    if isinstance(chain.emissions, CategoricalEmissions):
        family = Categorical(chain.emissions.probabilities.shape[1])
        parameters = np.maximum(chain.emissions.probabilities, family.min_probability)
    else:
        family = Gaussian(reg_covar=0.0)
        parameters = Gaussians(chain.emissions.means, chain.emissions.covariances)
    termination = GivenLength() if like is None else like.termination
    return HiddenMarkovModel(family, chain.start, chain.transmat, parameters, termination)


@dataclass(frozen=True)
class Pieces:
    """`partial_fit` of pieces of so many rows."""

    length: int
    rates: tuple = ()

    def __str__(self):
        rates = "".join(f", {name}={value}" for name, value in self.rates)
        return f"pieces of {self.length}{rates or ', default rates'}"

    def passes(self, task):
        """Yield log-likelihoods of the pieces before they were learnt, and the model: each pass."""
        hmm = task.estimator(**dict(self.rates))
        pieces = np.split(task.train, range(self.length, len(task.train), self.length))
        while True:
            log_likelihoods = []
            for piece in pieces:
                hmm.partial_fit(piece, continues=True)
                each = hmm.history_[-1].log_likelihood / len(piece)
                log_likelihoods.append(np.full(len(piece), each))
            yield np.concatenate(log_likelihoods), hmm.model_


@dataclass(frozen=True)
class Symbols:
    """Cappe's online EM, one pass."""

    name: str
    learner: object

    def __str__(self):
        return self.name

    def passes(self, task):
        """Yield log-likelihoods of symbols before they were learnt, and the model: one pass."""
        learner, n = self.learner, len(task.train)
        if learner.average_from < 1.0:
            learner = replace(learner, average_from=learner.average_from * n)
        begins = np.arange(n) == 0
        chains, log_likelihoods = zip(*learner.learn(task.chain, task.train, begins), strict=True)
        yield np.array(log_likelihoods), model_of(chains[-1])


RECURSIONS = (
    Symbols("recursion, t^-.75", OnlineEM(0.75)),
    Symbols("recursion, t^-.75, a step each 100", OnlineEM(0.75, every=100)),
    Symbols("recursion, .3 t^-.6, averaged", OnlineEM(0.6, 0.3, average_from=0.25)),
)
PIECES = (
    Pieces(5, (("eta0", 1.0),)),
    Pieces(10, (("eta0", 1.0),)),
    Pieces(20),
    Pieces(100),
    Pieces(500),
    Pieces(100, (("eta0", 1.0), ("beta", 0.75))),
    Pieces(100, (("eta0", 2.0), ("beta", 0.9))),
)
# Rates were chosen on seeds below.
FIRST_SEED = 10


@dataclass(frozen=True)
class Learnt:
    """What a way of learning came to: columns of the table."""

    microseconds: float
    prequential: float
    after_pass: float
    at_equal_time: float


def learnt(method, task, seconds=0.0):
    """Learn for so many seconds of CPU time, in one pass at least."""
    passes, used, n_passes = method.passes(task), 0.0, 0
    # A pass more, where most of it is within the time.
    while n_passes == 0 or used * (1.0 + 0.5 / n_passes) < seconds:
        start = time.process_time()
        log_likelihoods, model = next(passes)
        used += time.process_time() - start
        n_passes += 1
        if n_passes == 1:
            prequential = log_likelihoods[len(task.train) // 4 :].mean()
            first, microseconds = task.held_out(model), 1e6 * used / len(task.train)
    return Learnt(microseconds, prequential, first, task.held_out(model))


def compared(task):
    """What all ways of learning came to on a task."""
    results = {str(method): learnt(method, task) for method in RECURSIONS}
    seconds = 1e-6 * results[str(RECURSIONS[0])].microseconds * len(task.train)
    return results | {str(method): learnt(method, task, seconds) for method in PIECES}


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore")
    if "paper" in arguments.only:
        for setting in ("absorbing", "endless"):
            print_setting(setting, arguments.seeds)
    for name in TASKS:
        if name in arguments.only:
            print_task(name, arguments.seeds)


def print_setting(setting, n_seeds):
    """The first table, of one setting."""
    print(f"\n{setting}, {n_seeds} seeds\n")
    print(f"{'':<22}{'first t below b1':<20}{'gap':>24}{'its':>6}  {'loss (b1, b10)':<24}broke")
    for method in METHODS:
        rounds = [run(setting, method, seed) for seed in range(n_seeds)]
        gaps = [r.gap for r in rounds]
        gap = f"{np.median(gaps):.3f} [{min(gaps):.3f}, {max(gaps):.3f}]"
        its = np.median([r.its for r in rounds])
        broke = sum(not r.path[-1] < r.path[0] for r in rounds)
        cells = f"{first_cell(rounds):<20}{gap:>24}{its:>6g}  {loss_cell(rounds):<24}{broke}"
        print(f"{method!s:<22}{cells}", flush=True)


def print_task(name, n_seeds):
    """The second table, of one stream."""
    print(f"\n{name}, nats a symbol, medians of {n_seeds} seeds\n")
    table = Table("", "us", "prequential", "pass", "equal time")
    rounds = [compared(TASKS[name](FIRST_SEED + seed)) for seed in range(n_seeds)]
    for method in rounds[0]:
        cells = [vars(results[method]).values() for results in rounds]
        table.row(method, *np.median([list(row) for row in cells], axis=0).tolist())


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parts = ["paper", *TASKS]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    return parser.parse_args()


def _sequence(X):
    return Sequences(Rows(X), np.array([0, len(X)]))


def _without_end(model):
    moves = model.transmat[:, :-1]
    return replace(
        model, transmat=moves / moves.sum(axis=1, keepdims=True), termination=GivenLength()
    )


if __name__ == "__main__":
    main()
