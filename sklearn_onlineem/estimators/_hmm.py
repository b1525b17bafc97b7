"""What all hidden Markov models share; the estimators add their names for things."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from sklearn_onlineem.estimators._hmm_chain import ChainParameters
from sklearn_onlineem.estimators._hmm_inference import ChainInference
from sklearn_onlineem.estimators._priors import prior_statistics
from sklearn_onlineem.estimators._sequence_model import SequenceModel, filled_rows
from sklearn_onlineem.estimators._starts import STARTS, start_model, wide_pseudo_rows
from sklearn_onlineem.models import HiddenMarkovStatistics

__all__ = ["BaseHMM"]


class BaseHMM(ChainParameters, ChainInference, SequenceModel):
    """Base of the hidden Markov models: they say which family, and name its parameters."""

    _model_parameters = (
        *SequenceModel._model_parameters,
        "termination",
        "absorbing_states",
        "params",
    )
    _parameter_constraints: dict = {
        **SequenceModel._parameter_constraints,
        "termination": [StrOptions({"given_length", "end_state", "absorbing_states"})],
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
        termination="given_length",
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
        self.termination = termination
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
        return prior_statistics(
            self, family, self.prior, self.n_components, n_features=self.n_features_in_
        )

    def _check_goes_on(self):
        if self.termination != "given_length":
            raise ValueError(
                "continues=True needs termination='given_length': others end by themselves."
            )

    def _filtered_end(self, last):
        filtered = self.model_.filtered(last)[-1].astype(np.float64)
        return filtered if filtered.any() else None

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
        if not family.is_nominal:
            return None
        evenly = np.full((len(rows), self.n_components), 1.0 / self.n_components)
        return family.expected_statistics(rows.X, evenly)

    def _given_start(self, data):
        rows = filled_rows(data)
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
        rows = filled_rows(data)
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
