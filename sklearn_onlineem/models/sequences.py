"""Sequences of rows: the form in which hidden Markov models and Kalman filters take their data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sklearn_onlineem.families import Rows
from sklearn_onlineem.families._parameters import n_bytes

__all__ = ["Lengths", "Sequences"]


@dataclass(frozen=True)
class Lengths:
    """Law of the lengths of sequences: what stays of data where only lengths are asked for.

    Parameters
    ----------
    survival : ndarray
        Share of the sequences with more than t rows, t = 0, 1, ...
    """

    survival: np.ndarray

    before = None

    def merged(self, a, other, b):
        """Return the law of a sequences of this law and b of another, for any weights."""
        survival = np.zeros(max(len(self.survival), len(other.survival)))
        for weight, law in ((a, self), (b, other)):
            survival[: len(law.survival)] += weight / (a + b) * law.survival
        return Lengths(survival)

    def draw_lengths(self, n, rng):
        """Draw n lengths."""
        return np.searchsorted(-self.survival, -rng.random(n))


@dataclass(frozen=True)
class Sequences:
    """Independent sequences, one after the other; one observation is one sequence.

    Parameters
    ----------
    rows : Rows
        All rows; `labels` are known states. NaN stands for what was not observed.
    offsets : ndarray of shape (n_sequences + 1,)
        int64; where each sequence begins, and the number of rows.
    before : ndarray of shape (n_states,), or tuple, default=None
        If the first sequence goes on where an earlier one stopped: the filtered distribution of
        the state before its first row; of a linear dynamical system, its mean (k,) and covariance
        (k, k).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_onlineem.families import Rows
    >>> from sklearn_onlineem.models import Sequences
    >>> data = Sequences(Rows(np.arange(10.0).reshape(5, 2)), np.array([0, 2, 5]))
    >>> len(data), data.lengths
    (2, array([2, 3]))
    >>> data[1:].rows.X
    array([[4., 5.],
           [6., 7.],
           [8., 9.]])
    """

    rows: Rows
    offsets: np.ndarray
    before: np.ndarray | tuple | None = None

    def __len__(self):
        return len(self.offsets) - 1

    @property
    def X(self):
        return self.rows.X

    @property
    def n_threads(self):
        return self.rows.n_threads

    @property
    def total_weight(self):
        """Number of sequences: what a batch of them counts for."""
        return float(len(self))

    @cached_property
    def lengths(self):
        """Numbers of rows of the sequences."""
        return np.diff(self.offsets)

    @property
    def law(self):
        """Law of the lengths; a piece of a sequence counts as a sequence."""
        ends = np.bincount(self.lengths)
        return Lengths((len(self) - np.cumsum(ends))[:-1] / len(self))

    def draw_lengths(self, n, rng):
        """Draw n of the lengths."""
        return rng.choice(self.lengths, size=n)

    @cached_property
    def survival(self):
        """Share of fresh sequences with more than t rows, t = 0 .. their greatest length - 1.

        A sequence that goes on where another stopped is not among them.
        """
        lengths = self.lengths if self.before is None else self.lengths[1:]
        ends = np.bincount(lengths, minlength=1)
        return (len(lengths) - np.cumsum(ends))[:-1] / len(self)

    @cached_property
    def observed(self):
        """Which rows have a value, or None where all have all of theirs."""
        if not np.issubdtype(self.X.dtype, np.floating) or not np.isnan(np.sum(self.X)):
            return None
        return ~np.isnan(self.X).all(axis=1)

    def __sizeof__(self):
        # Schedulers place tasks by it.
        return n_bytes(self)

    def __getitem__(self, index):
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
        return Sequences(rows, offsets, self.before if keeps_first else None)

    def chunks(self, n_rows):
        """Cut between sequences into chunks of about `n_rows` rows, a sequence at least."""
        whole = self.offsets // n_rows
        cuts = np.flatnonzero(whole[1:-1] > whole[:-2]) + 1
        bounds = [0, *cuts.tolist(), len(self)]
        if len(bounds) == 2:
            return (self,)
        parts = tuple(self[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True))
        if self.observed is None:
            # Looked up once, not in every pass over the data.
            for part in parts:
                part.__dict__["observed"] = None
        return parts

    def continued(self, before):
        """The same, with the first sequence going on from a filtered distribution."""
        return replace(self, before=before)
