"""Sequences of rows: the data of hidden Markov models and Kalman filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._checks import array_of, check_offsets, check_weights
from sklearn_onlineem._kernels._rows import are_finite, are_ready
from sklearn_onlineem._python import cached_property
from sklearn_onlineem._typing import Floats, Generator, Integers
from sklearn_onlineem._values import frozen, quick
from sklearn_onlineem.data.batch import Index, of_equal_weight
from sklearn_onlineem.data.rows import BatchOfRows, Rows
from sklearn_onlineem.statistics import Statistics

# Distribution of a state: probabilities, or a mean and a covariance.
Before: TypeAlias = Floats | tuple[Floats, Floats]


# Shares of a single length.
_ALL = frozen(np.ones(1))


@quick
@dataclass(frozen=True)
class LengthDistribution(Statistics):
    """Distribution of the lengths of sequences.

    It adds up like other statistics: ``combine([(0.25, a), (0.75, b)])`` has a quarter of the
    sequences of a, and three quarters of b.

    Parameters
    ----------
    steps : (ndarray of shape (n,), ndarray of shape (n,))
        Different numbers of rows (int64), the least first, and the shares of the sequences with at
        least these.
    """

    steps: tuple[Integers, Floats]

    before = None

    @property
    def survival(self) -> Floats:
        """Share of the sequences with more than t rows, t = 0, 1, ..."""
        return np.repeat(self.steps[1], np.diff(self.steps[0], prepend=0))

    def merge(self, a: float, other: LengthDistribution, b: float) -> LengthDistribution:
        (lengths, shares), (new, new_shares) = self.steps, other.steps
        if len(lengths) == len(new) == 1 and lengths[0] == new[0]:
            return LengthDistribution((lengths, a * shares + b * new_shares))
        at, shares = lengths.searchsorted(new), a * shares
        end = at[-1] + 1 if len(new) else 0
        if end > len(lengths) or lengths[at].tobytes() != new.tobytes():
            old, lengths = lengths, np.union1d(lengths, new)
            shares = np.append(shares, 0.0)[old.searchsorted(lengths)]
            end = lengths.searchsorted(new[-1]) + 1
        shares[:end] += b * new_shares[new.searchsorted(lengths[:end])]
        return LengthDistribution((lengths, shares))

    def scale(self, a: float) -> LengthDistribution:
        return LengthDistribution((self.steps[0], a * self.steps[1]))

    def draw_lengths(self, n: int, rng: Generator) -> Integers:
        """Draw n lengths in rows.

        Parameters
        ----------
        n : int
            From 0 up.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        lengths, shares = np.append(0, self.steps[0]), self.steps[1]
        return lengths[np.searchsorted(-shares, -rng.random(n))]


