"""Base of all estimators: `fit` and `partial_fit` over any model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state

from sklearn_onlineem._python import ours
from sklearn_onlineem._values import n_numbers
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.schedules import named_schedule
from sklearn_onlineem.em.solvers import SOLVERS, Auto, Online, Plan, Solver
from sklearn_onlineem.em.stages.base import Stage, Stream
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import without_outliers
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Constants, History, State
from sklearn_onlineem.em.stopping import STOPPING_RULES, StandardErrorStopping
from sklearn_onlineem.estimators._known import KnownModel
from sklearn_onlineem.estimators._stream_start import StreamStarts
from sklearn_onlineem.estimators.fitted import RELEARNT, Fitted, FittedState
from sklearn_onlineem.estimators.learning import LARGEST_INT, LearningParameters
from sklearn_onlineem.estimators.parameters import estimator
from sklearn_onlineem.estimators.progress import (
    CallbackSupportMixin,
    FitTasks,
    callbacks_of,
    log,
    report_end,
    report_pass,
    report_update,
    warn_of_passes,
    warn_of_point_masses,
    warn_of_unused_rates,
    warn_user,
)
from sklearn_onlineem.estimators.threads import Locked, single_threaded_blas
from sklearn_onlineem.estimators.validation import (
    ALL_DATA,
    INVALID,
    converted,
    error_context,
    is_empty,
    raise_named,
)
from sklearn_onlineem.models.coordinates import has_coordinates

# Decay of learning rates by default, and after the settled start of a stream; chosen by
# benchmarks/real_data/streams.py.
_DECAY, _SETTLED_DECAY = 0.6, 0.8


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


@estimator
class OnlineEM(
    KnownModel, FittedState, Locked, CallbackSupportMixin, DensityMixin, LearningParameters
):
    """Base of all estimators: an input, an initialiser, a prior and a solver make a fit."""

    # `tol="auto"` where no pass sees all data at once, in nats per observation.
    _approximate_tol = 1e-3
    # The default `eta0` where no settled start of a stream comes before.
    _first_rate: ClassVar[float | str] = "auto"
    # Whether starts of streams are made anew as rows come.
    _keeps_first_rows = True
    # Whether arrays of one dimension, in a list, are sequences of symbols.
    _takes_symbols = False
    # Whether rows may be CSR, must not be negative, and may have missing values beside others.
    _takes_sparse = _takes_positive_only = _handles_missing = False
    # A fitted model that is the prior, see `TakesPrior`.
    _learnt_prior = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.allow_nan = self._handles_missing
        tags.input_tags.positive_only = self._takes_positive_only
        return tags

    # ------------------------------------------------------------------ provided by a subclass

    @abstractmethod
    def _input(self, fresh=False):
        """Return the input that reads data, for a new model if `fresh`, else for the fitted one."""

    @abstractmethod
    def _start(self):
        """Return the `Initialiser` of a fit, or of a stream."""

    def _converted(self, X, fresh, ensure_all_finite=True):
        """Return rows as kernels take them, and the attributes that first data define."""
        return converted(self, X, fresh, ensure_all_finite)

    def _pseudo_statistics(self, model, n_features):
        """Return the whole prior as pseudo-statistics, or None."""
        return None

    def _settling_batch(self, n):
        """Return how many of n first observations of a stream are a batch while it is settled."""
        return n

    @property
    def _expected_size(self):
        """The size of a stream if it is known, else 0."""
        return getattr(self, "total_samples", None) or 0.0

    def _resumed(self, **changes):
        """Return the fitted state with what parameters now say of it, and with changes.

        Subclasses may also change settings of the model.
        """
        state, n_features = self._fitted.state, getattr(self, "n_features_in_", 0)
        prior = self._pseudo_statistics(state.model, n_features)
        constants = state.constants._replace(expected_size=self._expected_size)
        model = self._relearning(state.model)
        return state._replace(model=model, prior=prior, constants=constants, **changes)

    # ----------------------------------------------------------------------------------- fitting

    def _fit(self, X, y=None, **where):
        """Fit to X, with further arguments of the input. Parameters are already validated."""
        with self._lock(), error_context(self):
            random_state = check_random_state(self.random_state)
            reader, data, resumes = self._read(X, y, fresh=ALL_DATA, **where)
            shape = tuple(map(partial(getattr, self), self._structural_parameters))
            with single_threaded_blas(data.n_rows):
                given = data, random_state, reader.attributes
                if resumes:
                    (first, plan), another = self._resumption(*given), None
                else:
                    initialiser = self._start()
                    first, plan = self._begun(initialiser.model, *given)
                    another = partial(self._begun, initialiser.another, *given)
                n_starts, n_first = 1 if resumes else getattr(self, "n_init", 1), None
                if n_starts == "auto":
                    n_first = self._solver().trial_passes(first.state, data, plan)
                    n_starts = 1 if n_first is None else 2
                tasks = FitTasks(self, X, y, reader.attributes, n_starts, n_first)
                progress = self._solved((first, plan), another, data, tasks)
                if self.callbacks:  # which may have set one
                    self._check_shape(shape)
                self._finish(progress, data)
            self._commit(progress, reader.attributes)
            tasks.end()
        return self

    def _read(self, X, y, fresh=True, **where):
        """Return the input of a fit, what it reads, and whether the fitted model goes on."""
        resumes = self.warm_start and self.__sklearn_is_fitted__()
        if resumes:
            self._check_structure(RELEARNT)
        elif "_given" in self.__dict__:
            if self.warm_start:
                raise self._not_fitted()
            names = ", ".join(self.__dict__["_given"])
            warn_user(
                f"{type(self).__name__}: fit starts anew, and does not use {names}, which were set."
                " Initial values are parameters whose names end in '_init'."
            )
        reader = self._input(fresh=not resumes and fresh)
        return reader, reader.read(X, y, **where), resumes

    def _resumption(self, data, random_state, attributes):
        """Return the progress of a fit that goes on from the fitted model, and the plan."""
        log(self, "continues from the fitted model")
        model, seed = self._known_model(data), _drawn_seed(random_state)
        if model is None:
            state = self._resumed(seed=seed)
        else:
            state = self._state_of(self._relearning(model), data, seed, is_known=True)
        history, callbacks = self._fitted.history, callbacks_of(self, attributes)
        progress = Progress(state, history, callbacks, start=state)
        return progress, self._plan(state, data, self._fitted.lower_bounds)

    def _begun(self, start_from, data, random_state, attributes):
        """Return the progress of a fit at a start, and the plan."""
        model = start_from(data, random_state)
        state = self._state_of(model, data, _drawn_seed(random_state))
        progress = Progress(state, callbacks=callbacks_of(self, attributes), start=state)
        return progress, self._plan(state, data)

    def _solved(self, first, another, data, tasks):
        """Return the progress of a fit from the best of its starts, at the end.

        Starts are compared after `n_first` passes, and the best goes on; None: at their end.
        """
        solver, most, n_first, tried = self._solver(), self._most_passes, tasks.n_first, []
        report = partial(report_pass, self) if self.verbose else None
        for number in range(1, tasks.n_starts + 1):
            if another is not None:
                log(self, f"start {number} of {tasks.n_starts}, from {data.n_rows} rows")
            try:
                progress, plan = first if number == 1 else another()
                passes = tasks.observed(solver.passes(progress, data, plan), progress)
                run(islice(passes, n_first), progress, most, report)
                score = solver.score(progress, data) if tasks.n_starts > 1 else 0.0
                # The best, and one to go on with if that fails.
                tried.append((score, progress, passes))
                tried = sorted(tried, key=itemgetter(0), reverse=True)[:2]
                if progress.stopped:
                    break
                if tasks.n_starts > 1:
                    log(self, f"score {score:.6f} after pass {progress.n_iter}")
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
                report_end(self, progress)
                return progress
            except ours(ValueError):
                if passes is tried[-1][-1] or progress.is_calling:
                    raise

    def _state_of(self, model, data, seed, is_known=False):
        """Return the state in which a model starts to learn."""
        constants = Constants(
            observations_needed=model.observations_needed(data),
            size_unit=model.size_of(data) / data.total_weight,
            expected_size=self._expected_size,
            is_known=is_known,
        )
        prior = self._pseudo_statistics(model, data.n_features)
        return State(model, prior, seed=seed, constants=constants)

    @property
    def _most_passes(self):
        if self.max_iter != "auto":
            return self.max_iter
        solver = self._solver()
        is_online = isinstance(solver, Auto) and self.eta0 != "auto" or isinstance(solver, Online)
        return 100 if is_online or solver.is_stochastic else 1000

    def _stops_in_standard_errors(self, model):
        """Return whether `tol` asks for a distance that can be told for a model."""
        return self.tol == "auto" and self.stopping == "likelihood" and has_coordinates(model)

    def _n_in_batch(self, data):
        """Return how many observations a mini-batch of `fit` has."""
        return self.batch_size

    def _plan(self, state, data, bounds=()):
        """Return the arguments of passes; `bounds` are of the fit before, if it continues."""
        bound_before = bounds[-1] if bounds else -math.inf

        def stopping(is_exact=True):
            """Return a rule that has seen the last pass of the fit before, if there is one."""
            if self._stops_in_standard_errors(state.model) and is_exact:
                rule = StandardErrorStopping(data.total_weight, state.model.n_parameters())
            else:
                tol = self._approximate_tol if self.tol == "auto" else self.tol
                rule = STOPPING_RULES[self.stopping](tol)
            rule(bound_before, math.inf)
            return rule

        is_given = (
            state.constants.is_known or self._learnt_prior is not None or self._has_start_values()
        )
        return Plan(
            self._schedule(state, is_stream=False), self._n_in_batch(data), stopping, state.seed,
            rate_is_chosen=self.eta0 != "auto", start_is_given=is_given,
            max_iter=self._most_passes, bound_before=bound_before,
        )  # fmt: skip

    def _finish(self, progress, data, may_converge=True):
        """Count the observations once for all passes; warn of convergence and unused rates."""
        if progress.n_iter == 0:
            return
        state, before = progress.state, progress.start.counters
        size = before.size + state.size_of(data)
        progress.state = state.counting(n_seen=before.n_seen + data.total_weight, size=size)
        warn_of_passes(self, progress, data, may_converge)
        warn_of_unused_rates(self, progress)
        warn_of_point_masses(self, progress.state.model, data)

    def _partial_fit(self, X, y=None, with_end=None, **where):
        """Update with a batch; `with_end` returns the state after it and the `end` of the fit."""
        with self._lock():
            if is_empty(self, X):
                return
            if "_fitted" not in self.__dict__ and "_given" in self.__dict__:
                raise self._not_fitted()
            try:
                present = self.__dict__.get("_present_rules")
                rules = present or self._rules()
                try:
                    data = rules.reader.read(X, y, **where)
                finally:
                    rules.reader.form = None  # It has the data.
                if not data.n_rows:  # Nothing of it was observed.
                    return
                if rules.learn is None:
                    self._learn_first(rules, data, with_end)
                else:
                    self._learn(rules, data, with_end, rules is present)
            except INVALID as error:
                raise_named(error, self)

    def _learn(self, rules, data, with_end, is_present):
        """Learn observations of a stream; `is_present`: by the rules of the update before."""
        fitted, n_rows = self._fitted, data.n_rows
        before = fitted.state if is_present else self._resumed()
        try:
            # Before callbacks, as one may set a parameter, which drops the rules.
            self._present_rules = rules
            with single_threaded_blas(n_rows, rules.n_numbers):
                state = before.after(rules.learn(before, data, rules.stream), n_rows)
            history, end = fitted.history.with_step(state.step), None
            _warn(self, rules.stages, before, state, data)
            if rules.callbacks:
                progress = Progress(
                    before, fitted.history, callbacks_of(self), list(fitted.lower_bounds),
                    fitted.n_iter, fitted.converged, chains=fitted.chains, distance=fitted.distance,
                )  # fmt: skip
                progress.take(state)
                state = progress.state
            if with_end is not None:
                state, end = with_end(state, without_outliers(state.carry, data))
            # `_replace` would take twice as long.
            attributes = rules.reader.attributes or fitted.attributes
            self._fitted = Fitted(state, history, attributes, *fitted[3:-2], end, fitted.distance)
        except BaseException:
            self.__dict__.pop("_present_rules", None)
            raise
        if rules.verbose:
            report_update(self, state)

    def _learn_first(self, rules, data, with_end):
        """Learn observations of a stream whose start may change; two steps where it ends."""
        shape = tuple(map(partial(getattr, self), self._structural_parameters))
        fitted = self.__dict__.get("_fitted")
        # A known model awaits its first data.
        is_new = fitted is None or fitted.state.awaits_data
        attributes, before = rules.reader.attributes, None if is_new else self._resumed()
        history = History() if fitted is None else fitted.history
        progress = Progress(before, history, callbacks_of(self, attributes))
        # Parameters are valid; setting one drops it.
        self._present_rules = end = None
        try:
            with single_threaded_blas(data.n_rows):
                steps = StreamStarts(self).steps(progress, data)
                if with_end is not None:
                    usual = without_outliers(progress.state.carry, steps[-1][-1])
                    progress.state, end = with_end(progress.state, usual)
            for step in steps:
                _warn(self, rules.stages, *step)
            if is_new and rules.solver.has_own_rates:
                warn_of_unused_rates(self, progress)
            self._check_shape(shape)
            is_valid = "_present_rules" in self.__dict__
            self._commit(progress, attributes, end)
        except BaseException:
            self.__dict__.pop("_present_rules", None)
            raise
        if is_valid:
            self._present_rules = None
        if rules.verbose:
            for _, state, _ in steps:
                report_update(self, state)

    def _rules(self):
        """Return update rules of the parameters; validate these when one has changed."""
        if "_present_rules" not in self.__dict__:
            self._validate_params()
        fitted, solver, learn, stream = vars(self).get("_fitted"), self._solver(), None, None
        size = 0
        if fitted is not None:
            self._check_structure()
            state = fitted.state
            if not state.awaits_data and Opening.name not in state.carry:
                learn = solver.stream(state)
                stream = Stream(self._schedule(state), solver.draws, StreamStarts(self))
                size = n_numbers(state.model)
        warning = [one for one in solver.stream_stages() if type(one).warning is not Stage.warning]
        reader = self._input(fresh=fitted is None)
        return Rules(reader, solver, learn, stream, warning, self.callbacks, self.verbose, size)

    def _validate_params(self):
        super()._validate_params()
        with error_context(self):
            if self.schedule == "constant" and self.eta0 == "auto":
                raise ValueError("eta0 must be a number with schedule='constant', got 'auto'.")
            callbacks_of(self)

    def _solver(self):
        return SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver

    def _schedule(self, state, is_stream=True):
        if not isinstance(self.schedule, str):
            return self.schedule
        eta0, beta, keeps = self.eta0, self.beta, is_stream and self._keeps_first_rows
        opening = self._solver().stage(Opening) if keeps else None
        is_settled = opening is not None and opening.rows > 0
        is_settled = is_settled and not (state.constants.is_known or self._has_start_values())
        # A start that was not settled has to be forgotten soon.
        if eta0 == "auto" and not is_settled:
            eta0 = self._first_rate
        if beta == "auto" and self.schedule != "forgetting":
            beta = _SETTLED_DECAY if is_settled else _DECAY
            if is_stream and self._solver().stage(Challenge) is not None:
                beta = 1.0  # A sample serves models of all rows so far.
        return named_schedule(self.schedule, eta0, beta, state.constants.observations_needed)

    def _start_parameters(self):
        """Return names of parameters that set the start."""
        return [
            name
            for name in self._defaults
            if name in ("init", "init_params") or (name.endswith("_init") and name != "n_init")
        ]

    def _has_start_values(self):
        return not all(isinstance(getattr(self, x), str | None) for x in self._start_parameters())

    def _begin(self, X, y=None, **where):
        """Set the model that EM starts from, and learn nothing from X."""
        self._validate_params()
        random_state = check_random_state(self.random_state)
        with self._lock(), error_context(self):
            reader, data, resumes = self._read(X, y, **where)
            if resumes:
                model = self._relearning(self._known_model(data) or self._fitted.state.model)
            else:
                with single_threaded_blas(data.n_rows):
                    model = self._start().model(data, random_state)
            state = self._state_of(model, data, _drawn_seed(random_state))
            self._commit(Progress(state), reader.attributes)
        return self

    def _drawn_seed(self):
        return _drawn_seed(check_random_state(self.random_state))

    def _generator(self):
        return np.random.default_rng(self._drawn_seed())


def _warn(estimator, stages, before, after, learnt):
    """Warn of what stages of a stream did in a step, in their words."""
    for stage in stages:
        if what := stage.warning(before, after, learnt):
            warn_user(f"{type(estimator).__name__}: {what}")


def _drawn_seed(random_state):
    return tuple(random_state.randint(LARGEST_INT, size=4).tolist())
