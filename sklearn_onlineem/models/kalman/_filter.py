"""E-steps of linear dynamical systems, by the kernels of the Kalman filter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack

from sklearn_onlineem._kernels import _gaussian, _kalman
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats
from sklearn_onlineem._values import quick
from sklearn_onlineem.data.rows import task
from sklearn_onlineem.families._family import NOTHING
from sklearn_onlineem.families.covariance_shapes import LOG_2_PI
from sklearn_onlineem.families.linear_gaussian import joined
from sklearn_onlineem.models.terminations import HORIZON, OWN_SHARE
from sklearn_onlineem.statistics import Moments, Statistics


@quick
@dataclass(frozen=True)
class LinearDynamicalStatistics(Statistics):
    """Expected statistics of a linear dynamical system, for each sequence.

    Those of a diffuse system with independent noise are sufficient for what is learnt, not for
    more: where coefficients are known, they are moments of the noise, with states of 0.

    Parameters
    ----------
    initial : Moments
        Of the first states of sequences.
    transitions : Moments
        Of successive states, (h_t-1, h_t).
    emissions : Moments
        Of states and rows, (h_t, v_t).
    """

    initial: Moments
    transitions: Moments
    emissions: Moments

    @property
    def parts(self) -> tuple[Moments, Moments, Moments]:
        return self.initial, self.transitions, self.emissions


def allocate_sums(k, d):
    """Allocate weight, mean and scatter of each part of a single system's statistics."""
    return tuple(np.empty(1 + n + n * n) for n in (k, 2 * k, k + d))


def statistics_of(sums, fresh=True):
    """Return statistics from a kernel's sums; without first states if sequences are not fresh."""
    statistics = LinearDynamicalStatistics(*map(_moments, sums))
    if not fresh:
        statistics.initial.weight[:], statistics.initial.scatter[:] = 0.0, 0.0
    return statistics


def _moments(sums):
    n = math.isqrt(len(sums))
    scatter = sums[n + 1 :].reshape(1, n, n)
    return Moments(sums[:1], sums[:1], sums[None, 1 : n + 1], scatter)


_CENTRE_ROWS = 1 << 8


@dataclass
class Prepared:
    """Sequences whose first states have one distribution."""

    X: Floats
    offsets: Floats
    # Mean and covariance of the first states; or means, of each.
    first: tuple
    # 1 if the only sequence continues another: then a row without any value, for the state before,
    # is in front of the data.
    n_lead: int = 0

    def __len__(self):
        return len(self.offsets) - 1


def prepared(data, first):
    """Return sequences that have the `first` states, or the one that continues another."""
    if data.before is None:
        return Prepared(np.ascontiguousarray(data.X, dtype=np.float64), data.offsets, first)
    X = np.empty((data.n_rows + 1, data.X.shape[1]))
    X[0], X[1:] = np.nan, data.X
    return Prepared(X, np.array([0, len(X)]), data.before, n_lead=1)


def alike(data):
    """Return the sequence that continues another one, if there is one, and the others."""
    return [data] if data.before is None or len(data) == 1 else [data[:1], data[1:]]


def split_by_gaps(data):
    """Return sequences without missing values, and the others; None for none."""
    if data.observed is None:
        return data, None
    n_values = data.X.shape[1]
    has_gaps = np.logical_or.reduceat(np.isnan(data.X).ravel(), n_values * data.offsets[:-1])
    if has_gaps.all():
        return None, data
    return data[np.flatnonzero(~has_gaps)], data[np.flatnonzero(has_gaps)]


