"""Initialiser of mixtures: from parameters of the estimator and rows to a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sklearn_onlineem.estimators._clusters import start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._initialiser import Initialiser
from sklearn_onlineem.estimators._validation import finite_start, relative_shares, shares
from sklearn_onlineem.families import Family
from sklearn_onlineem.models.mixture import MixtureModel, MixtureStatistics

__all__ = ["MixtureInitialiser", "check_rows_to_start"]


@dataclass(frozen=True)
class MixtureInitialiser(Initialiser):
    """Clusters of rows, and what the user gave of the model instead.

    Parameters
    ----------
    family : Family
        Not yet bound to data.
    n_components : int
    init : str or array-like
        As mixtures have it: a kind of start, centres, or responsibilities.
    weights, means : array-like, default=None
        Given start values.
    prior : callable (family, n_features) -> Statistics or None, default=None
        Prior of the components, for rows that alone make no start.
    given_parameters : callable (family, rows) -> parameters, default=None
        What start values of the estimator's own give of the components, without clusters.
    with_given : callable (family, parameters) -> parameters, default=None
        Puts start values of the estimator's own into parameters that clusters gave.
    sufficient : tuple of str, default=()
        Names of start values that together make clusters unnecessary.
    """

    family: Family
    n_components: int
    init: object = "k-means"
    weights: object = None
    means: object = None
    prior: Callable | None = None
    given_parameters: Callable | None = None
    with_given: Callable | None = None
    sufficient: tuple = ()

    def given(self, data):
        from_means = self.means is not None and self.family.determined_by_means
        if self.given_parameters is None and not from_means:
            return None
        family, parameters = self._bound(data), None
        if self.given_parameters is not None:
            parameters = self.given_parameters(family, data)
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        return self._with_given(MixtureModel(family, uniform, parameters), data)

    def stream_model(self, data, random_state):
        check_rows_to_start(len(data), self.n_components, self._sufficient)
        emissions = wide_pseudo_rows(self._bound(data), data, self.n_components, self.prior)
        model = self.estimated(data, random_state, emissions)
        return model, MixtureStatistics(np.zeros(self.n_components), emissions)

    def estimated(self, data, random_state, pseudo_rows=None):
        check_rows_to_start(len(data), self.n_components, self._sufficient)
        family = self._bound(data)
        init = self.init if isinstance(self.init, str) else self._checked_init(data)
        model = start_model(
            init, family, data, self.n_components, random_state, pseudo_rows, self.prior
        )
        if self.with_given is not None:
            parameters = self.with_given(family, model.parameters)
            model = MixtureModel(family, model.weights, parameters)
        return self._with_given(model, data)

    def _bound(self, data):
        return self.family.bind(data.X, data.sample_weight)

    @property
    def _sufficient(self):
        if self.sufficient:
            return self.sufficient
        return ("means_init",) if self.family.determined_by_means else ()

    def _checked_init(self, data):
        init = np.asarray(self.init, dtype=np.float64)
        if init.shape == (len(data), self.n_components):
            return relative_shares("init", init, init.shape)
        return finite_start("init", init, (self.n_components, data.n_features))

    def _with_given(self, model, data):
        """Replace what the user gave start values for."""
        weights, parameters = model.weights, model.parameters
        if self.weights is not None:
            weights = shares("weights_init", self.weights, (self.n_components,))
            weights = weights / weights.sum()
        if self.means is not None:
            means = self._checked_means(model.family, data.n_features)
            parameters = model.family.with_means(parameters, means)
        return MixtureModel(model.family, weights, parameters)

    def _checked_means(self, family, n_features):
        means = finite_start("means_init", self.means, (self.n_components, n_features))
        try:
            family.check_means(means)
        except ValueError as error:
            raise ValueError(f"means_init: {error}") from error
        return means


def check_rows_to_start(n_rows, n_components, sufficient=()):
    """Raise ValueError if there are fewer rows than components."""
    if n_rows < n_components:
        names = ", ".join(sufficient)
        instead = f", or all of the initial parameters: {names}" if names else ""
        raise ValueError(
            f"at least n_components={n_components} rows are needed to start from, got"
            f" n_samples={n_rows}. Pass a larger (first) batch{instead}."
        )
