"""What all mixtures share; the estimators add their names for things."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from sklearn_onlineem.estimators._base import OnlineEM
from sklearn_onlineem.estimators._starts import STARTS, start_model, wide_pseudo_rows
from sklearn_onlineem.estimators._threads import single_threaded_blas
from sklearn_onlineem.estimators._validation import raise_named, validated_rows
from sklearn_onlineem.models import MixtureModel, MixtureStatistics

__all__ = ["BaseMixture"]


class BaseMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, OnlineEM):
    """Base of the mixture estimators: they say which family, and name its parameters."""

    _sparse_ok = False

    _parameter_constraints: dict = {
        **OnlineEM._parameter_constraints,
        "init": [StrOptions(set(STARTS)), "array-like"],
        "weights_init": [None, "array-like"],
        "means_init": [None, "array-like"],
        "weight_concentration_prior": [None, Interval(Real, 0, None, closed="neither")],
        "prior": [None, dict],
    }

    def __init__(
        self,
        n_components=1,
        *,
        solver="online",
        eta0="auto",
        beta=0.6,
        schedule="power",
        batch_size=1000,
        online_passes=1,
        max_iter=100,
        tol=1e-3,
        stopping="likelihood",
        n_init=1,
        init="k-means",
        weights_init=None,
        means_init=None,
        weight_concentration_prior=None,
        prior=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
        verbose_interval=10,
        callbacks=None,
    ):
        self.n_components = n_components
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
        self.init = init
        self.weights_init = weights_init
        self.means_init = means_init
        self.weight_concentration_prior = weight_concentration_prior
        self.prior = prior
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.verbose_interval = verbose_interval
        self.callbacks = callbacks

    @abstractmethod
    def _family(self):
        """Return the family of the components, not yet bound to data."""

    def _prepared(self, X):
        """Return the data as the family takes them."""
        return X

    @property
    def _init(self):
        """Where EM starts."""
        return self.init

    # ------------------------------------------------------------------------------------ fitting

    def _observe(self, X, y, sample_weight, reset):
        try:
            rows = validated_rows(self, X, y, sample_weight, reset=reset)
            X = self._prepared(rows.X)
            if X is not rows.X:
                rows = replace(rows, X=X)
            family = self._family() if reset else self._training.progress.model.family
            family.check(rows.X)
        except (TypeError, ValueError) as error:
            raise_named(error, self)
        return rows

    def _start(self, data, random_state, prior=None):
        given = self._given_start(data)
        if given is not None:
            return given
        self._check_rows_to_start(data)
        family = self._family().bind(data.X, data.sample_weight)
        init = self._init if isinstance(self._init, str) else self._checked_init(data)
        pseudo_rows = None if prior is None else prior.emissions
        model = start_model(init, family, data, self.n_components, random_state, pseudo_rows)
        return self._with_given(model)

    def _start_prior(self, data):
        self._check_rows_to_start(data)
        family = self._family().bind(data.X, data.sample_weight)
        emissions = wide_pseudo_rows(family, data, self.n_components)
        return MixtureStatistics(np.zeros(self.n_components), emissions)

    def _check_rows_to_start(self, data):
        if len(data) < self.n_components:
            raise ValueError(
                f"{type(self).__name__} needs at least n_components={self.n_components} rows to"
                f" start from, got n_samples={len(data)}. Pass a larger (first) batch, or all of"
                f" the initial parameters: {', '.join(self._start_parameters())}."
            )

    def _start_parameters(self):
        """Names of the parameters that make data unnecessary for a start."""
        return ["means_init"]

    def _checked_init(self, data):
        init = np.asarray(self.init, dtype=np.float64)
        if init.shape == (len(data), self.n_components):
            return self._checked_shares("init", init, init.shape)
        return self._checked_start("init", init, (self.n_components, self.n_features_in_))

    def _with_given(self, model):
        """Replace what the user gave start values for."""
        weights, parameters = model.weights, model.parameters
        if self.weights_init is not None:
            weights = self._checked_shares("weights_init", self.weights_init, (self.n_components,))
            weights = weights / weights.sum()
        if self.means_init is not None:
            shape = (self.n_components, self.n_features_in_)
            means = self._checked_start("means_init", self.means_init, shape)
            parameters = model.family.with_means(parameters, means)
        return MixtureModel(model.family, weights, parameters)

    def _given_start(self, data):
        family = self._family()
        if self.means_init is None or not family.means_suffice:
            return None
        uniform = np.full(self.n_components, 1.0 / self.n_components)
        family = family.bind(data.X, data.sample_weight)
        return self._with_given(MixtureModel(family, uniform, None))

    def _prior(self, model):
        family, parameters = model.family, model.parameters
        concentration = self.weight_concentration_prior
        if self.prior is not None:
            emissions = family.prior_statistics(
                self.n_components, n_features=self.n_features_in_, **self.prior
            )
        else:
            emissions = None
        if emissions is None and concentration is None:
            return None
        if emissions is None:
            emissions = family.own_statistics(parameters, np.zeros(self.n_components))
        excess = 0.0 if concentration is None else concentration - 1.0
        return MixtureStatistics(np.full(self.n_components, excess), emissions)

    def _pseudo_count(self, training):
        if self.weight_concentration_prior is None:
            return super()._pseudo_count(training)
        return self.n_components * self.weight_concentration_prior

    def _rows_needed(self, model):
        return max(1, model.family.n_parameters(model.parameters)) / self.n_features_in_

    def _checked_start(self, name, values, shape):
        """Convert a start value to float64 and check its shape, finiteness and sign."""
        values = np.asarray(values, dtype=np.float64)
        if values.shape != shape or not np.isfinite(values).all():
            raise ValueError(
                f"{name} of {type(self).__name__} must be finite and of shape {shape}, got shape"
                f" {values.shape}."
            )
        return values

    def _checked_shares(self, name, values, shape):
        """Convert start values that are shares: not negative, and not all 0 in a row."""
        values = self._checked_start(name, values, shape)
        if values.min() < 0 or not values.sum(axis=-1).all():
            raise ValueError(f"{name} of {type(self).__name__} must not be negative, nor all 0.")
        return values

    # ----------------------------------------------------------------------------- fitted values

    @property
    def weights_(self):
        """Mixture weights, an ndarray of shape (n_components,)."""
        return self._exposed(self.model_.weights)

    @property
    def means_(self):
        """Means of the components, an ndarray of shape (n_components, n_features)."""
        model = self.model_
        return self._exposed(model.family.means(model.parameters))

    def _exposed(self, values):
        """Parameters as users see them: copies in the type of the data that they come from."""
        return values.astype(self._training.dtype)

    @property
    def _n_features_out(self):
        return self.n_components

    # -------------------------------------------------------------------------------- inference

    def predict_proba(self, X):
        """Return the responsibility of each component for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        responsibilities : ndarray of shape (n_samples, n_components)
            Rows add up to 1.
        """
        check_is_fitted(self)
        data = self._observe(X, None, None, reset=False)
        with single_threaded_blas(len(data)):
            return self.model_.posterior(data)

    def predict(self, X):
        """Return the most probable component of each row, an ndarray of shape (n_samples,)."""
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and return the most probable component of each row of X."""
        return self.fit(X, y, sample_weight).predict(X)

    def transform(self, X):
        """Return the responsibilities, as `predict_proba` does."""
        return self.predict_proba(X)

    def sample(self, n_samples=1):
        """Draw rows from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default=1

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
            The component of each row.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
        X, y = self.model_.sample(n_samples, self._generator())
        return self._exposed(X), y

    def _n_parameters(self):
        model = self.model_
        return model.family.n_parameters(model.parameters) + model.n_components - 1

    def bic(self, X):
        """Return the Bayesian information criterion on X; lower is better."""
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        return -2.0 * self.score(X) * n_samples + self._n_parameters() * np.log(n_samples)

    def aic(self, X):
        """Return the Akaike information criterion on X; lower is better."""
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        return -2.0 * self.score(X) * n_samples + 2.0 * self._n_parameters()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._sparse_ok
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
