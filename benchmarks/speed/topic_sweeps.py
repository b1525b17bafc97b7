"""A sweep over the topics of all tokens, against tomotopy's, one thread each.

Passages of State of the Union addresses; all have learnt for as many sweeps before, and learn the
prior of proportions. They take turns, and the table has ratios of CPU seconds of a sweep: of the
least ones, as others on the machine only ever make turns longer, and in parentheses the median of
those of single rounds.

    python -m benchmarks.speed.topic_sweeps --rounds 20
"""

import argparse
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._rows import Row
from benchmarks._table import Table
from benchmarks._timing import CPU, WALL, seconds
from benchmarks.floors import Operations, measured_rates
from benchmarks.real_data.topics import CORPORA
from sklearn_onlineem.data.documents import Documents
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.models.topics.latent_dirichlet import LatentDirichletModel, TopicStatistics

try:
    import tomotopy
except ImportError:
    tomotopy = None

SWEEPS = 5  # of a turn
REQUIRED = {
    (50, "gibbs"): 1.4,
    (50, "stochastic"): 2.3,
    (200, "gibbs"): 1.6,
    (200, "stochastic"): 2.0,
}


def main():
    arguments = _arguments()
    X = CORPORA["union"]()
    print(f"{X.shape[0]} documents, {X.sum():.0f} tokens of {X.shape[1]} words")
    table = Table("sweep, topics", "ns a token", "faster", "(median)", "required", "")
    with threadpool_limits(1):
        for n_components in arguments.components:
            for name, cost, faster, middle in compare(X, n_components, arguments):
                required = REQUIRED.get((n_components, name), "")
                met = "" if required == "" else "met" if faster >= required else "NOT MET"
                table.row(f"{name}, {n_components}", cost, faster, f"({middle:.2f})", required, met)


def rows(n_rounds, share):
    """Rows of the tables of speed, on a share of the data.

    A token needs the product of two numbers for each topic, and running sums of the products.
    """
    names = {"gibbs": "of Gibbs sampling", "stochastic": "of stochastic EM"}
    try:
        X = None if tomotopy is None else CORPORA["union"]()
    except FileNotFoundError:
        X = None
    settings = argparse.Namespace(rounds=n_rounds, before=max(5, int(50 * share)))
    for n_components in (50, 200):
        found = {}
        if X is not None:
            some = X[: int(share * X.shape[0])]
            taken = compare(some, n_components, settings, WALL)
            found = {name: (faster, cost) for name, cost, faster, _ in taken}
        rates = measured_rates() if found else None
        for name, kind in names.items():
            group = f"topics: a sweep {kind}"
            faster, cost = found.get(name, (None, None))
            floor = rates and cost / (1e9 * rates.floor(Operations(2 * n_components)))
            yield Row(group, f"{n_components} topics", "tomotopy", faster, floor)


def compare(X, n_components, arguments, clock=CPU):
    """Yield for each sweep its name, its cost, and by how much it is faster than tomotopy's."""
    turns = {
        "tomotopy": of_tomotopy(X, n_components, arguments.before),
        "gibbs": ours(X, n_components, True, arguments.before),
        "stochastic": ours(X, n_components, False, arguments.before),
    }
    rounds = [
        {name: seconds(turn, clock) / SWEEPS for name, turn in turns.items()}
        for _ in range(arguments.rounds)
    ]
    best = {name: min(taken[name] for taken in rounds) for name in turns}
    for name, least in best.items():
        middle = median(taken["tomotopy"] / taken[name] for taken in rounds)
        yield name, 1e9 * least / X.sum(), best["tomotopy"] / least, middle


def ours(X, n_components, collapsed, n_before):
    rng, n_words = np.random.default_rng(0), X.shape[1]
    topics_T = np.ascontiguousarray(rng.dirichlet(np.ones(n_words), n_components).T)
    alpha, length = np.full(n_components, 0.1), np.array([X.sum() / X.shape[0]])
    model = LatentDirichletModel(topics_T, alpha, length)
    prior = TopicStatistics(None, 0.1, 0.0, 0.0)
    chain = model.chain(Documents(Rows(X)), prior, rng, collapsed)

    def turn(n_sweeps=SWEEPS):
        for _ in range(n_sweeps):
            chain.sweep(rng)

    turn(n_before)
    return turn


def of_tomotopy(X, n_components, n_before):
    rival = tomotopy.LDAModel(k=n_components, alpha=0.1, eta=0.1, seed=1)
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        if end > begin:
            counts = X.data[begin:end].astype(int)
            rival.add_doc([str(w) for w in np.repeat(X.indices[begin:end], counts)])
    rival.train(n_before, workers=1)
    return lambda: rival.train(SWEEPS, workers=1)


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--before", type=int, default=50, help="sweeps that are not timed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
