"""The nearest words of a dictionary, by a distance that is learnt."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context, clone
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._symbols import SymbolCodes, strings_of
from sklearn_onlineem.estimators._threads import threads_for
from sklearn_onlineem.estimators._validation import naming
from sklearn_onlineem.estimators.edit_distance import EditDistance

__all__ = ["EditDistanceClassifier"]

# Bounds and distances are rounded; a word is left out only if it is farther by more than this.
_SLACK = 1e-6
# Words whose distances are taken first, to know how near the nearest are at least.
_N_FIRST = 64


class EditDistanceClassifier(ClassifierMixin, BaseEstimator):
    r"""Nearest word of a dictionary, by a stochastic edit distance.

    .. math:: \hat y(x) = \operatorname*{arg\,min}_{y \in dictionary} d(x, y) + \log p(y)

    With the probability :math:`p(y) = \sum_x p(x, y)` that the transducer itself gives a target,
    this is the noisy channel, :math:`-\log p(x \mid y)`: the transducer takes words for random
    symbols, so that :math:`d(x, y)` alone prefers short words.

    Words that can't be among the nearest are not compared: a script that has k substitutions, of
    which at most c, the symbols that both words share, are matches, has at most a certain
    probability, and so have all scripts together. The answer is that of comparing all.

    Parameters
    ----------
    edit_distance : EditDistance, default=None
        The distance. None: ``EditDistance()``.
    dictionary : list of strings or of sequences of hashables, default=None
        The words to choose from. None: those in `y`.
    conditional : bool, default=True
        Whether :math:`\log p(y)` is added; without, the nearest words by the distance alone.
    prefit : bool, default=False
        Whether `edit_distance` is fitted already and taken as it is. Else a clone of it learns from
        the pairs of X and y.

    Attributes
    ----------
    edit_distance_ : EditDistance
        The fitted distance.
    classes_ : ndarray of shape (n_words,)
        The dictionary without repetitions, in the order of first appearance.

    References
    ----------
    Ristad & Yianilos, "Learning string-edit distance", IEEE PAMI 1998, section 3.

    Examples
    --------
    >>> from sklearn_onlineem import EditDistanceClassifier
    >>> wrong = ["recieve", "adress", "teh", "wierd"] * 5
    >>> right = ["receive", "address", "the", "weird"] * 5
    >>> classifier = EditDistanceClassifier().fit(wrong, right)
    >>> classifier.predict(["addres", "thhe"])
    array(['address', 'the'], dtype=object)
    >>> distances, words = classifier.kneighbors(["weard"], n_neighbors=2)
    >>> classifier.classes_[words]
    array([['weird', 'the']], dtype=object)
    """

    _parameter_constraints: dict = {
        "edit_distance": [None, EditDistance],
        "dictionary": [None, "array-like"],
        "conditional": ["boolean"],
        "prefit": ["boolean"],
    }

    def __init__(self, edit_distance=None, *, dictionary=None, conditional=True, prefit=False):
        self.edit_distance = edit_distance
        self.dictionary = dictionary
        self.conditional = conditional
        self.prefit = prefit

    # The distance may be fitted already.
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y):
        """Learn the distance from pairs, and take the dictionary.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
            Words as they are written.
        y : list of strings or of sequences of hashables
            Words of the dictionary that they stand for.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the parameters or the data are invalid.
        """
        with naming(self):
            X, y = strings_of(X, "a word of X"), strings_of(y, "a word of y")
            if len(X) != len(y) or len(X) == 0:
                raise ValueError(f"X and y must be as many, not none; got {len(X)} and {len(y)}.")
            words = y if self.dictionary is None else self.dictionary
            words = list(dict.fromkeys(map(_hashable, strings_of(words, "a word"))))
            if len(words) == 0:
                raise ValueError("dictionary is empty.")
        edit_distance = self._fitted_distance(X, y)
        classes = np.empty(len(words), dtype=object)
        classes[:] = words
        self._known = _Dictionary(words, edit_distance, self.conditional)
        self.edit_distance_, self.classes_ = edit_distance, classes
        return self

    def _fitted_distance(self, X, y):
        if self.prefit:
            check_is_fitted(self.edit_distance)
            return self.edit_distance
        unfitted = EditDistance() if self.edit_distance is None else clone(self.edit_distance)
        return unfitted.fit(list(zip(X, y, strict=True)))

    def predict(self, X):
        """Return the nearest word of the dictionary to each word.

        Parameters
        ----------
        X : list of strings or of sequences of hashables

        Returns
        -------
        words : ndarray of object of shape (n_words_of_X,)
            Of `classes_`, the first where distances are equal.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        _, indices = self.kneighbors(X, 1)
        return self.classes_[indices[:, 0]]

    def score(self, X, y):
        """Return the share of the words of X whose nearest word is that of y.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
        y : list of strings or of sequences of hashables
            What each word of X stands for.

        Returns
        -------
        accuracy : float
            Between 0 and 1.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X or y is invalid; the message names the estimator.
        """
        with naming(self):
            y = strings_of(y, "a word of y")
        found = self.predict(X)
        return float(np.mean([a == _hashable(b) for a, b in zip(found, y, strict=True)]))

    def kneighbors(self, X, n_neighbors=5):
        r"""Find the nearest words of the dictionary.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
        n_neighbors : int, default=5

        Returns
        -------
        distances : ndarray of shape (n_words_of_X, n_neighbors)
            In nats, in ascending order; of :math:`-\log p(x \mid y)` if `conditional`.
        indices : ndarray of shape (n_words_of_X, n_neighbors)
            Of words in `classes_`, the first where distances are equal.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid, or the dictionary has fewer words than `n_neighbors`.
        """
        check_is_fitted(self)
        if not 1 <= n_neighbors <= len(self.classes_):
            raise ValueError(
                f"n_neighbors of {type(self).__name__} must be in 1..{len(self.classes_)}, got"
                f" {n_neighbors!r}."
            )
        with naming(self):
            X = strings_of(X, "a word of X")
        words = self._known.codes().encode(X)
        found = [self._known.nearest(words[[i]], n_neighbors) for i in range(len(words))]
        shape = (len(words), n_neighbors)
        distances = np.array([distances for distances, _ in found]).reshape(shape)
        return distances, np.array([indices for _, indices in found], dtype=np.intp).reshape(shape)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class _Dictionary:
    """Coded words, with what bounds on their distances need.

    Parameters
    ----------
    words : list
    edit_distance : EditDistance
        Fitted.
    conditional : bool
        Whether distances are relative to log p(word).
    """

    def __init__(self, words, edit_distance, conditional):
        codes = SymbolCodes(edit_distance._codes)
        self.words = codes.encode(words)
        self.alphabet = codes.codes
        self.model, self.best = edit_distance.model_, edit_distance._is_best(None)
        self.n_jobs = edit_distance.n_jobs
        self.weights = self.model.operations.weights(self.model.probabilities, log=True)
        owner = np.repeat(np.arange(len(self.words)), self.words.lengths)
        symbols = self._looked_up(self.words.symbols)
        # Saturated counts would share less than the words do, so they must not saturate.
        counts = np.zeros((len(self.words), len(self.alphabet)), dtype=np.int32)
        np.add.at(counts, (owner, self.words.symbols), 1)
        self.counts = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        logs = self._of(self.weights.log_insertions, symbols)
        self.alone = np.bincount(owner, logs, minlength=len(self.words))
        self.lengths, self.places = np.unique(self.words.lengths, return_inverse=True)
        self.given = np.zeros(len(self.words))
        if conditional:
            self.given = self.model.target_log_probability(self.words)

    def codes(self):
        """Codes for the symbols of other words."""
        return SymbolCodes(self.alphabet)

    def _looked_up(self, symbols):
        return self.model.operations.known(symbols)

    @staticmethod
    def _of(table, symbols):
        return np.full(len(symbols), table[0]) if len(table) == 1 else table[symbols]

    def nearest(self, word, n_neighbors):
        """Distances and indices of the nearest words, of which others are left out by bounds."""
        bounds = self.given - self._largest_log_probabilities(word)
        n_first = min(len(bounds), max(_N_FIRST, 2 * n_neighbors))
        first = np.argpartition(bounds, n_first - 1)[:n_first]
        near = np.partition(self._distances(word, first), n_neighbors - 1)[n_neighbors - 1]
        candidates = np.flatnonzero(bounds <= near + _SLACK)
        distances = self._distances(word, candidates)
        order = np.argsort(distances, kind="stable")[:n_neighbors]
        return distances[order], candidates[order]

    def _distances(self, word, candidates):
        words = self.words[candidates]
        n_threads = threads_for(self.n_jobs, (len(word.symbols) + 1.0) * len(words.symbols))
        return self.given[candidates] - self.model.pairwise(word, words, self.best, n_threads)[0]

    def _largest_log_probabilities(self, word):
        """Bounds of log p(word, y) for all words y of the dictionary."""
        symbols = self._looked_up(word.symbols)
        alone = self._of(self.weights.log_deletions, symbols).sum()
        bounds = self._bounds_by_length(symbols, self.lengths)
        shared = self._n_shared(word)
        end = np.log(self.model.probabilities[-1])
        return bounds[self.places, shared] + alone + self.alone + end

    def _n_shared(self, word):
        """Numbers of symbols that a word shares with each of the dictionary."""
        symbols, counts = np.unique(word.symbols, return_counts=True)
        known = symbols < self.counts.shape[1]
        own = np.minimum(counts[known], np.iinfo(self.counts.dtype).max).astype(self.counts.dtype)
        return np.minimum(self.counts[:, symbols[known]], own).sum(axis=1, dtype=np.intp)

    def _bounds_by_length(self, symbols, lengths):
        """Bounds for targets of these lengths that share 0, 1, ... n symbols, relative to alone."""
        match, mismatch = self._best_substitutions(symbols)
        n, m = len(symbols), lengths[:, None]
        # No more symbols are substituted, or shared, than the longest target has.
        k = np.arange(min(n, lengths.max(initial=0)) + 1)
        # The best k places for substitutions, and of them the best for matches.
        substituted = _largest_sums(mismatch)[k]
        matched = _largest_sums(np.maximum(match - mismatch, 0.0))[k]
        rest = np.maximum(m - k, 0)
        paths = gammaln(n + rest + 1) - gammaln(k + 1) - gammaln(n - k + 1) - gammaln(rest + 1)
        terms = np.where(k <= m, 0.0 if self.best else paths, -np.inf) + substituted
        # Of k substitutions, k are matches or as many as there are shared symbols.
        add = np.maximum if self.best else np.logaddexp
        few = add.accumulate(terms + matched, axis=1)
        more = np.full_like(terms, -np.inf)
        more[:, :-1] = add.accumulate(terms[:, :0:-1], axis=1)[:, ::-1]
        return add(few, more + matched)

    def _best_substitutions(self, symbols):
        """Log weights of the match of each symbol, and of its best mismatch."""
        table = self.weights.substitutions
        if len(table) == 1:
            return np.full(len(symbols), table[0, 0]), np.full(len(symbols), table[0, 1])
        others = table.copy()
        np.fill_diagonal(others, -np.inf)
        # Unknown symbols share a place, and so differ from each other there.
        others[-1, -1] = table[-1, -1]
        return np.diagonal(table)[symbols], others.max(axis=1)[symbols]


def _largest_sums(values):
    """Sums of the 0, 1, ... n largest values."""
    return np.concatenate(([0.0], np.cumsum(np.sort(values)[::-1])))


def _hashable(word):
    return word if isinstance(word, str) else tuple(word)
