"""What a fitted edit distance says of itself and of strings."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._alignment import Alignment, best_moves
from sklearn_onlineem.estimators._symbols import SymbolCodes, strings_of
from sklearn_onlineem.estimators._threads import threads_for
from sklearn_onlineem.estimators._validation import naming
from sklearn_onlineem.models import FullOperations
from sklearn_onlineem.models.edit_operations import KINDS

__all__ = ["TransducerInference"]


class TransducerInference:
    """The methods that take strings and change nothing."""

    @property
    def _n_features_out(self):
        return 1

    def _observed(self, X):
        check_is_fitted(self)
        return self._data_of(X, reset=False)

    def score_samples(self, X):
        """Log-likelihood of each pair.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)

        Returns
        -------
        log_likelihoods : ndarray of shape (n_pairs,)
            In nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        data = self._observed(X)
        return self.model_.log_likelihood(data)

    def score(self, X, y=None):
        """Mean log-likelihood per pair; higher is better.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)
        y : object
            Ignored.

        Returns
        -------
        log_likelihood : float
            In nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return float(self.score_samples(X).mean())

    def transform(self, X):
        """Distances of pairs, by the parameter `kind`.

        Parameters
        ----------
        X : list of (source, target), or array-like of shape (n_pairs, 2)

        Returns
        -------
        distances : ndarray of shape (n_pairs, 1)
            In nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If X is invalid; the message names the estimator.
        """
        return self._distances(self._observed(X), None)[:, None]

    def distance(self, x, y, kind=None):
        """Distance of a source and a target, in nats.

        Parameters
        ----------
        x, y : str or sequence of hashables
        kind : {"stochastic", "viterbi"}, default=None
            Over all scripts, or of the best one. None: the parameter of the estimator.

        Returns
        -------
        distance : float

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If a string is invalid, or `kind` is unknown; the message names the estimator.
        """
        return float(self._distances(self._observed([(x, y)]), kind)[0])

    def _distances(self, data, kind):
        model = self.model_
        return -(model.best_log_probability if self._is_best(kind) else model.log_likelihood)(data)

    def _is_best(self, kind):
        kind = self.kind if kind is None else kind
        if kind not in ("stochastic", "viterbi"):
            raise ValueError(
                f"kind of {type(self).__name__} must be 'stochastic' or 'viterbi', got {kind!r}."
            )
        return kind == "viterbi"

    def pairwise(self, X, Y=None, kind=None):
        """Distances of all sources from all targets.

        Parameters
        ----------
        X : list of strings or of sequences of hashables
            Sources.
        Y : list of strings or of sequences of hashables, default=None
            Targets. None: those of X.
        kind : {"stochastic", "viterbi"}, default=None
            As in `distance`.

        Returns
        -------
        distances : ndarray of shape (n_sources, n_targets)
            In nats.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If a string is invalid, or `kind` is unknown; the message names the estimator.
        """
        check_is_fitted(self)
        best = self._is_best(kind)
        with naming(self):
            codes = SymbolCodes(self._codes)
            sources = codes.encode(strings_of(X, "a source"))
            targets = sources if Y is None else codes.encode(strings_of(Y, "a target"))
        n_cells = (sources.lengths + 1.0).sum() * (targets.lengths + 1.0).sum()
        n_threads = threads_for(self.n_jobs, n_cells)
        return -self.model_.pairwise(sources, targets, best, n_threads)

    def align(self, x, y):
        """The most probable script that makes a source and a target.

        Parameters
        ----------
        x, y : str or sequence of hashables

        Returns
        -------
        alignment : Alignment
            Its `operations` and `distance`; printed, the strings one above the other, "|" between
            symbols that match and "." between others. It takes a byte for each pair of symbols.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If a string is invalid; the message names the estimator.
        """
        data = self._observed([(x, y)])
        known, model = self.model_.operations.known, self.model_
        log_weights = model.operations.weights(model.probabilities, log=True).substitutions
        sides = known(data.sources.symbols), known(data.targets.symbols)
        path = [
            (None if i is None else x[i], None if j is None else y[j])
            for i, j in best_moves(*sides, log_weights)
        ]
        operations = [(_kind_of(a, b), a, b) for a, b in path]
        return Alignment(operations, float(-model.best_log_probability(data)[0]))

    def sample(self, n_samples=1):
        """Draw pairs of strings.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : list of (source, target)
            Strings if the data were, else tuples of symbols. Unknown symbols are U+FFFD in strings,
            and None in tuples.
        scripts : list of ndarray
            Operations of each pair, indices of ``model_.probabilities``.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            If `n_samples` is below 1.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples of {type(self).__name__} must be 1 or more.")
        pairs, scripts = self.model_.sample(n_samples, self._generator())
        X = list(zip(self._decoded(pairs.sources), self._decoded(pairs.targets), strict=True))
        return X, np.split(scripts.symbols, scripts.offsets[1:-1])

    def _decoded(self, strings):
        symbols = [*self.symbols_, "\N{REPLACEMENT CHARACTER}" if self._makes_text else None]
        parts = np.split(strings.symbols, strings.offsets[1:-1])
        sequences = ([symbols[code] for code in part] for part in parts)
        return map("".join if self._makes_text else tuple, sequences)

    # ------------------------------------------------------------------------------ fitted values

    @property
    def operations_(self):
        """Probabilities of the kinds of operations, summed over symbols."""
        model = self.model_
        return dict(zip(KINDS, model.operations.by_kind(model.probabilities).tolist(), strict=True))

    @property
    def substitution_probabilities_(self):
        """Probabilities of all pairs of symbols."""
        return self._table(0)

    @property
    def deletion_probabilities_(self):
        """Probabilities of deleting each symbol."""
        return self._table(1)

    @property
    def insertion_probabilities_(self):
        """Probabilities of inserting each symbol."""
        return self._table(2)

    def _table(self, i):
        model = self.model_
        if not isinstance(model.operations, FullOperations):
            raise AttributeError("Only parametrization='full' has probabilities by symbol.")
        return model.operations.tables(model.probabilities)[i].copy()


def _kind_of(a, b):
    if a is None or b is None:
        return "insert" if a is None else "delete"
    return "match" if a == b else "mismatch"
