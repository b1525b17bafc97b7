"""Progress of an estimator: printed lines, warnings, and calls of callbacks."""

import inspect
import math
import sys
import warnings
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise, takewhile
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_onlineem.em.schedules import BETA_SCHEDULES
from sklearn_onlineem.em.solvers import Online
from sklearn_onlineem.em.stopping import StandardErrorStopping, expected_passes, remaining_gain
from sklearn_onlineem.estimators.fitted import copy_after, fitted_after
from sklearn_onlineem.estimators.learning import stops_in_standard_errors, tol_of
from sklearn_onlineem.families import Gaussians, Product
from sklearn_onlineem.families.capabilities import ColumnDistributions

_OURS = ("sklearn_onlineem", "sklearn", "joblib")
# Warnings that were given once, and where.
_TOLD = set()
# A deviation of a component below this share of that of the widest one may be a floor; it is one if
# more than this share of the rows nearby are equal.
_NARROW, _MOST_EQUAL = 1e-2, 0.8
# To sort so many rows takes as long as to make distributions.
_MANY = 16_384


def warn_user(message, category=UserWarning, once=False):
    """Warn as if from the first frame outside of this package, scikit-learn and joblib.

    Python shows a warning once for each line, but forgets that as searches begin a fit; `once` does
    not, unless filters ask for all warnings.
    """
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    if once and warnings.filters and warnings.filters[0][0] not in ("always", "error"):
        where = message, frame and (frame.f_code.co_filename, frame.f_lineno)
        if where in _TOLD:
            return
        _TOLD.add(where)
    warnings.warn(message, category, stacklevel=level)


# ---------------------------------------------------------------------------------------- progress


def log(estimator, what):
    """Print a line about a verbose estimator."""
    if estimator.verbose:
        print(f"{type(estimator).__name__}: {what}", flush=True)


def report_pass(estimator, n_iter, log_likelihood):
    """Print the number of a pass and its log-likelihood."""
    if n_iter % estimator.verbose_interval == 0:
        log(estimator, f"pass {n_iter}, log-likelihood {log_likelihood:.6f}")


def report_update(estimator, state):
    """Print the number of an update, of its rows, and its log-likelihood."""
    n_steps = state.counters.n_steps
    if n_steps == 1 or n_steps % estimator.verbose_interval == 0:
        what = f"update {n_steps}, {state.counters.n_rows} rows, log-likelihood"
        log(estimator, f"{what} {state.step.log_likelihood:.6f}")


# ---------------------------------------------------------------------------------------- warnings


