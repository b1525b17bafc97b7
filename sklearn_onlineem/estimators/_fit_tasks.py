"""scikit-learn's callbacks, from 1.9 on: a fit is a task, and each of its passes one within it."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:
        """Nothing, where scikit-learn has no callbacks."""


__all__ = ["CallbackSupportMixin", "FitTasks"]


class FitTasks:
    """The tasks that callbacks are told of: the fit, its starts if there are several, passes.

    Parameters
    ----------
    estimator : OnlineEM
    X, y : object
        As the user has passed them.
    n_starts : int
    """

    def __init__(self, estimator, X, y, n_starts):
        self._told = {"estimator": estimator, "X": X, "y": y}
        self._estimator, self._n_starts = estimator, n_starts
        self._fit = self._start = None
        if hasattr(estimator, "_init_callback_context"):
            n_tasks = estimator.max_iter if n_starts == 1 else n_starts
            self._fit = estimator._init_callback_context(max_subtasks=n_tasks)
            self._fit.call_on_fit_task_begin(**self._told)

    def observed(self, passes, progress, attributes):
        """Yield passes; callbacks are told before and after each, and may end the fit.

        Parameters
        ----------
        passes : iterator
            As a solver yields them.
        progress : Progress
        attributes : dict or None
            What validation found in the data.
        """
        if self._fit is None:
            yield from passes
            return
        fitted = {"reconstruction_attributes": lambda: self._fitted(progress, attributes)}
        within = self._fit if self._n_starts == 1 else self._next_start()
        while True:
            task = within.subcontext("pass").call_on_fit_task_begin(**self._told)
            done = next(passes, None)
            if done is None:
                return
            progress.stopped |= task.call_on_fit_task_end(**self._told, **fitted)
            yield done

    def _next_start(self):
        self._end_start()
        start = self._fit.subcontext("start", max_subtasks=self._estimator.max_iter)
        self._start = start.call_on_fit_task_begin(**self._told)
        return start

    def _end_start(self):
        if self._start is not None:
            self._start.call_on_fit_task_end(**self._told)

    def end(self):
        """Say that the fit is over."""
        self._end_start()
        if self._fit is not None:
            self._fit.call_on_fit_task_end(**self._told)

    def _fitted(self, progress, attributes):
        return {"_fitted": self._estimator._fitted_with(progress, attributes)}
