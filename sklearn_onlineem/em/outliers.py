"""Rows of a stream that are far too surprising, and are left out of learning."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sklearn_onlineem._typing import Floats, Integers
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.quantiles import RunningQuantiles
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.capabilities import RowLikelihoods
from sklearn_onlineem.statistics import Statistics

# The bound is computed from so many rows, and then anew after so many, of one of so many steps (a
# prime, so that no period of a source is missed), as quantiles take as long as some steps.
_FEWEST_ROWS, _ROWS_BETWEEN, _STEPS_BETWEEN = 100, 250, 11
# So many times the distance of the 99 % quantile from the median, above that quantile. With
# 10, excursions that belong to a source are left out, too (benchmarks/real_data/outliers.py).
_DISTANCES = 100.0
# So many surprising rows within so many are no outliers: 3 %.
_TOO_MANY, _WITHIN = 9, 300
# In the first rows of a stream, so many times what most of a column spans.
_SPREADS = 100.0
# A row is no outlier if so many of those last left out were as surprising, but for a factor.
_ALIKE, _REMEMBERED, _FACTOR = 10, 20, 2.0


class Gate(NamedTuple):
    """What tells outliers: the log-likelihoods of the rows of a stream so far, a frozen value.

    Attributes
    ----------
    least : float
        Log-likelihood below which rows are surprising.
    latest : tuple of ndarray
        Log-likelihoods of rows since `least` was computed, of some of the batches; NaN for rows
        that are missing.
    n_latest : int
        How many these are.
    before : RunningQuantiles
        Log-likelihoods of rows before these.
    suspects : tuple of int
        Numbers of the surprising rows among the last 300.
    excesses : tuple of float
        By how much the last rows that were left out were more surprising than the median.
    accepted : float
        Excess up to which rows are no outliers, as enough of this size have come.
    n_left_out : int
        Rows left out so far.
    left_out : tuple of int
        Those of the latest batch, counted from its first row.
    """

    least: float = -math.inf
    latest: tuple[Floats, ...] = ()
    n_latest: int = 0
    before: RunningQuantiles = RunningQuantiles()
    suspects: tuple[int, ...] = ()
    excesses: tuple[float, ...] = ()
    accepted: float = 0.0
    n_left_out: int = 0
    left_out: tuple[int, ...] = ()

    @classmethod
    def of_start(cls, model: Model, data: Batch, n_left_out: int = 0) -> Gate | None:
        """Return the gate after the rows that a stream has started from.

        Parameters
        ----------
        model : Model
            Their model.
        data : Batch
            In the form that the model takes.
        n_left_out : int
            Rows that were left out of them.
        """
        if not isinstance(model, RowLikelihoods):
            return None
        log_likelihoods = np.empty(data.n_rows)
        model.e_step(data, None, log_likelihoods)
        return cls(n_left_out=n_left_out).after(log_likelihoods)

    def after(self, log_likelihoods: Floats) -> Gate:
        """Return the gate after more rows.

        Parameters
        ----------
        log_likelihoods : ndarray of shape (n_rows,)
            Of all rows, before they were learnt; NaN for rows that are missing.
        """
        latest, n_latest = (*self.latest, log_likelihoods), self.n_latest + len(log_likelihoods)
        if n_latest < (_ROWS_BETWEEN if len(self.before.latest) else _FEWEST_ROWS):
            return Gate(self.least, latest, n_latest, *self[3:])
        values = np.concatenate(latest)
        before = self.before.after(values[~np.isnan(values)])
        low, middle = before.quantile(0.01), before.quantile(0.5)
        least = low - _DISTANCES * (middle - low)
        # Infinite differences, and no rows at all.
        least = -math.inf if math.isnan(least) else least
        return Gate(least, (), 0, before, *self[4:])

    def outliers(self, log_likelihoods: Floats, first: int) -> tuple[Integers, Gate]:
        """Return numbers of the rows of a batch to leave out, and the gate that knows of them.

        A surprising row is no outlier if there are many of them, as the source has changed, or if
        it is like those that were left out before, as rows of a rare cluster are.

        Parameters
        ----------
        log_likelihoods : ndarray of shape (n_rows,)
            Of the batch; NaN for rows that are missing.
        first : int
            Number of its first row in the stream.
        """
        rows = np.flatnonzero(log_likelihoods < self.least)
        known = [row for row in self.suspects if row > first - _WITHIN]
        numbers = np.concatenate([known, first + rows]).astype(int)
        are_many = np.zeros(len(numbers), bool)
        for k in np.flatnonzero(numbers[_TOO_MANY - 1 :] - numbers[: 1 - _TOO_MANY] < _WITHIN):
            are_many[k : k + _TOO_MANY] = True
        usual, excesses, accepted = self.before.quantile(0.5), self.excesses, self.accepted
        left_out = []
        for row in rows[~are_many[len(known) :]].tolist():
            excess = float(usual - log_likelihoods[row])
            if excess <= accepted:
                continue
            excesses = (*excesses, excess)[-_REMEMBERED:]
            alike = [
                other for other in excesses if excess <= other * _FACTOR <= excess * _FACTOR**2
            ]
            if len(alike) > _ALIKE:
                # Once some are learnt, others surprise less.
                accepted = _FACTOR * excess
            else:
                left_out.append(row)
        last = first + len(log_likelihoods) - _WITHIN
        return np.array(left_out, dtype=int), self._replace(
            suspects=tuple(row for row in numbers.tolist() if row >= last),
            excesses=excesses,
            accepted=accepted,
            n_left_out=self.n_left_out + len(left_out),
            left_out=tuple(left_out),
        )


def far_away(data: Batch) -> Integers:
    """Return numbers of the rows with a value far outside of what most of its column has.

    Those are outliers before there is a model: beyond the 5 % and 95 % quantiles by a hundred times
    their distance. None if they are 3 % of the rows or more.

    Parameters
    ----------
    data : Batch
        With rows `X`.
    """
    X = data.X
    if not isinstance(X, np.ndarray) or len(X) * _TOO_MANY <= _WITHIN:
        return np.empty(0, dtype=int)
    missing = np.isnan(X).any()
    low, high = (np.nanquantile if missing else np.quantile)(X, [0.05, 0.95], axis=0)
    reach = _SPREADS * (high - low)
    # Columns of one value, with exceptions, have no spread.
    beyond = ((X < low - reach) | (X > high + reach)) & (reach > 0.0)
    rows = np.flatnonzero(beyond.any(axis=1))
    return rows if len(rows) * _WITHIN < _TOO_MANY * len(X) else rows[:0]


def learn_usual_rows(
    model: Model,
    data: Batch,
    gate: Gate | None,
    n_steps: int,
    n_rows: int,
    rng: np.random.Generator | None = None,
) -> tuple[Batch | None, tuple[Statistics | None, float], Gate | None]:
    """Take the E-step of a batch without its outliers; steps and rows are those before it.

    With a generator, hidden variables are drawn instead of averaged over.

    Returns
    -------
    data : Batch or None
        The batch without outliers; None if nothing is left.
    found : (Statistics or None, float)
        Expected statistics and mean log-likelihood of these; the latter of the whole batch if
        nothing is left.
    gate : Gate or None
        After the batch; None for models that give no log-likelihoods of rows.
    """
    if gate is None:
        if not isinstance(model, RowLikelihoods):
            return data, model.e_step(data, rng=rng), None
        gate = Gate()
    log_likelihoods = np.empty(data.n_rows)
    if gate.left_out:
        gate = gate._replace(left_out=())
    found = model.e_step(data, rng, log_likelihoods)
    # Not `min`, which takes longer than this test of a single row.
    if log_likelihoods[log_likelihoods.argmin()] >= gate.least:
        is_steady = n_steps % _STEPS_BETWEEN and gate.least > -math.inf
        return data, found, gate if is_steady else gate.after(log_likelihoods)
    if model.is_chained:
        log_likelihoods = _after_usual_rows(model, data, rng, log_likelihoods, gate.least)
    rows, gate = gate.outliers(log_likelihoods, n_rows)
    if len(rows):
        data = data.without(rows)
        found = (None, found[1]) if data is None else model.e_step(data, rng)
    return data, found, gate.after(log_likelihoods)


def _after_usual_rows(model, data, rng, log_likelihoods, least):
    """Return log-likelihoods of rows, each given those before it that are not surprising."""
    surprising = np.empty(0, dtype=int)
    for _ in range(_TOO_MANY * (1 + data.n_rows // _WITHIN)):
        rows = np.setdiff1d(np.flatnonzero(log_likelihoods < least), surprising)
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
