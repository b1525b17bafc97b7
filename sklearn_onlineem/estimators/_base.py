"""What all estimators share: the loops of fit and partial_fit, over any model of the engine."""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextlib import contextmanager
from functools import lru_cache
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.em import (
    STOPPING_RULES,
    Bayesian,
    Constant,
    Forgetting,
    Harmonic,
    PowerDecay,
    PowerDecayInRows,
    exact_inertia,
)
from sklearn_onlineem.estimators._fitted import FittedValues
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._training import Progress, Training
from sklearn_onlineem.estimators._validation import naming, raise_named
from sklearn_onlineem.estimators._warnings import warn_user

__all__ = ["OnlineEM"]

# Passes of batch EM over the first batch of a stream.
_START_PASSES = 3


class OnlineEM(FittedValues, DensityMixin, BaseEstimator):
    """Base of all estimators. Subclasses say what data and which model they start from."""

    # What validation of data writes on the estimator.
    _validated_attributes = ("n_features_in_", "feature_names_in_")
    # What must be the same in estimators that are merged.
    _common_attributes = _validated_attributes
    # Parameters that a fitted model has taken up, and can't change.
    _model_parameters = ("n_components",)

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"online", "batch"})],
        "eta0": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "beta": [Interval(Real, 0, 1, closed="both")],
        "schedule": [
            StrOptions({"power", "harmonic", "constant", "forgetting", "bayesian"}),
            callable,
        ],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "online_passes": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "stopping": [StrOptions(set(STOPPING_RULES))],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [None, Integral],
        "verbose": ["verbose"],
        "verbose_interval": [Interval(Integral, 1, None, closed="left")],
        "callbacks": [None, "array-like"],
    }

    @abstractmethod
    def _start(self, data, random_state, prior=None):
        """Return the model that EM starts from; `prior` is what few data need besides."""

    @abstractmethod
    def _given_start(self, data):
        """Return the model that the parameters alone give, or None if they do not."""

    def _start_prior(self, data):
        """Return pseudo-statistics that keep a start from few data proper, or None."""
        return None

    def _prior(self, model):
        """Return the prior as pseudo-statistics, or None."""
        return None

    @property
    def _n_hidden(self):
        """Number of hidden states or dimensions, which the work for a row grows with."""
        return self.n_components

    @abstractmethod
    def _rows_needed(self, model):
        """Return how many rows the model needs to be determined: its parameters per feature."""

    @abstractmethod
    def _data_of(self, X, reset, y=None):
        """Convert and check data; estimators that weigh theirs take `sample_weight`, too."""

    # ----------------------------------------------------------------------------------- fitting

    def _begin(self, X, **besides):
        """Set the model that EM starts from, and learn nothing from X."""
        self._validate_params()
        with self._kept_on_failure(), naming(self), self._lock():
            data = self._data_of(X, reset=True, **besides)
            with single_threaded_blas(data.n_rows):
                start = self._start(data, check_random_state(self.random_state))
            self._training = self._training_from(start, data)
        return self

    def _fit(self, observe):
        """Fit to what `observe(reset)` returns; parameters are valid when this is called."""
        random_state = check_random_state(self.random_state)
        with self._kept_on_failure(), naming(self), self._lock():
            resumes = self.warm_start and self.__sklearn_is_fitted__()
            if resumes:
                self._check_same_model()
            data = observe(reset=not resumes)
            with single_threaded_blas(data.n_rows):
                starts = self._starts(data, random_state)
                trained = (self._trained(start, data, random_state) for start in starts)
                best = max(trained, key=lambda training: training.lower_bounds[-1])
            self._finish(best, data)
        return self

    def _starts(self, data, random_state):
        """Trainings for `fit` to begin with."""
        if self.warm_start and self.__sklearn_is_fitted__():
            prior = self._prior(self.model_)
            yield self._training.resumed(prior, tuple(self.callbacks or ()))
            return
        for _ in range(self.n_init):
            training = self._training_from(self._start(data, random_state), data)
            yield training
            if training.stopped:
                return

    @contextmanager
    def _kept_on_failure(self):
        """Take back what validation writes on the estimator, if what follows fails."""
        names = self._validated_attributes
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _partial_fit(self, observe):
        """Update with the batch that `observe(reset)` returns."""
        first = not self.__sklearn_is_fitted__()
        self._validate_rates(first)
        with self._lock():
            if not self.__sklearn_is_fitted__():
                with self._kept_on_failure(), naming(self):
                    data = observe(reset=True)
                    with single_threaded_blas(data.n_rows):
                        self._training = self._first_training(data)
            else:
                try:
                    self._learn_next(observe)
                except ValueError as error:
                    raise_named(error, self)
        return self

    def _learn_next(self, observe):
        """Learn a batch of a stream that is not the first."""
        self._check_same_model()
        data = observe(reset=False)
        training = self._training
        training.callbacks = tuple(self.callbacks or ())
        with single_threaded_blas(data.n_rows):
            training.online_step(data, self._schedule(training))

    def _taken_up(self):
        """Values of the parameters that a model takes up."""
        return tuple(getattr(self, name) for name in self._model_parameters)

    def _check_same_model(self):
        """Raise ValueError if parameters that shape the model have changed since it was made."""
        pairs = zip(self._model_parameters, self._training.taken_up, self._taken_up(), strict=True)
        for name, fitted, now in pairs:
            if not _are_same(fitted, now):
                raise ValueError(
                    f"the fitted model has {name}={fitted!r}, and the parameter is now {now!r}; fit"
                    " anew."
                )

    def _validate_rates(self, first):
        """Validate parameters once, and again when the user changes the rates in mid-stream."""
        rates = (self.eta0, self.beta, self.schedule)
        if first or rates != self.__dict__.get("_valid_rates"):
            self._validate_params()
            self._valid_rates = rates

    def _first_training(self, data):
        """Learn the first batch of a stream."""
        given = self._given_start(data)
        if given is not None:
            training = self._training_from(given, data)
            training.online_step(data, self._schedule(training))
        else:
            model, prior = self._stream_start(data, check_random_state(self.random_state))
            training = self._training_from(model, data)
            training.start_from(data, prior, _START_PASSES)
        return training

    def _stream_start(self, data, random_state):
        """Return the model that a stream starts from, and pseudo-statistics that keep it proper."""
        prior = self._start_prior(data)
        return self._start(data, random_state, prior), prior

    def _training_from(self, model, data):
        return Training(
            Progress(model),
            self._prior(model),
            data.dtype,
            tuple(self.callbacks or ()),
            self._rows_needed(model),
            self._inertia(),
            self._taken_up(),
        )

    def _inertia(self):
        """What online steps hold on to: the old model's own statistics."""
        return exact_inertia

    def _trained(self, training, data, random_state):
        rng = np.random.default_rng(random_state.randint(np.iinfo(np.int32).max, size=4))
        passes = self._passes(training, data, rng)
        for n_iter, (log_likelihood, converged) in enumerate(passes, start=1):
            training.lower_bounds.append(log_likelihood)
            training.n_iter, training.converged = n_iter, converged
            if self.verbose and n_iter % self.verbose_interval == 0:
                print(f"{type(self).__name__}: pass {n_iter}, log-likelihood {log_likelihood:.6f}")
            if converged or training.stopped or n_iter == self.max_iter:
                break
        return training

    def _passes(self, training, data, rng):
        """Passes over the data without end; each yields its log-likelihood, and if it is the last.

        Online passes come most of the way; batch EM settles what is left in fewer passes than
        learning rates that decay.
        """
        if self.solver == "online" and len(data) > self.batch_size:
            schedule = self._schedule(training)
            for _ in range(self.online_passes):
                yield training.online_pass(data, self.batch_size, schedule, rng), False
        settled = STOPPING_RULES[self.stopping](self.tol)
        while True:
            path = training.batch_pass(data)
            yield path[0], settled(*path)

    def _finish(self, training, data):
        if not training.converged and self.tol > 0 and not training.stopped:
            warn_user(
                f"{type(self).__name__} did not converge within max_iter={self.max_iter} passes."
                " Raise max_iter or tol.",
                ConvergenceWarning,
            )
        n_seen = training.n_seen_before + data.total_weight
        training.progress = training.progress._replace(n_seen=n_seen)
        self._training = training

    def _schedule(self, training):
        """The schedule that the parameters describe."""
        if callable(self.schedule):
            return self.schedule
        if self.schedule == "bayesian":
            return Bayesian(self._pseudo_count(training))
        if self.eta0 != "auto":
            return _named_schedule(self.schedule, self.eta0, self.beta)
        if self.schedule == "power":
            return _power_decay_in_rows(training.rows_needed, self.beta)
        return _named_schedule(self.schedule, 1.0, self.beta)

    def _pseudo_count(self, training):
        """Pseudo-counts of the prior on the weights, for the Bayesian schedule."""
        return training.rows_needed if self.eta0 == "auto" else 1.0 / self.eta0

    def _lock(self):
        """One lock for each estimator, held while it learns."""
        try:
            return self.__dict__["_mutex"]
        except KeyError:
            return self.__dict__.setdefault("_mutex", threading.RLock())

    def _checked_start(self, name, values, shape):
        """Copy a start value as kernels take it; check its shape and that it is finite."""
        values = np.array(values, dtype=np.float64, order="C")
        if values.shape != shape or not np.isfinite(values).all():
            raise ValueError(
                f"{name} of {type(self).__name__} must be finite and of shape {shape}, got shape"
                f" {values.shape}."
            )
        return values

    def _exposed(self, values):
        """Parameters as users see them: copies in the type of the data that they come from."""
        return values.astype(self._training.dtype)

    def _generator(self):
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=4)
        return np.random.default_rng(seed)


def _are_same(a, b):
    """Whether two values of a parameter are equal, or of one class that can't say."""
    if a is b or (type(a) is type(b) and type(a).__eq__ is object.__eq__):
        return True
    return np.array_equal(a, b)


@lru_cache(maxsize=128)
def _named_schedule(name, eta0, beta):
    """The schedule that a name and the numbers of an estimator stand for."""
    if name == "power":
        return PowerDecay(eta0, beta)
    if name == "harmonic":
        return Harmonic(c=1.0 / eta0 - 1.0)
    if name == "constant":
        return Constant(eta0)
    return Forgetting(beta, eta0)


@lru_cache(maxsize=128)
def _power_decay_in_rows(rows_needed, beta):
    return PowerDecayInRows(rows_needed, beta)
