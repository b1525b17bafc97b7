"""Base of all estimators: `fit` and `partial_fit` over any model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from numbers import Integral, Real
from operator import itemgetter
from typing import ClassVar, NamedTuple, Unpack

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem._python import ours
from sklearn_onlineem._typing import Cut, RowData, Where
from sklearn_onlineem._values import n_numbers
from sklearn_onlineem.em.loop import Progress, run
from sklearn_onlineem.em.schedules import SCHEDULES, named_schedule
from sklearn_onlineem.em.solvers import SOLVERS, Auto, Online, Plan, Solver, solvers_for
from sklearn_onlineem.em.stages.base import Stage, Stream
from sklearn_onlineem.em.stages.opening import Opening
from sklearn_onlineem.em.stages.outliers import without_outliers
from sklearn_onlineem.em.stages.sample import Challenge
from sklearn_onlineem.em.state import Constants, History, State
from sklearn_onlineem.em.stopping import STOPPING_RULES, StandardErrorStopping
from sklearn_onlineem.estimators._known import KnownModel
from sklearn_onlineem.estimators._stream_start import StreamStarts
from sklearn_onlineem.estimators.fitted import RELEARNT, Fitted, FittedState
from sklearn_onlineem.estimators.parameters import (
    Parameterised,
    arguments_beside,
    estimator,
    parameter,
)  # fmt: skip
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
from sklearn_onlineem.models import Model
from sklearn_onlineem.models.coordinates import has_coordinates

# Decay of learning rates by default, and after the settled start of a stream; chosen by
# benchmarks/real_data/streams.py.
_DECAY, _SETTLED_DECAY = 0.6, 0.8
# Numbers of jobs are as in joblib, where 0 has no meaning; C integers count them.
_LARGEST_INT = np.iinfo(np.int32).max
N_JOBS = [
    None,
    Interval(Integral, 1, _LARGEST_INT, closed="both"),
    Interval(Integral, -_LARGEST_INT, -1, closed="both"),
]


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
class OnlineEM(KnownModel, FittedState, Locked, CallbackSupportMixin, DensityMixin, Parameterised):
    """Base of all estimators: an input, an initialiser, a prior and a solver make a fit.

    Parameters
    ----------
    solver : str or Solver, default="auto"
        How `fit` learns. "auto": online EM if `eta0` is a number; if it is "auto", a pass in
        mini-batches, and then batch EM until `tol`; mixtures of 5 components or more take split and
        merge steps, and turns of both if rows are few, see :class:`~sklearn_onlineem.em.Auto`.
        "online": only online EM, at most `max_iter` passes over shuffled mini-batches. "batch":
        batch EM. "stochastic": `max_iter` passes of batch EM that draw the hidden variables; they
        use neither `tol` nor `batch_size`. "bayesian": Bayesian online EM, one pass whose learning
        rates come from the prior and the data. "adaptive": as "auto", and streams need no learning
        rate, see :class:`~sklearn_onlineem.em.Adaptive`. Strings are short for values, which have
        further settings: see :ref:`solvers`.
        `partial_fit` takes an online step, which draws the hidden variables if the solver does, and
        keeps running statistics if it is "bayesian".
    eta0 : float or "auto", default="auto"
        First learning rate, above 0. "auto" depends on the number b of observations in a batch, and
        on the number m that determines the model (as many numbers as it has parameters). It is
        ``(b/m)**(1-beta)`` with ``schedule="power"``, and 1 with the others. If the lengths of
        sequences are given, not modelled, rates count rows: time t is 1 plus the rows seen before
        over the rows of the batch, and pieces may have any sizes.
    beta : float or "auto", default="auto"
        Decay of the learning rate, in [0, 1]; the forgetting factor with ``schedule="forgetting"``.
        "auto": 0.8 in streams that start from their first rows, and 1 in those with a sample, see
        :class:`~sklearn_onlineem.em.Online`; 0.6 in others, as from given start values, and in
        `fit`; with "forgetting" the past counts for half after 16 times the rows that determine
        the model.
    schedule : str or callable, default="power"
        "power": ``eta0 / t**beta``; "harmonic": ``1 / (t - 1 + 1 / eta0)``; "constant": ``eta0``;
        "forgetting": batches that are k steps old weigh ``beta**k``; or any callable t -> eta, such
        as :class:`~sklearn_onlineem.em.PowerDecay`.
    batch_size : int, default=1000
        Observations in a mini-batch of `fit`, at most. With ``eta0="auto"``, data of no more
        observations are fitted by batch EM, but for mixtures of few rows, see `solver`.
    max_iter : int or "auto", default="auto"
        Maximum number of passes of `fit` over the data. 0: `fit` only sets the start. "auto": 1000
        of batch EM, and 100 in mini-batches or with draws.
    tol : float or "auto", default="auto"
        "auto": `fit` ends when the parameters are within a tenth of a standard error of a local
        maximum, in root mean square, as a certificate tells: by the score, and by the observed
        information, which has no negative curvature. A number: when `stopping` falls below it, in
        nats per observation; 0 is never, and every pass is one of EM. Laplace distributions, and
        priors that empty components, have no certificate, and the latest gains tell the distance.
        Where they cannot, "auto" is 1e-3, or 1e-2 nats per sequence: with ``stopping="kl"``, for
        passes in mini-batches, and for models without standard errors.
    stopping : {"likelihood", "kl"}, default="likelihood"
        What `fit` compares with a number `tol`: the change of the mean log-likelihood, or the KL
        divergence between the models before and after a pass.
    warm_start : bool, default=False
        Whether `fit` starts from the fitted model. Its first pass is then compared with the last
        one of the previous fit, so that fits of one pass notice convergence, too.
    random_state : int, RandomState instance or None, default=None
        Of starts, of the order of observations in `fit`, of drawn variables, and of `sample`.
    n_jobs : int, default=None
        Number of threads; -1 uses all processors, and None one, unless in a context of
        `joblib.parallel_config`. Results do not depend on it.
    verbose : int, default=0
        From 1 on, `fit` prints each start, every `verbose_interval`-th pass with its mean
        log-likelihood, and why it ended; `partial_fit` prints the first and every
        `verbose_interval`-th update, with the rows read so far.
    verbose_interval : int, default=10
        Passes, or updates of a stream, between messages.
    callbacks : list of callables, default=None
        Each is called after every update with a :class:`~sklearn_onlineem.em.state.Step`, a tuple
        (eta, log_likelihood, kl_divergence, n_rows). Learning rates restart if one returns
        :class:`~sklearn_onlineem.em.Restart`; any other true value ends the fit. A callback with a
        second argument also gets a copy of the estimator, fitted as of that update and without
        callbacks, such as :class:`~sklearn_onlineem.diagnostics.EarlyStopping`. A callback must not
        be a coroutine function, nor call `fit` or `partial_fit` of the estimator itself. If it
        raises, the estimator stays unchanged; other threads see the previous model until the fit
        has ended. Parameters that it sets act from the next call on; the fit is refused if one of
        them shapes the model.
    """

    solver: str | Solver = parameter(default="auto", valid=[StrOptions(solvers_for(Model)), Solver])
    eta0: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})]
    )
    beta: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})]
    )
    schedule: str | Callable[[float], float] = parameter(
        default="power", valid=[StrOptions(set(SCHEDULES)), callable]
    )
    batch_size: int = parameter(default=1000, valid=[Interval(Integral, 1, None, closed="left")])
    max_iter: int | str = parameter(
        default="auto", valid=[Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})]
    )
    tol: float | str = parameter(
        default="auto", valid=[Interval(Real, 0, None, closed="left"), StrOptions({"auto"})]
    )
    stopping: str = parameter(default="likelihood", valid=[StrOptions(set(STOPPING_RULES))])
    warm_start: bool = parameter(default=False, valid=["boolean"])
    random_state: object = parameter(default=None, valid=["random_state"])
    n_jobs: int | None = parameter(default=None, valid=N_JOBS)
    verbose: int = parameter(default=0, valid=["verbose"])
    verbose_interval: int = parameter(
        default=10, valid=[Interval(Integral, 1, None, closed="left")]
    )
    callbacks: Sequence[Callable[..., object]] | None = parameter(
        default=None, valid=[None, "array-like"]
    )

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

    # --------------------------------------------------------------------------------- inference

    def _reader(self):
        """Return the input that reads data for inference."""
        return self._input()

    def _made(self, method, X, *cut, given=(), reader=None, **where):
        """Return what a method of the model makes of data, and the form of these if sequences."""
        seen = self._seen()
        reader = seen._reader() if reader is None else reader
        first = dict(zip(arguments_beside(type(self)), cut, strict=False)) if cut else {}
        data = reader.read(X, **first, **where)
        try:
            with single_threaded_blas(data.n_rows):
                return getattr(seen._owner_of(method), method)(data, *given), reader.form
        except INVALID as error:
            raise_named(error, self)

    def _infer(self, method, X, *cut, given=(), **where):
        """Return what a method of the model makes of each row, in the form of X."""
        found, form = self._made(method, X, *cut, given=given, **where)
        return found if form is None else form.restored(found)

    def _drawn_seed(self):
        return _drawn_seed(check_random_state(self.random_state))

    def _generator(self):
        return np.random.default_rng(self._drawn_seed())


class InformationCriteria:
    """Mixin of estimators whose `_evidence` has the log-likelihood of data, and their number."""

    def bic(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> float:
        r"""Return the Bayesian information criterion on X; lower is better.

        It is :math:`-2 \log L + p \log n`, of a model with p free parameters and n rows.

        Returns
        -------
        bic : float
            With log-likelihoods in nats.
        """
        seen = self._seen()
        log_likelihood, n = seen._evidence(X, *cut, **where)
        return _n_parameters(seen) * math.log(n) - 2.0 * log_likelihood

    def aic(self, X: RowData, *cut: Cut, **where: Unpack[Where]) -> float:
        r"""Return the Akaike information criterion on X; lower is better.

        It is :math:`-2 \log L + 2 p`, of a model with p free parameters.

        Returns
        -------
        aic : float
            With log-likelihoods in nats.
        """
        seen = self._seen()
        return 2.0 * (_n_parameters(seen) - seen._evidence(X, *cut, **where)[0])


def _n_parameters(estimator):
    """Return the number of free parameters, which is a matter of ranks for some models."""
    with single_threaded_blas(math.inf):
        return estimator.model_.n_parameters()


def _warn(estimator, stages, before, after, learnt):
    """Warn of what stages of a stream did in a step, in their words."""
    for stage in stages:
        if what := stage.warning(before, after, learnt):
            warn_user(f"{type(estimator).__name__}: {what}")


def _drawn_seed(random_state):
    return tuple(random_state.randint(_LARGEST_INT, size=4).tolist())
