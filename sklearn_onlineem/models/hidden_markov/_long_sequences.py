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


class _Half:
    """A run along half of a sequence, whose pieces follow each other in the order of the run."""

    def __init__(self, model, data, rows, is_reversed, n_piece):
        self._model, self._data, self._rows, self._n_piece = model, data, rows, n_piece
        self.is_reversed, self.n_pieces = is_reversed, -(-len(rows) // n_piece)
        start, first, transmat, final = model._chain(data)
        self.first, self.transmat = (final if is_reversed else first), transmat
        n_kept = max(1, _KEPT_VALUES // (n_piece * len(start)))
        self._log_densities, self._first_kept = {}, self.n_pieces - n_kept
        self.predicted_by_block, self.in_doubt = [], False

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
        rows = Rows.unchecked(X, None, labels)
        return self._data.with_rows(rows, np.array([0, len(X)]), before), where

    def log_densities(self, i, piece):
        found = self._log_densities.pop(i, None)
        return self._model._log_densities(piece)[0] if found is None else found

    def seen(self, i, row_log_likelihoods):
        """Return the log densities of a piece, which may be kept for the way back."""
        piece, where = self.piece(i)
        log_densities = self.log_densities(i, piece)
        if row_log_likelihoods is not None:
            out = row_log_likelihoods[where]
            self._model._best_of_rows(piece, log_densities, out[::-1] if self.is_reversed else out)
        if i >= self._first_kept:
            self._log_densities[i] = log_densities
        return log_densities


def _forward(kernels, halves, row_log_likelihoods=None):
    """Return log-likelihoods of halves, and filtered states at their ends; NaN if logs are needed.

    If a half is `in_doubt`, they may be needed, and `_backward` finds out.
    """
    transmat, K = _in(kernels, halves[0].transmat), len(halves[0].first)
    log_likelihoods, filtered = np.zeros(len(halves)), np.empty((len(halves), K))
    predicted = [_in(kernels, half.first) for half in halves]
    for half in halves:
        half.predicted_by_block, half.in_doubt = [], False
    for i in range(max(half.n_pieces for half in halves)):
        going = [
            h for h, half in enumerate(halves)
            if i < half.n_pieces and log_likelihoods[h] > -np.inf
        ]  # fmt: skip
        if not going:
            break
        densities = [halves[h].seen(i, row_log_likelihoods) for h in going]
        n_blocks = [1 - (-len(rows) // _KERNEL_ROWS) for rows in densities]
        by_block = np.empty((sum(n_blocks), K))
        parts = np.split(by_block, np.cumsum(n_blocks)[:-1])
        for h, part in zip(going, parts, strict=True):
            part[0] = predicted[h]
        ends, of_pieces = np.empty((len(going), K)), np.empty(len(going))
        doubts = kernels.forward(
            *_joined(densities), transmat, by_block, ends, of_pieces, halves[going[-1]].is_reversed
        )
        filtered[going], log_likelihoods[going] = ends, log_likelihoods[going] + of_pieces
        for h, part, doubt in zip(going, parts, doubts, strict=True):
            halves[h].in_doubt |= doubt
            halves[h].predicted_by_block.append(part)
            predicted[h] = part[-1]
    return list(zip(log_likelihoods, filtered, strict=True))


def _backward(kernels, halves, laters, visit):
    """Return of each half transitions, what `visit` says of its pieces, and the first posterior.

    None if a half needs logs.
    """
    transmat, K = _in(kernels, halves[0].transmat), len(halves[0].first)
    transitions, visited = np.zeros((len(halves), K, K)), [[] for _ in halves]
    first = [None] * len(halves)
    for i in range(max(half.n_pieces for half in halves) - 1, -1, -1):
        going = [h for h, half in enumerate(halves) if i < half.n_pieces]
        pieces = [halves[h].piece(i) for h in going]
        posteriors, offsets = _joined(
            [halves[h].log_densities(i, piece) for h, (piece, _) in zip(going, pieces, strict=True)]
        )
        predicted, _ = _joined([halves[h].predicted_by_block[i] for h in going])
        later, sums = laters[going], transitions[going]
        is_reversed = halves[going[-1]].is_reversed
        is_certain = not any(halves[h].in_doubt for h in going)
        doubts = kernels.backward(
            posteriors, offsets, transmat, predicted, later, sums, is_reversed, is_certain
        )
        if any(doubt and halves[h].in_doubt for h, doubt in zip(going, doubts, strict=True)):
            return None
        laters[going], transitions[going] = later, sums
        parts = np.split(posteriors, offsets[1:-1])
        for h, (piece, where), posterior in zip(going, pieces, parts, strict=True):
            if visit is not None:
                lead = int(piece.before is not None)
                visited[h].append(visit(piece, posterior[lead:], where, halves[h].is_reversed))
            first[h] = posterior[0].astype(np.float64)
    return [
        (sums.T if half.is_reversed else sums, *rest)
        for half, sums, *rest in zip(halves, transitions, visited, first, strict=True)
    ]


def explored(model, data, n_piece, n_threads, visit=None, row_log_likelihoods=None):
    """Return log p(v) of one long sequence under a hidden Markov model, and its expectations.

    These are expected transitions (K, K), posteriors (K,) of the first and of the last row, and a
    list of what `visit(piece, posterior, where, is_reversed)` says of each piece, or None without
    `visit`. They are None if the sequence is impossible, too.
    """
    n = data.n_rows + (data.before is not None)
    n_piece = _rows_of_piece(n_piece)
    middle = n // 2
    halves = [
        _Half(model, data, range(middle), False, n_piece),
        _Half(model, data, range(n - 1, middle - 1, -1), True, n_piece),
    ]
    transmat = model._chain(data)[2]
    log_transmat = log_of(transmat)
    for kernels in (_forward_backward, _log_chains):
        is_shared = n_threads == 1 and len(transmat) > _FEW_STATES and kernels is _forward_backward
        groups = [halves] if is_shared else [[half] for half in halves]
        n = len(groups)
        found = walk(_forward, n_threads, [kernels] * n, groups, [row_log_likelihoods] * n)
        found = [*chain(*found)]
        log_likelihood = sum(of_half for of_half, _ in found)
        if not log_likelihood > -np.inf:
            continue
        alpha, w = (state if kernels is _log_chains else log_of(state) for _, state in found)
        share = logsumexp(alpha[:, None] + log_transmat + w)
        log_likelihood += share
        if share < np.log(_SMALLEST_SHARE) and kernels is _forward_backward:
            continue
        if not share > -np.inf:
            break
        in_doubt = halves[0].in_doubt or halves[1].in_doubt
        if visit is None and not in_doubt:
            break
        # Likelihoods of the rows after the halves; the first counts transitions between the two.
        laters = np.full((2, 2, len(w)), -np.inf)
        laters[0] = logsumexp(log_transmat + w, axis=1) - share, w - share
        laters[1, 0] = logsumexp(log_transmat.T + alpha, axis=1) - share
        laters = laters if kernels is _log_chains else np.exp(laters)
        found = walk(_backward, n_threads, [kernels] * n, groups, np.split(laters, n), [visit] * n)
        if None not in found:
            (transitions, visited, first), (others, visited_others, last) = chain(*found)
            both = transitions + others, first, last, visited + visited_others
            return log_likelihood, both if visit is not None else None
    return log_likelihood, None


def filtered_end(model, data, n_piece):
    """Return the filtered distribution of the last state of one long sequence, or zeros."""
    n = data.n_rows + (data.before is not None)
    run = _Half(model, data, range(n), False, _rows_of_piece(n_piece))
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
    start, first, transmat, final = model._chain(data)
    if data.before is not None:
        first = first @ transmat  # the state before the first row is not part of the path
    log_transmat, best, states = log_of(transmat), log_of(first), np.empty(data.n_rows, np.int64)
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
        piece = data.with_rows(rows, np.array([0, len(X)]))
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
