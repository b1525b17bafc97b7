"""The transducers that the laws of models run over, and enumeration of edit scripts."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from cases.enumeration import logs
from sklearn_onlineem.data.strings import StringPairs, Strings
from sklearn_onlineem.models.strings.operations import FullOperations, TiedOperations
from sklearn_onlineem.models.strings.transducer import EditStatistics, EditTransducer


def strings_of(sequences):
    offsets = np.concatenate(([0], np.cumsum([len(s) for s in sequences]))).astype(np.int64)
    symbols = np.array([symbol for s in sequences for symbol in s], dtype=np.intc)
    return Strings(symbols, offsets)


def split(strings):
    return np.split(strings.symbols, strings.offsets[1:-1])


def scripts(source, target):
    """All edit scripts: lists of (a, b), with None for no symbol."""
    if not len(source) and not len(target):
        yield []
    if len(source):
        yield from ([(source[0], None), *rest] for rest in scripts(source[1:], target))
    if len(target):
        yield from ([(None, target[0]), *rest] for rest in scripts(source, target[1:]))
    if len(source) and len(target):
        first = source[0], target[0]
        yield from ([first, *rest] for rest in scripts(source[1:], target[1:]))


def index_and_log_share(operations, a, b):
    """Which probability an operation belongs to, and the logarithm of its share of that."""
    size = operations.n_symbols
    if isinstance(operations, TiedOperations):
        if a is None or b is None:
            return (3 if a is None else 2), -np.log(size)
        return (0, -np.log(size)) if a == b else (1, -np.log(size * (size - 1)))
    if a is None or b is None:
        return size * size + (size + b if a is None else a), 0.0
    return a * size + b, 0.0


@cache
def counted(operations, source, target):
    """The numbers of operations of each script, and the logarithm of its shares."""
    terms, log_shares = [], []
    for script in scripts(source, target):
        counts, total = np.zeros(operations.n_probabilities), 0.0
        for a, b in script:
            index, log_share = index_and_log_share(operations, a, b)
            counts[index] += 1
            total += log_share
        counts[-1] = 1
        terms.append(counts)
        log_shares.append(total)
    return np.array(terms), np.array(log_shares)


class Scripts:
    """One pair: all of its scripts, each with its log-probability and its numbers of operations."""

    def __init__(self, model, source, target):
        self.counts, log_shares = counted(model.operations, tuple(source), tuple(target))
        self.log_probabilities = log_shares + self.counts @ logs(model.probabilities)
        self.log_likelihood = np.logaddexp.reduce(self.log_probabilities)
        shares = np.exp(self.log_probabilities - self.log_likelihood)
        self.expected_counts = shares @ self.counts


@dataclass(frozen=True)
class TransducerCase:
    """A parametrisation over four symbols; its data are pairs of 0 to 4 symbols each."""

    parametrization: type

    is_mixture = False
    has_labels = False
    is_quick = True
    has_time = False
    regular = True

    def __repr__(self):
        return f"{self.parametrization.__name__} transducer"

    def draw(self, rng, n_components=3, d=2):
        operations = self.parametrization(4)
        p = rng.dirichlet(np.full(operations.n_probabilities, 2.0)) + 1e-3
        p[-1] = 0.2
        return EditTransducer(operations, p / p.sum())

    def data(self, rng, n, d=2, n_threads=1):
        sides = (
            strings_of([rng.integers(0, 4, length) for length in rng.integers(0, 5, n)])
            for _ in range(2)
        )
        return StringPairs(*sides, n_threads)

    def rich_data(self, rng, n):
        return self.data(rng, n)

    def single(self, data):
        return data

    def enumerated(self, model, data):
        pairs = zip(split(data.sources), split(data.targets), strict=True)
        return [Scripts(model, x, y) for x, y in pairs]

    def mean_log_likelihood(self, model, data):
        return np.mean([pair.log_likelihood for pair in self.enumerated(model, data)])

    def prior(self, model, n_features, concentration):
        counts = np.full(len(model.probabilities), concentration - 1.0)
        return EditStatistics(counts)

    def log_prior(self, model, concentration):
        return (concentration - 1.0) * np.log(model.probabilities).sum()

    def occupancies(self, evidence):
        return evidence.counts


TRANSDUCERS = [TransducerCase(TiedOperations), TransducerCase(FullOperations)]