def finish(estimator, solver, progress, data, may_converge=True):
    """Count the observations once for all passes; tell why the fit has ended, and warn of it."""
    name, n_iter = type(estimator).__name__, progress.n_iter
    if n_iter == 0:
        log(estimator, "max_iter=0, so that nothing is learnt")
        return
    reason = "converged" if progress.converged else "reached max_iter"
    reason = "stopped by a callback" if progress.stopped else reason
    last = progress.lower_bounds[-1]
    log(estimator, f"{reason} after pass {n_iter}, log-likelihood {last:.6f}")
    state, before = progress.state, progress.start.counters
    size = before.size + state.size_of(data)
    progress.state = state.counting(n_seen=before.n_seen + data.total_weight, size=size)
    may_converge &= estimator.tol != 0 and not solver.is_stochastic
    if may_converge and not (progress.converged or progress.stopped):
        warn_user(
            f"{name} did not converge within max_iter={n_iter} passes:"
            f" {_outlook(estimator, progress, data)}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
    average_from = solver.average_from
    if average_from is not None and n_iter < average_from and not progress.stopped:
        warn_user(
            f"{name} made {n_iter} passes and averaged none of them: average_from={average_from}."
        )
    warn_of_unused_rates(estimator, solver, progress)
    warn_of_point_masses(estimator, state.model, data)


def _outlook(estimator, progress, data):
    """Describe the last passes, or how far the maximum is, and how many more `tol` needs."""
    # The gains of earlier passes shrank faster.
    latest, model = map(float, progress.lower_bounds[-5:]), progress.state.model
    gains = [abs(after - before) for before, after in pairwise(latest)]
    steps = takewhile(lambda step: step.eta == math.inf, reversed(progress.history.steps()))
    divergences = [step.kl_divergence for step in islice(steps, progress.n_iter)][::-1]
    if divergences and stops_in_standard_errors(estimator, model):
        rule = StandardErrorStopping(data.total_weight, model.n_parameters())
        left, n_passes = remaining_gain(gains), rule.outlook(gains).n_passes
        if left == math.inf:
            return "its last passes do not tell how far the maximum is"
        where = f"parameters are some {rule.distance(left):.2g} standard errors from"
        if n_passes == 0:
            return f"{where} where they go, but that is not certified to be a maximum yet"
        return f"{where} the maximum, and {n_passes} more bring them within a tenth of one"
    values = divergences if estimator.stopping == "kl" else gains
    parts = [f"changed the log-likelihood by {gains[-1]:.2g} nats"] if gains else []
    parts += [f"had KL(new || old) = {divergences[-1]:.2g} nats"] if divergences else []
    if not parts:
        return "one pass does not determine a rate"
    found = f"the last {' and '.join(parts)}"
    tol = tol_of(estimator)
    if len(values) < 2:
        return found
    rate, n_passes = expected_passes(values, tol)
    if n_passes == math.inf:
        return f"{found}, and does not approach tol={tol:g}"
    return f"{found}, and at a rate of {rate:.3g} tol={tol:g} needs some {n_passes} more"


def warn_of_unused_rates(estimator, solver, progress):
    """Warn of parameters of learning rates that were set, but that no step has used."""
    has_own_rates, used = solver.has_own_rates, set()
    # All of its steps are online, also those of infinite rates.
    took_steps = progress.used_rates or isinstance(solver, Online)
    if took_steps and not has_own_rates:
        used = {"schedule"}
        if isinstance(estimator.schedule, str):
            used |= {"eta0", "beta"} if estimator.schedule in BETA_SCHEDULES else {"eta0"}
    unused = [
        name
        for name in ("eta0", "beta", "schedule")
        if name not in used and getattr(estimator, name) != estimator._defaults[name]
    ]
    if not unused:
        return
    if has_own_rates:
        why = "the solver has its own learning rates."
    elif took_steps:
        why = f"schedule={estimator.schedule!r} does not use it."
    else:
        why = (
            f"there was no online step, with solver={estimator.solver!r}, eta0={estimator.eta0!r}"
            f" and batch_size={estimator.batch_size}. Online EM is solver='online', and"
            " solver='auto' where eta0 is a number."
        )
    names = " or ".join(unused)
    whose = f"{type(estimator).__name__} took no step that depends on {names}, which was set"
    warn_user(f"{whose}: {why}", once=True)


def warn_of_point_masses(estimator, model, data):
    """Warn if components have a density without bound, at rows of data that are all equal."""
    family, X = getattr(model, "family", None), getattr(data, "X", None)
    if family is None or not isinstance(X, np.ndarray):
        return
    factors = [(family, slice(None), model.parameters)]
    if isinstance(family, Product):
        factors = zip(family.families, map(list, family.columns), model.parameters, strict=True)
    part = "state" if hasattr(model, "transmat") else "component"
    for factor, own, known in factors:
        rows, is_gaussian = X[:, own], isinstance(known, Gaussians)
        if is_gaussian:
            of_axes = known.covariance
            of_axes = of_axes.diagonal(axis1=1, axis2=2) if of_axes.ndim == 3 else of_axes
        else:
            kind = getattr(factor, "family", factor)  # that of the parts of mixtures
            kinds = kind, *getattr(kind, "families", ())
            is_told = all(isinstance(x, ColumnDistributions) and not x.is_whole for x in kinds)
            # To make distributions takes too long beside fits of few rows.
            if not (is_told and (len(X) >= _MANY or _repeats(rows))):
                continue
        narrow, deviations = True, []
        for j in range(rows.shape[1]):
            if is_gaussian:
                variances = of_axes[:, j % of_axes.shape[1]]
            else:
                variances = factor.distribution(known, j).var()
            narrow = narrow & (variances < _NARROW**2 * variances.max())
            if not narrow.any():
                break
            deviations.append(np.sqrt(variances))
        for k in np.flatnonzero(narrow):
            distances = np.abs(rows - factor.means(known)[k])
            near = rows[(distances <= 4.0 * np.array(deviations)[:, k]).all(axis=1)]
            # What most rows are, they are in each column.
            row = np.median(near, axis=0) if len(near) else near
            n_equal = np.count_nonzero((near == row).all(axis=1))
            if n_equal > max(1.0, _MOST_EQUAL * len(near)):
                warn_user(
                    f"{type(estimator).__name__}: {part} {k} has collapsed onto {n_equal}"
                    f" equal rows, {row.tolist()!s:.60}. Its variance is a floor and its density"
                    " has no bound, so that likelihoods compare floors. Pass NaN for such rows if"
                    " nothing was observed there, or decrease n_components.",
                    ConvergenceWarning,
                )


def _repeats(rows):
    # Equal rows have equal sums with any weights, up to rounding.
    sums = rows @ np.cos(np.arange(rows.shape[1]))
    sums = np.sort(sums[~np.isnan(sums)])
    return (np.diff(sums) <= 1e-12 * np.abs(sums[[0, -1]]).max()).any() if len(sums) else False


# Reading a signature takes as long as some updates.
_ASKING = WeakKeyDictionary()
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def callbacks_of(estimator, attributes=None):
    """Return callbacks as `Progress` calls them, with a copy of the estimator where one needs it.

    `attributes` is what validation found in the first data, or None. The list of callbacks is
    checked at each call, as it may have grown. Anything but a list of callables is a ValueError.
    """
    callbacks = estimator.callbacks
    if callbacks is None:
        return ()
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise ValueError(f"callbacks must be a list of callables or None, got {callbacks!r}.")
    return tuple(partial(_call, callback, estimator, attributes) for callback in callbacks)


def _call(callback, estimator, attributes, progress):
    """Call a callback; one with two arguments also gets a copy of the fitted estimator."""
    step = progress.state.step
    if _asks_for_estimator(callback):
        return callback(step, copy_after(estimator, progress, attributes))
    return callback(step)


def _asks_for_estimator(callback):
    """Return whether a callback needs two arguments; defaults do not count."""
    try:
        return _ASKING[callback]
    except (KeyError, TypeError):  # new, or nothing that can be a key
        pass
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):  # built in
        parameters = ()
    asks = sum(p.kind in _POSITIONAL and p.default is p.empty for p in parameters) == 2
    with suppress(TypeError):
        _ASKING[callback] = asks
    return asks


