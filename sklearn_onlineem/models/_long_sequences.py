"""Recursions along one long sequence of a hidden chain, by blocks of rows and by two threads.

The sequence is cut in the middle. One run goes forward in time along the first half. Another goes
backward in time along the second half, which is the same recursion with transposed transitions:

    alpha_t(j) = sum_i alpha_t-1(i) a_ij p(v_t | j)
    w_t(i) = p(v_t | i) sum_j a_ij w_t+1(j)

They meet in the middle, where p(v) = sum_ij alpha_t(i) a_ij w_t+1(j), and each goes back along its
own half with what the other has found. Only the states at the starts of blocks are kept for that,
and log densities are computed again. Nothing depends on whether two threads take the halves.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sklearn_onlineem._kernels import _forward_backward, _log_chains
from sklearn_onlineem._kernels._openmp import walk
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.data.sequences import Sequences

__all__ = ["explored"]

# Kernels keep the state at the start of each so many rows.
_KERNEL_ROWS = 256
# Log densities of a half that are not computed twice (16 MB).
_KEPT_VALUES = 1 << 21
# Below this share of the middle, scaled recursions may have lost digits, as in the kernels.
_SMALLEST_SHARE = 1e-150


class _Half:
    """A run along half of a sequence, whose pieces follow each other in the order of the run."""

    def __init__(self, model, data, rows, is_reversed, n_piece):
        self._model, self._data, self._rows, self._n_piece = model, data, rows, n_piece
        self.is_reversed, self.n_pieces = is_reversed, -(-len(rows) // n_piece)
        start, first, transmat, final = model._chain(data)
        self._predicted = final if is_reversed else first
        self._transmat = np.ascontiguousarray(transmat.T) if is_reversed else transmat
        n_kept = max(1, _KEPT_VALUES // (n_piece * len(start)))
        self._log_densities, self._first_kept = {}, self.n_pieces - n_kept

    def piece(self, i):
        """Return rows of the data, and which they are; time runs backward in a reversed half."""
        rows = self._rows[i * self._n_piece : (i + 1) * self._n_piece]
        # An unobserved row 0 is in front of a sequence that continues.
        lead = int(self._data.before is not None)
        before = self._data.before if rows[0] == 0 and not self.is_reversed else None
        begin, stop = (rows[-1], rows[0]) if self.is_reversed else (rows[0], rows[-1])
        where = slice(max(begin - lead, 0), stop - lead + 1)
        X, labels = self._data.X[where], self._data.rows.labels
        labels = None if labels is None else labels[where]
        if self.is_reversed:
            X = np.ascontiguousarray(X[::-1])
            labels = None if labels is None else np.ascontiguousarray(labels[::-1])
        piece = Sequences.unchecked(Rows.unchecked(X, None, labels), np.array([0, len(X)]), before)
        return piece, where

    def log_densities(self, i, piece):
        found = self._log_densities.pop(i, None)
        return self._model._log_densities(piece)[0] if found is None else found

    def forward(self, kernels, row_log_likelihoods=None):
        """Return the log-likelihood, and filtered states at the end; NaN if logs are needed."""
        transmat, predicted = _in(kernels, self._transmat), _in(kernels, self._predicted)
        filtered, log_likelihood, self._predicted_by_block = np.empty(len(predicted)), 0.0, []
        for i in range(self.n_pieces):
            piece, where = self.piece(i)
            log_densities = self.log_densities(i, piece)
            if row_log_likelihoods is not None:
                out = row_log_likelihoods[where]
                self._model._best_of_rows(
                    piece, log_densities, out[::-1] if self.is_reversed else out
                )
            by_block = np.empty((1 - (-len(log_densities) // _KERNEL_ROWS), len(predicted)))
            by_block[0] = predicted
            log_likelihood += kernels.forward(log_densities, transmat, by_block, filtered)
            if i >= self._first_kept:
                self._log_densities[i] = log_densities
            if not log_likelihood > -np.inf:
                break
            self._predicted_by_block.append(by_block)
            predicted = by_block[-1]
        return log_likelihood, filtered

    def backward(self, kernels, later, visit):
        """Return expected transitions, what `visit` says of each piece, and the first posterior."""
        transmat, transitions = _in(kernels, self._transmat), np.zeros(self._transmat.shape)
        visited = []
        for i in range(self.n_pieces - 1, -1, -1):
            piece, where = self.piece(i)
            posterior = self.log_densities(i, piece)
            kernels.backward(posterior, transmat, self._predicted_by_block[i], later, transitions)
            lead = int(piece.before is not None)
            visited.append(visit(piece, posterior[lead:], where, self.is_reversed))
        first = posterior[0].astype(np.float64)
        return transitions.T if self.is_reversed else transitions, visited, first


def explored(model, data, n_piece, n_threads, visit=None, row_log_likelihoods=None):
    """Return log p(v) of one long sequence under a hidden Markov model, and its expectations.

    These are expected transitions (K, K), posteriors (K,) of the first and of the last row, and a
    list of what `visit(piece, posterior, where, is_reversed)` says of each piece, or None without
    `visit`. They are None if the sequence is impossible, too.
    """
    n = data.n_rows + (data.before is not None)
    n_piece = max(1, n_piece // _KERNEL_ROWS) * _KERNEL_ROWS
    middle = max(1, n // n_piece // 2) * n_piece
    halves = [
        _Half(model, data, range(middle), False, n_piece),
        _Half(model, data, range(n - 1, middle - 1, -1), True, n_piece),
    ]
    log_transmat, share = _log(model._chain(data)[2]), 0.0
    for kernels in (_forward_backward, _log_chains):
        of_halves = [kernels] * 2, [row_log_likelihoods] * 2
        found = walk(_Half.forward, n_threads, halves, *of_halves)
        log_likelihood = sum(of_half for of_half, _ in found)
        if not log_likelihood > -np.inf:
            continue
        alpha, w = (state if kernels is _log_chains else _log(state) for _, state in found)
        share = logsumexp(alpha[:, None] + log_transmat + w)
        if kernels is _log_chains or share > np.log(_SMALLEST_SHARE):
            break
    log_likelihood += share
    if visit is None or not log_likelihood > -np.inf:
        return log_likelihood, None
    # What follows the halves; transitions from one to the other are counted in the first.
    laters = np.full((2, 2, len(w)), -np.inf)
    laters[0] = logsumexp(log_transmat + w, axis=1) - share, w - share
    laters[1, 0] = logsumexp(log_transmat.T + alpha, axis=1) - share
    laters = laters if kernels is _log_chains else np.exp(laters)
    found = walk(_Half.backward, n_threads, halves, [kernels] * 2, laters, [visit] * 2)
    (transitions, visited, first), (others, visited_others, last) = found
    return log_likelihood, (transitions + others, first, last, visited + visited_others)


def _in(kernels, probabilities):
    return _log(probabilities) if kernels is _log_chains else probabilities


def _log(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
