"""Sequences of rows: the form in which hidden Markov models and Kalman filters take their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sklearn_onlineem._cached_property import cached_property
from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data._batch import Batch, Index, array_of, check_offsets
from sklearn_onlineem.data.rows import Rows
from sklearn_onlineem.statistics import Statistics

__all__ = ["LengthDistribution", "Sequences"]

# Of a state: probabilities, or a mean and a covariance.
Before: TypeAlias = Floats | tuple[Floats, Floats]


@dataclass(frozen=True)
class LengthDistribution(Statistics):
    """Distribution of the lengths of sequences: all that stays of data where only lengths count.

    It adds up like other statistics: ``combine([(0.25, a), (0.75, b)])`` is the distribution of a
    quarter of sequences of the one and three quarters of the other.

    Parameters
    ----------
    survival : ndarray
        Share of the sequences with more than t rows, t = 0, 1, ...

    Examples
    --------
    All sequences have one row, or all have two; a quarter of the one and three of the other:

    >>> import numpy as np
    >>> from sklearn_onlineem.data.sequences import LengthDistribution
    >>> one, two = LengthDistribution(np.array([1.0])), LengthDistribution(np.array([1.0, 1.0]))
    >>> one.merge(0.25, two, 0.75).survival
    array([1.  , 0.75])
    """

    survival: Floats

    before = None

    def merge(self, a: float, other: LengthDistribution, b: float) -> LengthDistribution:
        survival = np.zeros(max(len(self.survival), len(other.survival)))
        survival[: len(self.survival)] += a * self.survival
        survival[: len(other.survival)] += b * other.survival
        return LengthDistribution(survival)

    def draw_lengths(self, n: int, rng: np.random.Generator) -> Integers:
        """Draw n lengths.

        Parameters
        ----------
        n : int
            How many, from 0 up.
        rng : numpy.random.Generator
            Moves on.

        Returns
        -------
        lengths : ndarray of int of shape (n,)
            In rows.
        """
        return np.searchsorted(-self.survival, -rng.random(n))


@dataclass(frozen=True)
class Sequences(Batch):
    """Independent sequences, one after the other; one observation is one sequence.

    Parameters
    ----------
    rows : Rows
        All rows; `labels` are known states. NaN stands for what was not observed.
    offsets : ndarray of shape (n_sequences + 1,)
        int64; where each sequence begins, and the number of rows.
    before : ndarray of shape (n_states,), or tuple, default=None
        If the first sequence continues an earlier one: the filtered distribution of the state
        before its first row; of a linear dynamical system, its mean (k,) and covariance
        (k, k).

    Raises
    ------
    ValueError
        If the rows are sparse, offsets do not cut them into sequences of one row or more, or
        `before` is none of what it can be.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.data.sequences import Sequences
    >>> data = Sequences(Rows(np.arange(10.0).reshape(5, 2)), np.array([0, 2, 5]))
    >>> len(data), data.lengths
    (2, array([2, 3]))
    >>> data[1:].rows.X
    array([[4., 5.],
           [6., 7.],
           [8., 9.]])
    """

    rows: Rows
    offsets: Integers
    before: Before | None = None

    def __post_init__(self):
        if not isinstance(self.rows, Rows) or not isinstance(self.rows.X, np.ndarray):
            raise ValueError("rows of Sequences must be dense Rows.")
        check_offsets(self.offsets, len(self.rows), "rows", least=1)
        _check_before(self.before)

    @classmethod
    def unchecked(cls, rows: Rows, offsets: Integers, before: Before | None = None) -> Self:
        """Return sequences whose parts are known to be valid, and to fit each other.

        Parameters
        ----------
        rows, offsets, before
            As of the class, in the types that it asks for.

        Returns
        -------
        sequences : Sequences
        """
        sequences = object.__new__(cls)
        sequences.__dict__.update(rows=rows, offsets=offsets, before=before)
        return sequences

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def X(self) -> Floats:
        return self.rows.X

    @property
    def n_threads(self) -> int:
        return self.rows.n_threads

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return self.X.dtype

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        return len(self.X)

    @cached_property
    def lengths(self) -> Integers:
        """Numbers of rows of the sequences."""
        return np.diff(self.offsets)

    @property
    def length_distribution(self) -> LengthDistribution:
        """Distribution of the lengths; a piece of a sequence counts as a sequence."""
        return LengthDistribution(_survival(self.lengths, len(self)))

    def draw_lengths(self, n: int, rng: np.random.Generator) -> Integers:
        """Draw n of the lengths.

        Parameters
        ----------
        n : int
            How many, from 0 up.
        rng : numpy.random.Generator
            Moves on.

        Returns
        -------
        lengths : ndarray of int of shape (n,)
            In rows.
        """
        return rng.choice(self.lengths, size=n)

    @cached_property
    def survival(self) -> Floats:
        """Share of fresh sequences with more than t rows, t = 0 .. their greatest length - 1.

        A sequence that continues another is not among them.
        """
        return _survival(self.lengths if self.before is None else self.lengths[1:], len(self))

    @cached_property
    def observed(self) -> NDArray[np.bool_] | None:
        """Which rows have a value, or None where all have all of theirs."""
        if not np.issubdtype(self.X.dtype, np.floating) or not np.isnan(np.sum(self.X)):
            return None
        return ~np.isnan(self.X).all(axis=1)

    def __getitem__(self, index: Index) -> Sequences:
        """Sequences of a slice (views, if it has no step) or of an index array (copies)."""
        chosen = np.arange(len(self))[index]
        lengths = self.lengths[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if isinstance(index, slice) and index.step in (None, 1):
            begin = self.offsets[chosen[0]] if len(chosen) else 0
            rows = self.rows[begin : begin + offsets[-1]]
        else:
            starts = self.offsets[:-1][chosen] - offsets[:-1]
            rows = self.rows[np.arange(offsets[-1]) + np.repeat(starts, lengths)]
        keeps_first = len(chosen) > 0 and chosen[0] == 0
        return Sequences.unchecked(rows, offsets, self.before if keeps_first else None)

    @classmethod
    def concatenate(cls, batches: Sequence[Sequences]) -> Self:
        """Return the sequences of several batches; only the first may continue another.

        Parameters
        ----------
        batches : list of Sequences
            At least one.

        Returns
        -------
        sequences : Sequences

        Raises
        ------
        ValueError
            If another than the first continues a sequence.
        """
        if any(batch.before is not None for batch in batches[1:]):
            raise ValueError("Only the first of several batches may continue a sequence.")
        lengths = np.concatenate([batch.lengths for batch in batches])
        return cls.unchecked(
            Rows.concatenate([batch.rows for batch in batches]),
            np.concatenate(([0], np.cumsum(lengths))),
            batches[0].before,
        )

    def chunks(self, n_rows: int) -> tuple[Sequences, ...]:
        """Cut between sequences into even chunks of about `n_rows` rows, a sequence at least.

        A chunk of several is one thread's, as threads share the chunks.

        Parameters
        ----------
        n_rows : int
            About how many rows, at least 1.

        Returns
        -------
        chunks : tuple of Sequences
            In order; all sequences.
        """
        n_chunks = -(-self.n_rows // n_rows)
        whole = self.offsets * n_chunks // max(1, self.n_rows)
        cuts = np.flatnonzero(whole[1:-1] > whole[:-2]) + 1
        bounds = [0, *cuts.tolist(), len(self)]
        if len(bounds) == 2:
            return (self,)
        alone = self._with_threads(1)
        parts = tuple(alone[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True))
        if self.observed is None:
            # Looked up once, not in every pass over the data.
            for part in parts:
                part.__dict__["observed"] = None
        return parts

    def _with_threads(self, n_threads):
        rows = Rows.unchecked(self.X, self.rows.sample_weight, self.rows.labels, n_threads)
        return Sequences.unchecked(rows, self.offsets, self.before)

    def continued(self, before: Before | None) -> Sequences:
        """Return the sequences with the first one continuing from a filtered distribution.

        Parameters
        ----------
        before : ndarray of shape (n_states,), or tuple, or None
            As of the class.

        Returns
        -------
        sequences : Sequences
        """
        _check_before(before)
        return Sequences.unchecked(self.rows, self.offsets, before)


def _check_before(before):
    if before is None:
        return
    parts = before if isinstance(before, tuple) else (before,)
    for part, ndim in zip(parts, (1, 2), strict=False):
        array_of("before", part, (np.dtype(np.float64),), ndim)
        if not np.isfinite(part).all():
            raise ValueError("before must be finite.")
    if len(parts) > 1 and (len(parts) > 2 or parts[1].shape != 2 * parts[0].shape):
        raise ValueError("before must be a mean (k,) and a covariance (k, k).")


def _survival(lengths, n):
    """Numbers of lengths above 0, 1, ..., up to the greatest, as shares of n."""
    ends = np.bincount(lengths, minlength=1)
    return (len(lengths) - np.cumsum(ends))[:-1] / n
