"""Rows of a stream that are far too surprising, and are left out of learning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.stages.base import EStep, Inner, Stage, Stream
from sklearn_onlineem.em.state import Carry, State, Update
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.capabilities import RowLikelihoods

# Latest rows of a stream whose log-likelihoods are kept.
_WINDOW = 1000


class RunningQuantiles(NamedTuple):
    """Exact quantiles of the latest numbers of a stream: a frozen value.

    They do not depend on how the stream is cut into batches. At most `window` numbers are kept, the
    oldest first.

    Examples
    --------
    >>> from sklearn_onlineem.em.stages.outliers import RunningQuantiles
    >>> running = RunningQuantiles(window=5).after([9.0, 1.0]).after([2.0, 3.0, 4.0, 5.0])
    >>> running.latest
    array([1., 2., 3., 4., 5.])
    >>> running.quantile(0.5), running.quantile(0.9)
    (3.0, 4.6)
    """

    latest: Floats = np.empty(0)
    window: int = _WINDOW

    def after(self, values: ArrayLike) -> RunningQuantiles:
        """Return the quantiles after more numbers."""
        latest = np.concatenate([self.latest, values])[-self.window :]
        return RunningQuantiles(latest, self.window)

    def quantile(self, q: float) -> float:
        """Return a quantile, interpolated linearly as by `numpy.quantile`; NaN without numbers."""
        n_values = len(self.latest)
        if not n_values:
            return math.nan
        position = q * (n_values - 1)
        below, above = math.floor(position), math.ceil(position)
        # Several times as fast as `np.partition` with two numbers.
        ordered = np.sort(self.latest)
        low, high, share = float(ordered[below]), float(ordered[above]), position - below
        # Infinite or equal ones have nothing between them.
        return low if low == high else (1.0 - share) * low + share * high


def repeated_quantile(values: Floats, weights: Floats, q: float) -> float:
    """Return a quantile of numbers, each repeated as often as its weight says, as `quantile`."""
    order = np.argsort(values)
    n_until = np.cumsum(weights[order])
    position = q * (n_until[-1] - 1.0)
    ranks = [np.floor(position), np.ceil(position)]
    found = values[order[np.searchsorted(n_until, ranks, side="right")]]
    return RunningQuantiles(found).quantile(float(position - ranks[0]))


class Repetitions(NamedTuple):
    """How often each observation of a batch counts: its weight as a whole number, from 1 up.

    Observations without weight do not count. The gate decides as if others were repeated.

    The rows of observation i are those from `offsets[i]` to `offsets[i + 1]`; `counts` are at most
    1,000, which fill each window.
    """

    offsets: Integers
    counts: Integers

    @classmethod
    def of(cls, batch: Batch) -> Repetitions | None:
        """Return the repetitions of a batch; None if it has no weights."""
        weight = batch.sample_weight
        if weight is None:
            return None
        offsets = getattr(batch, "offsets", np.arange(batch.n_rows + 1))
        counts = np.clip(np.rint(weight), weight > 0.0, _WINDOW).astype(int)
        return cls(offsets, counts)

    @property
    def of_rows(self) -> Integers:
        """How often each row counts."""
        return np.repeat(self.counts, np.diff(self.offsets))

    def latest(self, values: Floats) -> Floats:
        """Return the latest of repeated numbers, one for each row; NaN is left out."""
        known = np.flatnonzero(~np.isnan(values))
        offsets = np.searchsorted(known, self.offsets)
        lengths = np.diff(offsets)
        n_each = lengths * np.minimum(self.counts, _WINDOW // np.maximum(lengths, 1) + 1)
        first = len(n_each) - np.searchsorted(np.cumsum(n_each[::-1]), _WINDOW) - 1
        n_each[: max(first, 0)] = 0
        of = np.repeat(np.arange(len(n_each)), n_each)
        places = np.arange(len(of)) - np.searchsorted(of, of)
        return values[known[offsets[of] + places % lengths[of]]]

    def numbered(self, rows: Integers) -> tuple[Integers, Integers]:
        """Return repeated rows in order, and their numbers, counted back from the end of the batch.

        Repetitions that cannot change what is left out are not among them.
        """
        lengths = np.diff(self.offsets)
        # Of so many, no window has rows both before and after them.
        counts = np.minimum(self.counts, np.maximum(2 * _REMEMBERED, _WINDOW // lengths + 1))
        # All of these are too many for outliers, the first and the last ones by themselves.
        is_many = lengths * (_TOO_MANY - 1) < _WITHIN
        n_told = np.where(is_many, np.minimum(counts, 2 * _TOO_MANY), counts)
        ends = np.cumsum(counts * lengths)
        firsts = ends - counts * lengths - ends[-1] - self.offsets[:-1]
        of = np.searchsorted(self.offsets, rows, side="right") - 1
        rows, of = np.repeat(rows, n_told[of]), np.repeat(of, n_told[of])
        which = np.arange(len(rows)) - np.searchsorted(rows, rows)
        which += (counts - n_told)[of] * (which >= _TOO_MANY)
        numbers = firsts[of] + rows + lengths[of] * which
        order = np.argsort(numbers)
        return rows[order], numbers[order]


# The bound is computed from so many rows, and then anew after so many, of one of so many steps (a
# prime, so that no period of a source is missed), as quantiles take as long as some steps.
_FEWEST_ROWS, _ROWS_BETWEEN, _STEPS_BETWEEN = 100, 250, 11
# So many times the distance of the 99 % quantile from the median, above that quantile. With
# 10, excursions that belong to a source are left out, too (benchmarks/real_data/outliers.py).
_DISTANCES = 100.0
# That distance is at least so many nats: most symbols of a stream may be equally likely.
_LEAST_DISTANCE = 1.0
# So many surprising rows within so many are no outliers: 3 %.
_TOO_MANY, _WITHIN = 9, 300
# In the first rows of a stream, so many times what most of a column spans.
_SPREADS = 100.0
# A row is no outlier if so many of those last left out were as surprising, but for a factor.
_ALIKE, _REMEMBERED, _FACTOR = 10, 20, 2.0
_NO_ROWS = np.empty(0, dtype=int)


@dataclass(frozen=True)
class Gate(Carry):
    """What tells outliers: the log-likelihoods of the rows of a stream so far."""

    # Log-likelihood below which rows are surprising.
    least: float = -math.inf
    # Log-likelihoods of rows since `least` was computed, of some of the batches, NaN for rows that
    # are missing; how many they are; and those of rows before.
    latest: tuple[Floats, ...] = ()
    n_latest: int = 0
    before: RunningQuantiles = RunningQuantiles()
    # Numbers of the surprising rows among the last 300, counted back from the end of the batch.
    suspects: tuple[int, ...] = ()
    # By how much the last rows that were left out were more surprising than the median, and the
    # excess up to which rows are no outliers, as enough of this size have come.
    excesses: tuple[float, ...] = ()
    accepted: float = 0.0
    # Rows left out so far, and those of the latest batch, counted from its first row.
    n_left_out: int = 0
    left_out: tuple[int, ...] = ()
    # Of each class, how many more of the rows with its label were surprising than were not.
    balances: tuple[float, ...] = ()

    def of_start(self, model: Model, data: Batch) -> Gate:
        """Return the gate after the rows that a model has started from."""
        log_likelihoods = np.empty(data.n_rows)
        model.e_step(data, None, log_likelihoods)
        repeats = Repetitions.of(data)
        balances = self.balances or _unlike_their_class(data, _NO_ROWS, repeats)[1]
        begun = Gate(n_left_out=self.n_left_out, left_out=self.left_out, balances=balances)
        return begun.after(log_likelihoods, repeats)

    def after(self, log_likelihoods: Floats, repeats: Repetitions | None = None) -> Gate:
        """Return the gate after more rows."""
        n_latest = self.n_latest + len(log_likelihoods)
        if repeats is not None:
            n_latest = self.n_latest + int(repeats.of_rows.sum())
            log_likelihoods = repeats.latest(log_likelihoods)
        latest = (*self.latest, log_likelihoods)
        if n_latest < (_ROWS_BETWEEN if len(self.before.latest) else _FEWEST_ROWS):
            return replace(self, latest=latest, n_latest=n_latest)
        values = np.concatenate(latest)
        before = self.before.after(values[~np.isnan(values)])
        low, middle = before.quantile(0.01), before.quantile(0.5)
        least = low - _DISTANCES * max(middle - low, _LEAST_DISTANCE)
        # Infinite differences, and no rows at all.
        least = -math.inf if math.isnan(least) else least
        return replace(self, least=least, latest=(), n_latest=0, before=before)

    def outliers(
        self,
        log_likelihoods: Floats,
        repeats: Repetitions | None = None,
        data: Batch | None = None,
    ) -> tuple[Integers, Gate]:
        """Return numbers of the rows of a batch to leave out, and the gate that knows of them.

        A surprising row is no outlier if there are many of them, as the source has changed, if most
        rows with its label are surprising, as those of a class that comes late are, or if it is
        like those that were left out before, as rows of a rare cluster are. A row that counts
        several times is left out if each of its repetitions is.

        Log-likelihoods of rows that are missing are NaN.
        """
        rows = np.flatnonzero(log_likelihoods < self.least)
        rows, balances = _unlike_their_class(data, rows, repeats, self.balances)
        numbers = rows - len(log_likelihoods)
        if repeats is not None:
            rows, numbers = repeats.numbered(rows)
        numbers = np.concatenate([self.suspects, numbers]).astype(int)
        are_many = np.zeros(len(numbers), bool)
        for k in np.flatnonzero(numbers[_TOO_MANY - 1 :] - numbers[: 1 - _TOO_MANY] < _WITHIN):
            are_many[k : k + _TOO_MANY] = True
        are_many = are_many[len(self.suspects) :]
        usual, excesses, accepted = self.before.quantile(0.5), self.excesses, self.accepted
        learnt = set(rows[are_many].tolist())
        for row in rows[~are_many].tolist():
            excess = float(usual - log_likelihoods[row])
            if not excess <= accepted:
                excesses = (*excesses, excess)[-_REMEMBERED:]
                are_alike = (excess <= x * _FACTOR <= excess * _FACTOR**2 for x in excesses)
                if sum(are_alike) > _ALIKE:
                    # Once some are learnt, others surprise less.
                    accepted = _FACTOR * excess
            if excess <= accepted:
                learnt.add(row)
        left_out = [row for row in np.unique(rows).tolist() if row not in learnt]
        return np.array(left_out, dtype=int), replace(
            self,
            suspects=tuple(row for row in numbers.tolist() if row >= -_WITHIN),
            excesses=excesses,
            accepted=accepted,
            n_left_out=self.n_left_out + len(left_out),
            left_out=tuple(left_out),
            balances=balances,
        )

    def before_batch(self, n_rows: int) -> Gate:
        """Return the gate before the next batch, of `n_rows` rows."""
        # Numbers of former versions counted from the first row of the stream.
        suspects = tuple(row - n_rows for row in self.suspects if -_WITHIN < row < 0)
        return replace(self, left_out=(), suspects=suspects)


def _unlike_their_class(data, rows, repeats, balances=()):
    """Return those of surprising rows of whose class fewer are so than not, and new balances.

    Rows without a label have no class.
    """
    if data is None or data.labels is None:
        return rows, balances
    labels, signs = data.labels, np.full(data.n_rows, -1.0)
    signs[rows] = 1.0
    if repeats is not None:
        signs *= repeats.of_rows
    # Class k is number k + 1.
    found = np.bincount(labels + 1, signs, len(balances) + 1)
    found[1 : len(balances) + 1] += balances
    found[0] = -math.inf
    return rows[found[labels[rows] + 1] < 0.0], tuple(found[1:].tolist())


def far_away(data: Batch) -> Integers:
    """Return numbers of the rows with a value far outside of what most of its column has.

    Those are outliers before there is a model: beyond the 5 % and 95 % quantiles by a hundred times
    their distance. None if they are 3 % of the rows or more, or all that have a value of a column.
    Rows count by their weights. Classes of which half of the labelled rows are far away lie there.
    """
    X, repeats, counts = data.X, Repetitions.of(data), np.ones(data.n_rows)
    if repeats is not None:
        counts = repeats.of_rows.astype(float)
    if not isinstance(X, np.ndarray) or counts.sum() * _TOO_MANY <= _WITHIN:
        return _NO_ROWS
    X = X[:, ~np.isnan(X[counts > 0.0]).all(axis=0)]
    if repeats is None:
        quantile = np.nanquantile if np.isnan(X).any() else np.quantile
        low, high = quantile(X, [0.05, 0.95], axis=0)
    else:
        known = ~np.isnan(X) & (counts > 0.0)[:, None]
        parts = [(x[rows], counts[rows]) for x, rows in zip(X.T, known.T, strict=True)]
        low, high = np.array([[repeated_quantile(*x, q) for x in parts] for q in (0.05, 0.95)])
    reach = _SPREADS * (high - low)
    # Columns of one value, with exceptions, have no spread.
    beyond = ((X < low - reach) | (X > high + reach)) & (reach > 0.0)
    rows = np.flatnonzero(beyond.any(axis=1) & (counts > 0.0))
    rows, _ = _unlike_their_class(data, rows, repeats)
    are_few = counts[rows].sum() * _WITHIN < _TOO_MANY * counts.sum()
    is_last = len(rows) and np.isnan(np.delete(X, rows, axis=0)).all(axis=0).any()
    return rows[:0] if is_last or not are_few else rows


_BEFORE_ROWS = Gate()


@dataclass(frozen=True)
class SkipOutliers(Stage):
    """Rows of a stream that are far too surprising are left out of learning, see `Online`."""

    name = "gate"
    requires = RowLikelihoods

    def begin(
        self, state: State, data: Batch | None, n_left_out: int, is_final: bool
    ) -> Carry | None:
        has_none = data is None or not isinstance(state.model, RowLikelihoods)
        return None if has_none else Gate(n_left_out=n_left_out).of_start(state.model, data)

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        model, gate = state.model, state.carry.get(self.name, _BEFORE_ROWS)
        repeats = None if batch.sample_weight is None else Repetitions.of(batch)
        if gate.left_out or gate.suspects:
            n_rows = batch.n_rows if repeats is None else int(repeats.of_rows.sum())
            gate = gate.before_batch(n_rows)
        log_likelihoods, usual = np.empty(batch.n_rows), batch
        rng = state.rng() if stream.draws or model.draws else None
        try:
            statistics, log_likelihood = model.e_step(batch, rng, log_likelihoods)
        except ours(ValueError):
            # One of several models may explain the batch.
            update = inner(state, batch, stream)
            update.carry[self.name] = gate
            return update
        found = EStep(statistics, log_likelihood, rng)
        if repeats is not None:
            # Rows without weight surprise nobody.
            log_likelihoods[repeats.of_rows == 0] = np.inf
        # Not `min`, which takes longer than this test of a single row.
        if log_likelihoods[log_likelihoods.argmin()] >= gate.least:
            # Once each class is well known, more of its rows say nothing new.
            if batch.labels is not None and max(gate.balances, default=0.0) > -_WINDOW:
                _, balances = _unlike_their_class(batch, _NO_ROWS, repeats, gate.balances)
                gate = replace(gate, balances=balances)
            if not state.counters.n_steps % _STEPS_BETWEEN or gate.least == -math.inf:
                gate = gate.after(log_likelihoods, repeats)
        else:
            if model.is_chained:
                log_likelihoods = _after_usual_rows(model, batch, rng, log_likelihoods, gate)
            rows, gate = gate.outliers(log_likelihoods, repeats, batch)
            gate = gate.after(log_likelihoods, repeats)
            if len(rows):
                usual = batch.without(rows)
                if usual is None:
                    return Update(model, 0.0, log_likelihood, None, 0.0, carry={self.name: gate})
                found = EStep(*model.e_step(usual, rng), rng)
        update = inner(state, usual, stream, found)
        update.carry[self.name] = gate
        return update

    def warning(self, before: State | None, after: State, data: Batch) -> str | None:
        gate = after.carry.get(self.name)
        if gate is None or not gate.n_left_out:
            return None
        before = before and before.carry.get(self.name)
        n_before, n = before.n_left_out if before else 0, gate.n_left_out
        # The first one, and each tenfold number.
        if n == n_before or (n_before and len(str(n)) == len(str(n_before))):
            return None
        rows = "row was" if n == 1 else "rows were"
        return (
            f"{n} {rows} far more surprising than others of the stream, and left out of learning. A"
            " solver with skips_outliers=False learns such rows, too."
        )


def without_outliers(carry: Mapping[str, Carry], data: Batch) -> Batch | None:
    """Return the last batch without the rows that its step has left out, or None."""
    gate = carry.get(SkipOutliers.name)
    return data.without(np.array(gate.left_out)) if gate and gate.left_out else data


def _after_usual_rows(model, data, rng, log_likelihoods, gate):
    """Return log-likelihoods of rows, each given those before it that are not surprising."""
    surprising = np.empty(0, dtype=int)
    for _ in range(_TOO_MANY * (1 + int(np.diff(data.offsets).max()) // _WITHIN)):
        rows = np.setdiff1d(np.flatnonzero(log_likelihoods < gate.least), surprising)
        if not len(rows):
            break
        # The first of each sequence; those after it may be no surprise without it.
        sequences = np.searchsorted(data.offsets, rows, side="right")
        firsts = rows[np.unique(sequences, return_index=True)[1]]
        before, surprising = log_likelihoods, np.union1d(surprising, firsts)
        log_likelihoods = np.empty(data.n_rows)
        model.e_step(data.without(surprising), rng, log_likelihoods)
        log_likelihoods[surprising] = before[surprising]
    return log_likelihoods
