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

__all__ = ["decoded", "explored", "filtered_end"]

# Kernels keep the state at the start of each so many rows.
_KERNEL_ROWS = 256
# Log densities of a half that are not computed twice (8 MB).
_KEPT_VALUES = 1 << 20
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
        """Return the log-likelihood, and filtered states at the end; NaN if logs are needed.

        If `in_doubt`, they may be needed, and `backward` finds out.
        """
        transmat, predicted = _in(kernels, self._transmat), _in(kernels, self._predicted)
        filtered, log_likelihood = np.empty(len(predicted)), 0.0
        self._predicted_by_block, self.in_doubt = [], False
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
            of_piece, doubt = kernels.forward(log_densities, transmat, by_block, filtered)
            log_likelihood, self.in_doubt = log_likelihood + of_piece, self.in_doubt or doubt
            if i >= self._first_kept:
                self._log_densities[i] = log_densities
            if not log_likelihood > -np.inf:
                break
            self._predicted_by_block.append(by_block)
            predicted = by_block[-1]
        return log_likelihood, filtered

    def backward(self, kernels, later, visit):
        """Return expected transitions, what `visit` says of each piece, and the first posterior.

        None if logs are needed.
        """
        transmat, transitions = _in(kernels, self._transmat), np.zeros(self._transmat.shape)
        visited = []
        for i in range(self.n_pieces - 1, -1, -1):
            piece, where = self.piece(i)
            posterior = self.log_densities(i, piece)
            predicted = self._predicted_by_block[i]
            if kernels.backward(posterior, transmat, predicted, later, transitions):
                if self.in_doubt:
                    return None
            lead = int(piece.before is not None)
            if visit is not None:
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
    n_piece = _rows_of_piece(n_piece)
    middle = max(1, n // n_piece // 2) * n_piece
    halves = [
        _Half(model, data, range(middle), False, n_piece),
        _Half(model, data, range(n - 1, middle - 1, -1), True, n_piece),
    ]
    log_transmat = _log(model._chain(data)[2])
    for kernels in (_forward_backward, _log_chains):
        of_halves = [kernels] * 2, [row_log_likelihoods] * 2
        found = walk(_Half.forward, n_threads, halves, *of_halves)
        log_likelihood = sum(of_half for of_half, _ in found)
        if not log_likelihood > -np.inf:
            continue
        alpha, w = (state if kernels is _log_chains else _log(state) for _, state in found)
        share = logsumexp(alpha[:, None] + log_transmat + w)
        log_likelihood += share
        if share < np.log(_SMALLEST_SHARE) and kernels is _forward_backward:
            continue
        if not share > -np.inf:
            break
        in_doubt = halves[0].in_doubt or halves[1].in_doubt
        if visit is None and not in_doubt:
            break
        # What follows the halves; transitions from one to the other are counted in the first.
        laters = np.full((2, 2, len(w)), -np.inf)
        laters[0] = logsumexp(log_transmat + w, axis=1) - share, w - share
        laters[1, 0] = logsumexp(log_transmat.T + alpha, axis=1) - share
        laters = laters if kernels is _log_chains else np.exp(laters)
        found = walk(_Half.backward, n_threads, halves, [kernels] * 2, laters, [visit] * 2)
        if None not in found:
            (transitions, visited, first), (others, visited_others, last) = found
            both = transitions + others, first, last, visited + visited_others
            return log_likelihood, both if visit is not None else None
    return log_likelihood, None


def filtered_end(model, data, n_piece):
    """Return the filtered distribution of the last state of one long sequence, or zeros."""
    n = data.n_rows + (data.before is not None)
    run = _Half(model, data, range(n), False, _rows_of_piece(n_piece))
    log_likelihood, filtered = run.forward(_forward_backward)
    if log_likelihood > -np.inf:
        alone = np.array([np.ones(len(filtered)), np.zeros(len(filtered))])
        if not run.in_doubt or run.backward(_forward_backward, alone, None) is not None:
            return filtered
    log_likelihood, filtered = run.forward(_log_chains)
    return np.exp(filtered) if log_likelihood > -np.inf else np.zeros(len(filtered))


def decoded(model, data, n_threads, n_piece):
    """Return the best path of one long sequence, and its log-probability, by Viterbi's algorithm.

    All best paths soon have the same origin. The states up to there are settled, so that only
    those that follow have to be kept.
    """
    start, first, transmat, final = model._chain(data)
    if data.before is not None:
        first = first @ transmat  # the state before the first row is not part of the path
    log_transmat, best, states = _log(transmat), _log(first), np.empty(data.n_rows, np.int64)
    n_piece, small, pending = _rows_of_piece(n_piece), np.min_scalar_type(len(start) + 16), []

    def settle(state):
        while pending:
            begin, origins = pending.pop()
            stop = begin + len(origins)
            state = _log_chains.trace(
                origins.astype(np.intc, copy=False), state, states[begin:stop]
            )
        states[begin - 1] = state

    for begin in range(0, data.n_rows, n_piece):
        where = slice(begin, begin + n_piece)
        X, labels = data.X[where], data.rows.labels
        labels = None if labels is None else labels[where]
        rows = Rows.unchecked(X, None, labels, n_threads)
        piece = Sequences.unchecked(rows, np.array([0, len(X)]))
        log_densities, _ = model._log_densities(piece)
        if begin == 0:
            best += log_densities[0]
            begin, log_densities = 1, log_densities[1:]
        origins = _log_chains.best_moves(log_densities, log_transmat, best)
        t, state = _log_chains.common_origin(origins, best)
        if t >= 0:
            pending.append((begin, origins[:t]))
            settle(state)
            begin, origins = begin + t, origins[t:]
        pending = [(row, kept.astype(small, copy=False)) for row, kept in pending]
        pending.append((begin, origins))
    through = best + _log(final)
    settle(int(through.argmax()))
    return states, through.max(keepdims=True)


def _rows_of_piece(n_rows):
    return max(1, n_rows // _KERNEL_ROWS) * _KERNEL_ROWS


def _in(kernels, probabilities):
    return _log(probabilities) if kernels is _log_chains else probabilities


def _log(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
