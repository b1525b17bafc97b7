"""What all hidden Markov models share; the estimators add their names for things."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._sequences import sequence_form
from sklearn_onlineem.estimators._starts import STARTS, start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import naming, validated_sequences
from sklearn_onlineem.estimators.live_filter import StateFilter
from sklearn_onlineem.families import Rows
from sklearn_onlineem.models import (
    EmitsOnce,
    Finite,
    HiddenMarkovModel,
    HiddenMarkovStatistics,
    Sequences,
    SilentEnd,
)

__all__ = ["BaseHMM"]


class BaseHMM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEM):
    """Base of the hidden Markov models: they say which family, and name its parameters."""

    _validated_attributes = (*OnlineEM._validated_attributes, "_rows_per_sequence")
    # With metadata routing, Pipeline.score hands on sample_weight=None though nobody passed any,
    # and refuses final steps that have not heard of it.
    __metadata_request__score = {"sample_weight": None}
    # Letters of `params` that stand for the emissions.
    _emission_letters = "e"

    _parameter_constraints: dict = {
        **OnlineEM._parameter_constraints,
        "horizon": [StrOptions({"finite", "absorbing"})],
        "absorbing_states": [None, "array-like"],
        "params": [str],
        "startprob_init": [None, "array-like"],
        "transmat_init": [None, "array-like"],
        "startprob_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "transmat_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "prior": [None, dict],
        "init": [StrOptions(set(STARTS)), "array-like"],
        "algorithm": [StrOptions({"viterbi", "map"})],
    }

    def __init__(
        self,
        n_components=1,
        *,
        horizon="finite",
        absorbing_states=None,
        params="ste",
        startprob_init=None,
        transmat_init=None,
        startprob_prior=None,
        transmat_prior=None,
        prior=None,
        init="k-means",
        algorithm="viterbi",
        solver="online",
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=10,
        online_passes=1,
        max_iter=100,
        tol=1e-2,
        stopping="likelihood",
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        self.n_components = n_components
        self.horizon = horizon
        self.absorbing_states = absorbing_states
        self.params = params
        self.startprob_init = startprob_init
        self.transmat_init = transmat_init
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.prior = prior
        self.init = init
        self.algorithm = algorithm
        self.solver = solver
        self.eta0 = eta0
        self.beta = beta
        self.schedule = schedule
        self.batch_size = batch_size
        self.online_passes = online_passes
        self.max_iter = max_iter
        self.tol = tol
        self.stopping = stopping
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    @abstractmethod
    def _family(self):
        """Return the family of the emissions, not yet bound to data."""

    def _given_emissions(self, family, rows):
        """Return emission parameters if the estimator's parameters give all of them, or None.

        Parameters
        ----------
        family : Family
            Bound to the first data.
        rows : Rows
            The first data, for what is not a parameter of the estimator.
        """
        return None

    def _with_given_emissions(self, family, parameters):
        """Replace what the user gave start values for."""
        return parameters

    def _emission_prior(self, family):
        """Return the prior of the emissions as pseudo-statistics, or None."""
        if self.prior is None:
            return None
        return family.prior_statistics(
            self.n_components, n_features=self.n_features_in_, **self.prior
        )

    # ------------------------------------------------------------------------------------ fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, lengths=None, groups=None):
        """Fit the model to all sequences.

        Parameters
        ----------
        X : list of array-likes of shape (length, n_features), or array-like
            Sequences: a list, an array of shape (n_sequences, length, n_features), or rows of shape
            (n_rows, n_features), which are one sequence if nothing else is said. A row of NaN was
            not observed.
        y : array-like of shape (n_rows,) or list of those, default=None
            Known states for semi-supervised learning: integers 0..n_components - 1, and -1 where
            unknown.
        lengths : array-like of int of shape (n_sequences,), default=None
            With a 2-D X: lengths of the sequences, which follow each other.
        groups : array-like of shape (n_rows,), default=None
            With a 2-D X: the sequence of each row. Works with metadata routing.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the parameters or the data are invalid; the message names the estimator.
        """
        return self._fit(lambda reset: self._observe(X, y, lengths, groups, reset)[0])

    def partial_fit(self, X, y=None, *, lengths=None, groups=None, continues=False):
        """Update the model with a batch of sequences, or with a piece of one that goes on.

        Parameters
        ----------
        X, y, lengths, groups
            As in `fit`.
        continues : bool, default=False
            Whether the first sequence of X goes on where the last one of the previous call that
            had ``continues=True`` stopped. For one endless sequence, pass True with every piece,
            the first included. The state before a piece has the distribution that the model, as it
            was after the previous piece, filters from the past; the new piece smooths it, and the
            move across the seam counts as any other. What is approximate: posteriors of rows
            before the seam are not revised, nor is the filtered distribution when the model
            changes. Needs ``horizon="finite"``.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the batch is invalid; the estimator is left as it was.
        """
        learnt = []

        def observe(reset):
            if continues and self.horizon != "finite":
                raise ValueError("continues=True needs horizon='finite': others end by themselves.")
            data, _ = self._observe(X, y, lengths, groups, reset)
            if continues and not reset:
                data = data.continued(self._state_before())
            learnt.append(data)
            return data

        with self._lock():
            self._partial_fit(observe)
            if continues:
                last = learnt[0][len(learnt[0]) - 1 :]
                self._seam = self.model_, self.model_.filtered(last)[-1].astype(np.float64)
        return self

    def _state_before(self):
        """Distribution of the last state of the sequence that goes on, or None if none does.

        Any other update makes another model, and so does one that was interrupted.
        """
        model, filtered = self.__dict__.get("_seam", (None, None))
        # All 0 after what the model can't make.
        return filtered if model is self.model_ and filtered.any() else None

    def _observe(self, X, y, lengths, groups, reset):
        """Convert and check data; return them, and the form in which the user gave them."""
        with naming(self):
            form = sequence_form(X, lengths, groups)
            family = self._family() if reset else self.model_.family
            data = validated_sequences(self, form, y, family, reset=reset)
        if reset:
            self._rows_per_sequence = len(data.X) / len(data)
        return data, form

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        rows = self._rows_to_start(data)
        family = self._family().bind(rows.X)
        init = self.init if isinstance(self.init, str) else self._checked_centres()
        pseudo_rows = self._all_rows(family, rows) if prior is None else prior.emissions
        mixture = start_model(init, family, rows, self.n_components, random_state, pseudo_rows)
        return self._model(family, self._with_given_emissions(family, mixture.parameters))

    def _all_rows(self, family, rows):
        """Return statistics of all rows for each state, where clusters of rows say too much.

        No symbol is in two clusters, so that emissions made of them never share one, and EM cannot
        change that.
        """
        if not family.rows_are_names:
            return None
        evenly = np.full((len(rows), self.n_components), 1.0 / self.n_components)
        return family.expected_statistics(rows.X, evenly)

    def _given_start(self, data):
        rows = _filled_rows(data)
        family = self._family().bind(rows.X)
        parameters = self._given_emissions(family, rows)
        return None if parameters is None else self._model(family, parameters)

    def _start_prior(self, data):
        rows = self._rows_to_start(data)
        emissions = wide_pseudo_rows(self._family().bind(rows.X), rows, self.n_components)
        model = self._model(self._family(), None)
        # One pseudo-departure for each state, and one pseudo-start.
        return HiddenMarkovStatistics(model.start, model.transmat, emissions)

    def _rows_to_start(self, data):
        rows = _filled_rows(data)
        if len(rows) < self.n_components:
            raise ValueError(
                f"{type(self).__name__} needs at least n_components={self.n_components} rows to"
                f" start from, got n_samples={len(rows)}. Pass a larger (first) batch, or initial"
                " parameters of the emissions."
            )
        return rows

    def _checked_centres(self):
        centres = np.asarray(self.init, dtype=np.float64)
        return self._checked_start("init", centres, (self.n_components, self.n_features_in_))

    # ----------------------------------------------------------------------- start and transitions

    def _model(self, family, parameters):
        """The model that `startprob_init`, `transmat_init` and emission parameters make."""
        transmat = self._start_transmat()
        return HiddenMarkovModel(
            family, self._start_startprob(), transmat, parameters, self._horizon(), self._learnt()
        )

    def _learnt(self):
        emissions = any(letter in self.params for letter in self._emission_letters)
        unknown = set(self.params) - set("st" + self._emission_letters)
        if unknown:
            raise ValueError(
                f"params of {type(self).__name__} has letters other than"
                f" 'st{self._emission_letters}': {self.params!r}."
            )
        return "".join(c for c in "st" if c in self.params) + "e" * emissions

    def _horizon(self):
        if self.horizon == "finite":
            return Finite()
        absorbing = self._absorbing()
        return EmitsOnce(tuple(absorbing.tolist())) if len(absorbing) else SilentEnd()

    def _absorbing(self):
        """Indices of the absorbing states."""
        states = [] if self.absorbing_states is None else self.absorbing_states
        states = np.unique(np.asarray(states, dtype=np.int64))
        if len(states) and (states[0] < 0 or states[-1] >= self.n_components):
            raise ValueError(
                f"absorbing_states of {type(self).__name__} must be in 0..{self.n_components - 1}."
            )
        if len(states) == self.n_components and self.horizon == "absorbing":
            raise ValueError(
                f"absorbing_states of {type(self).__name__} leaves no transient state."
            )
        return states

    def _start_startprob(self):
        if self.startprob_init is not None:
            given = self._checked_shares("startprob_init", self.startprob_init, 1)
            return given / given.sum()
        start = np.ones(self.n_components)
        if self.horizon == "absorbing":
            start[self._absorbing()] = 0.0
        return start / start.sum()

    def _start_transmat(self):
        n_states, absorbing = self.n_components, self._absorbing()
        ends_silently = self.horizon == "absorbing" and len(absorbing) == 0
        if self.transmat_init is not None:
            transmat = self._checked_shares("transmat_init", self.transmat_init, 2)
            if ends_silently and transmat.shape[1] == n_states:
                transmat = np.column_stack([transmat, 1.0 - transmat.sum(axis=1)])
                if transmat.min() < 0:
                    raise ValueError("rows of transmat_init must add up to at most 1.")
        elif ends_silently:
            # An end that is certain would stay so, even if longer sequences follow.
            end = 1.0 / max(self._rows_per_sequence, 2.0)
            transmat = np.full((n_states, n_states + 1), (1.0 - end) / n_states)
            transmat[:, -1] = end
        else:
            transmat = np.ones((n_states, n_states))
        transmat = transmat / transmat.sum(axis=1, keepdims=True)
        transmat[absorbing] = np.eye(*transmat.shape)[absorbing]
        return transmat

    def _checked_shares(self, name, values, n_dimensions):
        """Convert start values that are shares: not negative, and not all 0 in a row."""
        values = np.asarray(values, dtype=np.float64)
        shape = (self.n_components,) * n_dimensions
        ends_silently = self.horizon == "absorbing" and len(self._absorbing()) == 0
        if n_dimensions == 2 and ends_silently and values.shape == (shape[0], shape[0] + 1):
            shape = values.shape
        values = self._checked_start(name, values, shape)
        if values.min() < 0 or not values.sum(axis=-1).all():
            raise ValueError(f"{name} of {type(self).__name__} must not be negative, nor all 0.")
        return values

    def _prior(self, model):
        emissions = self._emission_prior(model.family)
        start, transitions = self.startprob_prior, self.transmat_prior
        if emissions is None and start is None and transitions is None:
            return None
        if emissions is None:
            nothing = np.zeros(self.n_components)
            emissions = model.family.own_statistics(model.parameters, nothing)
        # Structural zeros are certain, whatever the prior says of the rest.
        return HiddenMarkovStatistics(
            _excess(start, "startprob_prior") * (model.start > 0),
            _excess(transitions, "transmat_prior") * (model.transmat > 0),
            emissions,
        )

    def _rows_needed(self, model):
        n_parameters = max(1, model.family.n_parameters(model.parameters))
        return n_parameters / self.n_features_in_ / self._rows_per_sequence

    # ------------------------------------------------------------------------------- fitted values

    @property
    def startprob_(self):
        """Probabilities of the first state, an ndarray of shape (n_components,)."""
        return self._exposed(self.model_.start)

    @property
    def transmat_(self):
        """Probabilities of moves, an ndarray of shape (n_components, n_components)."""
        return self._exposed(self.model_.transmat[:, : self.n_components])

    @property
    def endprob_(self):
        """Probabilities of a silent end after each state, of shape (n_components,).

        Only with ``horizon="absorbing"`` and no `absorbing_states`.
        """
        model = self.model_
        if not isinstance(model.horizon, SilentEnd):
            raise AttributeError("endprob_ is a value of models with silent ends only.")
        return self._exposed(model.transmat[:, -1])

    def get_stationary_distribution(self):
        """Return the distribution that the transitions keep, an ndarray of shape (n_components,).

        Raises
        ------
        ValueError
            If sequences end by themselves, so that there is none.
        """
        model = self.model_
        if not isinstance(model.horizon, Finite):
            raise ValueError(f"{type(self).__name__}: an absorbed chain has no stationary state.")
        n_states = model.n_components
        equations = np.vstack([model.transmat.T - np.eye(n_states), np.ones(n_states)])
        solution = np.linalg.lstsq(equations, np.eye(n_states + 1)[-1], rcond=None)[0]
        return np.maximum(solution, 0.0) / np.maximum(solution, 0.0).sum()

    @property
    def _n_features_out(self):
        return self.n_components

    # ---------------------------------------------------------------------------------- inference

    def _infer(self, X, lengths, groups, method):
        check_is_fitted(self)
        data, form = self._observe(X, None, lengths, groups, reset=False)
        with single_threaded_blas(len(data.X)):
            return getattr(self.model_, method)(data), form

    def score_samples(self, X, *, lengths=None, groups=None):
        """Return the log-likelihood of each sequence.

        Returns
        -------
        log_likelihoods : ndarray of shape (n_sequences,)
            In nats; -inf for a sequence that the model cannot make.
        """
        return self._infer(X, lengths, groups, "log_likelihood")[0]

    def score(self, X, y=None, *, lengths=None, groups=None):
        """Return the mean log-likelihood of the sequences in nats; higher is better.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.
        y : object
            Ignored.

        Returns
        -------
        log_likelihood : float
        """
        return float(self.score_samples(X, lengths=lengths, groups=groups).mean())

    def predict_proba(self, X, *, lengths=None, groups=None):
        """Return the posterior probabilities of the states, given whole sequences.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        posterior : ndarray of shape (n_rows, n_components), or list
            A list of arrays, one for each sequence, if X has one entry for each.
        """
        posterior, form = self._infer(X, lengths, groups, "posterior")
        return form.restored(posterior)

    def transform(self, X, *, lengths=None, groups=None):
        """Return the posterior probabilities of the states, as `predict_proba` does."""
        return self.predict_proba(X, lengths=lengths, groups=groups)

    def filter(self, X, *, lengths=None, groups=None):
        """Return the probabilities of the states given the rows so far, P(h_t | v_1..t).

        Parameters and returned values are those of `predict_proba`.
        """
        filtered, form = self._infer(X, lengths, groups, "filtered")
        return form.restored(filtered)

    def live_filter(self):
        """Return a filter that takes one row at a time.

        Returns
        -------
        live_filter : StateFilter
            Of the model as it is now; later updates do not change it.
        """
        check_is_fitted(self)
        return StateFilter(self.model_)

    def predict(self, X, *, lengths=None, groups=None):
        """Return states: the most probable path, or with ``algorithm="map"`` one row at a time.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.

        Returns
        -------
        states : ndarray of int of shape (n_rows,), or list
            A list of arrays, one for each sequence, if X has one entry for each.
        """
        return self._decoded(X, lengths, groups, self.algorithm)[1]

    def fit_predict(self, X, y=None, *, lengths=None, groups=None):
        """Fit, and return the states of X."""
        fitted = self.fit(X, y, lengths=lengths, groups=groups)
        return fitted.predict(X, lengths=lengths, groups=groups)

    def decode(self, X, *, lengths=None, groups=None, algorithm=None):
        """Return states and how probable they are.

        Parameters
        ----------
        X, lengths, groups
            Sequences, as in `fit`.
        algorithm : {"viterbi", "map"}, default=None
            "viterbi": the most probable path of each sequence; "map": the most probable state of
            each row. None: the estimator's.

        Returns
        -------
        log_probability : float
            "viterbi": joint log-probability of data and paths, summed over sequences. "map": the
            sum over rows of the probabilities of their states, as in hmmlearn.
        states : ndarray of int of shape (n_rows,), or list
        """
        return self._decoded(X, lengths, groups, algorithm or self.algorithm)

    def _decoded(self, X, lengths, groups, algorithm):
        if algorithm == "map":
            posterior, form = self._infer(X, lengths, groups, "posterior")
            return float(posterior.max(axis=1).sum()), form.restored(posterior.argmax(axis=1))
        if algorithm != "viterbi":
            raise ValueError(
                f"algorithm of {type(self).__name__} must be 'viterbi' or 'map', got {algorithm!r}."
            )
        (states, log_probabilities), form = self._infer(X, lengths, groups, "decoded")
        return float(log_probabilities.sum()), form.restored(states)

    def sample(self, n_samples=1, n_sequences=None):
        """Draw rows from the fitted model.

        Parameters
        ----------
        n_samples : int, default=1
            Rows of a sequence; where sequences end by themselves it is not used.
        n_sequences : int, default=None
            How many sequences to draw. None: one, as arrays instead of lists.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or list of such arrays
        states : ndarray of shape (n_samples,), or list of such arrays
        """
        check_is_fitted(self)
        if n_samples < 1 or (n_sequences is not None and n_sequences < 1):
            raise ValueError("n_samples and n_sequences must be at least 1.")
        like = Sequences(Rows(np.empty((n_samples, 0))), np.array([0, n_samples]))
        data, states = self.model_.sample(n_sequences or 1, self._generator(), like)
        X = self._exposed(data.X)
        if n_sequences is None:
            return X, states
        cuts = data.offsets[1:-1]
        return np.split(X, cuts), np.split(states, cuts)

    def _n_parameters(self):
        model = self.model_
        free = np.count_nonzero(model.start) - 1
        free += np.count_nonzero(model.transmat) - model.n_components
        return free + model.family.n_parameters(model.parameters)

    def bic(self, X, *, lengths=None, groups=None):
        """Return the Bayesian information criterion on X; lower is better."""
        log_likelihoods, form = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + self._n_parameters() * np.log(form.offsets[-1])

    def aic(self, X, *, lengths=None, groups=None):
        """Return the Akaike information criterion on X; lower is better."""
        log_likelihoods, _ = self._infer(X, lengths, groups, "log_likelihood")
        return -2.0 * log_likelihoods.sum() + 2.0 * self._n_parameters()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _filled_rows(data):
    """Rows to start from: without those not observed, and with column means for other gaps."""
    rows = Rows(data.X, labels=data.rows.labels, n_threads=data.n_threads)
    if data.observed is None:
        return rows
    rows = rows[np.flatnonzero(data.observed)]
    gaps = np.isnan(rows.X)
    if not gaps.any():
        return rows
    if gaps.all(axis=0).any():
        raise ValueError(
            f"Feature {np.flatnonzero(gaps.all(axis=0))[0]} of X has no value in the data to start"
            " from."
        )
    means = np.nanmean(rows.X, axis=0, dtype=np.float64)
    return replace(rows, X=np.where(np.isnan(rows.X), means, rows.X).astype(rows.X.dtype))


def _excess(concentration, name):
    """Pseudo-counts of a Dirichlet prior beyond those of the uniform one."""
    if concentration is None:
        return 0.0
    concentration = np.asarray(concentration, dtype=np.float64)
    if not (concentration > 0).all():
        raise ValueError(f"{name} must be above 0.")
    return concentration - 1.0
