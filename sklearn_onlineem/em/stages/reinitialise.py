"""Empty components of a stream come back as halves of others."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.stages.base import EStep, Inner, LatestRows, Stage, Stream
from sklearn_onlineem.em.state import State, Update
from sklearn_onlineem.models.capabilities import Reinitialises

# A stream may make one split or merge step in so many rows, by the last rows of them.
_PERIOD, _RECENT = 3200, 500


@dataclass(frozen=True)
class Reinitialise(Stage):
    """An empty component becomes half of another one, at most once in 3,200 rows.

    While there is one, the last 500 of each 3,200 rows are kept, which choose the other one.
    Components that stand for classes stay.
    """

    name = "latest_rows"
    requires = Reinitialises

    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        update = inner(state, batch, stream, found)
        n_rows = state.counters.n_rows % _PERIOD + batch.n_rows
        keeps = n_rows <= _PERIOD - _RECENT or getattr(stream.starts, "has_classes", False)
        if keeps or not update.model.has_empty(batch):
            return update
        rows = state.carry.get(self.name, LatestRows())
        if n_rows < _PERIOD:
            update.carry[self.name] = rows.with_batch(batch)
        elif move := update.model.reinitialised(rows.followed_by(batch)):
            after = state._replace(lengths=state.lengths_with(batch), carry=update.carry)
            update.model, update.move = move.model, move
            update.carry = after.carry_of(move.model)
        return update

    def warning(self, before: State | None, after: State, data: Batch) -> str | None:
        step, model = after.step, after.model
        if step.reinitialised >= 0:
            part = _part_of(model)
            return (
                f"{part} {step.reinitialised} was nearly empty, and has been reinitialised as half"
                f" of {part} {step.half_of}. The source of the rows may have changed."
            )
        if before is None or after.counters.n_rows // _PERIOD == before.counters.n_rows // _PERIOD:
            return None
        # Families of categories have no halves.
        is_nominal = getattr(getattr(model, "family", None), "is_nominal", False)
        if not (is_nominal and model.has_empty(data)):
            return None
        part = _part_of(model)
        return (
            f"a {part} is nearly empty, and cannot be reinitialised, as categories have no"
            " distances. If the source of the rows has changed, begin anew with fit on the latest"
            f" rows; else take fewer {part}s. solver=Online(reinitialises=False) does not warn."
        )


def _part_of(model):
    names = {"transmat": "state", "topics_T": "topic"}
    return next((names[name] for name in names if hasattr(model, name)), "component")
