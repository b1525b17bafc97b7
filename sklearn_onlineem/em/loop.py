"""The loop around a solver's passes: history, callbacks, and the last pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, pairwise, takewhile
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TypeAlias

from sklearn_onlineem.em.state import History, Restart, State

__all__ = ["Progress", "run"]

# After each, the mean log-likelihood of the data, and whether it was the last.
Passes: TypeAlias = Iterator[tuple[float, bool]]
# Called with the progress after an update.
Callback: TypeAlias = Callable[["Progress"], object]

# What functions return at once, before any of their lines has run.
_NEVER_RUN = CoroutineType, GeneratorType, AsyncGeneratorType
# Gains before were faster.
_LATEST_PASSES = 5


@dataclass
class Progress:
    """How far one fit, or one update of a stream, has come. Whoever learns has one of its own.

    Parameters
    ----------
    state : State
        The present state, replaced by one assignment.
    history : History, default=History()
        The latest updates.
    callbacks : sequence of callables, default=()
        Each is called with the progress after an update. Learning rates begin anew after a
        `Restart`; any other true value ends the fit.
    lower_bounds : list of float, default=[]
        Mean log-likelihood of each pass, in nats per observation.
    n_iter : int, default=0
        Passes.
    converged : bool, default=False
        Whether the fit ended by its rule.
    stopped : bool, default=False
        Whether a callback has ended it.
    chains : object, default=None
        Record of the Markov chains, if the solver ran any: `Chains`.
    used_rates : bool, default=False
        Whether any step had a finite learning rate.

    Examples
    --------
    Passes of batch EM:

    >>> import numpy as np
    >>> from sklearn_onlineem.data.rows import Rows
    >>> from sklearn_onlineem.em import Batch, Constant
    >>> from sklearn_onlineem.em.loop import Progress
    >>> from sklearn_onlineem.em.solvers import Plan
    >>> from sklearn_onlineem.em.state import State
    >>> from sklearn_onlineem.em.stopping import LikelihoodStopping
    >>> from sklearn_onlineem.em.loop import run
    >>> from sklearn_onlineem.families import Poisson
    >>> from sklearn_onlineem.models.mixture import MixtureModel
    >>> model = MixtureModel(Poisson(), np.array([1.0]), np.array([[2.0]]))
    >>> data, rng = Rows(np.array([[4.0], [6.0]])), np.random.default_rng(0)
    >>> plan = Plan(Constant(1.0), 100, lambda: LikelihoodStopping(1e-3), rng)
    >>> progress = Progress(State(model))
    >>> run(Batch().passes(progress, data, plan), progress, max_iter=100)
    >>> progress.state.model.parameters, progress.n_iter, progress.converged
    (array([[5.]]), 3, True)
    """

    state: State
    history: History = History()
    callbacks: Sequence[Callback] = ()
    lower_bounds: list[float] = field(default_factory=list)
    n_iter: int = 0
    converged: bool = False
    stopped: bool = False
    chains: object = None
    used_rates: bool = False

    def take(self, state: State) -> None:
        """Let a state be the present one, put its step on record, and call the callbacks.

        Parameters
        ----------
        state : State
            After an update.

        Raises
        ------
        TypeError
            If a callback returns something that nobody runs: a coroutine or a generator.
        """
        self.history, self.state = self.history.with_step(state.step), state
        self.used_rates |= state.step.eta != math.inf
        for callback in self.callbacks:
            answer = callback(self)
            if isinstance(answer, Restart):
                self.state = self.state.restarted(answer.n_rows)
            elif isinstance(answer, _NEVER_RUN):
                if isinstance(answer, CoroutineType):
                    answer.close()  # Python would warn that it was never awaited.
                raise TypeError(
                    "callbacks must be plain functions: nobody runs what one has returned, a"
                    f" {type(answer).__name__}."
                )
            else:
                self.stopped |= bool(answer)

    def latest_gains(self) -> list[float]:
        """Return by how much the last passes changed the log-likelihood, oldest first."""
        latest = map(float, self.lower_bounds[-_LATEST_PASSES:])
        return [abs(after - before) for before, after in pairwise(latest)]

    def latest_divergences(self) -> list[float]:
        """Return KL(new || old) of the last passes, as far as each was one step of batch EM."""
        passes = takewhile(lambda step: step.eta == math.inf, reversed(self.history.steps()))
        return [step.kl_divergence for step in islice(passes, self.n_iter)][::-1]


def run(
    passes: Passes,
    progress: Progress,
    max_iter: int,
    report: Callable[[int, float], object] | None = None,
) -> None:
    """Take passes until one says that it is the last, a callback stops them, or `max_iter`.

    Parameters
    ----------
    passes : iterator of (float, bool)
        What a solver yields after each pass over the data: its mean log-likelihood, and whether
        it was the last.
    progress : Progress
        Of the passes.
    max_iter : int
        Most passes; none where it is 0.
    report : callable, default=None
        Called with the number of each pass and its log-likelihood.
    """
    numbers = takewhile(lambda n_iter: n_iter <= max_iter, count(1))
    for n_iter, (log_likelihood, is_last) in zip(numbers, passes, strict=False):
        progress.lower_bounds.append(log_likelihood)
        progress.n_iter, progress.converged = n_iter, is_last
        if report is not None:
            report(n_iter, log_likelihood)
        if is_last or progress.stopped:
            break
