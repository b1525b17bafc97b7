"""What all hidden Markov models share; the estimators add their names for things."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._hmm_chain import ChainParameters
from sklearn_onlineem.estimators._hmm_inference import ChainInference
from sklearn_onlineem.estimators._sequences import sequence_form
from sklearn_onlineem.estimators._starts import STARTS, start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._validation import naming, validated_sequences
from sklearn_onlineem.families import Rows
from sklearn_onlineem.models import HiddenMarkovStatistics

__all__ = ["BaseHMM"]


class BaseHMM(
    ChainParameters, ChainInference, ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEM
):
    """Base of the hidden Markov models: they say which family, and name its parameters."""

    _validated_attributes = (*OnlineEM._validated_attributes, "_rows_per_sequence")
    # With metadata routing, Pipeline.score hands on sample_weight=None though nobody passed any,
    # and refuses final steps that have not heard of it.
    __metadata_request__score = {"sample_weight": None}
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

    def _bound_family(self, rows):
        """Return the family of the emissions, bound to the first data."""
        return self._family().bind(rows.X)

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

    def _data_of(self, X, reset):
        return self._observe(X, None, None, None, reset)[0]

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
        family = self._bound_family(rows)
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
        family = self._bound_family(rows)
        parameters = self._given_emissions(family, rows)
        return None if parameters is None else self._model(family, parameters)

    def _start_prior(self, data):
        rows = self._rows_to_start(data)
        emissions = wide_pseudo_rows(self._bound_family(rows), rows, self.n_components)
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

    def _rows_needed(self, model):
        n_parameters = max(1, model.family.n_parameters(model.parameters))
        return n_parameters / self.n_features_in_ / self._rows_per_sequence

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
