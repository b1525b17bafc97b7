"""Base of all estimators: `fit` and `partial_fit` over any model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import ClassVar, NamedTuple

from sklearn.base import DensityMixin

from sklearn_onlineem._python import ours
from sklearn_onlineem._values import n_numbers
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.solvers import SOLVERS, Solver
from sklearn_onlineem.em.stages.base import Stage, Stream
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import without_outliers
from sklearn_onlineem.em.state import History
from sklearn_onlineem.estimators._known import KnownModel, known_model, not_fitted
from sklearn_onlineem.estimators._labels import numbered_by_labels
from sklearn_onlineem.estimators._start import LEAST_GAIN
from sklearn_onlineem.estimators._stream_start import StreamStarts
from sklearn_onlineem.estimators.fitted import RELEARNT, Fitted, FittedState, commit, structure_of
from sklearn_onlineem.estimators.learning import (
    LearningParameters,
    OnlineDefaults,
    drawn_seed,
    plan_of,
    random_state_of,
    relearning,
    resumed,
    schedule_of,
    state_of,
)
from sklearn_onlineem.estimators.parameters import estimator
from sklearn_onlineem.estimators.progress import (
    TASKED,
    CallbackSupportMixin,
    FitTasks,
    callbacks_of,
    finish,
    log,
    report_pass,
    report_update,
    warn_of_unused_rates,
    warn_user,
)
from sklearn_onlineem.estimators.threads import Locked, single_threaded_blas
from sklearn_onlineem.estimators.validation import (
    ALL_DATA,
    INVALID,
    Reader,
    converted,
    error_context,
    is_empty,
    raise_named,
)


@estimator
class OnlineEM(
    KnownModel, FittedState, Locked, CallbackSupportMixin, DensityMixin, LearningParameters
):
    """Base of all estimators: an input, an initialiser, a prior and a solver make a fit."""

    _online = OnlineDefaults()
    # What X may be: "sparse", CSR; "positive", without negative values; with values that are
    # "missing" beside others; in a list, arrays of one dimension, sequences of "symbols".
    _takes = frozenset()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = "sparse" in self._takes
        tags.input_tags.allow_nan = "missing" in self._takes
        tags.input_tags.positive_only = "positive" in self._takes
        return tags

    # ------------------------------------------------------------------ provided by a subclass

    # Class of `_input`.
    _reader: ClassVar[type[Reader]]

    def _input(self, fresh=False):
        """Return the input that reads data, for a new model if `fresh`, else for the fitted one."""
        return self._reader(self, fresh)

    @abstractmethod
    def _start(self):
        """Return the `Initialiser` of a fit, or of a stream."""

    _converted = converted

    def _pseudo_statistics(self, model, n_features):
        """Return the whole prior as pseudo-statistics, or None."""
        return None

    def _n_in_batch(self, data, settles=False):
        """Return how many observations a mini-batch has, of `fit`, or while a stream settles."""
        return len(data) if settles else self.batch_size

    def _solver(self):
        return SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver

    # ----------------------------------------------------------------------------------- fitting

    def _validate_params(self):
        super()._validate_params()
        with error_context(self):
            if self.schedule == "constant" and self.eta0 == "auto":
                raise ValueError("eta0 must be a number with schedule='constant', got 'auto'.")
            callbacks_of(self)

    def _fit(self, X, y=None, **where):
        """Fit to X, with further arguments of the input. Parameters are already validated."""
        with self._lock(), error_context(self):
            random_state = random_state_of(self.random_state)
            reader, data, resumes = _read(self, X, y, fresh=ALL_DATA, **where)
            # Callbacks may set a parameter.
            shape = structure_of(self) if self.callbacks else None
            another, attributes = None, reader.attributes
            with single_threaded_blas(data.n_rows):
                solver, n_first = self._solver(), None
                n_starts = 1 if resumes else getattr(self, "n_init", 1)
                begun = partial(_begun, self, data, random_state, attributes)
                if resumes:
                    progress, plan = begun(None)
                else:
                    initialiser = self._start()
                    progress, plan = begun(initialiser.model)
                    another = partial(begun, initialiser.another)
                if n_starts == "auto":
                    n_starts, n_first = solver.trial(progress.state, data, plan)
                starts, tasks = (n_starts, n_first), None
                if not vars(self).keys().isdisjoint(TASKED):
                    tasks = FitTasks(self, X, y, attributes, starts, plan.max_iter)
                progress = _solved(self, solver, (progress, plan), another, data, starts, tasks)
                if shape is not None:
                    self._check_structure(shape=shape)
                finish(self, solver, progress, data)
            commit(self, progress, attributes)
            if tasks is not None:
                tasks.end()
        return self

    def _partial_fit(self, X, y=None, with_end=None, **where):
        """Update with a batch; `with_end` returns the state after it and the `end` of the fit."""
        with self._lock():
            if is_empty(self, X):
                return
            if "_fitted" not in self.__dict__ and "_given" in self.__dict__:
                raise not_fitted(self)
            try:
                present = self.__dict__.get("_present_rules")
                rules = present or rules_of(self)
                try:
                    data = rules.reader.read(X, y, **where)
                finally:
                    rules.reader.form = None  # It has the data.
                if not data.n_rows:  # Nothing of it was observed.
                    return
                try:
                    if rules.learn is None:
                        _learn_first(self, rules, data, with_end)
                    else:
                        _learn(self, rules, data, with_end, rules is present)
                except BaseException:
                    vars(self).pop("_present_rules", None)
                    raise
            except INVALID as error:
                raise_named(error, self)


# ------------------------------------------------------------------------------------------ a fit


def _read(estimator, X, y, fresh=True, **where):
    """Return the input of a fit, what it reads, and whether the fitted model goes on."""
    resumes = estimator.warm_start and estimator.__sklearn_is_fitted__()
    if resumes:
        estimator._check_structure(RELEARNT)
    elif "_given" in vars(estimator):
        if estimator.warm_start:
            raise not_fitted(estimator)
        names = ", ".join(vars(estimator)["_given"])
        warn_user(
            f"{type(estimator).__name__}: fit starts anew, and does not use {names}, which were"
            " set. Initial values are parameters whose names end in '_init'."
        )
    reader = estimator._input(fresh=not resumes and fresh)
    return reader, reader.read(X, y, **where), resumes


def _begun(estimator, data, random_state, attributes, start_from):
    """Return the progress and the plan of a fit; without a start the fitted model goes on."""
    history, bounds, resumes = History(), (), start_from is None
    if resumes:
        log(estimator, "continues from the fitted model")
        history, bounds = estimator._fitted.history, estimator._fitted.lower_bounds
    model = known_model(estimator, data) if resumes else start_from(data, random_state)
    seed = drawn_seed(random_state)
    if model is None:
        state = resumed(estimator, seed=seed)
        state = numbered_by_labels(estimator, state, data, attributes or {})
    else:
        model = relearning(estimator, model) if resumes else model
        state = state_of(estimator, model, data, seed, is_known=resumes)
    progress = Progress(state, history, callbacks_of(estimator, attributes), start=state)
    return progress, plan_of(estimator, state, data, bounds)


def _solved(estimator, solver, first, another, data, starts, tasks):
    """Return the progress of a fit from the best of its starts, at the end.

    `starts` are their number, and the passes after which they are compared, and the best goes on;
    None: at their end. The first one is given up then for those that gain more than a little.
    """
    (n_starts, n_first), most, tried = starts, first[1].max_iter, []
    report = partial(report_pass, estimator) if estimator.verbose else None
    for number in range(1, n_starts + 1):
        if another is not None:
            log(estimator, f"start {number} of {n_starts}, from {data.n_rows} rows")
        try:
            progress, plan = first if number == 1 else another()
            passes = solver.passes(progress, data, plan)
            passes = passes if tasks is None else tasks.observed(passes, progress)
            run(islice(passes, n_first), progress, most, report)
            score = solver.score(progress, data) if n_starts > 1 else 0.0
            if number > 1 and n_first is not None:
                # Starts that differ by little may only have other numbers of components.
                score -= LEAST_GAIN * data.row_weight / data.total_weight
            # The best, and one to go on with if that fails.
            tried.append((score, progress, passes))
            tried = sorted(tried, key=itemgetter(0), reverse=True)[:2]
            if progress.stopped:
                break
            if n_starts > 1:
                log(estimator, f"score {score:.6f} after pass {progress.n_iter}")
        except ours(ValueError):
            # Starts that the user has not asked for may fail, but not their callbacks.
            if n_first is None or not tried or progress.is_calling:
                raise
    # From whichever start, callbacks end the fit.
    tried[0][1].stopped |= progress.stopped
    for _, progress, passes in tried:
        try:
            run(passes, progress, most, report)
            progress.state = solver.finished(progress.state)
            return progress
        except ours(ValueError):
            if passes is tried[-1][-1] or progress.is_calling:
                raise


def set_start(estimator, X, y=None, **where):
    """Return the estimator with the model that EM starts from; nothing is learnt from X."""
    estimator._validate_params()
    random_state = random_state_of(estimator.random_state)
    with estimator._lock(), error_context(estimator):
        reader, data, resumes = _read(estimator, X, y, **where)
        if resumes:
            model = known_model(estimator, data) or estimator._fitted.state.model
            model = relearning(estimator, model)
        else:
            with single_threaded_blas(data.n_rows):
                model = estimator._start().model(data, random_state)
        state = state_of(estimator, model, data, drawn_seed(random_state))
        if resumes:
            state = numbered_by_labels(estimator, state, data, reader.attributes or {})
        commit(estimator, Progress(state), reader.attributes)
    return estimator


# --------------------------------------------------------------------------------------- a stream


class Rules(NamedTuple):
    """Objects built from the parameters, cached between updates until a parameter is set."""

    reader: object
    solver: Solver
    # None while the start may change.
    learn: Callable | None
    stream: Stream | None
    # Stages that may have something to tell.
    stages: Sequence[Stage]
    callbacks: Sequence[Callable[..., object]] | None
    verbose: int
    # How many the fitted model has.
    n_numbers: int


def rules_of(estimator):
    """Return update rules of the parameters; validate these when one has changed."""
    if "_present_rules" not in vars(estimator):
        estimator._validate_params()
    fitted, solver = vars(estimator).get("_fitted"), estimator._solver()
    learn, stream, size = None, None, 0
    if fitted is not None:
        estimator._check_structure()
        state = fitted.state
        if not state.awaits_data and Opening.name not in state.carry:
            learn = solver.stream(state)
            stream = Stream(schedule_of(estimator, state), solver.draws, StreamStarts(estimator))
            size = n_numbers(state.model)
    stages = [one for one in solver.stream_stages() if type(one).warning is not Stage.warning]
    reader, told = estimator._input(fresh=fitted is None), (estimator.callbacks, estimator.verbose)
    return Rules(reader, solver, learn, stream, stages, *told, size)


def _learn(estimator, rules, data, with_end, is_present):
    """Learn observations of a stream; `is_present`: by the rules of the update before."""
    fitted, n_rows = estimator._fitted, data.n_rows
    before = fitted.state if is_present else resumed(estimator)
    # Before callbacks, as one may set a parameter, which drops the rules.
    estimator._present_rules = rules
    with single_threaded_blas(n_rows, rules.n_numbers):
        if rules.reader.attributes:
            before = numbered_by_labels(estimator, before, data, rules.reader.attributes)
        state = before.after(rules.learn(before, data, rules.stream), n_rows)
    history, end = fitted.history.with_step(state.step), None
    _warn(estimator, rules.stages, before, state, data)
    if rules.callbacks:
        progress = Progress(
            before, fitted.history, callbacks_of(estimator), list(fitted.lower_bounds),
            fitted.n_iter, fitted.converged, chains=fitted.chains, distance=fitted.distance,
        )  # fmt: skip
        progress.take(state)
        state = progress.state
    if with_end is not None:
        state, end = with_end(state, without_outliers(state.carry, data))
    # `_replace` would take twice as long.
    attributes, rules.reader.attributes = rules.reader.attributes or fitted.attributes, {}
    estimator._fitted = Fitted(state, history, attributes, *fitted[3:-2], end, fitted.distance)
    if rules.verbose:
        report_update(estimator, state)


def _learn_first(estimator, rules, data, with_end):
    """Learn observations of a stream whose start may change; two steps where it ends."""
    shape, fitted = structure_of(estimator), vars(estimator).get("_fitted")
    # A known model awaits its first data.
    is_new = fitted is None or fitted.state.awaits_data
    attributes, before = rules.reader.attributes, None if is_new else resumed(estimator)
    history = History() if fitted is None else fitted.history
    progress = Progress(before, history, callbacks_of(estimator, attributes))
    # Parameters are valid; setting one drops it.
    estimator._present_rules = end = None
    with single_threaded_blas(data.n_rows):
        steps = StreamStarts(estimator).steps(progress, data)
        if with_end is not None:
            usual = without_outliers(progress.state.carry, steps[-1][-1])
            progress.state, end = with_end(progress.state, usual)
    for step in steps:
        _warn(estimator, rules.stages, *step)
    if is_new and rules.solver.has_own_rates:
        warn_of_unused_rates(estimator, rules.solver, progress)
    estimator._check_structure(shape=shape)
    is_valid = "_present_rules" in vars(estimator)
    commit(estimator, progress, attributes, end)
    if is_valid:
        estimator._present_rules = None
    if rules.verbose:
        for _, state, _ in steps:
            report_update(estimator, state)


def _warn(estimator, stages, before, after, learnt):
    """Warn of what stages of a stream did in a step, in their words."""
    for stage in stages:
        if what := stage.warning(before, after, learnt):
            warn_user(f"{type(estimator).__name__}: {what}")
