"""The nearest words of a dictionary by an edit transducer; bounds skip most of them."""

import numpy as np
from scipy.special import gammaln

from sklearn_onlineem._values import Identified, Loaded

# Bounds and distances are rounded; a word is left out only if it is farther by more than this.
_SLACK = 1e-6
# Words whose distances are computed first, as an upper bound for the nearest.
_N_FIRST = 64


class Dictionary(Identified, Loaded):
    """Coded words, with tables for bounds on their distances."""

    # Symbols that the model does not know have codes beyond its alphabet; `n_symbols` counts all.
    # Distances are those of the `best` script, instead of all; `conditional`: given the word.
    def __init__(self, words, n_symbols, model, best, conditional):
        self.words, self.model, self.best = words, model, best
        self.weights = self.model.operations.weights(self.model.probabilities, log=True)
        owner = np.repeat(np.arange(len(self.words)), self.words.lengths)
        symbols = self.model.operations.known(self.words.symbols)
        # Saturated counts would share less than the words do, so they must not saturate.
        counts = np.zeros((len(self.words), n_symbols), dtype=np.int32)
        np.add.at(counts, (owner, self.words.symbols), 1)
        self.counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        # If operations are tied, all symbols have one number.
        logs = self.weights.log_insertions.take(symbols, mode="clip")
        self.alone = np.bincount(owner, logs, minlength=len(self.words))
        self.lengths, self.places = np.unique(self.words.lengths, return_inverse=True)
        self.given = np.zeros(len(self.words))
        if conditional:
            self.given = self.model.target_log_probability(self.words)

    def nearest(self, word, n_neighbors, threads_for):
        """Return distances, in nats, and indices of the words nearest to one, in order."""
        bounds = self.given - self._largest_log_probabilities(word)
        n_first = min(len(bounds), max(_N_FIRST, 2 * n_neighbors))
        first = np.argpartition(bounds, n_first - 1)[:n_first]
        near = np.partition(self._distances(word, first, threads_for), n_neighbors - 1)[
            n_neighbors - 1
        ]
        candidates = np.flatnonzero(bounds <= near + _SLACK)
        distances = self._distances(word, candidates, threads_for)
        order = np.argsort(distances, kind="stable")[:n_neighbors]
        return distances[order], candidates[order]

    def _distances(self, word, candidates, threads_for):
        words = self.words[candidates]
        n_threads = threads_for((len(word.symbols) + 1.0) * len(words.symbols))
        return self.given[candidates] - self.model.pairwise(word, words, self.best, n_threads)[0]

    def _largest_log_probabilities(self, word):
        """Return bounds of log p(word, y) for all words y of the dictionary."""
        symbols = self.model.operations.known(word.symbols)
        alone = self.weights.log_deletions.take(symbols, mode="clip").sum()
        match, mismatch = self._best_substitutions(symbols)
        n, m = len(symbols), self.lengths[:, None]
        # No more symbols are substituted, or shared, than the longest target has.
        k = np.arange(min(n, self.lengths.max(initial=0)) + 1)
        # The best k places for substitutions, and of them the best for matches.
        substituted = _largest_sums(mismatch)[k]
        matched = _largest_sums(np.maximum(match - mismatch, 0.0))[k]
        rest = np.maximum(m - k, 0)
        paths = gammaln(n + rest + 1) - gammaln(k + 1) - gammaln(n - k + 1) - gammaln(rest + 1)
        terms = np.where(k <= m, 0.0 if self.best else paths, -np.inf) + substituted
        # Matches are as many as substitutions, or as symbols that are shared.
        add = np.maximum if self.best else np.logaddexp
        few = add.accumulate(terms + matched, axis=1)
        more = np.full_like(terms, -np.inf)
        more[:, :-1] = add.accumulate(terms[:, :0:-1], axis=1)[:, ::-1]
        bounds = add(few, more + matched)
        # How many symbols it shares with each word.
        own, counts = np.unique(word.symbols, return_counts=True)
        known, most = own < self.counts.shape[1], np.iinfo(self.counts.dtype).max
        counts = np.minimum(counts[known], most).astype(self.counts.dtype)
        shared = np.minimum(self.counts[:, own[known]], counts).sum(axis=1, dtype=np.intp)
        end = np.log(self.model.probabilities[-1])
        return bounds[self.places, shared] + alone + self.alone + end

    def _best_substitutions(self, symbols):
        """Return log weights of the match of each symbol, and of its best mismatch."""
        table = self.weights.substitutions
        if len(table) == 1:
            return np.full(len(symbols), table[0, 0]), np.full(len(symbols), table[0, 1])
        others = table.copy()
        np.fill_diagonal(others, -np.inf)
        # All unknown symbols have one place, and mismatch each other there.
        others[-1, -1] = table[-1, -1]
        return np.diagonal(table)[symbols], others.max(axis=1)[symbols]


def _largest_sums(values):
    return np.concatenate(([0.0], np.cumsum(np.sort(values)[::-1])))