try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:
        """An empty mixin where scikit-learn has no callbacks."""


# Attributes of estimators that scikit-learn's callbacks watch.
TASKED = "_skl_callbacks", "_parent_callback_ctx"


class FitTasks:
    """The tasks of scikit-learn's callbacks: the fit, its starts if there are several, passes."""

    def __init__(self, estimator, X, y, attributes, starts, most):
        (self._n_starts, self._n_first), self._most, self._attributes = starts, most, attributes
        self._estimator, self._told = estimator, {"estimator": estimator, "X": X, "y": y}
        n_tasks = most if self._n_starts == 1 else self._n_starts
        # The fit, and within it starts that go on.
        self._open = [estimator._init_callback_context(max_subtasks=n_tasks)]
        self._open[0].call_on_fit_task_begin(**self._told)

    def observed(self, passes, progress):
        """Take the passes of a solver; callbacks are called around each, and may end the fit."""
        if self._n_starts > 1:
            if self._n_first is None:
                _called(progress, self.end, 1)
            self._open.append(_called(progress, self._begun, self._open[0], "start", self._most))
        within = self._open[-1]
        fitted = partial(fitted_after, self._estimator, progress, self._attributes)
        told = {**self._told, "reconstruction_attributes": lambda: {"_fitted": fitted()}}
        while True:
            task = _called(progress, self._begun, within, "pass", 0)
            done = next(passes, None)
            if done is None:
                return
            progress.stopped |= _called(progress, task.call_on_fit_task_end, **told)
            yield done

    def _begun(self, within, name, n_tasks):
        task = within.subcontext(name, max_subtasks=n_tasks)
        return task.call_on_fit_task_begin(**self._told)

    def end(self, n_open=0):
        """End all tasks but the first ones; starts that are compared end with the fit."""
        while len(self._open) > n_open:
            self._open.pop().call_on_fit_task_end(**self._told)


def _called(progress, callback, *args, **kwargs):
    """Return what a callback returns; if it raises, the progress is still calling."""
    progress.is_calling = True
    answer = callback(*args, **kwargs)
    progress.is_calling = False
    return answer
