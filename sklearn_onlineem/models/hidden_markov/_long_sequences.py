"""Recursions along one long sequence of a hidden chain, by blocks of rows and by two threads.

The sequence is cut in the middle. One run goes forward in time along the first half. Another goes
backward in time along the second half, which is the same recursion with transposed transitions:

    alpha_t(j) = sum_i alpha_t-1(i) a_ij p(v_t | j)
    w_t(i) = p(v_t | i) sum_j a_ij w_t+1(j)

They meet in the middle, where p(v) = sum_ij alpha_t(i) a_ij w_t+1(j), and each goes back along its
own half with what the other has found. Only the states at the starts of blocks are kept for that,
and log densities are computed again. Nothing depends on whether two threads take the halves. Where
one thread takes both and there are many states, they go on side by side: both read all transitions
for each row, and a cache does not hold that many.
"""

from itertools import chain

import numpy as np
from scipy.special import logsumexp

from sklearn_onlineem._kernels import _forward_backward, _log_chains
from sklearn_onlineem._kernels._openmp import walk
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.families._e_step import log_of

# Kernels keep the state at the start of each so many rows.
_KERNEL_ROWS = 256
# Log densities of a half that are not computed twice (8 MB).
_KEPT_VALUES = 1 << 20
# Halves go on side by side where there are more states, as `FEWEST_MANY` has it for kernels.
_FEW_STATES = 64
# Below this share of the middle, scaled recursions may have lost digits, as in the kernels.
_SMALLEST_SHARE = 1e-150


