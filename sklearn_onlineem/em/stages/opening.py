"""The start of a stream, made anew from its first rows until it is final."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sklearn_onlineem._checks import check_count
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.stages.base import EStep, Inner, LatestRows, Stage, Stream
from sklearn_onlineem.em.state import State, Update

# Most rows that are kept; and how many times the rows of the latest start make it anew.
_MOST_ROWS, _GROWTH = 1 << 14, 1.5


@dataclass(frozen=True)
class FirstRows(LatestRows):
    """All observations of a stream so far, from which its start is made anew as more come."""

    # Size of the model in components; 0: the start is final at once. Rows of the latest start.
    size: float = 0.0
    n_started: int = 0

    def restarted(self, state, n_rows, share):
        # The next start counts the rows that are left.
        data = self.followed_by()
        last = data[data.observations_of(max(0, data.n_rows - n_rows)) :]
        return replace(self, batches=(last,), n_started=0)


def _lacking(data):
    """Return which columns have no value."""
    X = getattr(data, "X", None)
    return np.isnan(X).all(axis=0) if isinstance(X, np.ndarray) else np.zeros(0, dtype=bool)


@dataclass(frozen=True)
class Opening(Stage):
    """The start of a stream is made anew from its first rows, until there are enough of them.

    It depends on the first rows alone, not on how they are cut into batches. When there are half as
    many rows more, it is made anew; batches between take online steps. Unlike other stages it is
    around the whole update: it may replace the state.

    Parameters
    ----------
    rows : int, default=100
        Rows for each component that are kept. 0: the start is that of the first batch.
    """

    rows: int = 100
    name = "first_rows"

    def __post_init__(self):
        check_count("start_rows", self.rows, least=0)

    def n_needed(self, first: FirstRows) -> int:
        """Return how many rows make the final start, given the `FirstRows` so far.

        Parameters
        ----------
        first : FirstRows
            Those so far.
        """
        return min(math.ceil(self.rows * first.size), _MOST_ROWS)

    def cut(self, first: FirstRows | None, data: Batch) -> tuple[Batch, Batch | None]:
        """Return the observations of a batch up to the final start, and those after it, if any.

        If the first of a stream have no value of a column, rows count from its first value on.

        Parameters
        ----------
        first, data : FirstRows, Batch
            Those before the batch, and the batch.
        """
        n_needed = 0 if first is None else self.n_needed(first)
        if n_needed == 0:
            return data, None
        n_rows = max(1, n_needed - first.n_kept)
        n = data.observations_of(n_rows)
        if first.n_kept == 0 and n < len(data) and (lacking := _lacking(data[:n])).any():
            later = (~np.isnan(data.X[:, lacking])).argmax(axis=0).max()
            n = data.observations_of(n_rows + int(later))
        return (data[:n], data[n:]) if n < len(data) else (data, None)

    def anew(self, first: FirstRows, starts: object, seed: tuple[int, ...]) -> State:
        """Return the state after a start from the rows so far.

        See `Stream` for the starts; the seed is that of their draws.

        Parameters
        ----------
        first : FirstRows
            These rows.
        starts : object
            As in `Stream`.
        seed : tuple of int
            Of the draws of the start.
        """
        data, n_needed = first.followed_by(), self.n_needed(first)
        made = starts.started(data, seed, n_needed)
        if data.n_rows >= n_needed:
            return made
        first = replace(first, batches=(data,), n_started=data.n_rows)
        return made.carrying(self.name, first)

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        first = state.carry[self.name].with_batch(batch)
        is_late = first.n_kept >= min(self.n_needed(first), _GROWTH * first.n_started)
        # After a `Restart` all columns need values, too.
        if not is_late or (first.n_started == 0 and _lacking(first.followed_by()).any()):
            after = state.after(inner(state, batch, stream), batch.n_rows)
            return after.carrying(self.name, first)
        made, counters = self.anew(first, stream.starts, state.seed), state.counters
        n_rows = counters.n_rows + batch.n_rows
        # Components are others than before.
        step = made.step._replace(
            log_likelihood=state.model.e_step(batch)[1], kl_divergence=math.nan, n_rows=n_rows
        )
        counters = made.counters._replace(
            n_steps=counters.n_steps + 1, n_seen=counters.n_seen + batch.total_weight,
            n_rows=n_rows, decay=counters.decay + made.counters.decay,
        )  # fmt: skip
        carry = {**state.carry_of(made.model), **made.carry}
        return made._replace(step=step, counters=counters, carry=carry)
