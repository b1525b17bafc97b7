"""Initialiser of hidden Markov models: from parameters of the estimator and rows to a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.estimators._clusters import start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.estimators._sequences import filled_rows
from sklearn_onlineem.estimators._validation import finite_start
from sklearn_onlineem.estimators.hidden_markov._chain import Chain
from sklearn_onlineem.families import Family
from sklearn_onlineem.models.hidden_markov import HiddenMarkovModel, HiddenMarkovStatistics

__all__ = ["HiddenMarkovInitialiser"]


@dataclass(frozen=True)
class HiddenMarkovInitialiser(Initialiser):
    """Emissions are clusters of the rows, whatever their order; the chain is as it is given.

    Parameters
    ----------
    family : Family
        Of the emissions, not yet bound to data.
    chain : Chain
    learnt : str
        Which of start, transitions and emissions are learnt, of "ste".
    init : str or array-like
        A kind of start of mixtures, or centres.
    prior : callable (family, n_features) -> Statistics or None, default=None
        Prior of the emissions, for rows that alone make no start.
    given_emissions : callable (family, rows) -> parameters or None, default=None
        What start values of the estimator's own give of the emissions, without clusters.
    with_given : callable (family, parameters) -> parameters, default=None
        Puts start values of the estimator's own into parameters that clusters gave.
    bind : callable (rows) -> family, default=None
        Fixes what depends on the first data. None: as the family does.
    """

    family: Family
    chain: Chain
    learnt: str = "ste"
    init: object = "k-means"
    prior: Callable | None = None
    given_emissions: Callable | None = None
    with_given: Callable | None = None
    bind: Callable | None = None

    def given(self, data):
        if self.given_emissions is None:
            return None
        rows = filled_rows(data)
        family = self._bound(rows)
        parameters = self.given_emissions(family, rows)
        return None if parameters is None else self._model(family, parameters, data)

    def estimated(self, data, random_state):
        rows = self._rows_to_start(data)
        family = self._bound(rows)
        return self._estimated(data, rows, family, random_state, self._all_rows(family, rows))

    def stream_model(self, data, random_state):
        rows = self._rows_to_start(data)
        family = self._bound(rows)
        emissions = wide_pseudo_rows(family, rows, self.chain.n_states, self.prior)
        model = self._estimated(data, rows, family, random_state, emissions)
        # One pseudo-departure for each state, and one pseudo-start.
        return model, HiddenMarkovStatistics(model.start, model.transmat, emissions)

    def _estimated(self, data, rows, family, random_state, pseudo_rows):
        n_states = self.chain.n_states
        init = self.init
        if not isinstance(init, str):
            init = finite_start("init", init, (n_states, rows.n_features))
        parameters = start_model(
            init, family, rows, n_states, random_state, pseudo_rows, self.prior
        ).parameters
        if self.with_given is not None:
            parameters = self.with_given(family, parameters)
        return self._model(family, parameters, data)

    def _bound(self, rows):
        return self.family.bind(rows.X) if self.bind is None else self.bind(rows)

    def _model(self, family, parameters, data):
        start, transmat, termination = self.chain.parts(data.n_rows / len(data))
        return HiddenMarkovModel(family, start, transmat, parameters, termination, self.learnt)

    def _all_rows(self, family, rows):
        """Return statistics of all rows for each state, where clusters of rows say too much.

        No symbol is in two clusters, so that emissions made of them never share one, and EM cannot
        change that.
        """
        if not family.is_nominal:
            return None
        evenly = np.full((len(rows), self.chain.n_states), 1.0 / self.chain.n_states)
        return family.expected_statistics(rows.X, evenly)

    def _rows_to_start(self, data):
        rows, n_states = filled_rows(data), self.chain.n_states
        if len(rows) < n_states:
            raise ValueError(
                f"at least n_components={n_states} rows are needed to start from, got"
                f" n_samples={len(rows)}. Pass a larger (first) batch, or initial parameters of the"
                " emissions."
            )
        return rows
