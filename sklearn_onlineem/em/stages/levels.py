"""Streams of sequences whose source may leave its level."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.stages.base import EStep, Inner, LatestRows, Stage, Stream
from sklearn_onlineem.em.state import State, Update
from sklearn_onlineem.models.capabilities import Levels

_NO_ROWS = LatestRows()


@dataclass(frozen=True)
class FollowLevels(Stage):
    """A Kalman filter follows its source to a new level, and bounds its transitions.

    A few rows that are far from the level wait for those after them, which tell whether the source
    has left it: a step without learning, whose rate is 0.
    """

    name = "rows_of_a_level"
    requires = Levels

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        before = state.model
        waiting = state.carry.get(self.name, _NO_ROWS)
        rows = waiting.followed_by(batch)
        if rows.n_rows < before.fewest_rows and before.is_far(batch):
            log_likelihood = (found or before.e_step(batch))[1]
            carry = {self.name: waiting.with_batch(batch)}
            return Update(before, 0.0, log_likelihood, batch, state.size_of(batch), carry=carry)
        start, learnt = before.relocated(rows) or (before, rows)
        if start is before and learnt is batch:
            update = inner(state, batch, stream, found)
        else:
            update = inner(state._replace(model=start), learnt, stream)
            # It is told of the batch, and those that have waited are counted.
            update.log_likelihood = (found or before.e_step(batch))[1]
            update.data, update.size, update.before = batch, state.size_of(batch), before
        update.model = update.model.bounded(before)
        return update
