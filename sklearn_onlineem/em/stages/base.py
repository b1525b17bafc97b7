"""What a stage of a stream is: it acts before and after the step of the next stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from sklearn_onlineem._typing import Generator
from sklearn_onlineem.data import Batch
from sklearn_onlineem.em.schedules import RateSchedule
from sklearn_onlineem.em.settings import Settings
from sklearn_onlineem.em.state import Carry, State, Update
from sklearn_onlineem.models import Model
from sklearn_onlineem.statistics import Statistics


class EStep(NamedTuple):
    """The E-step of a batch.

    Attributes
    ----------
    statistics, log_likelihood : Statistics, float
        Expected statistics, and the mean per observation, in nats.
    rng : numpy.random.Generator or None
        Generator of its draws; None if it drew nothing.
    """

    statistics: Statistics
    log_likelihood: float
    rng: Generator | None


class Stream(NamedTuple):
    """What all steps of a stream have in common.

    Attributes
    ----------
    schedule : callable t -> eta
        Learning rates, or a `Schedule`.
    draws : bool
        Whether hidden variables are drawn from their posterior instead of averaged over.
    starts : object or None
        Makes models that begin from data, with methods `started` and `challengers`, for the stages
        that need some. If it `has_classes`, components keep their numbers.
    """

    schedule: RateSchedule
    draws: bool = False
    starts: object = None


# The step of the next stage: called with a state, a batch, the stream, and the batch's E-step if it
# has been made, it returns the update.
Inner: TypeAlias = Callable[..., Update]


class Stage(Settings, ABC):
    """Base of the stages of a stream: frozen values of settings around one online step.

    What a stage remembers is a `Carry` in the state, under its name. Each update starts from
    nothing, and a stage adds its own to what comes back, so that nothing is left of stages that
    take no part any more.

    Attributes
    ----------
    name : str
        Key of `State.carry`.
    requires : type
        Capability of the models in whose streams it takes part, see `models.capabilities`.

    Notes
    -----
    Methods take these:

    state, before, after : State
        The present one; those before and after a step.
    data, batch : Batch
        Observations in the form that the model takes.
    stream : Stream
        What all steps of a stream share.
    inner : callable (state, batch, stream, found=None) -> Update
        The step of the next stage.
    found : EStep or None
        Of the batch under the present model; None: it has not been made.
    n_left_out, is_final : int, bool
        Rows left out of the data of a start; whether this start will not be made anew.
    """

    name: ClassVar[str]
    requires: ClassVar[type] = Model

    def begin(
        self, state: State, data: Batch | None, n_left_out: int, is_final: bool
    ) -> Carry | None:
        """Return what is remembered after a start, or None.

        The state is that after it. The data are those of the start, from which `n_left_out` rows
        were left out, or None if it was given. If `is_final`, it will not be made anew.
        """
        return None

    @abstractmethod
    def step(
        self, inner: Inner, state: State, batch: Batch, stream: Stream, found: EStep | None = None
    ) -> Update:
        """Return the update by the next batch of a stream.

        `inner(state, batch, stream, found=None)` is the step of the next stage; the batch is in the
        form that the model of the state takes, and `stream` is what all steps share. `found` is the
        `EStep` of the batch under the present model, if it has been made.
        """

    def warning(self, before: State | None, after: State, data: Batch) -> str | None:
        """Return what users are told after a step, or None; before a start there is no state."""
        return None


@dataclass(frozen=True)
class LatestRows(Carry):
    """Latest observations of a stream, batches in their order."""

    batches: tuple[Batch, ...] = ()

    @property
    def n_kept(self) -> int:
        return sum(batch.n_rows for batch in self.batches)

    def with_batch(self, batch: Batch) -> Self:
        """Return the rows with a copy of one more batch, which users may overwrite."""
        return replace(self, batches=(*self.batches, batch[np.arange(len(batch))]))

    def followed_by(self, *later: Batch) -> Batch:
        """Return the rows, and those of later batches, as one batch."""
        first, *others = (*self.batches, *later)
        return first.followed_by(others) if others else first