class _Run:
    """A run along a sequence or half of it, whose pieces follow each other in its order.

    It goes backward in time where `rows` do.
    """

    def __init__(self, model, data, rows, n_piece):
        self._model, self._data, self._rows, self._n_piece = model, data, rows, n_piece
        self.is_reversed, self.n_pieces = rows.step < 0, -(-len(rows) // n_piece)
        start, first, self.transmat, final = model._chain(data)
        self.first = final if self.is_reversed else first
        n_kept = max(1, _KEPT_VALUES // (n_piece * len(start)))
        self._log_densities, self._first_kept = {}, self.n_pieces - n_kept
        self.predicted_by_block, self.in_doubt = [], False

    def piece(self, i, n_threads=1):
        """Return rows of the data, in the order of the run, and which they are."""
        rows = self._rows[i * self._n_piece : (i + 1) * self._n_piece]
        where = slice(rows.start, rows.stop, rows.step)
        X, labels = np.ascontiguousarray(self._data.X[where]), self._data.labels
        labels = None if labels is None else np.ascontiguousarray(labels[where])
        rows = Rows.unchecked(X, None, labels, n_threads)
        return self._data.with_rows(rows, np.array([0, len(X)])), where

    def log_densities(self, i, piece):
        found = self._log_densities.pop(i, None)
        return self._model._log_densities(piece) if found is None else found

    def seen(self, i, row_log_likelihoods):
        """Return the log densities of a piece, which may be kept for the way back."""
        piece, where = self.piece(i)
        log_densities = self.log_densities(i, piece)
        if row_log_likelihoods is not None:
            self._model._best_of_rows(piece, log_densities, row_log_likelihoods[where])
        if i >= self._first_kept:
            self._log_densities[i] = log_densities
        return log_densities


def _forward(kernels, runs, row_log_likelihoods=None):
    """Return log-likelihoods of runs, and filtered states at their ends.

    They have as many pieces. If a run is `in_doubt`, logarithms may be needed, and `_backward`
    finds out. All ends where a log-likelihood is minus infinity, or NaN as logarithms are needed.
    """
    transmat, shape = _in(kernels, runs[0].transmat), (len(runs), len(runs[0].first))
    log_likelihoods, filtered = np.zeros(len(runs)), np.empty(shape)
    predicted = [_in(kernels, run.first) for run in runs]
    for run in runs:
        run.predicted_by_block, run.in_doubt = [], False
    for i in range(runs[0].n_pieces):
        densities = [run.seen(i, row_log_likelihoods) for run in runs]
        n_blocks = [1 - (-len(rows) // _KERNEL_ROWS) for rows in densities]
        by_block, of_pieces = np.empty((sum(n_blocks), shape[1])), np.empty(len(runs))
        parts = np.split(by_block, np.cumsum(n_blocks)[:-1])
        for first, part in zip(predicted, parts, strict=True):
            part[0] = first
        doubts = kernels.forward(
            *_joined(densities), transmat, by_block, filtered, of_pieces, runs[-1].is_reversed
        )
        log_likelihoods += of_pieces
        if not (log_likelihoods > -np.inf).all():
            break
        for run, part, doubt in zip(runs, parts, doubts, strict=True):
            run.in_doubt |= doubt
            run.predicted_by_block.append(part)
        predicted = [part[-1] for part in parts]
    return list(zip(log_likelihoods, filtered, strict=True))


def _backward(kernels, runs, later, visit):
    """Return of each run transitions, what `visit` says of its pieces, and the first posterior.

    None if a run needs logs.
    """
    transmat, K = _in(kernels, runs[0].transmat), len(runs[0].first)
    transitions, visited = np.zeros((len(runs), K, K)), [[] for _ in runs]
    is_certain = not any(run.in_doubt for run in runs)
    for i in range(runs[0].n_pieces - 1, -1, -1):
        pieces = [run.piece(i) for run in runs]
        posteriors, offsets = _joined(
            [run.log_densities(i, piece) for run, (piece, _) in zip(runs, pieces, strict=True)]
        )
        predicted, _ = _joined([run.predicted_by_block[i] for run in runs])
        doubts = kernels.backward(
            posteriors, offsets, transmat, predicted, later, transitions, runs[-1].is_reversed,
            is_certain,
        )  # fmt: skip
        if any(doubt and run.in_doubt for run, doubt in zip(runs, doubts, strict=True)):
            return None
        parts = np.split(posteriors, offsets[1:-1])
        if visit is not None:
            for found, piece, posterior in zip(visited, pieces, parts, strict=True):
                found.append(visit(piece[0], posterior, piece[1]))
    return [
        (sums.T if run.is_reversed else sums, found, posterior[0].astype(np.float64))
        for run, sums, found, posterior in zip(runs, transitions, visited, parts, strict=True)
    ]


def explored(model, data, n_piece, n_threads, visit=None, row_log_likelihoods=None):
    """Return log p(v) of one long sequence under a hidden Markov model, and its expectations.

    These are expected transitions (K, K), posteriors (K,) of the first and of the last row, and a
    list of what `visit(piece, posterior, where)` says of each piece, whose rows may go backward in
    time, or None without `visit`. They are None if the sequence is impossible, too.
    """
    n, middle, n_piece = data.n_rows, data.n_rows // 2, _rows_of_piece(n_piece)
    while n % 2 and middle % n_piece == 0:
        n_piece += _KERNEL_ROWS  # so that halves have as many pieces
    runs = [
        _Run(model, data, rows, n_piece) for rows in (range(middle), range(n - 1, middle - 1, -1))
    ]
    log_transmat = log_of(runs[0].transmat)
    for kernels in (_forward_backward, _log_chains):
        scaled = kernels is _forward_backward
        is_shared = n_threads == 1 and len(log_transmat) > _FEW_STATES and scaled
        groups = [runs] if is_shared else [[run] for run in runs]
        n = len(groups)
        found = walk(_forward, n_threads, [kernels] * n, groups, [row_log_likelihoods] * n)
        (first, alpha), (second, w) = chain(*found)
        log_likelihood = first + second
        if not log_likelihood > -np.inf:
            continue
        if scaled:
            alpha, w = log_of(alpha), log_of(w)
        share = logsumexp(alpha[:, None] + log_transmat + w)
        log_likelihood += share
        if share < np.log(_SMALLEST_SHARE) and scaled:
            continue
        if not share > -np.inf or (visit is None and not any(run.in_doubt for run in runs)):
            break
        # Likelihoods of the rows after the halves; the first counts transitions between the two.
        laters = np.full((2, 2, len(w)), -np.inf)
        laters[0] = logsumexp(log_transmat + w, axis=1) - share, w - share
        laters[1, 0] = logsumexp(log_transmat.T + alpha, axis=1) - share
        laters = np.exp(laters) if scaled else laters
        found = walk(_backward, n_threads, [kernels] * n, groups, np.split(laters, n), [visit] * n)
        if None not in found:
            (transitions, visited, first), (others, visited_others, last) = chain(*found)
            both = transitions + others, first, last, visited + visited_others
            return log_likelihood, both if visit is not None else None
    return log_likelihood, None


def filtered_end(model, data, n_piece):
    """Return the filtered distribution of the last state of one long sequence, or zeros."""
    run = _Run(model, data, range(data.n_rows), _rows_of_piece(n_piece))
    [(log_likelihood, filtered)] = _forward(_forward_backward, [run])
    if log_likelihood > -np.inf:
        alone = np.array([[np.ones(len(filtered)), np.zeros(len(filtered))]])
        if not run.in_doubt or _backward(_forward_backward, [run], alone, None) is not None:
            return filtered
    [(log_likelihood, filtered)] = _forward(_log_chains, [run])
    return np.exp(filtered) if log_likelihood > -np.inf else np.zeros(len(filtered))


def decoded(model, data, n_threads, n_piece):
    """Return the best path of one long sequence, and its log-probability, by Viterbi's algorithm.

    All best paths soon have the same origin. The states up to there are settled, so that only
    those that follow have to be kept.
    """
    _, first, transmat, final = model._chain(data)
    log_transmat, best, states = log_of(transmat), log_of(first), np.empty(data.n_rows, np.int64)
    run = _Run(model, data, range(data.n_rows), _rows_of_piece(n_piece))
    small, pending = np.min_scalar_type(len(first) + 16), []

    def settle(state):
        while pending:
            begin, origins = pending.pop()
            stop = begin + len(origins)
            state = _log_chains.trace(
                origins.astype(np.intc, copy=False), state, states[begin:stop]
            )
        states[begin - 1] = state

    for i in range(run.n_pieces):
        piece, where = run.piece(i, n_threads)
        begin, log_densities = where.start, model._log_densities(piece)
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
    through = best + log_of(final)
    settle(int(through.argmax()))
    return states, through.max(keepdims=True)


def _rows_of_piece(n_rows):
    return max(1, n_rows // _KERNEL_ROWS) * _KERNEL_ROWS


def _joined(arrays):
    """Return arrays one after the other, and where each begins, with the end."""
    joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return joined, np.cumsum([0, *map(len, arrays)])


def _in(kernels, probabilities):
    return log_of(probabilities) if kernels is _log_chains else probabilities