@dataclass(frozen=True)
class Sequences(BatchOfRows):
    """Independent sequences, one after the other; one observation is one sequence.

    A ValueError is raised for arrays that are not as described.

    Parameters
    ----------
    rows : Rows
        All rows, dense; `labels` are known states. NaN for missing values. All rows of a sequence
        have its weight.
    offsets : ndarray of shape (n_sequences + 1,)
        int64; the first row of each sequence, and the number of rows. Sequences have at least one.
    before : ndarray of shape (n_states,), or tuple, default=None
        If the first sequence continues an earlier one: the filtered distribution of the state
        before its first row; of a linear dynamical system, its mean (k,) and covariance (k, k).
    """

    rows: Rows
    offsets: Integers
    before: Before | None = None

    def __post_init__(self):
        if not isinstance(self.rows, Rows) or not isinstance(self.rows.X, np.ndarray):
            raise ValueError("rows of Sequences must be dense Rows.")
        check_offsets(self.offsets, len(self.rows), "rows", least=1)
        _check_before(self.before)
        weight = self.rows.sample_weight
        if weight is not None and (weight != np.repeat(self.sample_weight, self.lengths)).any():
            raise ValueError("Rows of a sequence must have one weight.")

    def with_rows(self, rows: Rows, offsets: Integers, before: Before | None = None) -> Sequences:
        """Return sequences of other rows, which have the same columns, without checks.

        Parameters
        ----------
        rows, offsets, before
            Like those of the class, in its types.
        """
        return Sequences.unchecked(rows, offsets, before)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> Integers:
        """Numbers of rows of the sequences."""
        return self.offsets[1:] if len(self.offsets) == 2 else np.diff(self.offsets)

    @property
    def sample_weight(self) -> Floats | None:
        """Weights of the sequences; None means 1 for each."""
        weight = self.rows.sample_weight
        return None if weight is None else weight[self.offsets[:-1]]

    @cached_property
    def total_weight(self) -> float:
        weight = self.sample_weight
        return float(len(self.offsets) - 1) if weight is None else float(weight.sum())

    @property
    def row_weight(self) -> float:
        return self.rows.total_weight

    @cached_property
    def share_of_first(self) -> float:
        """Share of the first sequence in the weight of all."""
        weight = self.rows.sample_weight
        return (1.0 if weight is None else float(weight[0])) / self.total_weight

    @cached_property
    def length_distribution(self) -> LengthDistribution:
        """Distribution of the lengths; a continued sequence counts as one."""
        is_whole = self.before is None
        return LengthDistribution(self.steps if is_whole else _steps(self, 0))

    def draw_lengths(self, n: int, rng: Generator) -> Integers:
        """Draw n lengths in rows.

        Parameters
        ----------
        n : int
            From 0 up.
        rng : numpy.random.Generator
            Generator of the draws.
        """
        weight = self.sample_weight
        shares = None if weight is None else weight / self.total_weight
        return rng.choice(self.lengths, size=n, p=shares)

    @cached_property
    def steps(self) -> tuple[Integers, Floats]:
        """Of the distribution of lengths, without a continued sequence; shares are of all."""
        return _steps(self, int(self.before is not None))

    @cached_property
    def observed(self) -> NDArray[np.bool_] | None:
        """Whether each row has a value, or None if no value is missing."""
        X = self.rows.X
        # The first tells of most data in a tenth of the time.
        is_complete = are_ready(X, X.shape[1]) or X.dtype.kind != "f"
        if is_complete or not math.isnan(np.add.reduce(X, axis=None)):
            return None
        # By columns: along short rows NumPy takes twenty times as long.
        return ~np.asfortranarray(np.isnan(self.X)).all(axis=1)

    def __getitem__(self, index: Index) -> Sequences:
        chosen = index
        if not (isinstance(index, np.ndarray) and index.dtype.kind == "i"):
            chosen = np.arange(len(self))[index]
        lengths, offsets = self.lengths[chosen], np.zeros(len(chosen) + 1, dtype=np.int64)
        np.add.accumulate(lengths, out=offsets[1:])  # As `np.cumsum`, in a third of the time.
        if isinstance(index, slice) and index.step in (None, 1):
            begin = self.offsets[chosen[0]] if len(chosen) else 0
            rows = self.rows[begin : begin + offsets[-1]]
        else:
            rows = self.rows[self._rows_of(chosen)]
        keeps_first = len(chosen) > 0 and chosen[0] in (0, -len(self))
        return self.with_rows(rows, offsets, self.before if keeps_first else None)

    def _rows_of(self, numbers):
        """Return the numbers of the rows of some sequences."""
        lengths, begins = self.lengths[numbers], self.offsets[:-1][numbers]
        if len(numbers) == 1:
            return np.arange(begins[0], begins[0] + lengths[0])
        ends = np.cumsum(lengths)
        return np.arange(lengths.sum()) + np.repeat(begins - ends + lengths, lengths)

    def weighted(self, weight: Floats | None) -> Sequences:
        """Return the sequences with other weights.

        Parameters
        ----------
        weight : ndarray of shape (n_sequences,) or None
            float64, not below 0; None for no weights.
        """
        if weight is not None:
            check_weights("Sequences", weight, len(self))
            weight = np.repeat(weight, self.lengths)
        rows = Rows.unchecked(self.X, weight, self.rows.labels, self.n_threads)
        return self.with_rows(rows, self.offsets, self.before)

    @property
    def labels(self) -> Integers | None:
        return self.rows.labels

    @property
    def unlabelled(self) -> Sequences:
        return self.with_rows(self.rows.unlabelled, self.offsets, self.before)

    @cached_property
    def by_weight(self) -> tuple[tuple[float, Integers, Sequences], ...]:
        """Each weight, and its sequences: numbers of their rows, and these, without weights."""
        data, parts = self.weighted(None), of_equal_weight(self.sample_weight)
        return tuple((weight, self._rows_of(part), data[part]) for weight, part in parts)

    def without(self, rows: Integers) -> Sequences:
        """Return the sequences with some rows missing, so that time passes in them.

        Parameters
        ----------
        rows : ndarray of int
            Numbers of rows.
        """
        X = self.X.copy()
        X[rows, X.shape[1] - self.n_features :] = np.nan
        kept = Rows.unchecked(X, self.rows.sample_weight, self.rows.labels, self.n_threads)
        return self.with_rows(kept, self.offsets, self.before)

    @classmethod
    def concatenate(cls, batches: Sequence[Sequences]) -> Self:
        if any(batch.before is not None for batch in batches[1:]):
            raise ValueError("Only the first of several batches may continue a sequence.")
        lengths = np.concatenate([batch.lengths for batch in batches])
        return batches[0].with_rows(
            Rows.concatenate([batch.rows for batch in batches]),
            np.concatenate(([0], np.cumsum(lengths))),
            batches[0].before,
        )

    def followed_by(self, batches: Sequence[Sequences]) -> Sequences:
        begins, n_rows = [self.offsets[:-1]], self.n_rows
        for batch in batches:
            # Where nothing is before it, a piece begins a new sequence.
            continues = batch.before is not None and n_rows > 0
            begins.append(batch.offsets[int(continues) : -1] + n_rows)
            n_rows += batch.n_rows
        rows = Rows.concatenate([batch.rows for batch in (self, *batches)])
        return self.with_rows(rows, np.concatenate([*begins, [n_rows]]), self.before)

    def observations_of(self, n_rows: int) -> int:
        return min(int(np.searchsorted(self.offsets, n_rows)), len(self))

    def chunks(self, n_rows: int) -> tuple[Sequences, ...]:
        """Cut between sequences into even chunks; those of several are for one thread each.

        A sequence of more rows than a chunk is a chunk of its own.

        Parameters
        ----------
        n_rows : int
            Approximate number of rows of a chunk, at least 1.
        """
        if self.n_rows <= n_rows:
            return (self,)
        n_chunks = -(-self.n_rows // n_rows)
        whole = self.offsets * n_chunks // max(1, self.n_rows)
        is_long = self.lengths > n_rows
        cuts = np.flatnonzero((whole[1:-1] > whole[:-2]) | is_long[1:]) + 1
        bounds = [0, *cuts.tolist(), len(self)]
        if len(bounds) == 2:
            return (self,)
        rows = Rows.unchecked(self.X, self.rows.sample_weight, self.rows.labels, n_threads=1)
        alone = self.with_rows(rows, self.offsets, self.before)
        parts = tuple(alone[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True))
        if self.observed is None:
            # Computed once, not in every pass over the data.
            for part in parts:
                part.__dict__["observed"] = None
        return parts

    def continued(self, before: Before | None) -> Sequences:
        """Return the sequences, the first of which continues from a filtered distribution.

        Parameters
        ----------
        before : ndarray of shape (n_states,), tuple or None
            Like that of the class.
        """
        _check_before(before)
        other, known = self.with_rows(self.rows, self.offsets, before), self.__dict__
        for name in ("lengths", "observed"):
            if name in known:
                other.__dict__[name] = known[name]
        return other


@dataclass(frozen=True)
class SequencesWithInputs(Sequences):
    """Sequences of rows (x, y), in which the inputs x are known and have no model.

    A row of which an input is missing is as if its outputs were. The columns of rows are `n_inputs`
    inputs, and then the outputs, which `n_features` counts.
    """

    n_inputs: int = 1

    @classmethod
    def of(cls, sequences: Sequences, n_inputs: int) -> Self:
        """Return sequences of inputs and outputs, side by side, without checks."""
        return cls.unchecked(sequences.rows, sequences.offsets, sequences.before, n_inputs)

    @property
    def n_features(self) -> int:
        return self.X.shape[1] - self.n_inputs

    @cached_property
    def outputs(self) -> Sequences:
        """The sequences of outputs alone."""
        own = self.rows
        X = np.ascontiguousarray(own.X[:, self.n_inputs :])
        rows = Rows.unchecked(X, own.sample_weight, own.labels, own.n_threads)
        return Sequences.unchecked(rows, self.offsets, self.before)

    def with_rows(
        self, rows: Rows, offsets: Integers, before: Before | None = None
    ) -> SequencesWithInputs:
        return SequencesWithInputs.of(super().with_rows(rows, offsets, before), self.n_inputs)

    @cached_property
    def observed(self) -> NDArray[np.bool_] | None:
        if not math.isnan(np.add.reduce(self.X, axis=None)):
            return None
        missing, q = np.isnan(self.X), self.n_inputs
        return ~(missing[:, :q].any(axis=1) | missing[:, q:].all(axis=1))


def lagged(X: Floats, offsets: Integers, n_lags: int, last: Floats | None = None) -> Floats:
    """Return the rows before each row, (n_rows, n_lags * n_features), the latest first.

    Where there is none in the sequence, they are NaN. If the first sequence continues, `last` is
    the row before it, of `SequencesWithInputs`: its own lags, inputs and, last, its outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.sequences import lagged
    >>> lagged(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2, 3]), 1).ravel()
    array([nan,  1., nan])
    """
    n, d = X.shape
    past = np.full((n, n_lags * d), np.nan, dtype=X.dtype)
    place = np.arange(n) - np.repeat(offsets[:-1], np.diff(offsets))
    for i in range(1, n_lags + 1):
        rows = np.flatnonzero(place >= i)
        past[rows, (i - 1) * d : i * d] = X[rows - i]
    if last is not None and n_lags:
        before = np.append(last[-d:], last[: (n_lags - 1) * d])
        for t in range(min(n_lags, offsets[1])):
            past[t, t * d :] = before[: (n_lags - t) * d]
    return past


def with_inputs_before(
    X: Floats, inputs: Floats, offsets: Integers, last: Floats | None = None
) -> SequencesWithInputs:
    """Return sequences whose rows have two sets of inputs, those of the row before and their own.

    `X` are outputs (n_rows, n_features), and `inputs` (n_rows, m). If the first sequence continues,
    `last` are the inputs (m,) of the row before it; those of other first rows are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.sequences import with_inputs_before
    >>> u, X = np.array([[1.0], [2.0]]), np.array([[7.0], [8.0]])
    >>> with_inputs_before(X, u, np.array([0, 2])).X
    array([[0., 1., 7.],
           [1., 2., 8.]])
    """
    past = np.nan_to_num(lagged(inputs, offsets, 1, last))
    rows = Rows.unchecked(np.hstack([past, inputs, X]))
    return SequencesWithInputs.of(Sequences.unchecked(rows, offsets), 2 * inputs.shape[1])


def _check_before(before):
    if before is None:
        return
    parts = before if isinstance(before, tuple) else (before,)
    for part, ndim in zip(parts, (1, 2), strict=False):
        array_of("before", part, ndim=ndim)
        if not are_finite(part):
            raise ValueError("before must be finite.")
    if len(parts) > 1 and (len(parts) > 2 or parts[1].shape != 2 * parts[0].shape):
        raise ValueError("before must be a mean (k,) and a covariance (k, k).")


def share_of_starts(like):
    """Return the share of the sequences that do not continue another."""
    return 1.0 if like is None or like.before is None else 1.0 - like.share_of_first


def _steps(sequences, n_left_out):
    """Return steps of the distribution of lengths, in shares of all, without the first ones."""
    lengths, weight = sequences.lengths[n_left_out:], sequences.sample_weight
    if len(lengths) == 1 == len(sequences):
        return lengths, _ALL
    if weight is None and len(lengths) < 2:
        return lengths, np.full(len(lengths), 1.0 / len(sequences))
    different, which = np.unique(lengths, return_inverse=True)
    totals = np.bincount(which, None if weight is None else weight[n_left_out:])
    return different, np.cumsum(totals[::-1])[::-1] / sequences.total_weight
