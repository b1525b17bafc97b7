"""Brochu, de Freitas & Bao (2004), figure 3: clusters of texts and of visits, held-out scores.

Passages of 200 words of State of the Union addresses and chapters of the King James Bible, as
counts of their 2000 most frequent words (stop words left out), in mixtures of ten multinomials; and
visits of web pages in mixtures of four Markov chains. A fifth is held out. All methods have the
same prior: a tenth of a count for each word or transition of each component.

    python -m benchmarks.papers.bayesian_online_text --plot bayesian_online_text.png

Cells are held-out log-likelihoods in nats per word or page, after so many documents of the stream
(batch EM: of all of them, as often as it needs), mean and standard deviation over starts, each with
its own order. "random" starts have word probabilities that are uniform on (0, 1) and normalised;
others settle on the first 300 documents, or 40 visits. Then batches are of 20 documents. "mass" is
what a random start counts for, in documents for each component; SOEM has learning rates
rho / (1 - rho) for batch t. Online EM takes a share of the prior with each batch, by the documents
so far, so that it counts for more in the beginning.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks import datasets
from benchmarks._table import Table
from sklearn_onlineem import MarkovChainMixture, MultinomialMixture
from sklearn_onlineem.em import BayesianOnline

N_WORDS, N_CLUSTERS, BATCH_SIZE = 2000, 10, 20


@dataclass(frozen=True)
class Task:
    """Data, estimators of them, and how much the first batch has where a start settles on it."""

    name: str
    make: Callable
    X: object
    n_first: int
    random_starts: bool
    evaluated: tuple

    @property
    def n_train(self):
        return 4 * _length(self.X) // 5

    def split(self, seed):
        order = np.random.default_rng(0).permutation(_length(self.X))
        train = np.random.default_rng(seed).permutation(order[: self.n_train])
        return _taken(self.X, train), _taken(self.X, order[self.n_train :])

    def start(self, train, seed):
        """Arguments of a random start."""
        if not self.random_starts:
            return {}
        phi = np.random.default_rng((1, seed)).random((N_CLUSTERS, train.shape[1]))
        length = train[: self.n_first].sum() / self.n_first
        return {"means_init": length * phi / phi.sum(axis=1, keepdims=True)}


def score(model, X):
    """Log-likelihood per word, without the number of their orders, or per page."""
    if isinstance(X, list):
        return float(model.score_samples(X).sum() / sum(map(len, X)))
    orders = model.model_.family.log_base_measure(X)
    return float((model.score_samples(X) - orders).sum() / X.sum())


def soem(rho):
    return {"solver": "online", "schedule": _Rates(rho)}


@dataclass(frozen=True)
class _Rates:
    rho: Callable

    def __call__(self, t):
        return self.rho(t) / (1.0 - self.rho(t))


# Arguments, and whether the start is random.
STREAMS = {
    "BOEM, random, mass = .01": ({"solver": BayesianOnline(start_mass=0.01)}, True),
    "BOEM, random, mass = 1": ({"solver": BayesianOnline(start_mass=1.0)}, True),
    "SOEM, 1 / (t + 1), random": (soem(lambda t: 1.0 / (t + 1.0)), True),
    "SOEM, (t + 1)^-.7, random": (soem(lambda t: (t + 1.0) ** -0.7), True),
    "online EM, eta0='auto', random": ({"solver": "online"}, True),
    "BOEM": ({"solver": "bayesian"}, False),
    "SOEM, 1 / (t + 15)": (soem(lambda t: 1.0 / (t + 15.0)), False),
    "SOEM, (t + 15)^-.7": (soem(lambda t: (t + 15.0) ** -0.7), False),
    "online EM, eta0='auto'": ({"solver": "online"}, False),
}
BATCH = {"batch EM, random": True, "batch EM": False}


def streamed(task, arguments, is_random, seed):
    """Held-out scores after the numbers of documents in `task.evaluated`."""
    train, test = task.split(seed)
    start = task.start(train, seed) if is_random else {}
    model = task.make(random_state=seed, **arguments, **start)
    scores, begin, size = {}, 0, BATCH_SIZE if is_random else task.n_first
    for n in (*task.evaluated, task.n_train):
        while begin < n:
            end = min(begin + size, task.n_train)
            model.partial_fit(train[begin:end])
            begin, size = end, BATCH_SIZE
        scores[n] = score(model, test)
    return [*scores.values()]


def fitted(task, is_random, seed):
    train, test = task.split(seed)
    start = task.start(train, seed) if is_random else {}
    model = task.make(random_state=seed, solver="batch", max_iter=200, **start).fit(train)
    return score(model, test)


def compare(task, n_starts):
    """Print the table of a task; return the scores, (n_starts, n_evaluated) for each method."""
    print(f"\n{task.name}: {task.n_train} to learn from")
    table = Table(*("documents", *task.evaluated, task.n_train), width=36)
    found = {}
    for name, (arguments, is_random) in STREAMS.items():
        if task.random_starts or not is_random:
            rounds = [streamed(task, arguments, is_random, seed) for seed in range(n_starts)]
            found[name] = np.array(rounds)
            table.row(name, *map(_mean_and_spread, found[name].T))
    for name, is_random in BATCH.items():
        if task.random_starts or not is_random:
            found[name] = np.array([[fitted(task, is_random, seed)] for seed in range(n_starts)])
            blanks = [""] * len(task.evaluated)
            table.row(name, *blanks, _mean_and_spread(found[name][:, 0]))
    return found


def acceptance(task, found):
    """What the paper claims, each with whether it holds."""
    last = {name: scores[:, -1].mean() for name, scores in found.items()}
    for suffix in (", random", "") if task.random_starts else ("",):
        ours = last["BOEM, random, mass = .01" if suffix else "BOEM"]
        soem = max(
            value
            for name, value in last.items()
            if name.startswith("SOEM") and name.endswith("random") == bool(suffix)
        )
        start = "random start" if suffix else "settled start"
        yield f"{task.name}, {start}: BOEM beats SOEM: {ours:.3f}, {soem:.3f}", ours > soem
        batch = last[f"batch EM{suffix}"]
        yield f"{task.name}, {start}: BOEM beats batch EM: {ours:.3f}, {batch:.3f}", ours > batch


def counted(texts):
    words = CountVectorizer(
        stop_words="english", max_features=N_WORDS, token_pattern=r"(?u)\b[a-zA-Z]{3,}\b"
    )
    X = sparse.csr_array(words.fit_transform(texts).astype(np.float64))
    return X[X.sum(axis=1) > 0]


def tasks():
    multinomials = partial(MultinomialMixture, N_CLUSTERS, prior={"concentration": 1.1})
    union, bible = datasets.load_union_passages, datasets.load_king_james_chapters
    yield Task("union", multinomials, counted(union()), 300, True, (300, 1000, 3000))
    yield Task("bible", multinomials, counted(bible()), 300, True, (300, 500, 700))
    chains = partial(
        MarkovChainMixture,
        4,
        n_symbols=17,
        prior={"concentration": 1.1, "start_concentration": 1.1},
    )
    yield Task("clicks", chains, datasets.load_msnbc(), 40, False, (40, 100, 200))


def plot(results, path):
    """Mean held-out scores against documents seen."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(13, 4), layout="constrained")
    colours = {name: f"C{i}" for i, name in enumerate(STREAMS)}
    for ax, (task, found) in zip(axes, results, strict=True):
        seen = [*task.evaluated, task.n_train]
        for name, scores in found.items():
            mean, spread = scores.mean(axis=0), scores.std(axis=0)
            if name in BATCH:
                style = "--" if BATCH[name] else ":"
                ax.axhline(mean[0], color="black", linestyle=style, label=name)
            else:
                ax.errorbar(seen, mean, spread, color=colours[name], label=name)
        ax.set(title=task.name, xlabel="documents seen", xscale="log")
        ax.set_xticks(seen, [str(n) for n in seen])
        ax.set_xticks([], minor=True)
    axes[0].set_ylabel("held-out log-likelihood (nats per word)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=150)


def _taken(X, chosen):
    return X[chosen] if sparse.issparse(X) else [X[i] for i in chosen]


def _length(X):
    return X.shape[0] if sparse.issparse(X) else len(X)


def _mean_and_spread(values):
    return f"{values.mean():.3f} " + f"{values.std():.3f}".lstrip("0")


def main():
    arguments = _arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    results = [(task, compare(task, arguments.starts)) for task in tasks()]
    print()
    for task, found in results:
        for claim, holds in acceptance(task, found):
            print(f"{'met' if holds else 'NOT MET':>8}  {claim}")
    if arguments.plot:
        plot(results, arguments.plot)


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--plot", metavar="FILE", help="picture to write (needs matplotlib)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