def _row_moments(X, n_threads):
    """Return a centre of rows, the mean of their deviations from it, and their scatter."""
    (n, d), X = X.shape, np.asarray(X, dtype=np.float64)
    # Some rows say where all are.
    centre = X[:: max(1, n // _CENTRE_ROWS)].mean(axis=0)
    first, second = np.empty((1, d)), np.empty((1, d, d))
    given, counts = task(responsibilities=np.ones((n, 1))), np.empty(1)
    _gaussian.mixture_pass(X, centre[None], None, None, given, counts, first, second, n_threads)
    rest = first[0] / n
    return centre, rest, second[0] - n * np.outer(rest, rest)


class Padded:
    """Arrays of a model, with its k states padded with zeros to whole vectors.

    `arrays` are those of each row, as `Known.of_filter` returns them; None: rows share all.
    """

    def __init__(self, model, arrays=None):
        self.k, self.d = model.n_components, model.n_features
        self.width = _kalman.width(self.k)
        # Not the model, which has this one.
        self._noise = model.transitions.covariance, model.emissions.covariance
        self._arrays, self._varies = arrays or model.shared, arrays is not None

    @cached_property
    def transitions(self):
        A, b = (self._arrays[f"transition_{what}"] for what in ("matrices", "offsets"))
        A = self._square(A)
        return A, np.ascontiguousarray(A.mT), self._padded(b), self._square(self._noise[0])

    @cached_property
    def system(self):
        C, offset = (self._arrays[f"observation_{what}"] for what in ("matrices", "offsets"))
        return *self.transitions, self._padded(C), np.ascontiguousarray(offset), self._noise[1]

    def filtered(self, sequences, n_threads, *, predicted=False, filtered=False):
        """Return moments before each row and given it, if wanted, and log densities of rows."""
        n_rows = len(sequences.X)
        moments = [*self._allocate(n_rows, predicted), *self._allocate(n_rows, filtered)]
        log_densities, arguments = np.empty(n_rows), self._arguments(sequences)
        parts = None if predicted or filtered or self._varies else self._batched(sequences)
        if parts is None or not self._in_batches(
            parts, *arguments, False, n_threads, log_densities
        ):
            rows = (*moments, log_densities, *4 * (None,))
            unused = np.empty(len(sequences))
            _kalman.filter_pass(*arguments, rows, None, None, unused, n_threads)
        return *moments, log_densities

    def smoothed(self, sequences, n_threads):
        """Return means, covariances, lag-one covariances, completed rows, and log densities."""
        n_rows = len(sequences.X)
        (means, covariances), log_densities = self._allocate(n_rows, True), np.empty(n_rows)
        lags, filled = np.zeros_like(covariances), np.empty_like(sequences.X)
        rows = *4 * (None,), log_densities, means, covariances, lags, filled
        unused = np.empty(len(sequences))
        _kalman.filter_pass(*self._arguments(sequences), rows, None, None, unused, n_threads)
        return means, covariances, lags, filled, log_densities

    def expected(self, sequences, n_threads, rng=None, log_densities=NOTHING):
        """Return sums over sequences: statistics, and log-likelihood; fill in those of rows."""
        arguments = self._arguments(sequences)
        parts = self._batched(sequences) if rng is None else None
        found = None
        if parts is not None:
            found = self._in_batches(parts, *arguments, True, n_threads, log_densities)
        if found is not None:
            sums, log_likelihoods = found
        else:
            noise = None if rng is None else rng.standard_normal((len(sequences.X), self.k))
            sums, log_likelihoods = allocate_sums(self.k, self.d), np.empty(len(sequences))
            rows = (*4 * (None,), log_densities, *4 * (None,))
            _kalman.filter_pass(*arguments, rows, noise, sums, log_likelihoods, n_threads)
        return statistics_of(sums, fresh=not sequences.n_lead), log_likelihoods.sum()

    def _batched(self, sequences):
        """Return begins and lengths of sequences in batches, and which rows count; or None."""
        is_single = len(sequences) == 1
        is_short = is_single and len(sequences.X) < _SEGMENTS * _SEGMENT_ROWS
        if is_short or sequences.first[0].ndim > 1:
            return None
        lengths, most = np.diff(sequences.offsets), _kalman.longest_batched(self.k, self.d)
        if is_single:
            reach = SharedGains(self, sequences.first, lengths[0])._reach
            return _segments(lengths[0], reach, most)
        if lengths.max() > most:
            return None
        order = np.argsort(-lengths, kind="stable")
        lengths = lengths[order]
        return np.array([sequences.offsets[:-1][order], lengths, 0 * lengths, lengths])

    def _in_batches(self, parts, X, offsets, system, k, first, smooths, n_threads, log_densities):
        """Return sums, and log-likelihoods of parts; fill in those of rows.

        None for parts of one sequence whose ends do not agree.
        """
        n_parts, is_cut = parts.shape[1], parts.shape[1] > len(offsets) - 1
        sums, log_likelihoods = allocate_sums(k, self.d), np.empty(n_parts)
        borders = np.full((n_parts, 2, 2, k + k**2), np.nan) if is_cut else NOTHING
        _kalman.expected_in_batches(
            X, parts, system, k, first, smooths, sums, borders, log_densities, log_likelihoods,
            n_threads,
        )  # fmt: skip
        if is_cut and not _agree(parts, borders, k, smooths):
            return None
        return sums, log_likelihoods

    def _arguments(self, sequences):
        first = self.moments(*sequences.first)
        return sequences.X, sequences.offsets, self.system, self.k, first

    def _allocate(self, n_rows, wanted):
        if not wanted:
            return NOTHING, NOTHING
        return np.empty((n_rows, self.k)), np.empty((n_rows, self.k, self.k))

    def moments(self, mean, covariance):
        """Return means (k,) or (n, k), each with their covariance after it."""
        padded = np.zeros((*mean.shape[:-1], 1 + self.width, self.width))
        padded[..., 0, : self.k], padded[..., 1 : 1 + self.k, : self.k] = mean, covariance
        return padded.ravel()

    def _padded(self, values):
        padded = np.zeros((*values.shape[:-1], self.width))
        padded[..., : self.k] = values
        return padded

    def _square(self, matrix):
        padded = np.zeros((*matrix.shape[:-2], self.width, self.width))
        padded[..., : self.k, : self.k] = matrix
        return padded


# Segments of a sequence come in such numbers; their rows, at least; and how well the moments have
# to agree where they meet, in units of standard deviations.
_SEGMENTS, _SEGMENT_ROWS, _AGREEMENT = _kalman.SEQUENCES_PER_BATCH, 512, 1e-12


def _segments(n_rows, reach, most):
    """Return segments of a long sequence, as `Padded._batched` does, or None if it is too short.

    They overlap by twice the rows after which passes forget where they started.
    """
    length = max(_SEGMENT_ROWS, 4 * reach)
    n_segments = _SEGMENTS * (n_rows // (_SEGMENTS * length))
    if n_segments == 0 or reach == 0 or most < 3 * length:
        return None
    bounds = np.arange(n_segments + 1) * n_rows // n_segments
    begins = np.maximum(bounds[:-1] - reach, 0)
    lengths = np.minimum(bounds[1:] + reach, n_rows) - begins
    parts = np.array([begins, lengths, bounds[:-1] - begins, bounds[1:] - begins])
    return np.ascontiguousarray(parts[:, np.argsort(-lengths, kind="stable")])


def _agree(parts, borders, k, smooths):
    """Return whether moments are the same where one segment ends and the next begins."""
    in_order = borders[np.argsort(parts[0])]
    before, after = in_order[:-1, 1], in_order[1:, 0]
    means, matrices = after[..., :k], after[..., k:].reshape(-1, 2, k, k)
    roots, covariances = matrices[:, 0], matrices[:, 1]
    predicted = np.sqrt((roots**2).sum(axis=1))
    smoothed = np.sqrt(np.abs(np.einsum("sii->si", covariances)))
    units = np.stack([predicted, smoothed], axis=1)
    scales = np.stack(
        [
            np.broadcast_to(predicted[:, None], roots.shape),
            smoothed[:, :, None] * smoothed[:, None],
        ],
        axis=1,
    )
    most = np.concatenate([units + np.abs(means), scales.reshape(-1, 2, k * k)], axis=2)
    return bool((np.abs(before - after) <= _AGREEMENT * most)[:, : 1 + smooths].all())


# Most bytes of tables of gains, and steps after which most systems are at rest.
_TABLE_BYTES, _USUAL_STEPS = 1 << 26, 128
# Rows of a part, at least a sequence, for one thread.
_PART_ROWS = 1 << 11
# Least share of a square in the terms that it is a sum of, for which digits enough are left.
_LEAST_SHARE = 1e-5
# Rows that are not worth a cut.
_FEWEST_CUT_ROWS = 512
# Short sequences are put into parts in batches of this size.
_BATCH = _kalman.SEQUENCES_PER_BATCH


class SharedGains:
    """Gains of the filter and smoother, for each step up to where they no longer change."""

    def __init__(self, padded, first, longest):
        self._padded, self._k, self._width = padded, padded.k, padded.width
        self._transitions = padded.transitions
        self._start, self._covariance = padded._padded(first[0]), padded._square(first[1])
        self._longest = longest

    @property
    def suffice(self):
        return self._width <= _kalman.WIDEST and (self._tables[1] or self._n_most >= self._longest)

    @property
    def _n_most(self):
        return max(1, min(self._longest, _TABLE_BYTES // (40 * self._width**2)))

    @cached_property
    def _tables(self):
        W = self._width
        # Large arrays would be mapped anew each time, and few systems need them.
        for n in (min(self._n_most, _USUAL_STEPS), self._n_most):
            if n < self._n_most <= 2 * _USUAL_STEPS:
                continue
            arrays = (*(np.empty((n, W, W)) for _ in range(5)), np.empty(n))
            covariance = self._covariance.copy()
            n_steps, at_rest = _kalman.fill_tables(
                self._observation_maps[2], self._transitions, self._k, covariance, arrays
            )
            if at_rest or n == self._n_most:
                break
        return tuple(array[:n_steps] for array in arrays), at_rest

    @cached_property
    def _root(self):
        """The Cholesky factor of the noise of rows."""
        return lapack.dpotrf(self._padded.system[-1], lower=1)[0]

    @cached_property
    def _reach(self):
        """Rows after which passes in the steady state have forgotten their starts; 0: too many."""
        (filtered, _, _, gain, _, log_det), at_rest = self._tables
        if not at_rest or self._longest < len(log_det) + _FEWEST_CUT_ROWS:
            return 0
        A, F, G = self._transitions[0], filtered[-1], self._observation_maps[-1]
        # In units of the states; those without variance are never forgotten.
        units = np.sqrt(F.diagonal()[: self._k])
        if not units.all():
            return 0
        # Errors of an unstable system may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.array([A @ (np.eye(len(A)) - F @ G), gain[-1].T])
            errors = errors[:, : self._k, : self._k] * units / units[:, None]
        reaches = [*map(_kalman.forgetting_steps, errors)]
        return max(reaches) if all(reaches) else 0

    @cached_property
    def _observation_maps(self):
        C, offset, _ = self._padded.system[4:]
        whitening = lapack.dtrtri(self._root, lower=1)[0]
        # Only the first whitened values, once they are rotated, depend on the state.
        rotation, rotated = np.linalg.qr(whitening @ C[:, : self._k], mode="complete")
        Ht = np.zeros((self._width, self._width))
        Ht[: self._k, : len(rotated[: self._k])] = rotated[: self._k].T
        return offset, whitening.T @ rotation, Ht, Ht @ Ht.T

    def _without_noise(self, n_rows, centre, rest, scatter):
        """Return maps without whitened values that no state has a part in, and their squares.

        The sum of these over rows follows from the rows' moments, unless it is a small difference.
        """
        offset, whitening, *others = self._observation_maps
        # Far from 0, rows have more digits than their mean.
        noise, shift = whitening[:, self._k :], centre - offset + rest
        second = scatter + n_rows * np.outer(shift, shift)
        squares = (noise * (second @ noise)).sum(axis=0)
        if (squares >= _LEAST_SHARE * (np.sqrt(second.diagonal()) @ np.abs(noise)) ** 2).all():
            return (offset, whitening[:, : self._k].copy(), *others), squares.sum()
        return self._observation_maps, 0.0

    def expected(self, data, log_densities=NOTHING, smooths=True, firsts=None):
        """Return sums over sequences without missing values: statistics, and log-likelihood.

        Fill in log densities of rows, given those before; None if nothing else is wanted. Fill in
        smoothed means of the first states, too, and the mean of their covariances.
        """
        k, d, n_rows = self._k, self._padded.d, len(data.X)
        log_det_noise = d * LOG_2_PI + 2.0 * np.log(self._root.diagonal()).sum()
        order, bounds, distinct, counts = data.rows.remember(
            ("walks", data.offsets.tobytes()), lambda: _walks(data.lengths)
        )
        maps, squares, row_centre = self._observation_maps, 0.0, self._observation_maps[0]
        if smooths:
            # All iterations need the same moments of rows.
            moments = data.rows.remember("moments", lambda: _row_moments(data.X, data.n_threads))
            row_centre, _, row_scatter = moments
            if log_densities is NOTHING and k < d:
                maps, squares = self._without_noise(n_rows, *moments)
        sums, covariances = allocate_sums(k, d), np.zeros((5, self._width, self._width))
        squares += _kalman.expected_by_tables(
            data.X, data.offsets[:-1], data.lengths, order, bounds, row_centre, self._transitions,
            k, self._tables[0], maps, self._start, self._reach, log_det_noise, smooths, sums,
            firsts[0] if firsts else NOTHING, log_densities, data.n_threads,
        )  # fmt: skip
        if not smooths:
            return None
        log_det = _kalman.covariances(distinct, counts, self._tables[0], k, covariances)
        first, departing, arriving, emitting, lagged = covariances[:, :k, :k]
        statistics = statistics_of(sums)
        statistics.initial.scatter[:] += first
        if firsts:
            firsts[1][:] = first / len(data)
        statistics.transitions.scatter[:] += joined(departing, lagged, arriving)
        statistics.emissions.scatter[:, :k, :k] += emitting
        statistics.emissions.scatter[:, k:, k:] = row_scatter
        return statistics, -0.5 * (log_det + n_rows * log_det_noise + squares)


def _walks(lengths):
    """Return the order in which sequences are walked, where parts begin in it, and lengths."""
    begins = np.cumsum(lengths) - lengths
    if lengths.max() * _BATCH <= _PART_ROWS:
        begins = np.repeat(begins[::_BATCH], _BATCH)[: len(lengths)]
    part = begins // _PART_ROWS
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(part)) + 1, [len(lengths)]))
    return np.lexsort((-lengths, part)), bounds, *np.unique(lengths, return_counts=True)


# Growth of the squares of states within the horizon.
_MOST_GROWTH = 10.0


def occupancies(moves, first, like, growth):
    """Return moments, per sequence, of the states that transitions leave and of those that emit.

    `moves` are matrix, offset and covariance of the transitions, with an axis of components;
    `growth` is by how much states grow in a step, at least 1, where a sequence is continued.
    """
    A, b, Q = (values[0] for values in moves)
    leaving, emitting = np.zeros((2, 1 + len(b) + len(b) ** 2))
    if (like.before is None or len(like) > 1) and len(like.steps[0]):
        _kalman.add_occupancies(*like.steps, A, b, Q, *first, leaving, emitting)
    if like.before is not None:
        steps = _steps(int(like.lengths[0]), like.share_of_first, growth)
        # Nothing is left by the last transition, nor emitted by the state before.
        _kalman.add_occupancies(*steps, A, b, Q, *like.before, leaving, emitting)
    return _moments(leaving), _moments(emitting)


@lru_cache(maxsize=8)
def _steps(n_rows, share, growth):
    """Return ends and weights: of the state before a piece, of its rows, and of some ahead."""
    horizon = 0
    if n_rows < HORIZON:
        # The faster an unstable system grows, the fewer rows there are ahead.
        horizon = HORIZON
        if growth > 1.0:
            horizon = min(HORIZON, int(np.log(_MOST_GROWTH) / (2.0 * np.log(growth))))
    if horizon <= n_rows:
        return np.array([1, 1 + n_rows]), np.array([0.0, share])
    ahead = (1.0 - OWN_SHARE) * share * n_rows / horizon
    ends = np.array([1, 1 + n_rows, 1 + horizon])
    return ends, np.array([0.0, ahead + OWN_SHARE * share, ahead])
