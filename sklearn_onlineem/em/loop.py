"""The loop around a solver's passes: it keeps the history and calls the callbacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TypeAlias

from sklearn_onlineem.em.state import History, Restart, State

# Each pass yields the mean log-likelihood of the data, and whether it was the last.
Passes: TypeAlias = Iterator[tuple[float, bool]]
# Called with the progress after an update.
Callback: TypeAlias = Callable[["Progress"], object]

# Returned by functions whose bodies have not run yet.
_NEVER_RUN = CoroutineType, GeneratorType, AsyncGeneratorType


@dataclass
class Progress:
    """Progress of one call of `fit` or `partial_fit`.

    Parameters
    ----------
    state : State
        The present state.
    history : History, default=History()
        The latest updates.
    callbacks : sequence of callables, default=()
        Each is called with the progress after an update. If it returns a `Restart`, learning rates
        start again; any other true value ends the fit.
    lower_bounds : list of float, default=[]
        Mean log-likelihood of each pass, in nats per observation.
    n_iter : int, default=0
        Passes so far.
    converged, stopped : bool, default=False
        Whether the stopping rule, or a callback, has ended the fit.
    chains : Chains or None, default=None
        Record of the Markov chains, if the solver ran any.
    used_rates, is_calling : bool, default=False
        Whether any step had a finite learning rate; whether a callback is running, or has raised.
    distance : float, default=inf
        Distance of the maximum, in standard errors a parameter, by the certificate of the fit.
    start : State, default=None
        The first state of a fit.
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
    is_calling: bool = False
    distance: float = math.inf
    start: State | None = None

    def take(self, state: State) -> None:
        """Replace the present state, record its step, and call the callbacks.

        TypeError is raised if a callback returns a coroutine or a generator.

        Parameters
        ----------
        state : State
            After an update.
        """
        self.history, self.state = self.history.with_step(state.step), state
        self.used_rates |= state.step.eta != math.inf
        for callback in self.callbacks:
            self.is_calling = True
            answer = callback(self)
            self.is_calling = False
            if isinstance(answer, Restart):
                self.state = self.state.restarted(answer.n_rows)
            elif isinstance(answer, _NEVER_RUN):
                if isinstance(answer, CoroutineType):
                    answer.close()  # Python would warn that it was never awaited.
                raise TypeError(
                    "callbacks must be plain functions; one returned something that is never run, a"
                    f" {type(answer).__name__}."
                )
            else:
                self.stopped |= bool(answer)


def run(
    passes: Passes,
    progress: Progress,
    max_iter: int,
    report: Callable[[int, float], object] | None = None,
) -> None:
    """Take passes until the solver or a callback ends them, at most `max_iter` with those before.

    Passes are those of `Solver.passes`, and update the progress. `report` is called with the number
    of each pass and its log-likelihood.

    Parameters
    ----------
    passes : iterator of (float, bool)
        See `Solver.passes`.
    progress : Progress
        Updated after each pass.
    max_iter : int
        Largest number of passes; may be 0.
    report : callable, default=None
        Called with the number of each pass and its log-likelihood.
    """
    if progress.converged or progress.stopped:
        return
    numbers = range(progress.n_iter + 1, int(max_iter) + 1)
    try:
        for n_iter, (log_likelihood, is_last) in zip(numbers, passes, strict=False):
            progress.lower_bounds.append(log_likelihood)
            progress.n_iter, progress.converged = n_iter, bool(is_last)
            if report is not None:
                report(n_iter, log_likelihood)
            if is_last or progress.stopped:
                break
    except RuntimeError as error:
        # Generators make this of a callback's own; see PEP 479.
        if isinstance(error.__cause__, StopIteration):
            raise error.__cause__ from None
        raise
